//! From a readable socket to commands.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use danmaku_room::form::Encoding;
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::entry::{Role, Tier};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{
    self, Command, DecodeError, ErrorCode, ErrorMessage, Malformed, Pong, ServerMessage,
};
use danmaku_wire::position::{Epoch, Position};
use danmaku_wire::websocket::decoder::{Event, Input};
use danmaku_wire::websocket::violation::Violation;
use rustix::io::Errno;

use super::membership::Move;
use super::pace::forgiven;
use super::session::{Flags, NOWHERE, Spent};
use super::{Codec, READ_BUFFER, Worker};
use crate::egress::tls::Intake;
use crate::observe::limits::Limit;

/// What a closing session may still send before it is cut off.
const CLOSING_BYTES_MAX: usize = 64 << 10;

/// Whether a session's input goes on.
#[derive(Debug)]
enum Flow {
    Go,
    /// The outbox is full, or the room's replica is awaited: the rest waits.
    Pause,
    /// The session closes, or is no longer here.
    Stop,
    /// The session goes to another worker, with the rest of its input.
    Move(Move),
}

/// Reads a plain socket: what came of it, and how many bytes.
fn take_plain(socket: &OwnedFd, buffer: &mut [u8]) -> (Intake, u32) {
    loop {
        return match rustix::io::read(socket, &mut *buffer) {
            Ok(0) => (Intake::End, 0),
            Ok(n) => (Intake::Bytes(n), n as u32),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => (Intake::Empty, 0),
            Err(_) => (Intake::End, 0),
        };
    }
}

impl Worker {
    /// Reads a session; a panic in it ends that session and no other.
    pub(super) fn guarded_read(&mut self, slot: u32, hup: bool) {
        let session = self.slab.reference(slot);
        if catch_unwind(AssertUnwindSafe(|| self.read(slot, hup))).is_err() {
            self.cells.session_panics.add(1);
            self.codec.get_or_insert_with(Codec::new);
            tracing::error!("a session's handler panicked; the session is closed");
            if let Some(slot) = self.slab.live(session) {
                self.end(slot, DisconnectCode::Internal);
            }
        }
    }

    fn read(&mut self, slot: u32, hup: bool) {
        if self.is_frozen() || self.slab.hot(slot).flags.any(Flags::UNREAD) {
            return;
        }
        let Some(mut codec) = self.codec.take() else { return };
        let session = self.slab.reference(slot);
        self.read_with(slot, hup, &mut codec);
        self.codec = Some(codec);
        // TLS may have something to say of its own: it goes out by a flush of nothing.
        if self.slab.live(session).is_some()
            && self.slab.hot(slot).tls.as_ref().is_some_and(|tls| tls.wants_write())
        {
            self.queue(slot);
        }
    }

    fn read_with(&mut self, slot: u32, hup: bool, codec: &mut Codec) {
        let session = self.slab.reference(slot);
        let mut taken = 0;
        loop {
            let mut buffer = std::mem::take(&mut codec.buffer);
            let hot = self.slab.hot(slot);
            let Some(fd) = &hot.fd else { return };
            let (intake, wire_bytes) = match &mut hot.tls {
                None => take_plain(fd, &mut buffer),
                Some(tls) => (tls.take(fd, hup, &mut buffer), tls.take_wire_bytes()),
            };
            self.cells.bytes_received.add(wire_bytes.into());
            let spent = self.spent(slot);
            spent.bytes = spent.bytes.saturating_add(wire_bytes);
            let flood = u64::from(spent.bytes) > self.config.bytes_per_s;
            let hot = self.slab.hot(slot);
            if flood && intake != Intake::End && !hot.flags.any(Flags::CLOSING) {
                codec.buffer = buffer;
                return self.end_flood(slot, Limit::BytesPerSecond);
            }
            let n = match intake {
                Intake::Bytes(n) => n,
                Intake::Empty => {
                    codec.buffer = buffer;
                    return;
                }
                Intake::End => {
                    codec.buffer = buffer;
                    return self.gone(slot, DisconnectCode::Normal);
                }
            };
            hot.flags.set(Flags::ACTIVE);
            hot.flags.clear(Flags::PINGED);
            taken += n;
            let flow = self.input(slot, &mut buffer[..n], codec);
            codec.buffer = buffer;
            if self.slab.live(session).is_none() || matches!(flow, Flow::Pause) {
                return;
            }
            if matches!(flow, Flow::Stop) && taken > CLOSING_BYTES_MAX {
                return self.gone(slot, DisconnectCode::Policy);
            }
            // A short read has emptied the socket; the edge tells of what comes after it. TLS knows by itself.
            if n < READ_BUFFER && !hup && self.slab.hot(slot).tls.is_none() {
                return;
            }
            if taken >= READ_BUFFER {
                let hot = self.slab.hot(slot);
                if !hot.flags.any(Flags::READY) {
                    hot.flags.set(Flags::READY);
                    self.ready.push(session);
                }
                return;
            }
        }
    }

