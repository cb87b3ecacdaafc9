//! HTTP/1.1 up to the point where a connection becomes a session.
//!
//! hyper parses requests and answers the plain ones. A request that opens a stream (WebSocket or
//! server-sent events) is never answered by it: the socket is taken out, with what was read behind the
//! request, and the response head becomes the first bytes of the session's outbox.

mod allowed;
mod api;
mod back_end;
mod calling;
mod gate;
mod identity;
mod moderation;
mod patience;
mod place;
mod publish;
pub mod query;
mod reports;
mod review;
mod settings;
mod snapshot;
mod waiting;
mod words;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use danmaku_room::form::Encoding;
use danmaku_wire::entry::Tier;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{SUBPROTOCOL_JSON, SUBPROTOCOL_PROTO};
use danmaku_wire::position::Position;
use danmaku_wire::websocket::handshake::{self, Policy};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::addresses::Hold;
use super::arrival::Arrival;
use super::caller::Asker;
use super::caller::announced::Announced;
use super::listener::{Entrance, Kind};
use super::page;
use super::problem::{Refused, problem};
use crate::api::v1;
use crate::egress::tls::TlsLayer;
use crate::observe::cells::Cells;
use crate::observe::limits::Limit;
use crate::snapshots::Document;
use crate::wiring::{Departure, Shared};
use crate::worker::Inbox;
use gate::{event_stream_head, preflight, readable_by};
use identity::Who;
use patience::{Patience, Watched};
use query::Query;
use waiting::Waiting;

pub use back_end::vouched_user;
pub use moderation::sanction_json;

/// The subprotocols spoken, the default first.
const SUBPROTOCOLS: &[&str] = &[SUBPROTOCOL_JSON, SUBPROTOCOL_PROTO];
/// Where tickets are made.
const TICKETS: &str = "/api/v1/tickets";
/// Where it is read what staff has ordered.
const AUDIT: &str = "/api/v1/audit";
/// The word list of all rooms.
const WORDS: &str = "/api/v1/words";
/// What is read, and read only.
const READ: &str = "GET, HEAD, OPTIONS";
/// What is read as a stream, and pushed to by back ends.
const STREAMED: &str = "GET, HEAD, POST, OPTIONS";
/// What somebody may go on sending who was refused already, bytes, and for how long.
const HEARD_OUT_BYTES: usize = 1 << 20;
const HEARD_OUT_WITHIN: Duration = Duration::from_secs(2);

/// A worker's HTTP side.
#[derive(Clone)]
pub struct Front {
    shared: Arc<Shared>,
    cells: Arc<Cells>,
    inbox: Rc<Inbox>,
    waiting: Rc<Waiting>,
    api: axum::Router,
}

/// What a request for a stream asks for; the socket is added when it is taken out of hyper.
struct Stream {
    who: Who,
    response: Vec<u8>,
    encoding: Encoding,
    deflate: bool,
    room: RoomId,
    since: Option<Position>,
    tier: Tier,
    /// Whether it comes from this machine.
    nearby: bool,
    snapshot: bool,
    /// What its address is told by in sanctions.
    address: u64,
    /// Its place among the connections of its address; claimed once nothing else can refuse it.
    hold: Option<Hold>,
}

impl Stream {
    /// The head alone, of an event stream.
    fn head(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn arrive(self, socket: TcpStream, tls: Option<Box<TlsLayer>>, leftover: &[u8]) -> Arrival {
        let Self { who, response, encoding, deflate, room, since, tier, nearby, snapshot, address, hold } =
            self;
        let (author, identity) = match who {
            Who::Nobody => (None, None),
            Who::Guest(author) => (Some(author), None),
            Who::User(identity) => (None, Some(identity)),
        };
        Arrival {
            socket,
            tls,
            leftover: leftover.to_vec(),
            response,
            encoding,
            deflate,
            room,
            since,
            tier,
            may_full: nearby || tier == Tier::Full,
            snapshot,
            author,
            identity,
            address,
            hold,
            bridged: None,
            moved: None,
        }
    }
}

/// Who is on the other side of a connection.
#[derive(Debug, Clone, Copy)]
struct Caller {
    peer: SocketAddr,
    entrance: Entrance,
    /// What a proxy said before the first request.
    announced: Announced,
}

/// A connection while it asks.
struct Visit {
    caller: Caller,
    /// Its place among the connections of its address; absent where no limit applies, or a proxy brings many callers.
    hold: RefCell<Option<Hold>>,
    /// The stream that it asked for.
    stream: RefCell<Option<Stream>>,
}

/// A connection taken out of hyper.
struct TakenOut<Io> {
    io: Io,
    /// What was read behind the request.
    leftover: Bytes,
    stream: Stream,
}

type Answer = Result<Response<Full<Bytes>>, std::convert::Infallible>;

/// What becomes of a request.
enum Answering<'a> {
    /// Its answer is there.
    Now(Option<Response<Full<Bytes>>>),
    /// Its answer takes a while.
    Later(Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + 'a>>),
    /// Its answer never comes: the socket is taken away.
    Taken,
}

impl Answering<'_> {
    fn now(response: Response<Full<Bytes>>) -> Self {
        Self::Now(Some(response))
    }
}

