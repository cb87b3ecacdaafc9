//! Whether a receiver is asked at all: closed, open, half-open.
//!
//! In come the time and how calls ended, out comes whether the next one may begin. After failures in a
//! row, or too large a share of them in a window, the breaker opens: nobody waits for a receiver that does
//! not answer, and it gets time to recover. Then one call at a time is let through as a probe; enough
//! good ones close the breaker, a bad one opens it again, for longer. Knows no clock and no socket; what
//! happens to a question that is not asked is decided elsewhere.

use std::time::Duration;

/// Parts of the window; the oldest is forgotten as a whole.
const SLICES: usize = 10;

/// When a breaker opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// So many failures in a row open it; at least 1.
    pub failures_in_row: u32,
    /// How far back the share of failures looks; at least 10 ms.
    pub window: Duration,
    /// Fewer calls than this in the window say nothing about a share; at least 1.
    pub calls_min: u32,
    /// So many failures among a hundred calls of the window open it; 1–100.
    pub failure_percent: u8,
    /// How long it stays open the first time. Each failed probe doubles it.
    pub open_for: Duration,
    /// The longest it stays open; at least `open_for`.
    pub open_for_max: Duration,
    /// So many good probes, one after the other, close it; at least 1.
    pub probes: u32,
    /// A probe that has not ended after this long has failed.
    pub probe_within: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures_in_row: 10,
            window: Duration::from_secs(10),
            calls_min: 20,
            failure_percent: 50,
            open_for: Duration::from_secs(1),
            open_for_max: Duration::from_secs(30),
            probes: 3,
            probe_within: Duration::from_secs(5),
        }
    }
}

/// A setting of a breaker that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("breaker.{key} is out of range: {right}")]
pub struct BreakerSettingsError {
    /// Which setting.
    pub key: &'static str,
    /// What would be right.
    pub right: &'static str,
}

impl BreakerSettings {
    fn check(&self) -> Result<(), BreakerSettingsError> {
        let rules = [
            (self.failures_in_row >= 1, "failures_in_row", "at least 1"),
            (self.window >= Duration::from_millis(10), "window", "at least 10 ms"),
            (self.calls_min >= 1, "calls_min", "at least 1"),
            ((1..=100).contains(&self.failure_percent), "failure_percent", "1 to 100"),
            (!self.open_for.is_zero(), "open_for", "longer than nothing"),
            (self.open_for_max >= self.open_for, "open_for_max", "at least as long as open_for"),
            (self.probes >= 1, "probes", "at least 1"),
            (!self.probe_within.is_zero(), "probe_within", "longer than nothing"),
        ];
        match rules.iter().find(|(kept, ..)| !kept) {
            Some((_, key, right)) => Err(BreakerSettingsError { key, right }),
            None => Ok(()),
        }
    }
}

/// The state, as metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Everything is asked.
    Closed,
    /// Nothing is asked.
    Open,
    /// One probe at a time is asked.
    HalfOpen,
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Closed,
    Open { until: Duration },
    HalfOpen { good: u32, probe_until: Option<Duration> },
}

/// Leave for one call; says to which stretch of the breaker's life the call belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Permit {
    stretch: u64,
}

/// A breaker for one receiver. All times count from one moment of the caller's choice.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    mode: Mode,
    /// Rises whenever what was begun before must not count any more.
    stretch: u64,
    failures_in_row: u32,
    window: Window,
    /// Times it opened without having closed in between.
    opened_in_row: u32,
    opened: u64,
    now: Duration,
}