    /// Takes bytes that came behind the request, as the session's first read.
    pub(super) fn first_input(&mut self, slot: u32, mut leftover: Vec<u8>) {
        let Some(mut codec) = self.codec.take() else { return };
        self.input(slot, &mut leftover, &mut codec);
        self.codec = Some(codec);
    }

    fn input(&mut self, slot: u32, bytes: &mut [u8], codec: &mut Codec) -> Flow {
        let hot = self.slab.hot(slot);
        if hot.flags.any(Flags::CLOSING) {
            return Flow::Stop;
        }
        if hot.flags.any(Flags::SSE) {
            return Flow::Go;
        }
        if self.is_frozen() {
            return self.put_aside(slot, bytes);
        }
        let mut decoder = std::mem::replace(
            &mut self.slab.cold(slot).decoder,
            danmaku_wire::websocket::decoder::Decoder::new(false),
        );
        let session = self.slab.reference(slot);
        let mut input = Input::new(bytes);
        let config = std::sync::Arc::clone(&self.config);
        let inflated_before = codec.inflater.inflated_bytes();
        let budget = self.inflate_budget(slot);
        let flow = loop {
            if self.slab.hot(slot).flags.any(Flags::ATTACHING) {
                break Flow::Pause;
            }
            match decoder.next(&mut input, &mut codec.inflater, &config.frames) {
                Ok(None) => break Flow::Go,
                Ok(Some(event)) => {
                    let spent = self.spent(slot);
                    spent.frames = spent.frames.saturating_add(1);
                    if spent.frames > config.frames_per_s {
                        self.end_flood(slot, Limit::FramesPerSecond);
                        break Flow::Stop;
                    }
                    let flow = self.event(slot, event, &codec.arena);
                    codec.arena.reset();
                    if !matches!(flow, Flow::Go) {
                        break flow;
                    }
                    if codec.inflater.inflated_bytes() - inflated_before > budget {
                        self.end_flood(slot, Limit::InflatedPerSecond);
                        break Flow::Stop;
                    }
                }
                Err(violation) => {
                    self.note_violation(&violation);
                    self.end(slot, violation.disconnect());
                    break Flow::Stop;
                }
            }
        };
        let inflated = codec.inflater.inflated_bytes() - inflated_before;
        if let Some(slot) = self.slab.live(session) {
            if inflated > 0 {
                self.spend_inflated(slot, inflated);
            }
            if let Flow::Pause | Flow::Move(_) = flow {
                // The bound is the read buffer's size, and no more than one buffer is ever read ahead.
                if !decoder.stash(input.rest(), &config.frames) {
                    self.end(slot, DisconnectCode::Policy);
                    return Flow::Stop;
                }
            }
            match flow {
                Flow::Move(to) => {
                    self.hand_over(slot, to, decoder);
                    return Flow::Stop;
                }
                Flow::Pause => self.slab.hot(slot).flags.set(Flags::UNREAD),
                Flow::Go | Flow::Stop => {}
            }
            self.slab.cold(slot).decoder = decoder;
        }
        flow
    }

