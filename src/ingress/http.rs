//! HTTP/1.1 up to the point where a connection becomes a session.
//!
//! hyper parses requests and answers the plain ones. A request that opens a stream (WebSocket or
//! server-sent events) is never answered by it: the socket is taken out, with what was read behind the
//! request, and the response head becomes the first bytes of the session's outbox.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use danmaku_room::form::Encoding;
use danmaku_wire::entry::{Author, Tier};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{ErrorCode, SUBPROTOCOL_JSON, SUBPROTOCOL_PROTO};
use danmaku_wire::position::Position;
use danmaku_wire::websocket::handshake::{self, Policy};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, AUTHORIZATION, HOST, HeaderName, HeaderValue, ORIGIN, VARY,
    WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};

use super::arrival::Arrival;
use super::origin;
use super::page;
use super::problem::problem;
use crate::identity::token;
use crate::observe::cells::Cells;
use crate::wiring::Shared;
use crate::worker::Inbox;

/// Bytes of a request head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of a path with its query: a token in it has 4 KiB.
const TARGET_BYTES_MAX: usize = 8 << 10;
/// The subprotocols spoken, the default first.
const SUBPROTOCOLS: &[&str] = &[SUBPROTOCOL_JSON, SUBPROTOCOL_PROTO];
/// The head of an event stream: it ends with the connection.
const SSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\nX-Accel-Buffering: no\r\nConnection: close\r\n";

/// A worker's HTTP side.
#[derive(Clone)]
pub struct Front {
    shared: Arc<Shared>,
    cells: Arc<Cells>,
    inbox: Rc<Inbox>,
}

/// What a request for a stream asks for; the socket is added when it is taken out of hyper.
struct Stream {
    author: Option<Arc<Author>>,
    response: Vec<u8>,
    encoding: Encoding,
    deflate: bool,
    room: RoomId,
    since: Option<Position>,
    tier: Tier,
    snapshot: bool,
}

type Answer = Result<Response<Full<Bytes>>, std::convert::Infallible>;

/// An answer that is there, or one that never comes because the socket is taken away.
struct Answering(Option<Response<Full<Bytes>>>);

impl Future for Answering {
    type Output = Answer;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        self.0.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
    }
}

impl Front {
    /// The HTTP side of a worker that takes finished handshakes out of `inbox`.
    pub fn new(shared: Arc<Shared>, cells: Arc<Cells>, inbox: Rc<Inbox>) -> Self {
        Self { shared, cells, inbox }
    }

