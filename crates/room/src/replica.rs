//! One worker's copy of a room: a ring of sealed batches that is the fan-out queue, the backlog for
//! those who come back and the source of snapshots at once.
//!
//! A subscriber holds a [`Cursor`] into the ring, not a queue: what it is owed are the bytes from its
//! cursor on. The ring follows the owner's chain; it never blocks the owner and is never asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use danmaku_wire::entry::{Entry, Visibility};
use danmaku_wire::position::{Epoch, Position};

use crate::batch::{Batch, Kind, Next};
use crate::form::{Encoder, Form, FormKey};
use crate::house::board::Board;
use crate::log::RingBounds;

/// How far above its bound a ring may grow for the sake of a pass that is late.
const OVERSHOOT: usize = 4;

/// Where a subscriber stands: the next sequence it is owed, and how much of the frame that covers it
/// its socket has taken already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The next sequence owed.
    pub seq: u64,
    /// Bytes of that sequence's frame already accepted; 0 at a frame boundary.
    pub offset: u32,
}

/// Contiguous framed bytes that bring everyone at `start` to `next`.
#[derive(Debug)]
pub struct Run {
    /// Cursors at this sequence want the run.
    pub start: u64,
    /// Where a cursor stands that took all of it.
    pub next: u64,
    bytes: RunBytes,
    /// For each frame: where it ends in the bytes and where a cursor then stands.
    cuts: Vec<(u32, u64)>,
    /// Bytes behind the last frame that move no cursor.
    trailer: usize,
    /// Entries of its range that not everybody sees: each is owed to its author once the frame that covers it is out.
    private: Vec<Arc<Entry>>,
    /// Whom those may be owed to.
    owed: Owed,
}

/// One of 256 marks of a user, so that a pass need not look at who each of its members is.
pub fn mark_of(user: &str) -> u8 {
    // Whoever chooses a mark gains nothing by it.
    user.bytes().fold(0x9D_u8, |mark, byte| (mark ^ byte).wrapping_mul(0x4D).rotate_left(3))
}

/// The marks of some users.
#[derive(Debug, Default)]
struct Owed([u64; 4]);

impl Owed {
    fn to(entries: &[Arc<Entry>]) -> Self {
        let mut owed = Self::default();
        for mark in entries.iter().filter_map(|entry| entry.own_of()).map(|user| mark_of(user.as_str())) {
            owed.0[usize::from(mark >> 6)] |= 1 << (mark & 63);
        }
        owed
    }
}

#[derive(Debug)]
enum RunBytes {
    /// One batch: its form, shared.
    One(Arc<Form>),
    /// Several batches, put together once for all who want them: one buffer costs the kernel less
    /// than many slices, and the copy is paid once a pass.
    Joined(Vec<u8>),
}

impl Run {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            RunBytes::One(form) => form,
            RunBytes::Joined(bytes) => bytes,
        }
    }

    /// How many frames the run holds.
    pub fn frames(&self) -> usize {
        self.cuts.len()
    }

    /// Entries that not everybody sees, by rising sequence.
    pub fn private(&self) -> &[Arc<Entry>] {
        &self.private
    }

    /// Whether some of those may be owed to whoever has this [`mark_of`]; if not, none is.
    #[inline]
    pub const fn may_owe(&self, mark: u8) -> bool {
        self.owed.0[(mark >> 6) as usize] >> (mark & 63) & 1 == 1
    }

    /// Where a cursor stands after `accepted` bytes of the run, counted from the run's first byte. Bytes
    /// of the trailer move no cursor.
    pub fn cursor_at(&self, accepted: usize) -> Cursor {
        let accepted = u32::try_from(accepted).unwrap_or(u32::MAX);
        let whole = self.cuts.partition_point(|(end, _)| *end <= accepted);
        if whole == self.cuts.len() {
            return Cursor { seq: self.next, offset: 0 };
        }
        let (end, seq) = whole.checked_sub(1).map_or((0, self.start), |i| self.cuts[i]);
        Cursor { seq, offset: accepted - end }
    }

    /// What is left of the trailer when `accepted` bytes were taken; empty while frames are left.
    pub fn trailer_after(&self, accepted: usize) -> &[u8] {
        let bytes = self.bytes();
        if accepted < bytes.len() - self.trailer { &[] } else { &bytes[accepted..] }
    }
}

