use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{FullReason, ITEM_BYTES_MAX};

/// Counts the wake-ups.
#[derive(Clone, Default)]
struct Bell(std::sync::Arc<AtomicUsize>);

impl Wake for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

type Requests<R> = (Sender<R, R, Bell>, Receiver<R, R, Bell>);

fn mailbox_of<R: Send>(slots: usize, bytes_max: usize, age_max_us: u64) -> Requests<R> {
    let bounds = Bounds { slots, bytes_max, age_max_us };
    mailbox(bounds, bounds, bounds, Bell::default())
}

/// One step of a story about the normal lane, at a time in microseconds.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A push of so many bytes and how it ends.
    Push(usize, Result<(), FullReason>),
    /// A pop and whether there was something.
    Pop(bool),
    Drained,
}

use FullReason::{Age, Bytes, Slots};
use Step::{Drained, Pop, Push};

/// Plays the steps against slots 4, bytes 100, age 1,000 µs.
fn check(story: &str, steps: &[(u64, Step)]) {
    let (sender, mut receiver) = mailbox_of::<u32>(4, 100, 1_000);
    let mut waiting = Vec::new();
    for (number, (now_us, step)) in (0..).zip(steps) {
        match step {
            Push(bytes, expected) => {
                let result = sender.normal(number, *bytes, *now_us);
                if let Err(full) = &result {
                    assert_eq!(full.item, number, "{story}, step {number}: the item comes back");
                } else {
                    waiting.push(*bytes);
                }
                assert_eq!(result.map_err(|full| full.reason), *expected, "{story}, step {number}: {step:?}");
            }
            Pop(expected) => {
                assert_eq!(receiver.pop().is_some(), *expected, "{story}, step {number}");
                if *expected {
                    waiting.remove(0);
                }
            }
            Drained => receiver.drained(*now_us),
        }
        assert_eq!(sender.depth(Lane::Normal), waiting.len(), "{story}, depth after step {number}");
        assert_eq!(sender.bytes(Lane::Normal), waiting.iter().sum(), "{story}, bytes after step {number}");
    }
}

/// `Sender::normal` at the bound on slots, over several laps of the ring.
#[test]
fn a_full_ring_refuses_until_one_is_taken() {
    let fill = [(0, Push(1, Ok(()))); 4];
    let turn = [(0, Push(1, Err(Slots))), (0, Pop(true)), (0, Push(1, Ok(())))];
    let empty = [(0, Pop(true)), (0, Pop(true)), (0, Pop(true)), (0, Pop(true)), (0, Pop(false))];
    let steps = [&fill[..], &turn.repeat(9), &empty, &fill, &empty].concat();
    check("slots", &steps);
}

/// `Sender::normal` at the bound on bytes: refusals leave no trace in the count.
#[test]
fn bytes_are_held_to_their_bound_and_given_back() {
    check("to the byte", &[(0, Push(60, Ok(()))), (0, Push(40, Ok(()))), (0, Push(1, Err(Bytes)))]);
    check(
        "nothing weighs nothing",
        &[(0, Push(100, Ok(()))), (0, Push(0, Ok(()))), (0, Push(1, Err(Bytes)))],
    );
    check("larger than the lane", &[(0, Push(101, Err(Bytes))), (0, Push(usize::MAX, Err(Bytes)))]);
    let turn = [(0, Push(51, Ok(()))), (0, Push(50, Err(Bytes))), (0, Pop(true)), (0, Push(101, Err(Bytes)))];
    check("again and again", &turn.repeat(50));
    check(
        "a refusal for slots gives the bytes back",
        &[
            (0, Push(1, Ok(()))),
            (0, Push(1, Ok(()))),
            (0, Push(1, Ok(()))),
            (0, Push(1, Ok(()))),
            (0, Push(90, Err(Slots))),
            (0, Pop(true)),
            (0, Push(97, Ok(()))),
        ],
    );
}

