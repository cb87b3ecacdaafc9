//! `GET /api/v1/rooms/ROOM/snapshot`: what a newcomer is shown first, as a document that caches may keep.
//!
//! Where guests may read, everybody gets the same bytes: nothing of the request goes into the answer but the content
//! coding that was negotiated, so that a cache needs the path and `Accept-Encoding` alone as its key. Errors are never
//! kept.

use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CACHE_CONTROL,
    CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use hyper::{Method, Request, Response, StatusCode};

use super::gate::preflight;
use super::query::Query;
use super::{Front, READ, Refused};
use crate::config::auth::Anonymous;
use crate::ingress::problem::{problem, refusal};
use crate::snapshots::{Coding, Document};

/// What caches are told. A retracted text may so be shown for six seconds more.
const PUBLIC: HeaderValue = HeaderValue::from_static("public, max-age=1, stale-while-revalidate=5");
/// What they are told where guests may not read.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");

/// The document that a path below a room names.
pub(super) fn document(rest: &str) -> Option<Document> {
    match rest {
        "snapshot" => Some(Document::Json),
        "snapshot/proto" => Some(Document::Proto),
        _ => None,
    }
}

/// Whether a path is a snapshot's.
pub(super) fn is_of(path: &str) -> bool {
    let of_room = path.strip_prefix("/api/v1/rooms/").and_then(|rest| rest.split_once('/'));
    of_room.is_some_and(|(_, rest)| document(rest).is_some())
}

impl Front {
    /// Whether anybody may read snapshots, from any page: then no page's origin is looked at, or told.
    pub(super) fn snapshots_are_public(&self) -> bool {
        self.shared.config.load().anonymous != Anonymous::Refused
    }

    /// Answers with a snapshot.
    pub(super) async fn snapshot(
        &self,
        request: Request<Incoming>,
        room: &str,
        document: Document,
    ) -> Response<Full<Bytes>> {
        let public = self.snapshots_are_public();
        let mut response = match self.find_snapshot(&request, room, document, public).await {
            Ok(response) => response,
            Err(refusal) => *refusal,
        };
        if public {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("etag, retry-after"));
        }
        response
    }

    async fn find_snapshot(
        &self,
        request: &Request<Incoming>,
        room: &str,
        document: Document,
        public: bool,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        match *request.method() {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return Ok(preflight(READ, "GET", "authorization, if-none-match")),
            _ => {
                let mut refusal = problem(405, "method_not_allowed", "a snapshot is read with GET");
                refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(READ));
                return Err(refusal.into());
            }
        }
        // One room has one address: whatever else a cache could take for another document is none.
        let room = RoomId::parse(room).map_err(|error| problem(404, "room_invalid", &error.to_string()))?;
        if request.uri().query().is_some() {
            let detail = "a snapshot takes no query: it is the same for everybody";
            return Err(problem(400, "bad_request", detail).into());
        }
        if !public {
            self.identify(request, &Query::parse("")?, None, &room)?;
        }
        let coding = accepted(request.headers()).ok_or_else(|| {
            let detail = "br, gzip and identity are served: `Accept-Encoding` refuses all of them";
            problem(406, "not_acceptable", detail)
        })?;
        let snapshots = &self.shared.snapshots;
        let made = snapshots.of(&self.shared, &room).await.map_err(refused)?;
        let tag = made.tag(document, coding);
        let mut response = if is_known(request.headers(), &tag) {
            self.cells.snapshots_not_modified.add(1);
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let bytes = snapshots.coded(&made, document, coding).await.map_err(refused)?;
            self.cells.snapshots_served.add(1);
            let mut response = Response::new(Full::new(bytes));
            let headers = response.headers_mut();
            let kind = match document {
                Document::Json => "application/json",
                Document::Proto => "application/x-protobuf",
            };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(
                HeaderName::from_static("x-content-type-options"),
                HeaderValue::from_static("nosniff"),
            );
            if coding != Coding::Identity {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
            }
            response
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, if public { PUBLIC } else { PRIVATE });
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        Ok(response)
    }
}

