//! HTTP/1.1 up to the point where a connection becomes a session.
//!
//! hyper parses requests and answers the plain ones. A request that opens a stream (WebSocket or
//! server-sent events) is never answered by it: the socket is taken out, with what was read behind the
//! request, and the response head becomes the first bytes of the session's outbox.

mod gate;
mod identity;
mod query;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use danmaku_room::form::Encoding;
use danmaku_wire::entry::{Author, Tier};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{SUBPROTOCOL_JSON, SUBPROTOCOL_PROTO};
use danmaku_wire::position::Position;
use danmaku_wire::websocket::handshake::{self, Policy};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};

use super::arrival::Arrival;
use super::page;
use super::problem::problem;
use crate::observe::cells::Cells;
use crate::wiring::Shared;
use crate::worker::Inbox;
use gate::{event_stream_head, preflight};
use query::Query;

/// Bytes of a request head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The subprotocols spoken, the default first.
const SUBPROTOCOLS: &[&str] = &[SUBPROTOCOL_JSON, SUBPROTOCOL_PROTO];
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

type Refused = Box<Response<Full<Bytes>>>;

/// The full stream costs the most: it is for those on this machine, and later for staff and API keys.
fn allowed_tier(tier: Tier, peer: SocketAddr) -> Result<Tier, Refused> {
    if tier == Tier::Full && !peer.ip().to_canonical().is_loopback() {
        return Err(problem(403, "forbidden", "tier=full is for staff: use standard or lite").into());
    }
    Ok(tier)
}
