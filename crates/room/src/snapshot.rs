//! What somebody who joins is shown first: the newest entries that are still standing.

use std::collections::HashSet;
use std::sync::Arc;

use danmaku_wire::entry::{Body, Entry, Tier, Visibility};
use danmaku_wire::id::UserId;

use crate::form::shown_to;
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
            Visibility::Tier(_) => shown_to(entry, self.tier),
        }
    }
}

/// The newest comments and events of a room, as [`newest_of`] has them, out of what the replica holds.
pub fn newest<'r>(replica: &'r Replica, viewer: Viewer<'_>, count_max: usize) -> Vec<&'r Arc<Entry>> {
    newest_of(replica.batches().rev().flat_map(|b| b.entries.iter().rev()), viewer, count_max)
}

/// The newest comments and events among `entries`, which come newest first: by rising sequence, at most
/// `count_max`, without what was retracted or cleared since; and the pin in force, however old.
pub fn newest_of<'e>(
    entries: impl Iterator<Item = &'e Arc<Entry>>,
    viewer: Viewer<'_>,
    count_max: usize,
) -> Vec<&'e Arc<Entry>> {
    let mut retracted = HashSet::new();
    let mut cleared = 0;
    let mut pin = None;
    let mut items = Vec::new();
    for entry in entries {
        if items.len() >= count_max && pin.is_some() {
            break;
        }
        match &entry.body {
            Body::Retract { seqs, .. } => retracted.extend(seqs.iter().copied()),
            Body::Clear { up_to } => cleared = cleared.max(*up_to),
            // A pin that was taken away, or whose comment went after it, is not worth telling.
            Body::Pin { of } if pin.is_none() && viewer.sees(entry) => {
                let stands = *of > cleared && !retracted.contains(of);
                pin = Some((entry, stands));
            }
            Body::Comment(_) | Body::Event(_)
                if items.len() < count_max
                    && entry.seq > cleared
                    && !retracted.contains(&entry.seq)
                    && viewer.sees(entry) =>
            {
                items.push(entry);
            }
            _ => {}
        }
    }
    items.reverse();
    if let Some((pin, true)) = pin {
        let at = items.partition_point(|e| e.seq < pin.seq);
        items.insert(at, pin);
    }
    items
}
