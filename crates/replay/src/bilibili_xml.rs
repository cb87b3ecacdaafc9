//! Bilibili's XML, version 1.0.
//!
//! A comment is `<d p="SECONDS,MODE,SIZE,COLOUR,SENT,POOL,HASH,ROW">TEXT</d>`. The hash is the CRC-32 of
//! the user's id, by which players know whom a viewer has blocked; the id itself and the name stand in the
//! attributes `uid` and `user`, as recorders of live rooms write them and as other readers pass over.

use danmaku_wire::entry::Mode;

use crate::comment::Comment;
use crate::document::Heading;
use crate::escape;
use crate::number::{digits, seconds};

pub(crate) fn begin(out: &mut Vec<u8>, heading: Heading<'_>) {
    // Converters refuse a file without the declaration.
    out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.extend_from_slice(b"<i><chatserver>danmaku</chatserver><chatid>");
    escape::xml_text(out, heading.media);
    out.extend_from_slice(b"</chatid><mission>0</mission><state>0</state>");
    out.extend_from_slice(b"<real_name>0</real_name><source>k-v</source>\n");
}

pub(crate) fn comment(out: &mut Vec<u8>, comment: &Comment<'_>) {
    out.extend_from_slice(b"<d p=\"");
    seconds(out, comment.time_ms);
    let mode: u64 = match comment.mode {
        Mode::Scroll => 1,
        Mode::Bottom => 4,
        Mode::Top => 5,
    };
    for value in [mode, comment.size.into(), comment.color.into(), comment.sent_ms / 1_000] {
        out.push(b',');
        digits(out, value);
    }
    // The pool of ordinary comments.
    out.extend_from_slice(b",0,");
    hex(out, crc32(comment.user.as_bytes()));
    out.push(b',');
    digits(out, comment.seq);
    out.push(b'"');
    for (name, value) in [("uid", &comment.user), ("user", &comment.name)] {
        if !value.is_empty() {
            out.extend_from_slice(b" ");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            escape::xml_attribute(out, value);
            out.push(b'"');
        }
    }
    out.push(b'>');
    escape::xml_text(out, &comment.text);
    out.extend_from_slice(b"</d>\n");
}

pub(crate) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</i>\n");
}

/// CRC-32 as in zlib: reflected, polynomial 0xEDB88320.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Small hexadecimal digits without zeros before them, as Bilibili writes its hashes.
fn hex(out: &mut Vec<u8>, value: u32) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let nibbles = (8 - value.leading_zeros() / 4).max(1);
    out.extend((0..nibbles).rev().map(|nibble| HEX[(value >> (4 * nibble)) as usize & 15]));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `crc32` and `hex` against the check value of the algorithm and a short hash.
    #[test]
    fn hashes_are_those_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        for (value, text) in [(0, "0"), (0xF, "f"), (0x10, "10"), (0xCBF4_3926, "cbf43926")] {
            let mut out = Vec::new();
            hex(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
