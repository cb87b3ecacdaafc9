//! Sheds load while what comes behind admission is saturated: closed → open → half-open → closed.
//!
//! Closed lets everybody through. Saturation opens it: the crowd is refused for a while, twice as long each time it comes
//! back at once. Then it is half-open: a few probes pass. If nothing is saturated until their time is over it closes.

/// What is behind admission, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// How full the mailbox is, percent.
    pub mailbox_percent: u8,
    /// How old what lies there is, microseconds.
    pub mailbox_age_us: u64,
    /// How far passes are behind, microseconds.
    pub pass_lag_us: u64,
    /// How long the store has not moved although something waits for it, microseconds.
    pub stall_us: u64,
    /// Calls of the platform's hook that failed, one after the other.
    pub hook_failures: u32,
}

/// Above which load it opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The load that is too much: any of its numbers, reached.
    pub load: Load,
    /// How long it is open the first time, microseconds; at most eight times as long after that.
    pub open_us: u64,
    /// How long it is half-open, microseconds.
    pub half_open_us: u64,
    /// Comments that pass while it is half-open.
    pub probes: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            load: Load {
                mailbox_percent: 75,
                mailbox_age_us: 1_000_000,
                pass_lag_us: 2_000_000,
                stall_us: 1_000_000,
                hook_failures: 20,
            },
            open_us: 1_000_000,
            half_open_us: 1_000_000,
            probes: 20,
        }
    }
}

impl Bounds {
    /// Whether a load is too much.
    pub fn saturated(&self, load: &Load) -> bool {
        load.mailbox_percent >= self.load.mailbox_percent
            || load.mailbox_age_us >= self.load.mailbox_age_us
            || load.pass_lag_us >= self.load.pass_lag_us
            || load.stall_us >= self.load.stall_us
            || load.hook_failures >= self.load.hook_failures
    }
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// Lets everybody through.
    #[default]
    Closed,
    /// Refuses the crowd.
    Open,
    /// Lets a few through.
    HalfOpen,
}

impl State {
    /// All states, as they are counted.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// The longest time open, in times of the first.
const OPEN_TIMES_MAX: u32 = 8;

/// The breaker of a room.
#[derive(Debug, Default)]
pub struct Breaker {
    state: State,
    /// When it opened, or was half opened, microseconds.
    since_us: u64,
    /// How many times the first time it is open for.
    times: u32,
    probes: u32,
    opened: u64,
}

impl Breaker {
    /// Goes on to where the time has brought it.
    fn advance(&mut self, bounds: &Bounds, now_us: u64) {
        if self.state == State::Open && now_us >= self.open_until(bounds) {
            (self.state, self.since_us, self.probes) = (State::HalfOpen, self.open_until(bounds), 0);
        }
        if self.state == State::HalfOpen && now_us >= self.since_us.saturating_add(bounds.half_open_us) {
            (self.state, self.times) = (State::Closed, 0);
        }
    }

    fn open_until(&self, bounds: &Bounds) -> u64 {
        self.since_us.saturating_add(bounds.open_us.saturating_mul(self.times.into()))
    }

    /// Takes notice of the load. While it is too much the breaker stays open, its time counted from now.
    pub fn observe(&mut self, bounds: &Bounds, load: &Load, now_us: u64) {
        self.advance(bounds, now_us);
        if !bounds.saturated(load) {
            return;
        }
        if self.state != State::Open {
            self.times = (self.times * 2).clamp(1, OPEN_TIMES_MAX);
            self.opened += 1;
        }
        (self.state, self.since_us) = (State::Open, now_us);
    }

    /// Whether a comment of the crowd may pass; takes no probe.
    ///
    /// # Errors
    /// How many microseconds until one may, if nothing is saturated until then.
    pub fn check(&mut self, bounds: &Bounds, now_us: u64) -> Result<(), u64> {
        self.advance(bounds, now_us);
        match self.state {
            State::Closed => Ok(()),
            State::Open => Err(self.open_until(bounds) - now_us),
            State::HalfOpen if self.probes < bounds.probes => Ok(()),
            State::HalfOpen => Err(self.since_us + bounds.half_open_us - now_us),
        }
    }

    /// A comment of the crowd has passed.
    pub fn take(&mut self) {
        self.probes += u32::from(self.state == State::HalfOpen);
    }

    /// What it does.
    pub fn state(&self) -> State {
        self.state
    }

