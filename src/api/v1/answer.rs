//! Answers of the API.

use axum::response::IntoResponse;
use danmaku_room::admission::Refusal;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::ingress::problem::{Refused, refusal};

/// A refusal, as handlers return one.
pub(super) struct Problem(Refused);

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self(refused)
    }
}

impl From<Response<Full<Bytes>>> for Problem {
    fn from(refused: Response<Full<Bytes>>) -> Self {
        Self(refused.into())
    }
}

impl From<Refusal> for Problem {
    fn from(refused: Refusal) -> Self {
        let rule = refused.rule.map(|rule| ("rule", rule.name().into()));
        Self::from(refusal(refused.code, refused.retry_after_ms, rule.as_slice()))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        (*self.0).into_response()
    }
}

/// A JSON document, which nobody keeps: it was written for whoever showed the key.
pub(super) fn document(status: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    response
}
