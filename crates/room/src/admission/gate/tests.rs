use super::*;
use crate::admission::priority::{Classes, Match, Names};
use crate::admission::rule::Modes;
use crate::admission::words::Words;
use crate::admission::worker_gate::{self, WorkerGate};
use crate::admission::{breaker, sliding_window};
use crate::house::sanction::{Sanction, Target};
use danmaku_wire::entry::{COLOR_DEFAULT, Mode as Motion, SIZE_DEFAULT};
use danmaku_wire::id::UserId;
use danmaku_wire::native::ErrorCode;
use danmaku_words::{ListOptions, WordList};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000;
const LONG: &str = "a text that is longer than the short ones";

fn author(id: &str, role: Role) -> Author {
    Author { id: UserId::parse(id).expect("valid"), name: "".into(), role, level: 0, badges: Vec::new() }
}

fn at(us: u64) -> Now {
    Now { us, wall_ms: 1_700_000_000_000 + us / 1_000 }
}

fn gate(limits: Limits) -> Gate {
    Gate::new(limits, [7; 16])
}

/// Somebody says something: examined, and charged if it passes.
fn say(gate: &mut Gate, us: u64, user: &Author, text: &str) -> Result<Permit, Refusal> {
    say_as(gate, us, user, Standing::default(), text)
}

fn say_as(
    gate: &mut Gate,
    us: u64,
    user: &Author,
    standing: Standing,
    text: &str,
) -> Result<Permit, Refusal> {
    let (mode, color, size) = (Motion::Scroll, COLOR_DEFAULT, SIZE_DEFAULT);
    let send = Send { id: "", text, mode, color, size, stream_ms: None, traceparent: "" };
    let permit = gate.examine(
        &mut WorkerGate::default(),
        at(us),
        &Ask { user, standing, client: "", send: &send, text },
    )?;
    gate.charge(&mut WorkerGate::default(), at(us), &permit);
    Ok(permit)
}

/// Limits under which the second of two comments, the same long text by `u1` a moment after the first, meets the rule.
fn met_by_the_second(rule: Rule) -> Limits {
    let mut limits = Limits { modes: Modes::of(Mode::Off), ..Limits::default() };
    limits.modes.set(rule, Mode::Enforce);
    if matches!(rule, Rule::Everywhere | Rule::Spread) {
        limits.modes.set(Rule::UserRate, Mode::Enforce);
    }
    limits.user = Some(Rate {
        burst: if limits.modes.at(Rule::UserRate) == Mode::Enforce && rule != Rule::UserRate { 9 } else { 1 },
        per_s: 1.0,
    });
    limits.room = Some(sliding_window::Window { window_us: 10 * SECOND, count_max: 1 });
    limits.words =
        Words::new([WordList::compile(&ListOptions::default(), "longer\n").expect("a list").into()]);
    limits.classes = Classes { vip: Vec::new(), filtered: vec![Match::User(Names::parse("u*"))] }.into();
    (limits.policy.closed, limits.policy.ended) = (rule == Rule::Closed, rule == Rule::Ended);
    limits
}

/// A worker whose window is full, whose breaker is open, and where `u1` has done too much everywhere.
fn full_worker(gate: &Gate) -> WorkerGate {
    let node = Some(sliding_window::Window { window_us: 10 * SECOND, count_max: 1 });
    let mut worker = WorkerGate::new(worker_gate::Bounds { node, ..worker_gate::Bounds::default() });
    worker.take(SECOND);
    worker.observe(SECOND, &Load { mailbox_percent: 100, ..Load::default() });
    for (kind, key) in [(Kind::Comments, gate.hash(&["u1"])), (Kind::Text, gate.hash(&["u1", LONG]))] {
        worker.restraints().put(kind, key, 10 * SECOND, SECOND);
    }
    worker
}

/// Decides against a user what a rule is about, where it is about that.
fn decide_against(gate: &mut Gate, rule: Rule, user: &Author) {
    let measure = match rule {
        Rule::Banned => Measure::Ban,
        Rule::MutedUser => Measure::Mute,
        Rule::ShadowBanned => Measure::Shadow,
        _ => return,
    };
    let (target, rank) = (Target::User(user.id.clone()), Role::Staff);
    let (by, reason) = ("key".into(), "".into());
    let sanction = Sanction { measure, target, since_ms: 0, until_ms: None, rank, by, reason };
    gate.sanctions_mut().put(sanction, 0, 8).expect("room");
}