/// Where a returning viewer goes on.
#[derive(Debug)]
pub enum Resume<'r> {
    /// At a frame's border.
    At(Cursor),
    /// Within this batch: what is left of it is sent first, then whole batches.
    Within(&'r Arc<Batch>),
    /// The place is not known here or was left behind.
    Unknown,
}

/// What came of following the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pulled {
    /// New batches.
    pub batches: u32,
    /// Flushes they stand for, for the pass law.
    pub flushes: u32,
    /// Whether the owner's log had moved on past this replica: it must attach again.
    pub lapped: bool,
}

/// The ring and its place in the owner's chain.
#[derive(Debug)]
pub struct Replica {
    ring: VecDeque<Arc<Batch>>,
    tail: Arc<Batch>,
    bytes: usize,
    bounds: RingBounds,
    /// Batches at the ring's end that no pass has carried yet.
    undelivered: usize,
    /// Where the link began: batches up to here were sealed before it and owe it nothing.
    attached_at: u64,
    /// The newest change of epoch, kept beyond its place in the ring: who was lapped over it must still
    /// be told.
    change: Option<Arc<Batch>>,
    /// What stands in the room, however old.
    board: Board,
}

impl Drop for Replica {
    /// Gives back what is owed, so that forms do not stay for a reader that is gone.
    fn drop(&mut self) {
        // Unwinding: what a bug left here is not to be trusted, and a second panic would be the process's
        // end instead of the room's. The forms go with their batches then.
        if !std::thread::panicking() {
            self.pull();
            self.delivered_to(u64::MAX);
        }
    }
}

impl Replica {
    /// A replica that starts with what the owner's log holds and follows the chain from `tail` on.
    pub fn new(backlog: impl IntoIterator<Item = Arc<Batch>>, tail: Arc<Batch>, bounds: RingBounds) -> Self {
        let ring: VecDeque<_> = backlog.into_iter().collect();
        debug_assert!(ring.back().is_none_or(|b| b.to == tail.to), "the backlog ends at the tail");
        let bytes = ring.iter().map(|b| b.bytes).sum();
        let change = ring.iter().rev().find(|b| is_change(b)).cloned();
        // Whoever goes on from the replica before this one has yet to get the backlog.
        let (undelivered, attached_at) = (ring.len(), tail.to);
        let mut replica =
            Self { ring, tail, bytes, bounds, undelivered, attached_at, change, board: Board::default() };
        for at in 0..replica.ring.len() {
            let batch = Arc::clone(&replica.ring[at]);
            replica.note(&batch);
        }
        replica
    }

    /// What stood at the owner when this replica began: there it may be older than all that the ring holds.
    #[must_use]
    pub fn with_board(mut self, board: Board) -> Self {
        self.board = board;
        self
    }

    /// What stands in the room, however old.
    pub fn board(&self) -> &Board {
        &self.board
    }

    fn note(&mut self, batch: &Batch) {
        if !batch.orders {
            return;
        }
        let mut board = std::mem::take(&mut self.board);
        let public = |entry: &&Arc<Entry>| matches!(entry.visibility, Visibility::Tier(_));
        for entry in batch.entries.iter().filter(public).filter(|entry| Board::heeds(&entry.body)) {
            board.note(entry, |of| self.batch_at(of).and_then(|batch| batch.entry(of)).cloned());
        }
        self.board = board;
    }

    /// Follows the chain to its live end. Does not evict: the caller first tells those who would be
    /// lapped, then calls [`Self::evict`].
    pub fn pull(&mut self) -> Pulled {
        let mut pulled = Pulled::default();
        loop {
            match self.tail.next() {
                Next::Batch(batch) => {
                    assert_eq!(batch.from, self.tail.to + 1, "a replica's batches are contiguous");
                    self.bytes += batch.bytes;
                    pulled.batches += 1;
                    pulled.flushes += batch.flushes;
                    self.ring.push_back(Arc::clone(&batch));
                    self.undelivered += 1;
                    if is_change(&batch) {
                        self.change = Some(Arc::clone(&batch));
                    }
                    self.note(&batch);
                    self.tail = batch;
                }
                Next::UpToDate => return pulled,
                Next::Lapped => return Pulled { lapped: true, ..pulled },
            }
        }
    }

