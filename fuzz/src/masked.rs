//! Frames as a client writes them (RFC 6455 §5.2).

use danmaku_wire::websocket::frame::client_header;
use danmaku_wire::websocket::mask;

/// The last frame of a message.
pub const FIN: u8 = 0x80;
/// The message is deflated (RFC 7692 §6).
pub const RSV1: u8 = 0x40;
/// Opcode of text.
pub const TEXT: u8 = 1;
/// Opcode of bytes.
pub const BINARY: u8 = 2;
/// Opcode of a close.
pub const CLOSE: u8 = 8;
/// Opcode of a ping.
pub const PING: u8 = 9;
/// Opcode of a pong.
pub const PONG: u8 = 10;

/// Appends a masked frame that begins with the byte `first`, its length in the shortest form.
pub fn write_frame(out: &mut Vec<u8>, first: u8, key: [u8; 4], payload: &[u8]) {
    client_header(out, first, payload.len(), key);
    let from = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[from..], key, 0);
}
