//! Answers of the API.

use axum::response::IntoResponse;
use danmaku_room::admission::Refusal;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;

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
