//! A worker's part in a hand-over: it stands still, gives out what it has, and then either goes on or ends.
//!
//! Frozen, it reads nothing and accepts nobody, but finishes all that it has read: publishes get their fate,
//! passes reach everybody who can be reached. What comes in meanwhile stays in the sockets.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use danmaku_room::store::Loaded;
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::id::RoomId;

use super::Worker;
use super::calls::{Call, Waiter};
use super::rooms::OwnerState;
use super::session::{Flags, NOWHERE};
use crate::handover::forward::Forwarded;
use crate::handover::pump::Pump;
use crate::handover::state::Passage;
use crate::ingress::arrival::Arrival;
use crate::ingress::listener::Listener;

/// How long a frozen worker waits for its passes, microseconds: who has not been reached by then goes on from
/// where he stands, at the other process.
const PASSES_WAIT_US: u64 = 500_000;

/// How long after their time TLS sessions are still carried, microseconds: the other process closes them first.
const PUMPS_GRACE_US: u64 = 10_000_000;

/// What a hand-over asks of a worker.
#[derive(Debug)]
pub enum Step {
    /// Accept here too.
    Listen(Listener),
    /// Accept what waits here already, and close.
    Close(Listener),
    /// Show what you accept on. The channels have room for a message from each worker.
    Show(SyncSender<Vec<Listener>>),
    /// Stand still, and say when you do.
    Freeze(Arc<Stillness>),
    /// Give out rooms and sessions.
    Leave(SyncSender<Leaving>),
    /// It came to nothing: go on.
    GoOn,
    /// Another process has it all: end, when those who are answered here have their answers.
    End(Ending),
}

/// What is left to do in a process whose place is taken.
#[derive(Debug)]
pub struct Ending {
    /// Where everything goes that comes in late.
    pub late: SyncSender<Late>,
    /// TLS sessions to be carried until they have left.
    pub pumps: Vec<Pump>,
    /// How long the other process gives them for that, microseconds.
    pub window_us: u64,
}

/// What comes in when another process serves already.
#[derive(Debug)]
pub enum Late {
    /// A session that was in its handshake.
    Session(Box<Passage>),
    /// A comment over HTTP.
    Call(Forwarded),
}

/// What a worker leaves.
#[derive(Debug)]
pub struct Leaving {
    /// The worker.
    pub worker: u16,
    /// Rooms owned here.
    pub rooms: Vec<(RoomId, Loaded)>,
    /// Sessions.
    pub sessions: Vec<Arrival>,
}

/// Whether a frozen worker stands still. Written by the worker, read by whoever waits for all of them.
#[derive(Debug, Default)]
pub struct Stillness {
    turns: AtomicU64,
    still: AtomicBool,
}

impl Stillness {
    /// How many turns it has begun, if it stands still.
    pub fn turns(&self) -> Option<u64> {
        let turns = self.turns.load(Ordering::SeqCst);
        self.still.load(Ordering::SeqCst).then_some(turns)
    }
}

/// Where a worker is in a hand-over.
#[derive(Debug, Default)]
pub(super) enum Handing {
    /// In none.
    #[default]
    No,
    /// It stands still, or is about to.
    Frozen { stillness: Arc<Stillness>, since_us: u64 },
    /// Its place is taken.
    Replaced {
        late: SyncSender<Late>,
        /// Until when requests are answered.
        requests_us: u64,
        /// Until when TLS sessions are carried.
        pumps_us: u64,
        /// Held by every pump as well.
        pumping: Rc<()>,
    },
}

