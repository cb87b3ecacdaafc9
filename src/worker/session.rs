//! The state of one open connection: no task, no future, no buffer while it is idle.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use danmaku_room::form::{Encoding, FormKey, shown_to};
use danmaku_room::replica::{Cursor, mark_of};
use danmaku_wire::entry::{Entry, Tier};
use danmaku_wire::websocket::decoder::Decoder;

use crate::egress::tls::TlsLayer;
use crate::identity::guest;
use crate::identity::user::{Identity, Presence};
use crate::ingress::addresses::Place;

/// One move to another room, as sessions count them: fine enough for the slowest pace.
pub const JOIN: u16 = 32;

/// No room.
pub const NOWHERE: u32 = u32::MAX;

/// What can be true of a session at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u32);

impl Flags {
    /// The socket took less than it was offered: nothing is offered until it is writable.
    pub const BLOCKED: Self = Self(1);
    /// The outbox is full: the socket is not read.
    pub const UNREAD: Self = Self(1 << 1);
    /// A close frame is queued or sent: no input is heeded.
    pub const CLOSING: Self = Self(1 << 2);
    /// The viewer's tab is hidden: no batches.
    pub const PAUSED: Self = Self(1 << 3);
    /// Something was read or written since the last sweep.
    pub const ACTIVE: Self = Self(1 << 4);
    /// A ping is out and nothing has come since.
    pub const PINGED: Self = Self(1 << 5);
    /// In the list of sessions with an outbox to flush.
    pub const QUEUED: Self = Self(1 << 6);
    /// Waits for its room's replica.
    pub const ATTACHING: Self = Self(1 << 7);
    /// The peer shut down its side, or the close frame is out and ours is shut.
    pub const SHUT: Self = Self(1 << 8);
    /// In the list of sessions with more input than a turn takes.
    pub const READY: Self = Self(1 << 9);
    /// Deflate was negotiated.
    pub const DEFLATE: Self = Self(1 << 10);
    /// An event stream: nothing it sends has a meaning.
    pub const SSE: Self = Self(1 << 11);
    /// No snapshot is wanted at joins.
    pub const NO_SNAPSHOT: Self = Self(1 << 12);
    /// In its room's list of blocked members.
    pub const LISTED: Self = Self(1 << 13);

    /// Its TLS is spoken by another process: it has been told to leave.
    pub const BRIDGED: Self = Self(1 << 14);

    /// It was told that its token ends.
    pub const REMINDED: Self = Self(1 << 15);

    /// It may have all of the room: it comes from this machine, or showed at its beginning that it may.
    pub const FULL: Self = Self(1 << 16);

    /// Any of these keeps a session out of passes.
    pub const NO_PASS: Self = Self(Self::BLOCKED.0 | Self::CLOSING.0 | Self::PAUSED.0 | Self::ATTACHING.0);

