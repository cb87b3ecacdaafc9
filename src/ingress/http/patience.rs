//! How long a connection may take to ask, and how much it may ask.
//!
//! The first request must be there within the time of a handshake, and so must every later one from its first byte on;
//! between two requests a connection may rest. What is late is cut off, whatever it trickles.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::config::Config;
use crate::observe::limits::Limit;
use crate::worker::Inbox;

/// Where a connection stands.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The first request, or the rest of a later one, must be there by then.
    Head(Instant),
    /// The next request may begin until then.
    Rest(Instant),
    /// A request is being answered, which has bounds of its own.
    Answering,
}

/// The clock of one connection.
pub(super) struct Patience {
    inbox: Rc<Inbox>,
    phase: Cell<Phase>,
    handshake: Duration,
    rest: Duration,
    /// Requests that may still come.
    left: Cell<u32>,
    /// Requests so far.
    taken: Cell<u32>,
    /// Bytes read since the last answer.
    head_bytes: Cell<usize>,
    /// A request counts as being answered until its answer has left.
    underway: Cell<bool>,
    /// Bytes that were to be written have not gone out yet.
    full: Cell<bool>,
    /// The present request has a body that was not read.
    unread: Cell<bool>,
}

impl Patience {
    pub(super) fn new(inbox: Rc<Inbox>, config: &Config) -> Self {
        let handshake = Duration::from_millis(config.handshake_ms);
        Self {
            inbox,
            phase: Cell::new(Phase::Head(Instant::now() + handshake)),
            handshake,
            rest: Duration::from_millis(config.keep_alive_ms),
            left: Cell::new(config.requests_max),
            taken: Cell::new(0),
            head_bytes: Cell::new(0),
            underway: Cell::new(false),
            full: Cell::new(false),
            unread: Cell::new(false),
        }
    }

    /// A request is there, with or without a body to be read.
    pub(super) fn asked(&self, has_body: bool) {
        self.phase.set(Phase::Answering);
        self.unread.set(has_body);
        self.left.set(self.left.get().saturating_sub(1));
        self.taken.set(self.taken.get().saturating_add(1));
        if !self.underway.replace(true) {
            self.inbox.request_begins();
        }
    }

    /// Its answer is there.
    pub(super) fn answered(&self) {
        self.phase.set(Phase::Rest(Instant::now() + self.rest));
        self.head_bytes.set(0);
    }

    /// The connection was looked at: an answer that has left is no longer under way.
    pub(super) fn looked_at(&self) {
        if matches!(self.phase.get(), Phase::Rest(_)) && !self.full.get() {
            self.left_underway();
        }
    }

    fn left_underway(&self) {
        if self.underway.replace(false) {
            self.inbox.request_ends();
        }
    }

    /// Whether no further request is taken behind the present one.
    pub(super) fn exhausted(&self) -> bool {
        self.left.get() == 0
    }

    /// Whether answers to earlier requests have not gone out yet.
    pub(super) fn owes_answers(&self) -> bool {
        self.full.get()
    }

    /// The body of the present request was read to its end.
    pub(super) fn heard_all(&self) {
        self.unread.set(false);
    }

    /// Whether the peer may still be sending what nobody reads: the connection ends with its answer.
    pub(super) fn is_unread(&self) -> bool {
        self.unread.get()
    }

    /// When the connection is cut off unless something happens.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase.get() {
            Phase::Head(due) | Phase::Rest(due) => Some(due),
            Phase::Answering => None,
        }
    }

    /// What was met, at the time that [`Self::due`] gave.
    pub(super) fn late(&self) -> Limit {
        match self.phase.get() {
            Phase::Rest(_) => Limit::KeepAlive,
            _ if self.taken.get() == 0 => Limit::FirstRequest,
            _ => Limit::LaterRequest,
        }
    }

    /// What was met by a head that was too much for the parser.
    pub(super) fn too_large(&self, config: &Config) -> Limit {
        match self.head_bytes.get() >= config.head_bytes_max {
            true => Limit::HeadBytes,
            false => Limit::Headers,
        }
    }

    fn got_bytes(&self, n: usize) {
        self.head_bytes.set(self.head_bytes.get().saturating_add(n));
        if matches!(self.phase.get(), Phase::Rest(_)) {
            self.phase.set(Phase::Head(Instant::now() + self.handshake));
        }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.left_underway();
    }
}

/// A connection that tells its clock what goes on.
pub(super) struct Watched<'a, Io> {
    pub(super) io: Io,
    patience: &'a Patience,
}

impl<'a, Io> Watched<'a, Io> {
    pub(super) fn new(io: Io, patience: &'a Patience) -> Self {
        Self { io, patience }
    }

    fn written<T>(&self, polled: Poll<T>) -> Poll<T> {
        self.patience.full.set(polled.is_pending());
        polled
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Watched<'_, Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if let n @ 1.. = buf.filled().len() - before {
            self.patience.got_bytes(n);
        }
        polled
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Watched<'_, Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.written(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.written(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
