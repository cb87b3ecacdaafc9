//! A sealed range of a room's entries, and the chain that carries it to every worker.
//!
//! The owner appends batches to a singly linked chain; replicas on other workers follow the `next`
//! pointers at their own pace. So a link from owner to worker is a cursor, not a queue: it cannot be
//! full, and nothing is copied. What bounds it is eviction: when the owner's log lets go of a batch it
//! cuts the batch's `next`, and a reader that had not come past it finds itself lapped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::ArcSwapOption;
use danmaku_wire::entry::{Body, Entry, Visibility};
use danmaku_wire::position::{Epoch, Position};

use crate::form::{FORM_COUNT, Form, FormKey};
use crate::house::board::Board;

/// What a batch tells its readers.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// The chain's first link: covers nothing, tells nothing.
    Genesis,
    /// Entries in order.
    Entries,
    /// The room has a new owner; what was shown beyond `prev.seq` was not kept.
    EpochChange {
        /// The last kept position of the epoch before.
        prev: Position,
    },
}

/// A sealed range of entries of one room. Immutable but for its forms and its place in the chain.
#[derive(Debug)]
pub struct Batch {
    /// The epoch of the range.
    pub epoch: Epoch,
    /// First sequence covered.
    pub from: u64,
    /// Last sequence covered; `from - 1` where nothing is covered.
    pub to: u64,
    /// What this batch tells.
    pub kind: Kind,
    /// Every entry of the range, whoever may see it.
    pub entries: Vec<Arc<Entry>>,
    /// Canonical size in bytes, what rings and logs are bounded by.
    pub bytes: usize,
    /// When it was sealed, microseconds.
    pub sealed_us: u64,
    /// How many separate flushes would have carried these entries had nothing been coalesced.
    pub flushes: u32,
    /// Whether it may change what stands in the room: it holds a pin, a retraction, a clear or a state.
    pub orders: bool,
    /// Whether it holds entries that not everybody sees, and their authors do.
    pub has_private: bool,
    /// Whether every public entry is shown to every tier, so that one form serves all of them.
    uniform: bool,
    forms: [ArcSwapOption<Form>; FORM_COUNT],
    /// Links that have not yet delivered this batch to all their members.
    readers: AtomicU32,
    next: ArcSwapOption<Batch>,
    cut: AtomicBool,
}

/// What stands behind a batch in the chain.
#[derive(Debug)]
pub enum Next {
    /// The batch that follows.
    Batch(Arc<Batch>),
    /// Nothing yet: the reader is up to date.
    UpToDate,
    /// The log has let go of this batch; what followed must be fetched elsewhere or is lost.
    Lapped,
}

impl Batch {
    /// The first link of a chain whose next entry is `next_seq`.
    pub fn genesis(epoch: Epoch, next_seq: u64, now_us: u64) -> Arc<Self> {
        Arc::new(Self::build(epoch, next_seq, next_seq - 1, Kind::Genesis, Vec::new(), now_us, 0, 0))
    }

    /// The link that tells live sessions of a new owner: it covers what lies between the epochs.
    pub fn epoch_change(epoch: Epoch, prev: Position, next_seq: u64, now_us: u64, readers: u32) -> Arc<Self> {
        let from = prev.seq + 1;
        let kind = Kind::EpochChange { prev };
        Arc::new(Self::build(epoch, from, next_seq - 1, kind, Vec::new(), now_us, 1, readers))
    }

    /// Seals entries that are contiguous and not empty.
    ///
    /// `flushes` is how many flushes were merged, `readers` how many links will deliver the batch.
    pub fn seal(
        epoch: Epoch,
        entries: Vec<Arc<Entry>>,
        now_us: u64,
        flushes: u32,
        readers: u32,
    ) -> Arc<Self> {
        let from = entries.first().map_or(1, |e| e.seq);
        let to = from + entries.len() as u64 - 1;
        debug_assert!(entries.iter().zip(from..).all(|(e, seq)| e.seq == seq), "a batch is contiguous");
        Arc::new(Self::build(epoch, from, to, Kind::Entries, entries, now_us, flushes, readers))
    }

