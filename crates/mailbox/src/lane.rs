//! One ring of a mailbox with its three bounds.
//!
//! In come items, bytes and the time of the push; out go items, or the item with the bound it met. The
//! age is not kept per item: what the lane knows is a time before which everything has been taken.

use std::fmt;

use crate::ring::{Consumer, Lack, Producer, ring};
use crate::sync::{Arc, AtomicU64, CachePadded, Ordering};

/// How much may wait in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Items: a power of two, at most [`crate::SLOTS_MAX`].
    pub slots: usize,
    /// Bytes, as the senders state them; at most [`crate::BYTES_MAX`].
    pub bytes_max: usize,
    /// How long the oldest item may have been waiting for another to be let in behind it, microseconds.
    /// A full one is refused from half this age on, depending on when the lane was last found empty, and
    /// always above it.
    pub age_max_us: u64,
}

/// Which bound a push met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FullReason {
    /// As many items as there are slots are waiting.
    #[error("no slot is free")]
    Slots,
    /// The item's bytes do not fit beside those that are waiting.
    #[error("the bytes that may wait are used up")]
    Bytes,
    /// What is waiting has been waiting for too long: the receiver does not keep up.
    #[error("what is waiting is too old")]
    Age,
    /// The receiver is gone.
    #[error("the receiver is gone")]
    Closed,
}

/// A push that was refused, with what was to be pushed.
pub struct Full<T> {
    /// The item, untouched.
    pub item: T,
    /// Why it was refused.
    pub reason: FullReason,
}

/// Does not ask that the item can be printed.
impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<T> std::error::Error for Full<T> {}

/// Makes a lane.
pub(crate) fn lane<T: Send>(bounds: Bounds) -> (LaneSender<T>, LaneReceiver<T>) {
    let (producer, consumer) = ring(bounds.slots, bounds.bytes_max as u64);
    let taken_before_us = Arc::new(CachePadded(AtomicU64::new(0)));
    let sender =
        LaneSender { producer, taken_before_us: Arc::clone(&taken_before_us), age_max_us: bounds.age_max_us };
    let mark = Mark { position: 0, at_us: 0 };
    (sender, LaneReceiver { consumer, taken_before_us, mark })
}

pub(crate) struct LaneSender<T> {
    producer: Producer<T>,
    /// Everything that was pushed before this time has been taken.
    taken_before_us: Arc<CachePadded<AtomicU64>>,
    age_max_us: u64,
}

impl<T> Clone for LaneSender<T> {
    fn clone(&self) -> Self {
        Self {
            producer: self.producer.clone(),
            taken_before_us: Arc::clone(&self.taken_before_us),
            age_max_us: self.age_max_us,
        }
    }
}

impl<T: Send> LaneSender<T> {
    pub(crate) fn push(&self, item: T, bytes: usize, now_us: u64) -> Result<(), Full<T>> {
        if self.is_too_old(now_us) {
            return Err(Full { item, reason: FullReason::Age });
        }
        self.producer.push(item, bytes as u64).map_err(|(item, lack)| {
            let reason = match lack {
                Lack::Slots => FullReason::Slots,
                Lack::Bytes => FullReason::Bytes,
                Lack::Consumer => FullReason::Closed,
            };
            Full { item, reason }
        })
    }

    pub(crate) fn depth(&self) -> usize {
        self.producer.depth() as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        self.producer.bytes() as usize
    }

    pub(crate) fn age_us(&self, now_us: u64) -> u64 {
        if self.producer.depth() == 0 {
            return 0;
        }
        now_us.saturating_sub(self.taken_before_us.load(Ordering::Acquire))
    }

    /// Whether the oldest item has waited beyond the bound.
    ///
    /// The lane of a sleeping worker is empty, and its time stands still. Whoever finds it so moves the
    /// time on, or else the first item would make the second one seem late. Half the bound leaves room
    /// for not doing this at every push.
    fn is_too_old(&self, now_us: u64) -> bool {
        let waited_us = now_us.saturating_sub(self.taken_before_us.load(Ordering::Acquire));
        if waited_us <= self.age_max_us / 2 {
            return false;
        }
        if self.producer.depth() == 0 {
            self.taken_before_us.fetch_max(now_us, Ordering::AcqRel);
            return false;
        }
        // Read again: it may have been moved, and the first item pushed, since.
        let waited_us = now_us.saturating_sub(self.taken_before_us.load(Ordering::Acquire));
        waited_us > self.age_max_us
    }
}

pub(crate) struct LaneReceiver<T: Send> {
    consumer: Consumer<T>,
    taken_before_us: Arc<CachePadded<AtomicU64>>,
    mark: Mark,
}

/// A place in the ring and a time at which nothing beyond it had been pushed.
struct Mark {
    position: u64,
    at_us: u64,
}

impl<T: Send> LaneReceiver<T> {
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.consumer.pop()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.consumer.is_ready()
    }

    /// Tells the senders how far the receiver has come.
    ///
    /// Under load a lane is never empty and yet no item is old. So the end of the ring is marked with the
    /// time, and once everything up to the mark is taken, the time of the mark is what can be told.
    pub(crate) fn drained(&mut self, now_us: u64) {
        let (head, tail) = (self.consumer.head(), self.consumer.tail());
        if head >= self.mark.position {
            let taken_before_us = if head == tail { now_us } else { self.mark.at_us };
            self.taken_before_us.fetch_max(taken_before_us, Ordering::AcqRel);
            self.mark = Mark { position: tail, at_us: now_us };
        }
    }
}
