//! What an owner lends to those who make snapshots elsewhere.

use std::sync::Arc;

use super::Worker;
use super::rooms::OwnerState;
use crate::snapshots::{Ask, Newest};

impl Worker {
    /// Answers with the newest entries of a room owned here. A room is not loaded for it: the store can be asked
    /// without an owner.
    pub(super) fn lend_newest(&mut self, ask: Ask) {
        let Ask { room, known, answer } = ask;
        let newest = match self.rooms.find(room.as_str()) {
            Some(index) => {
                // What was acked is shown.
                self.seal_now(index);
                let count_max = self.config.room(&room).snapshot_entries;
                match &self.rooms.get(index).owner {
                    Some(OwnerState::Active(active)) => {
                        match active.owner.newest(known.as_ref(), count_max) {
                            (_, None) => Newest::Unchanged,
                            (position, Some(entries)) => {
                                Newest::Entries(position, entries, Arc::clone(active.owner.state()))
                            }
                        }
                    }
                    _ => Newest::NotOwned,
                }
            }
            None => Newest::NotOwned,
        };
        // Who asked may be gone.
        let _ = answer.send(newest);
    }
}
