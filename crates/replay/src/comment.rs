//! A comment at its time in a medium.

use std::borrow::Cow;

use danmaku_wire::entry::{COLOR_DEFAULT, Mode, SIZE_DEFAULT};

/// The largest colour: white.
const COLOR_MAX: u32 = 0x00FF_FFFF;

/// A comment at its time in a medium, as far as replay files tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment<'c> {
    /// Its number in the room's log; 0 where it has none.
    pub seq: u64,
    /// Where in the medium it appears, milliseconds.
    pub time_ms: u64,
    /// When it was sent, milliseconds since 1970; 0 where nobody knows.
    pub sent_ms: u64,
    /// How it moves.
    pub mode: Mode,
    /// 0xRRGGBB; what is beyond is cut off.
    pub color: u32,
    /// Pixels of a player's reference height; [`SIZE_DEFAULT`] is the size of most.
    pub size: u8,
    /// Id of whoever wrote it; empty where nobody knows.
    pub user: Cow<'c, str>,
    /// Display name; empty for none.
    pub name: Cow<'c, str>,
    /// The text. A line feed begins a new line where the format has lines.
    pub text: Cow<'c, str>,
}

impl Default for Comment<'_> {
    fn default() -> Self {
        Self {
            seq: 0,
            time_ms: 0,
            sent_ms: 0,
            mode: Mode::Scroll,
            color: COLOR_DEFAULT,
            size: SIZE_DEFAULT,
            user: Cow::Borrowed(""),
            name: Cow::Borrowed(""),
            text: Cow::Borrowed(""),
        }
    }
}

impl Comment<'_> {
    /// The same comment with nothing left that no format can carry; see [`carried`].
    pub(crate) fn carried(&self) -> Comment<'_> {
        Comment {
            color: self.color & COLOR_MAX,
            user: carried(&self.user),
            name: carried(&self.name),
            text: carried(&self.text),
            ..*self
        }
    }
}

/// Takes off what is no character of XML 1.0 (§2.2) and what XML 1.0 discourages: controls but line feed and tab, U+FFFE and
/// U+FFFF. Line ends become line feeds. No other format has a use for them either, and a comment is the
/// same comment in each.
pub(crate) fn carried(text: &str) -> Cow<'_, str> {
    let falls = |c: char| (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{FFFE}' | '\u{FFFF}');
    if !text.contains(falls) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => kept.push('\n'),
            c if falls(c) => {}
            c => kept.push(c),
        }
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `carried`: borrowed where nothing falls, so that most comments cost no allocation.
    #[test]
    fn what_no_format_carries_falls_and_the_rest_stays() {
        assert!(matches!(carried("前方高能 \u{1F600}\n\tx"), Cow::Borrowed(_)));
        for (text, kept) in [
            ("a\r\nb\rc\nd", "a\nb\nc\nd"),
            ("\0\u{8}\u{1b}[31m", "[31m"),
            ("x\u{7f}\u{85}\u{9f}y", "xy"),
            ("\u{FFFE}\u{FFFF}\u{FFFD}", "\u{FFFD}"),
        ] {
            assert_eq!(carried(text), kept, "{text:?}");
        }
    }
}
