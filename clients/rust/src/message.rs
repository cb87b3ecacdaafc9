//! The messages of the subprotocol `danmaku.v1.json`: the server's as they are read, the client's as
//! they are written. Fields this client has no use for are skipped, and so are messages it does not know.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::code::Refusal;
use crate::item::User;
use crate::position::{Epoch, Position};

/// Everything a server says that this client heeds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ServerMessage<'a> {
    Joined(Joined),
    #[serde(borrow)]
    Batch(Batch<'a>),
    #[serde(borrow)]
    Snapshot(Snapshot<'a>),
    Ack(AckFields),
    Error(ErrorFields),
    Gap(GapFields),
    Epoch(EpochFields),
    Room(RoomUpdate),
    Pending(Pending),
    Auth(AuthFields),
    Reconnect(ReconnectFields),
    Pong(PongFields),
}

impl<'a> ServerMessage<'a> {
    /// Reads a message; `None` for one this client does not know.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Who the server takes this session for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct You {
    /// The user's or the guest's id.
    pub id: String,
    /// The name that others see.
    pub name: String,
    /// The role in this room; empty for a plain viewer.
    pub role: String,
    /// A guest's signed id. The session presents it by itself when it comes back.
    pub guest: Option<String>,
}

/// The answer to a join.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Joined {
    /// The room.
    pub room: String,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its newest number.
    #[serde(default)]
    pub seq: u64,
    /// How many are here.
    #[serde(default)]
    pub online: u64,
    /// Whether everything since the last position follows. Otherwise [`crate::Event::Reset`] does, unless
    /// this is the first join and no snapshot was asked for.
    #[serde(default)]
    pub recovered: bool,
    /// Who the server takes this session for.
    #[serde(default)]
    pub you: You,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Batch<'a> {
    pub(crate) from: u64,
    pub(crate) to: u64,
    #[serde(borrow, default)]
    pub(crate) items: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Snapshot<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) seq: u64,
    #[serde(borrow, default)]
    pub(crate) items: Vec<&'a RawValue>,
    pub(crate) room: Option<RoomUpdate>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AckFields {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) state: String,
    pub(crate) seq: Option<u64>,
    pub(crate) epoch: Option<Epoch>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorFields {
    pub(crate) id: Option<String>,
    code: String,
    #[serde(default)]
    message: String,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    shown: bool,
    seq: Option<u64>,
    epoch: Option<Epoch>,
    count: Option<u64>,
}

impl ErrorFields {
    pub(crate) fn into_refusal(self) -> Refusal {
        let Self { id: _, code, message, retry_after_ms, shown, seq, epoch, count } = self;
        let retry_after = retry_after_ms.map(Duration::from_millis);
        Refusal { code, message, retry_after, shown, seq, epoch, count }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct GapFields {
    pub(crate) epoch: Option<Epoch>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    #[serde(default)]
    pub(crate) reason: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EpochFields {
    pub(crate) epoch: Epoch,
    pub(crate) seq: u64,
    pub(crate) prev: Option<Position>,
}

/// Counts and state of the room, whole every time.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct RoomUpdate {
    /// Connections in the room.
    pub online: u64,
    /// People in the room.
    pub viewers: u64,
    /// Reactions by kind.
    pub reactions: BTreeMap<String, u64>,
    /// The time between two comments of a user, milliseconds; 0: no slow mode.
    pub slow_mode_ms: u64,
    /// The state that entries of type `state` carry.
    pub data: Option<Value>,
}

/// A comment that is held; staff alone is told.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Pending {
    /// What the moderation API knows it by.
    pub id: String,
    /// Who said it.
    pub user: Option<User>,
    /// What.
    #[serde(default)]
    pub text: String,
    /// Why it is held: `review`, `delay`.
    #[serde(default)]
    pub reason: String,
    /// The server's time, milliseconds since 1970.
    #[serde(default)]
    pub at: u64,
    /// When it goes out unless somebody decides otherwise, milliseconds from now; absent: never by itself.
    pub release_in_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthFields {
    pub(crate) expires_in_ms: Option<u64>,
    pub(crate) you: Option<You>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReconnectFields {
    #[serde(default)]
    pub(crate) after_ms: u64,
    #[serde(default)]
    pub(crate) reason: String,
    pub(crate) url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PongFields {
    pub(crate) t: u64,
}

/// What a client says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ClientMessage<'a> {
    Send(SendFields<'a>),
    Join {
        room: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Since<'a>>,
    },
    Auth {
        token: &'a str,
    },
    View {
        #[serde(skip_serializing_if = "is_false")]
        paused: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        tier: Option<&'a str>,
    },
    React {
        kind: &'a str,
        count: u32,
    },
    Report {
        seq: u64,
        reason: &'a str,
    },
    Ping {
        t: u64,
    },
}

impl ClientMessage<'_> {
    /// The message's text.
    pub(crate) fn write(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are always JSON")
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SendFields<'a> {
    pub(crate) id: &'a str,
    pub(crate) text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) color: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Since<'a> {
    pub(crate) epoch: &'a str,
    pub(crate) seq: u64,
}

impl<'a> From<&'a Position> for Since<'a> {
    fn from(position: &'a Position) -> Self {
        Self { epoch: position.epoch.as_str(), seq: position.seq }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}
