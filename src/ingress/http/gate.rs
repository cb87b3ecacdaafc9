//! Who may ask at all, and what a page elsewhere is told about it.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, AUTHORIZATION, HOST, HeaderValue, ORIGIN,
    VARY,
};
use hyper::{Method, Request, Response, StatusCode, Version};

use super::{Front, Refused, snapshot};
use crate::identity::api_key;
use crate::ingress::caller::Asker;
use crate::ingress::listener::{Entrance, Kind};
use crate::ingress::origin;
use crate::ingress::problem::problem;
use crate::observe::limits::Limit;

impl Front {
    /// Whether what is asked for is asked for at its own address, where back ends have one: their keys are not to be
    /// tried where everybody connects, and clients have no business with theirs.
    fn fits_entrance(&self, request: &Request<Incoming>, kind: Kind) -> Result<(), Refused> {
        if kind == Kind::Api {
            let path = request.uri().path();
            let of_room = path.strip_prefix("/api/v1/rooms/").and_then(|rest| rest.split_once('/'));
            let of_clients = match of_room {
                Some((_, "events")) => request.method() != Method::POST,
                Some((_, "danmaku")) => true,
                _ => false,
            };
            if of_clients || !path.starts_with("/api/v1/") {
                return Err(problem(404, "not_found", "back ends ask here, under /api/v1").into());
            }
        } else if self.shared.config.load().api_listen.is_some() {
            let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let token = shown.and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim());
            if token.is_some_and(|token| token.starts_with(api_key::MARK)) {
                return Err(
                    problem(403, "forbidden", "keys are shown at the address of `api.listen` alone").into()
                );
            }
        }
        Ok(())
    }
}

/// The head of an event stream: it ends with the connection.
const SSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\nX-Accel-Buffering: no\r\nConnection: close\r\n";

impl Front {
    /// Who may ask at all: by a name that this server answers to, and for a page that may. The page's origin,
    /// if it is a page that asks.
    pub(super) fn gate<'r>(
        &self,
        request: &'r Request<Incoming>,
        asker: &Asker,
        entrance: Entrance,
    ) -> Result<Option<&'r HeaderValue>, Refused> {
        let config = self.shared.config.load();
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        if target > config.target_bytes_max {
            self.cells.met(Limit::TargetBytes);
            let max = config.target_bytes_max;
            let detail = format!("a path with its query is at most {max} bytes long");
            return Err(problem(414, "uri_too_long", &detail).into());
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = match (hosts.next().map(|host| host.to_str()), hosts.next()) {
            (Some(Ok(host)), None) => Some(host),
            (None, None) if request.version() < Version::HTTP_11 => None,
            _ => return Err(problem(400, "bad_request", "exactly one Host header is needed").into()),
        };
        let answers = |host: &str| {
            origin::is_loopback_name(host) || config.hosts.iter().any(|name| origin::is_name(host, name))
        };
        if entrance.loopback && !host.is_some_and(answers) {
            return Err(problem(
                403,
                "host_not_allowed",
                "this server listens on loopback and answers to localhost, 127.0.0.1 and [::1]; a name that a proxy \
                 passes on must be in `http.hosts`",
            )
            .into());
        }
        let path = request.uri().path();
        self.fits_entrance(request, entrance.kind)?;
        let opens = matches!(path, "/ws" | "/route") || path.starts_with("/api/");
        // What everybody may read is read by everybody's pages.
        if snapshot::is_of(path) && self.snapshots_are_public() {
            return Ok(None);
        }
        let Some(page) = request.headers().get(ORIGIN).filter(|_| opens) else { return Ok(None) };
        if page.to_str().is_ok_and(|page| origin::allowed(page, host, asker.secure, &config.origins)) {
            return Ok(Some(page));
        }
        Err(problem(
            403,
            "origin_not_allowed",
            "pages of this origin may not connect; `http.origins` lists who may",
        )
        .into())
    }
}

/// The head of an event stream; a page elsewhere may read it only if it is told so.
pub(super) fn event_stream_head(page: Option<&HeaderValue>) -> Vec<u8> {
    let mut head = SSE_HEAD.to_vec();
    if let Some(page) = page {
        head.extend_from_slice(b"Vary: Origin\r\nAccess-Control-Allow-Origin: ");
        head.extend_from_slice(page.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The answer to a browser that asks before it asks (Fetch, CORS preflight): by which methods, and with which headers.
/// Its page was let in already.
pub(super) fn preflight(
    allow: &'static str,
    methods: &'static str,
    headers_allowed: &'static str,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(allow));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(headers_allowed));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets the page that asks read an answer, a refusal too.
pub(super) fn readable_by(page: Option<&HeaderValue>, response: &mut Response<Full<Bytes>>) {
    if let Some(page) = page {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }
}
