//! The owner's log of a room: the newest sealed batches, bounded by bytes and age.
//!
//! Batches that the store has not taken are never evicted, whatever the bounds say; the byte bound on
//! that suffix closes admission instead, in [`crate::owner`].

use std::collections::VecDeque;
use std::sync::Arc;

use danmaku_wire::entry::Entry;
use danmaku_wire::position::Epoch;

use crate::batch::Batch;

/// How much a ring of batches may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingBounds {
    /// Canonical bytes; the newest batch is kept even where it alone is larger.
    pub bytes_max: usize,
    /// Age of the oldest batch, microseconds.
    pub age_max_us: u64,
}

impl RingBounds {
    /// Whether the oldest of the held batches has to go.
    pub(crate) fn exceeded(&self, bytes: usize, oldest_us: u64, now_us: u64) -> bool {
        bytes > self.bytes_max || now_us.saturating_sub(oldest_us) > self.age_max_us
    }
}

/// The log. One writer: the owner.
#[derive(Debug)]
pub struct RoomLog {
    batches: VecDeque<Arc<Batch>>,
    /// The chain's live end; stays when everything else was evicted.
    tail: Arc<Batch>,
    /// The newest batch that was let go of. It is cut only when the batch after it goes too: whoever
    /// stands on it has missed nothing yet.
    behind: Arc<Batch>,
    bytes: usize,
    bounds: RingBounds,
}

impl RoomLog {
    /// An empty log whose first entry will be `next_seq`.
    pub fn new(epoch: Epoch, next_seq: u64, bounds: RingBounds, now_us: u64) -> Self {
        let tail = Batch::genesis(epoch, next_seq, now_us);
        Self { batches: VecDeque::new(), behind: Arc::clone(&tail), tail, bytes: 0, bounds }
    }

    /// Other bounds from now on; the next eviction heeds them.
    pub fn set_bounds(&mut self, bounds: RingBounds) {
        self.bounds = bounds;
    }

    /// Appends a sealed batch; readers of the chain see it at once.
    pub fn append(&mut self, batch: Arc<Batch>) {
        self.bytes += batch.bytes;
        self.tail.link(Arc::clone(&batch));
        self.tail = Arc::clone(&batch);
        self.batches.push_back(batch);
    }

    /// Lets go of the oldest batches beyond the bounds, up to `stored`, the last stored sequence. A
    /// reader is lapped when the batch after its own goes, no sooner.
    pub fn evict(&mut self, stored: u64, now_us: u64) {
        while let Some(oldest) = self.batches.front() {
            let last = self.batches.len() == 1;
            // An aged last batch may go: it stays the chain's tail, so a reader that has it is up to date.
            let over = if last {
                now_us.saturating_sub(oldest.sealed_us) > self.bounds.age_max_us
            } else {
                self.bounds.exceeded(self.bytes, oldest.sealed_us, now_us)
            };
            if !over || oldest.to > stored {
                return;
            }
            let Some(oldest) = self.batches.pop_front() else { return };
            self.bytes -= oldest.bytes;
            std::mem::replace(&mut self.behind, oldest).cut();
        }
    }

    /// The chain's live end, for a new link.
    pub fn tail(&self) -> &Arc<Batch> {
        &self.tail
    }

    /// The batches held, oldest first.
    pub fn batches(&self) -> impl DoubleEndedIterator<Item = &Arc<Batch>> {
        self.batches.iter()
    }

    /// The entry of a number, where its batch is held.
    pub fn entry(&self, seq: u64) -> Option<&Arc<Entry>> {
        let at = self.batches.partition_point(|batch| batch.to < seq);
        self.batches.get(at)?.entry(seq)
    }

    /// Canonical bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for RoomLog {
    /// Cuts the chain, so that it comes down batch by batch instead of by recursion, and so that every
    /// reader learns that nothing will follow.
    fn drop(&mut self) {
        self.behind.cut();
        for batch in self.batches.drain(..) {
            batch.cut();
        }
    }
}
