//! Room classes: rooms whose names match a pattern get other settings.

use danmaku_wire::id::RoomId;
use serde::Deserialize;

use super::raw::Raw;
use super::section::{OutOfBounds, Section};
use super::value::{Duration, Mode, Size};

/// `[[rooms]]`: what differs for the rooms that match; what is absent is as `[limits]` and `[room]` say.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoomClass {
    /// Which rooms.
    #[serde(rename = "match")]
    pub pattern: Pattern,
    /// See `limits.user_mode`.
    pub user_mode: Option<Mode>,
    /// See `limits.user_burst`.
    pub user_burst: Option<u32>,
    /// See `limits.user_per_s`.
    pub user_per_s: Option<f64>,
    /// See `limits.room_mode`.
    pub room_mode: Option<Mode>,
    /// See `limits.room_window`.
    pub room_window: Option<Duration>,
    /// See `limits.room_count_max`.
    pub room_count_max: Option<u32>,
    /// See `limits.text_chars_max`.
    pub text_chars_max: Option<usize>,
    /// See `limits.text_bytes_max`.
    pub text_bytes_max: Option<usize>,
    /// See `room.backlog_bytes`.
    pub backlog_bytes: Option<Size>,
    /// See `room.backlog_age`.
    pub backlog_age: Option<Duration>,
    /// See `room.snapshot_entries`.
    pub snapshot_entries: Option<usize>,
}

/// The keys a class may set besides `match`, for the reference.
pub const CLASS_KEYS: [&str; 11] = [
    "user_mode",
    "user_burst",
    "user_per_s",
    "room_mode",
    "room_window",
    "room_count_max",
    "text_chars_max",
    "text_bytes_max",
    "backlog_bytes",
    "backlog_age",
    "snapshot_entries",
];

impl RoomClass {
    /// The settings of every room with this class's laid over them.
    ///
    /// # Errors
    /// When one is outside its bounds.
    pub fn over(&self, raw: &Raw) -> Result<Raw, OutOfBounds> {
        let mut raw = raw.clone();
        let (limits, room) = (&mut raw.limits, &mut raw.room);
        set(&mut limits.user_mode, self.user_mode);
        set(&mut limits.user_burst, self.user_burst);
        set(&mut limits.user_per_s, self.user_per_s);
        set(&mut limits.room_mode, self.room_mode);
        set(&mut limits.room_window, self.room_window);
        set(&mut limits.room_count_max, self.room_count_max);
        set(&mut limits.text_chars_max, self.text_chars_max);
        set(&mut limits.text_bytes_max, self.text_bytes_max);
        set(&mut room.backlog_bytes, self.backlog_bytes);
        set(&mut room.backlog_age, self.backlog_age);
        set(&mut room.snapshot_entries, self.snapshot_entries);
        raw.limits.check().and_then(|()| raw.room.check()).map_err(|wrong| {
            let name = wrong.key.rsplit('.').next().unwrap_or_default();
            OutOfBounds { key: format!("rooms.{name}"), ..wrong }
        })?;
        Ok(raw)
    }
}

fn set<T>(to: &mut T, from: Option<T>) {
    if let Some(value) = from {
        *to = value;
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
