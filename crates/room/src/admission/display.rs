//! How many comments a tier shows in a second, and whose: a budget, and everybody's even share of it.
//!
//! A tier has tokens, which come back at its pace. An author is shown when its last comment that was shown is an *interval*
//! ago, the same for all. The interval is what a controller steers: it grows while tokens run low and shrinks while they
//! are plenty, so that it comes to rest where just as many comments are shown as tokens come back. Whoever waits longer than
//! the interval because it writes seldom has the difference to its credit, up to one interval; so the crowd's shares are even
//! however often each of them writes, as long as each writes more than its share.
//!
//! A part of the tokens is left alone by the crowd: it is for VIPs and events.

use danmaku_wire::entry::Tier;

/// How much of a room the tiers show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Comments a second that `standard` shows.
    pub standard_per_s: u32,
    /// Comments a second that `lite` shows, of those that `standard` shows.
    pub lite_per_s: u32,
    /// Whether it is only counted what would be hidden.
    pub observes: bool,
}

impl Bounds {
    const fn paces(&self) -> [u32; 2] {
        [self.standard_per_s, self.lite_per_s]
    }
}

/// What tiers hid since this was last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hidden {
    /// Comments that `standard` and `lite` do not show.
    pub standard: u64,
    /// Comments that `lite` does not show.
    pub lite: u64,
    /// The same where the budget only observes.
    pub observed_standard: u64,
    /// The same where the budget only observes.
    pub observed_lite: u64,
}

/// When a user was shown, as tiers count it: in `standard` and in `lite`, microseconds.
pub type Shown = [u64; 2];

/// For how long a user's share is remembered that has nothing else to its name, and the longest interval, microseconds.
pub const INTERVAL_MAX_US: u64 = 60_000_000;

/// The part of a second's tokens that may be saved up.
const SAVED_S: f64 = 0.5;
/// The part of them that the crowd leaves alone.
const RESERVED: f64 = 0.2;
/// The part of them at which the interval rests.
const TARGET: f64 = 0.6;
/// How fast the interval follows, by second and by moment: found by simulation over crowds of ten to five thousand.
const FOLLOWS_PER_S: f64 = 1.0;
const FOLLOWS_AT_ONCE: f64 = 2.0;
const INTERVAL_LEAST_S: f64 = 0.001;
const INTERVAL_MOST_S: f64 = INTERVAL_MAX_US as f64 / 1e6;

/// The budget of one tier.
#[derive(Debug, Clone, Copy)]
struct Budget {
    tokens: f64,
    at_us: u64,
    interval_s: f64,
}

impl Budget {
    const fn new() -> Self {
        Self { tokens: f64::MAX, at_us: 0, interval_s: INTERVAL_LEAST_S }
    }

    fn most(per_s: u32) -> f64 {
        (f64::from(per_s) * SAVED_S).max(1.0)
    }

    /// Brings it to the present: the interval of the moment, seconds.
    fn advance(&mut self, per_s: u32, now_us: u64) -> f64 {
        let passed_s = now_us.saturating_sub(self.at_us) as f64 / 1e6;
        self.at_us = self.at_us.max(now_us);
        self.tokens = (self.tokens + passed_s * f64::from(per_s)).min(Self::most(per_s));
        let lacks = (TARGET - self.tokens / Self::most(per_s)) / TARGET;
        let followed = self.interval_s * (FOLLOWS_PER_S * lacks * passed_s).exp();
        self.interval_s = followed.clamp(INTERVAL_LEAST_S, INTERVAL_MOST_S);
        self.interval_s * (FOLLOWS_AT_ONCE * lacks).exp()
    }

    /// Whether a comment is shown; then it is charged to the tier and to its author.
    fn show(&mut self, per_s: u32, shown_us: &mut u64, ahead: bool, now_us: u64) -> bool {
        let interval_us = (self.advance(per_s, now_us) * 1e6) as u64;
        let most = Self::most(per_s);
        // A tier with hardly any tokens reserves none.
        let reserved = if ahead || most < 2.0 { 0.0 } else { RESERVED * most };
        let waited = now_us.saturating_sub(*shown_us) >= interval_us || *shown_us == 0;
        if self.tokens < 1.0 + reserved.min(most - 1.0) || !(ahead || waited) {
            return false;
        }
        self.tokens -= 1.0;
        if !ahead {
            *shown_us = (*shown_us + interval_us).max(now_us.saturating_sub(interval_us)).max(1).min(now_us);
        }
        true
    }
}