    #[expect(clippy::too_many_arguments, reason = "the one place that fills every field")]
    fn build(
        epoch: Epoch,
        from: u64,
        to: u64,
        kind: Kind,
        entries: Vec<Arc<Entry>>,
        sealed_us: u64,
        flushes: u32,
        readers: u32,
    ) -> Self {
        use danmaku_wire::entry::Tier;
        let bytes = BATCH_BYTES_FIXED + entries.iter().map(|e| entry_bytes(e)).sum::<usize>();
        let uniform = entries.iter().all(|e| {
            matches!(e.visibility, Visibility::Tier(Tier::Lite) | Visibility::Author(_) | Visibility::Staff)
        });
        let orders = entries.iter().any(|e| Board::heeds(&e.body));
        let has_private = entries.iter().any(|e| e.own_of().is_some());
        Self {
            epoch,
            from,
            to,
            kind,
            orders,
            has_private,
            entries,
            bytes,
            sealed_us,
            flushes,
            uniform,
            forms: Default::default(),
            readers: AtomicU32::new(readers),
            next: ArcSwapOption::empty(),
            cut: AtomicBool::new(false),
        }
    }

    /// The last position covered.
    pub fn end(&self) -> Position {
        Position { epoch: self.epoch.clone(), seq: self.to }
    }

    /// Entries that not everybody sees, for delivery to their authors beside the shared bytes.
    pub fn private(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter().filter(|e| e.own_of().is_some())
    }

    /// The entry of a number, if it is in here.
    pub fn entry(&self, seq: u64) -> Option<&Arc<Entry>> {
        self.entries.get(usize::try_from(seq.checked_sub(self.from)?).ok()?)
    }

    /// The batch behind this one.
    pub fn next(&self) -> Next {
        match self.next.load_full() {
            Some(next) => Next::Batch(next),
            // The owner cuts before it lets go, so a missing `next` without a cut is the live end.
            None if self.cut.load(Ordering::Acquire) => Next::Lapped,
            None => Next::UpToDate,
        }
    }

    /// Appends `next` to the chain. Only the owner calls this, once per batch.
    pub(crate) fn link(&self, next: Arc<Batch>) {
        debug_assert_eq!(next.from, self.to + 1, "the chain is contiguous");
        self.next.store(Some(next));
    }

    /// Takes this batch out of the chain. Only the owner calls this, when its log evicts the batch;
    /// without it, a reader that stands still would keep everything after its cursor alive.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.next.store(None);
    }

    /// The slot that serves `key`: tiers share one where they would hold the same bytes.
    fn slot(&self, key: FormKey) -> &ArcSwapOption<Form> {
        let key = if self.uniform { key.untiered() } else { key };
        &self.forms[key.index()]
    }

    /// The form for `key`, made by `make` if nobody has yet.
    ///
    /// Two workers may make the same form at once: the bytes are equal and the first one wins, which is
    /// cheaper than letting one wait for the other.
    pub fn form(&self, key: FormKey, make: impl FnOnce(FormKey) -> Form) -> Arc<Form> {
        let slot = self.slot(key);
        if let Some(form) = slot.load_full() {
            return form;
        }
        let made = Arc::new(make(if self.uniform { key.untiered() } else { key }));
        let before = slot.compare_and_swap(&None::<Arc<Form>>, Some(Arc::clone(&made)));
        match &*before {
            Some(first) => Arc::clone(first),
            None => made,
        }
    }

    /// One link has delivered this batch to all its members that could take it; the last one to say so
    /// drops the forms. A slow member that still needs one has it made again.
    pub fn delivered(&self) {
        let before = self.readers.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        if before.is_ok_and(|n| n > 1) {
            return;
        }
        for form in &self.forms {
            form.store(None);
        }
    }

    /// How many forms are alive, for the bound and its metric.
    pub fn live_forms(&self) -> usize {
        self.forms.iter().filter(|f| f.load().is_some()).count()
    }
}

