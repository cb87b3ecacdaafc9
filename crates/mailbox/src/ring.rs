//! A bounded ring that many threads push into and one takes from, without a lock.
//!
//! In come items with their bytes; out come the same in the order in which their slots were claimed.
//! Knows neither time nor wake-ups. The shape is Vyukov's bounded queue (1024cores.net, "Bounded MPMC
//! queue") with one consumer and with *turns* in place of his sequences: the turn of a slot is twice the
//! number of laps for which it has been free, plus one while it holds an item. A fresh ring is then all
//! zeroes, so that a ring of megabytes costs no memory until it fills, where the allocator gets zeroed
//! pages from the system and aligns them without touching them (jemalloc does; glibc clears aligned
//! memory itself, so that there the 4 MiB of a worker's rings are touched at once).
//!
//! # Invariants
//! 1. A position is claimed by one producer: the one whose compare-exchange moved `tail` past it.
//! 2. Slot `p % slots` in turn `2·lap(p)` belongs to the producer that claimed `p`; in turn `2·lap(p) + 1`
//!    it holds an item and belongs to the consumer, who moves it out and stores `2·lap(p) + 2`.
//! 3. Turns are stored with `Release` and loaded with `Acquire`, so whoever finds a slot to be its own
//!    also sees what the owner before did to it.
//! 4. There is one [`Consumer`] per ring, it cannot be cloned, and it takes by `&mut self`.
//!
//! A producer that loses its core between claiming and writing holds up what was claimed after it: the
//! consumer sees the ring as empty up to there. It never waits, and is told by that producer's wake-up.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use crate::sync::{Arc, AtomicBool, AtomicU64, CachePadded, Ordering, UnsafeCell};

/// Bytes between slots: one cache line, so that producers of neighbouring slots do not slow each other.
const STRIDE_BYTES: usize = 64;
/// The largest item: what a slot has left beside its turn and the item's bytes. Box what is larger.
pub const ITEM_BYTES_MAX: usize = STRIDE_BYTES - 2 * size_of::<u64>();
/// The most slots of a ring: 64 MiB of them.
pub const SLOTS_MAX: usize = 1 << 20;

/// What a push did not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    Slots,
    Bytes,
    /// The consumer is gone.
    Consumer,
}

/// The largest bound on bytes. Far enough below 2^64 that the sum of all bytes that ever pass stays in it.
pub const BYTES_MAX: u64 = 1 << 40;

/// Makes a ring of `slots`, a power of two of at most [`SLOTS_MAX`], and at most [`BYTES_MAX`].
pub(crate) fn ring<T: Send>(slots: usize, bytes_max: u64) -> (Producer<T>, Consumer<T>) {
    assert!(slots.is_power_of_two() && slots <= SLOTS_MAX, "{slots} slots: not a power of two up to 2^20");
    assert!(bytes_max <= BYTES_MAX, "{bytes_max} bytes: more than 2^40");
    let ring = Arc::new(Ring {
        slots: fresh_slots(slots),
        mask: slots as u64 - 1,
        lap_shift: slots.trailing_zeros(),
        bytes_max,
        abandoned: AtomicBool::new(false),
        producers: CachePadded(Claimed::default()),
        consumer: CachePadded(Taken::default()),
    });
    (Producer { ring: Arc::clone(&ring) }, Consumer { ring, head: 0, bytes: 0 })
}

struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// `slots - 1`.
    mask: u64,
    /// log2 of `slots`.
    lap_shift: u32,
    bytes_max: u64,
    abandoned: AtomicBool,
    /// Written by producers.
    producers: CachePadded<Claimed>,
    /// Written by the consumer.
    consumer: CachePadded<Taken>,
}

#[cfg_attr(not(loom), repr(align(64)))]
struct Slot<T> {
    turn: AtomicU64,
    content: UnsafeCell<MaybeUninit<Content<T>>>,
}

struct Content<T> {
    bytes: u64,
    item: T,
}