/// The budgets of one room.
#[derive(Debug)]
pub struct Display {
    budgets: [Budget; 2],
    hidden: Hidden,
}

impl Default for Display {
    fn default() -> Self {
        Self { budgets: [Budget::new(); 2], hidden: Hidden::default() }
    }
}

impl Display {
    /// The least tier that shows a comment. `ahead` is one of a VIP, or of somebody who keeps order.
    pub fn show(&mut self, bounds: &Bounds, shown: &mut Shown, ahead: bool, now_us: u64) -> Tier {
        let [standard, lite] = &mut self.budgets;
        let [standard_per_s, lite_per_s] = bounds.paces();
        let in_standard = standard.show(standard_per_s, &mut shown[0], ahead, now_us);
        let in_lite = in_standard && lite.show(lite_per_s, &mut shown[1], ahead, now_us);
        let (of_standard, of_lite) = if bounds.observes {
            (&mut self.hidden.observed_standard, &mut self.hidden.observed_lite)
        } else {
            (&mut self.hidden.standard, &mut self.hidden.lite)
        };
        *of_standard += u64::from(!in_standard);
        *of_lite += u64::from(!in_lite);
        match (in_standard, in_lite) {
            _ if bounds.observes => Tier::Lite,
            (true, true) => Tier::Lite,
            (true, false) => Tier::Standard,
            (false, _) => Tier::Full,
        }
    }

    /// An event is shown to everybody, and takes its part of the budgets.
    pub fn take(&mut self, bounds: &Bounds, now_us: u64) {
        for (budget, per_s) in self.budgets.iter_mut().zip(bounds.paces()) {
            budget.advance(per_s, now_us);
            budget.tokens = (budget.tokens - 1.0).max(0.0);
        }
    }

