//! `GET /route?room=ROOM`: where a room is served.
//!
//! The address is the configured one and never what a request says of itself: a Host that a stranger chose would send
//! viewers wherever the stranger likes. It holds the room and nothing else; a token has no place in it.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderValue, LOCATION, REFERRER_POLICY};
use hyper::{Method, Request, Response, StatusCode};

use super::query::Query;
use super::{Front, Refused};
use crate::ingress::document;
use crate::ingress::problem::problem;

impl Front {
    /// The room's address, as a redirection and as JSON.
    pub(super) fn route(&self, request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Refused> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refusal = problem(405, "method_not_allowed", "a room's address is read with GET or HEAD");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return Err(refusal.into());
        }
        let room = Query::parse(request.uri().query().unwrap_or(""))?.room.ok_or_else(|| {
            problem(
                400,
                "room_invalid",
                "name the room: /route?room=ROOM, 1 to 64 characters of A-Z a-z 0-9 _ -",
            )
        })?;
        let config = self.shared.config.load();
        let base = config.advertised_url.as_ref().map_or("", |url| url.as_str());
        let url = format!("{base}/ws?room={}", room.as_str());
        let body = serde_json::json!({ "url": url }).to_string();
        let mut response = document::json(StatusCode::TEMPORARY_REDIRECT, body);
        let headers = response.headers_mut();
        if let Ok(location) = HeaderValue::from_str(&url) {
            headers.insert(LOCATION, location);
        }
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        Ok(response)
    }
}
