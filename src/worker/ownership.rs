//! The rooms that this worker owns: publishes in, sealed batches and fates out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use danmaku_room::admission::rule::Rule;
use danmaku_room::admission::{Refusal, Standing};
use danmaku_room::owner::{self, Answer, Fate, Owner};
use danmaku_room::store::{Progress, Promise, Waker};
use danmaku_wire::entry::Author;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{ErrorCode, Send};

use super::Worker;
use super::message::{Attached, Control, Link, Outcome, Publish, Publisher, Reply, ReplyTo, Request};
use super::orders::Order;
use super::rooms::{ActiveOwner, OwnerState};
use super::session::{Flags, NOWHERE};
use crate::observe::limits::Limit;

/// Followers, and publishes, that may wait for one owner to be loaded.
pub(super) const LOADING_WAITING_MAX: usize = 1_024;
/// What a publisher is told whose room has no owner at the moment.
const NOT_NOW: Refusal = Refusal::until(ErrorCode::Unavailable, 500_000);

impl Worker {
    /// A viewer's comment, on its way to the room's owner.
    pub(super) fn publish(&mut self, slot: u32, send: &Send<'_>) {
        let room = self.slab.hot(slot).room;
        if room == NOWHERE || self.slab.hot(slot).flags.any(Flags::ATTACHING) {
            return self.refuse(slot, Some(send.id), ErrorCode::NotJoined);
        }
        if !self.may_write(slot) {
            return self.refuse(slot, Some(send.id), ErrorCode::Unauthorized);
        }
        let user = self.author(slot);
        let standing = self.standing(slot);
        let publisher = Publisher::Session(self.slab.reference(slot));
        let reply = ReplyTo { worker: self.index, publisher };
        let unanswered = &mut self.slab.cold(slot).unanswered;
        if *unanswered == u16::MAX {
            return self.refuse(slot, Some(send.id), ErrorCode::Overloaded);
        }
        *unanswered += 1;
        let local = self.rooms.get(room);
        if local.owner.is_some() {
            if let Some(outcome) = self.publish_here(room, &user, standing, send, reply) {
                self.tell_fate(&Reply { publisher, id: send.id.into(), outcome });
            }
            return;
        }
        let owner = self.shared.owner(&local.id);
        let publish = Publish { room: local.id.clone(), reply, user, standing, send: send.into() };
        let request = Request::Publish(Box::new(publish));
        if owner == self.index
            || self.post(owner).normal(request, 256 + send.text.len(), self.now.us).is_err()
        {
            self.cells.mailbox_refused.add(1);
            let outcome = Outcome::Refused(Refusal::until(ErrorCode::Overloaded, 500_000));
            self.tell_fate(&Reply { publisher, id: send.id.into(), outcome });
        }
    }

    /// A comment that came through another worker, or over HTTP. A follower's link keeps the owner alive; whoever
    /// calls by HTTP follows nothing, so that its comment may be what brings the owner here.
    pub(super) fn publish_from_afar(&mut self, publish: Publish) {
        let Some(index) = self.find_or_open(publish.room.clone()) else {
            self.cells.met(Limit::Rooms);
            let refusal = Outcome::Refused(Refusal::until(ErrorCode::TooManyRooms, 1_000_000));
            return self.reply(publish.reply, publish.send.as_send().id.into(), refusal);
        };
        let works = !self.shared.stored.is_down();
        match &mut self.rooms.get(index).owner {
            Some(OwnerState::Active(_)) => self.publish_sent(index, publish),
            Some(OwnerState::Loading { publishes, .. }) if publishes.len() < LOADING_WAITING_MAX && works => {
                publishes.push(publish);
            }
            Some(OwnerState::Loading { .. }) => {
                let refusal = self.not_now();
                self.reply(publish.reply, publish.send.as_send().id.into(), Outcome::Refused(refusal));
            }
            None => self.load(index, Vec::new(), vec![publish], Vec::new()),
        }
    }

    /// What a publisher is told whose room has no owner: whether that is the store's fault, it may want to know.
    fn not_now(&self) -> Refusal {
        if self.shared.stored.is_down() {
            return Refusal::until(ErrorCode::StoreUnavailable, 500_000);
        }
        NOT_NOW
    }