    /// How often it has opened since this was last asked.
    pub fn take_opened(&mut self) -> u64 {
        std::mem::take(&mut self.opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds {
        load: Load {
            mailbox_percent: 75,
            mailbox_age_us: 10,
            pass_lag_us: 20,
            stall_us: 30,
            hook_failures: 5,
        },
        open_us: 1_000,
        half_open_us: 500,
        probes: 2,
    };
    const QUIET: Load =
        Load { mailbox_percent: 74, mailbox_age_us: 9, pass_lag_us: 19, stall_us: 29, hook_failures: 4 };

    /// `observe`: each of the numbers opens it by itself, none of them below its bound.
    #[test]
    fn any_kind_of_saturation_opens_it() {
        let mut breaker = Breaker::default();
        breaker.observe(&BOUNDS, &QUIET, 0);
        assert_eq!(breaker.state(), State::Closed);
        for load in [
            Load { mailbox_percent: 75, ..QUIET },
            Load { mailbox_age_us: 10, ..QUIET },
            Load { pass_lag_us: 20, ..QUIET },
            Load { stall_us: 30, ..QUIET },
            Load { hook_failures: 5, ..QUIET },
        ] {
            let mut breaker = Breaker::default();
            breaker.observe(&BOUNDS, &load, 0);
            assert_eq!(breaker.state(), State::Open, "{load:?}");
            assert_eq!(breaker.take_opened(), 1);
        }
    }

    /// The whole way round, and the second time for twice as long.
    #[test]
    fn it_opens_probes_and_closes_again() {
        let full = Load { mailbox_percent: 100, ..QUIET };
        let mut breaker = Breaker::default();
        breaker.observe(&BOUNDS, &full, 100);
        assert_eq!(breaker.check(&BOUNDS, 100), Err(1_000));
        breaker.observe(&BOUNDS, &full, 300);
        assert_eq!(breaker.check(&BOUNDS, 300), Err(1_000), "while it is saturated its time does not pass");
        assert_eq!(breaker.check(&BOUNDS, 1_299), Err(1));
        for _ in 0..2 {
            assert_eq!(breaker.check(&BOUNDS, 1_300), Ok(()));
            breaker.take();
        }
        assert_eq!((breaker.check(&BOUNDS, 1_300), breaker.state()), (Err(500), State::HalfOpen));
        breaker.observe(&BOUNDS, &full, 1_400);
        assert_eq!(breaker.check(&BOUNDS, 1_400), Err(2_000), "the probes were too much");
        assert_eq!(breaker.check(&BOUNDS, 3_900), Ok(()));
        assert_eq!((breaker.state(), breaker.take_opened()), (State::Closed, 2));
        breaker.observe(&BOUNDS, &full, 4_000);
        assert_eq!(breaker.check(&BOUNDS, 4_000), Err(1_000), "once closed, it begins anew");
    }

    proptest! {
        /// Whatever comes: a promised wait is true if nothing is saturated until then; between two times that it was not
        /// closed, no more pass than there are probes; and a quiet time long enough always closes it.
        #[test]
        fn it_keeps_its_promises(steps in prop::collection::vec((0u64..700, 0u8..4), 1..200)) {
            let mut breaker = Breaker::default();
            let (mut now, mut promised, mut probes) = (0, None, 0);
            for (gap, what) in steps {
                now += gap;
                if what == 0 {
                    breaker.observe(&BOUNDS, &Load { stall_us: 30, ..QUIET }, now);
                    (promised, probes) = (None, 0);
                    prop_assert_eq!(breaker.state(), State::Open);
                    continue;
                }
                breaker.observe(&BOUNDS, &QUIET, now);
                let answer = breaker.check(&BOUNDS, now);
                if promised.is_some_and(|until| now >= until && until + 500 > now && probes == 0) {
                    prop_assert_eq!(answer, Ok(()));
                }
                match (answer, breaker.state()) {
                    (Ok(()), State::HalfOpen) => {
                        breaker.take();
                        probes += 1;
                        prop_assert!(probes <= BOUNDS.probes);
                    }
                    (Ok(()), state) => {
                        prop_assert_eq!(state, State::Closed);
                        probes = 0;
                    }
                    (Err(wait), _) => {
                        prop_assert!(wait <= 8_000);
                        promised = Some(now + wait);
                    }
                }
            }
            prop_assert_eq!(breaker.check(&BOUNDS, now + 8_500), Ok(()));
            prop_assert_eq!(breaker.state(), State::Closed);
        }
    }
}
