//! What the staff of a room orders: its way to the room's owner and back, and who has to leave the room for it.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use danmaku_room::admission::Refusal;
use danmaku_room::admission::gate::inspection::Inspection;
use danmaku_room::form::Encoding;
use danmaku_room::house::sanction::{Measure, Sanction, Target};
use danmaku_room::house::settings::Patch;
use danmaku_room::house::stage::{MediaId, Stage, StageName};
use danmaku_room::house::{Barred, Door};
use danmaku_room::owner::pushed::Priority;
use danmaku_room::owner::reports::Reported;
use danmaku_room::owner::{Done, Fate, Owner};
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::entry::{Event, Role};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::ErrorCode;
use danmaku_wire::position::Epoch;
use tokio::sync::{Notify, oneshot};

use super::Worker;
use super::calls::Waiter;
use super::message::{Control, Outcome, Publisher, ReplyTo, Request};
use super::ownership::LOADING_WAITING_MAX;
use super::rooms::OwnerState;
use super::session::{Flags, NOWHERE};
use super::settings::RoomSettings;
use crate::identity::guest;
use crate::observe::limits::Limit;

/// Sessions looked at in one turn for the sake of rooms whose door has changed.
const LOOKED_AT_PER_TURN: u32 = 512;

/// Orders that wait for their worker's next turn, at most: each is a request's, and requests are bounded before.
const PLACED_MAX: usize = 4_096;

/// An order for a room, from somebody who may give it.
#[derive(Debug)]
pub struct Order {
    /// The room.
    pub room: RoomId,
    /// What is to be done.
    pub deed: Deed,
    /// Who waits for the answer; dropped where the room cannot be reached at the moment.
    pub answer: oneshot::Sender<Told>,
}

/// Where HTTP requests hand their orders to the worker that serves them.
#[derive(Debug, Clone)]
pub struct OrderDesk {
    orders: mpsc::SyncSender<Order>,
    notify: Arc<Notify>,
}

impl OrderDesk {
    /// A desk whose worker is woken by `notify`, and where the worker finds the orders.
    pub(super) fn new(notify: Arc<Notify>) -> (Self, mpsc::Receiver<Order>) {
        let (orders, placed) = mpsc::sync_channel(PLACED_MAX);
        (Self { orders, notify }, placed)
    }

    /// Hands an order over. It is refused where far too many wait, and its answer is dropped where the worker has ended.
    pub fn place(&self, order: Order) {
        if let Err(mpsc::TrySendError::Full(order)) = self.orders.try_send(order) {
            let _ = order.answer.send(Told::Refused(Refusal::until(ErrorCode::Overloaded, 500_000)));
        }
        self.notify.notify_one();
    }
}

/// What is to be done in a room.
#[derive(Debug)]
pub enum Deed {
    /// Decide something against somebody, for so long, milliseconds; `None`: until it is lifted.
    Sanction {
        /// What it does.
        measure: Measure,
        /// Against whom.
        target: Target,
        /// For how long.
        ttl_ms: Option<u64>,
        /// Whose word it is.
        rank: Role,
        /// Who decides it.
        by: Box<str>,
        /// Why.
        reason: Box<str>,
    },
    /// Take it back.
    Lift(Measure, Target),
    /// Tell all sanctions of a measure.
    Sanctions(Measure),
    /// Take comments back.
    Retract(Vec<u64>),
    /// Take all comments of a user back.
    RetractUser(UserId),
    /// Pin a comment; 0 unpins.
    Pin(u64),
    /// Clear the screen.
    Clear,
    /// Tell which comments were reported.
    Reports,
    /// Leave a reported comment.
    Dismiss(u64),
    /// Tell where the room is in its life.
    Stage,
    /// Bring it elsewhere.
    SetStage(StageName, Option<MediaId>),
    /// Tell how the room is set.
    Settings,
    /// Set it otherwise.
    Set {
        /// What changes.
        patch: Box<Patch>,
        /// Only where it is set as one of these tags says.
        if_match: Option<Vec<String>>,
    },
    /// Number and show an event of the platform.
    Push(Box<Push>),
    /// Tell how the room stands.
    Describe,
    /// Tell what its limiters know of a user.
    Inspect(UserId),
}

/// An event of the platform on its way into a room.
#[derive(Debug, Clone)]
pub struct Push {
    /// Under which it happens once; empty: each time anew.
    pub id: Box<str>,
    /// What it is.
    pub event: Event,
    /// How it fares where not everything can be shown.
    pub priority: Priority,
}

