//! Where in a room's log something stands.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

/// The lifetime of a room's numbering: opaque, never used again. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(Arc<str>);

impl Epoch {
    /// The text as the server wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Epoch {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

/// A number of one epoch: everything up to and including it has been told.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct Position {
    /// Whose numbers.
    pub epoch: Epoch,
    /// The number; below 2^53.
    pub seq: u64,
}

impl Position {
    /// A position as it was noted earlier.
    #[must_use]
    pub fn new(epoch: &str, seq: u64) -> Self {
        Self { epoch: epoch.into(), seq }
    }
}

/// As `since` in the address wants it: `EPOCH:SEQ`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.seq)
    }
}
