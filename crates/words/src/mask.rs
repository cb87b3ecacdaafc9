//! Covering what was found: whole characters as a reader sees them, never half of one.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// `text` with one `cover` in place of every user-perceived character (UAX #29) in `ranges`.
///
/// `ranges` are those of a [`crate::Verdict::Mask`] for this text: in order, apart, and on bounds of
/// such characters. What does not fit the text is left out.
pub fn mask(text: &str, ranges: &[Range<usize>], cover: char) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut from = 0;
    for range in ranges {
        let (Some(before), Some(hidden)) = (text.get(from..range.start), text.get(range.clone())) else {
            continue;
        };
        masked.push_str(before);
        masked.extend(hidden.graphemes(true).map(|_| cover));
        from = range.end;
    }
    masked.push_str(text.get(from..).unwrap_or_default());
    masked
}

/// Widens every range to bounds of user-perceived characters, sorts them and joins those that overlap
/// or touch.
pub(crate) fn tidy(text: &str, ranges: &mut Vec<Range<usize>>) {
    for range in ranges.iter_mut() {
        *range = bound_before(text, range.start)..bound_behind(text, range.end);
    }
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
}

// The cursor is given the whole text, so that it never asks for more of it.

fn bound_before(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
        _ => at,
    }
}

fn bound_behind(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.next_boundary(text, 0).ok().flatten().unwrap_or(text.len()),
        _ => at,
    }
}