/// Every rule: enforced it refuses by its own code and name, observed it counts the same and refuses nothing, switched
/// off it does neither. The ceiling of VIPs refuses nobody, and is told apart; a shadow ban hides.
#[test]
fn every_rule_refuses_or_counts_or_is_not_there() {
    let user = author("u1", Role::Viewer);
    for rule in Rule::ALL.into_iter().filter(|rule| *rule != Rule::VipCeiling) {
        for (mode, refused, observed) in [(Mode::Enforce, 1, 0), (Mode::Observe, 0, 1), (Mode::Off, 0, 0)] {
            let mut limits = met_by_the_second(rule);
            limits.modes.set(rule, Mode::Off);
            let mut gate = gate(limits.clone());
            assert!(say(&mut gate, SECOND, &user, LONG).is_ok(), "{rule:?}");
            limits.modes.set(rule, mode);
            // What lies in the tables stays; only the text is said anew where duplicates were not looked at.
            gate.set_limits(limits);
            gate.texts.remember(gate.hash(&["u1", LONG]), (), 10, SECOND);
            gate.observe(at(SECOND), &Load { mailbox_percent: 100, ..Load::default() });
            decide_against(&mut gate, rule, &user);
            if rule == Rule::Style {
                gate.limits.policy.size_role = Role::Staff;
            }
            let size = if rule == Rule::Style { 40 } else { SIZE_DEFAULT };
            let (mode_of, color) = (Motion::Scroll, COLOR_DEFAULT);
            let send =
                Send { id: "", text: LONG, mode: mode_of, color, size, stream_ms: None, traceparent: "" };
            let standing = Standing::default();
            let ask = Ask { user: &user, standing, client: "", send: &send, text: LONG };
            let permit = gate.examine(&mut full_worker(&gate), at(SECOND + 1), &ask);
            let shadowed = permit.as_ref().is_ok_and(|permit| permit.shadowed() || permit.spreads());
            let answer = permit.and_then(|_| gate.screen(LONG));
            // The platform is asked by the owner, which says here what it refuses.
            let answer = answer.and_then(|screened| match gate.mode(rule) {
                acts if rule != Rule::Webhook || acts == Mode::Off => Ok(screened),
                Mode::Enforce => Err(gate.refuse(rule, None)),
                _ => {
                    let _ = gate.refuse(rule, None);
                    Ok(screened)
                }
            });
            match mode {
                Mode::Enforce if matches!(rule, Rule::ShadowBanned | Rule::Spread) => {
                    assert!(shadowed && answer.is_ok());
                }
                Mode::Enforce => {
                    let refusal = answer.expect_err(rule.name());
                    assert_eq!((refusal.rule, refusal.code), (Some(rule), rule.row().code));
                }
                Mode::Observe | Mode::Off => {
                    assert!(!shadowed && answer.is_ok(), "{rule:?} {mode:?}");
                }
            }
            let tally = gate.take_tally();
            assert_eq!((tally.refused.at(rule), tally.observed.at(rule)), (refused, observed), "{rule:?}");
            let sum: u64 = tally.refused.iter().chain(tally.observed.iter()).map(|(_, n)| n).sum();
            assert_eq!(sum, refused + observed, "{rule:?}: no other rule");
        }
    }
}

/// The table says who is spared: a VIP below its ceiling passes exactly the rules that spare it.
#[test]
fn vips_are_spared_by_the_rules_that_say_so() {
    let vip = author("u1", Role::Vip);
    for rule in Rule::ALL.into_iter().filter(|rule| *rule != Rule::Webhook) {
        let mut limits = met_by_the_second(rule);
        (limits.policy.motion_role, limits.policy.length_role) = (Role::Staff, Role::Staff);
        let mut gate = gate(limits);
        let _ = say(&mut gate, SECOND, &vip, LONG);
        decide_against(&mut gate, rule, &vip);
        gate.observe(at(SECOND), &Load { mailbox_percent: 100, ..Load::default() });
        let (mode, color) = (Motion::Top, COLOR_DEFAULT);
        let send =
            Send { id: "", text: LONG, mode, color, size: SIZE_DEFAULT, stream_ms: None, traceparent: "" };
        let ask = Ask { user: &vip, standing: Standing::default(), client: "", send: &send, text: LONG };
        let permit = gate.examine(&mut full_worker(&gate), at(SECOND + 1), &ask);
        let shadowed = permit.as_ref().is_ok_and(|permit| permit.shadowed() || permit.spreads());
        let spared = !shadowed && permit.and_then(|_| gate.screen(LONG)).is_ok();
        // Whether only VIPs may write is no question to a VIP.
        assert_eq!(spared, rule.row().spares_vip || rule == Rule::Vips, "{rule:?}");
    }
}

