//! DEFLATE (RFC 1951) in the forms that RFC 7692 §7.2.3 allows, written and read by an implementation that
//! shares nothing with the server's.

use danmaku_wire::websocket::deflate::InflateError;
use flate2::{Decompress, FlushDecompress, Status};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// What a receiver puts behind a payload (RFC 7692 §7.2.2).
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
/// How many streams one message may end, as the inflater documents it.
pub const STREAM_ENDS_MAX: usize = 64;

/// Inflates a message's payload, stream after stream: as much as came out, and how it ended.
///
/// Where a block breaks off it may already say `Corrupt`: it looks at a block's tables sooner than others.
pub fn inflate(payload: &[u8], bytes_max: usize) -> (Vec<u8>, Result<(), InflateError>) {
    let input = [payload, TAIL.as_slice()].concat();
    let (mut rest, mut out, mut ends) = (input.as_slice(), Vec::new(), 0);
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | TINFL_FLAG_HAS_MORE_INPUT;
    loop {
        // Each stream has a window of its own, so that no match reaches back into the one before.
        let mut stream = vec![0; bytes_max + 1 - out.len()];
        let (status, taken, put) = decompress(&mut DecompressorOxide::new(), rest, &mut stream, 0, flags);
        out.extend_from_slice(&stream[..put]);
        rest = &rest[taken..];
        if out.len() > bytes_max {
            return (out, Err(InflateError::TooBig { max: bytes_max }));
        }
        match status {
            TINFLStatus::NeedsMoreInput => return (out, Ok(())),
            TINFLStatus::Done => {
                ends += 1;
                if ends > STREAM_ENDS_MAX {
                    return (out, Err(InflateError::Corrupt));
                }
                if rest.is_empty() {
                    return (out, Ok(()));
                }
            }
            _ => return (out, Err(InflateError::Corrupt)),
        }
    }
}

/// The same by the server's own library, but with room for everything and a fresh state for each stream:
/// what the server must make of a payload, to the byte and the error.
pub fn inflate_at_once(payload: &[u8], bytes_max: usize) -> Result<Vec<u8>, InflateError> {
    let input = [payload, TAIL.as_slice()].concat();
    let (mut rest, mut out, mut ends) = (input.as_slice(), Vec::new(), 0);
    while !rest.is_empty() {
        let mut stream = Decompress::new(false);
        let mut room = vec![0; bytes_max + 1 - out.len()];
        let status = stream.decompress(rest, &mut room, FlushDecompress::Sync);
        out.extend_from_slice(&room[..stream.total_out() as usize]);
        rest = &rest[stream.total_in() as usize..];
        if out.len() > bytes_max {
            return Err(InflateError::TooBig { max: bytes_max });
        }
        match status.map_err(|_| InflateError::Corrupt)? {
            Status::StreamEnd => ends += 1,
            Status::Ok | Status::BufError if rest.is_empty() => {}
            _ => return Err(InflateError::Corrupt),
        }
        if ends > STREAM_ENDS_MAX {
            return Err(InflateError::Corrupt);
        }
    }
    Ok(out)
}

/// Stored blocks of at most `block_bytes` each, ending at a byte's border without the tail.
pub fn stored(payload: &[u8], block_bytes: u16) -> Vec<u8> {
    let mut out = Vec::new();
    for block in payload.chunks(usize::from(block_bytes.max(1))) {
        let length = block.len() as u16;
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    // The empty block whose length and complement the receiver puts back on.
    out.push(0);
    out
}

/// A whole stream for each of `parts`, BFINAL set in its last block, and then an empty block.
pub fn finished<'p>(parts: impl Iterator<Item = &'p [u8]>, level: u8) -> Vec<u8> {
    let mut out: Vec<u8> =
        parts.flat_map(|part| miniz_oxide::deflate::compress_to_vec(part, level)).collect();
    out.push(0);
    out
}