/// What a batch costs beside its entries: itself, its counters and a place in two rings.
const BATCH_BYTES_FIXED: usize = size_of::<Batch>() + 2 * size_of::<usize>();

/// The canonical size of an entry, heap included; shared authors count once per entry, from above.
pub fn entry_bytes(entry: &Entry) -> usize {
    let body = match &entry.body {
        Body::Comment(c) => c.text.len() + c.trace.as_deref().map_or(0, size_of_val),
        Body::Event(e) => e.kind.len() + e.data.len(),
        Body::Retract { seqs, .. } => seqs.len() * size_of::<u64>(),
        Body::State { data } => data.len(),
        Body::Fold { .. } | Body::Pin { .. } | Body::Clear { .. } => 0,
    };
    size_of::<Entry>() + 4 * size_of::<usize>() + body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Encoding;
    use danmaku_wire::entry::Tier;

    fn epoch() -> Epoch {
        Epoch::parse("e-1").expect("valid")
    }

    fn batch(from: u64, n: u64) -> Arc<Batch> {
        let entries = (from..from + n)
            .map(|seq| {
                let body = Body::Pin { of: 0 };
                Arc::new(Entry { seq, at_ms: 0, visibility: Visibility::Tier(Tier::Lite), body })
            })
            .collect();
        Batch::seal(epoch(), entries, 0, 1, 1)
    }

    /// `Batch::next`: a reader follows the chain to its live end, and is told when it was lapped.
    #[test]
    fn a_reader_follows_the_chain_until_it_is_cut() {
        let (a, b, c) = (Batch::genesis(epoch(), 1, 0), batch(1, 2), batch(3, 1));
        assert!(matches!(a.next(), Next::UpToDate));
        a.link(Arc::clone(&b));
        b.link(Arc::clone(&c));
        assert!(matches!(a.next(), Next::Batch(n) if n.from == 1));
        a.cut();
        assert!(matches!(a.next(), Next::Lapped));
        assert!(matches!(b.next(), Next::Batch(n) if n.from == 3));
        assert!(matches!(c.next(), Next::UpToDate));
    }

    /// `Batch::cut`: a reader that stands still keeps alive its own batch and nothing after it.
    #[test]
    fn a_lapped_reader_pins_one_batch_only() {
        let first = Batch::genesis(epoch(), 1, 0);
        let mut tail = Arc::clone(&first);
        let mut weak = Vec::new();
        let mut log = vec![Arc::clone(&first)];
        for seq in 1..=100_000 {
            let next = batch(seq, 1);
            weak.push(Arc::downgrade(&next));
            tail.link(Arc::clone(&next));
            tail = Arc::clone(&next);
            log.push(next);
        }
        drop(tail);
        for evicted in log.drain(..) {
            evicted.cut();
        }
        assert!(matches!(first.next(), Next::Lapped));
        assert_eq!(weak.iter().filter(|w| w.upgrade().is_some()).count(), 0);
    }

    /// `Batch::form`: made once, shared by tiers that see the same, dropped after the last reader.
    #[test]
    fn a_form_is_made_once_and_dropped_after_the_last_reader() {
        let b = batch(1, 1);
        let key = |tier| FormKey { encoding: Encoding::Json, deflate: false, tier };
        let mut made = 0;
        for tier in [Tier::Lite, Tier::Full, Tier::Standard] {
            b.form(key(tier), |_| {
                made += 1;
                Form::from(vec![1])
            });
        }
        assert_eq!((made, b.live_forms()), (1, 1));
        b.delivered();
        assert_eq!(b.live_forms(), 0);
    }
}
