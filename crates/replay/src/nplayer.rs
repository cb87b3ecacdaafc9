//! A list for @nplayer/danmaku: `[{"text","time" in seconds,"color","type"},…]`. It has to be in the order
//! of time, since the plugin's cursor only goes forward.

use crate::comment::Comment;
use crate::escape;
use crate::number::{hex_color, seconds};

pub(crate) fn comment(out: &mut Vec<u8>, comment: &Comment<'_>) {
    out.extend_from_slice(b"{\"text\":");
    escape::json_string(out, &comment.text);
    out.extend_from_slice(b",\"time\":");
    seconds(out, comment.time_ms);
    out.extend_from_slice(b",\"color\":\"#");
    hex_color(out, comment.color);
    out.extend_from_slice(b"\",\"type\":\"");
    out.extend_from_slice(comment.mode.as_str().as_bytes());
    out.extend_from_slice(b"\"}");
}
