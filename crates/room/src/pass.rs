//! When a replica runs a pass over its members.
//!
//! A separate write costs about 6.5 µs of sender CPU whatever its size up to 4 KiB, so what saves CPU
//! is fewer writes; what costs latency is waiting. The law: with λ flush requests a second and P the
//! smoothed CPU cost of a pass, ρ = λ·P is the share of a core that passes at once would take. Up to a
//! whole core every request runs at once: those that come during a pass ride the next one, so a core
//! that is just full merges by itself and nothing queues up. From 1.2 on passes start at most every
//! P / 0.4, which holds them below half a core, up to a tick of 100 ms and, where even that is not enough,
//! up to the configured longest tick. Between the two the mode stays as it was, and it stays at least a
//! second. (Why not sooner: `docs/decisions/0003-pass-law.md`.)

/// Up to this share of a core passes run at once.
const SHARE_IMMEDIATE: f64 = 1.0;
/// From this share on passes are spaced.
const SHARE_COALESCE: f64 = 1.2;
/// The share that spaced passes take.
const SHARE_TARGET: f64 = 0.4;
/// The share that they may take before the tick grows beyond what viewers do not notice.
const SHARE_BEARABLE: f64 = 0.65;
/// The tick that viewers do not notice, microseconds.
const TICK_COMFORT_US: u64 = 100_000;
/// The least time in coalescing mode, microseconds.
const DWELL_US: u64 = 1_000_000;
/// Time constant of λ, microseconds.
const LAMBDA_TAU_US: f64 = 500_000.0;
/// Weight of the newest pass in P.
const COST_WEIGHT: f64 = 0.25;

/// The state of the law for one replica.
#[derive(Debug, Clone)]
pub struct Law {
    lambda_per_us: f64,
    arrived_us: u64,
    cost_us: f64,
    coalescing_since_us: Option<u64>,
    tick_max_us: u64,
    /// How many times the members here the room has in all.
    spread: f64,
}

impl Law {
    /// A law that spaces passes by at most `tick_max_us`.
    pub fn new(tick_max_us: u64) -> Self {
        Self {
            lambda_per_us: 0.0,
            arrived_us: 0,
            cost_us: 0.0,
            coalescing_since_us: None,
            tick_max_us,
            spread: 1.0,
        }
    }

    /// Another longest tick from now on.
    pub fn set_tick_max(&mut self, tick_max_us: u64) {
        self.tick_max_us = tick_max_us;
    }

    /// `flushes` flush requests have arrived.
    pub fn arrived(&mut self, now_us: u64, flushes: u32) {
        self.decay(now_us);
        self.lambda_per_us += f64::from(flushes) / LAMBDA_TAU_US;
        self.judge(now_us);
    }

    /// A whole pass took `cpu_us` of CPU time.
    pub fn passed(&mut self, now_us: u64, cpu_us: f64) {
        self.cost_us =
            if self.cost_us == 0.0 { cpu_us } else { self.cost_us + COST_WEIGHT * (cpu_us - self.cost_us) };
        self.decay(now_us);
        self.judge(now_us);
    }

    /// The room has `all` members on all workers, `here` of them on this one.
    ///
    /// Spaced passes hold the whole room at half a core while viewers do not notice: else a room spread
    /// over two workers would pass twice as often and pay for it with twice the writes.
    pub fn set_members(&mut self, here: u32, all: u32) {
        self.spread = f64::from(all.max(here).max(1)) / f64::from(here.max(1));
    }

    fn decay(&mut self, now_us: u64) {
        let elapsed = now_us.saturating_sub(self.arrived_us) as f64;
        self.lambda_per_us *= (-elapsed / LAMBDA_TAU_US).exp();
        self.arrived_us = now_us;
    }

    fn judge(&mut self, now_us: u64) {
        match self.coalescing_since_us {
            None if self.load() >= SHARE_COALESCE => self.coalescing_since_us = Some(now_us),
            Some(since) if self.load() <= SHARE_IMMEDIATE && now_us.saturating_sub(since) >= DWELL_US => {
                self.coalescing_since_us = None;
            }
            _ => {}
        }
    }

    /// ρ: the share of a core that passes at once would take.
    pub fn load(&self) -> f64 {
        self.lambda_per_us * self.cost_us
    }

    /// The smoothed CPU cost of a pass, microseconds.
    pub fn cost_us(&self) -> f64 {
        self.cost_us
    }

    /// Whether passes are spaced.
    pub fn coalescing(&self) -> bool {
        self.coalescing_since_us.is_some()
    }

    /// The least time between the starts of two passes, microseconds; 0: at once.
    pub fn tick_us(&self) -> u64 {
        if !self.coalescing() {
            return 0;
        }
        let comfortable = (self.cost_us * self.spread / SHARE_TARGET) as u64;
        if comfortable <= TICK_COMFORT_US {
            return comfortable;
        }
        let bearable = (self.cost_us / SHARE_BEARABLE) as u64;
        bearable.clamp(TICK_COMFORT_US, self.tick_max_us.max(TICK_COMFORT_US))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `per_s` requests a second through a law whose passes cost `cost_us`, for `secs` seconds.
    fn run(per_s: u64, cost_us: f64, secs: u64) -> Law {
        let mut law = Law::new(250_000);
        for k in 0..per_s * secs {
            let now = k * 1_000_000 / per_s;
            law.arrived(now, 1);
            law.passed(now, cost_us);
        }
        law
    }

    /// `Law::tick_us` over the loads that the design names.
    #[test]
    fn passes_run_at_once_when_cheap_and_are_spaced_when_dear() {
        for (per_s, cost_us, tick) in [
            (20, 26_000.0, 0),
            (100, 26_000.0, 65_000),
            (20, 50_000.0, 0),
            (20, 63_000.0, 100_000),
            (20, 104_000.0, 160_000),
            (20, 400_000.0, 250_000),
            (100, 5_000.0, 0),
        ] {
            let law = run(per_s, cost_us, 10);
            assert_eq!(law.tick_us(), tick, "{per_s}/s at {cost_us} µs, load {}", law.load());
        }
    }

    /// `Law::set_members`: a room over several workers is spaced as if it were on one, up to the comfortable
    /// tick, and no worker spaces by more for the sake of others.
    #[test]
    fn a_room_over_several_workers_is_spaced_by_its_whole_cost() {
        for (cost_us, here, all, tick) in
            [(13_000.0, 2_000, 4_000, 65_000), (26_000.0, 4_000, 40_000, 100_000), (13_000.0, 0, 0, 32_500)]
        {
            let mut law = run(200, cost_us, 10);
            law.set_members(here, all);
            assert_eq!(law.tick_us(), tick, "{here} of {all}");
        }
    }

    /// `Law`: the mode has hysteresis, and once coalescing it stays at least a second.
    #[test]
    fn a_short_lull_does_not_end_coalescing() {
        let mut law = run(100, 26_000.0, 5);
        let t = 5_000_000;
        law.arrived(t, 1);
        law.passed(t + 400_000, 26_000.0);
        assert!(law.coalescing(), "load {} is between the two marks or younger than a second", law.load());
        law.passed(t + 5_000_000, 26_000.0);
        assert!(!law.coalescing(), "load {}", law.load());
    }
}
