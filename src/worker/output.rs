//! From messages to a socket, one session at a time; and how a session ends.
//!
//! The order per session: the rest of a half-written frame, then the outbox, then the shared batches.

use std::net::TcpStream;
use std::time::Duration;

use danmaku_room::batch::Kind;
use danmaku_room::form::Encoding;
use danmaku_room::replica::Cursor;
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::entry::Tier;
use danmaku_wire::native::{Ack, AckState, ErrorCode, ErrorMessage, Gap, ServerMessage};
use danmaku_wire::position::Epoch;
use danmaku_wire::websocket::frame::{self, Opcode};

use super::Worker;
use super::fanout::give_own;
use super::message::{Outcome, Publisher, Reply};
use super::session::{Cold, Errors, Flags, Hot, NOWHERE, Outbox};
use crate::egress::{Offer, Taken, offer};
use crate::observe::limits::Limit;

/// How much a session may be brought forward in one go, bytes.
pub(super) const RUN_BYTES_MAX: usize = 256 << 10;
/// How long a closed session may take to go, microseconds.
const CLOSING_US: u64 = 2_000_000;

/// What came of flushing an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flushed {
    /// It is empty.
    Empty,
    /// The socket is full.
    Blocked,
    /// The connection is gone.
    Gone,
}

/// Offers what is in the outbox. The caller has seen to it that no shared frame is half-written.
pub(super) fn flush_outbox(hot: &mut Hot, cold: &mut Cold, now_us: u64, sent: &mut u64) -> Flushed {
    let Some(outbox) = &mut cold.outbox else { return Flushed::Empty };
    let Some(fd) = &hot.fd else { return Flushed::Gone };
    let bytes = &outbox.bytes[outbox.sent..];
    let Offer::Taken(taken) = offer(fd, hot.tls.as_deref_mut(), bytes) else { return Flushed::Gone };
    *sent += taken.bytes as u64;
    outbox.sent += taken.bytes;
    if outbox.pending() == 0 {
        cold.outbox = None;
        hot.flags.set(Flags::ACTIVE);
    }
    if taken.full {
        block(hot, cold, taken.moved, now_us);
        return Flushed::Blocked;
    }
    Flushed::Empty
}

/// Sends what TLS keeps of a session's bytes.
fn flush_tls(hot: &mut Hot, cold: &mut Cold, now_us: u64) -> Flushed {
    let (Some(tls), Some(fd)) = (&mut hot.tls, &hot.fd) else { return Flushed::Empty };
    match tls.flush(fd) {
        Offer::Gone => Flushed::Gone,
        Offer::Taken(Taken { full: true, moved, .. }) => {
            block(hot, cold, moved, now_us);
            Flushed::Blocked
        }
        Offer::Taken(_) => Flushed::Empty,
    }
}

/// Takes a session out of passes until its socket is writable. The grace counts from the first offer
/// that was not taken whole and starts again with every byte that is.
pub(super) fn block(hot: &mut Hot, cold: &mut Cold, progress: bool, now_us: u64) {
    hot.flags.set(Flags::BLOCKED);
    if progress || cold.blocked_us == 0 {
        cold.blocked_us = now_us;
    }
}

impl Worker {
    /// Appends to a session's outbox and sees that it is flushed this turn.
    pub(super) fn outbox(&mut self, slot: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let (hot, cold) = self.slab.both(slot);
        if hot.flags.any(Flags::CLOSING) {
            return;
        }
        write(&mut cold.outbox.get_or_insert_default().bytes);
        self.queue(slot);
    }

    /// Sees that a session is flushed this turn.
    pub(super) fn queue(&mut self, slot: u32) {
        let hot = self.slab.hot(slot);
        if !hot.flags.any(Flags::QUEUED) {
            hot.flags.set(Flags::QUEUED);
            let session = self.slab.reference(slot);
            self.queued.push(session);
        }
    }