/// A request with what goes with every answer to it.
struct Asked<'a> {
    answering: Answering<'a>,
    front: &'a Front,
    patience: &'a Patience,
    page: Option<HeaderValue>,
}

impl Future for Asked<'_> {
    type Output = Answer;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut response = match &mut self.answering {
            Answering::Now(response) => match response.take() {
                Some(response) => response,
                None => return Poll::Pending,
            },
            Answering::Later(later) => ready!(later.as_mut().poll(cx)),
            Answering::Taken => return Poll::Pending,
        };
        readable_by(self.page.as_ref(), &mut response);
        // Once another process serves, the next request is for that one.
        let shared = &self.front.shared;
        let leaving = shared.departure() >= Departure::Draining || shared.replaced.is_set();
        if self.patience.exhausted() {
            self.front.cells.met(Limit::Requests);
        }
        if leaving || self.patience.exhausted() || self.patience.is_unread() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.patience.answered();
        Poll::Ready(Ok(response))
    }
}

impl Front {
    /// The HTTP side of a worker that takes finished handshakes out of `inbox`.
    pub fn new(shared: Arc<Shared>, cells: Arc<Cells>, inbox: Rc<Inbox>) -> Self {
        let api = v1::routes(Arc::clone(&shared), Arc::clone(&cells), inbox.desk());
        Self { shared, cells, inbox, waiting: Rc::default(), api }
    }

    /// Serves a fresh connection until it becomes a session or ends. Must be called within the worker's
    /// local task set.
    pub fn greet(&self, socket: TcpStream, peer: SocketAddr, entrance: Entrance) {
        // Whoever has far too many connections is not even heard.
        let Ok(hold) = self.hold_accepted(peer, entrance.kind) else { return };
        let (seat, full) = self.waiting.seat(self.shared.config.load().handshakes_max);
        if full {
            self.cells.met(Limit::Handshakes);
        }
        let (front, number) = (self.clone(), seat.number());
        let task = tokio::task::spawn_local(async move {
            let _seat = seat;
            if let Err(error) = front.serve(socket, peer, entrance, hold).await {
                tracing::debug!(%error, "a connection ended in its handshake");
            }
        });
        self.waiting.serves(number, task.abort_handle());
    }

