//! What `[store]` says: what an ack promises, and where history is.

use std::path::Path;
use std::time::Duration;

use danmaku_room::store::Durability;
use serde::Deserialize;

use super::raw;
use super::value::Setting;
use crate::store::sqlite;

/// How long entries may wait for the disk whose acks do not: with the commit itself, well within the second promised.
const RELAXED_INTERVAL: Duration = Duration::from_millis(100);
/// Epochs of a room that its owner is told of.
pub const EPOCHS_MAX: usize = 16;

/// What an ack promises, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// Nothing.
    Memory,
    /// On the disk within a second.
    Relaxed,
    /// On the disk.
    Stored,
}

impl From<Promise> for Durability {
    fn from(promise: Promise) -> Self {
        match promise {
            Promise::Memory => Self::Memory,
            Promise::Relaxed => Self::Relaxed,
            Promise::Stored => Self::Stored,
        }
    }
}

impl Setting for Promise {
    fn written(&self) -> Option<String> {
        Some(match self {
            Self::Memory => "\"memory\"".to_owned(),
            Self::Relaxed => "\"relaxed\"".to_owned(),
            Self::Stored => "\"stored\"".to_owned(),
        })
    }
}

/// Where history is kept, and how.
pub(super) fn settings(store: raw::Store, ids: &raw::Idempotency, data_dir: &Path) -> sqlite::Settings {
    sqlite::Settings {
        dir: store.path.unwrap_or_else(|| data_dir.join("store")),
        commit_interval: Duration::from_micros(store.commit_interval.us()),
        relaxed_interval: RELAXED_INTERVAL,
        commit_entries: store.commit_entries,
        queue_bytes_max: store.queue_bytes.bytes(),
        loaded: sqlite::Bounds {
            entries_max: store.loaded_entries,
            ids_max: ids.ids_max,
            ids_ms: ids.window.us() / 1_000,
            epochs_max: EPOCHS_MAX,
        },
        keep: sqlite::Keep {
            days: u32::try_from(store.keep.us().div_ceil(86_400_000_000)).unwrap_or(u32::MAX),
            disk_percent: store.disk_percent,
        },
        faults: sqlite::Faults::default(),
    }
}