/// `examine` and `charge`: what the room refuses has cost its author nothing, so that the wait it is told is true.
#[test]
fn a_refused_comment_costs_no_token() {
    let mut gate = gate(Limits {
        user: Some(Rate { burst: 2, per_s: 0.001 }),
        room: Some(sliding_window::Window { window_us: SECOND, count_max: 1 }),
        ..Limits::default()
    });
    let (a, b) = (author("a", Role::Viewer), author("b", Role::Viewer));
    assert!(say(&mut gate, 10 * SECOND, &a, "x").is_ok());
    let refusal = say(&mut gate, 10 * SECOND, &b, "x").expect_err("the window is full");
    assert_eq!(refusal.rule, Some(Rule::RoomRate));
    for _ in 0..100 {
        assert!(say(&mut gate, 10 * SECOND, &b, "x").is_err());
    }
    let wait = refusal.retry_after_ms.expect("a wait") * 1_000;
    assert!(say(&mut gate, 10 * SECOND + wait, &b, "x").is_ok(), "the wait was true");
    assert!(say(&mut gate, 20 * SECOND, &b, "x").is_ok(), "and there was a second token");
}

/// A guest has its own rate, which is a tenth of a user's.
#[test]
fn guests_have_a_rate_of_their_own() {
    let mut gate = gate(Limits::default());
    let (guest, user) = (author("~g", Role::Viewer), author("u1", Role::Viewer));
    let standing = Standing { guest: true, ..Standing::default() };
    let said = |gate: &mut Gate, user: &Author, standing: Standing, us: u64| {
        (0..50).filter(|_| say_as(gate, us, user, standing, "x").is_ok()).count()
    };
    assert_eq!(said(&mut gate, &guest, standing, SECOND), 3);
    assert_eq!(said(&mut gate, &guest, standing, 5 * SECOND), 0);
    assert_eq!(said(&mut gate, &guest, standing, 6 * SECOND), 1);
    assert_eq!(said(&mut gate, &user, Standing::default(), SECOND), 10);
    assert_eq!(said(&mut gate, &user, Standing::default(), 2 * SECOND), 2);
}

/// A room without a window, under a flood of users who each write once: nobody new is refused, the table keeps its bound,
/// and who has spent everything is not forgiven.
#[test]
fn a_flood_of_new_users_neither_shuts_newcomers_out_nor_forgives_a_spammer() {
    let limits = Limits { room: None, users_max: 1_000, ..Limits::default() };
    let mut gate = gate(limits);
    let spammer = author("spammer", Role::Viewer);
    let mut passed = 0;
    for n in 0..200_000u64 {
        let now = SECOND + n * 50;
        let newcomer = author(&format!("n{n}"), Role::Viewer);
        assert!(say(&mut gate, now, &newcomer, "x").is_ok(), "{n}");
        passed += u64::from(n % 10 == 0 && say(&mut gate, now, &spammer, "x").is_ok());
        assert!(gate.users.len() <= 1_000);
    }
    // 10 s at two a second and a burst of ten.
    assert!((29..=31).contains(&passed), "{passed}");
    assert!(gate.take_forgotten_users() > 0);
    for second in 0..10 {
        gate.age(at((30 + second) * SECOND));
    }
    assert!(gate.is_idle(), "{} are remembered for nothing", gate.users.len());
}

/// Comments of crowds, in the order of time: who, and how often they pass.
fn play(gate: &mut Gate, crowds: &[(&str, Role, usize, u64)], seconds: u64) -> Vec<f64> {
    let mut events = Vec::new();
    let mut authors = Vec::new();
    for (crowd, (name, role, accounts, every_us)) in crowds.iter().enumerate() {
        for n in 0..*accounts as u64 {
            // Phases spread by the golden ratio.
            let phase = (n * 618_033_989) % 1_000_000_000 * every_us / 1_000_000_000;
            let times = (0..).map(|k| phase + k * every_us).take_while(|us| *us < seconds * SECOND);
            events.extend(times.map(|us| (us, crowd, authors.len())));
            authors.push(author(&format!("{name}{n}"), *role));
        }
    }
    events.sort_unstable();
    let mut counts = vec![(0u32, 0u32); crowds.len()];
    for (us, crowd, user) in events {
        counts[crowd].0 += 1;
        counts[crowd].1 += u32::from(say(gate, SECOND + us, &authors[user], "x").is_ok());
    }
    counts.iter().map(|(offered, accepted)| f64::from(*accepted) / f64::from(*offered)).collect()
}