#[derive(Default)]
struct Claimed {
    /// The next position to claim.
    tail: AtomicU64,
    /// Bytes of everything that was ever let in, and of what is being tried.
    bytes: AtomicU64,
    /// A `Taken::bytes` of a while ago, so that a push far from the bound leaves that line alone.
    bytes_taken_seen: AtomicU64,
}

#[derive(Default)]
struct Taken {
    /// The next position to take.
    head: AtomicU64,
    /// Bytes of everything that was ever taken.
    bytes: AtomicU64,
}

// SAFETY: the cells are what keeps a ring from being shared. By invariants 1 to 4 no two threads ever
// have the same cell at once, and an item is moved in by one thread and out by another, hence `T: Send`;
// no two threads ever see the same item, hence no `T: Sync`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above; a ring owns its items.
unsafe impl<T: Send> Send for Ring<T> {}

/// The side that any thread may push into.
pub(crate) struct Producer<T> {
    ring: Arc<Ring<T>>,
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        Self { ring: Arc::clone(&self.ring) }
    }
}

impl<T: Send> Producer<T> {
    /// Puts an item at the end, or gives it back.
    ///
    /// A push that is about to be refused counts towards the bytes for the moment that this takes.
    pub(crate) fn push(&self, item: T, bytes: u64) -> Result<(), (T, Lack)> {
        if self.ring.abandoned.load(Ordering::Acquire) {
            return Err((item, Lack::Consumer));
        }
        if !self.reserve(bytes) {
            return Err((item, Lack::Bytes));
        }
        let Some(position) = self.claim() else {
            self.ring.producers.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err((item, Lack::Slots));
        };
        let slot = self.ring.slot(position);
        slot.content.with_mut(|content| {
            // SAFETY: `claim` found the slot in the free turn of this position and moved `tail` past it,
            // so by invariant 2 the cell is this thread's alone, and by invariant 3 the consumer's read
            // of the lap before is over. What it holds was moved out then or never written, so that
            // nothing is overwritten that would have to be dropped.
            unsafe { (*content).write(Content { bytes, item }) };
        });
        slot.turn.store(self.ring.free_turn(position) + 1, Ordering::Release);
        Ok(())
    }

    /// Positions claimed and not yet taken.
    pub(crate) fn depth(&self) -> u64 {
        // The tail first: read the other way round, what is pushed and taken in between would count.
        let tail = self.ring.producers.tail.load(Ordering::Acquire);
        tail.saturating_sub(self.ring.consumer.head.load(Ordering::Acquire))
    }

    /// Bytes let in and not yet taken.
    pub(crate) fn bytes(&self) -> u64 {
        let claimed = self.ring.producers.bytes.load(Ordering::Acquire);
        claimed.saturating_sub(self.ring.consumer.bytes.load(Ordering::Acquire))
    }