    /// Ends a session that sent more in a second than it may.
    fn end_flood(&mut self, slot: u32, limit: Limit) {
        self.cells.floods.add(1);
        self.cells.met(limit);
        self.end(slot, DisconnectCode::Policy);
    }

    fn note_violation(&self, violation: &Violation) {
        match violation {
            Violation::FrameTooBig { .. } => self.cells.met(Limit::FrameBytes),
            Violation::MessageTooBig { .. } => self.cells.met(Limit::MessageBytes),
            Violation::TooManyFragments { .. } => self.cells.met(Limit::Fragments),
            _ => {}
        }
    }

    /// Keeps input for later.
    fn put_aside(&mut self, slot: u32, bytes: &[u8]) -> Flow {
        let (hot, cold) = self.slab.both(slot);
        hot.flags.set(Flags::UNREAD);
        if cold.decoder.stash(bytes, &self.config.frames) {
            return Flow::Pause;
        }
        self.end(slot, DisconnectCode::Policy);
        Flow::Stop
    }

    /// Inflated bytes that the session may still cause in this second.
    fn inflate_budget(&mut self, slot: u32) -> u64 {
        let spent = self.spent(slot).inflated.into();
        self.config.inflated_bytes_per_s.saturating_sub(spent)
    }

    /// What came in during this second so far.
    fn spent(&mut self, slot: u32) -> &mut Spent {
        let (second, per_s) = (self.second, self.config.joins_per_s);
        let cold = self.slab.cold(slot);
        if cold.spent.second != second {
            cold.joins = forgiven(cold.joins, second.saturating_sub(cold.spent.second), per_s);
            cold.spent = Spent { second, ..Spent::default() };
        }
        &mut cold.spent
    }

