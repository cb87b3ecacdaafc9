//! Why one command failed. The table in `docs/protocol.md` is made from this enumeration.

/// Every code that an `error` message and a problem document can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A field of a wrong type or value.
    BadRequest,
    /// A command of another version.
    UnknownCommand,
    /// A command that this server was not built or configured for.
    NotSupported,
    /// A command that needs a room.
    NotJoined,
    /// The connection sends errors faster than they are answered.
    TooManyErrors,
    /// Text without anything to show.
    TextEmpty,
    /// Text over the limit.
    TextTooLong,
    /// Text of forbidden characters.
    TextInvalid,
    /// Name over the limit.
    NameTooLong,
    /// Data over the limit.
    DataTooLong,
    /// An id outside its alphabet or length.
    IdInvalid,
    /// The same id with another text.
    IdReused,
    /// The window of remembered ids is full.
    IdsFull,
    /// The same text again.
    Duplicate,
    /// A word of the room's list.
    FilteredWord,
    /// Refused by a moderator or the platform's hook.
    Rejected,
    /// The user may not write for a while.
    Muted,
    /// The user is banned.
    Banned,
    /// Slow mode.
    SlowMode,
    /// The user's level is too low.
    LevelTooLow,
    /// Members only.
    MembersOnly,
    /// Followers only.
    FollowersOnly,
    /// Nobody may write at the moment.
    ReadOnly,
    /// Over a rate limit of the user or the connection.
    RateLimited,
    /// The server sheds load.
    Overloaded,
    /// Not a room name.
    RoomInvalid,
    /// No such room.
    RoomNotFound,
    /// The stream is over.
    RoomEnded,
    /// The room was closed.
    RoomClosed,
    /// Too many rooms.
    TooManyRooms,
    /// No identity.
    Unauthorized,
    /// Not allowed.
    Forbidden,
    /// The token ran out.
    TokenExpired,
    /// Not a token of this server.
    TokenInvalid,
    /// Early data that was seen before.
    ReplayDetected,
    /// The store takes nothing at the moment.
    StoreUnavailable,
    /// Shown but not kept.
    NotStored,
    /// The room's owner is changing.
    NotOwner,
    /// Part of the server cannot be reached.
    Unavailable,
    /// A fault of the server.
    Internal,
}

impl ErrorCode {
    /// All codes, in the order of the table.
    pub const ALL: [Self; 40] = [
        Self::BadRequest,
        Self::UnknownCommand,
        Self::NotSupported,
        Self::NotJoined,
        Self::TooManyErrors,
        Self::TextEmpty,
        Self::TextTooLong,
        Self::TextInvalid,
        Self::NameTooLong,
        Self::DataTooLong,
        Self::IdInvalid,
        Self::IdReused,
        Self::IdsFull,
        Self::Duplicate,
        Self::FilteredWord,
        Self::Rejected,
        Self::Muted,
        Self::Banned,
        Self::SlowMode,
        Self::LevelTooLow,
        Self::MembersOnly,
        Self::FollowersOnly,
        Self::ReadOnly,
        Self::RateLimited,
        Self::Overloaded,
        Self::RoomInvalid,
        Self::RoomNotFound,
        Self::RoomEnded,
        Self::RoomClosed,
        Self::TooManyRooms,
        Self::Unauthorized,
        Self::Forbidden,
        Self::TokenExpired,
        Self::TokenInvalid,
        Self::ReplayDetected,
        Self::StoreUnavailable,
        Self::NotStored,
        Self::NotOwner,
        Self::Unavailable,
        Self::Internal,
    ];

    /// The code on the wire.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// Whether the same command may succeed later without anything changed by the sender.
    pub const fn retryable(self) -> bool {
        self.row().1
    }