    /// Serves a fresh connection until it becomes a session or ends. Must be called within the worker's
    /// local task set.
    pub fn greet(&self, socket: TcpStream, peer: SocketAddr) {
        let front = self.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = front.serve(socket, peer).await {
                tracing::debug!(%error, "a connection ended in its handshake");
            }
        });
    }

    async fn serve(self, socket: TcpStream, peer: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
        socket.set_nonblocking(true)?;
        let io = TokioIo::new(tokio::net::TcpStream::from_std(socket)?);
        let stream: RefCell<Option<Stream>> = RefCell::new(None);
        let service =
            service_fn(|request: Request<Incoming>| Answering(self.answer(&request, peer, &stream)));
        let mut connection = http1::Builder::new()
            // Who has sent all it had to say may still be answered.
            .half_close(true)
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(self.shared.config.load().handshake_ms))
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(io, service);
        let taken = poll_fn(|cx| {
            let polled = connection.poll_without_shutdown(cx);
            match stream.borrow_mut().take() {
                Some(stream) => Poll::Ready(Ok(Some(stream))),
                None => polled.map_ok(|()| None),
            }
        });
        let Some(stream) = taken.await? else { return Ok(()) };
        let parts = connection.into_parts();
        let Stream { author, response, encoding, deflate, room, since, tier, snapshot } = stream;
        self.inbox.put(Arrival {
            socket: parts.io.into_inner().into_std()?,
            leftover: parts.read_buf.to_vec(),
            response,
            encoding,
            deflate,
            room,
            since,
            tier,
            snapshot,
            author,
            moved: None,
        });
        Ok(())
    }

    /// The answer to a request; none where it asks for a stream, which is then put into `stream`.
    fn answer(
        &self,
        request: &Request<Incoming>,
        peer: SocketAddr,
        stream: &RefCell<Option<Stream>>,
    ) -> Option<Response<Full<Bytes>>> {
        let path = request.uri().path();
        let events = path.strip_prefix("/api/v1/rooms/").and_then(|rest| rest.strip_suffix("/events"));
        let page = match self.gate(request) {
            Ok(page) => page,
            Err(refusal) => {
                self.cells.handshakes_refused.add(1);
                return Some(*refusal);
            }
        };
        let opened = match (path, events) {
            ("/ws", _) => self.websocket(request, peer),
            (_, Some(_)) if request.method() == Method::OPTIONS => return Some(preflight(page)),
            (_, Some(room)) => self.events(request, room, page, peer),
            _ => return Some(Self::plain(request, path)),
        };
        match opened {
            Ok(opened) => {
                *stream.borrow_mut() = Some(opened);
                None
            }
            Err(refusal) => {
                self.cells.handshakes_refused.add(1);
                Some(*refusal)
            }
        }
    }

    /// Who may ask at all: by a name that this server answers to, and for a page that may. The page's origin,
    /// if it is a page that asks.
    fn gate<'r>(&self, request: &'r Request<Incoming>) -> Result<Option<&'r HeaderValue>, Refused> {
        let config = self.shared.config.load();
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        if target > TARGET_BYTES_MAX {
            return Err(problem(414, "uri_too_long", "a path with its query is at most 8 KiB long").into());
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
        if config.listen.ip().is_loopback() && !host.is_some_and(answers) {
            return Err(problem(
                403,
                "host_not_allowed",
                "this server listens on loopback and answers to localhost, 127.0.0.1 and [::1]; a name that a proxy \
                 passes on must be in `http.hosts`",
            )
            .into());
        }
        let opens = request.uri().path() == "/ws" || request.uri().path().starts_with("/api/");
        let Some(page) = request.headers().get(ORIGIN).filter(|_| opens) else { return Ok(None) };
        if page.to_str().is_ok_and(|page| origin::allowed(page, host, &config.origins)) {
            return Ok(Some(page));
        }
        Err(problem(
            403,
            "origin_not_allowed",
            "pages of this origin may not connect; `http.origins` lists who may",
        )
        .into())
    }

    fn plain(request: &Request<Incoming>, path: &str) -> Response<Full<Bytes>> {
        let Some(mut file) = page::file(path) else {
            return problem(
                404,
                "not_found",
                "there is nothing here: the page is at /, clients connect to /ws?room=ROOM",
            );
        };
        match *request.method() {
            Method::GET => file,
            Method::HEAD => {
                *file.body_mut() = Full::default();
                file
            }
            _ => {
                let mut refusal = problem(405, "method_not_allowed", "this is only read: use GET or HEAD");
                refusal.headers_mut().insert(hyper::header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                refusal
            }
        }
    }

    fn websocket(&self, request: &Request<Incoming>, peer: SocketAddr) -> Result<Stream, Refused> {
        let headers: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let headers = headers.iter().copied();
        let http11 = request.version() >= Version::HTTP_11;
        let policy = Policy { deflate: self.shared.config.load().deflate, subprotocols: SUBPROTOCOLS };
        let accepted =
            handshake::accept(request.method().as_str(), http11, headers, &policy).map_err(|error| {
                let mut refusal = problem(error.status(), "bad_handshake", &error.to_string());
                for (name, value) in error.headers() {
                    if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                        refusal.headers_mut().insert(name, HeaderValue::from_static(value));
                    }
                }
                refusal
            })?;
        let query = Query::parse(request.uri().query().unwrap_or(""))?;
        let author = self.identify(request, &query, accepted.auth_token.clone())?;
        let room = query.room.ok_or_else(|| {
            problem(
                400,
                "room_invalid",
                "name the room: /ws?room=ROOM, 1 to 64 characters of A-Z a-z 0-9 _ -",
            )
        })?;
        let mut response = Vec::new();
        accepted.write_response(&mut response);
        Ok(Stream {
            author,
            response,
            encoding: match accepted.subprotocol {
                Some(SUBPROTOCOL_PROTO) => Encoding::Proto,
                _ => Encoding::Json,
            },
            deflate: accepted.deflate.is_some(),
            room,
            since: query.since,
            tier: allowed_tier(query.tier, peer)?,
            snapshot: query.snapshot,
        })
    }

    fn events(
        &self,
        request: &Request<Incoming>,
        room: &str,
        page: Option<&HeaderValue>,
        peer: SocketAddr,
    ) -> Result<Stream, Refused> {
        if request.method() != Method::GET {
            return Err(problem(405, "method_not_allowed", "an event stream is read with GET").into());
        }
        let room = RoomId::parse(room).map_err(|error| problem(400, "room_invalid", &error.to_string()))?;
        let query = Query::parse(request.uri().query().unwrap_or(""))?;
        let author = self.identify(request, &query, None)?;
        // What a browser sends by itself when it reconnects is newer than the URL.
        let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
        let since = last.and_then(Position::parse).or(query.since);
        Ok(Stream {
            author,
            response: event_stream_head(page),
            encoding: Encoding::Sse,
            deflate: false,
            room,
            since,
            tier: allowed_tier(query.tier, peer)?,
            snapshot: query.snapshot,
        })
    }
}

