//! Owners that follow each other by agreement: nothing is lost, told twice or numbered twice, and whoever was
//! anywhere in the log goes on from there.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::admission::{Limits, Standing};
use danmaku_room::log::RingBounds;
use danmaku_room::owner::{Config, Fate, Owner};
use danmaku_room::replica::{Replica, Resume};
use danmaku_room::store::{Durability, Loaded, StoredId};
use danmaku_wire::entry::{Author, Body, Entry, Mode, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::Send;
use danmaku_wire::position::{Epoch, Position};
use proptest::prelude::*;

const SEAL_BYTES: usize = 2_000;
const WIDE: RingBounds = RingBounds { bytes_max: 1 << 20, age_max_us: u64::MAX };

fn epoch(n: usize) -> Epoch {
    Epoch::parse(&format!("e{n}")).expect("valid")
}

fn config(log_bytes: usize) -> Config {
    Config {
        limits: Limits { user: None, room: None, ..Limits::default() },
        durability: Durability::Memory,
        seal_bytes_max: SEAL_BYTES,
        log: RingBounds { bytes_max: log_bytes, ..WIDE },
        ..Config::default()
    }
}

fn start(n: usize, loaded: Loaded, log_bytes: usize, now: Now) -> Owner<()> {
    Owner::start(RoomId::parse("r").expect("valid"), epoch(n), loaded, config(log_bytes), now)
}

/// Publishes as a viewer does; the number given.
fn say(owner: &mut Owner<()>, now: Now, id: &str) -> u64 {
    let user = Arc::new(Author {
        id: UserId::parse("u").expect("valid"),
        name: "".into(),
        role: Role::Viewer,
        level: 0,
        badges: Vec::new(),
    });
    let send =
        Send { id, text: "text", mode: Mode::Scroll, color: 0, size: 25, stream_ms: None, traceparent: "" };
    match owner.publish(&mut WorkerGate::default(), now, &user, Standing::default(), &send, || ()) {
        Fate::Accepted { seq } => seq,
        other => panic!("{id}: {other:?}"),
    }
}

/// What somebody gets who was at `since`.
fn told(replica: &Replica, since: &Position) -> Vec<u64> {
    let from = match replica.resume(since) {
        Resume::At(cursor) => cursor.seq,
        Resume::Within(_) => since.seq + 1,
        Resume::Unknown => panic!("{since} is not known"),
    };
    replica
        .batches()
        .flat_map(|batch| &batch.entries)
        .map(|entry| entry.seq)
        .filter(|seq| *seq >= from)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// `Owner::bequeath` and `start`, over any number of owners, with a log that keeps all or little.
    #[test]
    fn whoever_was_anywhere_in_the_log_goes_on_from_there(
        said in prop::collection::vec(0..30_usize, 1..6),
        log_bytes in prop_oneof![Just(1 << 20), Just(3_000_usize)],
    ) {
        let mut now = Now { us: 90_000_000, wall_ms: 1_700_000_000_000 };
        let mut owner = start(0, Loaded::default(), log_bytes, now);
        let (mut seqs, mut positions) = (Vec::new(), vec![Position { epoch: epoch(0), seq: 0 }]);
        for (n, count) in said.into_iter().enumerate() {
            for _ in 0..count {
                now.us += 1_000;
                let seq = say(&mut owner, now, &format!("k{}", seqs.len()));
                prop_assert!(seqs.last().is_none_or(|last| *last < seq));
                seqs.push(seq);
                positions.push(Position { epoch: epoch(n), seq });
                drop(owner.take_append());
                owner.progress(seq, 0, &mut Vec::new());
                owner.seal(now);
            }
            let left = owner.bequeath(now);
            prop_assert!(left.is_coherent(), "{:?}", left.epochs);
            // Another process has another clock; its wall shows the same time.
            now.us = 70_000_000;
            owner = start(n + 1, left, log_bytes, now);
            let (backlog, tail) = owner.attach(now);
            let replica = Replica::new(backlog, tail, WIDE);
            let end = replica.batches().next_back().expect("a change of epoch").clone();
            positions.push(end.end());
            prop_assert!(replica.batches().all(|batch| batch.bytes < 3 * SEAL_BYTES));
            for since in positions.iter().filter(|since| since.seq + 1 >= replica.first()) {
                let owed: Vec<u64> = seqs.iter().copied().filter(|seq| *seq > since.seq).collect();
                prop_assert_eq!(told(&replica, since), owed, "since {}", since);
            }
            for (index, seq) in seqs.iter().enumerate() {
                prop_assert_eq!(say(&mut owner, now, &format!("k{index}")), *seq, "the same id, the same answer");
            }
        }
    }
}

fn entry(seq: u64) -> Arc<Entry> {
    Arc::new(Entry { seq, at_ms: 1, visibility: Visibility::Tier(Tier::Lite), body: Body::Pin { of: 0 } })
}

/// `Loaded::is_coherent`: what no owner leaves is not started from.
#[test]
fn what_no_owner_leaves_is_refused() {
    use danmaku_room::admission::idempotency::Key;
    for (ends, seqs, id, coherent) in [
        (&[][..], &[][..], None, true),
        (&[0], &[], None, true),
        (&[5], &[3, 4, 5], Some(5), true),
        (&[5, 20], &[5], None, true),
        (&[5, 20, 31], &[4, 5, 30, 31], None, true),
        (&[], &[1], None, false),
        (&[5], &[3, 5], None, false),
        (&[5], &[3, 4], None, false),
        (&[5], &[4, 5, 6], None, false),
        (&[5, 5], &[], None, false),
        (&[5, 4], &[], None, false),
        (&[5, 20], &[4, 20], None, false),
        (&[5], &[5], Some(6), false),
        (&[u64::MAX], &[], None, false),
        (&[1], &[0, 1], None, false),
    ] {
        let epochs = ends.iter().enumerate().map(|(n, end)| (epoch(n), *end)).collect();
        let ids = id.map(|seq| StoredId { key: Key::from_bits(1), payload: 1, seq, at_ms: 1 });
        let loaded = Loaded {
            epochs,
            tail: seqs.iter().copied().map(entry).collect(),
            ids: ids.into_iter().collect(),
            ..Loaded::default()
        };
        assert_eq!(loaded.is_coherent(), coherent, "{ends:?} {seqs:?} {id:?}");
    }
}

/// `Loaded::keep_epochs`: an epoch that is forgotten takes its entries along.
#[test]
fn an_epoch_that_is_forgotten_takes_its_entries_along() {
    let epochs = [5, 20, 31].iter().enumerate().map(|(n, end)| (epoch(n), *end)).collect();
    let tail = [4, 5, 30, 31].into_iter().map(entry).collect();
    let mut loaded = Loaded { epochs, tail, ..Loaded::default() };
    loaded.keep_epochs(2);
    assert_eq!(loaded.epochs.len(), 2);
    assert_eq!(loaded.tail.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [30, 31]);
    assert!(loaded.is_coherent());
}
