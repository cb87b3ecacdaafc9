//! What frames said, remembered by their bytes.
//!
//! A server shares the bytes of a batch among all its receivers, so most frames are one that another
//! connection got a moment ago. Comparing them costs far less than reading or inflating them, and the
//! comparison is exact: nothing is taken on trust. A server that encodes for each receiver alone only
//! makes the load generator slower.

use flate2::{Decompress, FlushDecompress, Status};

use crate::message::{Digest, Reader};

/// Remembered frames; the batches of some hundred rooms in flight at once. A power of two.
const SLOTS: usize = 1_024;
/// Longer frames are read each time: remembering them all would take too much memory.
const REMEMBERED_BYTES_MAX: usize = 256 << 10;
/// An inflated message larger than this is a fault.
const INFLATED_BYTES_MAX: usize = 16 << 20;

/// A compressed message that does not inflate by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a compressed message does not inflate by itself")]
pub struct BadDeflate;

#[derive(Debug, Default)]
struct Slot {
    compressed: bool,
    bytes: Vec<u8>,
    digest: Digest,
}

/// Frames and what they said.
#[derive(Debug)]
pub struct Memo {
    slots: Box<[Slot]>,
    reader: Reader,
    inflater: Decompress,
    inflated: Vec<u8>,
    long: Digest,
}

impl Default for Memo {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            reader: Reader::default(),
            inflater: Decompress::new(false),
            inflated: Vec::new(),
            long: Digest::default(),
        }
    }
}

impl Memo {
    /// What a message says; compressed ones are inflated with an empty window, as
    /// `server_no_context_takeover` (RFC 7692 §7.1.1.1) allows.
    ///
    /// # Errors
    /// When a compressed message is not one.
    pub fn digest(&mut self, message: &[u8], compressed: bool) -> Result<&Digest, BadDeflate> {
        let Self { slots, reader, inflater, inflated, long } = self;
        let remembered = message.len() <= REMEMBERED_BYTES_MAX;
        let slot = &mut slots[place(message)];
        if remembered && slot.compressed == compressed && slot.bytes == message {
            return Ok(&slot.digest);
        }
        let digest = if remembered { &mut slot.digest } else { long };
        // Forgotten first: a message that fails below must not be found later.
        slot.bytes.clear();
        let text = if compressed {
            inflate(inflater, message, inflated)?;
            inflated
        } else {
            message
        };
        reader.read(text, digest);
        if remembered {
            slot.compressed = compressed;
            slot.bytes.extend_from_slice(message);
        }
        Ok(digest)
    }
}

/// Where a message is remembered. Ranges stand at the front and due times at the back, so that both ends
/// and the length tell messages apart well enough (FNV-1a).
fn place(message: &[u8]) -> usize {
    let head = &message[..message.len().min(48)];
    let tail = &message[message.len().saturating_sub(48)..];
    let ends = head.iter().chain(tail);
    let seed = 0xCBF2_9CE4_8422_2325_u64 ^ message.len() as u64;
    let hash = ends.fold(seed, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3));
    (hash >> 32) as usize % SLOTS
}

/// Inflates a whole message; the four bytes that the sender left out are put back (RFC 7692 §7.2.2).
fn inflate(inflater: &mut Decompress, message: &[u8], out: &mut Vec<u8>) -> Result<(), BadDeflate> {
    out.clear();
    inflater.reset(false);
    for mut part in [message, &[0, 0, 0xFF, 0xFF]] {
        loop {
            if out.len() == out.capacity() {
                out.reserve(out.len().max(4_096));
            }
            if out.len() > INFLATED_BYTES_MAX {
                return Err(BadDeflate);
            }
            let before = inflater.total_in();
            let status = inflater.decompress_vec(part, out, FlushDecompress::Sync);
            part = &part[(inflater.total_in() - before) as usize..];
            match status {
                Ok(Status::StreamEnd) => return if part.is_empty() { Ok(()) } else { Err(BadDeflate) },
                Ok(_) if part.is_empty() && out.len() < out.capacity() => break,
                Ok(Status::BufError) if out.len() < out.capacity() => return Err(BadDeflate),
                Ok(_) => {}
                Err(_) => return Err(BadDeflate),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;
    use crate::message::Kind;

    fn batch(from: u64, items: u64) -> Vec<u8> {
        let list: Vec<String> =
            (from..from + items).map(|s| format!(r#"{{"seq":{s},"text":"same"}}"#)).collect();
        let to = from + items - 1;
        format!(r#"{{"batch":{{"from":{from},"to":{to},"items":[{}]}}}}"#, list.join(",")).into_bytes()
    }

    fn deflated(message: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(message.len() + 64);
        Compress::new(Compression::fast(), false)
            .compress_vec(message, &mut out, FlushCompress::Sync)
            .expect("compresses");
        out.truncate(out.len() - 4);
        out
    }

    /// `Memo::digest`: however often and in whatever order messages come, compressed or not, each says
    /// what it says.
    #[test]
    fn a_remembered_message_says_the_same_as_a_read_one() {
        let mut memo = Memo::default();
        for round in 0..3 {
            for from in 1..3_000 {
                let plain = batch(from, 1 + from % 40);
                let (message, compressed) = match from % 3 {
                    0 => (deflated(&plain), true),
                    _ => (plain, false),
                };
                let digest = memo.digest(&message, compressed).expect("inflates");
                let got = (digest.kind, digest.from, digest.items, digest.in_order);
                assert_eq!(got, (Kind::Batch, from, 1 + from % 40, true), "round {round}");
            }
        }
    }

    /// `Memo::digest`: bytes that are no deflate stream are refused, also the second time.
    #[test]
    fn what_does_not_inflate_is_refused_each_time() {
        let mut memo = Memo::default();
        for _ in 0..2 {
            assert_eq!(memo.digest(&[0xFF; 40], true), Err(BadDeflate));
        }
        let long = batch(1, 20_000);
        assert!(long.len() > REMEMBERED_BYTES_MAX);
        assert_eq!(memo.digest(&deflated(&long), true).map(|d| d.items), Ok(20_000));
        assert_eq!(memo.digest(&long, false).map(|d| d.items), Ok(20_000));
    }
}
