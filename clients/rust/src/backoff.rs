//! How long to wait before the next attempt: exponential with full jitter, so that a crowd that was
//! thrown out in one second does not come back in one second.

use std::time::Duration;

/// Doublings after which no cap in use is still out of reach.
const DOUBLINGS_MAX: u32 = 20;

/// Waiting times that grow with each attempt.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    attempts: u32,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, attempts: 0 }
    }

    /// Attempts since the last success that lasted.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Counts an attempt whose waiting time somebody else has chosen.
    pub(crate) fn count(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    /// The time before the next attempt: anything from 0 up to a bound that doubles each time.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        let bound = self.base.saturating_mul(1 << self.attempts.min(DOUBLINGS_MAX)).min(self.cap);
        self.count();
        bound.mul_f64(fraction(random))
    }

    /// A connection has lasted.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// A random number as a fraction from 0 to below 1.
pub(crate) fn fraction(random: u64) -> f64 {
    /// Bits that an `f64` holds exactly.
    const BITS: u32 = 53;
    (random >> (u64::BITS - BITS)) as f64 / (1u64 << BITS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Backoff::next`: bounds double up to the cap, jitter reaches from nothing to the bound, success starts anew.
    #[test]
    fn waiting_times_double_up_to_the_cap_and_start_anew_after_success() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(500), ms(3_000));
        let longest = |backoff: &mut Backoff| backoff.next(u64::MAX);
        for bound in [500, 1_000, 2_000, 3_000, 3_000] {
            let time = longest(&mut backoff);
            assert!(time <= ms(bound) && time > ms(bound - 1), "{time:?} for a bound of {bound} ms");
        }
        assert_eq!(backoff.next(0), Duration::ZERO);
        for _ in 0..100 {
            assert!(longest(&mut backoff) <= ms(3_000));
        }
        backoff.reset();
        assert!(longest(&mut backoff) <= ms(500));
    }
}
