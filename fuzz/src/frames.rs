//! RFC 6455 §5 and RFC 7692 read by the book: a whole input at once, one frame after the other, with no
//! thought of speed or of cuts. What the decoder must make of the same bytes.

use danmaku_wire::websocket::{Inflater, Limits, Violation};

use crate::connection::Seen;

/// A data message that is under way.
struct Message {
    text: bool,
    compressed: bool,
    frames: usize,
    payload: Vec<u8>,
}

/// The head of one frame, all limits checked.
struct Head {
    first: u8,
    key: [u8; 4],
    payload_bytes: usize,
}

/// Everything that comes of `bytes`, to the end of them or of the connection.
pub fn read(bytes: &[u8], deflate: bool, limits: &Limits) -> Vec<Seen> {
    let mut seen = Vec::new();
    let end = follow(bytes, deflate, limits, &mut seen).err();
    seen.extend(end.map(Seen::End));
    seen
}

fn follow(mut rest: &[u8], deflate: bool, limits: &Limits, seen: &mut Vec<Seen>) -> Result<(), Violation> {
    let mut message = None;
    while let Some(head) = head(&mut rest, deflate, message.as_ref(), limits)? {
        let there = rest.len().min(head.payload_bytes);
        let payload: Vec<u8> =
            rest[..there].iter().zip(head.key.iter().cycle()).map(|(b, k)| b ^ k).collect();
        rest = &rest[there..];
        let whole = there == head.payload_bytes;
        match head.first & 0x0f {
            _ if !whole && head.first & 0x08 != 0 => return Ok(()),
            8 => {
                seen.push(Seen::Close(close(&payload)?));
                return Ok(());
            }
            9 => seen.push(Seen::Ping(payload)),
            10 => seen.push(Seen::Pong(payload)),
            opcode => {
                let message = message.get_or_insert_with(|| Message {
                    text: opcode == 1,
                    compressed: head.first & 0x40 != 0,
                    frames: 0,
                    payload: Vec::new(),
                });
                message.frames += 1;
                message.payload.extend(payload);
                // Text that can never become UTF-8 is refused before its end has come.
                let text = message.text && !message.compressed;
                if text && str::from_utf8(&message.payload).is_err_and(|e| e.error_len().is_some()) {
                    return Err(Violation::TextNotUtf8);
                }
                if !whole {
                    return Ok(());
                }
            }
        }
        let data = head.first & 0x08 == 0;
        if let Some(message) = message.take_if(|_| data && head.first & 0x80 != 0) {
            seen.push(complete(message, limits)?);
        }
    }
    Ok(())
}

/// Takes a frame's head off; `None` where it is incomplete and, as far as it goes, right.
fn head(
    rest: &mut &[u8],
    deflate: bool,
    message: Option<&Message>,
    limits: &Limits,
) -> Result<Option<Head>, Violation> {
    let Some(&first) = rest.first() else { return Ok(None) };
    let (opcode, control) = (first & 0x0f, first & 0x08 != 0);
    if first & 0x30 != 0 {
        return Err(Violation::ReservedBit);
    }
    if !matches!(opcode, 0..=2 | 8..=10) {
        return Err(Violation::ReservedOpcode(opcode));
    }
    if first & 0x40 != 0 && !(deflate && matches!(opcode, 1 | 2)) {
        return Err(Violation::UnexpectedRsv1);
    }
    match (opcode, message) {
        (8.., _) if first & 0x80 == 0 => return Err(Violation::ControlFragmented),
        (0, None) => return Err(Violation::NothingToContinue),
        (1 | 2, Some(_)) => return Err(Violation::MessageInterrupted),
        _ => {}
    }
    let Some(&second) = rest.get(1) else { return Ok(None) };
    if second & 0x80 == 0 {
        return Err(Violation::Unmasked);
    }
    let short = second & 0x7f;
    if control && short > 125 {
        return Err(Violation::ControlTooLong);
    }
    let width = match short {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some(long) = rest.get(2..2 + width) else { return Ok(None) };
    let long = long.iter().fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
    let length = if width == 0 { u64::from(short) } else { long };
    if length >= 1 << 63 {
        return Err(Violation::LengthOutOfRange);
    }
    if width == 2 && length < 126 || width == 8 && length < 1 << 16 {
        return Err(Violation::LengthNotMinimal);
    }
    if !control {
        within_limits(length, message, limits)?;
    }
    let Some(key) = rest.get(2 + width..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
    *rest = &rest[2 + width + key.len()..];
    Ok(Some(Head { first, key: *key, payload_bytes: length as usize }))
}

fn within_limits(length: u64, message: Option<&Message>, limits: &Limits) -> Result<(), Violation> {
    if length > limits.frame_bytes_max as u64 {
        return Err(Violation::FrameTooBig { bytes: length, max: limits.frame_bytes_max });
    }
    if message.is_some_and(|message| message.frames == limits.fragments_max) {
        return Err(Violation::TooManyFragments { max: limits.fragments_max });
    }
    let before = message.map_or(0, |message| message.payload.len());
    if before + length as usize > limits.message_bytes_max {
        return Err(Violation::MessageTooBig { max: limits.message_bytes_max });
    }
    Ok(())
}

/// RFC 6455 §5.5.1, §7.4.1 and §7.4.2.
fn close(payload: &[u8]) -> Result<Option<(u16, String)>, Violation> {
    let &[high, low, ref reason @ ..] = payload else {
        return if payload.is_empty() { Ok(None) } else { Err(Violation::CloseTooShort) };
    };
    let code = u16::from_be_bytes([high, low]);
    let defined = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014].contains(&code);
    if !defined && !(3000..5000).contains(&code) {
        return Err(Violation::CloseCode(code));
    }
    match str::from_utf8(reason) {
        Ok(reason) => Ok(Some((code, reason.to_owned()))),
        Err(_) => Err(Violation::ReasonNotUtf8),
    }
}

/// A whole message. That the inflater is right is the affair of a target of its own; here it is fresh, so
/// that the decoder's, which has seen other messages, must not remember them.
fn complete(message: Message, limits: &Limits) -> Result<Seen, Violation> {
    let payload = match message.compressed {
        false => message.payload,
        true => match Inflater::new().inflate(&message.payload, limits.message_bytes_max) {
            Ok(payload) => payload.to_vec(),
            Err(danmaku_wire::websocket::deflate::InflateError::Corrupt) => return Err(Violation::Corrupt),
            Err(danmaku_wire::websocket::deflate::InflateError::TooBig { max }) => {
                return Err(Violation::MessageTooBig { max });
            }
        },
    };
    match message.text {
        false => Ok(Seen::Binary(payload)),
        true => String::from_utf8(payload).map(Seen::Text).map_err(|_| Violation::TextNotUtf8),
    }
}
