//! A table (RFC 4180) with a line of names, for spreadsheets: UTF-8 with the mark by which they know it.

use crate::comment::Comment;
use crate::escape;
use crate::number::{digits, hex_color};

pub(crate) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice("\u{FEFF}".as_bytes());
    out.extend_from_slice(b"time_ms,seq,sent_ms,user,name,mode,color,size,text\r\n");
}

pub(crate) fn comment(out: &mut Vec<u8>, comment: &Comment<'_>) {
    for value in [comment.time_ms, comment.seq, comment.sent_ms] {
        digits(out, value);
        out.push(b',');
    }
    for text in [&comment.user, &comment.name] {
        escape::csv_field(out, text);
        out.push(b',');
    }
    out.extend_from_slice(comment.mode.as_str().as_bytes());
    out.extend_from_slice(b",#");
    hex_color(out, comment.color);
    out.push(b',');
    digits(out, comment.size.into());
    out.push(b',');
    escape::csv_field(out, &comment.text);
    out.extend_from_slice(b"\r\n");
}
