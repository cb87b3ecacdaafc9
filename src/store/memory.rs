//! A store that forgets when the process ends: the newest entries of each room, its epochs and its ids.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use danmaku_room::house::House;
use danmaku_room::store::{Append, Durability, Loaded, Progress, Promise, Store, StoredId};
use danmaku_wire::entry::Entry;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::Epoch;
use dashmap::DashMap;

/// Bounds of a [`MemoryStore`].
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Rooms kept; above it others are forgotten, which their next owner sees as a new room.
    pub rooms_max: usize,
    /// Newest entries kept of each room.
    pub entries_max: usize,
    /// Ids kept of each room.
    pub ids_max: usize,
    /// How long ids are kept, milliseconds.
    pub ids_ms: u64,
    /// Epochs kept of each room.
    pub epochs_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    epochs: VecDeque<(Epoch, u64)>,
    entries: VecDeque<Arc<Entry>>,
    ids: VecDeque<StoredId>,
    /// What the process before knew; the first owner here takes it.
    house: House,
}

impl Kept {
    fn loaded(&self) -> Loaded {
        Loaded {
            epochs: self.epochs.iter().cloned().collect(),
            tail: self.entries.iter().cloned().collect(),
            ids: self.ids.iter().copied().collect(),
            house: self.house.clone(),
        }
    }
}

/// Keeps entries in memory. Answers before the call returns. Shards are locked for a few pushes by the
/// one owner of the room; two owners meet only where their rooms' shards do.
#[derive(Debug)]
pub struct MemoryStore {
    rooms: DashMap<RoomId, Kept>,
    bounds: Bounds,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(bounds: Bounds) -> Self {
        Self { rooms: DashMap::new(), bounds }
    }

    /// What is known of a room, which is forgotten with that.
    pub fn take(&self, room: &RoomId) -> Option<Loaded> {
        self.rooms.remove(room).map(|(_, kept)| kept.loaded())
    }

    /// Whether anything is known of a room.
    pub fn knows(&self, room: &RoomId) -> bool {
        self.rooms.contains_key(room)
    }

    fn make_place(&self, room: &RoomId) {
        if self.rooms.len() < self.bounds.rooms_max || self.rooms.contains_key(room) {
            return;
        }
        // Any other: a room in use has its log in memory, and loses only what a restart of its owner
        // would have found here.
        let victim = self.rooms.iter().next().map(|r| r.key().clone());
        if let Some(victim) = victim {
            self.rooms.remove(&victim);
        }
    }
}

impl Store for MemoryStore {
    fn load(&self, room: &RoomId, _: Durability, answer: Arc<Promise<Loaded>>) {
        let loaded = self.rooms.get_mut(room).map(|mut kept| {
            let loaded = kept.loaded();
            // From now on the owner knows it, and may lift it.
            kept.house = House::default();
            loaded
        });
        answer.keep(loaded.unwrap_or_default());
    }

    fn look(&self, room: &RoomId, _: Durability, answer: Arc<Promise<Loaded>>) {
        answer.keep(self.rooms.get(room).map_or_else(Loaded::default, |kept| kept.loaded()));
    }

    fn append(&self, append: Append, progress: &Arc<Progress>) {
        let Append { room, epoch, entries, ids, .. } = append;
        let Some(last) = entries.last().map(|e| e.seq) else { return };
        self.make_place(&room);
        let mut kept = self.rooms.entry(room).or_default();
        match kept.epochs.back_mut() {
            Some((current, seq)) if *current == epoch => *seq = last,
            // What earlier epochs left stays: a follower that slept through a whole epoch goes on from before it.
            _ => kept.epochs.push_back((epoch, last)),
        }
        let newest = entries.last().map_or(0, |e| e.at_ms);
        kept.entries.extend(entries);
        kept.ids.extend(ids);
        let over = kept.entries.len().saturating_sub(self.bounds.entries_max);
        kept.entries.drain(..over);
        let aged = kept.ids.partition_point(|id| id.at_ms + self.bounds.ids_ms < newest);
        let over = kept.ids.len().saturating_sub(self.bounds.ids_max).max(aged);
        kept.ids.drain(..over);
        let over = kept.epochs.len().saturating_sub(self.bounds.epochs_max);
        let forgotten = kept.epochs.drain(..over).next_back();
        if let Some((_, end)) = forgotten {
            let gone = kept.entries.partition_point(|entry| entry.seq <= end);
            kept.entries.drain(..gone);
        }
        drop(kept);
        progress.store_to(last);
    }

