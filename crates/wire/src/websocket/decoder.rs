//! Frames that a client sends, turned into events (RFC 6455 §5 to §8, RFC 7692 §7.2.2).
//!
//! In come slices of whatever length the socket gave; out go text, bytes, pings, pongs and the
//! close, borrowed from where they lie: a whole frame is unmasked and read in the caller's buffer,
//! a compressed message in the shared inflater's, and only what came in pieces is copied. It never
//! answers anything, and after a violation or a close it takes and forgets whatever follows.

use std::ops::Range;

use super::assembly::Assembly;
use super::deflate::{InflateError, Inflater};
use super::frame::Opcode;
use super::header::{Context, Header};
use super::mask;
use super::violation::Violation;

/// What one connection may cost. All lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The payload of one text, binary or continuation frame; refused from the header alone.
    pub frame_bytes_max: usize,
    /// A message, both as it is on the wire (all its payloads) and after inflating.
    pub message_bytes_max: usize,
    /// Frames of one message, empty ones too: each costs the sender six bytes and work here.
    pub fragments_max: usize,
    /// What [`Decoder::stash`] holds; at least the size of the read buffer.
    pub stash_bytes_max: usize,
}

/// What was just read from the socket, and how much of it has been taken.
///
/// Payloads are unmasked in place, so that the bytes belong to the decoder once it has seen them.
#[derive(Debug)]
pub struct Input<'b> {
    bytes: &'b mut [u8],
    at: usize,
}

