//! What the server tells a client, borrowed from wherever it is kept.

use super::ErrorCode;
use crate::entry::{Author, Entry, Role};
use crate::position::Position;

/// One message of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage<'a> {
    /// The answer to every join.
    Joined(Joined<'a>),
    /// Entries in order.
    Batch(Batch<'a>),
    /// State at a join.
    Snapshot(Snapshot<'a>),
    /// A publish was taken.
    Ack(Ack<'a>),
    /// A command was refused.
    Error(ErrorMessage<'a>),
    /// Entries that this connection will not get.
    Gap(Gap<'a>),
    /// The room has a new owner.
    Epoch(EpochChange<'a>),
    /// Counts and state.
    Room(RoomUpdate<'a>),
    /// A held comment, for staff.
    Pending(Pending<'a>),
    /// When to refresh the token, and who one is now.
    Auth(AuthInfo<'a>),
    /// A planned move.
    Reconnect(Reconnect<'a>),
    /// The answer to a ping.
    Pong(Pong),
}

/// The answer to every join.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined<'a> {
    /// The room.
    pub room: &'a str,
    /// Its epoch.
    pub epoch: &'a str,
    /// Its newest entry; live batches continue after it.
    pub seq: u64,
    /// Connections in the room, all nodes.
    pub online: u64,
    /// Whether everything since the position asked for follows.
    pub recovered: bool,
    /// Who the server takes the connection for.
    pub you: You<'a>,
}

/// Who the server takes a connection for.
#[derive(Debug, Clone, PartialEq)]
pub struct You<'a> {
    /// User or guest id.
    pub id: &'a str,
    /// Display name, or empty.
    pub name: &'a str,
    /// The role in this room.
    pub role: Role,
    /// A guest's signed id, to be presented like a token next time.
    pub guest: Option<&'a str>,
}

/// A covered range, with those of its entries that this viewer gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<'a> {
    /// First sequence covered.
    pub from: u64,
    /// Last sequence covered.
    pub to: u64,
    /// The entries, by rising sequence.
    pub items: &'a [&'a Entry],
}

/// State at a join: the newest entries this viewer may see.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot<'a> {
    /// The room's epoch.
    pub epoch: &'a str,
    /// The newest entry covered; batches continue after it.
    pub seq: u64,
    /// The entries, by rising sequence.
    pub items: &'a [&'a Entry],
    /// Counts and state.
    pub room: RoomUpdate<'a>,
}

/// A publish was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Ack<'a> {
    /// The publish's id.
    pub id: &'a str,
    /// What became of it.
    pub state: AckState,
    /// Its sequence, once it has one.
    pub seq: Option<u64>,
    /// The sequence's epoch, where it is not the current one.
    pub epoch: Option<&'a str>,
}

/// What became of a publish that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum AckState {
    /// Numbered, or dropped in a way that must not show.
    #[default]
    Accepted = 0,
    /// Waits for its delay or a moderator.
    Held = 1,
    /// Counted into another comment.
    Folded = 2,
}

impl AckState {
    /// The state's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Held => "held",
            Self::Folded => "folded",
        }
    }
}

/// A command was refused.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorMessage<'a> {
    /// The publish's id, where the command had one.
    pub id: Option<&'a str>,
    /// Why.
    pub code: ErrorCode,
    /// For developers, not for display; may be empty.
    pub message: &'a str,
    /// Earliest time for another try, where one was worked out.
    pub retry_after_ms: Option<u64>,
    /// [`ErrorCode::NotStored`]: the number under which the comment was shown.
    pub seq: Option<u64>,
    /// [`ErrorCode::NotStored`]: whether viewers saw it.
    pub shown: bool,
    /// [`ErrorCode::TooManyErrors`]: how many errors were not sent.
    pub count: u64,
}

impl<'a> ErrorMessage<'a> {
    /// A refusal with the code's own words and nothing else.
    pub const fn new(id: Option<&'a str>, code: ErrorCode) -> Self {
        Self { id, code, message: code.meaning(), retry_after_ms: None, seq: None, shown: false, count: 0 }
    }
}

/// Entries that a connection will not get.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap<'a> {
    /// The range's epoch, where it is not the current one.
    pub epoch: Option<&'a str>,
    /// First sequence lost.
    pub from: u64,
    /// Last sequence lost.
    pub to: u64,
    /// `slow_consumer`, `paused`, `expired` (gone from log and store) or `unavailable`.
    pub reason: &'a str,
}

/// The room has a new owner.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochChange<'a> {
    /// The new epoch.
    pub epoch: &'a str,
    /// The next entry is this plus one.
    pub seq: u64,
    /// The last entry kept from before.
    pub prev: Option<&'a Position>,
}

/// Counts and state of a room, whole every time: what is absent is zero or empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RoomUpdate<'a> {
    /// Connections in the room, all nodes.
    pub online: u64,
    /// Distinct viewers among them.
    pub viewers: u64,
    /// Totals by kind; every kind once.
    pub reactions: &'a [(&'a str, u64)],
    /// Least time between two comments of one viewer; 0 for none.
    pub slow_mode_ms: u64,
    /// A JSON object, as in entries of type `state`; empty for none.
    pub data: &'a str,
}

/// A comment that waits for its delay or for a moderator; staff only.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending<'a> {
    /// The handle that the moderation API takes.
    pub id: &'a str,
    /// Who wrote it.
    pub user: &'a Author,
    /// The text.
    pub text: &'a str,
    /// Which rule holds it.
    pub reason: &'a str,
    /// Server time of the publish, milliseconds since 1970.
    pub at_ms: u64,
    /// When it goes out by itself; `None` where a moderator must decide.
    pub release_in_ms: Option<u64>,
}

/// The answer to `auth`, and the reminder to refresh.
#[derive(Debug, Clone, PartialEq)]
pub struct AuthInfo<'a> {
    /// Time left; `None` where the token does not expire.
    pub expires_in_ms: Option<u64>,
    /// The identity, where it changed.
    pub you: Option<You<'a>>,
}

/// A planned move: close and come back after the wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Reconnect<'a> {
    /// How long to wait, spread by the server over its drain window.
    pub after_ms: u64,
    /// `draining` or `rebalance`.
    pub reason: &'a str,
    /// Where to; `None` is the same address.
    pub url: Option<&'a str>,
}

/// The answer to a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pong {
    /// What the ping held.
    pub t: u64,
}