    fn hand_over(&self, left: Vec<(RoomId, Loaded)>) -> Vec<(RoomId, Loaded)> {
        let known: HashSet<RoomId> = left.iter().map(|(room, _)| room.clone()).collect();
        let idle = self.rooms.iter().filter(|kept| !known.contains(kept.key()));
        let idle: Vec<_> = idle.map(|kept| (kept.key().clone(), kept.loaded())).collect();
        left.into_iter().chain(idle).collect()
    }

    fn take_over(&self, room: RoomId, mut left: Loaded) {
        left.keep_epochs(self.bounds.epochs_max);
        let Loaded { epochs, tail, ids, house } = left;
        self.make_place(&room);
        // However much that is: the owner's log is bounded, and what goes beyond this store's bounds goes with
        // the next append.
        let (epochs, entries, ids) = (epochs.into(), tail.into(), ids.into());
        self.rooms.insert(room, Kept { epochs, entries, ids, house });
    }
}

#[cfg(test)]
mod tests {
    use danmaku_room::house::board::Board;
    use danmaku_wire::entry::{Body, Tier, Visibility};

    use super::*;

    fn append_to(store: &MemoryStore, epoch: &str, seqs: std::ops::RangeInclusive<u64>) {
        let entries = seqs.clone().map(|seq| {
            let visibility = Visibility::Tier(Tier::Lite);
            Arc::new(Entry { seq, at_ms: 1, visibility, body: Body::Clear { up_to: seq } })
        });
        let append = Append {
            room: RoomId::parse("r").expect("a name"),
            epoch: Epoch::parse(epoch).expect("an epoch"),
            durability: Durability::Memory,
            expected: seqs.start() - 1,
            entries: entries.collect(),
            ids: Vec::new(),
        };
        let progress = Progress::new(Arc::new(|| ()));
        store.append(append, &progress);
        assert_eq!(progress.stored(), *seqs.end());
    }

    fn kept(store: &MemoryStore) -> (Vec<u64>, Vec<u64>) {
        let answer = Promise::new(Arc::new(|| ()));
        store.load(&RoomId::parse("r").expect("a name"), Durability::Memory, Arc::clone(&answer));
        let loaded = answer.poll().expect("an answer at once");
        assert!(loaded.is_coherent());
        let ends = loaded.epochs.iter().map(|(_, end)| *end).collect();
        (ends, loaded.tail.iter().map(|entry| entry.seq).collect())
    }

    /// `Store::look`: what only an owner may take is there for it, however often somebody else has read.
    #[test]
    fn looking_takes_nothing_from_the_owner_to_come() {
        let bounds = Bounds { rooms_max: 1, entries_max: 5, ids_max: 0, ids_ms: 0, epochs_max: 2 };
        let store = MemoryStore::new(bounds);
        let room = RoomId::parse("r").expect("a name");
        let pin = Arc::new(Entry {
            seq: 1,
            at_ms: 1,
            visibility: Visibility::Tier(Tier::Lite),
            body: Body::Pin { of: 0 },
        });
        let board = Board { pin: Some(pin), ..Board::default() };
        let house = House { board, ..House::default() };
        store.take_over(room.clone(), Loaded { house, ..Loaded::default() });
        let left = |ask: &dyn Fn(Arc<Promise<Loaded>>)| {
            let answer = Promise::new(Arc::new(|| ()));
            ask(Arc::clone(&answer));
            !answer.poll().expect("an answer at once").house.is_empty()
        };
        let looked = [(), ()].map(|()| left(&|answer| store.look(&room, Durability::Memory, answer)));
        let loaded = [(), ()].map(|()| left(&|answer| store.load(&room, Durability::Memory, answer)));
        assert_eq!((looked, loaded), ([true, true], [true, false]));
    }

    /// A follower that slept through an epoch goes on from before it, as far as epochs are kept.
    #[test]
    fn what_earlier_epochs_left_is_kept_with_them() {
        let bounds = Bounds { rooms_max: 1, entries_max: 5, ids_max: 0, ids_ms: 0, epochs_max: 2 };
        let store = MemoryStore::new(bounds);
        append_to(&store, "a", 1..=3);
        append_to(&store, "b", 11..=12);
        assert_eq!(kept(&store), (vec![3, 12], vec![1, 2, 3, 11, 12]));
        append_to(&store, "b", 13..=13);
        assert_eq!(kept(&store), (vec![3, 13], vec![2, 3, 11, 12, 13]), "the newest");
        append_to(&store, "c", 21..=21);
        assert_eq!(
            kept(&store),
            (vec![13, 21], vec![11, 12, 13, 21]),
            "an epoch goes with what is kept of it"
        );
    }
}