    fn publish_sent(&mut self, index: u32, publish: Publish) {
        let Publish { reply, user, standing, send, .. } = publish;
        let send = send.as_send();
        if let Some(outcome) = self.publish_here(index, &user, standing, &send, reply) {
            self.reply(reply, send.id.into(), outcome);
        }
    }

    /// Hands a comment to the owner here. A panic in it costs the room its state in memory and a new
    /// epoch, and nobody else anything.
    fn publish_here(
        &mut self,
        room: u32,
        user: &Arc<Author>,
        standing: Standing,
        send: &Send<'_>,
        reply: ReplyTo,
    ) -> Option<Outcome> {
        let now = self.now;
        self.hear_windows();
        let Worker { rooms, gate, .. } = self;
        let local = rooms.get(room);
        // Its link keeps an owner alive: one that is not there is only now starting.
        let Some(OwnerState::Active(active)) = &mut local.owner else {
            return Some(Outcome::Refused(self.not_now()));
        };
        let publish = || active.owner.publish(gate, now, user, standing, send, || reply);
        match catch_unwind(AssertUnwindSafe(publish)) {
            Ok(fate) => {
                match &fate {
                    Fate::Refused(refusal) => self.note_refusal(room, refusal, send),
                    _ => {
                        self.tell_window();
                        self.note_said(room, user, send.text);
                    }
                }
                self.outcome_of(room, fate)
            }
            Err(_) => {
                self.reload(room);
                Some(Outcome::Refused(NOT_NOW))
            }
        }
    }

    /// Counts the limit that a room refused a comment for, if it was one.
    fn note_refusal(&mut self, room: u32, refusal: &Refusal, send: &Send<'_>) {
        let text = self.config.room(&self.rooms.get(room).id).owner.limits.text;
        let limit = match (refusal.rule, refusal.code) {
            (Some(Rule::UserRate), _) => Limit::UserRate,
            (Some(Rule::RoomRate), _) => Limit::RoomRate,
            (Some(Rule::NodeRate), _) => Limit::NodeRate,
            (None, ErrorCode::IdsFull) => Limit::Ids,
            (None, ErrorCode::TextTooLong) if send.text.trim().chars().count() > text.chars_max => {
                Limit::TextChars
            }
            (None, ErrorCode::TextTooLong) => Limit::TextBytes,
            _ => return,
        };
        self.cells.met(limit);
    }

    /// Starts a room's owner anew from what the store has, in a new epoch: after a panic, whose state may
    /// be half changed, and after a store that gave entries up.
    pub(super) fn reload(&mut self, room: u32) {
        self.cells.room_reloads.add(1);
        let local = self.rooms.get(room);
        let id = local.id.clone();
        tracing::error!(room = id.as_str(), "the room's owner failed and starts anew in a new epoch");
        let Some(OwnerState::Active(mut active)) = local.owner.take() else { return };
        let unanswered: Vec<(ReplyTo, Box<str>)> = active.owner.abandon().collect();
        for (reply, id) in unanswered {
            self.reply(reply, id, Outcome::Refused(NOT_NOW));
        }
        self.rooms.get(room).left = Some(Box::new(active.owner.house()));
        if active.links.is_empty() {
            // Nobody follows it, but what was decided is not to be forgotten.
            return self.load(room, Vec::new(), Vec::new(), Vec::new());
        }
        for link in active.links {
            self.attach_link(&id, link);
        }
    }

    /// What is to be told at once of a publish's fate; sees that the owner is looked at this turn.
    pub(super) fn outcome_of(&mut self, room: u32, fate: Fate) -> Option<Outcome> {
        match fate {
            Fate::Refused(refusal) => Some(Outcome::Refused(refusal)),
            Fate::Accepted { seq } => {
                self.touch(room);
                let Some(OwnerState::Active(active)) = &self.rooms.get(room).owner else { return None };
                let epoch = active.owner.epoch_of(seq);
                let epoch = (epoch != active.owner.epoch()).then(|| epoch.clone());
                Some(Outcome::Accepted { seq, epoch })
            }
            Fate::Pending => {
                self.touch(room);
                None
            }
            Fate::Held => {
                self.touch(room);
                Some(Outcome::Held)
            }
        }
    }

