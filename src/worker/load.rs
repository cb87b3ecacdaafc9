//! How far a worker is behind, looked at ten times a second: what opens its breaker, and those of the rooms that it owns.

use danmaku_mailbox::Lane;
use danmaku_room::admission::breaker::{Load, State};

use super::Worker;
use super::rooms::OwnerState;
use crate::serve::NORMAL_SLOTS;

/// Owners with something unfinished that are looked at each time; all of them are once a second.
const OWNERS: usize = 256;

impl Worker {
    /// Takes notice of how far this worker is behind, and tells the others.
    pub(super) fn note_load(&mut self) {
        let now = self.now;
        let post = self.post(self.index);
        let percent = (post.depth(Lane::Normal) * 100 / NORMAL_SLOTS).min(100);
        let mailbox_age_us = post.age_us(Lane::Normal, now.us);
        let pass_lag_us = (0..self.dirty.len()).map(|at| self.pass_lag_us(self.dirty[at])).max().unwrap_or(0);
        let load = Load { mailbox_percent: percent as u8, mailbox_age_us, pass_lag_us, ..Load::default() };
        self.gate.observe(now.us, &load);
        for at in 0..self.touched.len().min(OWNERS) {
            self.note_room_load(self.touched[at]);
        }
        let told = &self.shared.told[usize::from(self.index)];
        told.pass_lag_us.set(pass_lag_us);
        told.window.set(self.gate.count(now.us).into());
        let (state, opened) = self.gate.breaker();
        self.cells.worker_breakers_open.set(u64::from(state == State::Open));
        self.cells.worker_breakers_half_open.set(u64::from(state == State::HalfOpen));
        self.cells.worker_breakers_opened.add(opened);
        self.cells.node_window.set(told.window.read());
        self.cells.pass_lag_us_max.set(pass_lag_us);
        self.cells.mailbox_age_us_max.set(mailbox_age_us);
    }

    /// How long ago the pass was due that a room waits for, or began that is under way, microseconds.
    fn pass_lag_us(&mut self, room: u32) -> u64 {
        let now_us = self.now.us;
        let view = &self.rooms.get(room).view;
        let since_us = if view.pass.is_some() { Some(view.pass_started_us) } else { view.pass_due_us() };
        // Of a room that has rested, the due time is that of the pass before.
        let quiet = view.pass.is_none() && !view.dirty;
        since_us.filter(|_| !quiet).map_or(0, |since| now_us.saturating_sub(since))
    }

    /// Takes notice of what is behind a room that is owned here: its store, and the passes of every worker with members.
    pub(super) fn note_room_load(&mut self, room: u32) {
        let now = self.now;
        let Worker { rooms, shared, .. } = self;
        let Some(OwnerState::Active(active)) = &mut rooms.get(room).owner else { return };
        let lags = active.links.iter().map(|link| shared.told[usize::from(link.worker)].pass_lag_us.read());
        let load = Load { pass_lag_us: lags.max().unwrap_or(0), ..Load::default() };
        active.owner.observe(now, &load);
    }

    /// Before a comment is looked at: what the other workers have in their parts of the window.
    pub(super) fn hear_windows(&mut self) {
        if self.gate.has_window() {
            let me = usize::from(self.index);
            let others = self.shared.told.iter().enumerate().filter(|(worker, _)| *worker != me);
            let count: u64 = others.map(|(_, told)| told.window.read()).sum();
            self.gate.set_elsewhere(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// After one was taken: what this worker has in its part.
    pub(super) fn tell_window(&mut self) {
        if self.gate.has_window() {
            let count = self.gate.count(self.now.us);
            self.shared.told[usize::from(self.index)].window.set(count.into());
        }
    }
}
