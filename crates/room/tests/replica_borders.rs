//! Runs, forms and backlogs of a replica at their borders: each a fault that interleavings found or a
//! reader of the code did.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::form::{Encoder, Encoding, FormKey};
use danmaku_room::log::RingBounds;
use danmaku_room::owner::{Config, Owner};
use danmaku_room::replica::{Cursor, Replica, Resume};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Body, Tier, Visibility};
use danmaku_wire::id::RoomId;
use danmaku_wire::position::{Epoch, Position};

const NOW: Now = Now { us: 1, wall_ms: 1 };
const KEY: FormKey = FormKey { encoding: Encoding::Json, deflate: false, tier: Tier::Full };
const WIDE: RingBounds = RingBounds { bytes_max: 1 << 20, age_max_us: u64::MAX };

fn epoch(name: &str) -> Epoch {
    Epoch::parse(name).expect("valid")
}

fn owner(loaded: Loaded) -> Owner<()> {
    let room = RoomId::parse("r1").expect("valid");
    let config = Config { durability: Durability::Memory, ..Config::default() };
    Owner::start(room, epoch("e1"), loaded, config, NOW)
}

fn follow(owner: &mut Owner<()>, bounds: RingBounds) -> Replica {
    let (backlog, tail) = owner.attach(NOW);
    Replica::new(backlog, tail, bounds)
}

fn say(owner: &mut Owner<()>) {
    owner.release(NOW, Visibility::Tier(Tier::Lite), Body::Pin { of: 0 });
    owner.seal(NOW);
}

/// `Run::cursor_at` of a trailer without frames: however much of it was taken, no frame is half-written.
#[test]
fn a_trailer_alone_moves_no_cursor() {
    let mut owner = owner(Loaded::default());
    let replica = follow(&mut owner, WIDE);
    let run = replica.run(1, KEY, 1 << 10, b"counts", &mut Encoder::new(1)).expect("a trailer");
    for accepted in 0..=run.bytes().len() {
        assert_eq!(run.cursor_at(accepted), Cursor { seq: 1, offset: 0 }, "{accepted} bytes");
        assert_eq!(run.trailer_after(accepted), &b"counts"[accepted..]);
    }
}

/// `Run::cursor_at` and `trailer_after` at every byte of two frames and a trailer.
#[test]
fn a_cursor_stands_in_the_frame_that_the_socket_cut() {
    let mut owner = owner(Loaded::default());
    let mut replica = follow(&mut owner, WIDE);
    say(&mut owner);
    say(&mut owner);
    replica.pull();
    let mut encoder = Encoder::new(1);
    let run = replica.run(1, KEY, 1 << 10, b"counts", &mut encoder).expect("two frames");
    let ends: Vec<usize> = replica.batches().map(|b| encoder.form(b, KEY).len()).collect();
    let (first, both) = (ends[0], ends[0] + ends[1]);
    assert_eq!(run.bytes().len(), both + 6);
    for accepted in 0..=run.bytes().len() {
        let (seq, offset) = match accepted {
            n if n < first => (1, n),
            n if n < both => (2, n - first),
            _ => (3, 0),
        };
        assert_eq!(run.cursor_at(accepted), Cursor { seq, offset: offset as u32 }, "{accepted} bytes");
        let rest = if accepted < both { &[][..] } else { &run.bytes()[accepted..] };
        assert_eq!(run.trailer_after(accepted), rest, "{accepted} bytes");
    }
}

/// `Replica::run`: a frame above the bound still takes the trailer with it if it reaches the head.
#[test]
fn a_run_of_one_big_frame_that_reaches_the_head_carries_the_trailer() {
    let mut owner = owner(Loaded::default());
    let mut replica = follow(&mut owner, WIDE);
    say(&mut owner);
    replica.pull();
    let run = replica.run(1, KEY, 1, b"counts", &mut Encoder::new(1)).expect("a frame");
    assert!(run.bytes().ends_with(b"counts") && run.next == 2);
}