impl Breaker {
    /// A closed breaker.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: BreakerSettings) -> Result<Self, BreakerSettingsError> {
        settings.check()?;
        Ok(Self {
            settings,
            mode: Mode::Closed,
            stretch: 0,
            failures_in_row: 0,
            window: Window::default(),
            opened_in_row: 0,
            opened: 0,
            now: Duration::ZERO,
        })
    }

    /// Leave for a call that begins now; `None`: it must not begin. Whoever has leave says with
    /// [`Self::record`] how the call ended.
    pub fn admit(&mut self, now: Duration) -> Option<Permit> {
        self.advance(now);
        match &mut self.mode {
            Mode::Closed => Some(Permit { stretch: self.stretch }),
            Mode::Open { .. } => None,
            Mode::HalfOpen { probe_until: Some(_), .. } => None,
            Mode::HalfOpen { probe_until, .. } => {
                *probe_until = Some(self.now.saturating_add(self.settings.probe_within));
                // Only this probe may speak for the receiver.
                self.stretch += 1;
                Some(Permit { stretch: self.stretch })
            }
        }
    }

    /// How a call ended. One that began before the breaker last changed says nothing any more.
    pub fn record(&mut self, now: Duration, permit: Permit, good: bool) {
        self.advance(now);
        if permit.stretch != self.stretch {
            return;
        }
        match self.mode {
            Mode::Closed => self.count(good),
            // Opening began a new stretch: no permit is of this one.
            Mode::Open { .. } => {}
            Mode::HalfOpen { good: before, .. } if good => {
                if before + 1 >= self.settings.probes {
                    self.close();
                } else {
                    self.mode = Mode::HalfOpen { good: before + 1, probe_until: None };
                }
            }
            Mode::HalfOpen { .. } => self.open(),
        }
    }

    /// The state at a moment.
    pub fn state(&mut self, now: Duration) -> BreakerState {
        self.advance(now);
        match self.mode {
            Mode::Closed => BreakerState::Closed,
            Mode::Open { .. } => BreakerState::Open,
            Mode::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// How often it opened.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// What time alone does. Time that runs backwards stands still.
    fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        match self.mode {
            Mode::Open { until } if self.now >= until => {
                self.mode = Mode::HalfOpen { good: 0, probe_until: None };
            }
            Mode::HalfOpen { probe_until: Some(until), .. } if self.now >= until => self.open(),
            _ => {}
        }
    }

    fn count(&mut self, good: bool) {
        let slice = self.now.as_nanos() / (self.settings.window.as_nanos() / SLICES as u128);
        self.window.count(slice, good);
        self.failures_in_row = if good { 0 } else { self.failures_in_row.saturating_add(1) };
        let (calls, failures) = self.window.sum();
        let share_is_too_large = calls >= u64::from(self.settings.calls_min)
            && failures * 100 >= calls * u64::from(self.settings.failure_percent);
        if self.failures_in_row >= self.settings.failures_in_row || share_is_too_large {
            self.open();
        }
    }

    fn open(&mut self) {
        let doubled = self.settings.open_for.saturating_mul(1 << self.opened_in_row.min(16));
        let until = self.now.saturating_add(doubled.min(self.settings.open_for_max));
        self.mode = Mode::Open { until };
        self.stretch += 1;
        self.opened_in_row = self.opened_in_row.saturating_add(1);
        self.opened += 1;
    }

    fn close(&mut self) {
        self.mode = Mode::Closed;
        self.stretch += 1;
        self.failures_in_row = 0;
        self.opened_in_row = 0;
        self.window = Window::default();
    }
}

/// Calls and failures of the last [`SLICES`] parts of the window.
#[derive(Debug, Default)]
struct Window {
    /// Number of the newest part.
    newest: u128,
    calls: [u64; SLICES],
    failures: [u64; SLICES],
}

impl Window {
    fn count(&mut self, slice: u128, good: bool) {
        let passed = slice.saturating_sub(self.newest).min(SLICES as u128);
        self.newest = self.newest.max(slice);
        for back in 0..passed {
            let at = Self::place(self.newest - back);
            (self.calls[at], self.failures[at]) = (0, 0);
        }
        let at = Self::place(self.newest);
        self.calls[at] += 1;
        self.failures[at] += u64::from(!good);
    }

    fn sum(&self) -> (u64, u64) {
        (self.calls.iter().sum(), self.failures.iter().sum())
    }

    fn place(slice: u128) -> usize {
        usize::try_from(slice % SLICES as u128).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
