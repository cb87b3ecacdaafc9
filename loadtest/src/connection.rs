//! One connection: dialled without waiting, upgraded, then read into its ledger, or not read at all.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::frame::{self, CLOSE, CONTINUATION, FrameFault, PING, PONG};
use crate::handshake::{self, Refused};
use crate::intake::Intake;
use crate::ledger::Ledger;
use crate::memo::BadDeflate;
use crate::plan::{Role, Spec};
use crate::wire::Wire;

/// The first source address on the loopback; others follow it.
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
/// An input buffer larger than this is given back when it is empty: one large frame per connection must
/// not become the generator's memory.
const CARRY_BYTES_KEPT: usize = 16 << 10;
/// Unsent output above which a publisher is taken for stuck.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// The mask of every frame; the RFC wants it unpredictable for the sake of proxies, of which there is none.
const MASK: [u8; 4] = [0x5A, 0x13, 0xC7, 0x2E];

/// How a connection came to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The system would not connect.
    #[error("could not connect: {0}")]
    NoConnection(Errno),
    /// The server would not upgrade.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// The server closed with a code; `None`: an end without a close frame, or one without a code.
    #[error("the server closed with {}", .0.map_or_else(|| "no code".to_owned(), |code| code.to_string()))]
    Closed(Option<u16>),
    /// The connection was reset or timed out.
    #[error("the connection was reset")]
    Reset,
    /// The server broke the framing.
    #[error("{0}")]
    Frame(#[from] FrameFault),
    /// The server broke the compression.
    #[error("{0}")]
    Deflate(#[from] BadDeflate),
    /// A publisher's output was not taken.
    #[error("the server did not read 1 MiB of publishes")]
    Unread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Upgrading,
    Open,
}

/// A fragmented message under way.
#[derive(Debug)]
struct Fragments {
    opcode: u8,
    compressed: bool,
    bytes: Vec<u8>,
}

/// A connection and its account.
#[derive(Debug)]
pub struct Connection {
    /// What it is for.
    pub spec: Spec,
    /// What it was told.
    pub ledger: Ledger,
    /// How it ended, and when.
    pub end: Option<(End, u64)>,
    /// Whether input is read.
    pub reads: bool,
    wire: Option<Wire>,
    state: State,
    /// Whether compression is offered, then whether it is agreed on.
    deflate: bool,
    carry: Vec<u8>,
    out: Vec<u8>,
    fragments: Option<Box<Fragments>>,
}

/// Opens a socket towards `target` and starts to connect.
///
/// # Errors
/// When the system refuses at once.
pub fn dial(target: SocketAddr, source: Option<u32>, receive_buffer: usize) -> Result<OwnedFd, Errno> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    if receive_buffer > 0 {
        // Before connecting: the window's scale is fixed in the handshake.
        sockopt::set_socket_recv_buffer_size(&fd, receive_buffer)?;
    }
    if let Some(source) = source {
        let address = Ipv4Addr::from(u32::from(FIRST_SOURCE) + source);
        rustix::net::bind(&fd, &SocketAddrV4::new(address, 0))?;
    }
    match rustix::net::connect(&fd, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error),
    }
}

impl Connection {
    /// A connection that is being made; `request`, which may offer compression, is sent as soon as it stands.
    pub fn new(spec: Spec, wire: Wire, request: Vec<u8>, offers_deflate: bool) -> Self {
        Self {
            spec,
            ledger: Ledger::default(),
            end: None,
            reads: true,
            wire: Some(wire),
            state: State::Connecting,
            deflate: offers_deflate,
            carry: Vec::new(),
            out: request,
            fragments: None,
        }
    }

    /// A connection that could not even be tried.
    pub fn failed(spec: Spec, error: Errno, now_ns: u64) -> Self {
        Self {
            spec,
            ledger: Ledger::default(),
            end: Some((End::NoConnection(error), now_ns)),
            reads: false,
            wire: None,
            state: State::Connecting,
            deflate: false,
            carry: Vec::new(),
            out: Vec::new(),
            fragments: None,
        }
    }

