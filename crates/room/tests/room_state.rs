//! How a room is set, at its owner: what staff sets is in force at once, lies over whatever the configuration says, is told
//! by an entry where it changes what members are told, and is known to the next owner.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::Standing;
use danmaku_room::admission::rule::{Mode, Rule};
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::house::settings::{Patch, State};
use danmaku_room::owner::{Config, Fate, Owner};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Author, Body, Role};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::Send;
use danmaku_wire::position::Epoch;

const NOW: Now = Now { us: 1_000_000, wall_ms: 1_000 };

fn config() -> Config {
    Config { durability: Durability::Memory, ..Config::default() }
}

fn slow(ms: u64) -> Config {
    let mut config = config();
    config.limits.modes.set(Rule::SlowMode, Mode::Enforce);
    config.limits.policy.slow_interval_us = ms * 1_000;
    config
}

fn owner(epoch: &str, loaded: Loaded, config: Config) -> Owner<()> {
    let (room, epoch) = (RoomId::parse("r1").expect("valid"), Epoch::parse(epoch).expect("valid"));
    Owner::start(room, epoch, loaded, config, NOW)
}

/// Which rule refuses what a viewer says, if one does.
fn refused(owner: &mut Owner<()>, id: &str) -> Option<Rule> {
    let of = UserId::parse("u1").expect("valid");
    let author = Author { id: of, name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() };
    let send = Send {
        id,
        text: "x",
        mode: Default::default(),
        color: 0xff_ff_ff,
        size: 25,
        stream_ms: None,
        traceparent: "",
    };
    match owner.publish(&mut WorkerGate::default(), NOW, &Arc::new(author), Standing::default(), &send, || ())
    {
        Fate::Refused(refusal) => Some(refusal.rule.expect("a rule")),
        _ => None,
    }
}

/// What the newest entries about the state say.
fn told(owner: &mut Owner<()>) -> Vec<String> {
    owner.seal(NOW);
    let entries = owner.log().batches().flat_map(|batch| batch.entries.iter());
    let states = entries.filter_map(|entry| match &entry.body {
        Body::State { data } => Some(data.to_string()),
        _ => None,
    });
    states.collect()
}

/// `Owner::set`, `reconfigure`: what is set holds at once and over every configuration, and ends with null; members are told
/// by one entry for each change of what they are told, and by none where nothing changes for them.
#[test]
fn what_is_set_lies_over_the_configuration_until_it_is_undone() {
    let mut owner = owner("e1", Loaded::default(), config());
    assert_eq!(**owner.state(), State::default());
    let mute = Patch { muted: Some(Some(true)), ..Patch::default() };
    owner.set(NOW, &mute).expect("set");
    assert_eq!(refused(&mut owner, "1"), Some(Rule::Muted));
    owner.set(NOW, &mute).expect("set");
    assert!(!owner.idle(), "what is set is kept nowhere else");
    owner.reconfigure(slow(9_000));
    assert!(owner.tell_state(NOW));
    assert!(!owner.tell_state(NOW), "once");
    assert_eq!(refused(&mut owner, "1"), Some(Rule::Muted), "another configuration lifts nothing");
    assert_eq!(told(&mut owner), [r#"{"muted":true}"#, r#"{"muted":true,"slowModeMs":9000}"#]);
    owner.set(NOW, &Patch { slow_mode_ms: Some(Some(0)), ..Patch::default() }).expect("set");
    owner.set(NOW, &Patch { muted: Some(None), ..Patch::default() }).expect("set");
    assert_eq!((refused(&mut owner, "1"), refused(&mut owner, "2")), (None, None));
    owner.set(NOW, &Patch { slow_mode_ms: Some(None), ..Patch::default() }).expect("set");
    assert_eq!(refused(&mut owner, "3"), Some(Rule::SlowMode), "as the configuration has it again");
    assert_eq!(told(&mut owner)[2..], [r#"{"muted":true}"#, "{}", r#"{"slowModeMs":9000}"#]);
}

/// `Owner::bequeath` and `start`: the next owner has what was set, and tells members where its configuration makes it
/// another state than they were told; who comes to a room that was never told of anything learns what holds without an entry.
#[test]
fn the_next_owner_has_what_was_set() {
    let mut first = owner("e1", Loaded::default(), config());
    first.set(NOW, &Patch { read_only: Some(Some(true)), ..Patch::default() }).expect("set");
    let left = first.bequeath(NOW);
    let mut next = owner("e2", left.clone(), config());
    assert_eq!(refused(&mut next, "1"), Some(Rule::ReadOnly));
    assert!(!next.tell_state(NOW), "members know it");
    let mut slower = owner("e3", left, slow(9_000));
    assert!(slower.tell_state(NOW));
    assert_eq!(told(&mut slower).last().map(String::as_str), Some(r#"{"readOnly":true,"slowModeMs":9000}"#));
    let mut fresh = owner("e4", Loaded::default(), slow(9_000));
    assert_eq!(fresh.state().slow_mode_ms, 9_000);
    assert!(!fresh.tell_state(NOW) && told(&mut fresh).is_empty());
}

/// `Owner::set`: nothing is set at a time when members could not be told.
#[test]
fn nothing_is_set_while_nothing_may_be_released() {
    let mut owner = owner("e1", Loaded::default(), Config { unstored_max: 0, ..config() });
    assert!(owner.set(NOW, &Patch { muted: Some(Some(true)), ..Patch::default() }).is_err());
    assert!(owner.settings().is_empty());
}
