//! A connection between its handshake and its session: all that a worker needs to adopt it.

use std::net::TcpStream;

use danmaku_room::form::Encoding;
use danmaku_wire::entry::Tier;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::Position;

/// A connection that has finished its handshake but for the response.
#[derive(Debug)]
pub struct Arrival {
    /// The socket, non-blocking.
    pub socket: TcpStream,
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
    /// Whether a snapshot is wanted where nothing can be resumed.
    pub snapshot: bool,
}
