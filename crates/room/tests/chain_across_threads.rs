//! The chain between an owner's thread and its readers': every batch in order, or told that it was lapped.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use danmaku_room::batch::{Batch, Next};
use danmaku_room::log::{RingBounds, RoomLog};
use danmaku_wire::entry::{Body, Entry, Tier, Visibility};
use danmaku_wire::position::Epoch;

const BATCHES: u64 = 100_000;
/// Batches that the log holds.
const HELD: usize = 64;

fn epoch() -> Epoch {
    Epoch::parse("e-1").expect("valid")
}

fn batch(seq: u64) -> Arc<Batch> {
    let body = Body::Pin { of: 0 };
    let entry = Entry { seq, at_ms: 0, visibility: Visibility::Tier(Tier::Lite), body };
    Batch::seal(epoch(), vec![Arc::new(entry)], 0, 1, 0)
}

/// What a reader saw: batches in order between laps, and how often it was lapped.
fn follow(
    mut at: Arc<Batch>,
    attach: impl Fn() -> Arc<Batch>,
    work: impl Fn(u64),
    done: &AtomicBool,
) -> (u64, u64) {
    let (mut seen, mut laps) = (0, 0);
    loop {
        let last = done.load(Ordering::Acquire);
        match at.next() {
            Next::Batch(next) => {
                assert_eq!(next.from, at.to + 1, "no batch is skipped without a word");
                seen += 1;
                work(seen);
                at = next;
            }
            Next::Lapped => {
                laps += 1;
                at = attach();
            }
            Next::UpToDate if last => {
                assert_eq!(at.to, BATCHES, "up to date means at the end");
                return (seen, laps);
            }
            Next::UpToDate => thread::yield_now(),
        }
    }
}

/// `Batch::next` against `RoomLog::append` and `evict` on another thread; what was evicted is freed
/// whatever the readers do.
#[test]
fn readers_on_other_threads_see_every_batch_or_are_told_that_they_were_lapped() {
    let bytes_max = HELD * batch(1).bytes;
    let bounds = RingBounds { bytes_max, age_max_us: u64::MAX };
    let mut log = RoomLog::new(epoch(), 1, bounds, 0);
    let done = AtomicBool::new(false);
    let mut weak: Vec<Weak<Batch>> = Vec::new();
    let mut alive_max = 0;
    let (asks, asked) = sync_channel::<std::sync::mpsc::SyncSender<Arc<Batch>>>(8);
    thread::scope(|scope| {
        let readers: Vec<_> = [0, 1, 200]
            .into_iter()
            .map(|dawdle| {
                let (tail, asks, done) = (Arc::clone(log.tail()), asks.clone(), &done);
                scope.spawn(move || {
                    let attach = || {
                        let (answer, answered) = sync_channel(1);
                        asks.send(answer).expect("the owner listens");
                        answered.recv().expect("the owner answers")
                    };
                    let work = |seen: u64| {
                        // Now and then they stand still, the last for long enough to be lapped.
                        if seen.is_multiple_of(64) {
                            (0..dawdle).for_each(|_| thread::yield_now());
                        }
                    };
                    follow(tail, attach, work, done)
                })
            })
            .collect();
        drop(asks);
        for seq in 1..=BATCHES {
            let next = batch(seq);
            weak.push(Arc::downgrade(&next));
            log.append(next);
            log.evict(u64::MAX, 0);
            for answer in asked.try_iter() {
                answer.send(Arc::clone(log.tail())).expect("a reader waits");
            }
            if seq % 10_000 == 0 {
                alive_max = alive_max.max(weak.iter().filter(|w| w.strong_count() > 0).count());
            }
        }
        done.store(true, Ordering::Release);
        while let Ok(answer) = asked.recv() {
            answer.send(Arc::clone(log.tail())).expect("a reader waits");
        }
        for reader in readers {
            let (seen, laps) = reader.join().expect("no reader panics");
            assert!(laps > 0 || seen == BATCHES, "{seen} seen without a lap");
        }
    });
    // The log, its one batch behind, and per reader where it stands and what it looks at.
    assert!(alive_max <= HELD + 2 + 3 * 3, "{alive_max} batches were alive at once");
    drop(log);
    assert_eq!(weak.iter().filter(|w| w.strong_count() > 0).count(), 0);
}

/// `RoomLog::evict`: a reader is lapped when the batch after its own is gone, not when its own is.
#[test]
fn a_reader_on_an_evicted_batch_still_finds_the_one_after_it() {
    let bounds = RingBounds { bytes_max: usize::MAX, age_max_us: 10 };
    let mut log = RoomLog::new(epoch(), 1, bounds, 0);
    log.append(batch(1));
    let stands = Arc::clone(log.tail());
    log.append(batch(2));
    // The first is too old, the second is as well but the last: a quiet room's next comment.
    log.evict(1, 11);
    assert_eq!(log.batches().count(), 1);
    assert!(matches!(stands.next(), Next::Batch(next) if next.from == 2));
    log.evict(2, 11);
    assert!(matches!(stands.next(), Next::Lapped));
    assert!(matches!(log.tail().next(), Next::UpToDate));
}

/// `RoomLog::drop`: whoever follows learns that nothing will come, also where the end had aged out.
#[test]
fn readers_of_a_log_that_is_dropped_are_lapped() {
    let bounds = RingBounds { bytes_max: usize::MAX, age_max_us: 10 };
    for (age, what) in [(0, "still held"), (11, "aged out")] {
        let mut log = RoomLog::new(epoch(), 1, bounds, 0);
        log.append(batch(1));
        let stands = Arc::clone(log.tail());
        log.evict(1, age);
        drop(log);
        assert!(matches!(stands.next(), Next::Lapped), "{what}");
    }
}
