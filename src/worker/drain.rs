//! How a worker empties itself before the process ends.
//!
//! Every session is told to come back after a time of its own, spread over a window, and keeps what it has
//! until then; whoever is still there when its time has come is closed with 1012. A million viewers are
//! thus never thrown out in the same second, and whatever takes our place is never asked for more than it
//! was seen to accept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::native::{Reconnect, ServerMessage};

use super::Worker;
use super::session::Flags;
use super::slab::SessionRef;
use crate::config::Config;
use crate::wiring::Departure;

/// Sessions told in one turn.
const TOLD_PER_TURN: u32 = 256;
/// How long after its time a session is closed: what was told `afterMs` has a round trip to leave in, microseconds.
const COURTESY_US: u64 = 1_000_000;
/// What a worker is trusted to accept before it has been measured, connections a second.
const ACCEPT_RATE_MIN: u64 = 500;

/// The state of a drain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drain {
    /// The next slot to tell.
    next: u32,
    /// How long the leaving is spread over, microseconds.
    window_us: u64,
}

/// Sessions that were told to leave, by when they are closed if they are still there.
pub(super) type Farewells = BinaryHeap<Reverse<(u64, SessionRef)>>;

/// How fast connections came in at best: the pace at which they may be sent away.
#[derive(Debug, Default)]
pub(super) struct AcceptRate {
    accepted: u64,
    best: u64,
}

impl AcceptRate {
    /// Notes the count of a second that is over.
    pub(super) fn second(&mut self, accepted: u64) {
        self.best = self.best.max(accepted - self.accepted);
        self.accepted = accepted;
    }

    /// Connections a second.
    pub(super) fn per_s(&self) -> u64 {
        self.best.max(ACCEPT_RATE_MIN)
    }
}

/// How long the leaving of so many is spread over, where so many a second can be accepted, microseconds.
fn window_us(sessions: u64, per_s: u64, config: &Config) -> u64 {
    (sessions * 1_000_000 / per_s).max(config.drain_window_us)
}

/// How long the leaving of sessions is spread over that another process has to accept, of whom is not known how many it
/// can, microseconds.
pub(crate) fn cautious_window_us(sessions: u64, config: &Config) -> u64 {
    window_us(sessions, ACCEPT_RATE_MIN, config)
}

impl Worker {
    /// Follows what the process was told. Whether there is more to do at once.
    pub(super) fn turn_departure(&mut self) -> bool {
        // Whoever froze this worker hears of the departure too, and calls the hand-over off.
        if self.is_frozen() {
            return false;
        }
        self.end_overdue();
        match self.shared.departure() {
            Departure::None | Departure::LameDuck => false,
            Departure::Draining => {
                if self.drain.is_none() && !self.stopping {
                    self.begin_drain();
                }
                self.turn_drain()
            }
            Departure::Now => {
                if !self.stopping {
                    self.stop();
                }
                self.note_empty();
                false
            }
        }
    }

    fn begin_drain(&mut self) {
        self.close_listeners();
        let sessions = self.slab.len() as u64;
        let window_us = window_us(sessions, self.accept_rate.per_s(), &self.config);
        tracing::info!(sessions, window_ms = window_us / 1_000, worker = self.index, "draining");
        self.drain = Some(Drain { window_us, ..Drain::default() });
    }

    fn turn_drain(&mut self) -> bool {
        let Some(drain) = &mut self.drain else { return false };
        let from = drain.next;
        let to = from.saturating_add(TOLD_PER_TURN).min(self.slab.slots());
        drain.next = to;
        for slot in from..to {
            if self.slab.occupied(slot) {
                self.send_away(slot);
            }
        }
        self.note_empty();
        self.drain.as_ref().is_some_and(|drain| drain.next < self.slab.slots())
    }

    /// Closes those whose time is over.
    fn end_overdue(&mut self) {
        while let Some(Reverse((at_us, session))) = self.farewells.peek().copied()
            && at_us <= self.now.us
        {
            self.farewells.pop();
            if let Some(slot) = self.slab.live(session) {
                self.end(slot, DisconnectCode::Restart);
            }
        }
    }

    /// Sends a session away within the window of the drain.
    pub(super) fn send_away(&mut self, slot: u32) {
        if let Some(Drain { window_us, .. }) = self.drain {
            self.bid_farewell(slot, window_us);
        }
    }

    /// Tells a session when to come back, some time within the window, and sees to it that it goes.
    pub(super) fn bid_farewell(&mut self, slot: u32, window_us: u64) {
        let session = self.slab.reference(slot);
        if self.slab.hot(slot).flags.any(Flags::CLOSING) {
            return;
        }
        let after_us = super::membership::random_u64() % (window_us + 1);
        self.farewells.push(Reverse((self.now.us + after_us + COURTESY_US, session)));
        let reconnect = Reconnect { after_ms: after_us / 1_000, reason: "draining", url: None };
        self.tell(slot, &ServerMessage::Reconnect(reconnect));
    }

    /// When the next session has to go, microseconds.
    pub(super) fn drain_due_us(&self) -> Option<u64> {
        self.farewells.peek().map(|Reverse((at_us, _))| *at_us)
    }

    /// Tells the others when the last session here is gone, and the last request has its answer: rooms owned here are
    /// theirs to use until all are. Who tells everybody to go now waits for no request.
    fn note_empty(&mut self) {
        let empty = self.slab.is_empty() && (self.stopping || self.inbox.requests.get() == 0);
        if empty == self.empty {
            return;
        }
        self.empty = empty;
        if !empty {
            self.shared.inhabited.fetch_add(1, Ordering::AcqRel);
        } else if self.shared.inhabited.fetch_sub(1, Ordering::AcqRel) == 1 {
            for bell in &self.shared.bells {
                danmaku_mailbox::Wake::wake(bell);
            }
        }
    }

    /// Whether nobody is left anywhere.
    pub(super) fn may_end(&self) -> bool {
        self.leaving() && self.slab.is_empty() && self.shared.inhabited.load(Ordering::Acquire) == 0
    }
}
