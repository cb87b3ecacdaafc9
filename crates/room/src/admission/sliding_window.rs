//! A bound on everything a room accepts, over a window that slides; and near the bound, who comes first.
//!
//! The window is cut into `SLICES` slices, and the slice that is partly outside still counts whole: no stretch of
//! time as long as the window ever holds more than the bound.
//!
//! While the window holds less than a quarter of the bound everybody is let in. After that, who has nothing in it still
//! comes in while there is room at all. Everybody else comes in by *places*, which are given
//! out at the pace at which a full window becomes free. The fewer places are left, the longer must the author's last
//! comment be ago: not at all while half of the places are there, a whole window when there are none. So a crowd that
//! wants more than there is comes to rest at the interval at which it takes just what is given out, one comment for each
//! account, and whoever asks less often is let in ahead of it: a fair part for everybody, without a queue or an
//! estimate of anybody's rate. Routers share links in this spirit, by one threshold for all flows that is fitted to the
//! load (core-stateless fair queueing, Stoica 1998; approximate fair dropping, Pan 2003), and switches their memory by one
//! that falls with what is free (dynamic thresholds, Choudhury and Hahne 1998). Here it is a time, and can be told to
//! whoever is refused.
//!
//! A threshold on what the window holds, or on counts of accounts in it, does not do: a crowd takes the whole window at
//! once, and nobody comes in until it is free again, at once, for the same crowd.

#[cfg(test)]
mod tests;

/// Slices that a window is cut into.
const SLICES: usize = 31;
/// Slots for the slices, the present one included.
const SLOTS: usize = SLICES + 1;
/// The part of the bound below which everybody is let in: one over this.
const FREE_PART: u32 = 4;
/// Slices in which places are given out for what the window lacks.
const FILL_SLICES: f64 = 32.0;
/// The part of the bound for which there are places at most: what a crowd may take at once, and how long it then waits,
/// swings about less the smaller it is.
const PLACES_PART: f64 = 8.0;
/// Places there may be in any case: a small window is simply first come, first served.
const PLACES_LEAST: f64 = 8.0;
/// How many times what the window lacks there may be places.
const PLACES_PER_FREE: f64 = 4.0;
/// How much longer a wait is than it need be, so that it is true, microseconds.
const WAIT_PRECISION_US: u64 = 1_000;

/// A bound over a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Length, microseconds.
    pub window_us: u64,
    /// Comments accepted in any such stretch of time.
    pub count_max: u32,
}

impl Window {
    fn slice_us(&self) -> u64 {
        self.window_us.div_ceil(SLICES as u64).max(1)
    }

    /// What the window holds when it is as full as a crowd makes it: the rest is for those who have nothing in it.
    fn full(&self) -> f64 {
        f64::from(self.count_max - self.count_max / 16)
    }

    fn places_max(&self) -> f64 {
        let count_max = f64::from(self.count_max);
        (count_max / PLACES_PART).max(count_max.min(PLACES_LEAST))
    }
}

/// The window of a room.
#[derive(Debug, Clone)]
pub struct FairWindow {
    window: Window,
    /// Counts of the current slice and the [`SLICES`] before it.
    slices: [u32; SLOTS],
    /// Number of the current slice since time 0.
    current: u64,
    total: u32,
    /// What others have in their parts of the same window.
    elsewhere: u32,
    /// Places, as there were at a time.
    places: f64,
    places_us: u64,
}

impl FairWindow {
    /// An empty window.
    pub fn new(window: Window) -> Self {
        let places = window.places_max();
        Self { window, slices: [0; SLOTS], current: 0, total: 0, elsewhere: 0, places, places_us: 0 }
    }

    fn slot(slice: u64) -> usize {
        (slice % SLOTS as u64) as usize
    }

    fn advance(&mut self, now_us: u64) {
        let slice = now_us / self.window.slice_us();
        // After twice its length the window is empty, and all places are there again.
        let steps = slice.saturating_sub(self.current).min(2 * SLOTS as u64);
        for step in (0..steps).rev() {
            self.give_out((slice - step) * self.window.slice_us());
            self.total -= std::mem::take(&mut self.slices[Self::slot(slice - step)]);
        }
        self.current = self.current.max(slice);
        self.give_out(now_us);
    }

    /// Gives out the places of the time that has passed: as many as become free in a full window, and more while the
    /// window is not full.
    fn give_out(&mut self, now_us: u64) {
        let lacks = self.window.full() - f64::from(self.all());
        // What becomes free elsewhere is given out there.
        let part = (f64::from(self.total) + 1.0) / (f64::from(self.all()) + 1.0);
        let pace = part * self.window.full() / SLOTS as f64 + lacks / FILL_SLICES;
        let passed_us = now_us.saturating_sub(self.places_us) as f64;
        let given = pace.max(0.0) * passed_us / self.window.slice_us() as f64;
        let most = self.window.places_max().min(lacks * PLACES_PER_FREE);
        self.places = (self.places + given).min(most).max(0.0);
        self.places_us = self.places_us.max(now_us);
    }

    /// How long ago an author's last comment must be, microseconds.
    fn interval_us(&self) -> u64 {
        let missing = 1.0 - self.places / (self.window.places_max() / 2.0);
        (missing.max(0.0) * self.window.window_us as f64) as u64
    }

    fn lets_in(&self, last_us: Option<u64>, now_us: u64) -> bool {
        let passed_us = last_us.map_or(u64::MAX, |last| now_us.saturating_sub(last));
        let count_max = self.window.count_max;
        let freely = self.all() < count_max / FREE_PART || passed_us >= self.window.window_us;
        let by_place = self.places >= 1.0 && passed_us >= self.interval_us();
        self.all() < count_max && (freely || by_place)
    }

    /// Whether one more comment is let in, whose author's last one was at `last_us`; counts nothing.
    ///
    /// # Errors
    /// How many microseconds until it is, if nobody else comes in.
    pub fn check(&mut self, last_us: Option<u64>, now_us: u64) -> Result<(), u64> {
        self.advance(now_us);
        if self.lets_in(last_us, now_us) {
            return Ok(());
        }
        // By then everybody's last comment has left. Until then it gets easier all the time.
        let (mut shut, mut open) = (0, self.window.window_us + 2 * self.window.slice_us());
        while open - shut > WAIT_PRECISION_US {
            let middle = shut.midpoint(open);
            let mut then = self.clone();
            then.advance(now_us + middle);
            if then.lets_in(last_us, now_us + middle) {
                open = middle;
            } else {
                shut = middle;
            }
        }
        Err(open)
    }

    /// Counts one comment, whether it was let in or not.
    pub fn take(&mut self, now_us: u64) {
        self.advance(now_us);
        self.slices[Self::slot(self.current)] += 1;
        self.total += 1;
        self.places = (self.places - 1.0).max(0.0);
    }

    /// Comments counted in the window.
    pub fn count(&self) -> u32 {
        self.total
    }

    /// The same at a time.
    pub fn count_at(&mut self, now_us: u64) -> u32 {
        self.advance(now_us);
        self.total
    }

    /// What others have in their parts of the same window.
    pub fn set_elsewhere(&mut self, count: u32) {
        self.elsewhere = count;
    }

    fn all(&self) -> u32 {
        self.total.saturating_add(self.elsewhere)
    }
}
