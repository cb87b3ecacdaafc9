//! What is told of a room: ranges, gaps, epochs, moving.

use super::*;
use crate::event::{ResetReason, Source};
use crate::item::Removal;

/// Batches: an empty one moves the position, an overlap brings only what is new, a repeat moves nothing.
#[test]
fn a_batch_moves_the_position_by_its_range_and_brings_what_is_new() {
    let mut world = World::joined(|_| {});
    world.say(r#"{"batch":{"from":42,"to":60,"items":[]}}"#);
    assert_eq!(world.position(), "7-k2:60");
    world.say(r#"{"batch":{"from":61,"to":62,"items":[{"seq":61,"text":"a"},{"seq":62,"text":"b"}]}}"#);
    world.say(r#"{"batch":{"from":62,"to":63,"items":[{"seq":62,"text":"b"},{"seq":63,"text":"c"}]}}"#);
    assert_eq!(world.items(), ["Live61", "Live62", "Live63"]);
    world.say(r#"{"batch":{"from":60,"to":61,"items":[{"seq":60,"user":{"id":"me"},"text":"mine"}]}}"#);
    assert_eq!(world.items(), ["Live60 own"]);
    assert_eq!(world.position(), "7-k2:63");
}

/// A loss that nobody told of: the connection is left, and the next one goes on from before the loss.
#[test]
fn an_untold_loss_is_repaired_by_coming_back() {
    let mut world = World::joined(|_| {});
    world.say(r#"{"batch":{"from":44,"to":44,"items":[{"seq":44,"text":"late"}]}}"#);
    assert_eq!(world.actions, [Action::Disconnect { code: 1000 }]);
    world.actions.clear();
    assert!(world.items().is_empty());
    world.pass(SECOND);
    assert_eq!(world.connect(), "ws://a/ws?room=r1&since=7-k2%3A41");
    world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":44,"recovered":true}}"#);
    world.say(r#"{"batch":{"from":42,"to":44,"items":[{"seq":42,"text":"a"},{"seq":44,"text":"late"}]}}"#);
    world.say(r#"{"batch":{"from":45,"to":45,"items":[{"seq":45,"text":"now"}]}}"#);
    assert_eq!(world.items(), ["Backlog42", "Backlog44", "Live45"]);
}

/// A gap moves the position, and is told with its epoch.
#[test]
fn a_gap_is_told_and_passed() {
    let mut world = World::joined(|_| {});
    world.say(r#"{"gap":{"from":42,"to":97,"reason":"slow_consumer"}}"#);
    assert_eq!(world.position(), "7-k2:97");
    let reason = "slow_consumer".to_owned();
    assert_eq!(world.events, [Event::Gap { epoch: "7-k2".into(), from: 42, to: 97, reason }]);
    world.say(r#"{"batch":{"from":98,"to":98,"items":[{"seq":98,"text":"a"}]}}"#);
    assert_eq!(world.items(), ["Live98"]);
}

/// A new owner: what it does not have is removed, and the next connection resumes in its epoch.
#[test]
fn a_new_epoch_removes_what_was_not_kept_and_is_resumed_from() {
    let mut world = World::joined(|_| {});
    world.say(r#"{"epoch":{"epoch":"8-k2","seq":4193,"prev":{"epoch":"7-k2","seq":40}}}"#);
    let removal = Removal::After { epoch: "7-k2".into(), seq: 40 };
    assert_eq!(world.events, [Event::Remove(removal)]);
    world.drop_connection();
    world.pass(SECOND);
    assert_eq!(world.connect(), "ws://a/ws?room=r1&since=8-k2%3A4193");
}

/// Catching up through an older epoch: a cut on the way resumes in the epoch whose numbers were reached.
#[test]
fn a_cut_while_catching_up_resumes_where_it_was() {
    let mut world = World::joined(|_| {});
    world.drop_connection();
    world.pass(SECOND);
    world.connect();
    world.say(r#"{"joined":{"room":"r1","epoch":"8-k2","seq":4200,"recovered":true}}"#);
    assert_eq!(world.position(), "7-k2:41");
    world.say(r#"{"gap":{"epoch":"7-k2","from":42,"to":50,"reason":"expired"}}"#);
    assert_eq!(world.position(), "7-k2:50");
    world.say(r#"{"epoch":{"epoch":"8-k2","seq":4193,"prev":{"epoch":"7-k2","seq":97}}}"#);
    world.say(r#"{"batch":{"from":4194,"to":4200,"items":[{"seq":4200,"text":"a"}]}}"#);
    assert_eq!(world.position(), "8-k2:4200");
}

/// A position that the server does not know any more is lost, and that is said before the snapshot's items.
#[test]
fn a_lost_position_is_told() {
    let check = |snapshot: bool, expected: &[ResetReason]| {
        let mut world = World::joined(|options| options.snapshot = snapshot);
        world.drop_connection();
        world.pass(SECOND);
        world.connect();
        world.events.clear();
        world.say(r#"{"joined":{"room":"r1","epoch":"9-k2","seq":7}}"#);
        if snapshot {
            assert_eq!(world.position(), "", "nothing is known before the snapshot");
            world.say(r#"{"snapshot":{"epoch":"9-k2","seq":7,"items":[{"seq":7,"text":"a"}]}}"#);
        }
        let resets = world.events.iter().filter_map(|event| match event {
            Event::Reset(reason) => Some(*reason),
            _ => None,
        });
        assert_eq!(resets.collect::<Vec<_>>(), expected);
        assert_eq!(world.position(), "9-k2:7");
        assert_eq!(world.items().len(), usize::from(snapshot));
    };
    check(true, &[ResetReason::Lost]);
    check(false, &[ResetReason::Lost]);
}

/// A connection that ends between the bad news and its snapshot does not make the news go away.
#[test]
fn a_loss_is_told_even_if_the_next_connection_ends_early() {
    let mut world = World::joined(|_| {});
    world.drop_connection();
    world.pass(SECOND);
    world.connect();
    world.say(r#"{"joined":{"room":"r1","epoch":"9-k2","seq":7}}"#);
    world.drop_connection();
    world.pass(SECOND);
    assert_eq!(world.connect(), "ws://a/ws?room=r1");
    world.say(r#"{"joined":{"room":"r1","epoch":"9-k2","seq":7}}"#);
    world.events.clear();
    world.say(r#"{"snapshot":{"epoch":"9-k2","seq":7,"items":[]}}"#);
    assert_eq!(world.events, [Event::Reset(ResetReason::Lost)]);
}

/// Retractions and clears are removals; a retraction of an older epoch says so.
#[test]
fn what_moderators_take_away_is_removed() {
    let mut world = World::joined(|_| {});
    world.say(
        r#"{"batch":{"from":42,"to":44,"items":[{"seq":42,"type":"retract","seqs":[40]},
        {"seq":43,"type":"retract","seqs":[5],"epoch":"6-k2"},{"seq":44,"type":"clear","upTo":43}]}}"#,
    );
    let entries = |epoch: &str, seqs| Event::Remove(Removal::Entries { epoch: epoch.into(), seqs });
    let up_to = Event::Remove(Removal::UpTo { epoch: "7-k2".into(), seq: 43 });
    assert_eq!(world.events, [entries("7-k2", vec![40]), entries("6-k2", vec![5]), up_to]);
}

/// What a later version may say: skipped, without a hole and without an end.
#[test]
fn what_is_not_known_is_skipped() {
    let mut world = World::joined(|_| {});
    for text in ["", "[]", "7", "{}", r#"{"confetti":{"from":1}}"#, r#"{"batch":{"from":"x"}}"#, "\u{0}"] {
        world.say(text);
    }
    world
        .say(r#"{"batch":{"from":42,"to":43,"new":1,"items":[{"seq":42,"type":"x","text":{}},{"seq":43}]}}"#);
    assert_eq!(world.items(), ["Live43"]);
    assert_eq!(world.position(), "7-k2:43");
}

/// Numbers up to 2^53 - 1, and beyond what fits: neither overflows.
#[test]
fn the_largest_numbers_do_no_harm() {
    let mut world = World::joined(|_| {});
    let last = (1u64 << 53) - 1;
    world.say(&format!(r#"{{"gap":{{"from":42,"to":{},"reason":"expired"}}}}"#, last - 1));
    world.say(&format!(r#"{{"batch":{{"from":{last},"to":{last},"items":[{{"seq":{last}}}]}}}}"#));
    assert_eq!(world.items(), [format!("Live{last}")]);
    world.say(&format!(r#"{{"gap":{{"from":0,"to":{},"reason":"expired"}}}}"#, u64::MAX));
    world.say(&format!(r#"{{"batch":{{"from":0,"to":{},"items":[]}}}}"#, u64::MAX));
    assert_eq!(world.position(), format!("7-k2:{}", u64::MAX));
}

/// Pausing lasts over a reconnect; what was missed may come as an unannounced snapshot.
#[test]
fn a_pause_outlasts_a_connection() {
    let mut world = World::joined(|_| {});
    world.with(|session, _| session.pause());
    assert_eq!(world.sent(), [r#"{"view":{"paused":true}}"#]);
    world.drop_connection();
    world.pass(SECOND);
    world.connect();
    world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":41,"recovered":true}}"#);
    assert_eq!(world.sent(), [r#"{"view":{"paused":true}}"#]);
    world.with(|session, _| session.resume());
    assert_eq!(world.sent(), [r#"{"view":{}}"#]);
    world.events.clear();
    world.say(r#"{"snapshot":{"epoch":"7-k2","seq":90,"items":[{"seq":90,"text":"a"}]}}"#);
    assert_eq!(world.events[0], Event::Reset(ResetReason::Snapshot));
    assert!(matches!(&world.events[1], Event::Item { source: Source::Snapshot, .. }), "{:?}", world.events);
    assert_eq!(world.position(), "7-k2:90");
}

/// Moving: what still comes of the old room is not told; the new one has its own position.
#[test]
fn after_a_move_nothing_of_the_old_room_is_told() {
    let mut world = World::joined(|_| {});
    world.with(|session, now| session.join(now, "r2", None)).expect("a good name");
    assert_eq!(world.sent(), [r#"{"join":{"room":"r2"}}"#]);
    world.say(r#"{"batch":{"from":42,"to":42,"items":[{"seq":42,"text":"old"}]}}"#);
    assert!(world.items().is_empty());
    world.say(r#"{"joined":{"room":"r2","epoch":"1-k9","seq":3}}"#);
    world.say(r#"{"snapshot":{"epoch":"1-k9","seq":3,"items":[{"seq":3,"text":"new"}]}}"#);
    let reset = world.events.iter().find(|event| matches!(event, Event::Reset(_)));
    assert_eq!(reset, Some(&Event::Reset(ResetReason::Snapshot)));
    assert_eq!(world.items(), ["Snapshot3"]);
    world.drop_connection();
    world.pass(SECOND);
    assert_eq!(world.connect(), "ws://a/ws?room=r2&since=1-k9%3A3");
}

/// A refused move leaves the session where it was, without a hole.
#[test]
fn a_refused_move_goes_on_in_the_old_room() {
    let mut world = World::joined(|_| {});
    world.with(|session, now| session.join(now, "r2", None)).expect("a good name");
    world.sent();
    world.say(r#"{"batch":{"from":42,"to":42,"items":[{"seq":42,"text":"meanwhile"}]}}"#);
    world.say(r#"{"error":{"code":"room_not_found","message":"no"}}"#);
    assert_eq!(world.sent(), [r#"{"join":{"room":"r1","since":{"epoch":"7-k2","seq":41}}}"#]);
    world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":42,"recovered":true}}"#);
    world.say(r#"{"batch":{"from":42,"to":42,"items":[{"seq":42,"text":"meanwhile"}]}}"#);
    assert_eq!(world.items(), ["Backlog42"]);
}

/// Two moves in a row: only the answer to the last one counts.
#[test]
fn the_last_of_several_moves_decides() {
    let mut world = World::joined(|_| {});
    for room in ["r2", "r3"] {
        world.with(|session, now| session.join(now, room, None)).expect("a good name");
    }
    world.say(r#"{"joined":{"room":"r2","epoch":"1-k9","seq":3}}"#);
    world.say(r#"{"snapshot":{"epoch":"1-k9","seq":3,"items":[{"seq":3,"text":"passing"}]}}"#);
    assert!(world.items().is_empty());
    world.say(r#"{"joined":{"room":"r3","epoch":"1-k4","seq":8}}"#);
    world.say(r#"{"snapshot":{"epoch":"1-k4","seq":8,"items":[{"seq":8,"text":"here"}]}}"#);
    assert_eq!(world.items(), ["Snapshot8"]);
    assert!(world.with(|session, now| session.join(now, "no room", None)).is_err());
}
