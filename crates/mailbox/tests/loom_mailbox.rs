//! The mailbox in every interleaving that loom can reach:
//! `RUSTFLAGS="--cfg loom" cargo test -p danmaku-mailbox --release --test loom_mailbox`.
//!
//! Threads are preempted at most three times (`LOOM_MAX_PREEMPTIONS` overrides), which keeps each test to
//! seconds. Of every atomic loom 0.7 remembers only the last access: a thread that loads a slot's turn
//! and then stores it hides from loom that the other thread had loaded it before, and the order in which
//! the two run is never turned round. So every push and pop goes through a [`Crossing`] first, and tests
//! name the outcomes that some interleaving must have had: one that explored nothing fails.
#![cfg(loom)]

use std::collections::BTreeSet;

use danmaku_mailbox::{Bounds, Full, FullReason, Lane, Message, Receiver, Sender, Wake, mailbox};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// Where threads meet, so that loom tries both orders. Being relaxed, it orders nothing by itself.
#[derive(Clone)]
struct Crossing(Arc<AtomicUsize>);

impl Crossing {
    fn pass(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the receiver sleeps on: remembers a wake-up that comes early, as an eventfd does.
#[derive(Clone)]
struct Bed(Arc<(Mutex<bool>, Condvar, AtomicUsize)>);

impl Bed {
    /// A wake-up that never comes is a deadlock, which loom reports.
    fn sleep(&self) {
        let mut woken = self.0.0.lock().expect("no test panics while it holds this");
        while !*woken {
            woken = self.0.1.wait(woken).expect("no test panics while it holds this");
        }
        *woken = false;
    }

    fn wakes(&self) -> usize {
        self.0.2.load(Ordering::Relaxed)
    }
}

impl Wake for Bed {
    fn wake(&self) {
        self.0.2.fetch_add(1, Ordering::Relaxed);
        *self.0.0.lock().expect("no test panics while it holds this") = true;
        self.0.1.notify_one();
    }
}

struct Outbox<R> {
    sender: Sender<R, R, Bed>,
    crossing: Crossing,
}

impl<R> Clone for Outbox<R> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), crossing: self.crossing.clone() }
    }
}

impl<R: Send> Outbox<R> {
    fn push(&self, item: R, bytes: usize) -> Result<(), Full<R>> {
        self.crossing.pass();
        self.sender.normal(item, bytes, 0)
    }
}

struct Inbox<R: Send> {
    receiver: Receiver<R, R, Bed>,
    crossing: Crossing,
}

impl<R: Send> Inbox<R> {
    fn pop(&mut self) -> Option<R> {
        self.crossing.pass();
        let message = self.receiver.pop()?;
        let (Message::Control(item) | Message::Vip(item) | Message::Normal(item)) = message;
        Some(item)
    }

    fn pop_all(&mut self) -> Vec<R> {
        std::iter::from_fn(|| self.pop()).collect()
    }
}

fn open<R: Send>(slots: usize, bytes_max: usize) -> (Outbox<R>, Inbox<R>, Bed) {
    let bounds = Bounds { slots, bytes_max, age_max_us: 1_000 };
    let bed = Bed(Arc::new((Mutex::new(false), Condvar::new(), AtomicUsize::new(0))));
    let (sender, receiver) = mailbox(bounds, bounds, bounds, bed.clone());
    let crossing = Crossing(Arc::new(AtomicUsize::new(0)));
    (Outbox { sender, crossing: crossing.clone() }, Inbox { receiver, crossing }, bed)
}

/// Plays the story in every interleaving and checks that each of `reached` was the outcome of one.
fn check<O: Ord + Clone + std::fmt::Debug + Send + 'static>(
    reached: &[O],
    story: impl Fn() -> O + Sync + Send + 'static,
) {
    let outcomes = std::sync::Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    let seen = std::sync::Arc::clone(&outcomes);
    builder.check(move || {
        let outcome = story();
        seen.lock().expect("an insert does not panic").insert(outcome);
    });
    let outcomes = outcomes.lock().expect("an insert does not panic");
    for outcome in reached {
        assert!(outcomes.contains(outcome), "no interleaving led to {outcome:?}, only {outcomes:?}");
    }
}

/// `Sender::normal` from two threads into a ring of two, taken meanwhile: what was let in arrives once
/// and in order, what was not comes back.
#[test]
fn loom_two_producers_at_a_full_ring_lose_and_double_nothing() {
    check(&[[1, 1], [2, 0], [2, 1]], || {
        let (outbox, mut inbox, _) = open::<Box<usize>>(2, 100);
        let other = outbox.clone();
        let producers = [(10..12, outbox), (20..21, other)].map(|(items, outbox)| {
            thread::spawn(move || {
                let tried = items.map(|n| (n, outbox.push(Box::new(n), 1)));
                let admitted = tried.filter_map(|(n, result)| match result {
                    Ok(()) => Some(n),
                    Err(Full { item, reason }) => {
                        assert_eq!((*item, reason), (n, FullReason::Slots));
                        None
                    }
                });
                admitted.collect::<Vec<_>>()
            })
        });
        let mut taken: Vec<usize> = inbox.pop().map(|item| *item).into_iter().collect();
        let admitted = producers.map(|producer| producer.join().expect("no panic"));
        taken.extend(inbox.pop_all().into_iter().map(|item| *item));
        for (base, own) in [10, 20].into_iter().zip(&admitted) {
            let arrived: Vec<_> = taken.iter().copied().filter(|n| n / 10 * 10 == base).collect();
            assert_eq!(&arrived, own);
        }
        assert_eq!(taken.len(), admitted[0].len() + admitted[1].len());
        assert!(taken.len() >= 2, "a ring of two has room for two");
        admitted.map(|own| own.len())
    });
}

