//! The frame parser alone, without deflate: any bytes in any pieces, against the RFC by the book and, head
//! by head, against tungstenite.
//!
//! Input: cuts and bytes.

#![no_main]

use std::io::Cursor;

use danmaku_fuzz::connection::{self, LIMITS, Seen};
use danmaku_fuzz::frames;
use danmaku_wire::websocket::Violation;
use libfuzzer_sys::fuzz_target;
use tungstenite::protocol::frame::FrameHeader;

fuzz_target!(|data: &[u8]| {
    let Some((cuts, bytes)) = connection::cuts_and_bytes(data) else { return };
    check_first_head(bytes);
    connection::check(false, bytes, &cuts, &frames::read(bytes, false, &LIMITS));
});

/// What another implementation reads in the first head must fit what comes of it, and of its payload, here.
fn check_first_head(bytes: &[u8]) {
    let mut cursor = Cursor::new(bytes);
    let parsed = FrameHeader::parse(&mut cursor);
    let payload_at = cursor.position() as usize;
    let end = match &parsed {
        Ok(Some((_, length))) => payload_at.saturating_add(*length as usize).min(bytes.len()),
        _ => bytes.len(),
    };
    let seen = frames::read(&bytes[..end], false, &LIMITS);
    let refused = match seen.first() {
        Some(Seen::End(violation)) => Some(violation),
        _ => None,
    };
    match parsed {
        // It knows no limit and no shortest form, and does not look at masks here.
        Err(why) => assert!(refused.is_some(), "tungstenite: {why}, here: {seen:?}"),
        Ok(None) => assert!(seen.is_empty() || refused.is_some(), "no whole head, but {seen:?}"),
        Ok(Some((header, length))) => match refused {
            Some(Violation::Unmasked) => assert!(header.mask.is_none()),
            Some(Violation::FrameTooBig { bytes, .. }) => assert_eq!(*bytes, length),
            Some(_) => {}
            None => {
                assert!(header.mask.is_some() && !(header.rsv1 | header.rsv2 | header.rsv3));
                let whole = (end - payload_at) as u64 == length;
                assert_eq!(seen.len(), usize::from(whole && header.is_final));
            }
        },
    }
}
