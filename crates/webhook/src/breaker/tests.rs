//! Method: stories with exact times, then random lives against a model that keeps every call.

use proptest::prelude::*;

use super::*;

const SETTINGS: BreakerSettings = BreakerSettings {
    failures_in_row: 3,
    window: Duration::from_secs(10),
    calls_min: 10,
    failure_percent: 50,
    open_for: Duration::from_secs(1),
    open_for_max: Duration::from_secs(4),
    probes: 2,
    probe_within: Duration::from_secs(5),
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn breaker() -> Breaker {
    Breaker::new(SETTINGS).expect("settings in range")
}

fn call(breaker: &mut Breaker, at: u64, good: bool) {
    let permit = breaker.admit(ms(at)).expect("admitted");
    breaker.record(ms(at), permit, good);
}

fn opened_at_0() -> Breaker {
    let mut breaker = breaker();
    (0..3).for_each(|_| call(&mut breaker, 0, false));
    breaker
}

#[test]
fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
    let mut breaker = breaker();
    for good in [false, false, true, false, false] {
        call(&mut breaker, 0, good);
    }
    assert_eq!(breaker.state(ms(0)), BreakerState::Closed);
    call(&mut breaker, 0, false);
    assert_eq!(breaker.state(ms(0)), BreakerState::Open);
    assert_eq!(breaker.admit(ms(999)), None);
    assert_eq!(breaker.opened(), 1);
}

#[test]
fn a_large_share_of_failures_opens_it_without_a_row() {
    let mut breaker = breaker();
    for at in 0..9 {
        call(&mut breaker, at, at % 2 == 0);
    }
    assert_eq!(breaker.state(ms(9)), BreakerState::Closed, "nine calls are too few to judge a share");
    call(&mut breaker, 10, false);
    assert_eq!(breaker.state(ms(10)), BreakerState::Open);
}

#[test]
fn failures_that_left_the_window_count_no_more() {
    let mut breaker = breaker();
    for at in 0..9 {
        call(&mut breaker, at, at % 2 == 0);
    }
    call(&mut breaker, 10_000, false);
    assert_eq!(breaker.state(ms(10_000)), BreakerState::Closed);
}

#[test]
fn good_probes_one_at_a_time_close_it() {
    let mut breaker = opened_at_0();
    assert_eq!(breaker.state(ms(1_000)), BreakerState::HalfOpen);
    let first = breaker.admit(ms(1_000)).expect("a probe");
    assert_eq!(breaker.admit(ms(1_000)), None, "one at a time");
    breaker.record(ms(1_100), first, true);
    let second = breaker.admit(ms(1_100)).expect("a second probe");
    breaker.record(ms(1_200), second, true);
    assert_eq!(breaker.state(ms(1_200)), BreakerState::Closed);
    call(&mut breaker, 1_200, false);
    call(&mut breaker, 1_200, false);
    assert_eq!(breaker.state(ms(1_200)), BreakerState::Closed, "the row begins anew");
}

#[test]
fn failed_probes_open_it_for_twice_as_long_up_to_a_bound() {
    let mut breaker = opened_at_0();
    let mut now = 0;
    for open_for in [1_000, 2_000, 4_000, 4_000] {
        assert_eq!(breaker.admit(ms(now + open_for - 1)), None);
        now += open_for;
        call(&mut breaker, now, false);
    }
}

#[test]
fn closing_forgets_how_often_it_opened() {
    let mut breaker = opened_at_0();
    call(&mut breaker, 1_000, false);
    call(&mut breaker, 3_000, true);
    call(&mut breaker, 3_000, true);
    (0..3).for_each(|_| call(&mut breaker, 3_000, false));
    assert_eq!(breaker.admit(ms(3_999)), None);
    assert!(breaker.admit(ms(4_000)).is_some());
}

#[test]
fn a_probe_that_never_ends_has_failed() {
    let mut breaker = opened_at_0();
    let lost = breaker.admit(ms(1_000)).expect("a probe");
    assert_eq!(breaker.admit(ms(5_999)), None);
    assert_eq!(breaker.state(ms(6_000)), BreakerState::Open);
    breaker.record(ms(6_000), lost, true);
    assert_eq!(breaker.state(ms(6_000)), BreakerState::Open, "too late");
}

#[test]
fn calls_of_an_earlier_stretch_say_nothing() {
    let mut breaker = breaker();
    let slow: Vec<Permit> = (0..5).map(|_| breaker.admit(ms(0)).expect("admitted")).collect();
    (0..3).for_each(|_| call(&mut breaker, 0, false));
    call(&mut breaker, 1_000, true);
    for permit in slow {
        breaker.record(ms(1_000), permit, false);
    }
    assert_eq!(breaker.state(ms(1_000)), BreakerState::HalfOpen);
    call(&mut breaker, 1_000, true);
    assert_eq!(breaker.state(ms(1_000)), BreakerState::Closed);
}