    pub(super) fn reply(&mut self, to: ReplyTo, id: Box<str>, outcome: Outcome) {
        let reply = Reply { publisher: to.publisher, id, outcome };
        if to.worker == self.index {
            self.tell_fate(&reply);
        } else {
            self.replies[usize::from(to.worker)].push(reply);
        }
    }

    /// Sends the fates of this turn, one message per worker, and what found a ring full before.
    pub(super) fn post_replies(&mut self) {
        for worker in 0..self.replies.len() {
            if !self.replies[worker].is_empty() {
                let replies = std::mem::take(&mut self.replies[worker]).into_boxed_slice();
                self.post_control(worker as u16, Control::Replies(replies));
            }
        }
        self.post_waiting();
    }

    pub(super) fn touch(&mut self, room: u32) {
        if let Some(OwnerState::Active(active)) = &mut self.rooms.get(room).owner
            && !std::mem::replace(&mut active.touched, true)
        {
            self.touched.push(room);
        }
    }

    /// A follower wants to attach; the owner is loaded if it is not there.
    pub(super) fn attach_link(&mut self, room: &RoomId, link: Link) {
        let index = self.open_room(room);
        match &mut self.rooms.get(index).owner {
            Some(OwnerState::Active(_)) => self.attach_now(index, link),
            Some(OwnerState::Loading { waiting, .. }) => {
                // Bounded by the workers: each asks once at a time.
                if waiting.len() < LOADING_WAITING_MAX {
                    waiting.push(link);
                }
            }
            None => self.load(index, vec![link], Vec::new(), Vec::new()),
        }
    }

    /// Asks the store for a room, for those who want to follow it or have something for it.
    pub(super) fn load(
        &mut self,
        index: u32,
        waiting: Vec<Link>,
        publishes: Vec<Publish>,
        orders: Vec<Order>,
    ) {
        let promise = Promise::new(self.waker());
        let local = self.rooms.get(index);
        let durability = self.config.room(&local.id).owner.durability;
        let asked = Arc::clone(&promise);
        local.owner = Some(OwnerState::Loading { promise: asked, durability, waiting, publishes, orders });
        self.shared.store.load(&local.id, durability, promise);
        self.touched.push(index);
        self.start_loaded(index);
    }

    /// Starts an owner whose room the store has told about.
    fn start_loaded(&mut self, index: u32) {
        let now = self.now;
        let epoch = self.shared.mint_epoch();
        let waker = self.waker();
        let local = self.rooms.get(index);
        let Some(OwnerState::Loading { promise, durability, waiting, publishes, orders }) = &mut local.owner
        else {
            return;
        };
        // What it was looked up for is what it promises, whatever was configured meanwhile.
        let config = owner::Config { durability: *durability, ..self.config.room(&local.id).owner.clone() };
        let Some(mut loaded) = promise.poll().cloned() else { return };
        let (waiting, publishes) = (std::mem::take(waiting), std::mem::take(publishes));
        let orders = std::mem::take(orders);
        // What the owner before knew is newer than what any store has.
        if let Some(house) = local.left.take() {
            loaded.house = *house;
        }
        let owner = Owner::start(local.id.clone(), epoch, loaded, config, now);
        local.owner = Some(OwnerState::Active(Box::new(ActiveOwner {
            owner,
            progress: Progress::new(waker),
            seen: (0, 0),
            links: Vec::new(),
            ticks_us: Vec::new(),
            behind: false,
            touched: false,
        })));
        self.hang_door(index);
        for link in waiting {
            self.attach_now(index, link);
        }
        for order in orders {
            self.obey(index, order);
        }
        for publish in publishes {
            self.publish_sent(index, publish);
        }
    }

    fn waker(&self) -> Waker {
        let post = self.post(self.index).clone();
        Arc::new(move || post.wake())
    }

    /// Whether the store has answered since the owners were looked at: to be asked between declaring the
    /// sleep and sleeping.
    pub(super) fn store_has_news(&mut self) -> bool {
        let rooms = &mut self.rooms;
        self.touched.iter().any(|room| match &rooms.get(*room).owner {
            Some(OwnerState::Loading { promise, .. }) => promise.poll().is_some(),
            Some(OwnerState::Active(active)) => {
                active.seen != (active.progress.stored(), active.progress.failed())
            }
            None => false,
        })
    }

