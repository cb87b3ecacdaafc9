//! Which rooms are in use, and how many are in each: read at joins and by the API, never for a delivery.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use danmaku_wire::id::RoomId;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

/// The rooms of all workers.
#[derive(Debug, Default)]
pub struct Directory {
    members: DashMap<RoomId, Arc<AtomicU32>>,
    /// The same rooms in order, so that a page of them is had without walking through the map, whose locks would keep
    /// joins waiting. Locked behind a lock of the map, never the other way round, and for one name or one page.
    names: Mutex<BTreeSet<RoomId>>,
}

impl Directory {
    /// The count of a room's members on all workers; the room is in use from then on.
    pub fn online(&self, room: &RoomId) -> Arc<AtomicU32> {
        if let Some(online) = self.members.get(room) {
            return Arc::clone(&online);
        }
        match self.members.entry(room.clone()) {
            Entry::Occupied(there) => Arc::clone(there.get()),
            Entry::Vacant(free) => {
                self.names().insert(room.clone());
                Arc::clone(&free.insert(Arc::default()))
            }
        }
    }

    /// How many are in a room.
    pub fn members(&self, room: &RoomId) -> u32 {
        self.members.get(room).map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// Whether a room is in use.
    pub fn contains(&self, room: &RoomId) -> bool {
        self.members.contains_key(room)
    }

    /// Forgets a room that nobody is in.
    pub fn forget(&self, room: &RoomId) {
        if let Entry::Occupied(there) = self.members.entry(room.clone()) {
            let online = there.get();
            if online.load(Ordering::Relaxed) == 0 && Arc::strong_count(online) == 1 {
                self.names().remove(room);
                there.remove();
            }
        }
    }

    /// How many rooms are in use.
    pub fn len(&self) -> usize {
        self.names().len()
    }

    /// Whether no room is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most `limit` rooms in the order of their names, from behind `after` on, each with its members.
    pub fn page(&self, after: Option<&RoomId>, limit: usize) -> Vec<(RoomId, u32)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page: Vec<RoomId> =
            self.names().range::<RoomId, _>((from, Bound::Unbounded)).take(limit).cloned().collect();
        page.into_iter()
            .map(|room| {
                let online = self.members(&room);
                (room, online)
            })
            .collect()
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<RoomId>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn room(n: u8) -> RoomId {
        RoomId::parse(&format!("r{n}")).expect("valid")
    }

    proptest! {
        /// The directory against a plain map: rooms are there while they are held or somebody is in them, and pages of any
        /// size show all of them once, in order.
        #[test]
        fn pages_show_every_room_once(
            steps in prop::collection::vec((0u8..3, 0u8..12), 0..80),
            limit in 1usize..5,
        ) {
            let directory = Directory::default();
            let mut model: BTreeMap<RoomId, Arc<AtomicU32>> = BTreeMap::new();
            for (step, n) in steps {
                let room = room(n);
                match step {
                    0 => {
                        let online = directory.online(&room);
                        online.fetch_add(1, Ordering::Relaxed);
                        model.insert(room, online);
                    }
                    1 => directory.forget(&room),
                    _ => {
                        if let Some(online) = model.remove(&room) {
                            online.store(0, Ordering::Relaxed);
                            drop(online);
                            directory.forget(&room);
                        }
                    }
                }
            }
            let mut shown = Vec::new();
            let mut after = None;
            loop {
                let page = directory.page(after.as_ref(), limit);
                let Some((last, _)) = page.last() else { break };
                after = Some(last.clone());
                shown.extend(page);
            }
            let expected: Vec<_> =
                model.iter().map(|(room, online)| (room.clone(), online.load(Ordering::Relaxed))).collect();
            prop_assert_eq!(&shown, &expected);
            prop_assert_eq!(directory.len(), expected.len());
        }
    }

    /// `online` and `forget` at once from many threads: the order never names a room that is gone, nor misses one.
    #[test]
    fn names_and_members_never_part() {
        let directory = Directory::default();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let directory = &directory;
                scope.spawn(move || {
                    for i in 0..2_000u32 {
                        let room = room((i % 5) as u8);
                        drop(directory.online(&room));
                        directory.forget(&room);
                        if thread == 0 {
                            let _ = directory.page(None, 3);
                        }
                    }
                });
            }
        });
        let names = directory.page(None, 10);
        assert!(names.iter().all(|(room, _)| directory.contains(room)), "{names:?}");
        for n in 0..5 {
            directory.forget(&room(n));
        }
        assert!(directory.is_empty() && directory.page(None, 10).is_empty());
    }
}