#[test]
fn time_that_runs_backwards_changes_nothing() {
    let mut breaker = opened_at_0();
    assert_eq!(breaker.state(ms(1_000)), BreakerState::HalfOpen);
    assert_eq!(breaker.state(ms(0)), BreakerState::HalfOpen);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |settings| Breaker::new(settings).expect_err("out of range").to_string();
    let zero = Duration::ZERO;
    for (settings, key) in [
        (BreakerSettings { failures_in_row: 0, ..SETTINGS }, "failures_in_row"),
        (BreakerSettings { window: ms(9), ..SETTINGS }, "window"),
        (BreakerSettings { calls_min: 0, ..SETTINGS }, "calls_min"),
        (BreakerSettings { failure_percent: 0, ..SETTINGS }, "failure_percent"),
        (BreakerSettings { failure_percent: 101, ..SETTINGS }, "failure_percent"),
        (BreakerSettings { open_for: zero, ..SETTINGS }, "open_for"),
        (BreakerSettings { open_for_max: ms(999), ..SETTINGS }, "open_for_max"),
        (BreakerSettings { probes: 0, ..SETTINGS }, "probes"),
        (BreakerSettings { probe_within: zero, ..SETTINGS }, "probe_within"),
    ] {
        assert!(refused(settings).starts_with(&format!("breaker.{key} is out of range")), "{key}");
    }
}

/// What may happen to a breaker.
#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    Begin,
    /// The n-th of the calls that have not ended, and how.
    End(usize, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0_u64..800).prop_map(Step::Wait),
        1 => (0_u64..12_000).prop_map(Step::Wait),
        6 => Just(Step::Begin),
        6 => (0_usize..8, any::<bool>()).prop_map(|(n, good)| Step::End(n, good)),
    ];
    proptest::collection::vec(step, 0..150)
}

/// Everything that happened since the breaker last closed, to judge it by.
#[derive(Default)]
struct Model {
    now: u64,
    ended: Vec<(u64, bool)>,
}

impl Model {
    fn should_open(&self) -> bool {
        let row = self.ended.iter().rev().take_while(|(_, good)| !good).count();
        let slice = |at: u64| at / 1_000;
        let recent = || self.ended.iter().filter(|(at, _)| slice(*at) + 10 > slice(self.now));
        let failures = recent().filter(|(_, good)| !good).count();
        row >= 3 || (recent().count() >= 10 && failures * 2 >= recent().count())
    }
}

proptest! {
    #[test]
    fn it_opens_exactly_when_the_calls_say_so_and_admits_nothing_before_its_time(steps in steps()) {
        let mut breaker = breaker();
        let mut model = Model::default();
        let mut running: Vec<Permit> = Vec::new();
        let mut opened_at = None;
        for step in steps {
            let before = breaker.state(ms(model.now));
            match step {
                Step::Wait(by) => model.now += by,
                Step::Begin => {
                    let permit = breaker.admit(ms(model.now));
                    match before {
                        BreakerState::Closed => prop_assert!(permit.is_some()),
                        BreakerState::Open => prop_assert!(permit.is_none()),
                        BreakerState::HalfOpen => {
                            if permit.is_some() {
                                prop_assert!(breaker.admit(ms(model.now)).is_none(), "two probes at once");
                            }
                        }
                    }
                    running.extend(permit);
                }
                Step::End(n, good) if n < running.len() => {
                    let permit = running.remove(n);
                    let counts = permit.stretch == breaker.stretch;
                    breaker.record(ms(model.now), permit, good);
                    if counts && before == BreakerState::Closed {
                        model.ended.push((model.now, good));
                        let open = breaker.state(ms(model.now)) == BreakerState::Open;
                        prop_assert_eq!(open, model.should_open());
                    } else if !counts {
                        prop_assert_eq!(breaker.state(ms(model.now)), before, "a late call changed it");
                    }
                }
                Step::End(..) => {}
            }
            let after = breaker.state(ms(model.now));
            if after == BreakerState::Open && before != BreakerState::Open {
                opened_at = Some(model.now);
            }
            if after != BreakerState::Open && before == BreakerState::Open {
                let opened = opened_at.expect("it was seen to open");
                prop_assert!(model.now >= opened + 1_000, "left open after {} ms", model.now - opened);
            }
            if after == BreakerState::Closed && before != BreakerState::Closed {
                model.ended.clear();
            }
        }
        // Never stuck: whatever happened, a probe is let through once the longest times have passed.
        model.now += 4_000 + 5_000;
        let _ = breaker.state(ms(model.now));
        model.now += 4_000;
        prop_assert!(breaker.admit(ms(model.now)).is_some());
    }

    #[test]
    fn a_receiver_that_always_answers_is_always_asked(gaps in proptest::collection::vec(0_u64..5_000, 1..200)) {
        let mut breaker = breaker();
        let mut now = 0;
        for gap in gaps {
            now += gap;
            call(&mut breaker, now, true);
        }
        prop_assert_eq!(breaker.opened(), 0);
    }
}
