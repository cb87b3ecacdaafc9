//! Why a connection ends, as a WebSocket close code (RFC 6455 §7.4).

/// Every way the server ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum DisconnectCode {
    /// The peer closed and is answered with its own intention.
    Normal = 1000,
    /// A frame broke RFC 6455 or RFC 7692.
    Protocol = 1002,
    /// A message of a type that the subprotocol does not have.
    WrongType = 1003,
    /// Text that is not UTF-8.
    InvalidText = 1007,
    /// A rule of this server was broken.
    Policy = 1008,
    /// A frame or a message over the limit.
    TooBig = 1009,
    /// A fault of the server.
    Internal = 1011,
    /// The server restarts.
    Restart = 1012,
    /// The server can take no more.
    Overloaded = 1013,
    /// The token ran out and was not refreshed.
    TokenExpired = 4001,
    /// The user is banned.
    Banned = 4003,
    /// The room was closed.
    RoomClosed = 4004,
    /// The connection could not keep up for longer than the grace.
    SlowConsumer = 4008,
    /// The same session is connected elsewhere.
    Replaced = 4009,
}

impl DisconnectCode {
    /// The number on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// A short reason that goes into the close frame; ASCII, at most 32 bytes.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Normal => "",
            Self::Protocol => "protocol error",
            Self::WrongType => "wrong message type",
            Self::InvalidText => "invalid UTF-8",
            Self::Policy => "policy violation",
            Self::TooBig => "message too big",
            Self::Internal => "internal error",
            Self::Restart => "server restarts",
            Self::Overloaded => "overloaded",
            Self::TokenExpired => "token expired",
            Self::Banned => "banned",
            Self::RoomClosed => "room closed",
            Self::SlowConsumer => "slow consumer",
            Self::Replaced => "replaced",
        }
    }

    /// Whether a client may come back at once (with back-off) or must first change something.
    pub const fn may_reconnect(self) -> bool {
        matches!(self, Self::Normal | Self::Internal | Self::Restart | Self::Overloaded | Self::SlowConsumer)
    }
}
