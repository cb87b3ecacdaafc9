//! What a session tells the application.

use std::sync::Arc;
use std::time::Duration;

use crate::code::Refusal;
use crate::item::{Item, Removal};
use crate::message::{Joined, Pending, RoomUpdate, You};
use crate::position::Epoch;

/// Whether there is a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// An attempt is under way.
    Connecting {
        /// Attempts since the last connection that lasted; 0 for the first.
        attempt: u32,
    },
    /// There is a connection, and the room is joined.
    Open,
    /// There is none; the next attempt comes by itself.
    Waiting {
        /// Attempts since the last connection that lasted.
        attempt: u32,
        /// When.
        retry_in: Duration,
        /// Why the last connection is over.
        why: Ending,
    },
    /// There will be none any more.
    Closed {
        /// Why.
        why: Ending,
    },
}

/// How a connection ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ending {
    /// The server's close code; `None` if it did not say one.
    pub code: Option<u16>,
    /// The server's words, or this side's.
    pub reason: Arc<str>,
}

impl Ending {
    /// An ending with or without a close code.
    pub fn new(code: Option<u16>, reason: &str) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// Where an item comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// It happened just now.
    Live,
    /// It was there when the room was joined.
    Snapshot,
    /// It was missed and made up for.
    Backlog,
}

/// Why what is shown is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResetReason {
    /// A snapshot takes its place.
    Snapshot,
    /// The server does not know any more where this session was: something may be missing.
    Lost,
}

/// What a session tells the application, in the order in which it holds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The connection.
    State(State),
    /// A room was joined, or joined again.
    Joined(Joined),
    /// Take off everything that is shown; the items of the snapshot follow, if there is one.
    Reset(ResetReason),
    /// Show this.
    Item {
        /// What.
        item: Item,
        /// From where.
        source: Source,
        /// Whether this session's user said it.
        own: bool,
        /// The epoch of its number.
        epoch: Epoch,
    },
    /// Remove this.
    Remove(Removal),
    /// Entries that this session will not get.
    Gap {
        /// The epoch of the numbers.
        epoch: Epoch,
        /// The first that is missing.
        from: u64,
        /// The last.
        to: u64,
        /// `slow_consumer`, `paused`, `expired`, `unavailable`; later servers may know more.
        reason: String,
    },
    /// Counts and state of the room.
    Room(RoomUpdate),
    /// A comment is held; staff alone is told.
    Pending(Pending),
    /// The server takes this session for somebody else from now on.
    Identity(You),
    /// The token runs out, and there is nobody to ask for another.
    TokenExpires {
        /// In how much time, if the server said it.
        after: Option<Duration>,
    },
    /// No token could be had.
    TokenFailed {
        /// The words of whoever was asked.
        reason: String,
    },
    /// The server asks everybody to move; the session does.
    Reconnect {
        /// When.
        after: Duration,
        /// Why.
        reason: String,
        /// Where to, if not to the same address.
        url: Option<String>,
    },
    /// A command that was no comment was refused.
    Refused(Refusal),
}
