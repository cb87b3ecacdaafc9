//! Nanoseconds since 1970 that never run backwards: the wall clock is read once, then only the monotonic
//! one. The numbers stand in messages as due times, so a step of the wall clock would be a false latency.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock; copies of one agree with each other.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
    origin_ns: u64,
}

impl Clock {
    /// Reads the wall clock, once and for all.
    pub fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now(), origin_ns: nanos(since_1970) }
    }

    /// Now, in nanoseconds since 1970.
    pub fn now_ns(&self) -> u64 {
        self.origin_ns + nanos(self.origin.elapsed())
    }

    /// Sleeps until a moment, or not at all when it is past.
    pub fn sleep_until(&self, at_ns: u64) {
        std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(self.now_ns())));
    }
}

/// A duration in nanoseconds; 19 digits last until the year 2286.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds in nanoseconds.
pub fn secs_ns(secs: f64) -> u64 {
    nanos(Duration::try_from_secs_f64(secs).unwrap_or_default())
}