    /// The socket while there is one.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.wire.as_ref().map(Wire::socket)
    }

    /// Whether the handshake was done, even if the connection is over by now.
    pub fn was_opened(&self) -> bool {
        self.state == State::Open
    }

    /// Whether it is open now.
    pub fn is_open(&self) -> bool {
        self.state == State::Open && self.end.is_none()
    }

    /// Ends it.
    pub fn finish(&mut self, end: End, now_ns: u64) {
        self.end.get_or_insert((end, now_ns));
        self.wire = None;
        self.carry = Vec::new();
        self.out = Vec::new();
    }

    /// The socket is connected or has failed, or has room again.
    pub fn writable(&mut self, now_ns: u64) {
        let Some(wire) = &self.wire else { return };
        if self.state == State::Connecting {
            match sockopt::socket_error(wire.socket()) {
                Ok(Ok(())) => self.state = State::Upgrading,
                Ok(Err(error)) | Err(error) => return self.finish(End::NoConnection(error), now_ns),
            }
        }
        self.flush(now_ns);
    }

    /// Sends a message, now or as soon as there is room.
    pub fn say(&mut self, opcode: u8, payload: &[u8], now_ns: u64) {
        if self.wire.is_none() {
            return;
        }
        frame::write(&mut self.out, opcode, MASK, payload);
        if self.out.len() > UNSENT_BYTES_MAX {
            return self.finish(End::Unread, now_ns);
        }
        self.flush(now_ns);
    }

    fn flush(&mut self, now_ns: u64) {
        let Some(wire) = &mut self.wire else { return };
        let mut sent = 0;
        let error = loop {
            let done = match &self.out[sent..] {
                [] => wire.flush().map(|()| None),
                rest => wire.send(rest).map(Some),
            };
            match done {
                Ok(Some(n)) => sent += n,
                Ok(None) | Err(Errno::AGAIN) => break None,
                Err(Errno::INTR) => {}
                Err(error) => break Some(error),
            }
        };
        self.out.drain(..sent);
        if error.is_some() {
            self.finish(End::Reset, now_ns);
        }
    }

    /// Reads what there is; `to_the_end` where the peer has shut its side. `clock` is asked once a read.
    pub fn readable(
        &mut self,
        buf: &mut [u8],
        to_the_end: bool,
        intake: &mut Intake,
        clock: impl Fn() -> u64,
    ) {
        while self.reads {
            let Some(wire) = &mut self.wire else { return };
            let short_means_empty = wire.short_means_empty();
            match wire.read(&mut *buf) {
                Ok(0) => return self.finish(End::Closed(None), clock()),
                Ok(n) => {
                    let now_ns = clock();
                    intake.bytes += n as u64;
                    if let Err(end) = self.feed(&buf[..n], now_ns, intake) {
                        return self.finish(end, now_ns);
                    }
                    // Edge-triggered: a read that did not fill the buffer has emptied the socket.
                    if n < buf.len() && short_means_empty && !to_the_end {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.finish(End::Reset, clock()),
            }
        }
    }

    /// Takes the bytes of one read.
    fn feed(&mut self, data: &[u8], now_ns: u64, intake: &mut Intake) -> Result<(), End> {
        let mut carry = std::mem::take(&mut self.carry);
        let carried = !carry.is_empty();
        if carried {
            carry.extend_from_slice(data);
        }
        let bytes = if carried { &carry[..] } else { data };
        let mut at = 0;
        if self.state == State::Upgrading
            && let Some(agreed) = handshake::response(bytes, self.deflate)?
        {
            at = agreed.used;
            (self.state, self.deflate) = (State::Open, agreed.deflate);
            self.reads = self.spec.role != Role::Stuck;
        }
        while self.state == State::Open
            && let Some((frame, used)) = frame::split(&bytes[at..])?
        {
            at += used;
            self.frame(frame, now_ns, intake)?;
        }
        if carried {
            carry.drain(..at);
        } else {
            carry.extend_from_slice(&data[at..]);
        }
        if carry.capacity() <= CARRY_BYTES_KEPT || !carry.is_empty() {
            self.carry = carry;
        }
        Ok(())
    }

    fn frame(&mut self, frame: frame::Frame<'_>, now_ns: u64, intake: &mut Intake) -> Result<(), End> {
        let frame::Frame { fin, compressed, opcode, payload } = frame;
        if compressed && !self.deflate {
            return Err(FrameFault::ReservedBits.into());
        }
        match opcode {
            CLOSE => {
                let code = payload.get(..2).map(|b| u16::from_be_bytes([b[0], b[1]]));
                self.say(CLOSE, payload.get(..2).unwrap_or_default(), now_ns);
                Err(End::Closed(code))
            }
            PING => {
                self.say(PONG, payload, now_ns);
                Ok(())
            }
            PONG => Ok(()),
            CONTINUATION => {
                let Some(mut whole) = self.fragments.take() else { return Err(FrameFault::Fragments.into()) };
                whole.bytes.extend_from_slice(payload);
                if !fin {
                    self.fragments = Some(whole);
                    return Ok(());
                }
                let Fragments { opcode, compressed, bytes } = *whole;
                Ok(intake.message(self.spec, &mut self.ledger, opcode, compressed, &bytes, now_ns)?)
            }
            _ if self.fragments.is_some() => Err(FrameFault::Fragments.into()),
            _ if !fin => {
                self.fragments = Some(Box::new(Fragments { opcode, compressed, bytes: payload.to_vec() }));
                Ok(())
            }
            _ => Ok(intake.message(self.spec, &mut self.ledger, opcode, compressed, payload, now_ns)?),
        }
    }
}
