//! Bodies of requests: JSON as it is, within bounds of size and time.

use std::error::Error;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderMap};

use super::problem::{Refused, problem};
use crate::observe::cells::Cells;
use crate::observe::limits::Limit;
use crate::wiring::Shared;

/// Reads a body to its end.
///
/// # Errors
/// 413 where it is longer than `http.body_bytes_max`, 408 where it takes longer than a handshake may, 400 where it is
/// malformed.
pub async fn read<B>(shared: &Shared, cells: &Cells, body: B) -> Result<Bytes, Refused>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let max = shared.config.load().body_bytes_max;
    read_within(shared, cells, body, max, || too_long(cells, max)).await
}

/// The same with a bound of its own: whoever sends more than `max` bytes is told what `over` says.
///
/// # Errors
/// As [`read`], but for that.
pub async fn read_within<B>(
    shared: &Shared,
    cells: &Cells,
    body: B,
    max: usize,
    over: impl FnOnce() -> Refused,
) -> Result<Bytes, Refused>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let within = Duration::from_millis(shared.config.load().handshake_ms);
    let whole = Limited::new(body, max).collect();
    match tokio::time::timeout(within, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(over()),
        Ok(Err(_)) => {
            Err(problem(400, "bad_request", "the body ended early, or its chunks are malformed").into())
        }
        Err(_) => {
            cells.met(Limit::BodyTime);
            Err(problem(408, "request_timeout", "the body did not come within the time of a handshake")
                .into())
        }
    }
}

/// What somebody is told whose body is longer than `max`.
pub fn too_long(cells: &Cells, max: usize) -> Refused {
    cells.met(Limit::BodyBytes);
    problem(413, "body_too_long", &format!("the body of a request is at most {max} bytes long")).into()
}

/// A body is JSON, and as it is: nothing is inflated, and nothing else is expected.
///
/// # Errors
/// 415 and 417 where the head says otherwise.
pub fn check_form(headers: &HeaderMap) -> Result<(), Refused> {
    let is_json = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
        let bare = kind.split(';').next().unwrap_or_default().trim();
        bare.eq_ignore_ascii_case("application/json")
    });
    if !is_json {
        return Err(
            problem(415, "unsupported_media_type", "send JSON: `Content-Type: application/json`").into()
        );
    }
    check_as_is(headers)
}

/// A body is as it is: nothing is inflated, and nothing else is expected.
///
/// # Errors
/// 415 and 417 where the head says otherwise.
pub fn check_as_is(headers: &HeaderMap) -> Result<(), Refused> {
    let encoded = headers.get_all(CONTENT_ENCODING).iter();
    if encoded.into_iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(problem(
            415,
            "unsupported_media_type",
            "send the body as it is, without Content-Encoding",
        )
        .into());
    }
    if headers.get(EXPECT).is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(problem(417, "expectation_failed", "only `Expect: 100-continue` is met").into());
    }
    Ok(())
}
