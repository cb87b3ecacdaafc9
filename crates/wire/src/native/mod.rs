//! The native protocol, version 1.
//!
//! In come the payloads of text or binary messages, out go borrowed [`Command`]s; in come
//! [`ServerMessage`]s that borrow from the room's log, out go payloads appended to a buffer. The schema in
//! `proto/danmaku/v1/danmaku.proto` is the one truth for both encodings.
//!
//! Only types are checked here: a text that is too long, an id that is empty or a room that does not exist
//! is the room's business. Nothing here allocates on the heap to read a command, and nothing frames,
//! compresses or decides whether a connection ends.

pub mod arena;
mod command;
mod error_code;
pub mod json;
mod message;
pub mod proto;

pub use command::{
    Auth, Command, DecodeError, Join, Malformed, Ping, Problem, React, Report, Send, Since, View,
};
pub use error_code::ErrorCode;
pub use message::{
    Ack, AckState, AuthInfo, Batch, EpochChange, ErrorMessage, Gap, Joined, Pending, Pong, Reconnect,
    RoomUpdate, ServerMessage, Snapshot, You,
};

/// The subprotocol of JSON in text messages; what a client gets that offers none.
pub const SUBPROTOCOL_JSON: &str = "danmaku.v1.json";
/// The subprotocol of protobuf in binary messages.
pub const SUBPROTOCOL_PROTO: &str = "danmaku.v1.proto";
