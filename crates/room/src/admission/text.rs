//! What a comment's text may be.

use danmaku_wire::native::ErrorCode;

/// Bounds of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Unicode scalar values.
    pub chars_max: usize,
    /// Bytes of UTF-8.
    pub bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { chars_max: 100, bytes_max: 400 }
    }
}

/// Checks a text and gives back what is to be shown: without blanks at its ends.
///
/// # Errors
/// `text_empty` for nothing but blanks, `text_too_long` over either bound, `text_invalid` for control
/// characters (a line end would tear a one-line comment) and for bidirectional overrides, which
/// would turn the text of others around (UAX #9 §2.2; isolates are balanced per paragraph and stay).
pub fn check<'a>(text: &'a str, limits: &Limits) -> Result<&'a str, ErrorCode> {
    let text = text.trim();
    if text.is_empty() || text.chars().all(is_blank) {
        return Err(ErrorCode::TextEmpty);
    }
    if text.len() > limits.bytes_max || text.chars().count() > limits.chars_max {
        return Err(ErrorCode::TextTooLong);
    }
    match text.chars().any(|c| c.is_control() || matches!(c, '\u{202A}'..='\u{202E}')) {
        true => Err(ErrorCode::TextInvalid),
        false => Ok(text),
    }
}

/// White space, and what shows nothing although Unicode does not call it white space.
fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}' | '\u{3164}' | '\u{2800}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `check` over what viewers send and what tears a screen.
    #[test]
    fn texts_are_trimmed_bounded_and_free_of_controls() {
        let limits = Limits { chars_max: 5, bytes_max: 15 };
        for (text, want) in [
            ("hi", Ok("hi")),
            ("  hi\n", Ok("hi")),
            ("弹幕弹幕弹", Ok("弹幕弹幕弹")),
            ("弹幕弹幕弹幕", Err(ErrorCode::TextTooLong)),
            ("😀😀😀😀", Err(ErrorCode::TextTooLong)),
            ("", Err(ErrorCode::TextEmpty)),
            (" \u{3000}\t", Err(ErrorCode::TextEmpty)),
            ("\u{200B}\u{FEFF}", Err(ErrorCode::TextEmpty)),
            ("a\nb", Err(ErrorCode::TextInvalid)),
            ("a\u{1B}b", Err(ErrorCode::TextInvalid)),
            ("a\u{202E}b", Err(ErrorCode::TextInvalid)),
            ("👩‍👩", Ok("👩‍👩")),
        ] {
            assert_eq!(check(text, &limits), want, "{text:?}");
        }
    }
}
