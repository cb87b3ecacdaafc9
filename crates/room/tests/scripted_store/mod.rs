//! A store that answers when the test says so: late, in parts, or never again.

use std::collections::VecDeque;
use std::sync::Arc;

use danmaku_room::store::{Append, Loaded, Progress, StoredId};
use danmaku_wire::entry::Entry;
use danmaku_wire::position::Epoch;

/// What outlives an owner, and what one owner has in flight.
pub(crate) struct ScriptedStore {
    /// Epochs that began, with the last number stored in each.
    pub(crate) epochs: Vec<(Epoch, u64)>,
    /// Entries stored, by rising sequence.
    pub(crate) kept: Vec<Arc<Entry>>,
    ids: Vec<StoredId>,
    queue: VecDeque<Append>,
    progress: Arc<Progress>,
    /// How many of the newest entries a new owner is given.
    pub(crate) tail_max: usize,
    failed: bool,
    /// Whether it hears of an epoch with its first entry, and not when it begins.
    pub(crate) told_late: bool,
    begun: usize,
    /// The number before the first of the newest epoch.
    before: u64,
}

impl ScriptedStore {
    pub(crate) fn new(tail_max: usize) -> Self {
        Self {
            epochs: Vec::new(),
            kept: Vec::new(),
            ids: Vec::new(),
            queue: VecDeque::new(),
            progress: Progress::new(Arc::new(|| {})),
            tail_max,
            failed: false,
            told_late: false,
            begun: 0,
            before: 0,
        }
    }

    /// How many epochs have begun.
    pub(crate) fn begun(&self) -> usize {
        self.begun
    }

    /// What a new owner is told; what the old one had in flight is lost.
    pub(crate) fn load(&mut self) -> Loaded {
        self.queue.clear();
        self.failed = false;
        if self.told_late && self.epochs.last().is_some_and(|(_, last)| *last == self.before) {
            self.epochs.pop();
        }
        self.progress = Progress::new(Arc::new(|| {}));
        let mut tail = Vec::new();
        if let Some((_, last)) = self.epochs.last() {
            let mut expected = *last;
            for entry in self.kept.iter().rev().take(self.tail_max) {
                if entry.seq != expected {
                    break;
                }
                tail.push(Arc::clone(entry));
                expected -= 1;
            }
            tail.reverse();
        }
        Loaded { epochs: self.epochs.clone(), tail, ids: self.ids.clone(), ..Loaded::default() }
    }

    /// An owner has begun an epoch whose first number is `next_seq`.
    pub(crate) fn begin(&mut self, epoch: Epoch, next_seq: u64) {
        self.epochs.push((epoch, next_seq - 1));
        self.begun += 1;
        self.before = next_seq - 1;
    }

    /// Takes an append in.
    pub(crate) fn append(&mut self, append: Append) {
        self.queue.push_back(append);
    }

    /// Commits the first `entries_max` entries of the oldest append, with their ids.
    pub(crate) fn commit(&mut self, entries_max: usize) {
        let Some(append) = self.queue.front_mut() else { return };
        let count = entries_max.min(append.entries.len());
        if count == 0 {
            return;
        }
        let to = append.entries[count - 1].seq;
        if self.failed {
            return self.fail();
        }
        let mark = self.epochs.last_mut().expect("an owner has begun");
        assert_eq!(mark.0, append.epoch, "an owner appends to its own epoch");
        assert_eq!(mark.1, append.expected, "each append follows the one before");
        assert_eq!(append.entries[0].seq, append.expected + 1, "appends are contiguous");
        self.kept.extend(append.entries.drain(..count));
        self.ids.extend(append.ids.iter().filter(|id| id.seq <= to));
        append.ids.retain(|id| id.seq > to);
        append.expected = to;
        mark.1 = to;
        if append.entries.is_empty() {
            self.queue.pop_front();
        }
        self.progress.store_to(to);
    }

    /// Gives the oldest append up for good, and so every later one of this owner.
    pub(crate) fn fail(&mut self) {
        if let Some(append) = self.queue.pop_front() {
            self.failed = true;
            self.progress.fail_to(append.entries.last().map_or(0, |e| e.seq));
        }
    }

    /// Whether something is in flight.
    pub(crate) fn busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How far it has come: stored and failed.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.progress.stored(), self.progress.failed())
    }

    /// Whether a new owner is told of an epoch.
    #[allow(dead_code, reason = "not every model looks at it")]
    pub(crate) fn knows(&self, epoch: &Epoch) -> bool {
        let before = self.before;
        self.epochs.iter().any(|(known, last)| known == epoch && (!self.told_late || *last != before))
    }

    /// Whether the entry is in the history.
    pub(crate) fn holds(&self, seq: u64) -> bool {
        self.kept.binary_search_by_key(&seq, |e| e.seq).is_ok()
    }
}