    fn attach_now(&mut self, index: u32, link: Link) {
        let now = self.now;
        // Whoever attaches gets what is released already; those who follow hear of it too.
        self.seal_now(index);
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(index).owner else { return };
        if let Some(old) = active.links.iter().position(|l| l.worker == link.worker) {
            active.links.swap_remove(old);
            active.ticks_us.swap_remove(old);
            active.owner.detach(now);
        }
        let (backlog, tail) = active.owner.attach(now);
        let board = active.owner.board().clone();
        let state = Arc::clone(active.owner.state());
        let attached = Attached { room: link.room, generation: link.generation, backlog, tail, board, state };
        let worker = link.worker;
        active.links.push(link);
        active.ticks_us.push(0);
        if worker == self.index {
            self.attached(attached);
        } else {
            self.post_control(worker, Control::Attached(Box::new(attached)));
        }
    }

    pub(super) fn detach_link(&mut self, room: &RoomId, worker: u16, generation: u32) {
        let now = self.now;
        let Some(index) = self.rooms.find(room.as_str()) else { return };
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(index).owner else { return };
        let link = active.links.iter().position(|l| l.worker == worker && l.generation == generation);
        if let Some(at) = link {
            active.links.swap_remove(at);
            active.ticks_us.swap_remove(at);
            active.owner.detach(now);
        }
    }

    pub(super) fn note_tick(&mut self, room: &RoomId, worker: u16, tick_us: u32) {
        let Some(index) = self.rooms.find(room.as_str()) else { return };
        let me = self.index;
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(index).owner else { return };
        if let Some(at) = active.links.iter().position(|l| l.worker == worker) {
            active.ticks_us[at] = tick_us;
        }
        let afar = active.links.iter().zip(&active.ticks_us).filter(|(link, _)| link.worker != me);
        let shortest = afar.map(|(_, tick)| *tick).min().unwrap_or(0);
        active.owner.set_tick(shortest.into());
    }

    /// Looks at every owner that something happened to: appends, progress, seals, links.
    pub(super) fn turn_owners(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        for room in touched {
            let again = catch_unwind(AssertUnwindSafe(|| self.turn_owner(room)));
            if again.is_err() {
                self.reload(room);
            }
            if again.unwrap_or(true) {
                self.touched.push(room);
            } else if let Some(OwnerState::Active(active)) = &mut self.rooms.get(room).owner {
                active.touched = false;
            }
        }
    }

    /// Whether the owner must be looked at again though nothing new happens to it.
    fn turn_owner(&mut self, room: u32) -> bool {
        if matches!(self.rooms.get(room).owner, Some(OwnerState::Loading { .. })) {
            self.start_loaded(room);
            return !matches!(self.rooms.get(room).owner, Some(OwnerState::Active(_)));
        }
        let now = self.now;
        self.release_due(room, now);
        self.put_questions(room);
        let store = Arc::clone(&self.shared.store);
        let local = self.rooms.get(room);
        let Some(OwnerState::Active(active)) = &mut local.owner else { return false };
        let released = active.owner.end_turn();
        if let Some(append) = active.owner.take_append() {
            self.cells.published.add(append.entries.len() as u64);
            store.append(append, &active.progress);
        }
        let unseen = active.owner.has_open() && !active.owner.is_announced();
        let mut answers = Vec::new();
        let progress = (active.progress.stored(), active.progress.failed());
        if progress != active.seen {
            active.seen = progress;
            active.owner.progress(progress.0, progress.1, &mut answers);
        }
        // A pass of this worker's own seals when it begins; only followers elsewhere need a seal by time.
        let afar = active.links.iter().any(|link| link.worker != self.index);
        let here = active.links.iter().any(|link| link.worker == self.index) && local.view.member_count > 0;
        let behind = active.behind;
        let seal_due = active.owner.seal_due_us().is_some_and(|due| due <= now.us);
        let full = active.owner.full();
        // What an epoch began with is shown when it is stored.
        if (released || unseen) && here && active.owner.is_announced() {
            local.view.law.arrived(now.us, 1);
            self.want_pass(room);
        }
        let sealed = (full || seal_due && (afar || !here)) && self.seal(room);
        let behind = if sealed || behind { self.spread(room) } else { false };
        let Some(OwnerState::Active(active)) = &self.rooms.get(room).owner else { return false };
        let failed = active.owner.failed();
        let waits = (active.owner.has_open() && (afar || !here))
            || active.owner.unstored() > 0
            || active.owner.release_due_us().is_some()
            || active.owner.asked_count() > 0;
        for Answer { reply, id, seq, stored } in answers {
            let outcome =
                if stored { Outcome::Accepted { seq, epoch: None } } else { Outcome::NotStored { seq } };
            self.reply(reply, id, outcome);
        }
        if failed {
            self.reload(room);
        }
        waits || behind || failed
    }

