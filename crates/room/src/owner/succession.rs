//! What one owner leaves to the next: out goes all that is known of the room, in comes the log that the next
//! one starts from.

use std::sync::Arc;

use danmaku_wire::entry::Entry;
use danmaku_wire::position::{Epoch, Position};

use super::{Config, Owner};
use crate::Now;
use crate::batch::{Batch, entry_bytes};
use crate::log::RoomLog;
use crate::store::Loaded;

impl<R> Owner<R> {
    /// Ends ownership in favour of an owner elsewhere: all that it needs, the log as far as it is in memory.
    ///
    /// To be called when nothing is unstored and nobody waits; nothing may be published here afterwards, unless
    /// the other one never comes to be.
    pub fn bequeath(&mut self, now: Now) -> Loaded {
        self.seal(now);
        let mut epochs = self.past.clone();
        epochs.push((self.epoch.clone(), self.next_seq - 1));
        let tail = self.log.batches().flat_map(|batch| batch.entries.iter().cloned()).collect();
        Loaded { epochs, tail, ids: self.ids.kept(now), house: self.house() }
    }
}

/// The log of a room that begins `epoch` at `base`, after what is known of the epochs before.
pub(super) fn inherited_log(epoch: &Epoch, base: u64, loaded: &Loaded, config: &Config, now: Now) -> RoomLog {
    let Some((last, last_seq)) = loaded.epochs.last() else {
        return RoomLog::new(epoch.clone(), base, config.log, now.us);
    };
    let mut tail = loaded.tail.as_slice();
    let first = tail.first().map_or(last_seq + 1, |entry| entry.seq);
    let from = loaded.epochs.partition_point(|(_, end)| *end < first).min(loaded.epochs.len() - 1);
    let began = if tail.is_empty() { epoch } else { &loaded.epochs[from].0 };
    let mut log = RoomLog::new(began.clone(), first, config.log, now.us);
    for (index, (old, end)) in loaded.epochs.iter().enumerate().skip(from) {
        let (own, later) = tail.split_at(tail.partition_point(|entry| entry.seq <= *end));
        tail = later;
        for entries in portions(own, config.seal_bytes_max) {
            log.append(Batch::seal(old.clone(), entries, now.us, 0, 0));
        }
        let prev = Position { epoch: old.clone(), seq: *end };
        let (next, next_seq) = match loaded.epochs.get(index + 1) {
            // The number before an epoch's first is its last where nothing of it was kept.
            Some((next, end)) => (next, later.first().map_or(end + 1, |entry| entry.seq.min(end + 1))),
            None => (epoch, base),
        };
        debug_assert!(old != last || next == epoch, "the last change is to the epoch that begins");
        log.append(Batch::epoch_change(next.clone(), prev, next_seq, now.us, 0));
    }
    log
}

/// Entries in runs of about `bytes_max`: what was many batches does not become one that no client would take.
pub(super) fn portions(entries: &[Arc<Entry>], bytes_max: usize) -> impl Iterator<Item = Vec<Arc<Entry>>> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|entry| {
            bytes += entry_bytes(entry);
            bytes <= bytes_max
        });
        let count = fits.count().max(1).min(rest.len());
        let (portion, later) = rest.split_at(count);
        rest = later;
        (!portion.is_empty()).then(|| portion.to_vec())
    })
}
