//! What a joiner is shown first, against a plain model that plays everything from the start.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::log::RingBounds;
use danmaku_room::owner::{Config, Owner};
use danmaku_room::replica::Replica;
use danmaku_room::snapshot::{self, Viewer};
use danmaku_room::store::Loaded;
use danmaku_wire::entry::{Author, Body, Comment, Entry, Event, Mode, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::position::Epoch;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Comment,
    Gift,
    Retract { seqs: Vec<u64> },
    Clear { up_to: u64 },
    Pin { of: u64 },
    State,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Comment),
        2 => Just(Op::Gift),
        2 => prop::collection::vec(1u64..40, 1..4).prop_map(|seqs| Op::Retract { seqs }),
        1 => (1u64..40).prop_map(|up_to| Op::Clear { up_to }),
        3 => (0u64..40).prop_map(|of| Op::Pin { of }),
        1 => Just(Op::State),
    ]
}

fn user(id: &str) -> UserId {
    UserId::parse(id).expect("valid")
}

fn visibility() -> impl Strategy<Value = Visibility> {
    prop_oneof![
        5 => Just(Visibility::Tier(Tier::Lite)),
        2 => Just(Visibility::Tier(Tier::Standard)),
        2 => Just(Visibility::Tier(Tier::Full)),
        1 => Just(Visibility::Author(user("u1"))),
        1 => Just(Visibility::Author(user("u2"))),
        1 => Just(Visibility::Staff),
    ]
}

fn body(op: &Op) -> Body {
    match op {
        Op::Comment => Body::Comment(Comment {
            user: Arc::new(Author {
                id: user("u1"),
                name: "".into(),
                role: Role::Viewer,
                level: 0,
                badges: Vec::new(),
            }),
            text: "hi".into(),
            mode: Mode::Scroll,
            color: 0,
            size: 25,
            stream_ms: None,
            trace: None,
        }),
        Op::Gift => Body::Event(Event { kind: "gift".into(), user: None, data: "{}".into() }),
        Op::Retract { seqs } => Body::Retract { epoch: None, seqs: seqs.clone() },
        Op::Clear { up_to } => Body::Clear { up_to: *up_to },
        Op::Pin { of } => Body::Pin { of: *of },
        Op::State => Body::State { data: "{}".into() },
    }
}

fn sees(viewer: Viewer<'_>, entry: &Entry) -> bool {
    match &entry.visibility {
        Visibility::Tier(least) => {
            let own =
                |user: &UserId| matches!(&entry.body, Body::Comment(comment) if comment.user.id == *user);
            viewer.tier as u8 >= *least as u8 || viewer.user.is_some_and(own)
        }
        Visibility::Author(author) => viewer.user.is_some_and(|user| user == author),
        Visibility::Staff => false,
    }
}

/// Plays the entries one by one onto a screen, then takes the newest of what stands of those that are held; and the pin,
/// with its comment, whether they are held or not.
fn play(entries: &[Arc<Entry>], held_from: u64, viewer: Viewer<'_>, count_max: usize) -> Vec<u64> {
    let (mut screen, mut pin): (Vec<u64>, Option<(u64, u64)>) = (Vec::new(), None);
    for entry in entries {
        match &entry.body {
            Body::Comment(_) | Body::Event(_) if sees(viewer, entry) => screen.push(entry.seq),
            Body::Retract { seqs, .. } => {
                screen.retain(|seq| !seqs.contains(seq));
                pin = pin.filter(|(_, of)| !seqs.contains(of));
            }
            Body::Clear { up_to } => {
                screen.retain(|seq| seq > up_to);
                pin = pin.filter(|(_, of)| of > up_to);
            }
            Body::Pin { of: 0 } => pin = None,
            Body::Pin { of } => pin = Some((entry.seq, *of)),
            _ => {}
        }
    }
    let pinned = pin.map(|(_, of)| of).filter(|of| screen.contains(of));
    screen.retain(|seq| *seq >= held_from);
    let mut shown = screen.split_off(screen.len().saturating_sub(count_max));
    shown.extend(pinned);
    shown.extend(pin.map(|(seq, _)| seq));
    shown.sort_unstable();
    shown.dedup();
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// `snapshot::newest`, for every tier and for authors, whatever the borders of the batches are and
    /// wherever the ring begins.
    #[test]
    fn a_snapshot_shows_what_is_left_when_everything_held_is_played(
        ops in prop::collection::vec((op(), visibility(), any::<bool>()), 0..40),
        evicted in 0usize..10,
        count_max in 0usize..20,
    ) {
        let now = Now { us: 1, wall_ms: 1 };
        let (room, epoch) = (RoomId::parse("r1").expect("valid"), Epoch::parse("e1").expect("valid"));
        let mut owner: Owner<()> = Owner::start(room, epoch, Loaded::default(), Config::default(), now);
        for (op, visibility, seal) in &ops {
            match op {
                Op::Comment | Op::Gift => drop(owner.release(now, visibility.clone(), body(op))),
                // Only what stands can be pinned.
                Op::Pin { of } => drop(owner.pin(now, *of)),
                _ => drop(owner.release(now, Visibility::Tier(Tier::Lite), body(op))),
            }
            if *seal {
                owner.seal(now);
            }
        }
        let (backlog, tail) = owner.attach(now);
        let bounds = RingBounds { bytes_max: usize::MAX / 8, age_max_us: u64::MAX };
        let mut replica = Replica::new(backlog, tail, bounds);
        (0..evicted).for_each(|_| replica.evict());
        let all: Vec<Arc<Entry>> = owner.log().batches().flat_map(|b| b.entries.iter().cloned()).collect();
        let users = [None, Some(user("u1"))];
        for tier in [Tier::Lite, Tier::Standard, Tier::Full] {
            for user in &users {
                let viewer = Viewer { tier, user: user.as_ref() };
                let newest = snapshot::newest(&replica, viewer, count_max);
                let seqs: Vec<u64> = newest.iter().map(|e| e.seq).collect();
                prop_assert_eq!(seqs, play(&all, replica.first(), viewer, count_max), "{:?}", viewer);
            }
        }
    }
}