fn refused(code: ErrorCode) -> Refused {
    let retry_after_ms = code.retryable().then_some(1_000);
    refusal(code, retry_after_ms, &[]).into()
}

/// The best coding that `Accept-Encoding` allows (RFC 9110, section 12.5.3): among those with the greatest weight the
/// densest. Absent, it allows the document as it is, as whoever says nothing may not know of codings.
fn accepted(headers: &HeaderMap) -> Option<Coding> {
    if !headers.contains_key(ACCEPT_ENCODING) {
        return Some(Coding::Identity);
    }
    let said = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let said: Vec<(&str, u16)> = said.flat_map(|value| value.split(',')).filter_map(weighed).collect();
    let weight_of =
        |name: &str| said.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, q)| *q);
    let any = weight_of("*");
    let mut best: Option<(Coding, u16)> = None;
    for coding in Coding::ALL {
        let weight = match (weight_of(coding.name()), any, coding) {
            (Some(weight), ..) => weight,
            (None, Some(weight), _) => weight,
            // As it is, unless that was refused; last among what is wanted.
            (None, None, Coding::Identity) => 1,
            (None, None, _) => 0,
        };
        if weight > 0 && best.is_none_or(|(_, heaviest)| weight > heaviest) {
            best = Some((coding, weight));
        }
    }
    best.map(|(coding, _)| coding)
}

/// A coding with its weight in thousandths; `None` where it is malformed.
fn weighed(item: &str) -> Option<(&str, u16)> {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let mut weight = 1_000;
    for part in parts {
        let q = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="))?;
        let q: f32 = q.parse().ok().filter(|q| (0.0..=1.0).contains(q))?;
        weight = (q * 1_000.0).round() as u16;
    }
    Some((name, weight))
}

/// Whether the client has this form (RFC 9110, section 13.1.2).
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let said = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(',')).map(str::trim).any(|known| {
        // Weakly compared: a proxy that compressed anew may have weakened it.
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        let values = values.iter().map(|value| (name.clone(), HeaderValue::from_static(value)));
        values.collect()
    }

    #[test]
    fn the_densest_coding_that_is_wanted_most_is_taken() {
        use Coding::{Brotli, Gzip, Identity};
        assert_eq!(accepted(&HeaderMap::new()), Some(Identity));
        for (said, expected) in [
            (&["gzip, deflate, br, zstd"][..], Some(Brotli)),
            (&["gzip", "br"], Some(Brotli)),
            (&["GZIP;q=1.0, identity; q=0.5"], Some(Gzip)),
            (&["br;q=0.3, gzip;q=0.9"], Some(Gzip)),
            (&["br;q=0, gzip;q=0.001"], Some(Gzip)),
            (&["*"], Some(Brotli)),
            (&["*;q=0.5, br;q=0"], Some(Gzip)),
            (&["identity"], Some(Identity)),
            (&[""], Some(Identity)),
            (&["deflate"], Some(Identity)),
            (&["br;q=0"], Some(Identity)),
            (&["identity;q=0"], None),
            (&["*;q=0"], None),
            (&["identity;q=0, gzip"], Some(Gzip)),
            (&["br;q=2, gzip"], Some(Gzip)),
            (&["br;q=high"], Some(Identity)),
        ] {
            assert_eq!(accepted(&headers(ACCEPT_ENCODING, said)), expected, "{said:?}");
        }
    }

    #[test]
    fn a_form_is_known_by_its_tag_alone() {
        for (said, known) in [
            (&["\"a-br\""][..], true),
            (&["W/\"a-br\""], true),
            (&["\"x\", \"a-br\""], true),
            (&["\"x\"", "\"a-br\""], true),
            (&["*"], true),
            (&["\"a-gzip\""], false),
            (&["a-br"], false),
            (&[], false),
        ] {
            assert_eq!(is_known(&headers(IF_NONE_MATCH, said), "\"a-br\""), known, "{said:?}");
        }
    }
}
