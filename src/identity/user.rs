//! A user who showed a token: who it is, for how long, and what it is in each room.

use std::sync::Arc;

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

    /// The user as the author of comments in a room.
    pub fn author(&self, room: &RoomId) -> Arc<Author> {
        self.author_with(self.grant(room))
    }

    /// The same where it is in no room.
    pub fn author_anywhere(&self) -> Arc<Author> {
        self.author_with(&self.everywhere)
    }

    fn author_with(&self, grant: &Grant) -> Arc<Author> {
        let Grant { role, level, badges, .. } = grant;
        Arc::new(Author {
            id: self.id.clone(),
            name: self.name.clone(),
            role: *role,
            level: *level,
            badges: badges.to_vec(),
        })
    }

    /// Whether the user works for the platform, in every room.
    pub fn is_staff(&self) -> bool {
        self.everywhere.role == Role::Staff
    }
}