    /// Connections that are no sessions.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    async fn serve(
        self,
        socket: TcpStream,
        peer: SocketAddr,
        entrance: Entrance,
        hold: Option<Hold>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        socket.set_nonblocking(true)?;
        let mut socket = tokio::net::TcpStream::from_std(socket)?;
        let announced = self.announced(&mut socket, peer, entrance.kind).await?;
        let Ok(announced_hold) = self.hold_announced(announced) else { return Ok(()) };
        let hold = RefCell::new(hold.or(announced_hold));
        let visit = Visit { caller: Caller { peer, entrance, announced }, hold, stream: RefCell::default() };
        if entrance.kind == Kind::Tls {
            // Apart from the rest, so that plain connections do not carry its size.
            return Box::pin(self.serve_secured(socket, &visit)).await;
        }
        if let Some(taken) = self.serve_http(socket, &visit).await? {
            let socket = taken.io.into_std()?;
            self.inbox.put(taken.stream.arrive(socket, None, &taken.leftover));
        }
        Ok(())
    }

    async fn serve_secured(
        &self,
        socket: tokio::net::TcpStream,
        visit: &Visit,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let Some(tls) = &self.shared.tls else { return Ok(()) };
        let handshake = Duration::from_millis(self.shared.config.load().tls.handshake_ms);
        let secured = match tokio::time::timeout(handshake, tls.accept(socket)).await {
            Ok(Ok(secured)) => secured,
            Ok(Err(error)) => {
                self.cells.tls_handshakes_failed.add(1);
                return Err(error.into());
            }
            Err(late) => {
                self.cells.met(Limit::TlsHandshake);
                self.cells.tls_handshakes_failed.add(1);
                return Err(late.into());
            }
        };
        self.cells.tls_handshakes.add(1);
        if let Some(taken) = self.serve_http(secured, visit).await? {
            let (socket, connection) = taken.io.into_inner();
            let tls = Box::new(TlsLayer::new(connection));
            self.inbox.put(taken.stream.arrive(socket.into_std()?, Some(tls), &taken.leftover));
        }
        Ok(())
    }

    /// Answers requests until one opens a stream, which is then taken out, or the connection ends.
    async fn serve_http<Io: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: Io,
        visit: &Visit,
    ) -> Result<Option<TakenOut<Io>>, hyper::Error> {
        let config = self.shared.config.load_full();
        let patience = Patience::new(Rc::clone(&self.inbox), &config);
        let service = service_fn(|request: Request<Incoming>| self.ask(request, visit, &patience));
        let mut connection = http1::Builder::new()
            // Who has sent all it had to say may still be answered.
            .half_close(true)
            // Its own clock cannot tell a connection at rest from a slow request.
            .header_read_timeout(None)
            .max_headers(config.headers_max)
            .max_buf_size(config.head_bytes_max)
            .serve_connection(TokioIo::new(Watched::new(io, &patience)), service);
        let mut alarm = std::pin::pin!(tokio::time::sleep_until(Instant::now()));
        let ended = poll_fn(|cx| {
            let polled = connection.poll_without_shutdown(cx);
            if visit.stream.borrow().is_some() {
                return Poll::Ready(Ok(()));
            }
            patience.looked_at();
            if let Poll::Ready(ended) = polled {
                return Poll::Ready(ended);
            }
            let Some(due) = patience.due() else { return Poll::Pending };
            if alarm.deadline() != due {
                alarm.as_mut().reset(due);
            }
            alarm.as_mut().poll(cx).map(|()| {
                self.cells.met(patience.late());
                Ok(())
            })
        });
        ended.await.inspect_err(|error| {
            if error.is_parse_too_large() {
                self.cells.met(patience.too_large(&config));
            }
        })?;
        let parts = connection.into_parts();
        let io = parts.io.into_inner().io;
        match visit.stream.take() {
            // Bytes that hyper still has for this socket would be lost, and what follows them would make no sense.
            Some(_) if patience.owes_answers() => Ok(None),
            Some(stream) => Ok(Some(TakenOut { io, leftover: parts.read_buf, stream })),
            None => {
                if patience.is_unread() {
                    hear_out(io).await;
                }
                Ok(None)
            }
        }
    }

    /// Takes a request up.
    fn ask<'a>(&'a self, request: Request<Incoming>, visit: &'a Visit, patience: &'a Patience) -> Asked<'a> {
        patience.asked(!request.body().is_end_stream());
        let asker = self.asker(&request, visit.caller);
        let (page, answering) = match self.gate(&request, &asker, visit.caller.entrance) {
            Ok(page) => (page.cloned(), self.answer(request, asker, visit, patience)),
            Err(refusal) => {
                self.cells.handshakes_refused.add(1);
                (None, Answering::Now(Some(*refusal)))
            }
        };
        Asked { answering, front: self, patience, page }
    }

    /// What becomes of a request that may be asked; one for a stream is put into the visit.
    fn answer<'a>(
        &'a self,
        request: Request<Incoming>,
        asker: Asker,
        visit: &'a Visit,
        patience: &'a Patience,
    ) -> Answering<'a> {
        let path = request.uri().path();
        let of_room = path.strip_prefix("/api/v1/rooms/").and_then(|rest| rest.split_once('/'));
        let asks_first = request.method() == Method::OPTIONS;
        // Where a token may be shown, it is looked at first.
        let of_user = path.strip_prefix("/api/v1/users/");
        let may_show = path == "/ws"
            || !asks_first && (path == TICKETS || path == AUDIT || path == WORDS || of_user.is_some())
            || !asks_first && v1::serves(path)
            || matches!(of_room, Some((_, action)) if !asks_first && moderation::PATHS.contains(&action))
            || matches!(of_room, Some((_, "events" | "danmaku" | "words")) if !asks_first)
            || matches!(of_room, Some((_, rest)) if !asks_first && of_review(rest).is_some());
        if !may_show && let Err(refusal) = self.within(visit) {
            return Answering::now(*refusal);
        }
        let opened = match (path, of_room) {
            ("/ws", _) => self.websocket(&request, &asker),
            (_, Some((_, "events"))) if asks_first => {
                return Answering::now(preflight(
                    STREAMED,
                    "GET, POST",
                    "authorization, content-type, idempotency-key, last-event-id",
                ));
            }
            (_, Some((_, "events"))) if request.method() == Method::POST => {
                return Answering::Later(Box::pin(self.api(request, patience)));
            }
            (v1::DESCRIPTION, _) if !asks_first => {
                return Answering::Later(Box::pin(self.api(request, patience)));
            }
            (_, Some((room, "events"))) => self.events(&request, room, &asker),
            (_, Some((room, rest))) if snapshot::document(rest).is_some() => {
                let (room, document) = (room.to_owned(), snapshot::document(rest).unwrap_or(Document::Json));
                return Answering::Later(Box::pin(
                    async move { self.snapshot(request, &room, document).await },
                ));
            }
            (_, Some((_, "danmaku"))) if asks_first => {
                return Answering::now(preflight("POST, OPTIONS", "POST", "authorization, content-type"));
            }
            (_, Some((room, "danmaku"))) => {
                let room = room.to_owned();
                return Answering::Later(Box::pin(async move {
                    self.publish(request, &room, asker, visit, patience).await
                }));
            }
            (_, Some((room, rest))) if of_review(rest).is_some() => {
                let (room, path) = (room.to_owned(), of_review(rest).unwrap_or_default().to_owned());
                return Answering::Later(Box::pin(async move { self.review(request, &room, &path).await }));
            }
            (_, Some((_, action))) if asks_first && moderation::PATHS.contains(&action) => {
                let methods = "GET, POST, PUT, PATCH, DELETE, OPTIONS";
                return Answering::now(preflight(
                    methods,
                    "GET, POST, PUT, PATCH, DELETE",
                    "authorization, content-type, if-match",
                ));
            }
            (_, Some((room, action))) if moderation::PATHS.contains(&action) => {
                let (room, action) = (room.to_owned(), action.to_owned());
                return Answering::Later(Box::pin(async move {
                    self.moderate(request, &room, &action, patience).await
                }));
            }
            (WORDS, _) | (_, Some((_, "words"))) if asks_first => {
                let methods = "GET, PUT, PATCH, DELETE, OPTIONS";
                let headers = "authorization, content-type, if-match";
                return Answering::now(preflight(methods, "GET, PUT, PATCH, DELETE", headers));
            }
            (WORDS, _) | (_, Some((_, "words"))) => {
                let room = of_room.map(|(room, _)| room.to_owned());
                return Answering::Later(Box::pin(async move {
                    self.words(request, room.as_deref(), patience).await
                }));
            }
            (AUDIT, _) if asks_first => {
                return Answering::now(preflight("GET, OPTIONS", "GET", "authorization"));
            }
            (AUDIT, _) => return Answering::now(self.audit(&request)),
            (TICKETS, _) if asks_first => {
                return Answering::now(preflight("POST, OPTIONS", "POST", "authorization, content-type"));
            }
            (TICKETS, _) => {
                return Answering::Later(Box::pin(async move { self.tickets(request, patience).await }));
            }
            _ if of_user.is_some() => {
                let path = of_user.unwrap_or_default().to_owned();
                return Answering::Later(Box::pin(async move { self.users(request, &path, patience).await }));
            }
            _ if v1::serves(path) && asks_first => {
                return Answering::now(preflight(
                    "GET, HEAD, POST, DELETE, OPTIONS",
                    "GET, POST, DELETE",
                    "authorization, content-type",
                ));
            }
            _ if v1::serves(path) => return Answering::Later(Box::pin(self.api(request, patience))),
            ("/route", _) if asks_first => return Answering::now(preflight(READ, "GET", "authorization")),
            ("/route", _) => return Answering::now(self.route(&request).unwrap_or_else(|refusal| *refusal)),
            _ => return Answering::now(Self::plain(&request, path)),
        };
        match opened {
            Ok(opened) if request.method() == Method::HEAD => Answering::now(opened.head()),
            Ok(opened) => match self.question(&request, &asker, &opened) {
                Some(question) => Answering::Later(Box::pin(async move {
                    match self.open_if_allowed(question, opened, visit, &asker).await {
                        // The socket is taken away: there is no answer to this request.
                        Ok(()) => std::future::pending().await,
                        Err(refusal) => *refusal,
                    }
                })),
                None => match self.open(opened, visit, &asker) {
                    Ok(()) => Answering::Taken,
                    Err(refusal) => Answering::now(*refusal),
                },
            },
            Err(refusal) => {
                self.cells.handshakes_refused.add(1);
                Answering::Now(Some(*refusal))
            }
        }
    }

    /// Puts a stream into the visit, once nothing else can refuse it.
    fn open(&self, mut opened: Stream, visit: &Visit, asker: &Asker) -> Result<(), Refused> {
        let claimed = self.claim(visit, asker, &opened.who);
        opened.hold = claimed.inspect_err(|_| self.cells.handshakes_refused.add(1))?;
        *visit.stream.borrow_mut() = Some(opened);
        Ok(())
    }

    fn plain(request: &Request<Incoming>, path: &str) -> Response<Full<Bytes>> {
        let Some(file) = page::file(path) else {
            return problem(
                404,
                "not_found",
                "there is nothing here: the page is at /, clients connect to /ws?room=ROOM",
            );
        };
        match *request.method() {
            Method::GET | Method::HEAD => file,
            _ => {
                let mut refusal = problem(405, "method_not_allowed", "this is only read: use GET or HEAD");
                refusal.headers_mut().insert(hyper::header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                refusal
            }
        }
    }

    fn websocket(&self, request: &Request<Incoming>, asker: &Asker) -> Result<Stream, Refused> {
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
        let room = query.room.clone().ok_or_else(|| {
            problem(
                400,
                "room_invalid",
                "name the room: /ws?room=ROOM, 1 to 64 characters of A-Z a-z 0-9 _ -",
            )
        })?;
        let who = self.identify(request, &query, accepted.auth_token.clone(), &room)?;
        let tier = allowed_tier(query.tier, asker, &who, &room)?;
        let mut response = Vec::new();
        accepted.write_response(&mut response);
        Ok(Stream {
            who,
            response,
            encoding: match accepted.subprotocol {
                Some(SUBPROTOCOL_PROTO) => Encoding::Proto,
                _ => Encoding::Json,
            },
            deflate: accepted.deflate.is_some(),
            room,
            since: query.since,
            tier,
            nearby: asker.nearby,
            snapshot: query.snapshot,
            address: self.mark(asker),
            hold: None,
        })
    }

    fn events(&self, request: &Request<Incoming>, room: &str, asker: &Asker) -> Result<Stream, Refused> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refusal = problem(
                405,
                "method_not_allowed",
                "an event stream is read with GET, and events are pushed with POST",
            );
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(STREAMED));
            return Err(refusal.into());
        }
        let room = RoomId::parse(room).map_err(|error| problem(400, "room_invalid", &error.to_string()))?;
        let query = Query::parse(request.uri().query().unwrap_or(""))?;
        let who = self.identify(request, &query, None, &room)?;
        let tier = allowed_tier(query.tier, asker, &who, &room)?;
        // What a browser sends by itself when it reconnects is newer than the URL.
        let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
        let since = last.and_then(Position::parse).or(query.since);
        Ok(Stream {
            who,
            response: event_stream_head(request.headers().get(ORIGIN)),
            encoding: Encoding::Sse,
            deflate: false,
            room,
            since,
            tier,
            nearby: asker.nearby,
            snapshot: query.snapshot,
            address: self.mark(asker),
            hold: None,
        })
    }
}

/// What follows `review` in a room's path.
fn of_review(rest: &str) -> Option<&str> {
    rest.strip_prefix("review").filter(|path| path.is_empty() || path.starts_with('/'))
}

/// Lets somebody who was answered before all was read finish, so that the answer is read: a socket that is closed with
/// bytes unread is reset, and a reset overtakes what was written before it (RFC 9112, section 9.6).
async fn hear_out<Io: AsyncRead + AsyncWrite + Unpin>(mut io: Io) {
    let listening = async {
        let _ = io.shutdown().await;
        let mut heard = 0;
        let mut bytes = [0; 4 << 10];
        while let Ok(n @ 1..) = io.read(&mut bytes).await {
            heard += n;
            if heard > HEARD_OUT_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(HEARD_OUT_WITHIN, listening).await;
}

/// The full stream costs the most: it is for those on this machine, and for staff.
fn allowed_tier(tier: Tier, asker: &Asker, who: &Who, room: &RoomId) -> Result<Tier, Refused> {
    if tier == Tier::Full && !asker.nearby && !who.is_staff_in(room) {
        return Err(problem(403, "forbidden", "tier=full is for staff: use standard or lite").into());
    }
    Ok(tier)
}
