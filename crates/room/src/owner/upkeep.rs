//! What is looked at about once a second: what has aged out, the load behind the room, and what was counted.

use danmaku_wire::id::UserId;

use super::Owner;
use crate::Now;
use crate::admission::breaker::{self, Load};
use crate::admission::display::Hidden;
use crate::admission::gate::inspection::Inspection;
use crate::admission::rule::Tally;
use crate::admission::words::WordTally;

impl<R> Owner<R> {
    /// Drops what has aged out of log and tables; called about once a second.
    pub fn age(&mut self, now: Now) {
        self.ids.forget(now.us);
        self.gate.age(now);
        self.holding.age(now.us);
        self.reports.age(&self.config.reports, now.us);
        self.gate.sanctions_mut().forget(now.wall_ms);
        self.log.evict(self.stored, now.us);
    }

    /// Takes notice of the load behind the room; how long the store has not moved it knows by itself.
    pub fn observe(&mut self, now: Now, load: &Load) {
        let stall_us = self.unstored.front().map_or(0, |(_, _, us)| now.us.saturating_sub(*us));
        self.gate.observe(now, &Load { stall_us: load.stall_us.max(stall_us), ..*load });
    }

    /// What its limiters know of a user.
    pub fn inspect(&self, now: Now, user: &UserId) -> Inspection {
        self.gate.inspect(now, user)
    }

    /// The last number that was given, sealed or not.
    pub fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// What its breaker does, and how often that has opened since this was last asked.
    pub fn breaker(&mut self) -> (breaker::State, u64) {
        self.gate.breaker()
    }

    /// What the rules have refused and observed since this was last asked.
    pub fn take_tally(&mut self) -> Tally {
        self.gate.take_tally()
    }

    /// What word lists did beside refusing since this was last asked.
    pub fn take_word_tally(&mut self) -> WordTally {
        self.gate.take_word_tally()
    }

    /// What tiers hid since this was last asked.
    pub fn take_hidden(&mut self) -> Hidden {
        self.gate.take_hidden()
    }

    /// Users whose rate was forgotten for want of room since this was last asked.
    pub fn take_forgotten_users(&mut self) -> u64 {
        self.gate.take_forgotten_users()
    }
}
