//! What somebody who joins is shown first: the newest entries that are still standing.

use std::collections::HashSet;
use std::sync::Arc;

use danmaku_wire::entry::{Body, Entry, Tier, Visibility};
use danmaku_wire::id::UserId;

use crate::form::shown_to;
use crate::house::board::Board;
use crate::replica::Replica;

/// Who looks.
#[derive(Debug, Clone, Copy)]
pub struct Viewer<'a> {
    /// How much of a busy room.
    pub tier: Tier,
    /// Whose own entries are shown though others do not see them.
    pub user: Option<&'a UserId>,
}

impl Viewer<'_> {
    /// Somebody who showed nothing and asked for nothing.
    pub const GUEST: Self = Self { tier: Tier::Standard, user: None };

    /// Whether this viewer may see the entry.
    pub fn sees(&self, entry: &Entry) -> bool {
        match &entry.visibility {
            Visibility::Author(author) => self.user == Some(author),
            Visibility::Staff => false,
            Visibility::Tier(_) => {
                shown_to(entry, self.tier) || self.user.is_some() && entry.own_of() == self.user
            }
        }
    }
}

/// The newest comments and events of a room, as [`newest_of`] has them, out of what the replica holds.
pub fn newest<'r>(replica: &'r Replica, viewer: Viewer<'_>, count_max: usize) -> Vec<&'r Arc<Entry>> {
    newest_of(
        replica.batches().rev().flat_map(|b| b.entries.iter().rev()),
        replica.board(),
        viewer,
        count_max,
    )
}

/// The newest comments and events among `entries`, which come newest first: by rising sequence, at most
/// `count_max`, without what was retracted or cleared since; and the pin in force with its comment, however old.
pub fn newest_of<'e>(
    entries: impl Iterator<Item = &'e Arc<Entry>>,
    board: &'e Board,
    viewer: Viewer<'_>,
    count_max: usize,
) -> Vec<&'e Arc<Entry>> {
    let mut retracted = HashSet::new();
    let mut cleared = 0;
    let mut items: Vec<&'e Arc<Entry>> = Vec::new();
    for entry in entries {
        if items.len() >= count_max {
            break;
        }
        match &entry.body {
            Body::Retract { seqs, .. } => retracted.extend(seqs.iter().copied()),
            Body::Clear { up_to } => cleared = cleared.max(*up_to),
            Body::Comment(_) | Body::Event(_)
                if entry.seq > cleared && !retracted.contains(&entry.seq) && viewer.sees(entry) =>
            {
                items.push(entry);
            }
            _ => {}
        }
    }
    items.reverse();
    if let Some(pin) = board.pin.as_ref().filter(|pin| viewer.sees(pin)) {
        for entry in board.pinned.as_ref().into_iter().filter(|pinned| viewer.sees(pinned)).chain([pin]) {
            let at = items.partition_point(|e| e.seq < entry.seq);
            if items.get(at).is_none_or(|there| there.seq != entry.seq) {
                items.insert(at, entry);
            }
        }
    }
    items
}

/// Whether the replica holds something that this user alone sees: its snapshot is like nobody else's.
pub fn has_own(replica: &Replica, user: &UserId) -> bool {
    let private = replica.batches().filter(|batch| batch.has_private).flat_map(|batch| batch.private());
    private.into_iter().any(|entry| entry.own_of() == Some(user))
}
