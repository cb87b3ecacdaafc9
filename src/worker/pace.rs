//! How fast a connection changes rooms, and an address creates them.

use danmaku_wire::id::RoomId;
use danmaku_wire::native::{ErrorCode, ErrorMessage};

use super::Worker;
use super::session::JOIN;
use crate::observe::limits::Limit;

/// What is left of `joins` when `seconds` have gone by.
pub(super) fn forgiven(joins: u16, seconds: u32, per_s: u32) -> u16 {
    let back = u64::from(seconds) * u64::from(per_s) * u64::from(JOIN);
    u16::try_from(u64::from(joins).saturating_sub(back)).unwrap_or(u16::MAX)
}

/// Whether one more move is within the burst.
///
/// # Errors
/// When it is not: how long until it is, milliseconds.
fn spend(joins: u16, burst: u32, per_s: u32) -> Result<u16, u64> {
    let (after, max) = (u64::from(joins) + u64::from(JOIN), u64::from(burst) * u64::from(JOIN));
    if after <= max {
        return Ok(u16::try_from(after).unwrap_or(u16::MAX));
    }
    // Seconds are given back whole.
    Err((after - max).div_ceil(u64::from(per_s.max(1)) * u64::from(JOIN)) * 1_000)
}

impl Worker {
    /// Whether a session may go to a room now; it is told if it may not, and stays where it is.
    pub(super) fn may_move(&mut self, slot: u32, room: &RoomId) -> bool {
        self.may_change(slot) && self.may_create(slot, room) && self.may_roam(slot)
    }

    /// Whether a session may change its room or its token now; it is told if it may not.
    pub(super) fn may_change(&mut self, slot: u32) -> bool {
        let (burst, per_s) = (self.config.joins_burst, self.config.joins_per_s);
        let joins = &mut self.slab.cold(slot).joins;
        match spend(*joins, burst, per_s) {
            Ok(after) => {
                *joins = after;
                true
            }
            Err(wait_ms) => {
                self.cells.met(Limit::Joins);
                self.refuse_until(slot, ErrorCode::RateLimited, wait_ms);
                false
            }
        }
    }

    /// Whether a session may go to a room that it would create; it is told if it may not. A room is created by whoever
    /// joins it while no worker knows it.
    pub(super) fn may_create(&mut self, slot: u32, room: &RoomId) -> bool {
        if self.shared.directory.contains(room) {
            return true;
        }
        let place = self.slab.cold(slot).place;
        match self.shared.addresses.create_room(place, &self.config.addresses) {
            Ok(()) => true,
            Err(wait_us) => {
                self.cells.met(Limit::RoomsCreated);
                self.refuse_until(slot, ErrorCode::TooManyRooms, wait_us.div_ceil(1_000));
                false
            }
        }
    }

    pub(super) fn refuse_until(&mut self, slot: u32, code: ErrorCode, wait_ms: u64) {
        self.cells.refuse(code);
        let error = ErrorMessage { retry_after_ms: Some(wait_ms), ..ErrorMessage::new(None, code) };
        self.tell_error(slot, &error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `spend`, `forgiven`: a burst, then the pace, at the ends of what can be configured.
    #[test]
    fn moves_are_given_back_by_the_second() {
        for (burst, per_s) in [(10, 2), (1, 1), (1_000, 1), (1_000, 1_000_000), (1, 1_000_000)] {
            let mut joins = 0;
            for _ in 0..burst {
                joins = spend(joins, burst, per_s).expect("within the burst");
            }
            assert_eq!(spend(joins, burst, per_s), Err(1_000), "{burst} {per_s}");
            let mut back = 0;
            joins = forgiven(joins, 1, per_s);
            while let Ok(after) = spend(joins, burst, per_s) {
                (joins, back) = (after, back + 1);
            }
            assert_eq!(back, burst.min(per_s), "{burst} {per_s}");
            assert_eq!(forgiven(joins, u32::MAX, per_s), 0);
        }
    }
}
