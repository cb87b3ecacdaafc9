//! Frames as a client writes them (RFC 6455 §5.2).

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
    out.push(first);
    match payload.len() {
        bytes @ 0..=125 => out.push(0x80 | bytes as u8),
        bytes @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(bytes as u16).to_be_bytes());
        }
        bytes => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(bytes as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&key);
    let from = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[from..], key, 0);
}