    /// Owes a peer the answer to a ping, always. Of those that come while its socket is full only the newest is
    /// answered (RFC 6455, section 5.5.3), so that nobody is owed more than one.
    pub(super) fn owe_pong(&mut self, slot: u32, payload: &[u8]) {
        let (hot, cold) = self.slab.both(slot);
        if hot.flags.any(Flags::CLOSING) {
            return;
        }
        let outbox = cold.outbox.get_or_insert_default();
        if hot.flags.any(Flags::BLOCKED) {
            outbox.take_pong_back();
        }
        let start = outbox.bytes.len();
        self.outbox(slot, |out| frame::write(out, Opcode::Pong, false, payload));
        if let Some(outbox) = &mut self.slab.cold(slot).outbox {
            outbox.pong = start..outbox.bytes.len();
        }
    }

    /// Tells one session something.
    pub(super) fn tell(&mut self, slot: u32, message: &ServerMessage<'_>) {
        let encoding = self.slab.cold(slot).encoding;
        let mut bytes = Vec::new();
        self.encoder.control(message, encoding, &mut bytes);
        self.outbox(slot, |out| out.extend_from_slice(&bytes));
    }

    /// Tells a publisher what became of its publish.
    pub(super) fn tell_fate(&mut self, reply: &Reply) {
        let session = match reply.publisher {
            Publisher::Session(session) => session,
            Publisher::Call(call) => return self.answer_call(call, &reply.outcome),
        };
        let Some(slot) = self.slab.live(session) else { return };
        let unanswered = &mut self.slab.cold(slot).unanswered;
        *unanswered = unanswered.saturating_sub(1);
        let id = (!reply.id.is_empty()).then_some(&*reply.id);
        match &reply.outcome {
            Outcome::Accepted { seq, epoch } => {
                let epoch = epoch.as_ref().map(Epoch::as_str);
                let ack = Ack { id: &reply.id, state: AckState::Accepted, seq: Some(*seq), epoch };
                self.tell(slot, &ServerMessage::Ack(ack));
            }
            Outcome::Held => {
                let ack = Ack { id: &reply.id, state: AckState::Held, seq: None, epoch: None };
                self.tell(slot, &ServerMessage::Ack(ack));
            }
            Outcome::Noted => {}
            Outcome::Refused(refusal) => {
                self.cells.refuse(refusal.code);
                let message = refusal.to_string();
                let error = ErrorMessage {
                    message: &message,
                    retry_after_ms: refusal.retry_after_ms,
                    ..ErrorMessage::new(id, refusal.code)
                };
                self.tell_error(slot, &error);
            }
            Outcome::NotStored { seq } => {
                self.cells.refuse(ErrorCode::NotStored);
                let error = ErrorMessage {
                    seq: Some(*seq),
                    shown: true,
                    ..ErrorMessage::new(id, ErrorCode::NotStored)
                };
                self.tell(slot, &ServerMessage::Error(error));
            }
        }
    }

    /// Tells a session that a command was refused, so often in a second and no more.
    pub(super) fn tell_error(&mut self, slot: u32, error: &ErrorMessage<'_>) {
        let second = self.second as u16;
        let session = self.slab.reference(slot);
        let errors = &mut self.slab.cold(slot).errors;
        if errors.second != second && errors.held == 0 {
            *errors = Errors { second, ..Errors::default() };
        }
        if errors.sent < self.config.errors_per_s {
            errors.sent += 1;
            return self.tell(slot, &ServerMessage::Error(error.clone()));
        }
        if errors.held == 0 {
            self.cells.met(Limit::ErrorsPerSecond);
            self.muffled.push(session);
        }
        errors.held = errors.held.saturating_add(1);
    }

    /// Tells those whose second is over how many errors they were not told one by one.
    pub(super) fn tell_held_errors(&mut self) {
        let mut muffled = std::mem::take(&mut self.muffled);
        muffled.retain(|session| {
            let Some(slot) = self.slab.live(*session) else { return false };
            let waits = self.slab.cold(slot).errors.second == self.second as u16;
            if !waits {
                self.tell_held(slot);
            }
            waits
        });
        self.muffled.append(&mut muffled);
    }

    /// Tells one session how many errors it was not told one by one, if any.
    pub(super) fn tell_held(&mut self, slot: u32) {
        let Errors { held, .. } = std::mem::take(&mut self.slab.cold(slot).errors);
        if held > 0 {
            let count = held.into();
            let error = ErrorMessage { count, ..ErrorMessage::new(None, ErrorCode::TooManyErrors) };
            self.tell(slot, &ServerMessage::Error(error));
        }
    }