/// `Sender::normal` and `Receiver::drained`: the bound on age.
#[test]
fn a_lane_whose_receiver_lags_refuses() {
    check(
        "the first waits too long",
        &[
            (5_000, Push(1, Ok(()))),
            (5_900, Push(1, Ok(()))),
            (6_000, Push(1, Ok(()))),
            (6_001, Push(1, Err(Age))),
            (6_001, Pop(true)),
            (6_001, Pop(true)),
            (6_001, Push(1, Err(Age))),
            (6_001, Pop(true)),
            (6_002, Push(1, Ok(()))),
            (6_002, Push(1, Ok(()))),
        ],
    );
    check(
        "a long sleep does not make the second item late",
        &[
            (0, Drained),
            (90_000, Push(1, Ok(()))),
            (90_001, Push(1, Ok(()))),
            (91_000, Push(1, Ok(()))),
            (91_001, Push(1, Err(Age))),
        ],
    );
    check(
        "never earlier than half the bound",
        &[(0, Drained), (500, Push(1, Ok(()))), (1_000, Push(1, Ok(()))), (1_001, Push(1, Err(Age)))],
    );
    check(
        "a clock that lags behind another thread's",
        &[(9_000, Drained), (8_000, Push(1, Ok(()))), (8_000, Push(1, Ok(())))],
    );
}

/// `Receiver::drained` in a lane that is never empty: what counts is how old the items are.
#[test]
fn a_busy_lane_that_moves_on_is_not_old() {
    let turn = |now_us| [(now_us, Pop(true)), (now_us, Push(1, Ok(()))), (now_us, Drained)];
    let mut steps = vec![(0, Push(1, Ok(()))), (0, Push(1, Ok(()))), (0, Drained)];
    steps.extend((1..100).flat_map(|n| turn(n * 200)));
    check("two are always waiting, for 400 µs", &steps);
    // Saying so without taking is no progress.
    steps.extend([(20_200, Drained), (20_400, Drained), (21_500, Drained), (21_500, Push(1, Err(Age)))]);
    check("it stands still", &steps);
}

/// `Receiver::pop`: the order of the lanes, judged anew at every item.
#[test]
fn control_goes_before_vip_and_vip_before_normal() {
    let (sender, mut receiver) = mailbox_of::<u32>(8, 100, 1_000);
    for n in 0..2 {
        sender.normal(n, 1, 0).expect("room");
        sender.vip(10 + n, 1, 0).expect("room");
        sender.control(20 + n, 1, 0).expect("room");
    }
    let taken: Vec<_> = (0..3).filter_map(|_| receiver.pop()).collect();
    assert_eq!(taken, [Message::Control(20), Message::Control(21), Message::Vip(10)]);
    sender.control(22, 1, 0).expect("room");
    let rest: Vec<_> = std::iter::from_fn(|| receiver.pop()).collect();
    assert_eq!(rest, [Message::Control(22), Message::Vip(11), Message::Normal(0), Message::Normal(1)]);
}

/// `Sender::normal`: one lane's bound is not another's.
#[test]
fn a_full_lane_leaves_the_others_open() {
    let (sender, _receiver) = mailbox_of::<u32>(1, 100, 1_000);
    sender.normal(1, 1, 0).expect("room");
    assert_eq!(sender.normal(2, 1, 0).map_err(|full| full.reason), Err(Slots));
    sender.vip(3, 1, 0).expect("the vip lane is empty");
    sender.control(4, 1, 0).expect("the control lane is empty");
    let depths = [Lane::Control, Lane::Vip, Lane::Normal].map(|lane| sender.depth(lane));
    assert_eq!(depths, [1, 1, 1]);
}

/// `Receiver::prepare_sleep`: one wake-up per sleep, none when awake, no sleep over an item.
#[test]
fn a_sleep_is_ended_by_one_wake_up() {
    let bell = Bell::default();
    let bounds = Bounds { slots: 8, bytes_max: 100, age_max_us: 1_000 };
    let (sender, mut receiver) = mailbox::<u32, u32, _>(bounds, bounds, bounds, bell.clone());
    sender.normal(0, 1, 0).expect("room");
    assert!(!receiver.prepare_sleep(), "something is there");
    sender.normal(1, 1, 0).expect("room");
    assert_eq!(bell.rings(), 0, "the receiver is awake");
    while receiver.pop().is_some() {}
    assert!(receiver.prepare_sleep());
    sender.normal(2, 101, 0).expect_err("more bytes than may wait");
    assert_eq!(bell.rings(), 0, "a refused push is nothing to wake for");
    for lane in [Sender::control, Sender::vip, Sender::normal] {
        lane(&sender, 3, 1, 0).expect("room");
    }
    assert_eq!(bell.rings(), 1);
    receiver.awake();
    while receiver.pop().is_some() {}
    assert!(receiver.prepare_sleep());
    receiver.awake();
    sender.vip(4, 1, 0).expect("room");
    assert_eq!(bell.rings(), 1, "the receiver woke by itself");
    for (rings, lane) in (2..).zip([Sender::control, Sender::vip, Sender::normal]) {
        while receiver.pop().is_some() {}
        assert!(receiver.prepare_sleep());
        lane(&sender, 5, 1, 0).expect("room");
        assert_eq!(bell.rings(), rings, "each lane wakes");
        receiver.awake();
    }
}