    fn spend_inflated(&mut self, slot: u32, bytes: u64) {
        let spent = self.spent(slot);
        spent.inflated = spent.inflated.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// The outbox has room again: what was kept is looked at, then the socket.
    pub(super) fn resume_input(&mut self, slot: u32) {
        if self.is_frozen() {
            return;
        }
        let hot = self.slab.hot(slot);
        if !hot.flags.any(Flags::UNREAD) || hot.flags.any(Flags::ATTACHING) {
            return;
        }
        hot.flags.clear(Flags::UNREAD);
        let session = self.slab.reference(slot);
        let Some(mut codec) = self.codec.take() else { return };
        let flow = self.input(slot, &mut [], &mut codec);
        self.codec = Some(codec);
        if matches!(flow, Flow::Go) && self.slab.live(session).is_some() {
            let hot = self.slab.hot(slot);
            if !hot.flags.any(Flags::READY) {
                hot.flags.set(Flags::READY);
                self.ready.push(session);
            }
        }
    }

    fn event(&mut self, slot: u32, event: Event<'_>, arena: &bumpalo::Bump) -> Flow {
        let encoding = self.slab.cold(slot).encoding;
        let session = self.slab.reference(slot);
        let command = match event {
            Event::Text(text) if encoding == Encoding::Json => native::json::decode(text, arena),
            Event::Binary(bytes) if encoding == Encoding::Proto => native::arena::decode(bytes, arena),
            Event::Text(_) | Event::Binary(_) => {
                self.end(slot, DisconnectCode::WrongType);
                return Flow::Stop;
            }
            Event::Ping(payload) => {
                self.owe_pong(slot, payload);
                return self.flow(slot);
            }
            Event::Pong(_) => return Flow::Go,
            Event::Close(reason) => {
                self.answer_close(slot, reason.map(|(code, _)| code));
                return Flow::Stop;
            }
        };
        match command {
            Ok(command) => {
                if let Some(to) = self.command(slot, command) {
                    return Flow::Move(to);
                }
            }
            Err(DecodeError::Malformed(malformed)) => {
                let code = match malformed {
                    Malformed::Utf8 => DisconnectCode::InvalidText,
                    _ => DisconnectCode::Protocol,
                };
                self.end(slot, code);
                return Flow::Stop;
            }
            Err(error @ DecodeError::NotOneCommand) => self.bad_request(slot, None, &error),
            Err(error @ DecodeError::BadField { id, .. }) => self.bad_request(slot, id, &error),
        }
        // A command may flush, and a flush may find out that the peer is gone.
        match self.slab.live(session) {
            Some(slot) => self.flow(slot),
            None => Flow::Stop,
        }
    }

    fn flow(&mut self, slot: u32) -> Flow {
        let (hot, cold) = self.slab.both(slot);
        if hot.flags.any(Flags::CLOSING) {
            return Flow::Stop;
        }
        // What comes behind a join is meant for the room that is being joined.
        let max = self.config.outbox_bytes_max;
        let full = cold.outbox.as_ref().is_some_and(|outbox| outbox.pending() > max);
        if full {
            self.cells.met(Limit::Outbox);
        }
        if full || hot.flags.any(Flags::ATTACHING) { Flow::Pause } else { Flow::Go }
    }

    fn bad_request(&mut self, slot: u32, id: Option<&str>, error: &DecodeError<'_>) {
        let text = error.to_string();
        let message = ErrorMessage { message: &text, ..ErrorMessage::new(id, ErrorCode::BadRequest) };
        self.cells.refuse(ErrorCode::BadRequest);
        self.tell_error(slot, &message);
    }

    /// Refuses a command with nothing but a code.
    pub(super) fn refuse(&mut self, slot: u32, id: Option<&str>, code: ErrorCode) {
        self.cells.refuse(code);
        self.tell_error(slot, &ErrorMessage::new(id, code));
    }

    /// Does what a command says; whether the session has to go to another worker for it.
    fn command(&mut self, slot: u32, command: Command<'_>) -> Option<Move> {
        match command {
            Command::Send(send) => self.publish(slot, &send),
            Command::Join(join) => match RoomId::parse(join.room) {
                Ok(room) => {
                    let since =
                        join.since.and_then(|s| Some(Position { epoch: Epoch::parse(s.epoch)?, seq: s.seq }));
                    if self.may_move(slot, &room) {
                        return self.move_to(slot, room, since);
                    }
                }
                Err(_) => self.refuse(slot, None, ErrorCode::RoomInvalid),
            },
            Command::View(view) => self.change_view(slot, view.paused, view.tier),
            Command::Ping(ping) => self.tell(slot, &ServerMessage::Pong(Pong { t: ping.t })),
            Command::Auth(auth) => self.authenticate(slot, auth.token),
            Command::Report(report) => self.report(slot, report),
            // There are none here yet: they are refused, never ignored.
            Command::React(_) => {
                self.refuse(slot, None, ErrorCode::NotSupported);
            }
            Command::Unknown => self.refuse(slot, None, ErrorCode::UnknownCommand),
        }
        None
    }

    /// Whether a session may have all of its room: it comes from this machine, or is staff there.
    fn may_full(&mut self, slot: u32) -> bool {
        self.slab.hot(slot).flags.any(Flags::FULL)
            || self.user(slot).is_some_and(|user| user.author.role == Role::Staff)
    }

    fn change_view(&mut self, slot: u32, paused: bool, tier: Option<Tier>) {
        let room = self.slab.hot(slot).room;
        if room == NOWHERE {
            return self.refuse(slot, None, ErrorCode::NotJoined);
        }
        let was_paused = self.slab.hot(slot).flags.any(Flags::PAUSED);
        if let Some(tier) = tier
            && tier != self.slab.cold(slot).tier
        {
            if tier == Tier::Full && !self.may_full(slot) {
                return self.refuse(slot, None, ErrorCode::Forbidden);
            }
            self.change_tier(slot, tier);
        }
        if paused == was_paused {
            return;
        }
        if paused {
            self.slab.hot(slot).flags.set(Flags::PAUSED);
            self.rooms.get(room).view.delist(&mut self.slab, slot);
        } else {
            self.slab.hot(slot).flags.clear(Flags::PAUSED);
            if !self.slab.hot(slot).flags.any(Flags::ATTACHING) {
                self.rooms.get(room).view.enlist(&mut self.slab, slot);
                self.flush(slot);
            }
        }
    }
}