/// `Sender::normal` over several laps of one slot: a slot is never given to two positions.
#[test]
fn loom_a_slot_is_used_again_only_when_it_was_taken() {
    check(&[vec![0], vec![0, 1], vec![0, 2]], || {
        let (outbox, mut inbox, _) = open::<usize>(1, 100);
        let producer = thread::spawn(move || {
            [0, 1, 2].map(|n| outbox.push(n, 1).map_err(|full| assert_eq!(full.reason, FullReason::Slots)))
        });
        let mut taken: Vec<_> = (0..3).filter_map(|_| inbox.pop()).collect();
        let results = producer.join().expect("no panic");
        taken.extend(inbox.pop_all());
        let admitted: Vec<usize> = (0..3).filter(|n| results[*n].is_ok()).collect();
        assert_eq!(taken, admitted);
        admitted
    });
}

/// `Sender::normal` against the bound on bytes: two that do not fit together are never both let in, and
/// the count ends at nothing.
#[test]
fn loom_bytes_of_two_producers_stay_within_the_bound() {
    check(&[(true, false), (false, true)], || {
        let (outbox, mut inbox, _) = open::<usize>(4, 10);
        let other = outbox.clone();
        let producer = thread::spawn(move || other.push(1, 6).is_ok());
        let first = outbox.push(0, 6).is_ok();
        let second = producer.join().expect("no panic");
        let taken = inbox.pop_all().len();
        assert_eq!(taken, usize::from(first) + usize::from(second));
        assert!(taken <= 1, "12 bytes in a lane of 10");
        assert_eq!(outbox.sender.bytes(Lane::Normal), 0);
        assert!(outbox.push(2, 10).is_ok(), "an empty lane has room for all its bytes");
        (first, second)
    });
}

/// `Sender::normal` against `Receiver::pop`: who finds the slot of a taken item free finds its bytes
/// free too.
#[test]
fn loom_bytes_are_free_before_their_slot_is() {
    check(&[true, false], || {
        let (outbox, mut inbox, _) = open::<usize>(1, 10);
        outbox.push(0, 6).expect("an empty lane");
        let producer = thread::spawn(move || match outbox.push(1, 4) {
            Ok(()) => {
                assert_eq!(outbox.sender.bytes(Lane::Normal), 4);
                true
            }
            Err(full) => {
                assert_eq!(full.reason, FullReason::Slots, "6 and 4 bytes fit beside each other");
                false
            }
        });
        assert_eq!(inbox.pop(), Some(0));
        producer.join().expect("no panic")
    });
}

/// `Receiver::prepare_sleep` against two producers: no wake-up is lost, and none is doubled.
#[test]
fn loom_a_sleeper_is_woken_once_for_whatever_comes() {
    check(&[0, 1, 2], || {
        let (outbox, mut inbox, bed) = open::<usize>(4, 100);
        let other = outbox.sender.clone();
        let producers = [
            thread::spawn(move || outbox.sender.normal(1, 1, 0).is_ok()),
            thread::spawn(move || other.control(2, 1, 0).is_ok()),
        ];
        let (mut left, mut sleeps) = (2, 0);
        while left > 0 {
            if inbox.receiver.pop().is_some() {
                left -= 1;
                continue;
            }
            sleeps += 1;
            if inbox.receiver.prepare_sleep() {
                bed.sleep();
                inbox.receiver.awake();
            }
        }
        for producer in producers {
            assert!(producer.join().expect("no panic"));
        }
        assert!(bed.wakes() <= sleeps, "{} wake-ups for {sleeps} sleeps", bed.wakes());
        bed.wakes()
    });
}

/// `Receiver::prepare_sleep` in turns with one producer: a wake-up of the sleep before, come late, does
/// not eat that of the next.
#[test]
fn loom_sleeping_again_and_again_loses_no_wake_up() {
    check(&[0, 1, 2], || {
        let (outbox, mut inbox, bed) = open::<usize>(2, 100);
        let producer = thread::spawn(move || (0..2).all(|n| outbox.push(n, 1).is_ok()));
        let mut taken = Vec::new();
        while taken.len() < 2 {
            match inbox.pop() {
                Some(item) => taken.push(item),
                None if inbox.receiver.prepare_sleep() => {
                    bed.sleep();
                    inbox.receiver.awake();
                }
                None => {}
            }
        }
        assert_eq!(taken, [0, 1]);
        assert!(producer.join().expect("no panic"));
        bed.wakes()
    });
}

/// `Receiver::drop` while another thread pushes: each item is dropped once, at the latest with the last
/// sender.
#[test]
fn loom_what_is_left_is_dropped_once() {
    check(&[0, 1, 2], || {
        let alive = std::sync::Arc::new(());
        let (outbox, mut inbox, _) = open::<std::sync::Arc<()>>(2, 100);
        let item = std::sync::Arc::clone(&alive);
        let producer = thread::spawn(move || {
            (0..2).filter(|_| outbox.push(std::sync::Arc::clone(&item), 1).is_ok()).count()
        });
        drop(inbox.pop());
        inbox.crossing.pass();
        drop(inbox);
        let admitted = producer.join().expect("no panic");
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
        admitted
    });
}
