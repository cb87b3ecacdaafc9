//! What `[store]` says: what an ack promises, and where history is.

use danmaku_room::store::Durability;
use serde::Deserialize;

use super::value::Setting;

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
