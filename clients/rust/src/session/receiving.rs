//! What the server says, and what follows from it.

use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use crate::cursor::Coverage;
use crate::event::{Event, ResetReason, Source, State};
use crate::item::{self, Entry, Removal};
use crate::message::{
    AckFields, AuthFields, Batch, EpochFields, ErrorFields, GapFields, Joined, ReconnectFields, RoomUpdate,
    ServerMessage, Snapshot, You,
};
use crate::options::{Identity, check_url};
use crate::outbox::{Ack, AckState};
use crate::position::{Epoch, Position};

use super::connection::Phase;
use super::{Action, Output, Refresh, Session};

/// Servers answer so many commands a second one by one; after this long they do again.
const ERRORS_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What is remembered of the last join while its consequences arrive.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// The reason to give when the snapshot comes.
    reset: Option<ResetReason>,
    /// Up to which number of the room's epoch entries are older than the join.
    backlog_to: u64,
}

impl Session {
    /// A text message of the server. What this client does not know is skipped.
    pub fn handle_message(&mut self, now: Instant, text: &str) {
        self.handle_activity(now);
        let Phase::Open(open) = &self.phase else { return };
        let joined = open.joined_at.is_some();
        let Some(message) = ServerMessage::read(text) else { return };
        match message {
            ServerMessage::Joined(joined) => self.joined(now, joined),
            ServerMessage::Ack(ack) => self.acked(ack),
            ServerMessage::Error(error) => self.refused(now, error),
            ServerMessage::Auth(auth) => self.auth(auth),
            ServerMessage::Reconnect(reconnect) => self.reconnect(now, reconnect),
            ServerMessage::Pong(pong) => self.pong(now, pong.t),
            // The rest is about the room, and while a join is out, about one that was left.
            _ if !joined => {}
            ServerMessage::Batch(batch) => self.batch(now, &batch),
            ServerMessage::Snapshot(snapshot) => self.snapshot(snapshot),
            ServerMessage::Gap(gap) => self.gap(gap),
            ServerMessage::Epoch(epoch) => self.epoch(epoch),
            ServerMessage::Room(room) => self.room_update(room),
            ServerMessage::Pending(pending) => self.tell(Event::Pending(pending)),
        }
    }

    /// Anything else came: a ping of the WebSocket, say.
    pub fn handle_activity(&mut self, now: Instant) {
        if let Phase::Open(open) = &mut self.phase {
            open.heard = now;
            open.asked = None;
        }
    }

    fn joined(&mut self, now: Instant, joined: Joined) {
        let Phase::Open(open) = &mut self.phase else { return };
        open.joins = open.joins.saturating_sub(1);
        // The answer to a join before the last.
        if open.joins > 0 || joined.room != *self.room {
            return;
        }
        open.joined_at = Some(now);
        self.came_from = None;
        let had_position = self.cursor.position().is_some();
        // A loss whose snapshot never came is still to be told.
        let is_lost = had_position || self.receiving.reset == Some(ResetReason::Lost);
        self.receiving = Receiving { reset: None, backlog_to: joined.seq };
        self.online = joined.online;
        self.identify(joined.you.clone());
        let reset = if is_lost { ResetReason::Lost } else { ResetReason::Snapshot };
        if joined.recovered && had_position {
            self.cursor.resumed(joined.epoch.clone());
        } else if self.options.snapshot {
            self.receiving.reset = Some(reset);
            self.cursor.awaits_snapshot(joined.epoch.clone());
        } else {
            self.cursor.placed(Position { epoch: joined.epoch.clone(), seq: joined.seq });
        }
        let lost_for_good = had_position && !joined.recovered && !self.options.snapshot;
        self.tell_state(State::Open);
        self.tell(Event::Joined(joined));
        if lost_for_good {
            self.tell(Event::Reset(ResetReason::Lost));
        }
        if self.paused {
            self.say_view(None);
        }
    }

    fn identify(&mut self, you: You) {
        if let Some(guest) = &you.guest {
            self.guest = Some(guest.clone());
        }
        self.you = you;
    }

    fn batch(&mut self, now: Instant, batch: &Batch<'_>) {
        match self.cursor.batch(batch.from, batch.to) {
            Coverage::Hole => return self.leave_and_come_back(now, "entries were lost on the way"),
            Coverage::Unplaced => return,
            Coverage::Known => {}
        }
        let source = if batch.to <= self.receiving.backlog_to { Source::Backlog } else { Source::Live };
        self.entries(&batch.items, source);
    }

    fn entries(&mut self, items: &[&RawValue], source: Source) {
        let Some(epoch) = self.cursor.position().map(|position| position.epoch.clone()) else { return };
        for raw in items {
            let Some((seq, entry)) = item::read(raw.get()) else { continue };
            if self.cursor.is_new(seq) {
                self.entry(entry, source, &epoch);
            }
        }
    }

    fn entry(&mut self, entry: Entry, source: Source, epoch: &Epoch) {
        let epoch = epoch.clone();
        self.tell(match entry {
            Entry::Item(item) => {
                let own = item.user.as_ref().is_some_and(|user| user.id == self.you.id);
                Event::Item { item, source, own, epoch }
            }
            Entry::Retract { seqs, epoch: other } => {
                Event::Remove(Removal::Entries { epoch: other.unwrap_or(epoch), seqs })
            }
            Entry::Clear { up_to } => Event::Remove(Removal::UpTo { epoch, seq: up_to }),
        });
    }

