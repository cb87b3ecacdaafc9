//! The header of a frame that a client sent (RFC 6455 §5.2).
//!
//! In comes what has arrived of it; out comes the header, or that bytes are missing, or the fault.
//! Faults are looked for in the order of the bytes, each as soon as its byte is there, so that the
//! verdict on an input does not depend on how it was cut. It keeps nothing and reads no payload.

use super::decoder::Limits;
use super::frame::{CONTROL_PAYLOAD_BYTES_MAX, FIN, MASKED, Opcode, RSV1};
use super::violation::Violation;

/// The longest header of a client's frame: two bytes, a 64-bit length and the mask's key.
pub(super) const CLIENT_HEADER_BYTES_MAX: usize = 14;

const RSV2_RSV3: u8 = 0x30;

/// A header that stands on its own, all limits checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) opcode: Opcode,
    pub(super) fin: bool,
    pub(super) compressed: bool,
    pub(super) key: [u8; 4],
    pub(super) payload_bytes: usize,
    /// Of the header itself.
    pub(super) header_bytes: usize,
}

/// What a message that is under way has used of its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) message_bytes: usize,
    pub(super) fragments: usize,
}

/// What decides, besides its bytes, whether a header is right.
pub(super) struct Context<'l> {
    pub(super) deflate: bool,
    /// The message under way, if there is one.
    pub(super) progress: Option<Progress>,
    pub(super) limits: &'l Limits,
}

impl Context<'_> {
    /// The header at the start of `bytes`, or `None` while it is incomplete.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Option<Header>, Violation> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let opcode = self.opcode(first)?;
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        if second & MASKED == 0 {
            return Err(Violation::Unmasked);
        }
        let short = second & !MASKED;
        if opcode.is_control() && usize::from(short) > CONTROL_PAYLOAD_BYTES_MAX {
            return Err(Violation::ControlTooLong);
        }
        let Some((length, key_at)) = length(short, bytes)? else { return Ok(None) };
        let payload_bytes = match opcode.is_control() {
            true => usize::from(short),
            false => self.within_limits(length)?,
        };
        let Some(&key) = bytes.get(key_at..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
        Ok(Some(Header {
            opcode,
            fin: first & FIN != 0,
            compressed: first & RSV1 != 0,
            key,
            payload_bytes,
            header_bytes: key_at + key.len(),
        }))
    }

    fn opcode(&self, first: u8) -> Result<Opcode, Violation> {
        if first & RSV2_RSV3 != 0 {
            return Err(Violation::ReservedBit);
        }
        let opcode = Opcode::from_bits(first).ok_or(Violation::ReservedOpcode(first & 0x0f))?;
        let begins = matches!(opcode, Opcode::Text | Opcode::Binary);
        if first & RSV1 != 0 && !(begins && self.deflate) {
            return Err(Violation::UnexpectedRsv1);
        }
        if opcode.is_control() {
            return if first & FIN == 0 { Err(Violation::ControlFragmented) } else { Ok(opcode) };
        }
        match (begins, self.progress) {
            (true, Some(_)) => Err(Violation::MessageInterrupted),
            (false, None) => Err(Violation::NothingToContinue),
            (true, None) | (false, Some(_)) => Ok(opcode),
        }
    }

    /// Refuses from the announced length alone: nothing of a frame too big is ever kept.
    fn within_limits(&self, length: u64) -> Result<usize, Violation> {
        let limits = self.limits;
        let too_big = Violation::FrameTooBig { bytes: length, max: limits.frame_bytes_max };
        let bytes = usize::try_from(length).map_err(|_| too_big)?;
        if bytes > limits.frame_bytes_max {
            return Err(too_big);
        }
        let before = self.progress.unwrap_or(Progress { message_bytes: 0, fragments: 0 });
        if before.fragments >= limits.fragments_max {
            return Err(Violation::TooManyFragments { max: limits.fragments_max });
        }
        if before.message_bytes.saturating_add(bytes) > limits.message_bytes_max {
            return Err(Violation::MessageTooBig { max: limits.message_bytes_max });
        }
        Ok(bytes)
    }
}

/// The payload's length and where the mask's key begins.
fn length(short: u8, bytes: &[u8]) -> Result<Option<(u64, usize)>, Violation> {
    let extended = bytes.get(2..).unwrap_or_default();
    let (length, key_at, least) = match short {
        126 => match extended.first_chunk() {
            Some(raw) => (u64::from(u16::from_be_bytes(*raw)), 4, 126),
            None => return Ok(None),
        },
        127 => match extended.first_chunk() {
            Some(raw) => (u64::from_be_bytes(*raw), 10, 0x1_0000),
            None => return Ok(None),
        },
        _ => (u64::from(short), 2, 0),
    };
    if length >> 63 != 0 {
        return Err(Violation::LengthOutOfRange);
    }
    if length < least {
        return Err(Violation::LengthNotMinimal);
    }
    Ok(Some((length, key_at)))
}