    /// Other bounds from now on; the next look at them heeds them.
    pub fn set_bounds(&mut self, bounds: RingBounds) {
        self.bounds = bounds;
    }

    /// The batch that must go next, if the bounds say so. The caller saves what half-written frames
    /// still need from it, then calls [`Self::evict`].
    ///
    /// What no pass has carried yet may stay for `OVERSHOOT` times the bytes: a pass that is late must
    /// not make a gap for those who keep up.
    pub fn over_bounds(&self, now_us: u64) -> Option<&Arc<Batch>> {
        let oldest = self.ring.front()?;
        if self.undelivered == self.ring.len() {
            return (self.bytes > OVERSHOOT * self.bounds.bytes_max && self.ring.len() > 1).then_some(oldest);
        }
        let last = self.ring.len() == 1;
        let bytes = if last { 0 } else { self.bytes };
        self.bounds.exceeded(bytes, oldest.sealed_us, now_us).then_some(oldest)
    }

    /// Drops the oldest batch.
    pub fn evict(&mut self) {
        if let Some(oldest) = self.ring.pop_front() {
            self.bytes -= oldest.bytes;
            if self.undelivered > self.ring.len() {
                self.undelivered = self.ring.len();
                self.give_back(&oldest);
            }
        }
    }

    /// Tells every batch up to `seq` that this worker's members have it, so that forms can go.
    pub fn delivered_to(&mut self, seq: u64) {
        let first = self.ring.len() - self.undelivered;
        let done = self.ring.range(first..).take_while(|b| b.to <= seq).count();
        for batch in self.ring.range(first..first + done) {
            self.give_back(batch);
        }
        self.undelivered -= done;
    }

    fn give_back(&self, batch: &Batch) {
        if batch.to > self.attached_at {
            batch.delivered();
        }
    }

    /// The current epoch.
    pub fn epoch(&self) -> &Epoch {
        &self.tail.epoch
    }

    /// The last sequence.
    pub fn head(&self) -> u64 {
        self.tail.to
    }

    /// A cursor that is owed nothing yet.
    pub fn live(&self) -> Cursor {
        Cursor { seq: self.head() + 1, offset: 0 }
    }

    /// The first sequence that the ring still holds; the next one where it holds none.
    pub fn first(&self) -> u64 {
        self.ring.front().map_or(self.head() + 1, |b| b.from)
    }

    /// Whether what the cursor is owed has left the ring.
    pub fn lapped(&self, cursor: Cursor) -> bool {
        cursor.seq < self.first()
    }

    /// Canonical bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The batches held, oldest first.
    pub fn batches(&self) -> impl DoubleEndedIterator<Item = &Arc<Batch>> {
        self.ring.iter()
    }

    /// Index of the batch that covers `seq`.
    fn index_of(&self, seq: u64) -> usize {
        self.ring.partition_point(|b| b.to < seq)
    }

    /// What somebody at `cursor` has been given last: where it resumes in a replica that starts anew, whose
    /// batches may have other borders after a change of owner.
    pub fn given(&self, cursor: Cursor) -> Position {
        let seq = cursor.seq.saturating_sub(1);
        match self.change.as_deref() {
            Some(Batch { kind: Kind::EpochChange { prev }, to, .. }) if seq < *to => {
                Position { epoch: prev.epoch.clone(), seq }
            }
            _ => Position { epoch: self.epoch().clone(), seq },
        }
    }

    /// The change of epoch that somebody at `cursor` has not been given yet, in the ring or not: to be told
    /// before a gap that goes over it.
    pub fn change_ahead(&self, cursor: Cursor) -> Option<&Arc<Batch>> {
        self.change.as_ref().filter(|change| cursor.seq <= change.to)
    }