    /// Whether any of `other` is set.
    #[inline]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Sets all of `other`.
    #[inline]
    pub const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The mark of the session's user, kept in the bits that no flag has; see [`danmaku_room::replica::mark_of`].
    #[inline]
    pub const fn mark(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Sets the mark.
    pub const fn set_mark(&mut self, mark: u8) {
        self.0 = self.0 & 0x00FF_FFFF | (mark as u32) << 24;
    }

    /// Clears all of `other`.
    #[inline]
    pub const fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

/// What every pass touches.
#[derive(Debug)]
pub struct Hot {
    /// The socket; `None` in a vacant slot.
    pub fd: Option<OwnedFd>,
    /// What stands between it and the session; absent on plain connections.
    pub tls: Option<Box<TlsLayer>>,
    /// State bits.
    pub flags: Flags,
    /// What the session is owed next.
    pub cursor: Cursor,
    /// Local index of the room, or [`NOWHERE`].
    pub room: u32,
    /// Place in the room's member list of this form, or [`NOWHERE`].
    pub member: u32,
    /// Counts the uses of the slot.
    pub generation: u32,
    /// Second at which the sweep looks at the session again.
    pub due_s: u32,
}

impl Hot {
    /// An empty slot.
    pub const fn vacant() -> Self {
        Self {
            fd: None,
            tls: None,
            flags: Flags(0),
            cursor: Cursor { seq: 0, offset: 0 },
            room: NOWHERE,
            member: NOWHERE,
            generation: 0,
            due_s: 0,
        }
    }
}

/// What only the session's own input and output touch.
#[derive(Debug)]
pub struct Cold {
    /// Frames in; holds memory only while one is incomplete.
    pub decoder: Decoder,
    /// What this connection alone is owed; absent while there is nothing.
    pub outbox: Option<Box<Outbox>>,
    /// Who publishes here, in this room; made at the first publish, but for a guest that is known from before.
    pub presence: Option<Box<Presence>>,
    /// What the user's token says; absent for a guest.
    pub identity: Option<Arc<Identity>>,
    /// The guest's number, from which the id is made.
    pub guest: u64,
    /// What its address is told by in sanctions: a keyed hash.
    pub address: u64,
    /// Since when nothing was accepted, microseconds; 0 while the socket takes what it is offered.
    pub blocked_us: u64,
    /// Publishes whose fate is not known yet: while there are any, the session stays on this worker,
    /// where the answers come.
    pub unanswered: u16,
    /// Where its connection is counted, to be counted out when it is gone. Nowhere: no limit of addresses applies to it.
    pub place: Place,
    /// Moves to other rooms that are not forgiven yet, in units of [`JOIN`].
    pub joins: u16,
    /// What came in during the newest second with any input.
    pub spent: Spent,
    /// What it was told of refused commands in the newest second with any.
    pub errors: Errors,
    /// How messages are written.
    pub encoding: Encoding,
    /// How much of the room.
    pub tier: Tier,
}

/// Input of one second, held against the connection's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// The second.
    pub second: u32,
    /// Bytes read.
    pub bytes: u32,
    /// Messages and control frames.
    pub frames: u32,
    /// Bytes that messages had when inflated.
    pub inflated: u32,
}

/// Error replies of one second: a flood of bad commands must not become a flood of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Errors {
    /// The second, its low bits.
    pub second: u16,
    /// How many were sent in it.
    pub sent: u16,
    /// How many were not, to be told as one number when it is over.
    pub held: u16,
}

impl Default for Cold {
    fn default() -> Self {
        Self {
            decoder: Decoder::new(false),
            outbox: None,
            presence: None,
            identity: None,
            guest: 0,
            address: 0,
            blocked_us: 0,
            unanswered: 0,
            place: Place::NONE,
            joins: 0,
            spent: Spent::default(),
            errors: Errors::default(),
            encoding: Encoding::Json,
            tier: Tier::Standard,
        }
    }
}

impl Cold {
    /// Whether an entry that not everybody sees is this session's user's, and not among what its tier holds.
    pub fn is_author_of(&self, entry: &Entry) -> bool {
        let Some(user) = entry.own_of().filter(|_| !shown_to(entry, self.tier)) else { return false };
        match (&self.identity, &self.presence) {
            (Some(identity), _) => identity.id == *user,
            (None, Some(presence)) => presence.author.id == *user,
            (None, None) => user.as_str().starts_with(guest::MARK) && user.as_str() == guest::id(self.guest),
        }
    }

    /// The mark of the session's user.
    pub fn mark(&self) -> u8 {
        match (&self.identity, &self.presence) {
            (Some(identity), _) => mark_of(identity.id.as_str()),
            (None, Some(presence)) => mark_of(presence.author.id.as_str()),
            (None, None) => mark_of(&guest::id(self.guest)),
        }
    }

    /// Which form of a batch the session gets.
    pub const fn key(&self, flags: Flags) -> FormKey {
        FormKey { encoding: self.encoding, deflate: flags.any(Flags::DEFLATE), tier: self.tier }
    }
}

/// Bytes that one connection alone is owed, in front of its shared batches: the rest of a frame whose
/// batch has left the ring, then whole control frames.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many of them the socket has taken.
    pub sent: usize,
    /// How many of them are the rest of a shared frame, counted against the worker's bound.
    pub tail: usize,
    /// Where the newest pong lies.
    pub pong: Range<usize>,
}

impl Outbox {
    /// Takes the newest pong back, if nothing of it has gone out.
    pub fn take_pong_back(&mut self) {
        let pong = std::mem::take(&mut self.pong);
        if pong.start >= self.sent {
            self.bytes.drain(pong);
        }
    }

    /// Bytes still to go.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }
}

// An idle session is these two and nothing else; the target is 0.4 KiB of process memory each.
const _: () = assert!(size_of::<Hot>() <= 48, "hot session state grew");
const _: () = assert!(size_of::<Cold>() <= 96, "cold session state grew");
