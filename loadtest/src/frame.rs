//! WebSocket frames (RFC 6455 §5) as a client sees them: bytes in, unmasked frames out; and the other way
//! masked ones. Nothing is copied and nothing is allocated but the growth of the output.

/// Continuation of a fragmented message.
pub const CONTINUATION: u8 = 0;
/// A text message.
pub const TEXT: u8 = 1;
/// A binary message.
pub const BINARY: u8 = 2;
/// The peer ends the connection.
pub const CLOSE: u8 = 8;
/// The peer asks for a pong.
pub const PING: u8 = 9;
/// The answer to a ping.
pub const PONG: u8 = 10;

/// The largest payload taken from a server. A run of batches is far smaller; a larger length means that
/// the frame border was lost.
const PAYLOAD_BYTES_MAX: u64 = 16 << 20;

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Whether the message ends here.
    pub fin: bool,
    /// Whether the message is compressed (RFC 7692 §6).
    pub compressed: bool,
    /// What it is.
    pub opcode: u8,
    /// The payload.
    pub payload: &'a [u8],
}

/// How a server broke the framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// A server must not mask (§5.1).
    #[error("the server sent a masked frame")]
    Masked,
    /// RSV2 or RSV3 without an extension that gives them a meaning.
    #[error("the server set reserved bits")]
    ReservedBits,
    /// An opcode that the RFC does not have.
    #[error("the server sent the opcode {0}")]
    Opcode(u8),
    /// Longer than anything a server has to say.
    #[error("the server announced a frame of {0} bytes")]
    TooLong(u64),
    /// A continuation of nothing, or a message within another.
    #[error("the server mixed up its fragments")]
    Fragments,
}

/// Takes the first frame off `bytes`, with the number of bytes it took; `None` while it is incomplete.
///
/// # Errors
/// When the bytes cannot become a frame that a server may send.
pub fn split(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameFault> {
    let &[first, second, ..] = bytes else { return Ok(None) };
    if first & 0x30 != 0 {
        return Err(FrameFault::ReservedBits);
    }
    let opcode = first & 0x0F;
    if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
        return Err(FrameFault::Opcode(opcode));
    }
    if second & 0x80 != 0 {
        return Err(FrameFault::Masked);
    }
    let (head, length) = match second {
        126 => match bytes.get(2..4).and_then(|b| b.try_into().ok()) {
            Some(length) => (4, u16::from_be_bytes(length).into()),
            None => return Ok(None),
        },
        127 => match bytes.get(2..10).and_then(|b| b.try_into().ok()) {
            Some(length) => (10, u64::from_be_bytes(length)),
            None => return Ok(None),
        },
        short => (2, u64::from(short)),
    };
    if length > PAYLOAD_BYTES_MAX {
        return Err(FrameFault::TooLong(length));
    }
    let end = head + length as usize;
    let frame = bytes.get(head..end).map(|payload| {
        let (fin, compressed) = (first & 0x80 != 0, first & 0x40 != 0);
        (Frame { fin, compressed, opcode, payload }, end)
    });
    Ok(frame)
}

/// Appends a whole masked message of at most 65,535 bytes, all that a load tester has to say.
///
/// # Panics
/// When the payload is longer.
pub fn write(out: &mut Vec<u8>, opcode: u8, key: [u8; 4], payload: &[u8]) {
    out.push(0x80 | opcode);
    let length = u16::try_from(payload.len()).expect("a load tester's messages are short");
    match length {
        0..=125 => out.push(0x80 | length as u8),
        _ => {
            out.push(0x80 | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
    out.extend_from_slice(&key);
    out.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0x80 | opcode];
        match payload.len() {
            n @ 0..=125 => out.push(n as u8),
            n @ 126..=65_535 => {
                out.push(126);
                out.extend_from_slice(&(n as u16).to_be_bytes());
            }
            n => {
                out.push(127);
                out.extend_from_slice(&(n as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(payload);
        out
    }

    /// Splits everything in `bytes` and tells what was found and how much was left.
    fn drain(mut bytes: &[u8], seen: &mut Vec<(u8, usize)>) -> usize {
        while let Some((frame, used)) = split(bytes).expect("valid frames") {
            seen.push((frame.opcode, frame.payload.len()));
            bytes = &bytes[used..];
        }
        bytes.len()
    }

    /// `split`: frames in every length form come out the same at every cut.
    #[test]
    fn frames_are_the_same_at_every_cut() {
        let sizes = [0, 1, 125, 126, 300];
        let stream: Vec<u8> = sizes.iter().flat_map(|n| server(TEXT, &vec![b'x'; *n])).collect();
        let whole: Vec<_> = sizes.iter().map(|n| (TEXT, *n)).collect();
        for cut in 0..=stream.len() {
            let mut seen = Vec::new();
            let left = drain(&stream[..cut], &mut seen);
            let rest = drain(&stream[cut - left..], &mut seen);
            assert_eq!((seen, rest), (whole.clone(), 0), "cut at {cut}");
        }
        let long = server(BINARY, &vec![0; 70_000]);
        assert_eq!(split(&long[..long.len() - 1]), Ok(None));
        let (frame, used) = split(&long).expect("valid").expect("complete");
        assert_eq!((frame.payload.len(), used), (70_000, long.len()));
    }

    /// `split`: what a server may not send is named.
    #[test]
    fn what_a_server_may_not_send_is_a_fault() {
        let check = |bytes: &[u8], fault| assert_eq!(split(bytes), Err(fault), "{bytes:x?}");
        check(&[0x81, 0x80], FrameFault::Masked);
        check(&[0xA1, 0], FrameFault::ReservedBits);
        check(&[0x83, 0], FrameFault::Opcode(3));
        check(&[0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0], FrameFault::TooLong(1 << 32));
    }

    /// `write`: the payload comes back under its mask.
    #[test]
    fn a_written_frame_unmasks_to_its_payload() {
        for length in [0usize, 5, 125, 126, 400] {
            let payload: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let mut out = Vec::new();
            write(&mut out, TEXT, [1, 2, 3, 4], &payload);
            let head = if length > 125 { 8 } else { 6 };
            let key = &out[head - 4..head];
            let back: Vec<u8> = out[head..].iter().zip(key.iter().cycle()).map(|(b, k)| b ^ k).collect();
            assert_eq!(back, payload);
            assert_eq!((out[0], out[1] & 0x80), (0x81, 0x80));
        }
    }
}