    pub(super) fn flush_queued(&mut self) {
        let mut queued = std::mem::take(&mut self.queued);
        for session in queued.drain(..) {
            if let Some(slot) = self.slab.live(session) {
                self.slab.hot(slot).flags.clear(Flags::QUEUED);
                if !self.slab.hot(slot).flags.any(Flags::BLOCKED) {
                    self.flush(slot);
                }
            }
        }
        // What was queued meanwhile (nothing, as a rule) keeps its place in the next turn.
        if self.queued.is_empty() {
            self.queued = queued;
        }
    }

    /// The socket has room again.
    pub(super) fn writable(&mut self, slot: u32) {
        let hot = self.slab.hot(slot);
        if hot.flags.any(Flags::BLOCKED) {
            hot.flags.clear(Flags::BLOCKED);
            self.flush(slot);
        }
    }

    /// Brings one session as far forward as its socket takes it.
    pub(super) fn flush(&mut self, slot: u32) {
        let mut sent = 0;
        let gone = self.flush_counted(slot, &mut sent);
        self.cells.bytes_sent.add(sent);
        if gone {
            return self.gone(slot, DisconnectCode::Normal);
        }
        let (hot, cold) = self.slab.both(slot);
        if !hot.flags.any(Flags::BLOCKED) {
            cold.blocked_us = 0;
            if hot.flags.any(Flags::CLOSING) {
                return self.shut(slot);
            }
            self.resume_input(slot);
        } else if hot.room != NOWHERE && !hot.flags.any(Flags::LISTED) {
            hot.flags.set(Flags::LISTED);
            self.cells.blocked.add(1);
            self.rooms.add_blocked(hot.room, slot);
        }
    }

    /// The steps of a flush; whether the connection is gone.
    fn flush_counted(&mut self, slot: u32, sent: &mut u64) -> bool {
        let (hot, cold) = self.slab.both(slot);
        match flush_tls(hot, cold, self.now.us) {
            Flushed::Empty => {}
            Flushed::Blocked => return false,
            Flushed::Gone => return true,
        }
        loop {
            let (hot, cold) = self.slab.both(slot);
            // A half-written shared frame goes first, then the outbox, then whole batches.
            if hot.cursor.offset == 0 {
                let tail = cold.outbox.as_ref().map_or(0, |o| o.tail);
                self.cells.writes.add(u64::from(cold.outbox.is_some()));
                let flushed = flush_outbox(hot, cold, self.now.us, sent);
                if cold.outbox.is_none() {
                    self.tail_bytes -= tail;
                }
                match flushed {
                    Flushed::Empty => {}
                    Flushed::Blocked => return false,
                    Flushed::Gone => return true,
                }
            }
            let frame_due = hot.cursor.offset > 0;
            // A paused viewer still gets the rest of a frame that was begun.
            let paused = hot.flags.any(Flags::PAUSED) && !frame_due;
            if hot.room == NOWHERE || hot.flags.any(Flags::ATTACHING) || paused {
                return false;
            }
            let view = &mut self.rooms.get(hot.room).view;
            let Some(replica) = view.replica() else { return false };
            let key = cold.key(hot.flags);
            if replica.lapped(hot.cursor) {
                self.tell_gap(slot);
                continue;
            }
            let bytes_max = if frame_due && cold.outbox.is_some() { 0 } else { RUN_BYTES_MAX };
            let Some(run) = replica.run(hot.cursor.seq, key, bytes_max, &[], &mut self.encoder) else {
                return false;
            };
            let offset = hot.cursor.offset as usize;
            let Some(fd) = &hot.fd else { return true };
            let bytes = &run.bytes()[offset..];
            self.cells.writes.add(1);
            let Offer::Taken(taken) = offer(fd, hot.tls.as_deref_mut(), bytes) else { return true };
            *sent += taken.bytes as u64;
            hot.cursor = run.cursor_at(offset + taken.bytes);
            self.cells.delivered.add(hot.cursor.seq - run.start);
            if !run.private().is_empty() {
                give_own(run.private(), run.start..hot.cursor.seq, cold, &mut self.encoder);
            }
            hot.flags.set(Flags::ACTIVE);
            if taken.full {
                block(hot, cold, taken.moved, self.now.us);
                return false;
            }
            cold.blocked_us = 0;
        }
    }

