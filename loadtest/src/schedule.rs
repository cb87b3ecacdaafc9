//! When messages are due: a fixed schedule that waits for nobody (open loop). What is sent late keeps the
//! time at which it was due, so that a stall of the server or of the sender is in the latency.

/// A group's schedule.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    start_ns: u64,
    interval_ns: f64,
    next: u64,
}

impl Schedule {
    /// `rate` messages a second from `start_ns` on; none at all if it is not above 0.
    pub fn new(start_ns: u64, rate: f64) -> Option<Self> {
        (rate > 0.0).then(|| Self { start_ns, interval_ns: 1e9 / rate, next: 0 })
    }

    /// When the next message is due.
    pub fn due_ns(&self) -> u64 {
        // Multiplied, not added up: the rate does not drift.
        self.start_ns + (self.next as f64 * self.interval_ns) as u64
    }

    /// The number of the next message, from 0, which is now taken as sent.
    pub fn take(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Schedule`: the due times depend on the rate alone, however late they are asked for.
    #[test]
    fn due_times_do_not_drift() {
        let mut schedule = Schedule::new(5_000, 300.0).expect("a rate");
        for n in 0..300_000 {
            assert_eq!(schedule.take(), n);
        }
        assert_eq!(schedule.due_ns(), 5_000 + 1_000_000_000_000);
        assert!(Schedule::new(0, 0.0).is_none());
    }
}
