//! Frames that the server sends, byte for byte.

use crate::disconnect::DisconnectCode;
use crate::websocket::frame::{self, Opcode, SERVER_HEADER_BYTES_MAX};

/// `write` and `header`: lengths in their shortest form (RFC 6455 §5.2, §5.7).
#[test]
fn lengths_are_in_their_shortest_form() {
    for (bytes, rsv1, expected) in [
        (0, false, b"\x81\x00".as_slice()),
        (5, false, b"\x81\x05"),
        (5, true, b"\xc1\x05"),
        (125, false, b"\x81\x7d"),
        (126, false, b"\x81\x7e\x00\x7e"),
        (65_535, false, b"\x81\x7e\xff\xff"),
        (65_536, true, b"\xc1\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
    ] {
        let payload = vec![b'x'; bytes];
        let mut out = b"before".to_vec();
        frame::write(&mut out, Opcode::Text, rsv1, &payload);
        assert_eq!(out, [b"before", expected, &payload].concat(), "{bytes} bytes");
        assert!(expected.len() <= SERVER_HEADER_BYTES_MAX);
    }
}

/// `Opcode`: each has the number of RFC 6455 §11.8, and the other ten have no name.
#[test]
fn opcodes_have_their_registered_numbers() {
    let named: Vec<u8> = (0..=15).filter_map(Opcode::from_bits).map(|opcode| opcode as u8).collect();
    assert_eq!(named, [0, 1, 2, 8, 9, 10]);
    let control: Vec<u8> = (0..=15)
        .filter_map(Opcode::from_bits)
        .filter(|opcode| opcode.is_control())
        .map(|opcode| opcode as u8)
        .collect();
    assert_eq!(control, [8, 9, 10]);
}

/// `close` and `close_echo`: code first, then the reason.
#[test]
fn closes_carry_their_code() {
    let mut out = Vec::new();
    frame::close(&mut out, DisconnectCode::TooBig);
    assert_eq!(out, b"\x88\x11\x03\xf1message too big");
    for (code, expected) in [(Some(1000), b"\x88\x02\x03\xe8".as_slice()), (None, b"\x88\x00")] {
        let mut out = Vec::new();
        frame::close_echo(&mut out, code);
        assert_eq!(out, expected, "{code:?}");
    }
}
