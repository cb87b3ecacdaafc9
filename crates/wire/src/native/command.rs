//! What a client asks for, borrowed from the frame it came in, and why it could not be understood.
//!
//! Both decoders fill the same plain fields and hand them over here, so that a colour or a sequence out
//! of range is refused in one place, whatever the encoding was.

use crate::entry::{COLOR_DEFAULT, Mode, SIZE_DEFAULT, Tier};
use crate::position::SEQ_MAX;

/// One command of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// Publish a comment.
    Send(Send<'a>),
    /// Move to another room, or resume in the present one.
    Join(Join<'a>),
    /// Present a token.
    Auth(Auth<'a>),
    /// Pause, go on, or change the tier.
    View(View),
    /// React to the stream.
    React(React<'a>),
    /// Report a comment.
    Report(Report<'a>),
    /// Ask for a pong.
    Ping(Ping),
    /// A command of a later version; answered with `unknown_command`.
    Unknown,
}

/// Publishes a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send<'a> {
    /// Key of idempotency, chosen by the client; empty where it gave none.
    pub id: &'a str,
    /// The text as it was typed.
    pub text: &'a str,
    /// How it shall move.
    pub mode: Mode,
    /// 0xRRGGBB, at most 0xFFFFFF.
    pub color: u32,
    /// Pixels; what does not fit is 255, which is over every room's limit.
    pub size: u8,
    /// Where in the stream it was written, milliseconds; not yet clamped.
    pub stream_ms: Option<u64>,
    /// W3C trace context as given, or empty.
    pub traceparent: &'a str,
}

/// Moves to another room, or resumes in the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Join<'a> {
    /// The room's name as given; not yet parsed.
    pub room: &'a str,
    /// The last position the client has seen in that room.
    pub since: Option<Since<'a>>,
}

/// A position as a client gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Since<'a> {
    /// The epoch as given; may be empty or unknown.
    pub epoch: &'a str,
    /// The sequence, at most [`SEQ_MAX`].
    pub seq: u64,
}

/// Presents a token.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Auth<'a> {
    /// The token as given. Never to be logged.
    pub token: &'a str,
}

impl std::fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A command may be printed anywhere; a token must not.
        write!(f, "Auth({} bytes)", self.token.len())
    }
}

/// What the viewer wants to see from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Whether batches are held back.
    pub paused: bool,
    /// The tier wished for; `None` leaves it as it is.
    pub tier: Option<Tier>,
}

/// Aggregated reactions of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct React<'a> {
    /// The kind as given.
    pub kind: &'a str,
    /// How many, at least 1.
    pub count: u32,
}

/// Reports a comment to the moderators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<'a> {
    /// Which comment, at most [`SEQ_MAX`].
    pub seq: u64,
    /// Why, in the viewer's words.
    pub reason: &'a str,
}

/// Asks for a pong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ping {
    /// Whatever the client wants to get back.
    pub t: u64,
}

