//! When what was released becomes a batch on the chain, and how large it is.

use std::sync::Arc;

use super::{Owner, succession};
use crate::Now;
use crate::batch::Batch;
use crate::store::Durability;

/// The longest time between seals that coalescing replicas may cause, microseconds.
const SEAL_STRETCH_US: u64 = 25_000;
/// How many times its usual size makes an open batch several.
const LARGE: usize = 4;

impl<R> Owner<R> {
    /// Ends a turn: what was released in it is one flush request. Whether there was any.
    pub fn end_turn(&mut self) -> bool {
        let released = std::mem::take(&mut self.open_this_turn);
        self.open_flushes += u32::from(released);
        released
    }

    /// When the open batch is to be sealed, microseconds; `None` where it is empty. At once after a
    /// quiet interval, at the interval's end in a busy room.
    pub fn seal_due_us(&self) -> Option<u64> {
        if self.open.is_empty() || !self.is_announced() {
            return None;
        }
        if self.full() {
            return Some(0);
        }
        Some(self.sealed_us.map_or(0, |at| at + self.seal_interval_us))
    }

    /// Whether the epoch may be seen. Where comments are stored, it begins to be seen when its first entry is:
    /// an owner after a crash must know of every epoch whose numbers somebody was shown.
    pub fn is_announced(&self) -> bool {
        self.config.durability == Durability::Memory || self.kept > self.before
    }

    /// Seals the open batch onto the chain.
    pub fn seal(&mut self, now: Now) -> Option<&Arc<Batch>> {
        if self.open.is_empty() || !self.is_announced() {
            return None;
        }
        let entries = std::mem::take(&mut self.open);
        let flushes = std::mem::take(&mut self.open_flushes).max(1);
        // What waited for the epoch is not to become one frame that no client would take.
        let large = std::mem::take(&mut self.open_bytes) > LARGE * self.config.seal_bytes_max;
        self.sealed_us = Some(now.us);
        if large {
            for entries in succession::portions(&entries, self.config.seal_bytes_max) {
                self.log.append(Batch::seal(self.epoch.clone(), entries, now.us, flushes, self.links));
            }
        } else {
            self.log.append(Batch::seal(self.epoch.clone(), entries, now.us, flushes, self.links));
        }
        self.log.evict(self.stored, now.us);
        Some(self.log.tail())
    }

    /// Follows the shortest tick of the replicas on other workers while all of them coalesce: fewer frames
    /// that compress better. A quarter of the tick, and at most `SEAL_STRETCH_US`, because the wait for
    /// the seal comes on top of the wait for the pass. (The replica on the owner's own worker needs none
    /// of this: its pass seals what is open when it begins.)
    pub fn set_tick(&mut self, tick_us: u64) {
        self.seal_interval_us = (tick_us / 4).min(SEAL_STRETCH_US).max(self.config.seal_interval_us);
    }

    /// Whether the open batch is as large as a batch may get.
    pub fn full(&self) -> bool {
        self.open_bytes >= self.config.seal_bytes_max && self.is_announced()
    }

    /// Whether entries wait for a seal.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }
}
