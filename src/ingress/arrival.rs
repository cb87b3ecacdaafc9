//! A connection between its handshake and its session: all that a worker needs to adopt it.

use std::net::TcpStream;
use std::sync::Arc;

use danmaku_room::form::Encoding;
use danmaku_wire::entry::{Author, Tier};
use danmaku_wire::id::RoomId;
use danmaku_wire::position::Position;
use danmaku_wire::websocket::decoder::Carried;

use super::addresses::Hold;
use crate::egress::tls::TlsLayer;
use crate::identity::user::Identity;
use crate::worker::session::Spent;

/// A connection that has finished its handshake but for the response.
#[derive(Debug)]
pub struct Arrival {
    /// The socket, non-blocking.
    pub socket: TcpStream,
    /// Its TLS, past the handshake; absent on plain connections.
    pub tls: Option<Box<TlsLayer>>,
    /// What came behind the request already: the first read of the session.
    pub leftover: Vec<u8>,
    /// The response head, to be written first.
    pub response: Vec<u8>,
    /// How messages are written.
    pub encoding: Encoding,
    /// Whether permessage-deflate was negotiated.
    pub deflate: bool,
    /// The room asked for.
    pub room: RoomId,
    /// Where the client left off.
    pub since: Option<Position>,
    /// How much of the room.
    pub tier: Tier,
    /// Whether it may have all of it, whoever it is.
    pub may_full: bool,
    /// Whether a snapshot is wanted where nothing can be resumed.
    pub snapshot: bool,
    /// Who it is in its room; absent for a guest that is not known, and for a user before its first room.
    pub author: Option<Arc<Author>>,
    /// What the token says that it showed; absent for a guest.
    pub identity: Option<Arc<Identity>>,
    /// What its address is told by in sanctions: a keyed hash.
    pub address: u64,
    /// Its place among the connections of its address; absent where no limit of addresses applies to it.
    pub hold: Option<Hold>,
    /// Its TLS is spoken by the process that was here before, at the other end of the socket: it is to leave within
    /// so many microseconds, told in time.
    pub bridged: Option<u64>,
    /// What a session brings along that was one before, at another worker or process; absent for a new connection.
    pub moved: Option<Box<Moved>>,
}

/// The state of a session that changes its worker or its process.
#[derive(Debug)]
pub struct Moved {
    /// Input not yet made sense of.
    pub input: Carried,
    /// The guest's number.
    pub guest: u64,
    /// What it has sent in this second.
    pub spent: Spent,
    /// How far it is from having moved too often between rooms.
    pub moves: u16,
    /// Whether batches are wanted at the moment.
    pub paused: bool,
    /// Whether it asked to join the room and is to be told; else it was there, at `since`, and goes on silently.
    pub asked: bool,
}
