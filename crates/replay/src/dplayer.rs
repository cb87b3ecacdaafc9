//! The answer of DPlayer's API, version 3: `{"code":0,"data":[[SECONDS,TYPE,COLOUR,AUTHOR,TEXT],…]}`.
//!
//! The player puts texts into `innerHTML`, so they come escaped for HTML, as its own server sends them.

use danmaku_wire::entry::Mode;

use crate::comment::Comment;
use crate::escape;
use crate::number::{digits, seconds};

pub(crate) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"code\":0,\"data\":[");
}

pub(crate) fn comment(out: &mut Vec<u8>, comment: &Comment<'_>) {
    out.push(b'[');
    seconds(out, comment.time_ms);
    out.push(b',');
    digits(out, number_of_mode(comment.mode));
    out.push(b',');
    // The player takes 0 for no colour, which is white: the next to black is what black gets.
    digits(out, comment.color.max(1).into());
    out.push(b',');
    escape::html_in_json(out, author(comment));
    out.push(b',');
    escape::html_in_json(out, &comment.text);
    out.push(b']');
}

pub(crate) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"]}\n");
}

/// The number that DPlayer and ArtPlayer agree upon.
pub(crate) const fn number_of_mode(mode: Mode) -> u64 {
    match mode {
        Mode::Scroll => 0,
        Mode::Top => 1,
        Mode::Bottom => 2,
    }
}

fn author<'c>(comment: &'c Comment<'_>) -> &'c str {
    if comment.name.is_empty() { &comment.user } else { &comment.name }
}
