//! A JSON object a line: the comment as the native protocol writes an item of a batch, so that one reader
//! serves both. Fields at their default are absent but `seq`, `text` and `streamMs`.

use danmaku_wire::entry::{COLOR_DEFAULT, Mode, SIZE_DEFAULT};

use crate::comment::Comment;
use crate::escape;
use crate::number::digits;

pub(crate) fn comment(out: &mut Vec<u8>, comment: &Comment<'_>) {
    out.extend_from_slice(b"{\"seq\":");
    digits(out, comment.seq);
    if !comment.user.is_empty() || !comment.name.is_empty() {
        out.extend_from_slice(b",\"user\":{\"id\":");
        escape::json_string(out, &comment.user);
        if !comment.name.is_empty() {
            out.extend_from_slice(b",\"name\":");
            escape::json_string(out, &comment.name);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b",\"text\":");
    escape::json_string(out, &comment.text);
    if comment.mode != Mode::Scroll {
        out.extend_from_slice(b",\"mode\":\"");
        out.extend_from_slice(comment.mode.as_str().as_bytes());
        out.push(b'"');
    }
    if comment.color != COLOR_DEFAULT {
        number(out, "color", comment.color.into());
    }
    if comment.size != SIZE_DEFAULT {
        number(out, "size", comment.size.into());
    }
    number(out, "streamMs", comment.time_ms);
    if comment.sent_ms != 0 {
        number(out, "at", comment.sent_ms);
    }
    out.extend_from_slice(b"}\n");
}

fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    digits(out, value);
}