/// Why a payload is no command, sorted by what the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError<'a> {
    /// The payload breaks its encoding; the connection ends.
    #[error("malformed message: {0}")]
    Malformed(#[from] Malformed),
    /// JSON, but not an object with one key; answered with `bad_request`.
    #[error("a message is an object with one key, the name of the command")]
    NotOneCommand,
    /// A field cannot be what was sent; answered with `bad_request`.
    #[error("`{field}` {problem}")]
    BadField {
        /// The publish's id where it could be read, so that its sender learns the fate.
        id: Option<&'a str>,
        /// The field, as JSON names it.
        field: &'static str,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// How a payload breaks its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
    /// Not JSON (RFC 8259).
    #[error("not JSON at byte {at}")]
    Json {
        /// Where reading stopped.
        at: usize,
    },
    /// Nested deeper than anybody needs.
    #[error("nested too deeply")]
    TooDeep,
    /// A protobuf field runs past the end of its message.
    #[error("cut off")]
    Truncated,
    /// A protobuf varint of more than 64 bits.
    #[error("a varint is too long")]
    Varint,
    /// A protobuf field number or wire type that does not exist.
    #[error("no such field number or wire type")]
    Key,
    /// A protobuf field whose wire type is not the schema's.
    #[error("a field has the wrong wire type")]
    WireType,
    /// A protobuf group that does not end as it began.
    #[error("a group is not closed by its own end")]
    Group,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Another type was expected.
    #[error("must be {0}")]
    Type(&'static str),
    /// A number outside the field's range.
    #[error("is out of range")]
    Range,
    /// A name that the enumeration does not have.
    #[error("is none of the known names")]
    Name,
    /// The same key twice in one object.
    #[error("stands there twice")]
    Twice,
    /// A `\u` escape of half a surrogate pair, as cutting a string in the middle of an emoji makes it.
    #[error("holds half a surrogate pair")]
    Surrogate,
}

/// A field that was refused, before the id of its publish is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) field: &'static str,
    pub(super) problem: Problem,
}

/// A command as it stands on the wire: types known, ranges not yet checked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Fields<'a> {
    #[default]
    Unknown,
    Send(SendFields<'a>),
    Join(JoinFields<'a>),
    Auth(Auth<'a>),
    View(ViewFields),
    React(ReactFields<'a>),
    Report(ReportFields<'a>),
    Ping(Ping),
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SendFields<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    pub(super) mode: i32,
    pub(super) color: Option<u32>,
    pub(super) size: u32,
    pub(super) stream_ms: Option<u64>,
    pub(super) traceparent: &'a str,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JoinFields<'a> {
    pub(super) room: &'a str,
    pub(super) since: Option<Since<'a>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ViewFields {
    pub(super) paused: bool,
    pub(super) tier: Option<i32>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReactFields<'a> {
    pub(super) kind: &'a str,
    pub(super) count: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReportFields<'a> {
    pub(super) seq: u64,
    pub(super) reason: &'a str,
}

impl<'a> Fields<'a> {
    /// Checks ranges and names. `bad` is what the decoder itself refused; it goes first.
    #[inline]
    pub(super) fn finish(self, bad: Option<Bad>) -> Result<Command<'a>, DecodeError<'a>> {
        let checked = match bad {
            Some(bad) => Err(bad),
            None => self.check(),
        };
        checked.map_err(|Bad { field, problem }| DecodeError::BadField { id: self.id(), field, problem })
    }

    fn id(&self) -> Option<&'a str> {
        match self {
            Self::Send(send) if !send.id.is_empty() => Some(send.id),
            _ => None,
        }
    }

    #[inline]
    fn check(&self) -> Result<Command<'a>, Bad> {
        Ok(match *self {
            Self::Unknown => Command::Unknown,
            Self::Send(send) => Command::Send(send.check()?),
            Self::Join(JoinFields { room, since }) => {
                if since.is_some_and(|since| since.seq > SEQ_MAX) {
                    return Err(Bad { field: "since.seq", problem: Problem::Range });
                }
                Command::Join(Join { room, since })
            }
            Self::Auth(auth) => Command::Auth(auth),
            Self::View(ViewFields { paused, tier }) => {
                let tier = tier.map(tier_of).transpose()?;
                Command::View(View { paused, tier })
            }
            Self::React(ReactFields { kind, count }) => Command::React(React { kind, count: count.max(1) }),
            Self::Report(ReportFields { seq, reason }) => {
                if seq > SEQ_MAX {
                    return Err(Bad { field: "seq", problem: Problem::Range });
                }
                Command::Report(Report { seq, reason })
            }
            Self::Ping(ping) => Command::Ping(ping),
        })
    }
}

impl<'a> SendFields<'a> {
    #[inline]
    fn check(self) -> Result<Send<'a>, Bad> {
        let mode = match self.mode {
            0 => Mode::Scroll,
            1 => Mode::Top,
            2 => Mode::Bottom,
            _ => return Err(Bad { field: "mode", problem: Problem::Name }),
        };
        let color = self.color.unwrap_or(COLOR_DEFAULT);
        if color > 0x00FF_FFFF {
            return Err(Bad { field: "color", problem: Problem::Range });
        }
        let size = match self.size {
            0 => SIZE_DEFAULT,
            size => u8::try_from(size).unwrap_or(u8::MAX),
        };
        let Self { id, text, stream_ms, traceparent, .. } = self;
        Ok(Send { id, text, mode, color, size, stream_ms, traceparent })
    }
}

fn tier_of(number: i32) -> Result<Tier, Bad> {
    match number {
        0 => Ok(Tier::Lite),
        1 => Ok(Tier::Standard),
        2 => Ok(Tier::Full),
        _ => Err(Bad { field: "tier", problem: Problem::Name }),
    }
}
