//! Names that come from strangers, parsed into types that cannot be wrong.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The longest room or node name, in bytes.
pub const ROOM_ID_BYTES_MAX: usize = 64;
/// The longest user id, in bytes.
pub const USER_ID_BYTES_MAX: usize = 64;
/// The longest id a client may give to a publish, in bytes.
pub const CLIENT_ID_BYTES_MAX: usize = 64;

/// Why a name was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The name is empty.
    #[error("a name cannot be empty")]
    Empty,
    /// The name is longer than its kind allows.
    #[error("a name of {bytes} bytes is longer than {max}")]
    TooLong {
        /// Bytes found.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A character outside the kind's alphabet.
    #[error("a name of this kind may not hold {0:?}")]
    Character(char),
}

/// The unit of ordering: 1–64 bytes of `[A-Za-z0-9_-]`.
///
/// The alphabet is checked before anything else sees the name, so that it can stand in a subject, a
/// path or a log line without escaping. Cloning shares the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomId(Arc<str>);

impl RoomId {
    /// Parses a room name.
    ///
    /// # Errors
    /// When the name is empty, longer than [`ROOM_ID_BYTES_MAX`] or holds any other character.
    pub fn parse(name: &str) -> Result<Self, IdError> {
        check_length(name, ROOM_ID_BYTES_MAX)?;
        match name.chars().find(|c| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '-')) {
            Some(c) => Err(IdError::Character(c)),
            None => Ok(Self(name.into())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RoomId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoomId({})", self.0)
    }
}

/// Who publishes: a user's or a guest's id, 1–64 bytes without control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserId(Arc<str>);

impl UserId {
    /// Parses a user id.
    ///
    /// # Errors
    /// When the id is empty, longer than [`USER_ID_BYTES_MAX`] or holds a control character.
    pub fn parse(id: &str) -> Result<Self, IdError> {
        check_length(id, USER_ID_BYTES_MAX)?;
        match id.chars().find(|c| c.is_control()) {
            Some(c) => Err(IdError::Character(c)),
            None => Ok(Self(id.into())),
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserId({:?})", self.0)
    }
}

fn check_length(name: &str, max: usize) -> Result<(), IdError> {
    match name.len() {
        0 => Err(IdError::Empty),
        bytes if bytes > max => Err(IdError::TooLong { bytes, max }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RoomId::parse`: only the alphabet, only 1–64 bytes.
    #[test]
    fn room_names_outside_the_alphabet_are_refused() {
        for bad in ["", ">", "*", "a.b", "a b", "%00", "../x", "é", "a\0"] {
            assert!(RoomId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(RoomId::parse(&"a".repeat(65)).is_err());
        for good in ["a", "shop-1", "A_b-9", &"a".repeat(64)] {
            assert_eq!(RoomId::parse(good).map(|r| r.as_str().to_owned()), Ok(good.to_owned()));
        }
    }
}
