//! A look at every room, once a second, a few in each turn: strangers may have opened a hundred thousand of them,
//! and nobody is to wait for a count of the empty ones.

use std::sync::atomic::Ordering;

use danmaku_room::admission::breaker::State;

use super::Worker;
use super::rooms::{Follow, OwnerState};
use crate::observe::limits::Limit;

/// Rooms looked at in one turn: a fifth of a millisecond where none of them is in the cache.
const ROOMS_PER_TURN: u32 = 256;

/// A look at all rooms that is under way, and what it has counted so far.
#[derive(Debug, Default)]
pub(super) struct RoomSweep {
    next: u32,
    owned: u64,
    unstored: u64,
    tick_max: u64,
    forms_max: usize,
    breakers_open: u64,
    breakers_half_open: u64,
    held: u64,
    delayed: u64,
    sanctions: u64,
    reported: u64,
    asked: u64,
}

impl Worker {
    /// Begins another look, unless the last one still goes on.
    pub(super) fn begin_room_sweep(&mut self) {
        self.room_sweep.get_or_insert_default();
    }

    /// Looks at the next rooms. Whether there are more.
    pub(super) fn turn_room_sweep(&mut self) -> bool {
        let Some(mut sweep) = self.room_sweep.take() else { return false };
        let to = sweep.next.saturating_add(ROOMS_PER_TURN).min(self.rooms.slots());
        for index in sweep.next..to {
            if self.rooms.get_if(index).is_some() {
                self.sweep_room(index, &mut sweep);
            }
        }
        sweep.next = to;
        if to < self.rooms.slots() {
            self.room_sweep = Some(sweep);
            return true;
        }
        self.cells.rooms_owned.set(sweep.owned);
        self.cells.unstored.set(sweep.unstored);
        self.cells.tick_us_max.set(sweep.tick_max);
        self.cells.room_forms_max.set(sweep.forms_max as u64);
        self.cells.breakers_open.set(sweep.breakers_open);
        self.cells.sanctions.set(sweep.sanctions);
        self.cells.reported_now.set(sweep.reported);
        self.cells.breakers_half_open.set(sweep.breakers_half_open);
        self.cells.held_now.set(sweep.held);
        self.cells.delayed_now.set(sweep.delayed);
        self.cells.asked_now.set(sweep.asked);
        false
    }

    fn sweep_room(&mut self, index: u32, sweep: &mut RoomSweep) {
        let now = self.now;
        self.note_room_load(index);
        let local = self.rooms.get(index);
        sweep.tick_max = sweep.tick_max.max(local.view.law.tick_us());
        let forms = local.view.members.iter().filter(|list| !list.is_empty()).count();
        sweep.forms_max = sweep.forms_max.max(forms);
        if let Some(OwnerState::Active(active)) = &mut local.owner {
            sweep.owned += 1;
            sweep.unstored += active.owner.unstored() as u64;
            let sanctions = active.owner.sanctions().len();
            active.owner.age(now);
            let told = active.owner.tell_state(now);
            sweep.sanctions += active.owner.sanctions().len() as u64;
            let fewer = active.owner.sanctions().len() < sanctions;
            self.cells.met_often(Limit::Users, active.owner.take_forgotten_users());
            self.cells.count_rules(&active.owner.take_tally());
            self.cells.count_hidden(&active.owner.take_hidden());
            self.cells.count_words(&active.owner.take_word_tally());
            self.cells.count_reports(&active.owner.take_report_tally());
            sweep.reported += active.owner.reported().count() as u64;
            self.cells.count_held(&active.owner.take_held_tally());
            let (held, delayed) = active.owner.held_count();
            sweep.held += held as u64;
            sweep.delayed += delayed as u64;
            sweep.asked += active.owner.asked_count() as u64;
            let (state, opened) = active.owner.breaker();
            self.cells.breakers_opened.add(opened);
            sweep.breakers_open += u64::from(state == State::Open);
            sweep.breakers_half_open += u64::from(state == State::HalfOpen);
            let unused_us = now.us.saturating_sub(active.owner.active_us());
            if active.owner.idle() && unused_us > self.config.linger_us {
                local.owner = None;
            }
            if told {
                self.touch(index);
            }
            if fewer {
                self.open_door(index);
            }
        }
        let local = self.rooms.get(index);
        let online = local.online.load(Ordering::Relaxed);
        let view = &mut local.view;
        if view.member_count > 0 {
            if view.has_counts_to_tell(online) {
                self.want_pass(index);
            }
            self.report_tick(index);
            self.evict(index);
        } else if matches!(view.follow, Follow::Active(_))
            && view.empty_us.is_some_and(|since| now.us.saturating_sub(since) > self.config.linger_us)
        {
            self.unfollow(index);
        } else {
            self.evict(index);
        }
        let local = self.rooms.get(index);
        let view = &local.view;
        let unused = view.member_count == 0
            && matches!(view.follow, Follow::Not)
            && local.owner.is_none()
            && local.left.is_none();
        if unused && !self.touched.contains(&index) && !self.dirty.contains(&index) {
            let id = local.id.clone();
            self.rooms.remove(index);
            self.shared.directory.forget(&id);
        }
    }
}
