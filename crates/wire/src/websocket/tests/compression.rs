//! permessage-deflate on the way in and out.

use proptest::prelude::*;

use super::*;
use crate::websocket::deflate::{Deflater, InflateError};

const RSV1: u8 = 0x40;

fn deflated(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Deflater::new(6).compress(payload, &mut out);
    out
}

/// RFC 7692 §7.2.3: the payloads that the RFC itself gives, and what else a peer may send.
#[test]
fn compressed_messages_arrive_as_text() {
    let hello = b"\xf2\x48\xcd\xc9\xc9\x07\x00".as_slice();
    type Row = (&'static str, Vec<Vec<u8>>, &'static [&'static str]);
    let rows: [Row; 10] = [
        ("one block", vec![frame(TEXT | RSV1, hello)], &["Hello"]),
        ("two fragments", vec![frame(TEXT_BEGINS | RSV1, &hello[..3]), frame(ENDS, &hello[3..])], &["Hello"]),
        (
            "an empty end",
            vec![frame(TEXT_BEGINS | RSV1, hello), frame(GOES_ON, b""), frame(ENDS, b"")],
            &["Hello"],
        ),
        (
            "not compressed",
            vec![frame(TEXT | RSV1, b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00")],
            &["Hello"],
        ),
        ("BFINAL", vec![frame(TEXT | RSV1, b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00")], &["Hello"]),
        ("BFINAL at the very end", vec![frame(TEXT | RSV1, b"\xf3\x48\xcd\xc9\xc9\x07\x00")], &["Hello"]),
        (
            "BFINAL, then more",
            vec![frame(TEXT | RSV1, b"\xf3\x48\xcd\xc9\xc9\x07\x00\xf2\x48\xcd\xc9\xc9\x07\x00")],
            &["HelloHello"],
        ),
        (
            "two blocks",
            vec![frame(TEXT | RSV1, b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00")],
            &["Hello"],
        ),
        ("empty", vec![frame(TEXT | RSV1, b"\x00")], &[""]),
        (
            "some do, some do not",
            vec![frame(TEXT | RSV1, hello), frame(TEXT, b"plain"), frame(TEXT | RSV1, hello)],
            &["Hello", "plain", "Hello"],
        ),
    ];
    for (name, frames, expected) in rows {
        let seen = expected.iter().map(|expected| text(expected)).collect();
        check(name, true, WIDE, &frames.concat(), &(seen, None));
    }
}

/// RFC 7692 §6 and §7.2.2: RSV1 in a wrong place, data that is none, text that is none.
#[test]
fn wrong_compression_is_refused() {
    let empty_streams = [0x03, 0x00].repeat(1000);
    let rows: [(&str, Vec<Vec<u8>>, Violation); 7] = [
        ("on a ping", vec![frame(PING | RSV1, b"")], Violation::UnexpectedRsv1),
        ("on a close", vec![frame(CLOSE | RSV1, b"")], Violation::UnexpectedRsv1),
        (
            "on a continuation",
            vec![frame(TEXT_BEGINS | RSV1, b"\xf2"), frame(ENDS | RSV1, b"\x48")],
            Violation::UnexpectedRsv1,
        ),
        ("reserved block type", vec![frame(TEXT | RSV1, b"\xff\xff\xff")], Violation::Corrupt),
        ("distance too far", vec![frame(TEXT | RSV1, b"\x4a\x04\x61\x00")], Violation::Corrupt),
        ("streams without end", vec![frame(TEXT | RSV1, &empty_streams)], Violation::Corrupt),
        ("not UTF-8", vec![frame(TEXT | RSV1, &deflated(b"\xff"))], Violation::TextNotUtf8),
    ];
    for (name, frames, end) in rows {
        check(name, true, WIDE, &frames.concat(), &(vec![], Some(end)));
    }
}

/// `Decoder::next`: a few kilobytes that would become megabytes stop at the limit, and are counted.
#[test]
fn a_bomb_stops_at_the_limit() {
    let limits = Limits { message_bytes_max: 65_536, ..WIDE };
    let bomb = deflated(&vec![0; 16 << 20]);
    assert!(bomb.len() < 20_000, "{} bytes are no bomb", bomb.len());
    let mut connection = Connection::new(true, limits);
    connection.feed(&frame(BINARY | RSV1, &bomb));
    assert_eq!(connection.violation, Some(Violation::MessageTooBig { max: 65_536 }));
    assert_eq!(connection.inflater.inflated_bytes(), 65_537);
    assert!(connection.inflater.buffered_bytes() <= 65_537, "no more room than the proof needs");
}

/// `Inflater::inflate`: a message of exactly the limit passes, one byte more does not.
#[test]
fn the_limit_itself_passes() {
    let mut inflater = Inflater::new();
    for bytes in [0, 1, 1023, 1024, 1025, 5000, 70_000] {
        let payload = vec![7; bytes];
        let compressed = deflated(&payload);
        assert_eq!(inflater.inflate(&compressed, bytes), Ok(payload.as_slice()));
        if bytes > 0 {
            let over = Err(InflateError::TooBig { max: bytes - 1 });
            assert_eq!(inflater.inflate(&compressed, bytes - 1), over);
        }
    }
}

/// `Inflater::inflate`: a refused message leaves nothing behind for the next, of whoever it is.
#[test]
fn a_refused_message_does_not_touch_the_next() {
    let mut inflater = Inflater::new();
    let good = deflated(b"after the fault");
    for bad in [b"\xff\xff".as_slice(), b"\xf2\x48", &deflated(&[0; 5000])[..5], b""] {
        let _refused_or_short = inflater.inflate(bad, 100).is_err();
        assert_eq!(inflater.inflate(&good, 100), Ok(b"after the fault".as_slice()), "after {bad:x?}");
    }
}

/// Bytes that deflate cannot shrink, from a fixed xorshift.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(step).take(bytes).collect()
}

/// `Deflater::compress`: the bytes depend on the payload alone, not on what came before or on how
/// much room the buffer happened to have. The shared frames of a room rest on it.
#[test]
fn the_same_payload_always_gives_the_same_bytes() {
    for level in [1, 4, 6, 9] {
        let mut deflater = Deflater::new(level);
        let mut inflater = Inflater::new();
        for payload in [noise(1), noise(200), noise(100_000), b"danmaku ".repeat(4000), vec![]] {
            let mut first = Vec::new();
            deflater.compress(&payload, &mut first);
            assert_eq!(inflater.inflate(&first, payload.len()), Ok(payload.as_slice()), "level {level}");
            for room in (0..40).map(|extra| first.len() + extra).chain([0, 1 << 18]) {
                let mut again = Vec::with_capacity(room);
                deflater.compress(b"something else", &mut Vec::new());
                deflater.compress(&payload, &mut again);
                assert!(again == first, "level {level}, {} bytes, room for {room}", payload.len());
            }
        }
    }
}

proptest! {
    /// `compress`, then `inflate`: any payload at any level comes back.
    #[test]
    fn whatever_was_deflated_inflates(payload in prop::collection::vec(0..8_u8, 0..5000), level in 0..12_u32) {
        let mut out = Vec::new();
        Deflater::new(level).compress(&payload, &mut out);
        let mut inflater = Inflater::new();
        prop_assert_eq!(inflater.inflate(&out, payload.len()), Ok(payload.as_slice()));
    }

    /// `inflate`: no bytes whatsoever make it panic, hang or go over the limit.
    #[test]
    fn any_bytes_inflate_or_are_refused(payload in prop::collection::vec(any::<u8>(), 0..2000), max in 0..3000_usize) {
        let mut inflater = Inflater::new();
        if let Ok(message) = inflater.inflate(&payload, max) {
            prop_assert!(message.len() <= max);
        }
        prop_assert!(inflater.inflated_bytes() <= max as u64 + 1);
    }
}