/// The night of the final: 2,000 accounts at five a second, 200 honest users at one in ten seconds, 50 VIPs at one a
/// second, which is 20 times what the room takes.
#[test]
fn a_flood_leaves_the_honest_and_the_vips_alone() {
    let mut gate = gate(Limits::default());
    let crowds = [
        ("flood", Role::Viewer, 2_000, SECOND / 5),
        ("honest", Role::Viewer, 200, 10 * SECOND),
        ("vip", Role::Vip, 50, SECOND),
    ];
    let parts = play(&mut gate, &crowds, 40);
    assert!(parts[1] >= 0.99, "{} of the honest", parts[1]);
    assert_eq!(parts[2], 1.0, "of the VIPs");
    let (offered, rest) = (2_000.0 * 5.0 * 40.0, gate.take_tally());
    let refused = rest.refused.at(Rule::UserRate) + rest.refused.at(Rule::RoomRate);
    assert!(refused as f64 >= 0.9 * offered, "{refused} of {offered}: it was a flood");
}

/// VIPs above their ceiling: as much as the ceiling has priority, the rest goes with the crowd.
#[test]
fn vips_above_their_ceiling_join_the_crowd() {
    let limits = Limits {
        user: None,
        room: Some(sliding_window::Window { window_us: SECOND, count_max: 100 }),
        ..Limits::default()
    };
    let mut gate = gate(limits);
    // A thousand a second by VIPs, beside as many of everybody else.
    let crowds = [("vip", Role::Vip, 100, SECOND / 10), ("crowd", Role::Viewer, 100, SECOND / 10)];
    let parts = play(&mut gate, &crowds, 20);
    let of_vips = parts[0] * 1_000.0;
    assert!((95.0..130.0).contains(&of_vips), "{of_vips} a second: 50, and half of what the room takes");
    assert!(parts[1] * 1_000.0 >= 40.0, "the crowd has the other half: {}", parts[1] * 1_000.0);
    assert!(gate.take_tally().refused.at(Rule::VipCeiling) > 0);
}

/// The breaker sheds the crowd with a true wait; VIPs and whoever keeps order pass.
#[test]
fn an_open_breaker_sheds_the_crowd_alone() {
    let mut gate = gate(Limits {
        vip: Rate { burst: 1, per_s: 0.001 },
        breaker: breaker::Bounds::default(),
        ..Limits::default()
    });
    let user = author("u1", Role::Viewer);
    gate.observe(at(SECOND), &Load { stall_us: SECOND, ..Load::default() });
    assert_eq!(gate.breaker(), (State::Open, 1));
    let refusal = say(&mut gate, SECOND, &user, "x").expect_err("open");
    assert_eq!((refusal.rule, refusal.code), (Some(Rule::Breaker), ErrorCode::Overloaded));
    assert!(say(&mut gate, SECOND, &author("v1", Role::Vip), "x").is_ok());
    assert!(
        say(&mut gate, SECOND, &author("v1", Role::Vip), "x").is_err(),
        "above the ceiling it is the crowd"
    );
    assert!(
        say(&mut gate, SECOND, &author("m1", Role::Moderator), "x").is_ok(),
        "whoever keeps order passes"
    );
    let wait = refusal.retry_after_ms.expect("a wait") * 1_000;
    assert!(say(&mut gate, SECOND + wait, &user, "x").is_ok());
    assert_eq!(gate.breaker(), (State::HalfOpen, 0));
}

/// Duplicates: the same long text by the same user; short ones, others' and later ones pass.
#[test]
fn the_same_long_text_by_the_same_user_is_said_once() {
    let mut gate = gate(Limits::default());
    let (a, b) = (author("a", Role::Viewer), author("b", Role::Viewer));
    for (us, user, text, want) in [
        (1, &a, LONG, true),
        (2, &a, LONG, false),
        (2, &b, LONG, true),
        (3, &a, "short", true),
        (3, &a, "short", true),
        (4, &a, "another text that is long as well", true),
        (30, &a, LONG, false),
    ] {
        let answer = say(&mut gate, us * SECOND, user, text);
        assert_eq!(answer.is_ok(), want, "{us} s: {text}");
        if let Err(refusal) = answer {
            assert_eq!((refusal.code, refusal.retry_after_ms), (ErrorCode::Duplicate, None));
        }
    }
    // To the microsecond: refusals between do not make it longer.
    let end = SECOND + Duplicates::default().window_us;
    assert!(say(&mut gate, end - 1, &a, LONG).is_err());
    assert!(say(&mut gate, end, &a, LONG).is_ok());
    assert!(say(&mut gate, end, &a, LONG).is_err(), "and from there anew");
}

