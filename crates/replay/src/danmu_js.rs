//! A list for danmu.js: `[{"id","txt","start" and "duration" in ms,"mode","style"},…]`.

use crate::comment::Comment;
use crate::escape;
use crate::number::{digits, hex_color};

/// How long a comment stays, milliseconds; without one the library takes fifteen seconds.
const DURATION_MS: u64 = 5_000;

/// `row` tells items apart that have no number: the library drops an item without an id.
pub(crate) fn comment(out: &mut Vec<u8>, comment: &Comment<'_>, row: u64) {
    out.extend_from_slice(b"{\"id\":\"");
    if comment.seq == 0 {
        out.push(b'r');
        digits(out, row);
    } else {
        digits(out, comment.seq);
    }
    out.extend_from_slice(b"\",\"txt\":");
    escape::json_string(out, &comment.text);
    out.extend_from_slice(b",\"start\":");
    digits(out, comment.time_ms);
    out.extend_from_slice(b",\"duration\":");
    digits(out, DURATION_MS);
    out.extend_from_slice(b",\"mode\":\"");
    out.extend_from_slice(comment.mode.as_str().as_bytes());
    out.extend_from_slice(b"\",\"style\":{\"color\":\"#");
    hex_color(out, comment.color);
    out.extend_from_slice(b"\",\"fontSize\":\"");
    digits(out, comment.size.into());
    out.extend_from_slice(b"px\"}}");
}
