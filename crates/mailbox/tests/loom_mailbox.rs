//! The mailbox in every interleaving that loom can reach:
//! `RUSTFLAGS="--cfg loom" cargo test -p danmaku-mailbox --release --test loom_mailbox`.
//!
//! Threads are preempted at most three times (`LOOM_MAX_PREEMPTIONS` overrides), which keeps each test to
//! seconds; loom plays every order of loads and stores that the memory model allows within that.
#![cfg(loom)]

use danmaku_mailbox::{Bounds, Full, FullReason, Message, Receiver, Sender, Wake, mailbox};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// What the receiver sleeps on: remembers a wake-up that comes early, as an eventfd does.
#[derive(Clone)]
struct Bed(Arc<(Mutex<bool>, Condvar, AtomicUsize)>);

impl Bed {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new(), AtomicUsize::new(0))))
    }

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

type Inbox<R> = (Sender<R, R, Bed>, Receiver<R, R, Bed>, Bed);

fn inbox<R: Send>(slots: usize, bytes_max: usize) -> Inbox<R> {
    let bounds = Bounds { slots, bytes_max, age_max_us: 1_000 };
    let bed = Bed::new();
    let (sender, receiver) = mailbox(bounds, bounds, bounds, bed.clone());
    (sender, receiver, bed)
}

fn check(story: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(story);
}

fn request<C, R>(message: Message<C, R>) -> Option<R> {
    match message {
        Message::Control(_) => None,
        Message::Vip(request) | Message::Normal(request) => Some(request),
    }
}

/// `Sender::normal` from two threads into a ring of two, taken meanwhile: what was let in arrives once
/// and in order, what was not comes back.
#[test]
fn loom_two_producers_at_a_full_ring_lose_and_double_nothing() {
    check(|| {
        let (sender, mut receiver, _) = inbox::<Box<usize>>(2, 100);
        let producers: Vec<_> = [10, 20]
            .into_iter()
            .map(|base| {
                let sender = sender.clone();
                thread::spawn(move || {
                    let tried = [base, base + 1].map(|n| (n, sender.normal(Box::new(n), 1, 0)));
                    let admitted = tried.into_iter().filter_map(|(n, result)| match result {
                        Ok(()) => Some(n),
                        Err(Full { item, reason }) => {
                            assert_eq!((*item, reason), (n, FullReason::Slots));
                            None
                        }
                    });
                    admitted.collect::<Vec<_>>()
                })
            })
            .collect();
        let mut taken: Vec<usize> =
            (0..2).filter_map(|_| receiver.pop()).filter_map(request).map(|item| *item).collect();
        let admitted: Vec<_> = producers.into_iter().map(|p| p.join().expect("no panic")).collect();
        taken.extend(std::iter::from_fn(|| receiver.pop()).filter_map(request).map(|item| *item));
        for one in &admitted {
            let seen: Vec<_> = taken
                .iter()
                .copied()
                .filter(|n| n / 10 * 10 == one.first().map_or(0, |f| f / 10 * 10))
                .collect();
            assert_eq!(&seen, one);
        }
        assert_eq!(taken.len(), admitted.iter().map(Vec::len).sum::<usize>());
        assert!(taken.len() >= 2, "a ring of two has room for two");
    });
}

/// `Sender::normal` over several laps of one slot: a slot is never given to two positions.
#[test]
fn loom_a_slot_is_used_again_only_when_it_was_taken() {
    check(|| {
        let (sender, mut receiver, _) = inbox::<usize>(1, 100);
        let producer = thread::spawn(move || {
            (0..3).map(|n| sender.normal(n, 1, 0).map_err(|full| full.reason)).collect::<Vec<_>>()
        });
        let mut taken: Vec<_> = (0..3).filter_map(|_| receiver.pop()).filter_map(request).collect();
        let results = producer.join().expect("no panic");
        taken.extend(std::iter::from_fn(|| receiver.pop()).filter_map(request));
        let admitted: Vec<usize> = (0..3).filter(|n| results[*n].is_ok()).collect();
        assert_eq!(taken, admitted);
        assert!(results.iter().flat_map(|r| r.err()).all(|reason| reason == FullReason::Slots));
    });
}

/// `Sender::normal` against the bound on bytes: two that do not fit together are never both let in, and
/// the count ends at nothing.
#[test]
fn loom_bytes_of_two_producers_stay_within_the_bound() {
    check(|| {
        let (sender, mut receiver, _) = inbox::<usize>(4, 10);
        let other = sender.clone();
        let producer = thread::spawn(move || other.normal(1, 6, 0).is_ok());
        let first = sender.normal(0, 6, 0).is_ok();
        let second = producer.join().expect("no panic");
        let taken = std::iter::from_fn(|| receiver.pop()).count();
        assert_eq!(taken, usize::from(first) + usize::from(second));
        assert!(taken <= 1, "12 bytes in a lane of 10");
        assert_eq!(sender.bytes(danmaku_mailbox::Lane::Normal), 0);
        assert!(sender.normal(2, 10, 0).is_ok(), "an empty lane has room for all its bytes");
    });
}

/// `Receiver::prepare_sleep` against two producers: no wake-up is lost, and none is doubled.
#[test]
fn loom_a_sleeper_is_woken_once_for_whatever_comes() {
    check(|| {
        let (sender, mut receiver, bed) = inbox::<usize>(4, 100);
        let other = sender.clone();
        let producers = [
            thread::spawn(move || sender.normal(1, 1, 0).is_ok()),
            thread::spawn(move || other.control(2, 1, 0).is_ok()),
        ];
        let (mut left, mut sleeps) = (2, 0);
        while left > 0 {
            while receiver.pop().is_some() {
                left -= 1;
            }
            if left == 0 {
                break;
            }
            sleeps += 1;
            if receiver.prepare_sleep() {
                bed.sleep();
                receiver.awake();
            }
        }
        for producer in producers {
            assert!(producer.join().expect("no panic"));
        }
        assert!(bed.wakes() <= sleeps, "{} wake-ups for {sleeps} sleeps", bed.wakes());
    });
}

/// `Receiver::prepare_sleep` in turns with one producer: a wake-up of the sleep before, come late, does
/// not eat that of the next.
#[test]
fn loom_sleeping_again_and_again_loses_no_wake_up() {
    check(|| {
        let (sender, mut receiver, bed) = inbox::<usize>(2, 100);
        let producer = thread::spawn(move || (0..2).all(|n| sender.vip(n, 1, 0).is_ok()));
        let mut taken = Vec::new();
        while taken.len() < 2 {
            match receiver.pop() {
                Some(message) => taken.extend(request(message)),
                None if receiver.prepare_sleep() => {
                    bed.sleep();
                    receiver.awake();
                }
                None => {}
            }
        }
        assert_eq!(taken, [0, 1]);
        assert!(producer.join().expect("no panic"));
    });
}

/// `Receiver::drop` while another thread pushes: each item is dropped once, at the latest with the last
/// sender.
#[test]
fn loom_what_is_left_is_dropped_once() {
    check(|| {
        let alive = std::sync::Arc::new(());
        let (sender, mut receiver, _) = inbox::<std::sync::Arc<()>>(2, 100);
        let item = std::sync::Arc::clone(&alive);
        let producer = thread::spawn(move || {
            let mut refused = 0;
            for _ in 0..2 {
                refused += usize::from(sender.normal(item.clone(), 1, 0).is_err());
            }
            refused
        });
        drop(receiver.pop());
        drop(receiver);
        assert!(producer.join().expect("no panic") <= 2);
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    });
}