impl<'b> Input<'b> {
    /// All of `bytes`, still to be taken.
    pub fn new(bytes: &'b mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// What has not been taken yet.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Whether everything has been taken.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Takes up to `bytes_max`.
    pub(super) fn take(&mut self, bytes_max: usize) -> &[u8] {
        let from = self.at;
        self.at += bytes_max.min(self.bytes.len() - from);
        &self.bytes[from..self.at]
    }

    /// Takes a frame if all of it is there; says where its payload, unmasked, lies.
    fn take_frame(&mut self, header: &Header) -> Option<Range<usize>> {
        let payload_there = self.rest().len().checked_sub(header.header_bytes)?;
        if payload_there < header.payload_bytes {
            return None;
        }
        let from = self.at + header.header_bytes;
        self.at = from + header.payload_bytes;
        mask::apply(&mut self.bytes[from..self.at], header.key, 0);
        Some(from..self.at)
    }
}

/// Something complete that the client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A text message.
    Text(&'a str),
    /// A message of bytes.
    Binary(&'a [u8]),
    /// To be answered by a pong with the same payload, of at most 125 bytes.
    Ping(&'a [u8]),
    /// An answer to a ping, or a heartbeat.
    Pong(&'a [u8]),
    /// The last event: the code and reason if there were any. To be answered by a close.
    Close(Option<(u16, &'a str)>),
}

/// What a complete payload is, before it has been looked into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) opcode: Opcode,
    pub(super) compressed: bool,
}

/// Where a complete payload lies.
enum Place {
    Input(Range<usize>),
    Assembly,
}

/// The receiving side of one connection.
///
/// Idle, it is two words. It holds one allocation, and what has arrived, only while a frame or a
/// message is incomplete or bytes are stashed.
#[derive(Debug)]
pub struct Decoder {
    assembly: Option<Box<Assembly>>,
    deflate: bool,
    ended: bool,
}

/// The state of a decoder as bytes: what a client could have sent to bring a fresh one there, so that whoever
/// takes over holds it against his own limits and needs no format of ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carried {
    /// Whether permessage-deflate was agreed.
    pub deflate: bool,
    /// A message, frame or header of which a part is missing.
    pub incomplete: Vec<u8>,
    /// Bytes put aside for later, behind that.
    pub stash: Vec<u8>,
}

// A million idle connections have a million of these.
const _: () = assert!(size_of::<Decoder>() <= 16);

impl Decoder {
    /// A decoder for a connection that has just been upgraded; `deflate` if that was agreed.
    pub fn new(deflate: bool) -> Self {
        Self { assembly: None, deflate, ended: false }
    }

    /// The next complete event, or `None` when the input is used up; an incomplete rest is kept.
    ///
    /// Stashed bytes come before those of `input`. Memory follows what has arrived, not what a
    /// header announced. To be called until it gives `None`: only then is everything given out free.
    ///
    /// # Errors
    /// When the client breaks the protocol or a limit. The verdict and the events before it are the
    /// same however the bytes were cut; from then on all input is taken and forgotten.
    pub fn next<'a>(
        &'a mut self,
        input: &'a mut Input<'_>,
        inflater: &'a mut Inflater,
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Violation> {
        let (kind, place) = match self.advance(input, limits) {
            Ok(Some(ready)) => ready,
            Ok(None) => return Ok(None),
            Err(violation) => {
                self.ended = true;
                self.assembly = None;
                return Err(violation);
            }
        };
        let payload = match place {
            Place::Input(range) => &input.bytes[range],
            Place::Assembly => self.assembly.as_deref().map_or(&[][..], Assembly::payload),
        };
        let event = event(kind, payload, inflater, limits);
        self.ended = matches!(event, Err(_) | Ok(Event::Close(_)));
        event.map(Some)
    }

    /// Keeps the rest of an input that the caller will not look at now; false, and nothing kept, if
    /// that would be more than the limit.
    ///
    /// The next [`next`](Self::next) continues with it, whether its input is empty or not.
    #[must_use = "a refused rest is lost: the connection cannot go on"]
    pub fn stash(&mut self, rest: &[u8], limits: &Limits) -> bool {
        self.forget_delivered();
        if self.ended || rest.is_empty() {
            return true;
        }
        let held = self.assembly.as_ref().map_or(0, |assembly| assembly.stashed_bytes());
        if held.saturating_add(rest.len()) > limits.stash_bytes_max {
            return false;
        }
        self.assembly.get_or_insert_default().stash(rest);
        true
    }

    /// What a decoder elsewhere needs to go on in this one's place; `None` if this one has ended.
    pub fn carry(&mut self) -> Option<Carried> {
        self.forget_delivered();
        if self.ended {
            return None;
        }
        let mut carried = Carried { deflate: self.deflate, ..Carried::default() };
        if let Some(assembly) = &self.assembly {
            assembly.replay(&mut carried.incomplete);
            carried.stash = assembly.stashed().to_vec();
        }
        Some(carried)
    }

    /// Goes on where another decoder stopped.
    ///
    /// # Errors
    /// When what was begun is over the limits here, or was never a decoder's.
    pub fn resume(carried: Carried, limits: &Limits) -> Result<Self, Violation> {
        let Carried { deflate, mut incomplete, stash } = carried;
        let mut decoder = Self::new(deflate);
        if decoder.advance(&mut Input::new(&mut incomplete), limits)?.is_some() {
            return Err(Violation::NothingToContinue);
        }
        if !decoder.stash(&stash, limits) {
            return Err(Violation::MessageTooBig { max: limits.stash_bytes_max });
        }
        Ok(decoder)
    }

    /// Heap bytes held now, for the account of the worker's memory.
    pub fn buffered_bytes(&self) -> usize {
        self.assembly.as_ref().map_or(0, |assembly| size_of::<Assembly>() + assembly.buffered_bytes())
    }

    /// Goes on to the end of the next message or control frame.
    fn advance(
        &mut self,
        input: &mut Input<'_>,
        limits: &Limits,
    ) -> Result<Option<(Kind, Place)>, Violation> {
        self.forget_delivered();
        if self.ended {
            input.at = input.bytes.len();
        }
        let Some(assembly) = self.assembly.as_deref_mut() else {
            if input.is_empty() {
                return Ok(None);
            }
            let context = Context { deflate: self.deflate, progress: None, limits };
            if let Some(header) = context.parse(input.rest())?
                && header.fin
                && let Some(range) = input.take_frame(&header)
            {
                let kind = Kind { opcode: header.opcode, compressed: header.compressed };
                return Ok(Some((kind, Place::Input(range))));
            }
            let mut assembly = Box::<Assembly>::default();
            let ready = assembly.advance(input, self.deflate, limits)?;
            self.assembly = Some(assembly);
            return Ok(ready.map(|kind| (kind, Place::Assembly)));
        };
        Ok(assembly.advance(input, self.deflate, limits)?.map(|kind| (kind, Place::Assembly)))
    }

    /// Frees what the last event borrowed.
    fn forget_delivered(&mut self) {
        if let Some(assembly) = self.assembly.as_deref_mut() {
            assembly.forget_delivered();
            if self.ended || assembly.is_idle() {
                self.assembly = None;
            }
        }
    }
}

/// Looks into a complete payload.
fn event<'a>(
    kind: Kind,
    payload: &'a [u8],
    inflater: &'a mut Inflater,
    limits: &Limits,
) -> Result<Event<'a>, Violation> {
    let payload = match kind.compressed {
        true => inflater.inflate(payload, limits.message_bytes_max).map_err(|error| match error {
            InflateError::Corrupt => Violation::Corrupt,
            InflateError::TooBig { max } => Violation::MessageTooBig { max },
        })?,
        false => payload,
    };
    match kind.opcode {
        Opcode::Text => {
            simdutf8::basic::from_utf8(payload).map(Event::Text).map_err(|_| Violation::TextNotUtf8)
        }
        Opcode::Ping => Ok(Event::Ping(payload)),
        Opcode::Pong => Ok(Event::Pong(payload)),
        Opcode::Close => close(payload).map(Event::Close),
        // A continuation ends in the message it continues: no payload goes by that name.
        Opcode::Binary | Opcode::Continuation => Ok(Event::Binary(payload)),
    }
}

/// RFC 6455 §5.5.1 and §7.4.
fn close(payload: &[u8]) -> Result<Option<(u16, &str)>, Violation> {
    if payload.is_empty() {
        return Ok(None);
    }
    let (code, reason) = payload.split_first_chunk().ok_or(Violation::CloseTooShort)?;
    let code = u16::from_be_bytes(*code);
    // 1004 to 1006 and 1015 never stand in a frame; 1016 to 2999 have no meaning yet.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::CloseCode(code));
    }
    let reason = simdutf8::basic::from_utf8(reason).map_err(|_| Violation::ReasonNotUtf8)?;
    Ok(Some((code, reason)))
}
