//! What holds for all rooms of a worker together: its own breaker, and its part of the window over the whole process.
//!
//! The window is kept in parts, one for each worker, so that nobody waits for anybody. What the others have in theirs comes
//! in as a number that they tell all the time. Between looking and counting, each of the others may let one more in: so
//! many more than the bound, and no more, may a window hold.

use super::breaker::{self, Breaker, Load, State};
use super::restraints::Restraints;
use super::sliding_window::{FairWindow, Window};

/// What all rooms of a worker are held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// When the worker sheds load.
    pub breaker: breaker::Bounds,
    /// The window over all comments of the process; `None`: there is none.
    pub node: Option<Window>,
}

/// The admission that the rooms of a worker share.
#[derive(Debug, Default)]
pub struct WorkerGate {
    bounds: Bounds,
    breaker: Breaker,
    window: Option<FairWindow>,
    restraints: Restraints,
}

impl WorkerGate {
    /// The gate of a worker whose rooms have taken nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        let window = bounds.node.map(FairWindow::new);
        Self { bounds, breaker: Breaker::default(), window, restraints: Restraints::default() }
    }

    /// Other bounds from now on; a window whose size changes is counted anew.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        if bounds.node != self.bounds.node {
            self.window = bounds.node.map(FairWindow::new);
        }
        self.bounds = bounds;
    }

    /// Takes notice of the load behind the worker.
    pub fn observe(&mut self, now_us: u64, load: &Load) {
        self.breaker.observe(&self.bounds.breaker, load, now_us);
    }

    /// What its breaker does, and how often it has opened since this was last asked.
    pub fn breaker(&mut self) -> (State, u64) {
        (self.breaker.state(), self.breaker.take_opened())
    }

    /// What was found out about users over all rooms.
    pub const fn restraints(&mut self) -> &mut Restraints {
        &mut self.restraints
    }

    /// Whether there is a window, and what the others have in it matters.
    pub const fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// What the other workers have in their parts of the window.
    pub fn set_elsewhere(&mut self, count: u32) {
        if let Some(window) = &mut self.window {
            window.set_elsewhere(count);
        }
    }

    /// Comments in this worker's part of the window.
    pub fn count(&mut self, now_us: u64) -> u32 {
        self.window.as_mut().map_or(0, |window| window.count_at(now_us))
    }

    /// Whether the breaker lets a comment of the crowd pass; see [`Breaker::check`].
    pub(super) fn check_breaker(&mut self, now_us: u64) -> Result<(), u64> {
        self.breaker.check(&self.bounds.breaker, now_us)
    }

    /// Whether the window has room for a comment of the crowd; see [`FairWindow::check`].
    pub(super) fn check_window(&mut self, last_us: Option<u64>, now_us: u64) -> Result<(), u64> {
        self.window.as_mut().map_or(Ok(()), |window| window.check(last_us, now_us))
    }

    /// A comment of the crowd has passed.
    pub(super) fn take(&mut self, now_us: u64) {
        self.breaker.take();
        if let Some(window) = &mut self.window {
            window.take(now_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Window = Window { window_us: 1_000_000, count_max: 100 };

    fn parts() -> [WorkerGate; 3] {
        std::array::from_fn(|_| WorkerGate::new(Bounds { node: Some(WINDOW), ..Bounds::default() }))
    }

    /// Brings one part up to what the others hold.
    fn tell(parts: &mut [WorkerGate; 3], at: usize, now_us: u64) {
        let others: u32 = (0..3).filter(|other| *other != at).map(|other| parts[other].count(now_us)).sum();
        parts[at].set_elsewhere(others);
    }

    proptest! {
        /// Whoever asks at whichever worker: no stretch of time as long as the window holds more than the bound.
        #[test]
        fn the_parts_of_a_window_hold_no_more_than_the_window_may(
            steps in prop::collection::vec((0u64..20_000, 0usize..3, prop::option::of(0u64..2_000_000)), 1..600),
        ) {
            let mut parts = parts();
            let (mut now, mut taken) = (10_000_000, Vec::new());
            for (gap, at, last) in steps {
                now += gap;
                tell(&mut parts, at, now);
                if parts[at].check_window(last.map(|ago| now.saturating_sub(ago)), now).is_ok() {
                    parts[at].take(now);
                    taken.push(now);
                }
                let begins = now - WINDOW.window_us;
                let held = taken.iter().filter(|at| **at > begins).count();
                prop_assert!(held <= WINDOW.count_max as usize, "{held}");
            }
        }
    }

    /// A worker that is busy alone gets nearly the whole window, and leaves room when others come.
    #[test]
    fn a_worker_alone_has_the_whole_window() {
        let mut parts = parts();
        let mut taken = [0u32; 3];
        let ask = |parts: &mut [WorkerGate; 3], at: usize, now: u64, taken: &mut [u32; 3]| {
            tell(parts, at, now);
            // Accounts that have nothing in the window all the time: what is asked is how many, not who.
            if parts[at].check_window(None, now).is_ok() {
                parts[at].take(now);
                taken[at] += 1;
            }
        };
        for step in 0..20_000 {
            ask(&mut parts, 0, 10_000_000 + step * 250, &mut taken);
        }
        assert!(taken[0] >= 400, "five windows of a hundred: {taken:?}");
        taken = [0; 3];
        for step in 0..60_000 {
            ask(&mut parts, step as usize % 3, 20_000_000 + step * 250, &mut taken);
        }
        assert!(taken.iter().all(|n| *n >= 150), "each gets something of fifteen windows: {taken:?}");
        assert!(taken.iter().sum::<u32>() <= 1_600, "{taken:?}");
    }

    /// Without bounds it holds nobody up.
    #[test]
    fn a_gate_without_a_window_lets_everybody_pass() {
        let mut gate = WorkerGate::default();
        for now in 0..1_000 {
            assert_eq!((gate.check_window(Some(now), now), gate.check_breaker(now)), (Ok(()), Ok(())));
            gate.take(now);
        }
        assert_eq!((gate.count(1_000), gate.has_window()), (0, false));
    }
}
