//! Forms: the framed bytes of a batch in one encoding, compressed or not, for one tier.
//!
//! A form is made lazily, once per batch, and the same bytes go to every socket that wants it. That
//! works because the server always negotiates `server_no_context_takeover`: no frame depends on the
//! one before it, so a compressed frame is the same for everybody (RFC 7692 §7.1.1.1).

use std::ops::Deref;

use danmaku_wire::entry::{Entry, Tier, Visibility};
use danmaku_wire::native::{self, ServerMessage};
use danmaku_wire::websocket::deflate::Deflater;
use danmaku_wire::websocket::frame::{self, Opcode};

use crate::batch::{Batch, Kind};

/// How many forms a batch can have.
pub const FORM_COUNT: usize = Encoding::COUNT * 2 * 3;

/// Payloads below this many bytes are sent uncompressed even where deflate was negotiated: they would
/// hardly shrink, and RFC 7692 §6 leaves the choice to the sender message by message.
pub const DEFLATE_BYTES_MIN: usize = 96;

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// `danmaku.v1.json` in WebSocket text frames.
    Json = 0,
    /// `danmaku.v1.proto` in WebSocket binary frames.
    Proto = 1,
    /// Server-sent events: the JSON messages as event data.
    Sse = 2,
}

impl Encoding {
    const COUNT: usize = 3;
}

/// Which bytes of a batch a viewer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FormKey {
    /// How it is written.
    pub encoding: Encoding,
    /// Whether permessage-deflate was negotiated.
    pub deflate: bool,
    /// How much the viewer wants.
    pub tier: Tier,
}

impl FormKey {
    /// A dense number below [`FORM_COUNT`].
    pub const fn index(self) -> usize {
        ((self.encoding as usize) * 2 + self.deflate as usize) * 3 + self.tier as usize
    }

    /// The key with `index`; the inverse of [`Self::index`].
    pub const fn from_index(index: usize) -> Self {
        let encoding = match index / 6 {
            0 => Encoding::Json,
            1 => Encoding::Proto,
            _ => Encoding::Sse,
        };
        let tier = match index % 3 {
            0 => Tier::Lite,
            1 => Tier::Standard,
            _ => Tier::Full,
        };
        Self { encoding, deflate: (index / 3) % 2 == 1, tier }
    }

    /// The key that serves all tiers of a batch which shows the same to each.
    #[must_use]
    pub const fn untiered(self) -> Self {
        Self { tier: Tier::Full, ..self }
    }
}

/// Framed bytes, ready for a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form(Box<[u8]>);

impl From<Vec<u8>> for Form {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into_boxed_slice())
    }
}

impl Deref for Form {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A worker's encoder: one compressor and scratch buffers, shared by all its rooms.
#[derive(Debug)]
pub struct Encoder {
    deflater: Deflater,
    payload: Vec<u8>,
    compressed: Vec<u8>,
    /// Forms made so far.
    pub forms_made: u64,
    /// Bytes of the forms made so far, framed.
    pub form_bytes: u64,
}

impl Encoder {
    /// An encoder that compresses at `level` (1–9; 1 costs about 3 µs a kilobyte).
    pub fn new(level: u32) -> Self {
        Self {
            deflater: Deflater::new(level),
            payload: Vec::new(),
            compressed: Vec::new(),
            forms_made: 0,
            form_bytes: 0,
        }
    }

    /// The form of `batch` for `key`, from the batch's cache or made now.
    pub fn form(&mut self, batch: &Batch, key: FormKey) -> std::sync::Arc<Form> {
        batch.form(key, |key| self.make(batch, key))
    }

    fn make(&mut self, batch: &Batch, key: FormKey) -> Form {
        let mut out = Vec::new();
        match &batch.kind {
            Kind::Genesis => {}
            Kind::EpochChange { prev } => {
                let epoch = batch.epoch.as_str();
                let message = native::EpochChange { epoch, seq: batch.to, prev: Some(prev) };
                self.message(&ServerMessage::Epoch(message), key, Some(batch), &mut out);
            }
            Kind::Entries => {
                let items: Vec<&Entry> =
                    batch.entries.iter().filter(|e| shown_to(e, key.tier)).map(|e| &**e).collect();
                let message = native::Batch { from: batch.from, to: batch.to, items: &items };
                self.message(&ServerMessage::Batch(message), key, Some(batch), &mut out);
            }
        }
        self.forms_made += 1;
        self.form_bytes += out.len() as u64;
        Form::from(out)
    }

    /// Appends one message, framed for `key`'s encoding. Only batches are ever compressed: what one
    /// connection alone gets never shares a deflate stream with text that a stranger chose.
    fn message(
        &mut self,
        message: &ServerMessage<'_>,
        key: FormKey,
        batch: Option<&Batch>,
        out: &mut Vec<u8>,
    ) {
        self.payload.clear();
        let opcode = match key.encoding {
            Encoding::Proto => {
                native::proto::encode(message, &mut self.payload);
                Opcode::Binary
            }
            Encoding::Json | Encoding::Sse => {
                native::json::encode(message, &mut self.payload);
                Opcode::Text
            }
        };
        if key.encoding == Encoding::Sse {
            if let Some(batch) = batch {
                out.extend_from_slice(b"id: ");
                out.extend_from_slice(batch.end().to_string().as_bytes());
                out.push(b'\n');
            }
            out.extend_from_slice(b"data: ");
            // JSON escapes line ends, so that one `data` line holds the whole message.
            out.extend_from_slice(&self.payload);
            out.extend_from_slice(b"\n\n");
            return;
        }
        if key.deflate && batch.is_some() && self.payload.len() >= DEFLATE_BYTES_MIN {
            self.compressed.clear();
            self.deflater.compress(&self.payload, &mut self.compressed);
            if self.compressed.len() < self.payload.len() {
                return frame::write(out, opcode, true, &self.compressed);
            }
        }
        frame::write(out, opcode, false, &self.payload);
    }

    /// Appends a message for one connection, framed and never compressed.
    pub fn control(&mut self, message: &ServerMessage<'_>, encoding: Encoding, out: &mut Vec<u8>) {
        self.message(message, FormKey { encoding, deflate: false, tier: Tier::Full }, None, out);
    }

    /// Appends what is left of `batch` after `seq` for a viewer who has the first part already.
    pub fn rest_of(&mut self, batch: &Batch, seq: u64, key: FormKey, out: &mut Vec<u8>) {
        let items: Vec<&Entry> =
            batch.entries.iter().filter(|e| e.seq > seq && shown_to(e, key.tier)).map(|e| &**e).collect();
        let message = native::Batch { from: seq + 1, to: batch.to, items: &items };
        self.message(&ServerMessage::Batch(message), FormKey { deflate: false, ..key }, Some(batch), out);
    }

    /// Appends one author-only entry as a batch that covers its own number, already covered by the
    /// shared one.
    pub fn private(&mut self, entry: &Entry, encoding: Encoding, out: &mut Vec<u8>) {
        let message = native::Batch { from: entry.seq, to: entry.seq, items: &[entry] };
        self.control(&ServerMessage::Batch(message), encoding, out);
    }
}

/// Whether the shared bytes for `tier` hold this entry.
pub fn shown_to(entry: &Entry, tier: Tier) -> bool {
    matches!(&entry.visibility, Visibility::Tier(least) if tier >= *least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FormKey::index` is dense and reversible.
    #[test]
    fn form_keys_and_their_numbers_are_one_to_one() {
        for index in 0..FORM_COUNT {
            assert_eq!(FormKey::from_index(index).index(), index);
        }
    }
}
