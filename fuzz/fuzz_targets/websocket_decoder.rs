//! A connection's bytes, deflate agreed, in any pieces: no panic, and what RFC 6455 and RFC 7692 make of
//! them by the book, whatever the pieces.
//!
//! Input: a byte of flags (bit 0: deflate agreed), and then cuts and bytes.

#![no_main]

use danmaku_fuzz::connection::{self, LIMITS};
use danmaku_fuzz::frames;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((flags, data)) = data.split_first() else { return };
    let Some((cuts, bytes)) = connection::cuts_and_bytes(data) else { return };
    let deflate = flags & 1 != 0;
    connection::check(deflate, bytes, &cuts, &frames::read(bytes, deflate, &LIMITS));
});
