//! How far this client has been told: by ranges, never by counting.
//!
//! In come the ranges of batches, gaps, snapshots and epochs; out goes whether a batch follows on, and
//! which of its entries are new. It never looks into an entry. The rules are those of the protocol's
//! section "Ranges, resuming, gaps, epochs".

use std::collections::BTreeSet;

use crate::position::{Epoch, Position};

/// Numbers remembered, so that an entry that comes a second time is known. Only the newest can come
/// twice (one's own comment, right behind the range it stands in), so a few hundred would do.
const SEEN_MAX: usize = 2_048;

/// What a batch is to this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// It follows on, overlaps, or repeats: its new entries are to be shown.
    Known,
    /// Something before it was lost and nobody told.
    Hole,
    /// Nothing can be said before the snapshot is there.
    Unplaced,
}

/// The position of a client in a room.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    position: Option<Position>,
    /// The room's epoch as the last `joined` or `epoch` named it. While older epochs are caught up on,
    /// the position may still be of one of them.
    epoch: Option<Epoch>,
    seen: Seen,
}

impl Cursor {
    /// Starts anew, perhaps from a position that was noted earlier.
    pub(crate) fn restart(&mut self, since: Option<Position>) {
        *self = Self { position: since, ..Self::default() };
    }

    /// What is to be presented as `since`.
    pub(crate) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// The epoch of numbers that carry none.
    pub(crate) fn epoch(&self) -> Option<&Epoch> {
        self.epoch.as_ref()
    }

    /// `joined` with `recovered`: what follows goes on from the position.
    pub(crate) fn resumed(&mut self, epoch: Epoch) {
        self.epoch = Some(epoch);
    }

    /// `joined` without `recovered`, where a snapshot is to come.
    pub(crate) fn awaits_snapshot(&mut self, epoch: Epoch) {
        *self = Self { epoch: Some(epoch), ..Self::default() };
    }

    /// Everything up to a position counts as told: a snapshot's, or that of a join without one.
    pub(crate) fn placed(&mut self, position: Position) {
        let epoch = Some(position.epoch.clone());
        *self = Self { position: Some(position), epoch, seen: Seen::default() };
    }

    /// A batch that covers `from` to `to`.
    pub(crate) fn batch(&mut self, from: u64, to: u64) -> Coverage {
        let Some(position) = &mut self.position else { return Coverage::Unplaced };
        if from > position.seq.saturating_add(1) {
            return Coverage::Hole;
        }
        if to > position.seq {
            position.seq = to;
            if let Some(epoch) = &self.epoch {
                position.epoch = epoch.clone();
            }
        }
        Coverage::Known
    }

    /// Whether an entry comes for the first time; the second time it is not.
    pub(crate) fn is_new(&mut self, seq: u64) -> bool {
        self.seen.insert(seq)
    }

    /// A gap up to `to`; `epoch` where the numbers are of another than the current one.
    pub(crate) fn gap(&mut self, epoch: Option<&Epoch>, to: u64) {
        let Some(position) = &mut self.position else { return };
        if to > position.seq {
            position.seq = to;
            if let Some(epoch) = epoch.or(self.epoch.as_ref()) {
                position.epoch = epoch.clone();
            }
        }
    }

    /// The room goes on under a new owner.
    pub(crate) fn new_epoch(&mut self, start: Position) {
        self.epoch = Some(start.epoch.clone());
        // Before the snapshot there is no position, and its own will be of the new epoch.
        if self.position.is_some() {
            self.position = Some(start);
        }
    }
}

/// The newest numbers that came; numbers of different epochs of a room never collide.
#[derive(Debug, Default)]
struct Seen {
    numbers: BTreeSet<u64>,
    /// Everything up to here counts as seen.
    floor: u64,
}

impl Seen {
    fn insert(&mut self, seq: u64) -> bool {
        if seq <= self.floor || !self.numbers.insert(seq) {
            return false;
        }
        if self.numbers.len() > SEEN_MAX
            && let Some(lowest) = self.numbers.pop_first()
        {
            self.floor = lowest;
        }
        true
    }
}

#[cfg(test)]
mod tests;
