//! Errors over HTTP, as RFC 9457 problem documents.

use danmaku_wire::native::ErrorCode;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

/// A refusal that is on its way to being an answer.
pub type Refused = Box<Response<Full<Bytes>>>;

/// A problem document. It is never cached and holds nothing of the request.
pub fn problem(status: u16, code: &str, detail: &str) -> Response<Full<Bytes>> {
    document(status, code, detail, &[])
}

/// The problem document of a refused command, with what an `error` message says beside its code.
pub fn refusal(
    code: ErrorCode,
    retry_after_ms: Option<u64>,
    more: &[(&str, Value)],
) -> Response<Full<Bytes>> {
    let mut members = more.to_vec();
    if let Some(ms) = retry_after_ms {
        members.push(("retryAfterMs", json!(ms)));
    }
    let mut response = document(status_of(code), code.as_str(), code.meaning(), &members);
    if code.retryable() {
        // Whole seconds (RFC 9110, section 10.2.3), none of them too early.
        let seconds = retry_after_ms.unwrap_or(1_000).div_ceil(1_000).max(1);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The status of a refused command: one table for all of HTTP.
pub const fn status_of(code: ErrorCode) -> u16 {
    match code {
        ErrorCode::BadRequest
        | ErrorCode::UnknownCommand
        | ErrorCode::NotSupported
        | ErrorCode::TextEmpty
        | ErrorCode::TextTooLong
        | ErrorCode::TextInvalid
        | ErrorCode::NameTooLong
        | ErrorCode::DataTooLong
        | ErrorCode::IdInvalid
        | ErrorCode::RoomInvalid => 400,
        ErrorCode::Unauthorized | ErrorCode::TokenExpired | ErrorCode::TokenInvalid => 401,
        ErrorCode::FilteredWord
        | ErrorCode::Rejected
        | ErrorCode::Muted
        | ErrorCode::Banned
        | ErrorCode::LevelTooLow
        | ErrorCode::MembersOnly
        | ErrorCode::FollowersOnly
        | ErrorCode::ReadOnly
        | ErrorCode::RoomEnded
        | ErrorCode::Forbidden => 403,
        ErrorCode::RoomNotFound => 404,
        ErrorCode::NotJoined | ErrorCode::IdReused | ErrorCode::Duplicate => 409,
        ErrorCode::RoomClosed => 410,
        ErrorCode::ReplayDetected => 425,
        // Not 503: a load balancer would take the server for a broken one because of one client.
        ErrorCode::TooManyErrors | ErrorCode::SlowMode | ErrorCode::RateLimited | ErrorCode::TooManyRooms => {
            429
        }
        ErrorCode::NotStored | ErrorCode::Internal => 500,
        ErrorCode::IdsFull
        | ErrorCode::Overloaded
        | ErrorCode::StoreUnavailable
        | ErrorCode::NotOwner
        | ErrorCode::Unavailable => 503,
    }
}

fn document(status: u16, code: &str, detail: &str, more: &[(&str, Value)]) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut body = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("error"),
        "status": status.as_u16(),
        "code": code,
        "detail": detail,
    });
    for (name, value) in more {
        body[*name] = value.clone();
    }
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `refusal`: every code has the status of an error, and tells when to come back exactly where coming back helps.
    #[test]
    fn every_code_has_a_status_and_says_when_to_come_back() {
        for code in ErrorCode::ALL {
            for (ms, seconds) in [(None, "1"), (Some(0), "1"), (Some(1_000), "1"), (Some(1_001), "2")] {
                let response = refusal(code, ms, &[]);
                assert!(
                    response.status().is_client_error() || response.status().is_server_error(),
                    "{code:?}"
                );
                let told = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap_or("?"));
                assert_eq!(told, code.retryable().then_some(seconds), "{code:?} {ms:?}");
            }
            // What the server is to blame for is a matter of trying again, unless it was shown.
            let blames_itself = status_of(code) >= 500;
            assert!(!blames_itself || code.retryable() || code == ErrorCode::NotStored, "{code:?}");
        }
    }
}