    fn reserve(&self, bytes: u64) -> bool {
        let ring = &self.ring;
        // What has no room even in an empty ring must not raise the count at all: a sum of such sizes
        // could leave the number range.
        let Some(held_max) = ring.bytes_max.checked_sub(bytes) else { return false };
        let before = ring.producers.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Others may have pushed and the consumer taken since: less than nothing is held then.
        if before.saturating_sub(ring.producers.bytes_taken_seen.load(Ordering::Relaxed)) <= held_max {
            return true;
        }
        let taken = ring.consumer.bytes.load(Ordering::Acquire);
        // An older number of another producer may land on top: it is only looked up again.
        ring.producers.bytes_taken_seen.store(taken, Ordering::Relaxed);
        let fits = before.saturating_sub(taken) <= held_max;
        if !fits {
            ring.producers.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn claim(&self) -> Option<u64> {
        let tail = &self.ring.producers.tail;
        let mut position = tail.load(Ordering::Relaxed);
        loop {
            let turn = self.ring.slot(position).turn.load(Ordering::Acquire);
            let free = self.ring.free_turn(position);
            if turn < free {
                // The item of the lap before is still in it.
                return None;
            }
            if turn > free {
                // Another producer has filled it, after moving the tail: by `Acquire` that move is seen.
                position = tail.load(Ordering::Relaxed);
                continue;
            }
            // Released, so that who sees the position claimed also sees what the lane wrote before.
            match tail.compare_exchange_weak(position, position + 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(position),
                Err(moved) => position = moved,
            }
        }
    }
}

/// The side that one thread takes from.
pub(crate) struct Consumer<T: Send> {
    ring: Arc<Ring<T>>,
    /// What `Taken` says, kept where it needs no atomic read.
    head: u64,
    bytes: u64,
}

impl<T: Send> Consumer<T> {
    /// Takes the next item, if its producer has finished writing it.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if !self.is_ready() {
            return None;
        }
        let ring = &*self.ring;
        let slot = ring.slot(self.head);
        let Content { bytes, item } = slot.content.with_mut(|content| {
            // SAFETY: the slot is in the turn that means "holds the item of this position", so by
            // invariant 2 the cell is the consumer's alone, of which there is one (invariant 4), and by
            // invariant 3 the write is over. The turn stored below keeps it from being read again.
            unsafe { (*content).assume_init_read() }
        });
        let free_again = ring.free_turn(self.head) + 2;
        self.head += 1;
        self.bytes += bytes;
        // Before the slot is given back: who finds a free slot also finds the bytes of its item free.
        ring.consumer.head.store(self.head, Ordering::Release);
        ring.consumer.bytes.store(self.bytes, Ordering::Release);
        slot.turn.store(free_again, Ordering::Release);
        Some(item)
    }

    /// Whether the next item can be taken.
    pub(crate) fn is_ready(&self) -> bool {
        let turn = self.ring.slot(self.head).turn.load(Ordering::Acquire);
        turn == self.ring.free_turn(self.head) + 1
    }

    /// The position that will be taken next: everything below it was taken.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// The position that will be claimed next.
    pub(crate) fn tail(&self) -> u64 {
        self.ring.producers.tail.load(Ordering::Acquire)
    }
}

/// Refuses every push from now on and drops what is left. What a producer is writing at this moment is
/// dropped with the ring, when its last handle goes.
impl<T: Send> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.ring.abandoned.store(true, Ordering::Release);
        while let Some(item) = self.pop() {
            drop(item);
        }
    }
}

impl<T> Ring<T> {
    fn slot(&self, position: u64) -> &Slot<T> {
        // Below the number of slots, which is a usize.
        &self.slots[(position & self.mask) as usize]
    }

    /// The turn in which the slot of a position waits for the producer of just this position.
    fn free_turn(&self, position: u64) -> u64 {
        (position >> self.lap_shift) * 2
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // No producer is left, so every claimed position was written.
        let tail = self.producers.tail.load(Ordering::Acquire);
        for position in self.consumer.head.load(Ordering::Acquire)..tail {
            self.slot(position).content.with_mut(|content| {
                // SAFETY: `&mut self`: no other thread has the ring. Positions from `head` to `tail`
                // were written and not moved out, and each is visited once.
                unsafe { (*content).assume_init_drop() };
            });
        }
    }
}

#[cfg(not(loom))]
fn fresh_slots<T>(slots: usize) -> Box<[Slot<T>]> {
    const { assert!(size_of::<Slot<T>>() == STRIDE_BYTES, "the item is larger than ITEM_BYTES_MAX: box it") };
    // SAFETY: all zeroes are a slot: an `AtomicU64` of 0, the first free turn, beside a cell of
    // `MaybeUninit`, for which any bytes will do.
    unsafe { Box::new_zeroed_slice(slots).assume_init() }
}

/// Loom's atomics are made one by one and have no stride.
#[cfg(loom)]
fn fresh_slots<T>(slots: usize) -> Box<[Slot<T>]> {
    (0..slots)
        .map(|_| Slot { turn: AtomicU64::new(0), content: UnsafeCell::new(MaybeUninit::uninit()) })
        .collect()
}