    /// Where somebody who left off at `since` goes on, if the ring knows the place.
    pub fn resume(&self, since: &Position) -> Resume<'_> {
        let (head, first) = (self.head(), self.first());
        if since.epoch == *self.epoch() {
            let start = self.change.as_ref().map_or(0, |change| change.to);
            // Beyond the head or before the epoch nobody can have been: that client knows another past.
            if since.seq > head || since.seq < start || since.seq + 1 < first {
                return Resume::Unknown;
            }
            return self.resume_after(since.seq);
        }
        for batch in &self.ring {
            match &batch.kind {
                // What it saw beyond the end of that epoch was not kept: the change itself tells.
                Kind::EpochChange { prev } if prev.epoch == since.epoch => {
                    if since.seq > prev.seq {
                        return Resume::At(Cursor { seq: batch.from, offset: 0 });
                    }
                    return if since.seq + 1 >= first {
                        self.resume_after(since.seq)
                    } else {
                        Resume::Unknown
                    };
                }
                _ => {}
            }
        }
        Resume::Unknown
    }

    fn resume_after(&self, seq: u64) -> Resume<'_> {
        match self.batch_at(seq + 1) {
            Some(batch) if batch.from <= seq => Resume::Within(batch),
            _ => Resume::At(Cursor { seq: seq + 1, offset: 0 }),
        }
    }

    /// The batch that covers `seq`, if the ring holds it.
    pub fn batch_at(&self, seq: u64) -> Option<&Arc<Batch>> {
        self.ring.get(self.index_of(seq)).filter(|b| b.from <= seq)
    }

    /// The bytes that bring a cursor at `start` (a batch's first sequence) towards the head, in at most
    /// about `bytes_max` bytes but at least one frame; `None` where nothing is owed. `trailer` is put
    /// behind the frames if they reach the head.
    pub fn run(
        &self,
        start: u64,
        key: FormKey,
        bytes_max: usize,
        trailer: &[u8],
        encoder: &mut Encoder,
    ) -> Option<Run> {
        let first = self.index_of(start);
        let Some(batch) = self.ring.get(first) else {
            let bytes = RunBytes::Joined(trailer.to_vec());
            let trailer = trailer.len();
            let (cuts, private) = (Vec::new(), Vec::new());
            let owed = Owed::default();
            return (trailer > 0).then_some(Run { start, next: start, bytes, cuts, trailer, private, owed });
        };
        debug_assert_eq!(batch.from, start, "cursors stand at frame boundaries");
        let form = encoder.form(batch, key);
        let mut cuts = vec![(form.len() as u32, batch.to + 1)];
        let mut private: Vec<_> = private_of(batch).cloned().collect();
        let last = first + 1 == self.ring.len();
        let alone = if last { trailer.is_empty() } else { form.len() >= bytes_max };
        if alone {
            let bytes = RunBytes::One(form);
            let owed = Owed::to(&private);
            return Some(Run { start, next: batch.to + 1, bytes, cuts, trailer: 0, private, owed });
        }
        let mut joined = form.to_vec();
        for batch in self.ring.range(first + 1..) {
            let form = encoder.form(batch, key);
            if joined.len() + form.len() > bytes_max {
                break;
            }
            joined.extend_from_slice(&form);
            cuts.push((joined.len() as u32, batch.to + 1));
            private.extend(private_of(batch).cloned());
        }
        let next = cuts.last().map_or(start, |(_, next)| *next);
        let trailer = if next > self.head() { trailer } else { &[] };
        joined.extend_from_slice(trailer);
        let (bytes, owed) = (RunBytes::Joined(joined), Owed::to(&private));
        Some(Run { start, next, bytes, cuts, trailer: trailer.len(), private, owed })
    }

    /// The unsent rest of a half-written frame, to be kept when its batch leaves the ring.
    pub fn rest_of_frame(
        &self,
        cursor: Cursor,
        key: FormKey,
        encoder: &mut Encoder,
    ) -> Option<(Vec<u8>, Cursor)> {
        let batch = self.batch_at(cursor.seq)?;
        let form = encoder.form(batch, key);
        let rest = form.get(cursor.offset as usize..)?.to_vec();
        Some((rest, Cursor { seq: batch.to + 1, offset: 0 }))
    }
}

/// The entries of a batch that not everybody sees. None, as a rule, which costs a look at one flag.
fn private_of(batch: &Batch) -> impl Iterator<Item = &Arc<Entry>> {
    batch.has_private.then(|| batch.private()).into_iter().flatten()
}

fn is_change(batch: &Batch) -> bool {
    matches!(batch.kind, Kind::EpochChange { .. })
}
