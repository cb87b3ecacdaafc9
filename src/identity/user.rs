//! A user who showed a token: who it is, for how long, and what it is in each room.

use std::sync::Arc;

use danmaku_room::admission::Standing;
use danmaku_wire::entry::{Author, Role};
use danmaku_wire::id::{RoomId, UserId};

/// What somebody is in a room.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The level, shown beside the name; rooms may ask for a least one.
    pub level: u32,
    /// Whether it is a member of the channel.
    pub member: bool,
    /// Since when it follows the channel, seconds since 1970; absent: it does not.
    pub followed_at_s: Option<u64>,
    /// Badges, by their ids.
    pub badges: Box<[Box<str>]>,
}

/// A user by a token. Shared by all its connections that showed the same token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub id: UserId,
    /// The display name; empty for none.
    pub name: Box<str>,
    /// When the token was issued, seconds since 1970; absent where it does not say.
    pub issued_s: Option<u64>,
    /// When it ends, seconds since 1970.
    pub ends_s: u64,
    /// What the user is where nothing else is said.
    pub everywhere: Grant,
    /// What it is in single rooms.
    pub rooms: Box<[(RoomId, Grant)]>,
}

impl Identity {
    /// What the user is in a room.
    pub fn grant(&self, room: &RoomId) -> &Grant {
        self.rooms.iter().find(|(name, _)| name == room).map_or(&self.everywhere, |(_, grant)| grant)
    }

    /// Who the user is in a room.
    pub fn presence(&self, room: &RoomId) -> Presence {
        Presence::of(&self.id, &self.name, self.grant(room))
    }

    /// The same where it is in no room.
    pub fn presence_anywhere(&self) -> Presence {
        Presence::of(&self.id, &self.name, &self.everywhere)
    }

    /// Whether the user works for the platform, in every room.
    pub fn is_staff(&self) -> bool {
        self.everywhere.role == Role::Staff
    }
}

/// Who somebody is in a room: what others see, and what the room's rules ask beside.
#[derive(Debug, Clone, PartialEq)]
pub struct Presence {
    /// What others see.
    pub author: Arc<Author>,
    /// Whether it is a member of the channel.
    pub member: bool,
    /// Since when it follows the channel, seconds since 1970; absent: it does not.
    pub followed_at_s: Option<u64>,
}

impl Presence {
    /// A user to whom this was granted.
    pub fn of(id: &UserId, name: &str, grant: &Grant) -> Self {
        let Grant { role, level, member, followed_at_s, badges } = grant;
        let author =
            Author { id: id.clone(), name: name.into(), role: *role, level: *level, badges: badges.to_vec() };
        Self { author: Arc::new(author), member: *member, followed_at_s: *followed_at_s }
    }

    /// A guest, who is no member of anything.
    pub const fn of_guest(author: Arc<Author>) -> Self {
        Self { author, member: false, followed_at_s: None }
    }

    /// What admission is told beside the author; `limited` where the rate of guests applies.
    pub fn standing(&self, limited: bool) -> Standing {
        Standing {
            guest: limited,
            member: self.member,
            followed_at_ms: self.followed_at_s.map(|s| s.saturating_mul(1_000)),
            ..Standing::default()
        }
    }
}