    /// Tells a lapped session what it will not get, and moves it to the live head. The numbers are made
    /// now, when they are written: made earlier they would be out of date.
    pub(super) fn tell_gap(&mut self, slot: u32) {
        let (hot, cold) = self.slab.both(slot);
        let view = &self.rooms.get(hot.room).view;
        let Some(replica) = view.replica() else { return };
        let (mut from, to) = (hot.cursor.seq, replica.head());
        let reason = if cold.blocked_us > 0 { "slow_consumer" } else { "paused" };
        // A change of owner that lies in between is told first: numbers after it are of another epoch.
        let mut change_frame = None;
        let mut older = None;
        if let Some(change) = replica.change_ahead(hot.cursor) {
            change_frame = Some(self.encoder.form(change, cold.key(hot.flags)));
            if let Kind::EpochChange { prev } = &change.kind {
                older = (from <= prev.seq).then(|| (prev.epoch.clone(), from, prev.seq));
            }
            from = change.to + 1;
        }
        hot.cursor = replica.live();
        self.cells.gaps.add(1);
        self.cells.gap_entries.add((to + 1).saturating_sub(from));
        if let Some((epoch, from, to)) = older {
            self.tell(slot, &ServerMessage::Gap(Gap { epoch: Some(epoch.as_str()), from, to, reason }));
        }
        if let Some(frame) = change_frame {
            self.outbox(slot, |out| out.extend_from_slice(&frame));
        }
        if from <= to {
            self.tell(slot, &ServerMessage::Gap(Gap { epoch: None, from, to, reason }));
        }
    }

    /// Keeps what is left of a half-written frame for the session alone, so that its batch may go or its
    /// form change.
    pub(super) fn keep_tail(&mut self, slot: u32) {
        let (hot, cold) = self.slab.both(slot);
        if hot.cursor.offset == 0 || hot.room == NOWHERE {
            return;
        }
        let Some(replica) = self.rooms.get(hot.room).view.replica() else { return };
        let own = replica.batch_at(hot.cursor.seq).filter(|batch| batch.has_private).cloned();
        let Some((rest, cursor)) = replica.rest_of_frame(hot.cursor, cold.key(hot.flags), &mut self.encoder)
        else {
            return;
        };
        hot.cursor = cursor;
        put_tail(cold, &rest);
        if let Some(batch) = own {
            let private: Vec<_> = batch.private().cloned().collect();
            give_own(&private, batch.from..batch.to + 1, cold, &mut self.encoder);
        }
        self.tail_bytes += rest.len();
        self.cells.tail_bytes.set(self.tail_bytes as u64);
    }

    pub(super) fn change_tier(&mut self, slot: u32, tier: Tier) {
        self.keep_tail(slot);
        let room = self.slab.hot(slot).room;
        let listed = self.slab.hot(slot).member != NOWHERE;
        let view = &mut self.rooms.get(room).view;
        view.delist(&mut self.slab, slot);
        self.slab.cold(slot).tier = tier;
        if listed {
            view.enlist(&mut self.slab, slot);
        }
    }

    /// Ends a session with a code: it leaves its room at once, the close frame goes out behind what is
    /// half-written, our side is shut, and the socket closes when the peer has read so far.
    pub(super) fn end(&mut self, slot: u32, code: DisconnectCode) {
        self.end_with(slot, code, |out| frame::close(out, code));
    }

    /// Answers a peer's close with its own code.
    pub(super) fn answer_close(&mut self, slot: u32, code: Option<u16>) {
        self.end_with(slot, DisconnectCode::Normal, |out| frame::close_echo(out, code));
    }

    fn end_with(&mut self, slot: u32, code: DisconnectCode, write: impl FnOnce(&mut Vec<u8>)) {
        if self.slab.hot(slot).flags.any(Flags::CLOSING) {
            return;
        }
        self.keep_tail(slot);
        self.leave(slot);
        self.cells.close(code);
        let (hot, cold) = self.slab.both(slot);
        if cold.encoding != Encoding::Sse {
            write(&mut cold.outbox.get_or_insert_default().bytes);
        }
        hot.flags.set(Flags::CLOSING);
        let session = self.slab.reference(slot);
        self.closing.push((session, self.now.us + CLOSING_US));
        if !self.slab.hot(slot).flags.any(Flags::BLOCKED) {
            self.flush(slot);
        }
    }

