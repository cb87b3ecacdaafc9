//! Frames that the server sends (RFC 6455 §5.2): never masked, never fragmented. And the header of a client's frame,
//! for whoever speaks as one.
//!
//! In come payloads, out go bytes appended to the caller's buffer. The same bytes suit every
//! connection, so that a batch is framed once and shared; nothing here knows a connection.

use crate::disconnect::DisconnectCode;

/// The longest header of a frame that the server sends, in bytes.
pub const SERVER_HEADER_BYTES_MAX: usize = 10;
/// The longest payload of a control frame, in bytes (RFC 6455 §5.5).
pub const CONTROL_PAYLOAD_BYTES_MAX: usize = 125;

/// The last frame of a message.
pub(super) const FIN: u8 = 0x80;
/// The message is deflated (RFC 7692 §6).
pub(super) const RSV1: u8 = 0x40;
/// The payload is masked, as every client's is; in the byte of the length.
pub(super) const MASKED: u8 = 0x80;

/// What a frame is (RFC 6455 §5.2); the reserved values have no variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// More of the message that is under way.
    Continuation = 0,
    /// The first frame of a UTF-8 message.
    Text = 1,
    /// The first frame of a message of bytes.
    Binary = 2,
    /// The sender will send nothing more.
    Close = 8,
    /// To be answered by a pong with the same payload.
    Ping = 9,
    /// The answer to a ping, or a heartbeat nobody asked for.
    Pong = 10,
}

impl Opcode {
    /// The opcode in the low four bits of a header's first byte; `None` for a reserved one.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits & 0x0f {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Whether this is a close, ping or pong, which may stand between the frames of a message.
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Appends the header of a whole, unmasked message: `payload_bytes` of payload must follow it.
///
/// `rsv1` says that the payload is deflated (RFC 7692 §6): only for text and binary, and only to a
/// peer with whom that was agreed.
pub fn header(out: &mut Vec<u8>, opcode: Opcode, rsv1: bool, payload_bytes: usize) {
    out.push(FIN | if rsv1 { RSV1 } else { 0 } | opcode as u8);
    length(out, 0, payload_bytes);
}

/// Appends the header of a client's frame: `first` is its first byte, and `payload_bytes` of payload, masked with
/// `key`, must follow it.
pub fn client_header(out: &mut Vec<u8>, first: u8, payload_bytes: usize, key: [u8; 4]) {
    out.push(first);
    length(out, MASKED, payload_bytes);
    out.extend_from_slice(&key);
}

/// The length in its shortest form, in one byte with the bit that tells of a mask.
fn length(out: &mut Vec<u8>, masked: u8, payload_bytes: usize) {
    match payload_bytes {
        0..=125 => out.push(masked | payload_bytes as u8),
        126..=0xffff => {
            out.push(masked | 126);
            out.extend_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
}

/// Appends a whole, unmasked message; `rsv1` as in [`header`].
pub fn write(out: &mut Vec<u8>, opcode: Opcode, rsv1: bool, payload: &[u8]) {
    out.reserve(SERVER_HEADER_BYTES_MAX + payload.len());
    header(out, opcode, rsv1, payload.len());
    out.extend_from_slice(payload);
}

/// Appends the close frame by which the server ends a connection: code and reason (RFC 6455 §5.5.1).
pub fn close(out: &mut Vec<u8>, code: DisconnectCode) {
    let reason = code.reason().as_bytes();
    header(out, Opcode::Close, false, 2 + reason.len());
    out.extend_from_slice(&code.code().to_be_bytes());
    out.extend_from_slice(reason);
}

/// Appends the answer to a peer's close: its own code back, or an empty one if it gave none.
///
/// The reason is not echoed: nobody reads it, and a stranger wrote it.
pub fn close_echo(out: &mut Vec<u8>, code: Option<u16>) {
    match code {
        Some(code) => write(out, Opcode::Close, false, &code.to_be_bytes()),
        None => header(out, Opcode::Close, false, 0),
    }
}