/// What came of an order.
#[derive(Debug)]
pub enum Told {
    /// It is decided.
    Sanctioned(Box<Sanction>),
    /// What was taken back, if there was anything.
    Lifted(Option<Box<Sanction>>),
    /// Those in force.
    Sanctions(Vec<Sanction>),
    /// Entries were made, of this epoch.
    Done(Done, Epoch),
    /// Reported comments that wait for a moderator.
    Reports(Vec<Reported>),
    /// Whether the reported comment was waiting.
    Dismissed(bool),
    /// Where the room is in its life.
    Stage(Stage),
    /// How the room is set.
    Settings(Box<RoomSettings>),
    /// Nothing was set: the room is set otherwise than who asked believes.
    ChangedSince,
    /// What became of an event.
    Fate(Outcome),
    /// How the room stands.
    Described(Box<Described>),
    /// What its limiters know of a user.
    Inspected(Box<Inspection>),
    /// Not done.
    Refused(Refusal),
    /// The room has as many sanctions as it may.
    Full,
}

fn settings_of<R>(owner: &Owner<R>) -> RoomSettings {
    RoomSettings { settings: owner.settings().clone(), state: Arc::clone(owner.state()) }
}

/// How a room stands, as its owner knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The epoch.
    pub epoch: Epoch,
    /// The last number that was given.
    pub seq: u64,
    /// Entries shown that the store has not confirmed.
    pub unstored: usize,
    /// Sanctions in force.
    pub sanctions: usize,
    /// Comments that wait for a moderator, and those that wait for the room's delay.
    pub held: (usize, usize),
    /// Comments that wait for the platform's ruling.
    pub asked: usize,
}

/// Rooms whose door has changed, and how far their members were looked at.
#[derive(Debug, Default)]
pub(super) struct Doors {
    next: HashSet<RoomId>,
    walk: HashSet<u32>,
    at: u32,
}

impl Worker {
    /// An order on its way to the room's owner.
    pub(super) fn send_order(&mut self, order: Order) {
        let owner = self.shared.owner(&order.room);
        if owner == self.index {
            return self.take_order(order);
        }
        let Deed::Push(push) = &order.deed else {
            return self.post_control(owner, Control::Order(Box::new(order)));
        };
        // Events may be many: they are requests, which a full mailbox refuses.
        let bytes = 256 + push.event.data.len();
        if let Err(full) = self.post(owner).normal(Request::Push(Box::new(order)), bytes, self.now.us) {
            self.cells.mailbox_refused.add(1);
            self.cells.refuse(ErrorCode::Overloaded);
            if let Request::Push(order) = full.item {
                let _ = order.answer.send(Told::Refused(Refusal::until(ErrorCode::Overloaded, 500_000)));
            }
        }
    }

    /// An order for a room that is owned here.
    pub(super) fn take_order(&mut self, order: Order) {
        let Some(index) = self.find_or_open(order.room.clone()) else {
            self.cells.met(Limit::Rooms);
            let refusal = Refusal::until(ErrorCode::TooManyRooms, 1_000_000);
            let _ = order.answer.send(Told::Refused(refusal));
            return;
        };
        match &mut self.rooms.get(index).owner {
            Some(OwnerState::Active(_)) => self.obey(index, order),
            Some(OwnerState::Loading { orders, .. }) if orders.len() < LOADING_WAITING_MAX => {
                orders.push(order);
            }
            // Whoever waits learns by the end of its wait that the room cannot be reached.
            Some(OwnerState::Loading { .. }) => {}
            None => self.load(index, Vec::new(), Vec::new(), vec![order]),
        }
    }

    /// Does what an order says. A panic in it costs the room what a panic in a comment does.
    pub(super) fn obey(&mut self, room: u32, order: Order) {
        let Order { deed, answer, .. } = order;
        let deed = match deed {
            Deed::Push(push) => return self.push(room, *push, answer),
            deed => deed,
        };
        let set = matches!(deed, Deed::Set { .. } | Deed::SetStage(..));
        match catch_unwind(AssertUnwindSafe(|| self.carry_out(room, deed))) {
            Ok(told) => {
                self.cells.orders.add(1);
                if matches!(told, Told::Sanctioned(_) | Told::Lifted(_) | Told::Done(..)) || set {
                    self.keep_house(room);
                }
                let _ = answer.send(told);
            }
            Err(_) => self.reload(room),
        }
        self.touch(room);
    }

