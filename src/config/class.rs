//! Room classes: rooms whose names match a pattern get other settings.

use danmaku_wire::id::RoomId;
use serde::Deserialize;

use super::raw::Raw;
use super::section::{OutOfBounds, Section};
use super::store::Promise;
use super::value::{Duration, Mode, Size};
use super::webhook::Fail;
use super::words::WordFile;
use crate::identity::claims::TokenRole;

/// Declares a class: keys that lie over those of the same name in a table.
macro_rules! class {
    ($( $table:ident { $( $field:ident: $type:ty, )* } )*) => {
        /// `[[rooms]]`: what differs for the rooms that match; what is absent is as the tables of the same keys say.
        #[derive(Debug, Clone, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct RoomClass {
            /// Which rooms.
            #[serde(rename = "match")]
            pub pattern: Pattern,
            $($(
                #[doc = concat!("See `", stringify!($table), ".", stringify!($field), "`.")]
                pub $field: Option<$type>,
            )*)*
        }

        /// The keys a class may set besides `match`, for the reference.
        pub const CLASS_KEYS: &[&str] = &[$($( stringify!($field), )*)*];

        impl RoomClass {
            /// The settings of every room with this class's laid over them.
            ///
            /// # Errors
            /// When one is outside its bounds.
            pub fn over(&self, raw: &Raw) -> Result<Raw, OutOfBounds> {
                let mut raw = raw.clone();
                $($( set(&mut raw.$table.$field, self.$field.as_ref()); )*)*
                Ok(()) $( .and_then(|()| raw.$table.check()) )* .map_err(|wrong: OutOfBounds| {
                    let name = wrong.key.rsplit('.').next().unwrap_or_default();
                    OutOfBounds { key: format!("rooms.{name}"), ..wrong }
                })?;
                Ok(raw)
            }
        }
    };
}

class! {
    limits {
        user_mode: Mode,
        user_burst: u32,
        user_per_s: f64,
        guest_burst: u32,
        guest_per_s: f64,
        everywhere_mode: Mode,
        spread_mode: Mode,
        room_mode: Mode,
        room_window: Duration,
        room_count_max: u32,
        vip_mode: Mode,
        vip_per_s: u32,
        breaker_mode: Mode,
        breaker_stall: Duration,
        breaker_webhook_failures: u32,
        duplicate_mode: Mode,
        duplicate_window: Duration,
        duplicate_chars_min: usize,
        filtered_mode: Mode,
        filtered_users: Vec<String>,
        filtered_below_level: u32,
        vip_users: Vec<String>,
        display_mode: Mode,
        display_standard_per_s: u32,
        display_lite_per_s: u32,
        text_chars_max: usize,
        text_bytes_max: usize,
    }
    policy {
        closed_mode: Mode,
        ended_mode: Mode,
        read_only_mode: Mode,
        muted_mode: Mode,
        slow_mode: Mode,
        slow_interval: Duration,
        level_mode: Mode,
        level_min: u32,
        members_mode: Mode,
        followers_mode: Mode,
        followed_for: Duration,
        vips_mode: Mode,
        style_mode: Mode,
        motion_role: TokenRole,
        color_role: TokenRole,
        size_role: TokenRole,
        length_mode: Mode,
        length_role: TokenRole,
        length_chars_max: usize,
    }
    words {
        word_mode: Mode,
        room_words: Vec<WordFile>,
    }
    webhook {
        webhook_mode: Mode,
        webhook_fail: Fail,
        waiting_max: usize,
    }
    held {
        delay: Duration,
        delayed_max: usize,
        review_max: usize,
        review_ttl: Duration,
    }
    moderation {
        bans_mode: Mode,
        mutes_mode: Mode,
        shadow_bans_mode: Mode,
        sanctions_max: usize,
        reports_max: usize,
        reports_ttl: Duration,
    }
    store {
        durability: Promise,
    }
    room {
        backlog_bytes: Size,
        backlog_age: Duration,
        snapshot_entries: usize,
    }
}

fn set<T: Clone>(to: &mut T, from: Option<&T>) {
    if let Some(value) = from {
        to.clone_from(value);
    }
}

/// Room names with `*` for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Option<Self> {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'*');
        ((1..=64).contains(&text.len()) && text.bytes().all(known)).then(|| Self(text.into()))
    }

    /// Whether a room's name matches.
    pub fn matches(&self, room: &RoomId) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = room.as_str().strip_prefix(parts.next().unwrap_or_default()) else {
            return false;
        };
        let parts: Vec<_> = parts.collect();
        let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
        // The earliest place for each part leaves the most for those behind it.
        for part in between {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::invalid_value(
                serde::de::Unexpected::Str(&text),
                &"a room's name with `*` for any characters, such as \"shop-*\" (1 to 64 of A-Z a-z 0-9 _ - *)",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Pattern::matches`: `*` stands for any run of characters, also an empty one.
    #[test]
    fn patterns_match_whole_names() {
        for (pattern, room, matches) in [
            ("shop-*", "shop-1", true),
            ("shop-*", "shop-", true),
            ("shop-*", "workshop-1", false),
            ("*", "anything", true),
            ("lobby", "lobby", true),
            ("lobby", "lobby2", false),
            ("*-live", "a-live", true),
            ("*-live", "a-live-", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("**", "x", true),
        ] {
            let parsed = Pattern::parse(pattern).expect(pattern);
            assert_eq!(parsed.matches(&RoomId::parse(room).expect(room)), matches, "{pattern} {room}");
        }
        for pattern in ["", "a b", "a.b", "ü", &"x".repeat(65)] {
            assert_eq!(Pattern::parse(pattern), None, "{pattern}");
        }
    }
}