    /// Everything is out: our side is shut, so that the close frame arrives before the end does.
    fn shut(&mut self, slot: u32) {
        let hot = self.slab.hot(slot);
        if hot.flags.any(Flags::SHUT) {
            return;
        }
        if let Some(tls) = &mut hot.tls {
            tls.close();
            let (hot, cold) = self.slab.both(slot);
            if flush_tls(hot, cold, self.now.us) == Flushed::Blocked {
                return;
            }
        }
        let hot = self.slab.hot(slot);
        hot.flags.set(Flags::SHUT);
        if let Some(fd) = &hot.fd {
            let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
        }
    }

    /// A connection that is over for good: the slot is free at once.
    pub(super) fn gone(&mut self, slot: u32, code: DisconnectCode) {
        let closing = self.slab.hot(slot).flags.any(Flags::CLOSING);
        if !closing {
            self.leave(slot);
            self.cells.close(code);
        }
        let (_, cold) = self.slab.remove(slot);
        drop(self.shared.addresses.resume(cold.place));
        if let Some(outbox) = cold.outbox {
            self.tail_bytes -= outbox.tail;
            self.cells.tail_bytes.set(self.tail_bytes as u64);
        }
        self.cells.connections.set(self.slab.len() as u64);
    }

    /// A connection that would not take its close frame: reset, so that no orphan keeps kernel buffers.
    pub(super) fn reset(&mut self, slot: u32, code: DisconnectCode) {
        if let Some(fd) = self.slab.hot(slot).fd.as_ref().and_then(|fd| fd.try_clone().ok()) {
            let stream = TcpStream::from(fd);
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
        self.gone(slot, code);
    }

    /// A session that took nothing for the whole grace: 4008 if that can still be queued, else a reset.
    pub(super) fn end_slow(&mut self, slot: u32) {
        self.cells.slow_consumers.add(1);
        self.cells.met(Limit::SlowConsumer);
        let (hot, cold) = self.slab.both(slot);
        let at_border =
            hot.cursor.offset == 0 && cold.outbox.as_ref().is_none_or(|o| o.sent == 0 && o.tail == 0);
        if at_border && let Some(fd) = &hot.fd {
            let mut close = Vec::new();
            frame::close(&mut close, DisconnectCode::SlowConsumer);
            let offered = offer(fd, hot.tls.as_deref_mut(), &close);
            if matches!(offered, Offer::Taken(Taken { bytes, full: false, .. }) if bytes == close.len()) {
                cold.outbox = None;
                hot.flags.clear(Flags::BLOCKED);
                self.leave(slot);
                self.cells.close(DisconnectCode::SlowConsumer);
                self.slab.hot(slot).flags.set(Flags::CLOSING);
                let session = self.slab.reference(slot);
                self.closing.push((session, self.now.us + CLOSING_US));
                return self.shut(slot);
            }
        }
        self.reset(slot, DisconnectCode::SlowConsumer);
    }

    /// Looks for the session whose socket has been full for longest.
    pub(super) fn longest_stuck(&mut self, slots: impl Iterator<Item = u32>) -> Option<u32> {
        let mut longest: Option<(u64, u32)> = None;
        for slot in slots {
            let since = self.slab.cold(slot).blocked_us;
            if since > 0 && longest.is_none_or(|(us, _)| since < us) {
                longest = Some((since, slot));
            }
        }
        longest.map(|(_, slot)| slot)
    }
}

/// Puts the rest of a half-written frame in front of everything that is not half-written itself.
pub(super) fn put_tail(cold: &mut Cold, rest: &[u8]) {
    let outbox: &mut Outbox = cold.outbox.get_or_insert_default();
    // With a shared frame half-written nothing of the outbox can have gone out.
    debug_assert_eq!(outbox.sent, 0, "one frame at a time");
    outbox.bytes.splice(0..0, rest.iter().copied());
    outbox.tail += rest.len();
    outbox.pong = outbox.pong.start + rest.len()..outbox.pong.end + rest.len();
}

/// A cursor that is owed nothing in a room nobody has numbered yet.
pub(super) const NOTHING_OWED: Cursor = Cursor { seq: 0, offset: 0 };