    /// Hands an event of the platform to the owner here; who waits hears when it is kept.
    fn push(&mut self, room: u32, push: Push, answer: oneshot::Sender<Told>) {
        let now = self.now;
        let number = self.calls.next();
        let reply = ReplyTo { worker: self.index, publisher: Publisher::Call(number) };
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(room).owner else {
            let _ = answer.send(Told::Refused(Refusal::until(ErrorCode::Unavailable, 500_000)));
            return;
        };
        let Push { id, event, priority } = push;
        let pushed =
            catch_unwind(AssertUnwindSafe(|| active.owner.push(now, &id, event, priority, || reply)));
        // A panic drops the answer: whoever waits is told that the room cannot be reached.
        let Ok(fate) = pushed else { return self.reload(room) };
        if matches!(fate, Fate::Accepted { .. } | Fate::Pending) {
            self.cells.events_pushed.add(1);
        }
        match self.outcome_of(room, fate) {
            Some(outcome) => {
                if let Outcome::Refused(refusal) = &outcome {
                    self.cells.refuse(refusal.code);
                    if refusal.code == ErrorCode::IdsFull {
                        self.cells.met(Limit::Ids);
                    }
                }
                let _ = answer.send(Told::Fate(outcome));
            }
            None => self.calls.wait_under(number, Waiter::Event(answer)),
        }
    }

    /// Has the store keep what staff has decided by now.
    fn keep_house(&mut self, room: u32) {
        let local = self.rooms.get(room);
        if let Some(OwnerState::Active(active)) = &local.owner {
            self.shared.store.keep(&local.id, active.owner.house());
        }
    }

    fn carry_out(&mut self, room: u32, deed: Deed) -> Told {
        let now = self.now;
        let local = self.rooms.get(room);
        let Some(OwnerState::Active(active)) = &mut local.owner else {
            return Told::Refused(Refusal::until(ErrorCode::Unavailable, 500_000));
        };
        let owner = &mut active.owner;
        let done = match deed {
            Deed::Sanction { measure, target, ttl_ms, rank, by, reason } => {
                let until_ms = ttl_ms.map(|ms| now.wall_ms.saturating_add(ms));
                let sanction =
                    Sanction { measure, target, since_ms: now.wall_ms, until_ms, rank, by, reason };
                if owner.sanction(now, sanction.clone()).is_err() {
                    self.cells.met(Limit::Sanctions);
                    return Told::Full;
                }
                if measure == Measure::Ban {
                    let mut door = self.shared.doors.entry(local.id.clone()).or_default();
                    // The owner's table has taken it, and this is a part of that.
                    let _ = door.bans.put(sanction.clone(), now.wall_ms, usize::MAX);
                    drop(door);
                    self.door_changed(room);
                }
                return Told::Sanctioned(Box::new(sanction));
            }
            Deed::Lift(measure, target) => {
                let lifted = owner.lift(now, measure, &target);
                if measure == Measure::Ban
                    && let Some(mut door) = self.shared.doors.get_mut(&local.id)
                {
                    door.bans.lift(measure, &target);
                }
                self.open_door(room);
                return Told::Lifted(lifted.map(Box::new));
            }
            Deed::Sanctions(measure) => {
                let all = owner.sanctions().in_force(now.wall_ms);
                return Told::Sanctions(all.filter(|one| one.measure == measure).cloned().collect());
            }
            Deed::Retract(seqs) => owner.retract(now, &seqs),
            Deed::RetractUser(user) => owner.retract_user(now, &user),
            Deed::Pin(of) => owner.pin(now, of),
            Deed::Clear => owner.clear(now),
            Deed::Reports => return Told::Reports(owner.reported().cloned().collect()),
            Deed::Dismiss(seq) => return Told::Dismissed(owner.dismiss(seq)),
            Deed::Stage => return Told::Stage(owner.stage().clone()),
            Deed::SetStage(name, media) => {
                let stage = name.stage(owner.stage(), media, now.wall_ms);
                if let Err(refusal) = owner.set_stage(now, stage) {
                    return Told::Refused(refusal);
                }
                let told = Told::Stage(owner.stage().clone());
                self.keep_door(room);
                return told;
            }
            Deed::Settings => return Told::Settings(Box::new(settings_of(owner))),
            Deed::Set { patch, if_match } => {
                if if_match.is_some_and(|tags| !tags.contains(&settings_of(owner).tag())) {
                    return Told::ChangedSince;
                }
                return match owner.set(now, &patch) {
                    Ok(()) => Told::Settings(Box::new(settings_of(owner))),
                    Err(refusal) => Told::Refused(refusal),
                };
            }
            Deed::Describe => {
                return Told::Described(Box::new(Described {
                    epoch: owner.epoch().clone(),
                    seq: owner.last_seq(),
                    unstored: owner.unstored(),
                    sanctions: owner.sanctions().in_force(now.wall_ms).count(),
                    held: owner.held_count(),
                    asked: owner.asked_count(),
                }));
            }
            Deed::Inspect(user) => return Told::Inspected(Box::new(owner.inspect(now, &user))),
            // It has its own way, since its answer may come later.
            Deed::Push(_) => return Told::Refused(Refusal::of(ErrorCode::Internal)),
        };
        match done {
            Ok(done) => Told::Done(done, owner.epoch().clone()),
            Err(refusal) => Told::Refused(refusal),
        }
    }

