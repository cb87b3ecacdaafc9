//! When the server itself stood still: stopped by a signal, starved of its core, or a machine that slept.
//!
//! What peers did meanwhile lies unread in their sockets, and what they were to answer may not have reached them. A clock
//! that went on without us says nothing about them: who was asked has the whole time to answer again, and what was
//! missed is added to every other time that runs against a peer.

use super::session::Flags;
use super::{SWEEP_US, Worker};

/// A sweep that comes so much too late means that the worker did not run, microseconds: it never sleeps for longer than
/// a sweep while it has sessions, and a turn takes some milliseconds.
const PAUSE_US: u64 = 500_000;

/// How long a worker stood still that swept at `swept_us` and sweeps now; nothing where it ran.
fn missed_us(swept_us: u64, now_us: u64) -> Option<u64> {
    let missed = now_us.saturating_sub(swept_us).saturating_sub(SWEEP_US);
    (swept_us > 0 && missed >= PAUSE_US).then_some(missed)
}

impl Worker {
    /// Puts off every verdict over a peer by the time for which this worker stood still before this sweep.
    pub(super) fn forgive_own_pause(&mut self) {
        let Some(missed_us) = missed_us(self.swept_us, self.now.us) else { return };
        // A worker without sessions sleeps for longer, and has nobody to wrong.
        if self.slab.is_empty() {
            return;
        }
        self.cells.pauses.add(1);
        tracing::warn!(missed_ms = missed_us / 1_000, worker = self.index, "this worker stood still");
        let pong_due_s = (self.now.us / 1_000_000) as u32 + self.config.pong_within_s;
        for slot in 0..self.slab.slots() {
            if !self.slab.occupied(slot) {
                continue;
            }
            let (hot, cold) = self.slab.both(slot);
            if hot.flags.any(Flags::PINGED) {
                hot.due_s = pong_due_s;
            }
            if cold.blocked_us > 0 {
                cold.blocked_us += missed_us;
            }
        }
        for (_, until_us) in &mut self.closing {
            *until_us += missed_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `missed_us`: late turns are no pause, and what was missed is all that is beyond a sweep.
    #[test]
    fn only_a_worker_that_stood_still_has_missed_something() {
        for (swept_us, now_us, missed) in [
            (0, 10_000_000, None),
            (1_000_000, 1_000_000, None),
            (1_000_000, 1_000_000 + SWEEP_US, None),
            (1_000_000, 1_000_000 + SWEEP_US + PAUSE_US - 1, None),
            (1_000_000, 1_000_000 + SWEEP_US + PAUSE_US, Some(PAUSE_US)),
            (1_000_000, 9_000_000 + SWEEP_US, Some(8_000_000)),
        ] {
            assert_eq!(super::missed_us(swept_us, now_us), missed, "{swept_us} {now_us}");
        }
    }
}