    /// One sentence for whoever writes or runs a client.
    pub const fn meaning(self) -> &'static str {
        self.row().2
    }

    /// Parses a code.
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str() == code)
    }

    /// One row per code: name, whether to try again, meaning.
    const fn row(self) -> (&'static str, bool, &'static str) {
        const AGAIN: bool = true;
        const NEVER: bool = false;
        match self {
            Self::BadRequest => ("bad_request", NEVER, "A field of the command has a wrong type or value."),
            Self::UnknownCommand => ("unknown_command", NEVER, "The server does not know this command."),
            Self::NotSupported => ("not_supported", NEVER, "The command is switched off on this server."),
            Self::NotJoined => ("not_joined", NEVER, "The command needs a room; join one first."),
            Self::TooManyErrors => (
                "too_many_errors",
                NEVER,
                "More commands failed than are answered one by one; `count` says how many.",
            ),
            Self::TextEmpty => ("text_empty", NEVER, "The text has nothing to show."),
            Self::TextTooLong => {
                ("text_too_long", NEVER, "The text is over the limit of characters or bytes.")
            }
            Self::TextInvalid => ("text_invalid", NEVER, "The text holds characters that are not allowed."),
            Self::NameTooLong => ("name_too_long", NEVER, "The display name is over the limit."),
            Self::DataTooLong => ("data_too_long", NEVER, "The event's data is over the limit."),
            Self::IdInvalid => {
                ("id_invalid", NEVER, "The id is empty, too long or holds control characters.")
            }
            Self::IdReused => ("id_reused", NEVER, "The id was used for another text; take a new id."),
            Self::IdsFull => {
                ("ids_full", AGAIN, "Too many recent ids are remembered; send again with the same id.")
            }
            Self::Duplicate => ("duplicate", NEVER, "The same text was sent a moment ago."),
            Self::FilteredWord => {
                ("filtered_word", NEVER, "The text holds a word that the room does not allow.")
            }
            Self::Rejected => ("rejected", NEVER, "A moderator or the platform refused the comment."),
            Self::Muted => ("muted", AGAIN, "The user may not write until the mute is over."),
            Self::Banned => ("banned", NEVER, "The user is banned from the room."),
            Self::SlowMode => ("slow_mode", AGAIN, "The room is in slow mode; wait before the next comment."),
            Self::LevelTooLow => ("level_too_low", NEVER, "The room asks for a higher level."),
            Self::MembersOnly => ("members_only", NEVER, "Only members may write in the room."),
            Self::FollowersOnly => {
                ("followers_only", NEVER, "Only followers of long enough standing may write.")
            }
            Self::ReadOnly => ("read_only", AGAIN, "Nobody may write in the room at the moment."),
            Self::RateLimited => ("rate_limited", AGAIN, "The user or the connection sends too fast."),
            Self::Overloaded => ("overloaded", AGAIN, "The room or the server sheds load."),
            Self::RoomInvalid => ("room_invalid", NEVER, "A room name is 1 to 64 of `A-Z a-z 0-9 _ -`."),
            Self::RoomNotFound => {
                ("room_not_found", NEVER, "The room does not exist and may not be made by joining.")
            }
            Self::RoomEnded => ("room_ended", NEVER, "The stream is over; the room can be read only."),
            Self::RoomClosed => ("room_closed", NEVER, "The room was closed."),
            Self::TooManyRooms => {
                ("too_many_rooms", AGAIN, "Too many rooms were joined or made in a short time.")
            }
            Self::Unauthorized => ("unauthorized", NEVER, "The command needs a token."),
            Self::Forbidden => ("forbidden", NEVER, "The identity does not allow the command."),
            Self::TokenExpired => ("token_expired", NEVER, "The token ran out; get a new one."),
            Self::TokenInvalid => {
                ("token_invalid", NEVER, "The token was not made for this server or was revoked.")
            }
            Self::ReplayDetected => {
                ("replay_detected", NEVER, "Early data was seen before; send again after the handshake.")
            }
            Self::StoreUnavailable => ("store_unavailable", AGAIN, "The store takes nothing at the moment."),
            Self::NotStored => {
                ("not_stored", NEVER, "The comment was shown (`shown`) but could not be kept.")
            }
            Self::NotOwner => {
                ("not_owner", AGAIN, "The room moves to another owner; send again with the same id.")
            }
            Self::Unavailable => {
                ("unavailable", AGAIN, "A part of the server cannot be reached at the moment.")
            }
            Self::Internal => ("internal", AGAIN, "A fault of the server; send again with the same id."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ErrorCode::ALL` holds every variant at its own place, and no name serves two of them.
    #[test]
    fn every_code_is_listed_once_and_parses_back() {
        for (place, code) in ErrorCode::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, place, "{code:?}");
            assert_eq!(ErrorCode::parse(code.as_str()), Some(code));
            assert!(code.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code:?}");
            assert!(code.meaning().ends_with('.'), "{code:?}");
        }
        assert_eq!(
            ErrorCode::Internal as usize + 1,
            ErrorCode::ALL.len(),
            "the last variant is the last row"
        );
        assert_eq!(ErrorCode::parse("no_such_code"), None);
    }
}