    /// An owner has started: its room's door is as what it knows.
    pub(super) fn hang_door(&mut self, room: u32) {
        let local = self.rooms.get(room);
        let Some(OwnerState::Active(active)) = &local.owner else { return };
        if active.owner.sanctions().is_empty() && !active.owner.is_closed() {
            return;
        }
        let mut door = Door::of(active.owner.sanctions().in_force(self.now.wall_ms));
        door.closed = active.owner.is_closed();
        if !door.is_open() {
            self.shared.doors.insert(local.id.clone(), door);
            // Somebody may have come in before there was one.
            self.door_changed(room);
        }
    }

    /// Closes the door of a room that is closed, and opens that of one that is so no longer.
    pub(super) fn keep_door(&mut self, room: u32) {
        let local = self.rooms.get(room);
        let Some(OwnerState::Active(active)) = &local.owner else { return };
        let closed = active.owner.is_closed();
        let was_closed = self.shared.doors.get(&local.id).is_some_and(|door| door.closed);
        if closed == was_closed {
            return;
        }
        self.shared.doors.entry(local.id.clone()).or_default().closed = closed;
        if closed { self.door_changed(room) } else { self.open_door(room) }
    }

    /// Takes a door away that keeps nobody out any more.
    pub(super) fn open_door(&mut self, room: u32) {
        let now_ms = self.now.wall_ms;
        let id = &self.rooms.get(room).id;
        self.shared.doors.remove_if_mut(id, |_, door| {
            door.bans.forget(now_ms);
            door.is_open()
        });
    }

    /// Tells every worker that somebody may have to leave the room.
    fn door_changed(&mut self, room: u32) {
        let id = self.rooms.get(room).id.clone();
        for worker in 0..self.shared.post.len() as u16 {
            if worker != self.index {
                self.post_control(worker, Control::Door(id.clone()));
            }
        }
        self.note_door(id);
    }

    /// Somebody may have to leave a room.
    pub(super) fn note_door(&mut self, room: RoomId) {
        self.doors.next.insert(room);
    }

    /// Looks for members who may be in their room no longer, a few in each turn. Whether there are more.
    pub(super) fn turn_doors(&mut self) -> bool {
        if self.doors.walk.is_empty() {
            if self.doors.next.is_empty() {
                return false;
            }
            let rooms = std::mem::take(&mut self.doors.next);
            self.doors.walk = rooms.iter().filter_map(|room| self.rooms.find(room.as_str())).collect();
            self.doors.at = 0;
        }
        let slots = self.slab.slots();
        let (from, to) =
            (self.doors.at.min(slots), self.doors.at.saturating_add(LOOKED_AT_PER_TURN).min(slots));
        self.doors.at = to;
        let walk = std::mem::take(&mut self.doors.walk);
        for slot in from..to {
            if self.slab.occupied(slot) && walk.contains(&self.slab.hot(slot).room) {
                self.keep_out(slot);
            }
        }
        if to < self.slab.slots() {
            self.doors.walk = walk;
        }
        to < slots || !self.doors.next.is_empty()
    }

    /// Sends a session out of a room that it may not be in. Whether it went.
    pub(super) fn keep_out(&mut self, slot: u32) -> bool {
        let Some(barred) = self.barred(slot) else { return false };
        let (error, code) = match barred {
            Barred::Banned(_) => (ErrorCode::Banned, DisconnectCode::Banned),
            Barred::Closed => (ErrorCode::RoomClosed, DisconnectCode::RoomClosed),
        };
        // An event stream has no close codes.
        if self.slab.cold(slot).encoding == Encoding::Sse {
            self.refuse(slot, None, error);
        }
        self.end(slot, code);
        true
    }

    fn barred(&mut self, slot: u32) -> Option<Barred> {
        let hot = self.slab.hot(slot);
        if hot.room == NOWHERE || hot.flags.any(Flags::CLOSING) || self.shared.doors.is_empty() {
            return None;
        }
        let room = self.rooms.get(hot.room).id.clone();
        if !self.shared.doors.contains_key(&room) {
            return None;
        }
        let user = self.user(slot);
        let cold = self.slab.cold(slot);
        let present = user.as_ref().or(cold.presence.as_deref());
        let author = present.map_or_else(|| guest::author(cold.guest), |present| Arc::clone(&present.author));
        let address = guest::measured_by(&author, cold.address);
        let door = self.shared.doors.get(&room)?;
        door.admits(self.now.wall_ms, &author.id, address, author.role).err()
    }
}
