//! The boundary to whatever keeps a room's entries.
//!
//! The unit is a run of entries with the position it is expected to follow, so that a log server with
//! compare-and-append fits as well as an embedded database. Calls never block: an answer arrives in a
//! [`Promise`] or moves a [`Progress`], both of which are polled by the owner's worker and only woken
//! through its mailbox. A wake-up that is lost therefore delays an answer and never loses it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use danmaku_wire::entry::Entry;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::{Epoch, SEQ_MAX};

use crate::admission::idempotency::Key;
use crate::house::{House, board::Board};

/// Rings the bell of whoever waits.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What an ack promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Acked when sequenced; the store may lose it.
    Memory,
    /// Acked when sequenced, stored within a second.
    Relaxed,
    /// Acked after the commit.
    #[default]
    Stored,
}

/// An id that goes into the same transaction as its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredId {
    /// Who and which id.
    pub key: Key,
    /// Hash of the payload.
    pub payload: u64,
    /// The entry.
    pub seq: u64,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// Entries to append, in order.
#[derive(Debug, Clone)]
pub struct Append {
    /// The room.
    pub room: RoomId,
    /// The owner's epoch.
    pub epoch: Epoch,
    /// What the owner has promised, or is about to.
    pub durability: Durability,
    /// The sequence of the owner's append before this one; an owner that was replaced finds another.
    pub expected: u64,
    /// The entries; the first one's sequence may lie beyond `expected + 1` at an epoch's start.
    pub entries: Vec<Arc<Entry>>,
    /// Ids of these entries.
    pub ids: Vec<StoredId>,
}

/// What is known of a room when its owner starts.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Epochs with the last sequence stored in each, oldest first. An epoch that began and of which
    /// nothing was stored is among them, with the number before its first: its entries may have been
    /// shown, and the next owner must not use their numbers.
    pub epochs: Vec<(Epoch, u64)>,
    /// The newest stored entries up to the last, oldest first, contiguous within each epoch, of as many epochs as
    /// the store keeps: a follower that slept through a whole epoch goes on from before it.
    pub tail: Vec<Arc<Entry>>,
    /// Ids that are still within their window.
    pub ids: Vec<StoredId>,
    /// What the room's staff has decided.
    pub house: House,
}

impl Loaded {
    /// Forgets the oldest epochs beyond `epochs_max`, with what is kept of them.
    pub fn keep_epochs(&mut self, epochs_max: usize) {
        let over = self.epochs.len().saturating_sub(epochs_max);
        if let Some((_, end)) = self.epochs.drain(..over).next_back() {
            self.tail.drain(..self.tail.partition_point(|entry| entry.seq <= end));
        }
    }

    /// What stands in the room when all that is known has been played.
    pub fn board(&self) -> Board {
        let find =
            |of: u64| self.tail.binary_search_by_key(&of, |entry| entry.seq).ok().map(|at| &self.tail[at]);
        let mut board = self.house.board.clone();
        for entry in self.tail.iter().filter(|entry| Board::heeds(&entry.body)) {
            board.note(entry, |of| find(of).cloned());
        }
        board
    }

    /// Whether an owner can start from it: numbers rise from epoch to epoch, each epoch's entries go without a
    /// hole to its end, and nothing lies beyond the last.
    pub fn is_coherent(&self) -> bool {
        let ends = || self.epochs.iter().map(|(_, end)| *end);
        let last = ends().next_back().unwrap_or(0);
        if !ends().is_sorted_by(|a, b| a < b) || last >= SEQ_MAX || self.ids.iter().any(|id| id.seq > last) {
            return false;
        }
        let mut tail = self.tail.as_slice();
        for end in ends() {
            let (own, later) = tail.split_at(tail.partition_point(|entry| entry.seq <= end));
            tail = later;
            let first = (end + 1).saturating_sub(own.len() as u64);
            if own.iter().zip(first..).any(|(entry, seq)| entry.seq != seq || seq == 0) {
                return false;
            }
        }
        tail.is_empty()
    }
}

/// An answer that comes later.
pub struct Promise<T> {
    slot: OnceLock<T>,
    waker: Waker,
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promise").field("kept", &self.slot.get().is_some()).finish_non_exhaustive()
    }
}

