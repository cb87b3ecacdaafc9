use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000;

proptest! {
    /// `check` and `take` beside the list of all that was taken: the count is exact; no stretch of window length holds more
    /// than the bound; who has nothing in the window comes in while there is room, and nobody else ahead of them; the
    /// promised wait is true, and not much too long.
    #[test]
    fn a_window_keeps_its_bound_and_its_promises(
        count_max in 1u32..60,
        steps in prop::collection::vec((0u64..120_000, 0usize..6), 1..150),
    ) {
        let window = Window { window_us: SECOND, count_max };
        let slice_us = SECOND.div_ceil(31);
        let mut fair = FairWindow::new(window);
        let (mut taken, mut last) = (Vec::<u64>::new(), [None; 6]);
        let mut now = 5 * SECOND;
        for (gap, account) in steps {
            now += gap;
            let held = |now: u64| taken.iter().filter(|us| **us / slice_us + 31 >= now / slice_us).count() as u32;
            let answer = fair.check(last[account], now);
            prop_assert_eq!(fair.count(), held(now));
            prop_assert_eq!(fair.clone().check(None, now).is_ok(), held(now) < count_max, "a newcomer");
            if let Err(wait) = answer {
                prop_assert!(fair.clone().check(last[account], now + wait - 2 * WAIT_PRECISION_US).is_err() || wait < 3_000);
                prop_assert!(wait <= SECOND + 3 * slice_us);
                now += wait;
                prop_assert_eq!(fair.check(last[account], now), Ok(()), "kept at the promise");
            }
            fair.take(now);
            (last[account], _) = (Some(now), taken.push(now));
        }
        for from in &taken {
            let inside = taken.iter().filter(|us| (*from..from + SECOND).contains(us));
            prop_assert!(inside.count() as u32 <= count_max);
        }
    }

    /// `check`: of two, whoever wrote longer ago is let in if the other one is, at any time.
    #[test]
    fn the_one_who_waited_longer_goes_first(
        count_max in 1u32..200,
        gaps in prop::collection::vec(0u64..30_000, 1..200),
        ago in (0u64..2 * SECOND, 0u64..2 * SECOND),
    ) {
        let mut fair = FairWindow::new(Window { window_us: SECOND, count_max });
        let mut now = 5 * SECOND;
        for gap in gaps {
            now += gap;
            let (late, early) = (now - ago.0.min(ago.1), now - ago.0.max(ago.1));
            let (late, early) = (fair.check(Some(late), now), fair.check(Some(early), now));
            prop_assert!(early.is_ok() || late.is_err());
            if fair.check(None, now).is_ok() {
                fair.take(now);
            }
        }
    }
}

/// How many accounts send how often, and what becomes of it.
struct Crowd {
    accounts: usize,
    every_us: u64,
    offered: u64,
    accepted: u64,
}

impl Crowd {
    fn of(accounts: usize, every_us: u64) -> Self {
        Self { accounts, every_us, offered: 0, accepted: 0 }
    }

    fn part(&self) -> f64 {
        self.accepted as f64 / self.offered as f64
    }
}

/// Crowds that send at their pace, each account at a phase of its own and a little off its beat, for so many seconds;
/// those after `from_s` are counted. Also the most that any window held.
fn play(window: Window, crowds: &mut [Crowd], from_s: u64, to_s: u64, seed: u64) -> usize {
    let mut draw = seed;
    let mut random = |below: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % below
    };
    let mut events: Vec<(u64, usize, usize)> = Vec::new();
    let mut last: Vec<Option<u64>> = Vec::new();
    for (number, crowd) in crowds.iter().enumerate() {
        for _ in 0..crowd.accounts {
            let phase = random(crowd.every_us);
            let beats = (to_s * SECOND - phase) / crowd.every_us;
            let jitter = crowd.every_us / 10;
            events.extend(
                (0..beats).map(|n| (phase + n * crowd.every_us + random(jitter), number, last.len())),
            );
            last.push(None);
        }
    }
    events.sort_unstable();
    let mut fair = FairWindow::new(window);
    let mut taken = std::collections::VecDeque::new();
    let mut most = 0;
    for (us, crowd, account) in events {
        // As `check` does, without the wait.
        fair.advance(us);
        let accepted = fair.lets_in(last[account], us);
        if accepted {
            fair.take(us);
            last[account] = Some(us);
            taken.push_back(us);
            while taken.front().is_some_and(|first| first + window.window_us <= us) {
                taken.pop_front();
            }
            most = most.max(taken.len());
        }
        if us >= from_s * SECOND {
            crowds[crowd].offered += 1;
            crowds[crowd].accepted += u64::from(accepted);
        }
    }
    most
}

