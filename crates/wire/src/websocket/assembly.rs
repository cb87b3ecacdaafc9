//! A frame or a message of which only a part has arrived, and bytes put aside for later.
//!
//! In come stashed bytes and then the input's; out goes word that a payload is complete. It exists
//! only while something is incomplete, grows with what has arrived, and copies everything: whole
//! frames go past it.

use super::decoder::{Input, Kind, Limits};
use super::frame::{self, FIN, Opcode, RSV1};
use super::header::{CLIENT_HEADER_BYTES_MAX, Context, Header, Progress};
use super::mask;
use super::violation::Violation;

/// What is incomplete on one connection.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    stash: Stash,
    /// The header that is arriving, while there is no `frame`.
    head: [u8; CLIENT_HEADER_BYTES_MAX],
    head_bytes: usize,
    frame: Option<Frame>,
    /// Payload of the control frame that is arriving.
    control: Vec<u8>,
    message: Option<Message>,
    delivered: Option<Delivered>,
}

/// Which payload the last event borrowed.
#[derive(Debug, Clone, Copy)]
enum Delivered {
    Control,
    Message,
}

#[derive(Debug)]
struct Frame {
    header: Header,
    received: usize,
}

#[derive(Debug)]
struct Message {
    kind: Kind,
    fragments: usize,
    payload: Vec<u8>,
    /// Where the UTF-8 that was checked ends; at most three bytes before the payload's end.
    checked_bytes: usize,
}

/// Bytes that the caller put aside.
#[derive(Debug, Default)]
struct Stash {
    bytes: Vec<u8>,
    at: usize,
}

impl Stash {
    /// Takes up to `bytes_max`, from here as long as there are any, else from the input.
    fn take<'s>(&'s mut self, input: &'s mut Input<'_>, bytes_max: usize) -> &'s [u8] {
        let from = self.at;
        if from == self.bytes.len() {
            return input.take(bytes_max);
        }
        self.at += bytes_max.min(self.bytes.len() - from);
        &self.bytes[from..self.at]
    }
}

impl Assembly {
    /// Takes bytes until a payload is complete (`Some`) or there are no more.
    pub(super) fn advance(
        &mut self,
        input: &mut Input<'_>,
        deflate: bool,
        limits: &Limits,
    ) -> Result<Option<Kind>, Violation> {
        loop {
            let Some(frame) = self.frame.as_mut() else {
                match self.take_header(input, deflate, limits)? {
                    Some(header) => self.begin(header),
                    None => return Ok(None),
                }
                continue;
            };
            let missing = frame.header.payload_bytes - frame.received;
            let chunk = self.stash.take(input, missing);
            if chunk.is_empty() && missing > 0 {
                return Ok(None);
            }
            let is_control = frame.header.opcode.is_control();
            let target = match self.message.as_mut() {
                Some(message) if !is_control => &mut message.payload,
                _ => &mut self.control,
            };
            let from = target.len();
            target.extend_from_slice(chunk);
            mask::apply(&mut target[from..], frame.header.key, frame.received);
            frame.received += target.len() - from;
            let is_whole = frame.received == frame.header.payload_bytes;
            let ends_message = is_whole && frame.header.fin;
            let control = Kind { opcode: frame.header.opcode, compressed: false };
            if is_whole {
                self.frame = None;
            }
            if is_control {
                if is_whole {
                    self.delivered = Some(Delivered::Control);
                    return Ok(Some(control));
                }
            } else if let Some(message) = self.message.as_mut() {
                message.check_text()?;
                if ends_message {
                    self.delivered = Some(Delivered::Message);
                    return Ok(Some(message.kind));
                }
            }
        }
    }

    /// The payload that `advance` last declared complete.
    pub(super) fn payload(&self) -> &[u8] {
        match (self.delivered, &self.message) {
            (Some(Delivered::Message), Some(message)) => &message.payload,
            _ => &self.control,
        }
    }

    /// Frees what has been given out: a payload, and a stash that was taken to its end.
    pub(super) fn forget_delivered(&mut self) {
        match self.delivered.take() {
            Some(Delivered::Control) => self.control = Vec::new(),
            Some(Delivered::Message) => self.message = None,
            None => {}
        }
        if self.stashed_bytes() == 0 {
            self.stash = Stash::default();
        }
    }

    /// Whether nothing is incomplete.
    pub(super) fn is_idle(&self) -> bool {
        self.head_bytes == 0 && self.frame.is_none() && self.message.is_none() && self.stashed_bytes() == 0
    }