    /// Seals what is open. Whether there was anything.
    fn seal(&mut self, room: u32) -> bool {
        let now = self.now;
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(room).owner else { return false };
        let Some(batch) = active.owner.seal(now) else { return false };
        self.cells.batches.add(1);
        self.cells.batch_entries.add(batch.entries.len() as u64);
        self.cells.batch_bytes.add(batch.bytes as u64);
        true
    }

    /// Seals what is open and tells whoever follows: a pass of this worker begins, or somebody is shown the room as it is.
    pub(super) fn seal_now(&mut self, room: u32) {
        if self.seal(room) && self.spread(room) {
            self.touch(room);
        }
    }

    /// Tells every follower that the chain has grown. Whether one could not be told.
    fn spread(&mut self, room: u32) -> bool {
        let me = self.index;
        let now_us = self.now.us;
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(room).owner else { return false };
        let (mut behind, mut own) = (false, None);
        for link in &active.links {
            if link.worker == me {
                own = Some(link.room);
                continue;
            }
            // At most one token per link lies in a mailbox; whoever takes it clears the flag first.
            if link.dirty.swap(true, Ordering::AcqRel) {
                continue;
            }
            let token = Control::Dirty { room: link.room, generation: link.generation };
            if self.shared.post[usize::from(link.worker)].control(token, 64, now_us).is_err() {
                link.dirty.store(false, Ordering::Release);
                behind = true;
            }
        }
        active.behind = behind;
        if let Some(own) = own {
            self.follow_chain(own, None);
        }
        behind
    }

    /// When the owner wants to be looked at, microseconds.
    pub(super) fn owner_due_us(&mut self, room: u32) -> u64 {
        let retry = self.now.us + 1_000;
        let owner = &self.rooms.get(room).owner;
        let released_us = match owner {
            Some(OwnerState::Active(active)) => active.owner.release_due_us().unwrap_or(u64::MAX),
            _ => u64::MAX,
        };
        let due_us = match owner {
            Some(OwnerState::Active(active)) if active.behind => retry,
            // With members here alone, it is their pass that seals.
            Some(OwnerState::Active(active)) if active.links.iter().any(|link| link.worker != self.index) => {
                active.owner.seal_due_us().unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        };
        // What is overdue waits for the store, which says when it goes on.
        if released_us > self.now.us { due_us.min(released_us) } else { due_us.min(retry) }
    }

    /// Takes the present configuration over, for the sessions and rooms there are as for those to come.
    pub(super) fn reconfigure(&mut self) {
        self.config = self.shared.config.load_full();
        self.gate.set_bounds(self.config.worker_gate);
        self.rebound_watch();
        let config = Arc::clone(&self.config);
        for index in self.rooms.indices() {
            let local = self.rooms.get(index);
            let settings = config.room(&local.id);
            if let Some(OwnerState::Active(active)) = &mut local.owner {
                active.owner.reconfigure(settings.owner.clone());
                if active.owner.tell_state(self.now) {
                    self.touch(index);
                }
            }
            self.keep_door(index);
            let local = self.rooms.get(index);
            local.view.law.set_tick_max(self.config.tick_max_us);
            local.view.snapshot = None;
            if let Some(replica) = local.view.replica_mut() {
                replica.set_bounds(settings.backlog);
            }
        }
    }

    pub(super) fn report_tick(&mut self, index: u32) {
        let local = self.rooms.get(index);
        if local.owner.is_some() {
            return;
        }
        let tick_us = local.view.law.tick_us() as u32;
        let room = local.id.clone();
        let owner = self.shared.owner(&room);
        // Only news: a lost report is made good by the next.
        let tick = Control::Tick { room, worker: self.index, tick_us };
        let _ = self.post(owner).control(tick, 64, self.now.us);
    }
}