/// `Receiver::drop` and `Sender::drop`: each item left behind is dropped once, whoever goes first.
#[test]
fn what_is_left_is_dropped_once() {
    let token = std::sync::Arc::new(());
    let held = || std::sync::Arc::strong_count(&token) - 1;
    for receiver_first in [true, false] {
        let (sender, mut receiver) = mailbox_of(4, 100, 1_000);
        // Over the end of the ring, so that what is left does not begin at the first slot.
        for _ in 0..3 {
            sender.normal(token.clone(), 1, 0).expect("room");
            drop(receiver.pop());
        }
        for _ in 0..4 {
            sender.normal(token.clone(), 1, 0).expect("room");
        }
        sender.control(token.clone(), 1, 0).expect("room");
        assert_eq!(held(), 5);
        if receiver_first {
            drop(receiver);
            assert_eq!(held(), 0, "the receiver takes what is left with it");
            let full = sender.control(token.clone(), 1, 0).expect_err("nobody will take it");
            assert_eq!(full.reason, FullReason::Closed);
            assert_eq!(format!("{full:?}: {full}"), "Full { reason: Closed, .. }: the receiver is gone");
        } else {
            drop(sender);
            assert!(receiver.pop().is_some(), "items outlive their sender");
            drop(receiver);
        }
        assert_eq!(held(), 0);
    }
}

/// `mailbox` with items at the largest size, which share a slot's cache line with its turn.
#[test]
fn the_largest_item_fits_a_slot() {
    let (sender, mut receiver) = mailbox_of::<[u8; ITEM_BYTES_MAX]>(2, 200, 1_000);
    assert_eq!(ITEM_BYTES_MAX, 48);
    let item: [u8; ITEM_BYTES_MAX] = std::array::from_fn(|n| n as u8);
    sender.normal(item, 48, 0).expect("room");
    sender.normal([7; ITEM_BYTES_MAX], 48, 0).expect("room");
    assert_eq!(receiver.pop(), Some(Message::Normal(item)));
    assert_eq!(receiver.pop(), Some(Message::Normal([7; ITEM_BYTES_MAX])));
}

/// `mailbox`: bounds that only a bug can state.
#[test]
fn bounds_that_no_ring_has_are_a_bug() {
    let is_refused =
        |slots, bytes_max| std::panic::catch_unwind(|| drop(mailbox_of::<u32>(slots, bytes_max, 1))).is_err();
    for (slots, bytes_max) in [(0, 1), (3, 1), (crate::SLOTS_MAX * 2, 1), (1, (1 << 40) + 1)] {
        assert!(is_refused(slots, bytes_max), "{slots} slots, {bytes_max} bytes");
    }
    assert!(!is_refused(1, 1 << 40));
}

/// `Sender::wake`: news that is not in a mailbox rings the bell of a receiver that has announced its sleep, once,
/// and nobody else's.
#[test]
fn a_wake_without_an_item_rings_only_for_a_sleeper() {
    let bounds = Bounds { slots: 4, bytes_max: 100, age_max_us: 1_000 };
    let bell = Bell::default();
    let (sender, mut receiver) = mailbox::<u32, u32, Bell>(bounds, bounds, bounds, bell.clone());
    sender.wake();
    assert_eq!(bell.rings(), 0, "it is awake and will look");
    assert!(receiver.prepare_sleep());
    sender.wake();
    sender.wake();
    assert_eq!(bell.rings(), 1);
    receiver.awake();
    sender.wake();
    assert_eq!(bell.rings(), 1);
    assert!(receiver.pop().is_none());
}