    /// Puts bytes behind those already stashed.
    pub(super) fn stash(&mut self, rest: &[u8]) {
        self.stash.bytes.drain(..self.stash.at);
        self.stash.at = 0;
        self.stash.bytes.extend_from_slice(rest);
    }

    /// Stashed bytes that have not been taken yet.
    pub(super) fn stashed_bytes(&self) -> usize {
        self.stash.bytes.len() - self.stash.at
    }

    /// Heap bytes held.
    pub(super) fn buffered_bytes(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |message| message.payload.capacity());
        self.stash.bytes.capacity() + self.control.capacity() + message
    }

    /// Bytes that bring a fresh assembly to where this one stands, but for the stash: what is incomplete as a
    /// client could have sent it. As many frames as there were, none longer than the longest of them.
    pub(super) fn replay(&self, out: &mut Vec<u8>) {
        let data = self.frame.as_ref().filter(|frame| !frame.header.opcode.is_control());
        if let Some(message) = &self.message {
            let (whole, last) =
                message.payload.split_at(message.payload.len() - data.map_or(0, |f| f.received));
            let frames = message.fragments - usize::from(data.is_some());
            let share = whole.len().div_ceil(frames.max(1));
            for i in 0..frames {
                let part = &whole[(i * share).min(whole.len())..((i + 1) * share).min(whole.len())];
                let first = match i {
                    0 => message.kind.opcode as u8 | if message.kind.compressed { RSV1 } else { 0 },
                    _ => Opcode::Continuation as u8,
                };
                frame::client_header(out, first, part.len(), [0; 4]);
                out.extend_from_slice(part);
            }
            if let Some(frame) = data {
                frame.replay(last, out);
            }
        }
        if let Some(frame) = self.frame.as_ref().filter(|frame| frame.header.opcode.is_control()) {
            frame.replay(&self.control, out);
        }
        out.extend_from_slice(&self.head[..self.head_bytes]);
    }

    /// What was stashed and not taken yet.
    pub(super) fn stashed(&self) -> &[u8] {
        &self.stash.bytes[self.stash.at..]
    }

    /// Byte by byte, since the header says only by and by how long it is.
    fn take_header(
        &mut self,
        input: &mut Input<'_>,
        deflate: bool,
        limits: &Limits,
    ) -> Result<Option<Header>, Violation> {
        let progress = self
            .message
            .as_ref()
            .map(|message| Progress { message_bytes: message.payload.len(), fragments: message.fragments });
        let context = Context { deflate, progress, limits };
        loop {
            if let Some(header) = context.parse(&self.head[..self.head_bytes])? {
                self.head_bytes = 0;
                return Ok(Some(header));
            }
            let &[byte] = self.stash.take(input, 1) else { return Ok(None) };
            self.head[self.head_bytes] = byte;
            self.head_bytes += 1;
        }
    }

    fn begin(&mut self, header: Header) {
        if !header.opcode.is_control() {
            let kind = Kind { opcode: header.opcode, compressed: header.compressed };
            // The header has been checked: only a continuation finds a message here.
            let message = self.message.get_or_insert_with(|| Message::new(kind));
            message.fragments += 1;
        }
        self.frame = Some(Frame { header, received: 0 });
    }
}

impl Frame {
    /// The frame as the client sent it, as far as it came.
    fn replay(&self, received: &[u8], out: &mut Vec<u8>) {
        let Header { opcode, fin, compressed, key, payload_bytes, .. } = self.header;
        let first = opcode as u8 | if fin { FIN } else { 0 } | if compressed { RSV1 } else { 0 };
        frame::client_header(out, first, payload_bytes, key);
        let from = out.len();
        out.extend_from_slice(received);
        mask::apply(&mut out[from..], key, 0);
    }
}

impl Message {
    fn new(kind: Kind) -> Self {
        Self { kind, fragments: 0, payload: Vec::new(), checked_bytes: 0 }
    }

    /// Refuses text at the first byte that cannot be right, without waiting for the rest. A message
    /// that ends inside a character is left to the check of the whole.
    fn check_text(&mut self) -> Result<(), Violation> {
        if self.kind.opcode != Opcode::Text || self.kind.compressed {
            return Ok(());
        }
        match simdutf8::compat::from_utf8(&self.payload[self.checked_bytes..]) {
            Ok(text) => self.checked_bytes += text.len(),
            Err(error) if error.error_len().is_some() => return Err(Violation::TextNotUtf8),
            Err(error) => self.checked_bytes += error.valid_up_to(),
        }
        Ok(())
    }
}
