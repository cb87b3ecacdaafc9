//! A bound on everything a room accepts, over a window that slides.
//!
//! Exact for the window cut into `SLICES` slices: the count over the last full window never exceeds
//! the bound, because the slice that is partly outside still counts whole.

/// Slices that a window is cut into.
const SLICES: usize = 50;

/// A bound over a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Length, microseconds.
    pub window_us: u64,
    /// Comments accepted in any such stretch of time.
    pub count_max: u32,
}

/// The window's counters.
#[derive(Debug)]
pub struct SlidingWindow {
    window: Window,
    /// Counts of the current slice and the [`SLICES`] before it.
    slices: [u32; SLICES + 1],
    /// Number of the current slice since time 0.
    current: u64,
    sum: u32,
}

impl SlidingWindow {
    /// An empty window.
    pub fn new(window: Window) -> Self {
        Self { window, slices: [0; SLICES + 1], current: 0, sum: 0 }
    }

    fn slice_us(&self) -> u64 {
        (self.window.window_us / SLICES as u64).max(1)
    }

    fn slot(slice: u64) -> usize {
        (slice % (SLICES as u64 + 1)) as usize
    }

    fn advance(&mut self, now_us: u64) {
        let slice = now_us / self.slice_us();
        let steps = slice.saturating_sub(self.current).min(SLICES as u64 + 1);
        for k in 0..steps {
            let gone = &mut self.slices[Self::slot(slice - k)];
            self.sum -= *gone;
            *gone = 0;
        }
        self.current = self.current.max(slice);
    }

    /// Counts one comment.
    ///
    /// # Errors
    /// How many microseconds until there is room, if the window is full.
    pub fn take(&mut self, now_us: u64) -> Result<(), u64> {
        self.advance(now_us);
        if self.sum >= self.window.count_max {
            // The oldest slice that holds anything leaves the window first.
            let oldest = (0..=SLICES as u64)
                .map(|k| (self.current + 1 + k).saturating_sub(SLICES as u64 + 1))
                .find(|slice| self.slices[Self::slot(*slice)] > 0)
                .unwrap_or(self.current);
            let frees_us = (oldest + SLICES as u64 + 1) * self.slice_us();
            return Err(frees_us.saturating_sub(now_us).max(1));
        }
        self.slices[Self::slot(self.current)] += 1;
        self.sum += 1;
        Ok(())
    }

    /// Comments counted in the window.
    pub fn count(&self) -> u32 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `take`: no stretch of window length holds more than the bound, the promised wait is true, and
        /// an accepted count below the bound over window + one slice is never refused.
        #[test]
        fn no_window_holds_more_than_the_bound(gaps in prop::collection::vec(0u64..300_000, 1..300)) {
            let window = Window { window_us: 1_000_000, count_max: 5 };
            let mut sliding = SlidingWindow::new(window);
            let (mut now, mut taken) = (0u64, Vec::<u64>::new());
            for gap in gaps {
                now += gap;
                if let Err(wait) = sliding.take(now) {
                    let recent = taken.iter().filter(|t| **t + 1_000_000 + 20_000 > now).count();
                    prop_assert!(recent >= 5, "refused with {recent}");
                    now += wait;
                    prop_assert!(sliding.take(now).is_ok());
                }
                taken.push(now);
            }
            for (i, t) in taken.iter().enumerate() {
                prop_assert!(taken[i..].iter().filter(|u| **u < t + 1_000_000).count() <= 5);
            }
        }
    }
}
