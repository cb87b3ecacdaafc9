//! What a room's log holds, in canonical form: before any encoding, tier or compression.

use std::sync::Arc;

use crate::id::UserId;
use crate::position::Epoch;
use crate::trace::TraceContext;

/// The default colour of a comment: white.
pub const COLOR_DEFAULT: u32 = 0x00FF_FFFF;
/// The default text size of a comment, in pixels of the player's reference height.
pub const SIZE_DEFAULT: u8 = 25;
/// The smallest text size.
pub const SIZE_MIN: u8 = 12;
/// The largest text size.
pub const SIZE_MAX: u8 = 64;

/// The longest name of an event's kind, bytes.
pub const EVENT_KIND_BYTES_MAX: usize = 32;
/// The most data of an event, bytes.
pub const EVENT_DATA_BYTES_MAX: usize = 2 << 10;
/// What an entry that is no event is called on the wire: no event may be called so.
const KINDS_TAKEN: [&str; 6] = ["comment", "retract", "fold", "pin", "clear", "state"];

/// One numbered item of a room's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Given at release; gapless within the epoch.
    pub seq: u64,
    /// Server time of the release, milliseconds since 1970.
    pub at_ms: u64,
    /// Who may see it.
    pub visibility: Visibility,
    /// What it is.
    pub body: Body,
}

impl Entry {
    /// The user who is given this entry by itself where its viewer's tier does not hold it: the author of what not
    /// everybody is shown. It cannot tell whether others are.
    pub fn own_of(&self) -> Option<&UserId> {
        match (&self.visibility, &self.body) {
            (Visibility::Author(user), _) => Some(user),
            (Visibility::Tier(least), Body::Comment(comment)) if *least > Tier::Lite => {
                Some(&comment.user.id)
            }
            _ => None,
        }
    }
}

/// Who may see an entry. What is absent inside a covered range is absent on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visibility {
    /// Everyone whose tier is at least this one; `Tier::Lite` is everyone.
    Tier(Tier),
    /// The author alone: a shadow ban.
    Author(UserId),
    /// Moderators and the room's staff.
    Staff,
}

/// How much of a busy room a viewer wants; each shows all that the one below it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Tier {
    /// The smallest share.
    Lite = 0,
    /// What a viewer gets who asks for nothing.
    #[default]
    Standard = 1,
    /// Everything that is public.
    Full = 2,
}

impl Tier {
    /// The tier's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lite => "lite",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }

    /// Parses a tier's name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Lite, Self::Standard, Self::Full].into_iter().find(|t| t.as_str() == name)
    }
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A comment of a viewer.
    Comment(Comment),
    /// A gift, a superchat, a poll, a system notice or a custom type.
    Event(Event),
    /// Comments that are taken back.
    Retract {
        /// The epoch of the numbers, where it is not the current one.
        epoch: Option<Epoch>,
        /// Which entries.
        seqs: Vec<u64>,
    },
    /// A comment that stands for a crowd's: its count was raised.
    Fold {
        /// The comment.
        of: u64,
        /// How many it stands for now.
        count: u64,
    },
    /// A comment is pinned; 0 takes the pin away.
    Pin {
        /// The comment, or 0.
        of: u64,
    },
    /// Everything up to a sequence is cleared from the screen.
    Clear {
        /// The last entry cleared.
        up_to: u64,
    },
    /// The room's state changed (slow mode, mode of the room, …).
    State {
        /// A JSON object.
        data: Box<str>,
    },
}

/// The publisher as others see him. Shared by all entries of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Author {
    /// User or guest id.
    pub id: UserId,
    /// Display name, at most 32 characters; empty for none.
    pub name: Box<str>,
    /// The role in this room.
    pub role: Role,
    /// The level in this room.
    pub level: u32,
    /// Badges of this room.
    pub badges: Vec<Box<str>>,
}

/// A role in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Role {
    /// Watches and comments.
    #[default]
    Viewer = 0,
    /// Goes ahead of the crowd.
    Vip = 1,
    /// Keeps order.
    Moderator = 2,
    /// Owns the stream.
    Streamer = 3,
    /// Works for the platform.
    Staff = 4,
}

impl Role {
    /// The role's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Vip => "vip",
            Self::Moderator => "moderator",
            Self::Streamer => "streamer",
            Self::Staff => "staff",
        }
    }

    /// Parses a role's name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Viewer, Self::Vip, Self::Moderator, Self::Streamer, Self::Staff]
            .into_iter()
            .find(|r| r.as_str() == name)
    }
}

/// How a comment moves over the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Mode {
    /// From right to left.
    #[default]
    Scroll = 0,
    /// Fixed at the top.
    Top = 1,
    /// Fixed at the bottom.
    Bottom = 2,
}

impl Mode {
    /// The mode's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scroll => "scroll",
            Self::Top => "top",
            Self::Bottom => "bottom",
        }
    }

    /// Parses a mode's name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Scroll, Self::Top, Self::Bottom].into_iter().find(|m| m.as_str() == name)
    }
}

/// A viewer's comment.
#[derive(Debug, Clone, PartialEq)]
pub struct Comment {
    /// Who wrote it.
    pub user: Arc<Author>,
    /// The text after the filter; valid UTF-8 without control characters.
    pub text: Box<str>,
    /// How it moves.
    pub mode: Mode,
    /// 0xRRGGBB.
    pub color: u32,
    /// Pixels, [`SIZE_MIN`]..=[`SIZE_MAX`].
    pub size: u8,
    /// Where in the stream it was written, milliseconds; absent without a stream clock.
    pub stream_ms: Option<u64>,
    /// The server's span in the trace that a VIP's client began: who shows the comment may go on with it.
    pub trace: Option<Box<TraceContext>>,
}

/// An event whose data only the platform and its clients understand.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// `gift`, `superchat`, `poll`, `system` or a custom name of `[a-z0-9_.-]`, at most 32 bytes.
    pub kind: Box<str>,
    /// Who caused it, if anyone.
    pub user: Option<Arc<Author>>,
    /// A JSON value, at most 2 KiB; empty for none.
    pub data: Box<str>,
}

impl Event {
    /// Whether its kind is one: 1 to [`EVENT_KIND_BYTES_MAX`] of `[a-z0-9_.-]`, and not what another entry is called.
    pub fn is_of_a_kind(&self) -> bool {
        let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
        (1..=EVENT_KIND_BYTES_MAX).contains(&self.kind.len())
            && self.kind.bytes().all(allowed)
            && !KINDS_TAKEN.contains(&&*self.kind)
    }

    /// Whether it has more data than it may.
    pub fn is_too_long(&self) -> bool {
        self.data.len() > EVENT_DATA_BYTES_MAX
    }
}