    fn snapshot(&mut self, snapshot: Snapshot<'_>) {
        let Snapshot { epoch, seq, items, room } = snapshot;
        self.cursor.placed(Position { epoch, seq });
        // One that no join announced takes the place of what was missed during a pause.
        let reason = self.receiving.reset.take().unwrap_or(ResetReason::Snapshot);
        self.tell(Event::Reset(reason));
        self.entries(&items, Source::Snapshot);
        if let Some(room) = room {
            self.room_update(room);
        }
    }

    fn gap(&mut self, gap: GapFields) {
        let GapFields { epoch, from, to, reason } = gap;
        self.cursor.gap(epoch.as_ref(), to);
        if let Some(epoch) = epoch.or_else(|| self.cursor.epoch().cloned()) {
            self.tell(Event::Gap { epoch, from, to, reason });
        }
    }

    fn epoch(&mut self, message: EpochFields) {
        let EpochFields { epoch, seq, prev } = message;
        self.cursor.new_epoch(Position { epoch, seq });
        if let Some(Position { epoch, seq }) = prev {
            self.tell(Event::Remove(Removal::After { epoch, seq }));
        }
    }

    fn room_update(&mut self, room: RoomUpdate) {
        self.online = room.online;
        self.tell(Event::Room(room));
    }

    fn acked(&mut self, ack: AckFields) {
        let AckFields { id, state, seq, epoch } = ack;
        let state = match state.as_str() {
            "held" => AckState::Held,
            "folded" => AckState::Folded,
            _ => AckState::Accepted,
        };
        let epoch = epoch.or_else(|| self.cursor.epoch().cloned()).filter(|_| seq.is_some());
        let fate = self.outbox.acked(Ack { id, state, seq, epoch });
        self.settle(fate);
    }

    fn refused(&mut self, now: Instant, mut error: ErrorFields) {
        let id = error.id.take();
        let refusal = error.into_refusal();
        if let Some(id) = id {
            let (random, base) = (&mut self.random, self.options.backoff_base);
            let rest = |refusals: u32| rest(base, refusals, random());
            let fate = self.outbox.refused(now, &self.room, &id, refusal, rest);
            return self.settle(fate);
        }
        if self.refresh == Refresh::Sent && refusal.is_of_tokens() {
            self.refresh = Refresh::None;
        }
        if refusal.is_of_many() {
            let rest = refusal.retry_after.unwrap_or(ERRORS_AGAIN_AFTER);
            self.outbox.unsure(&self.room, now + rest);
        }
        let of_joining = refusal.is_of_joining();
        self.tell(Event::Refused(refusal));
        if of_joining {
            self.join_refused(now);
        }
    }

    /// The server has left the session where it was; joining there again only resumes.
    fn join_refused(&mut self, now: Instant) {
        let Phase::Open(open) = &mut self.phase else { return };
        open.joins = open.joins.saturating_sub(1);
        // A later join is out: its answer decides.
        if open.joins == 0
            && let Some((room, position)) = self.came_from.take()
        {
            self.room = room;
            self.cursor.restart(position);
            self.say_join(now);
        }
    }

    fn auth(&mut self, auth: AuthFields) {
        let answers = std::mem::replace(&mut self.refresh, Refresh::None);
        if let Some(you) = auth.you {
            self.identify(you);
            self.tell(Event::Identity(self.you.clone()));
        } else if answers == Refresh::Asked {
            self.refresh = Refresh::Asked;
        } else if answers == Refresh::None {
            // A reminder.
            if self.options.identity == Identity::Asked {
                self.refresh = Refresh::Asked;
                self.actions.push_back(Action::Token);
            } else {
                self.tell(Event::TokenExpires { after: auth.expires_in_ms.map(Duration::from_millis) });
            }
        }
    }

    fn reconnect(&mut self, now: Instant, reconnect: ReconnectFields) {
        let ReconnectFields { after_ms, reason, url } = reconnect;
        let after = Duration::from_millis(after_ms);
        self.move_at = now.checked_add(after);
        if let Some(url) = url.clone().filter(|url| check_url(url).is_ok()) {
            self.moved_url = Some(url);
        }
        self.tell(Event::Reconnect { after, reason, url });
    }

    fn pong(&mut self, now: Instant, number: u64) {
        let Some(at) = self.pings.iter().position(|(sent, _)| *sent == number) else { return };
        if let Some((number, sent)) = self.pings.remove(at) {
            self.outputs.push_back(Output::Pong { number, after: now.saturating_duration_since(sent) });
        }
    }
}

/// The rest before another try where the server names none.
fn rest(base: Duration, refusals: u32, random: u64) -> Duration {
    /// The longest; several tries fit in the time that a comment has.
    const LONGEST: Duration = Duration::from_secs(5);
    let mut backoff = crate::backoff::Backoff::new(base, LONGEST);
    for _ in 0..refusals {
        backoff.count();
    }
    backoff.next(random)
}
