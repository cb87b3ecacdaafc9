//! The mailbox under real threads: many items, small rings, a receiver that sleeps.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};

use danmaku_mailbox::{Bounds, FullReason, Lane, Message, Receiver, Sender, Wake, mailbox};

/// Unparks the receiving thread and counts.
struct Unpark {
    thread: Thread,
    wakes: Arc<AtomicU64>,
}

impl Wake for Unpark {
    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// The number of the producer and that of the item, in a box: what is lost or doubled is caught by the
/// allocator too.
type Item = Box<(usize, u64)>;

/// Every lane and every item of it once, in its producer's order, with a receiver that sleeps whenever
/// it finds nothing; returns once all have arrived.
fn check(producers: usize, items: u64, slots: usize, bytes_max: usize) {
    let wakes = Arc::new(AtomicU64::new(0));
    let bounds = Bounds { slots, bytes_max, age_max_us: u64::MAX };
    let wake = Unpark { thread: thread::current(), wakes: Arc::clone(&wakes) };
    let (sender, mut receiver) = mailbox::<Item, Item, _>(bounds, bounds, bounds, wake);
    thread::scope(|scope| {
        for producer in 0..producers {
            let sender = sender.clone();
            scope.spawn(move || {
                for number in 0..items {
                    push_until_taken(&sender, producer, number);
                }
            });
        }
        let mut next = vec![[0, 1, 2]; producers];
        let mut sleeps = 0;
        let mut left = producers as u64 * items;
        while left > 0 {
            let Some(message) = receiver.pop() else {
                sleeps += 1;
                sleep(&mut receiver);
                continue;
            };
            let (lane, item) = match message {
                Message::Control(item) => (0, item),
                Message::Vip(item) => (1, item),
                Message::Normal(item) => (2, item),
            };
            assert_eq!(item.1, next[item.0][lane], "producer {} lane {lane}", item.0);
            next[item.0][lane] += 3;
            left -= 1;
        }
        assert!(wakes.load(Ordering::Relaxed) <= sleeps, "more wake-ups than sleeps");
        assert!(receiver.pop().is_none());
    });
    for lane in [Lane::Control, Lane::Vip, Lane::Normal] {
        assert_eq!((sender.depth(lane), sender.bytes(lane)), (0, 0));
    }
}

fn push_until_taken(sender: &Sender<Item, Item, Unpark>, producer: usize, number: u64) {
    let mut item = Box::new((producer, number));
    loop {
        let pushed = match number % 3 {
            0 => sender.control(item, 7, 0),
            1 => sender.vip(item, 7, 0),
            _ => sender.normal(item, 7, 0),
        };
        let Err(full) = pushed else { return };
        assert!(matches!(full.reason, FullReason::Slots | FullReason::Bytes), "{full}");
        item = full.item;
        thread::yield_now();
    }
}

/// Sleeps until woken, if there is still nothing.
fn sleep(receiver: &mut Receiver<Item, Item, Unpark>) {
    if receiver.prepare_sleep() {
        // A lost wake-up would leave this thread here for ever.
        thread::park();
        receiver.awake();
    }
}

/// `Sender` and `Receiver`: rings from one slot to many.
#[test]
fn every_item_arrives_once_and_in_its_producers_order() {
    for (producers, slots) in [(1, 1), (2, 1), (2, 2), (4, 8), (3, 64), (8, 1024)] {
        check(producers, 30_000, slots, 1 << 20);
    }
}

/// `Sender`: a ring that is full by bytes long before its slots are used.
#[test]
fn every_item_arrives_when_bytes_are_what_is_short() {
    check(3, 30_000, 1024, 3 * 7);
}

/// `Receiver::drop` while producers push: nothing leaks, nothing is dropped twice.
#[test]
fn a_receiver_that_goes_under_fire_leaves_nothing_behind() {
    let alive = Arc::new(());
    for round in 0..200 {
        let bounds = Bounds { slots: 8, bytes_max: 1 << 20, age_max_us: u64::MAX };
        let wake = Unpark { thread: thread::current(), wakes: Arc::default() };
        let (sender, mut receiver) = mailbox::<(), Arc<()>, _>(bounds, bounds, bounds, wake);
        thread::scope(|scope| {
            for _ in 0..2 {
                let (sender, alive) = (sender.clone(), &alive);
                scope.spawn(move || {
                    loop {
                        match sender.normal(Arc::clone(alive), 1, 0).map_err(|full| full.reason) {
                            Err(FullReason::Closed) => break,
                            Err(_) => thread::yield_now(),
                            Ok(()) => {}
                        }
                    }
                });
            }
            for _ in 0..round {
                drop(receiver.pop());
            }
            drop(receiver);
        });
        drop(sender);
        assert_eq!(Arc::strong_count(&alive), 1, "round {round}");
    }
}