const ROOM: Window = Window { window_us: 10 * SECOND, count_max: 5_000 };

/// The attack of the design: from its first second on, with nothing else between it and the window.
#[test]
fn two_thousand_spammers_do_not_push_two_hundred_honest_users_out() {
    let mut crowds = [Crowd::of(2_000, SECOND / 5), Crowd::of(200, 10 * SECOND)];
    let most = play(ROOM, &mut crowds, 0, 40, 1);
    assert!(crowds[1].part() >= 0.99, "{} of the honest", crowds[1].part());
    assert!(most <= 5_000, "{most} in a window");
    let used = (crowds[0].accepted + crowds[1].accepted) as f64 / 40.0;
    assert!(used >= 400.0, "{used} a second is a waste of 500");
}

/// The same with other honest crowds, when the attack has been going on for a while.
#[test]
fn honest_users_are_let_in_all_through_an_attack() {
    for (accounts, every_s) in [(50, 30), (400, 10)] {
        let mut crowds = [Crowd::of(2_000, SECOND / 5), Crowd::of(accounts, every_s * SECOND)];
        play(ROOM, &mut crowds, 20, 50, 2);
        assert!(crowds[1].part() >= 0.99, "{accounts} every {every_s} s: {}", crowds[1].part());
    }
}

/// A quarter of the window is there for whoever comes first, all at once.
#[test]
fn a_quarter_of_the_window_is_free() {
    let mut fair = FairWindow::new(ROOM);
    for n in 0..1_250 {
        assert_eq!(fair.check(Some(5 * SECOND), 5 * SECOND), Ok(()), "{n}");
        fair.take(5 * SECOND);
    }
    assert!(fair.check(Some(5 * SECOND), 5 * SECOND).is_err());
    assert_eq!(fair.check(None, 5 * SECOND), Ok(()), "somebody else");
}

/// Nobody is refused who writes where there is room for all.
#[test]
fn below_the_bound_nobody_is_refused() {
    for (accounts, every_us) in [(2_000, 5 * SECOND), (40, SECOND / 10), (1, SECOND / 400), (200, SECOND / 2)]
    {
        let mut crowds = [Crowd::of(accounts, every_us)];
        play(ROOM, &mut crowds, 0, 30, 3);
        assert_eq!(crowds[0].accepted, crowds[0].offered, "{accounts} every {every_us} µs");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Never starving: whoever asks for a third of an equal part gets it, however greedy and however many the others are.
    #[test]
    fn whoever_asks_for_little_is_let_in(
        greedy in 10usize..200,
        honest in 1usize..40,
        count_max in 1_000u32..3_000,
        seed in any::<u64>(),
    ) {
        let window = Window { window_us: 10 * SECOND, count_max };
        let equal = 0.9 * f64::from(count_max) / (greedy + honest) as f64;
        let every_us = (30.0 * SECOND as f64 / equal) as u64;
        let mut crowds = [Crowd::of(greedy, SECOND / 10), Crowd::of(honest, every_us.max(SECOND / 10))];
        let most = play(window, &mut crowds, 30, 70, seed);
        prop_assert!(most as u32 <= count_max);
        if crowds[1].offered >= 50 {
            prop_assert!(crowds[1].part() >= 0.9, "{}: {} of {}", equal, crowds[1].accepted, crowds[1].offered);
        }
    }
}

/// `FairWindow::advance`: after any pause the window is what it would be after many small steps.
#[test]
fn a_window_that_was_long_unused_is_empty() {
    for (pause_s, count) in [(1, 8), (9, 8), (11, 1), (40, 1), (1_000_000, 1)] {
        let mut fair = FairWindow::new(ROOM);
        for _ in 0..7 {
            fair.take(5 * SECOND);
        }
        fair.take((5 + pause_s) * SECOND);
        assert_eq!(fair.count(), count, "{pause_s}");
        assert_eq!(fair.check(Some(5 * SECOND), (5 + pause_s) * SECOND), Ok(()));
    }
}