    /// What tiers hid since this was last asked.
    pub fn take_hidden(&mut self) -> Hidden {
        std::mem::take(&mut self.hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { standard_per_s: 30, lite_per_s: 15, observes: false };
    const SECOND: u64 = 1_000_000;

    /// A crowd: how many, and how long each waits between two comments, microseconds.
    type Crowd = (usize, u64);

    /// Lets crowds write for two minutes: for each author, how often it was shown in `standard` and `lite` in the second.
    fn play(crowds: &[Crowd], ahead: &[bool]) -> (Vec<Vec<[u64; 2]>>, Vec<[u64; 2]>) {
        let mut display = Display::default();
        let mut shown: Vec<Vec<Shown>> = crowds.iter().map(|(count, _)| vec![[0; 2]; *count]).collect();
        let mut counts: Vec<Vec<[u64; 2]>> = crowds.iter().map(|(count, _)| vec![[0; 2]; *count]).collect();
        let mut events = std::collections::BinaryHeap::new();
        let mut draw = 88_172_645_463_325_252u64;
        let mut random = move |below: u64| {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            draw % below
        };
        for (crowd, (count, gap)) in crowds.iter().enumerate() {
            events.extend((0..*count).map(|who| std::cmp::Reverse((SECOND + random(*gap), crowd, who))));
        }
        let mut seconds = vec![[0; 2]; 121];
        while let Some(std::cmp::Reverse((now, crowd, who))) = events.pop() {
            if now > 120 * SECOND {
                break;
            }
            // Between half and one and a half of the gap.
            let gap = crowds[crowd].1;
            events.push(std::cmp::Reverse((now + gap / 2 + random(gap), crowd, who)));
            let tier = display.show(&BOUNDS, &mut shown[crowd][who], ahead[crowd], now);
            for (of, at) in [(0, Tier::Standard), (1, Tier::Lite)] {
                if tier <= at {
                    seconds[(now / SECOND) as usize][of] += 1;
                    counts[crowd][who][of] += u64::from(now > 60 * SECOND);
                }
            }
        }
        (counts, seconds)
    }

    fn mean(of: &[[u64; 2]], tier: usize) -> f64 {
        of.iter().map(|counts| counts[tier] as f64).sum::<f64>() / of.len() as f64
    }

    /// Whatever the crowd, no second shows more than the pace and what was saved; and a crowd that wants more than there is
    /// gets nearly all of it.
    #[test]
    fn a_second_shows_what_the_budget_has() {
        for crowds in [&[(500, SECOND)][..], &[(20, SECOND / 10), (300, 2 * SECOND)], &[(50, SECOND / 2)]] {
            let (_, seconds) = play(crowds, &[false, false]);
            for (tier, per_s) in [(0, 30), (1, 15)] {
                let most = seconds.iter().map(|second| second[tier]).max().expect("seconds");
                assert!(most <= per_s + per_s / 2 + 1, "{crowds:?}: {most} in a second");
                let all: u64 = seconds[60..120].iter().map(|second| second[tier]).sum();
                assert!(all >= 60 * per_s * 9 / 10, "{crowds:?}: {all} in a minute of tier {tier}");
            }
        }
    }

    /// Everybody who writes more than an even share gets the same, within a tenth, however often they write.
    #[test]
    fn a_crowd_is_shown_evenly() {
        for crowds in [[(20, SECOND), (20, SECOND / 4)], [(100, SECOND), (100, SECOND / 10)]] {
            let (counts, _) = play(&crowds, &[false, false]);
            let (slow, fast) = (mean(&counts[0], 0), mean(&counts[1], 0));
            let all = (slow + fast) / 2.0;
            for part in [slow, fast] {
                assert!((part - all).abs() <= all / 10.0, "{crowds:?}: {slow} and {fast} on the average");
            }
        }
    }

    /// VIPs go ahead of any crowd; what they leave is the crowd's.
    #[test]
    fn vips_are_shown_ahead_of_the_crowd() {
        let (counts, _) = play(&[(5, SECOND / 2), (500, SECOND / 2)], &[true, false]);
        let (vips, crowd) = (mean(&counts[0], 0), mean(&counts[1], 0) * 500.0);
        assert!(vips >= 115.0, "two a second each: {vips} in a minute");
        assert!(crowd >= 20.0 * 60.0 * 0.9, "the crowd has the rest: {crowd}");
        assert!(mean(&counts[0], 1) >= 115.0, "in lite as well");
    }

    /// Whoever writes less than there is room for is always shown.
    #[test]
    fn a_quiet_room_shows_everything() {
        let mut display = Display::default();
        let mut shown = [[0; 2]; 10];
        for n in 0..1_000 {
            let tier = display.show(&BOUNDS, &mut shown[n % 10], false, SECOND + n as u64 * SECOND / 10);
            assert_eq!(tier, Tier::Lite, "{n}");
        }
        assert_eq!(display.take_hidden(), Hidden::default());
    }

    proptest! {
        /// Whoever writes whenever: what `lite` shows, `standard` shows; what is hidden is counted; where it only
        /// observes nothing is hidden, and as much is counted.
        #[test]
        fn tiers_lie_within_each_other(steps in prop::collection::vec((0u64..50_000, 0usize..20, any::<bool>()), 1..500)) {
            let (mut display, mut observing) = (Display::default(), Display::default());
            let (mut shown, mut watched) = (vec![[0; 2]; 20], vec![[0; 2]; 20]);
            let (mut now, mut counts) = (SECOND, Hidden::default());
            for (gap, who, ahead) in steps {
                now += gap;
                let tier = display.show(&BOUNDS, &mut shown[who], ahead, now);
                let observes = Bounds { observes: true, ..BOUNDS };
                prop_assert_eq!(observing.show(&observes, &mut watched[who], ahead, now), Tier::Lite);
                counts.standard += u64::from(tier > Tier::Standard);
                counts.lite += u64::from(tier > Tier::Lite);
                prop_assert!(shown[who].iter().all(|at| *at <= now));
            }
            let seen = observing.take_hidden();
            prop_assert_eq!((seen.observed_standard, seen.observed_lite), (counts.standard, counts.lite));
            prop_assert_eq!((seen.standard, seen.lite), (0, 0));
            prop_assert_eq!(display.take_hidden(), counts);
        }
    }
}
