//! One store for every promise: rooms that promise nothing stay in memory, all others go to the file, and so does what
//! staff decides in any room.

use std::sync::Arc;

use danmaku_room::house::House;
use danmaku_room::store::{Append, Durability, Loaded, Progress, Promise, Store};
use danmaku_wire::id::RoomId;

use super::memory::MemoryStore;

/// Sends each room to where its owner's promise is kept.
pub struct ByDurability<S> {
    memory: MemoryStore,
    file: S,
}

impl<S> std::fmt::Debug for ByDurability<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByDurability").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl<S: Store> ByDurability<S> {
    /// Rooms in memory and rooms in a file.
    pub const fn new(memory: MemoryStore, file: S) -> Self {
        Self { memory, file }
    }
}

impl<S: Store> Store for ByDurability<S> {
    fn load(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        if durability == Durability::Memory && self.memory.knows(room) {
            return self.memory.load(room, durability, answer);
        }
        // What another process handed over is what the file has, and what its staff decided.
        match self.memory.take(room) {
            Some(left) => answer.keep(left),
            None => self.file.load(room, durability, answer),
        }
    }

    fn look(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        if durability == Durability::Memory || self.memory.knows(room) {
            self.memory.look(room, durability, answer);
        } else {
            self.file.look(room, durability, answer);
        }
    }

    fn append(&self, append: Append, progress: &Arc<Progress>) {
        if append.durability == Durability::Memory {
            self.memory.append(append, progress);
        } else {
            self.file.append(append, progress);
        }
    }

    fn keep(&self, room: &RoomId, house: House) {
        self.file.keep(room, house);
    }

    fn hand_over(&self, left: Vec<(RoomId, Loaded)>) -> Vec<(RoomId, Loaded)> {
        self.memory.hand_over(self.file.hand_over(left))
    }

    fn take_over(&self, room: RoomId, left: Loaded) {
        self.memory.take_over(room, left);
    }
}