impl Front {
    /// Who is calling: the first token that is there counts, and one that does not count is never taken
    /// for a guest's.
    fn identify(
        &self,
        request: &Request<Incoming>,
        query: &Query,
        offered: Option<String>,
    ) -> Result<Option<Arc<Author>>, Refused> {
        let config = self.shared.config.load();
        let bearer = request.headers().get(AUTHORIZATION).map(|value| {
            let value = value.to_str().ok().and_then(|value| value.split_once(' '));
            match value {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim().to_owned()),
                _ => Err(unauthorized(
                    ErrorCode::TokenInvalid,
                    "write the header as `Authorization: Bearer TOKEN`",
                )),
            }
        });
        let token = match (bearer.transpose()?, offered, &query.token) {
            (Some(token), _, _) => Some(token),
            (None, Some(token), _) => Some(token),
            (None, None, Some(_)) if !config.query_token => {
                return Err(problem(
                    400,
                    "bad_request",
                    "a token in the address ends up in logs: send it as `Authorization: Bearer` or as the \
                     subprotocol danmaku.auth.<base64url>, or set `auth.query_token = true`",
                )
                .into());
            }
            (None, None, token) => token.clone(),
        };
        let Some(token) = token else {
            return if config.anonymous {
                Ok(None)
            } else {
                Err(unauthorized(ErrorCode::Unauthorized, "this server asks for a token"))
            };
        };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        token::verify(&token, &config.auth_keys, now_s)
            .map(Some)
            .map_err(|error| unauthorized(error.code(), &error.to_string()))
    }
}

/// The head of an event stream; a page elsewhere may read it only if it is told so.
fn event_stream_head(page: Option<&HeaderValue>) -> Vec<u8> {
    let mut head = SSE_HEAD.to_vec();
    if let Some(page) = page {
        head.extend_from_slice(b"Vary: Origin\r\nAccess-Control-Allow-Origin: ");
        head.extend_from_slice(page.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The answer to a browser that asks before it asks (Fetch, CORS preflight). Its page was let in already.
fn preflight(page: Option<&HeaderValue>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static("GET, OPTIONS"));
    if let Some(page) = page {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page.clone());
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
        headers
            .insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization, last-event-id"));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }
    response
}

fn unauthorized(code: ErrorCode, detail: &str) -> Refused {
    let mut refusal = problem(401, code.as_str(), detail);
    refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refusal.into()
}

type Refused = Box<Response<Full<Bytes>>>;

/// The full stream costs the most: it is for those on this machine, and later for staff and API keys.
fn allowed_tier(tier: Tier, peer: SocketAddr) -> Result<Tier, Refused> {
    if tier == Tier::Full && !peer.ip().to_canonical().is_loopback() {
        return Err(problem(403, "forbidden", "tier=full is for staff: use standard or lite").into());
    }
    Ok(tier)
}

/// What a stream's URL may say.
struct Query {
    room: Option<RoomId>,
    since: Option<Position>,
    tier: Tier,
    snapshot: bool,
    token: Option<String>,
}

impl Query {
    fn parse(query: &str) -> Result<Self, Refused> {
        let mut parsed = Self { room: None, since: None, tier: Tier::default(), snapshot: true, token: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "room" => {
                    let room =
                        RoomId::parse(&value).map_err(|e| problem(400, "room_invalid", &e.to_string()))?;
                    parsed.room = Some(room);
                }
                // A position that cannot be read is one that is not known here: the client gets a
                // snapshot and `recovered: false`, as after a wiped store.
                "since" => parsed.since = Position::parse(&value),
                "tier" => {
                    parsed.tier = Tier::parse(&value)
                        .ok_or_else(|| problem(400, "bad_request", "tier is one of lite, standard, full"))?;
                }
                "token" => parsed.token = Some(value.into_owned()),
                "snapshot" => {
                    parsed.snapshot = match &*value {
                        "none" => false,
                        "json" => true,
                        "br" => {
                            return Err(problem(
                                400,
                                "not_supported",
                                "snapshot=br is not served yet: use json or none",
                            )
                            .into());
                        }
                        _ => return Err(problem(400, "bad_request", "snapshot is one of none, json").into()),
                    };
                }
                _ => {}
            }
        }
        Ok(parsed)
    }
}