/// What holds for all rooms of a worker together: its breaker sheds the crowd of each of them, and a window over all of them
/// counts what any of them took.
#[test]
fn rooms_of_a_worker_share_its_breaker_and_its_part_of_the_window() {
    let node = Some(sliding_window::Window { window_us: 10 * SECOND, count_max: 4 });
    let mut worker = WorkerGate::new(worker_gate::Bounds { node, ..worker_gate::Bounds::default() });
    let mut modes = Modes::default();
    modes.set(Rule::NodeRate, Mode::Enforce);
    let mut rooms = [(), ()].map(|()| gate(Limits { modes, ..Limits::default() }));
    let (mode, color, size) = (Motion::Scroll, COLOR_DEFAULT, SIZE_DEFAULT);
    let send = Send { id: "", text: "x", mode, color, size, stream_ms: None, traceparent: "" };
    let mut say = |room: usize, us: u64, user: &Author, worker: &mut WorkerGate| {
        let ask = Ask { user, standing: Standing::default(), client: "", send: &send, text: "x" };
        let permit = rooms[room].examine(worker, at(us), &ask)?;
        rooms[room].charge(worker, at(us), &permit);
        Ok::<_, Refusal>(())
    };
    let users: Vec<_> = (0..6).map(|n| author(&format!("u{n}"), Role::Viewer)).collect();
    for (n, user) in users[..4].iter().enumerate() {
        assert_eq!(say(n % 2, 20 * SECOND, user, &mut worker), Ok(()), "{n}");
    }
    let full = say(1, 20 * SECOND, &users[4], &mut worker).expect_err("four were taken");
    assert_eq!((full.rule, full.code), (Some(Rule::NodeRate), ErrorCode::Overloaded));
    assert_eq!(say(0, 20 * SECOND, &author("v", Role::Vip), &mut worker), Ok(()), "VIPs go ahead");
    let wait = full.retry_after_ms.expect("a wait") * 1_000;
    assert_eq!(say(1, 20 * SECOND + wait, &users[4], &mut worker), Ok(()), "the wait was true");

    let later = 60 * SECOND;
    worker.observe(later, &Load { mailbox_age_us: SECOND, ..Load::default() });
    let shed = say(0, later, &users[5], &mut worker).expect_err("open");
    assert_eq!((shed.rule, shed.code), (Some(Rule::WorkerBreaker), ErrorCode::Overloaded));
    assert_eq!(say(1, later, &author("m", Role::Moderator), &mut worker), Ok(()));
    let wait = shed.retry_after_ms.expect("a wait") * 1_000;
    assert!(say(1, later + wait - 1_000, &users[5], &mut worker).is_err());
    assert_eq!(say(1, later + wait, &users[5], &mut worker), Ok(()), "a probe");
    assert_eq!(worker.breaker(), (State::HalfOpen, 1));
}

proptest! {
    /// Two comments examined before either is charged, as while somebody is asked about them, are charged both.
    #[test]
    fn comments_may_wait_between_their_two_steps(order in prop::collection::vec(any::<bool>(), 1..40)) {
        let mut gate = gate(Limits::default());
        let user = author("a", Role::Viewer);
        let (mode, color, size) = (Motion::Scroll, COLOR_DEFAULT, SIZE_DEFAULT);
        let send = Send { id: "", text: LONG, mode, color, size, stream_ms: None, traceparent: "" };
        let ask = Ask { user: &user, standing: Standing::default(), client: "", send: &send, text: LONG };
        let mut waiting = Vec::new();
        let mut charged = 0;
        for (n, examine) in order.into_iter().enumerate() {
            let now = at(SECOND + n as u64);
            if examine && let Ok(permit) = gate.examine(&mut WorkerGate::default(), now, &ask) {
                prop_assert_eq!(charged, 0, "once it was charged, it was said");
                waiting.push(permit);
            } else if let Some(permit) = waiting.pop() {
                gate.charge(&mut WorkerGate::default(), now, &permit);
                charged += 1;
            }
        }
        prop_assert_eq!(gate.window.as_ref().map(FairWindow::count), Some(charged));
    }
}
