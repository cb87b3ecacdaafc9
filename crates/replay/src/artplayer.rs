//! A list for artplayer-plugin-danmuku: `[{"text","time" in seconds,"mode" 0–2,"color","id"},…]`.

use crate::comment::Comment;
use crate::dplayer::number_of_mode;
use crate::escape;
use crate::number::{digits, hex_color, seconds};

pub(crate) fn comment(out: &mut Vec<u8>, comment: &Comment<'_>) {
    out.extend_from_slice(b"{\"text\":");
    escape::json_string(out, &comment.text);
    out.extend_from_slice(b",\"time\":");
    // The plugin takes 0 for no time, which is half a second from now.
    seconds(out, comment.time_ms.max(1));
    out.extend_from_slice(b",\"mode\":");
    digits(out, number_of_mode(comment.mode));
    out.extend_from_slice(b",\"color\":\"#");
    hex_color(out, comment.color);
    out.extend_from_slice(b"\",\"id\":\"");
    digits(out, comment.seq);
    out.extend_from_slice(b"\"}");
}
