//! permessage-deflate (RFC 7692) without context takeover: each message stands alone.
//!
//! In come payloads, out go payloads. Because nothing is carried from one message to the next, one
//! [`Inflater`] and one [`Deflater`] serve all connections of a worker, and a batch deflated once
//! fits every peer. Neither knows which connection a payload belongs to.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// What a sender takes off, and a receiver puts back on (RFC 7692 §7.2.1, §7.2.2).
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];

/// Ends of a DEFLATE stream (BFINAL, RFC 7692 §7.2.3.4) inside one message. An honest sender has one,
/// or one per fragment; each costs two bytes to send and a reset here, hence the bound.
const STREAM_ENDS_MAX: usize = 64;

/// The first size of the output, in bytes: a comment fits.
const OUTPUT_BYTES_MIN: usize = 1024;

/// Why a compressed message could not be inflated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// The payload is no DEFLATE data, or ends and begins streams without end.
    #[error("the payload cannot be inflated")]
    Corrupt,
    /// The message is longer than allowed; no more than one byte over it was inflated.
    #[error("the message inflates to more than {max} bytes")]
    TooBig {
        /// Bytes allowed.
        max: usize,
    },
}

/// Inflates one message at a time, into a buffer that it keeps.
pub struct Inflater {
    // Always 15 window bits: it reads every smaller window, and zlib-rs can reset no other without
    // allocating its state anew.
    stream: Decompress,
    /// Initialised up to its length, whatever of it is in use.
    output: Vec<u8>,
    inflated_bytes: u64,
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflater").field("inflated_bytes", &self.inflated_bytes).finish_non_exhaustive()
    }
}

impl Inflater {
    /// An inflater with its 47 KB of state; the output grows with the messages.
    pub fn new() -> Self {
        Self { stream: Decompress::new(false), output: Vec::new(), inflated_bytes: 0 }
    }

    /// All bytes ever put out, those of refused messages included.
    ///
    /// The caller takes the difference around a call and holds it against a budget per second: a
    /// limit per message alone lets a kilobyte of wire bytes cost a megabyte of work again and again.
    pub fn inflated_bytes(&self) -> u64 {
        self.inflated_bytes
    }

    /// Bytes that the output holds on to between messages; at most the largest `bytes_max` + 1.
    pub fn buffered_bytes(&self) -> usize {
        self.output.capacity()
    }

    /// Inflates the joined payload of one message (RFC 7692 §7.2.2).
    ///
    /// # Errors
    /// When it is no DEFLATE data, or has more than `bytes_max` bytes.
    pub fn inflate(&mut self, payload: &[u8], bytes_max: usize) -> Result<&[u8], InflateError> {
        self.stream.reset(false);
        let mut run = Run { written: 0, stream_ends: 0, cap: bytes_max.saturating_add(1) };
        let result = [payload, TAIL.as_slice()].into_iter().try_for_each(|part| self.feed(&mut run, part));
        self.inflated_bytes = self.inflated_bytes.saturating_add(run.written as u64);
        result?;
        Ok(&self.output[..run.written])
    }

    /// Takes in all of `part`. Every round takes a byte in, puts one out, makes room or ends a
    /// stream; the first three are bounded by the payload and the cap, the last by a count.
    fn feed(&mut self, run: &mut Run, part: &[u8]) -> Result<(), InflateError> {
        let mut rest = part;
        loop {
            self.make_room(run);
            let room = self.output.len().min(run.cap) - run.written;
            let (before_in, before_out) = (self.stream.total_in(), self.stream.total_out());
            let target = &mut self.output[run.written..run.written + room];
            let status = self.stream.decompress(rest, target, FlushDecompress::Sync);
            // Counted before a reset sets the totals back to zero; neither exceeds its slice.
            let taken = (self.stream.total_in() - before_in) as usize;
            let put = (self.stream.total_out() - before_out) as usize;
            rest = &rest[taken..];
            run.written += put;
            if run.written == run.cap {
                return Err(InflateError::TooBig { max: run.cap - 1 });
            }
            if status.map_err(|_| InflateError::Corrupt)? == Status::StreamEnd {
                run.stream_ends += 1;
                if run.stream_ends > STREAM_ENDS_MAX {
                    return Err(InflateError::Corrupt);
                }
                self.stream.reset(false);
                if rest.is_empty() {
                    return Ok(());
                }
            } else if rest.is_empty() && put < room {
                return Ok(());
            } else if taken == 0 && put == 0 {
                return Err(InflateError::Corrupt);
            }
        }
    }

    /// Doubles a full output, up to the cap. The cap itself is never reached here with a full
    /// output: that has already been refused.
    fn make_room(&mut self, run: &Run) {
        if run.written == self.output.len() {
            let bytes =
                self.output.len().saturating_mul(2).clamp(OUTPUT_BYTES_MIN, run.cap.max(OUTPUT_BYTES_MIN));
            self.output.reserve_exact(bytes - self.output.len());
            self.output.resize(bytes, 0);
        }
    }
}

/// One message's way through the inflater.
struct Run {
    written: usize,
    stream_ends: usize,
    /// One byte over what is allowed: reaching it proves that the message is too big.
    cap: usize,
}

/// Deflates one message at a time. The same payload always gives the same bytes.
pub struct Deflater {
    stream: Compress,
}

impl std::fmt::Debug for Deflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deflater")
    }
}

impl Deflater {
    /// A deflater of 15 window bits with its 380 KB of state; `level` is taken into 1 (fast) to
    /// 9 (small).
    pub fn new(level: u32) -> Self {
        Self { stream: Compress::new(Compression::new(level.clamp(1, 9)), false) }
    }

    /// Appends the payload of a compressed message (RFC 7692 §7.2.1), for a frame with RSV1 set.
    ///
    /// Only for bytes that everybody may see: one that mixes a secret with a stranger's text tells
    /// the secret by its length (RFC 7692 §9).
    pub fn compress(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        if payload.is_empty() {
            // An empty block without its tail (RFC 7692 §7.2.3.6).
            out.push(0);
            return;
        }
        self.stream.reset();
        // The worst case is level 1, which spends up to nine bits on a byte. With room for it the flush
        // ends in one step: in several it could repeat its marker, and the same payload would not
        // always give the same bytes.
        out.reserve(payload.len() + payload.len() / 8 + 64);
        let mut rest = payload;
        loop {
            let before = self.stream.total_in();
            self.stream
                .compress_vec(rest, out, FlushCompress::Sync)
                .expect("a stream that was just reset accepts input and a flush");
            rest = &rest[(self.stream.total_in() - before) as usize..];
            // Only room left over proves that the flush is complete.
            if rest.is_empty() && out.len() < out.capacity() {
                break;
            }
            out.reserve(payload.len() / 8 + 64);
        }
        assert!(out.ends_with(&TAIL), "a sync flush ends with an empty block");
        out.truncate(out.len() - TAIL.len());
    }
}