impl<T> Promise<T> {
    /// A promise that rings `waker` when kept.
    pub fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self { slot: OnceLock::new(), waker })
    }

    /// Keeps the promise; the first answer stands.
    pub fn keep(&self, value: T) {
        let _ = self.slot.set(value);
        (self.waker)();
    }

    /// The answer, once it is there.
    pub fn poll(&self) -> Option<&T> {
        self.slot.get()
    }
}

/// How far the store has come with one owner's appends.
///
/// The first failure is the end: what would be stored behind a hole is not what was appended, so that
/// everything after it counts as given up, however late the owner looks.
pub struct Progress {
    stored: AtomicU64,
    failed: AtomicU64,
    waker: Waker,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress")
            .field("stored", &self.stored)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Progress {
    /// Nothing stored yet.
    pub fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self { stored: AtomicU64::new(0), failed: AtomicU64::new(0), waker })
    }

    /// Everything up to `seq` is stored; after a failure: given up.
    pub fn store_to(&self, seq: u64) {
        let given_up = self.failed() > self.stored();
        let mark = if given_up { &self.failed } else { &self.stored };
        mark.fetch_max(seq, Ordering::AcqRel);
        (self.waker)();
    }

    /// Everything up to `seq` that is not stored never will be.
    pub fn fail_to(&self, seq: u64) {
        self.failed.fetch_max(seq, Ordering::AcqRel);
        (self.waker)();
    }

    /// The last sequence stored.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Acquire)
    }

    /// The last sequence given up; at most [`Self::stored`] where nothing was.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Acquire)
    }
}

/// What keeps entries. Implementations answer from any thread, in the order of the calls per room.
pub trait Store: Send + Sync {
    /// Looks a room up for a new owner, which knows from then on what was known of it. `durability` is what this
    /// owner is going to promise: rooms that promise nothing may be kept elsewhere.
    fn load(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>);

    /// The same for somebody who only reads, such as a snapshot's maker: whatever a new owner is to find stays.
    fn look(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>);

    /// Appends entries; the answer moves `progress`. Where one append failed for good, those after it
    /// of the same owner fail too: `expected` does not fit.
    fn append(&self, append: Append, progress: &Arc<Progress>);

    /// Keeps what the staff of a room has decided, in place of what was kept of it; a new owner finds it. Answers nothing:
    /// a decision holds from the moment it is made.
    fn keep(&self, _room: &RoomId, _house: House) {}

    /// All that another process needs in order to serve these rooms, when it takes this one's place; `left` is
    /// what their owners leave, in place of what is kept here of the same rooms. A store that outlives the
    /// process has nothing to add: whoever takes over finds it.
    fn hand_over(&self, left: Vec<(RoomId, Loaded)>) -> Vec<(RoomId, Loaded)> {
        left
    }

    /// What another process knew of a room, before the first owner here. A store that the other process wrote
    /// to has it already.
    fn take_over(&self, _room: RoomId, _left: Loaded) {}
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn load(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        (**self).load(room, durability, answer);
    }

    fn look(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        (**self).look(room, durability, answer);
    }

    fn append(&self, append: Append, progress: &Arc<Progress>) {
        (**self).append(append, progress);
    }

    fn keep(&self, room: &RoomId, house: House) {
        (**self).keep(room, house);
    }

    fn hand_over(&self, left: Vec<(RoomId, Loaded)>) -> Vec<(RoomId, Loaded)> {
        (**self).hand_over(left)
    }

    fn take_over(&self, room: RoomId, left: Loaded) {
        (**self).take_over(room, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Progress::store_to` and `fail_to` in order: what lies behind a failure is never told as stored.
    #[test]
    fn nothing_counts_as_stored_behind_a_failure() {
        enum Call {
            Stored(u64),
            Failed(u64),
        }
        use Call::{Failed, Stored};
        for (calls, told) in [
            (&[Stored(3), Stored(2)][..], (3, 0)),
            (&[Stored(3), Failed(5), Stored(9)], (3, 9)),
            (&[Failed(5), Failed(7)], (0, 7)),
            // Nothing was lost by giving up what was stored already.
            (&[Stored(5), Failed(5), Stored(8)], (8, 5)),
        ] {
            let progress = Progress::new(Arc::new(|| {}));
            for call in calls {
                match call {
                    Stored(seq) => progress.store_to(*seq),
                    Failed(seq) => progress.fail_to(*seq),
                }
            }
            assert_eq!((progress.stored(), progress.failed()), told);
        }
    }
}