/// `Replica::drop`: a reader that goes away does not keep the forms of what it was still owed.
#[test]
fn forms_do_not_wait_for_a_replica_that_was_dropped() {
    let mut owner = owner(Loaded::default());
    let (mut stays, mut goes) = (follow(&mut owner, WIDE), follow(&mut owner, WIDE));
    say(&mut owner);
    goes.pull();
    say(&mut owner);
    stays.pull();
    let mut encoder = Encoder::new(1);
    let batches: Vec<_> = stays.batches().cloned().collect();
    for batch in &batches {
        encoder.form(batch, KEY);
    }
    stays.delivered_to(2);
    assert_eq!(batches.iter().map(|b| b.live_forms()).collect::<Vec<_>>(), [1, 1], "one still wants them");
    drop(goes);
    assert_eq!(batches.iter().map(|b| b.live_forms()).collect::<Vec<_>>(), [0, 0]);
}

/// `Replica::delivered_to`: batches of a backlog were sealed for others, whose forms are not this one's
/// to drop.
#[test]
fn a_new_replica_does_not_drop_the_forms_that_others_still_want() {
    let mut owner = owner(Loaded::default());
    let mut earlier = follow(&mut owner, WIDE);
    say(&mut owner);
    earlier.pull();
    let batch = Arc::clone(owner.log().tail());
    Encoder::new(1).form(&batch, KEY);
    let mut later = follow(&mut owner, WIDE);
    later.delivered_to(1);
    drop(later);
    assert_eq!(batch.live_forms(), 1);
    earlier.delivered_to(1);
    assert_eq!(batch.live_forms(), 0);
}

/// `Owner::attach`: a joiner's head is the newest entry released, sealed or not, and comes once.
#[test]
fn who_attaches_has_everything_that_was_released() {
    let mut owner = owner(Loaded::default());
    let mut earlier = follow(&mut owner, WIDE);
    let seq = owner.release(NOW, Visibility::Tier(Tier::Lite), Body::Pin { of: 0 });
    let mut later = follow(&mut owner, WIDE);
    assert_eq!(later.head(), seq);
    assert_eq!((earlier.pull().batches, later.pull().batches), (1, 0));
}

/// `Replica::over_bounds`: a backlog over the ring's bounds stays until a pass has carried it, for those
/// who go on from the replica before.
#[test]
fn a_backlog_stays_until_the_first_pass() {
    let mut owner = owner(Loaded::default());
    say(&mut owner);
    say(&mut owner);
    let one = owner.log().tail().bytes;
    let bounds = RingBounds { bytes_max: one, age_max_us: 10 };
    let mut replica = follow(&mut owner, bounds);
    assert!(replica.over_bounds(1_000).is_none());
    replica.delivered_to(2);
    assert_eq!(replica.over_bounds(1).map(|b| b.from), Some(1));
}

/// `Replica::resume`, `given` and `change_ahead` around a change of epoch: e0 was kept up to 97, e1 begins
/// after 4,193.
#[test]
fn a_place_before_at_and_after_a_change_of_epoch_is_resumed() {
    let loaded = || Loaded { epochs: vec![(epoch("e0"), 97)], ..Loaded::default() };
    let mut owner = owner(loaded());
    let replica = follow(&mut owner, WIDE);
    for (name, seq, resumed) in [
        ("e0", 96, None),
        ("e0", 97, Some(98)),
        // What it saw beyond the end was not kept: the change tells.
        ("e0", 120, Some(98)),
        ("e0", 9_000, Some(98)),
        ("e1", 97, None),
        ("e1", 4_192, None),
        ("e1", 4_193, Some(4_194)),
        ("e1", 4_194, None),
        ("e9", 97, None),
    ] {
        let since = Position { epoch: epoch(name), seq };
        let at = match replica.resume(&since) {
            Resume::At(cursor) => Some(cursor.seq),
            Resume::Within(batch) => panic!("{since} lies within {batch:?}"),
            Resume::Unknown => None,
        };
        assert_eq!(at, resumed, "{since}");
    }
    for (cursor, given, ahead) in
        [(98, ("e0", 97), true), (120, ("e0", 119), true), (4_194, ("e1", 4_193), false)]
    {
        let cursor = Cursor { seq: cursor, offset: 0 };
        assert_eq!(replica.given(cursor), Position { epoch: epoch(given.0), seq: given.1 });
        assert_eq!(replica.change_ahead(cursor).is_some(), ahead, "{cursor:?}");
    }
}