impl Worker {
    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Listen(listener) => self.listen(listener),
            Step::Close(listener) => self.accept_rest(&listener),
            Step::Show(to) => {
                let own = self.listeners.iter().filter_map(|listener| listener.try_clone().ok()).collect();
                // Whoever asked and does not wait any more says so with another step.
                let _ = to.send(own);
            }
            Step::Freeze(stillness) => {
                self.unwatch_listeners();
                self.handing = Handing::Frozen { stillness, since_us: self.now.us };
            }
            Step::Leave(to) => {
                let leaving = self.give_out();
                let _ = to.send(leaving);
            }
            Step::GoOn => {
                self.handing = Handing::No;
                self.accept_paused = (0..).take(self.listeners.len()).collect();
                self.resume_accepting();
                self.look_again();
            }
            Step::End(Ending { late, pumps, window_us }) => {
                self.listeners.clear();
                let requests_us = self.now.us + self.config.handshake_ms * 1_000;
                let pumps_us = self.now.us + window_us + PUMPS_GRACE_US;
                self.handing = Handing::Replaced { late, requests_us, pumps_us, pumping: Rc::default() };
                for pump in pumps {
                    self.carry(pump);
                }
                self.look_again();
            }
        }
    }

    /// Whether nothing may be read, accepted or taken from handshakes.
    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.handing, Handing::Frozen { .. })
    }

    fn listen(&mut self, listener: Listener) {
        let Ok(number) = u16::try_from(self.listeners.len()) else { return };
        if self.leaving() {
            return self.accept_rest(&listener);
        }
        if let Err(error) = self.poller.add_listener(&listener.socket, number) {
            tracing::error!(%error, "cannot watch a listener");
            self.accept_paused.push(number);
        }
        self.listeners.push(listener);
        self.want_accept(number);
    }

    /// Carries a TLS session whose other end is at another process.
    fn carry(&self, pump: Pump) {
        let Handing::Replaced { pumping, .. } = &self.handing else { return };
        let pumping = Rc::clone(pumping);
        tokio::task::spawn_local(async move {
            let _pumping = pumping;
            pump.run().await;
        });
    }

    /// A turn begins: until it ends nobody may take this worker for still.
    pub(super) fn stir(&self) {
        if let Handing::Frozen { stillness, .. } = &self.handing {
            stillness.still.store(false, Ordering::SeqCst);
            stillness.turns.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A turn ends: whether there is nothing under way here. What others may still have sent lies in the mailbox,
    /// where whoever waits looks for himself.
    pub(super) fn stand(&mut self) {
        let Handing::Frozen { stillness, since_us } = &self.handing else { return };
        let passes = self.dirty.is_empty() || self.now.us > since_us + PASSES_WAIT_US;
        let told =
            self.replies.iter().all(Vec::is_empty) && self.waiting.iter().all(|queue| queue.is_empty());
        let still = passes && told && self.touched.is_empty();
        stillness.still.store(still, Ordering::SeqCst);
    }

    /// Takes all rooms and sessions out. What is closing stays: it has been told so.
    fn give_out(&mut self) -> Leaving {
        let mut rooms = Vec::new();
        for index in self.rooms.indices() {
            self.seal_now(index);
            let now = self.now;
            let local = self.rooms.get(index);
            if let Some(OwnerState::Active(active)) = &mut local.owner {
                rooms.push((local.id.clone(), active.owner.bequeath(now)));
            }
        }
        let mut sessions = Vec::with_capacity(self.slab.len());
        for slot in 0..self.slab.slots() {
            if self.slab.occupied(slot) && !self.slab.hot(slot).flags.any(Flags::CLOSING) {
                sessions.extend(self.take_out(slot));
            }
        }
        Leaving { worker: self.index, rooms, sessions }
    }

    /// Takes one session out, with its place in its room.
    fn take_out(&mut self, slot: u32) -> Option<Arrival> {
        let room = self.slab.hot(slot).room;
        if room == NOWHERE {
            // It was refused its room and has not chosen another: there is nothing to go on with.
            self.end(slot, DisconnectCode::Restart);
            return None;
        }
        self.tell_held(slot);
        self.keep_tail(slot);
        let session = self.slab.reference(slot);
        let cursor = self.slab.hot(slot).cursor;
        let local = self.rooms.get(room);
        let given = local.view.replica().map(|replica| replica.given(cursor));
        let waiting = local.view.waiting.iter_mut().find(|waiting| waiting.session == session);
        let (since, asked) = waiting.map_or((given, false), |waiting| (waiting.since.take(), waiting.asked));
        let id = local.id.clone();
        let input = self.slab.cold(slot).decoder.carry().unwrap_or_default();
        let asked = asked || since.is_none();
        self.pack(slot, id, since, asked, input)
    }

    /// Looks at every session anew: edges that came while nothing was read are gone.
    fn look_again(&mut self) {
        for slot in 0..self.slab.slots() {
            if !self.slab.occupied(slot) {
                continue;
            }
            if self.slab.hot(slot).flags.any(Flags::UNREAD) {
                self.resume_input(slot);
            } else if !self.slab.hot(slot).flags.any(Flags::READY) {
                self.slab.hot(slot).flags.set(Flags::READY);
                let session = self.slab.reference(slot);
                self.ready.push(session);
            }
        }
    }

    /// Sends what came in here to the process that has the rooms now.
    pub(super) fn send_late(&mut self, late: &SyncSender<Late>, arrivals: Vec<Arrival>, calls: Vec<Call>) {
        for arrival in arrivals {
            let mut passage = Passage::of(arrival);
            if let Err(error) = passage.build_bridge() {
                tracing::warn!(%error, "a TLS connection that became a session too late is lost");
                continue;
            }
            let pump = passage.split_off_pump();
            // Nobody hears any more when all is over.
            let _ = late.send(Late::Session(Box::new(passage)));
            if let Some(pump) = pump {
                self.carry(pump);
            }
        }
        for Call { room, user, standing, send, answer } in calls {
            let call = self.calls.wait(Waiter::Comment(answer));
            let _ = late.send(Late::Call(Forwarded { worker: self.index, call, room, user, standing, send }));
        }
    }

    /// Whether this worker has nothing left to do in a process whose place is taken.
    pub(super) fn is_over(&self) -> bool {
        match &self.handing {
            Handing::Replaced { requests_us, pumps_us, pumping, .. } => {
                let answered = self.front.waiting() == 0 || self.now.us > *requests_us;
                let carried = Rc::strong_count(pumping) == 1 || self.now.us > *pumps_us;
                self.slab.is_empty() && answered && carried
            }
            _ => false,
        }
    }
}
