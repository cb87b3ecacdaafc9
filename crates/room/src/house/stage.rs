//! Where a room is in its life, and the clock of its stream.

use crate::Now;

/// How far behind the stream a comment may say it is, milliseconds.
const BEHIND_MS_MAX: u64 = 60_000;
/// How far ahead.
const AHEAD_MS_MAX: u64 = 1_000;
/// Characters of a stream's name.
const MEDIA_ID_CHARS_MAX: usize = 128;

/// The name of a stream, from the platform: 1 to 128 of `A-Z a-z 0-9 . _ : -`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaId(Box<str>);

impl MediaId {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
        ((1..=MEDIA_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(known)).then(|| Self(text.into()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a room is in its life.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stage {
    /// Anybody may be there; nothing is streamed that the server knows of.
    #[default]
    Open,
    /// A stream runs.
    Live {
        /// Which.
        media: MediaId,
        /// Since when, milliseconds since 1970.
        since_ms: u64,
    },
    /// The stream is over: the room can be read.
    Ended,
    /// Nobody may be there.
    Closed,
}

/// The name of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageName {
    /// [`Stage::Open`].
    Open,
    /// [`Stage::Live`].
    Live,
    /// [`Stage::Ended`].
    Ended,
    /// [`Stage::Closed`].
    Closed,
}

impl StageName {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Open, Self::Live, Self::Ended, Self::Closed].into_iter().find(|name| name.as_str() == text)
    }

    /// As the wire has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Live => "live",
            Self::Ended => "ended",
            Self::Closed => "closed",
        }
    }

    /// The stage of this name, after another one. The clock of a stream that runs already runs on; live without a stream's
    /// name is open.
    pub fn stage(self, before: &Stage, media: Option<MediaId>, now_ms: u64) -> Stage {
        match (self, media) {
            (Self::Live, Some(media)) => match before {
                Stage::Live { media: running, .. } if *running == media => before.clone(),
                _ => Stage::Live { media, since_ms: now_ms },
            },
            (Self::Open | Self::Live, _) => Stage::Open,
            (Self::Ended, _) => Stage::Ended,
            (Self::Closed, _) => Stage::Closed,
        }
    }
}

impl Stage {
    /// As the wire has it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Open => StageName::Open.as_str(),
            Self::Live { .. } => StageName::Live.as_str(),
            Self::Ended => StageName::Ended.as_str(),
            Self::Closed => StageName::Closed.as_str(),
        }
    }

    /// Whether it is as rooms are at first.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Where in the stream a comment stands that says so: within a minute behind the stream's clock and a second ahead of
    /// it. Where no stream runs, what it says stands.
    pub fn stream_ms(&self, now: Now, said: Option<u64>) -> Option<u64> {
        match self {
            Self::Live { since_ms, .. } => {
                let clock = now.wall_ms.saturating_sub(*since_ms);
                said.map(|said| {
                    said.clamp(clock.saturating_sub(BEHIND_MS_MAX), clock.saturating_add(AHEAD_MS_MAX))
                })
            }
            _ => said,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(name: &str) -> MediaId {
        MediaId::parse(name).expect(name)
    }

    /// `Stage::stream_ms`: a minute behind and a second ahead of the stream, and not before its beginning.
    #[test]
    fn a_comment_stands_near_the_clock_of_the_stream() {
        let live = Stage::Live { media: media("m1"), since_ms: 1_000_000 };
        let at = |wall_ms| Now { us: 0, wall_ms };
        for (now_ms, said, stands) in [
            (1_100_000, 100_000, 100_000),
            (1_100_000, 0, 40_000),
            (1_100_000, 39_999, 40_000),
            (1_100_000, 101_000, 101_000),
            (1_100_000, 101_001, 101_000),
            (1_100_000, u64::MAX, 101_000),
            (1_030_000, 0, 0),
            (900_000, 70_000, 1_000),
        ] {
            assert_eq!(live.stream_ms(at(now_ms), Some(said)), Some(stands), "{said} at {now_ms}");
        }
        assert_eq!(live.stream_ms(at(1_100_000), None), None);
        assert_eq!(Stage::Ended.stream_ms(at(1_100_000), Some(7)), Some(7));
    }

    /// `StageName::stage`: the same stream runs on, another one begins.
    #[test]
    fn the_clock_begins_with_the_stream() {
        let first = StageName::Live.stage(&Stage::Open, Some(media("m1")), 5);
        assert_eq!(first, Stage::Live { media: media("m1"), since_ms: 5 });
        assert_eq!(StageName::Live.stage(&first, Some(media("m1")), 9), first);
        let second = StageName::Live.stage(&first, Some(media("m2")), 9);
        assert_eq!(second, Stage::Live { media: media("m2"), since_ms: 9 });
        assert_eq!(StageName::Ended.stage(&second, None, 11), Stage::Ended);
        assert_eq!(StageName::parse("closed"), Some(StageName::Closed));
        assert_eq!(StageName::parse("deleted"), None);
    }

    /// `MediaId::parse`: what could be mistaken for anything else is no name.
    #[test]
    fn names_of_streams_are_plain() {
        for name in ["", "a b", "a\"b", "ü", &"x".repeat(129)] {
            assert_eq!(MediaId::parse(name), None, "{name}");
        }
        assert_eq!(media("a.B_9:-").as_str(), "a.B_9:-");
    }
}
