//! The codec against RFC 6455 and RFC 7692: each input whole, in every cut, byte by byte and with
//! stashes in between, always with the same outcome.

mod cases;
mod compression;
mod limits;
mod model;
mod offers;
mod requests;
mod sending;

use super::decoder::{Decoder, Event, Input, Limits};
use super::deflate::Inflater;
use super::frame::client_header;
use super::mask;
use super::violation::Violation;

/// Wide enough for every case that is not about limits.
const WIDE: Limits = Limits {
    frame_bytes_max: 1 << 20,
    message_bytes_max: 1 << 20,
    fragments_max: 1000,
    stash_bytes_max: 1 << 21,
};

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
/// First frames and middle frames of a message.
const TEXT_BEGINS: u8 = 0x01;
const BINARY_BEGINS: u8 = 0x02;
const GOES_ON: u8 = 0x00;
const ENDS: u8 = 0x80;

/// An [`Event`] that outlives the bytes it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

impl From<Event<'_>> for Seen {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::Text(text) => Self::Text(text.to_owned()),
            Event::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Event::Ping(bytes) => Self::Ping(bytes.to_vec()),
            Event::Pong(bytes) => Self::Pong(bytes.to_vec()),
            Event::Close(close) => Self::Close(close.map(|(code, reason)| (code, reason.to_owned()))),
        }
    }
}

fn text(text: &str) -> Seen {
    Seen::Text(text.to_owned())
}

/// What a connection made of its input: the events, and the violation that ended it if there was one.
type Outcome = (Vec<Seen>, Option<Violation>);

/// A masked client frame with the shortest length; `first` is its first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let key = [0x37, 0xfa, 0x21, first ^ payload.len() as u8];
    let mut out = Vec::new();
    client_header(&mut out, first, payload.len(), key);
    let from = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[from..], key, 0);
    out
}

/// A close frame's payload.
fn close_payload(code: u16, reason: &[u8]) -> Vec<u8> {
    [code.to_be_bytes().as_slice(), reason].concat()
}

/// One connection under test.
struct Connection {
    decoder: Decoder,
    inflater: Inflater,
    limits: Limits,
    seen: Vec<Seen>,
    violation: Option<Violation>,
}

impl Connection {
    fn new(deflate: bool, limits: Limits) -> Self {
        Self {
            decoder: Decoder::new(deflate),
            inflater: Inflater::new(),
            limits,
            seen: Vec::new(),
            violation: None,
        }
    }

    /// Feeds one read and takes all events out.
    fn feed(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let mut input = Input::new(&mut bytes);
        while self.step(&mut input) {}
        assert!(input.is_empty() || self.violation.is_some(), "an input was left unread");
    }

    /// Feeds one read but takes a single event out, and stashes the rest.
    fn feed_one_and_stash(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let mut input = Input::new(&mut bytes);
        self.step(&mut input);
        let rest = input.rest().to_vec();
        assert!(self.decoder.stash(&rest, &self.limits), "the stash is wide enough");
    }

    /// Whether there was an event.
    fn step(&mut self, input: &mut Input<'_>) -> bool {
        match self.decoder.next(input, &mut self.inflater, &self.limits) {
            Ok(Some(event)) => {
                self.seen.push(event.into());
                true
            }
            Ok(None) => false,
            Err(violation) => {
                assert_eq!(self.violation.replace(violation), None, "a connection ended twice");
                false
            }
        }
    }

    /// Goes on with another decoder, which knows of this one only what it carries over.
    fn carry_over(&mut self) {
        if let Some(carried) = self.decoder.carry() {
            let resumed = Decoder::resume(carried, &self.limits);
            self.decoder = resumed.expect("what one decoder took, another takes");
        }
    }

    fn outcome(self) -> Outcome {
        (self.seen, self.violation)
    }
}

/// Feeds the pieces of `bytes` that end at `cuts`.
fn run_cut(deflate: bool, limits: Limits, bytes: &[u8], cuts: &[usize]) -> Outcome {
    let mut connection = Connection::new(deflate, limits);
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        connection.feed(&bytes[from..to]);
        from = to;
    }
    connection.outcome()
}

/// Feeds pieces of `piece_bytes`, taking one event from each and stashing the rest.
fn run_stashing(deflate: bool, limits: Limits, bytes: &[u8], piece_bytes: usize) -> Outcome {
    let mut connection = Connection::new(deflate, limits);
    for piece in bytes.chunks(piece_bytes) {
        connection.feed_one_and_stash(piece);
    }
    connection.feed(&[]);
    connection.outcome()
}

/// Feeds pieces of `piece_bytes`, each to a decoder of its own that takes over from the one before; every other
/// piece gives one event at most and leaves the rest stashed.
fn run_carrying(deflate: bool, limits: Limits, bytes: &[u8], piece_bytes: usize) -> Outcome {
    let mut connection = Connection::new(deflate, limits);
    for (index, piece) in bytes.chunks(piece_bytes).enumerate() {
        match index % 2 {
            0 => connection.feed_one_and_stash(piece),
            _ => connection.feed(piece),
        }
        connection.carry_over();
    }
    connection.feed(&[]);
    connection.outcome()
}

/// Two-part cuts tried for one input; longer ones are cut at an odd step.
const CUTS_MAX: usize = 400;

/// Feeds `bytes` in every way there is and expects the same each time.
fn check(name: &str, deflate: bool, limits: Limits, bytes: &[u8], expected: &Outcome) {
    assert_eq!(&run_cut(deflate, limits, bytes, &[]), expected, "{name}: whole");
    let step = (bytes.len() / CUTS_MAX) | 1;
    for cut in (0..bytes.len()).step_by(step) {
        assert_eq!(&run_cut(deflate, limits, bytes, &[cut]), expected, "{name}: cut at {cut}");
    }
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(&run_cut(deflate, limits, bytes, &every), expected, "{name}: byte by byte");
    for piece_bytes in [1, 3, 7, 64, bytes.len().max(1)] {
        let stashed = run_stashing(deflate, limits, bytes, piece_bytes);
        assert_eq!(&stashed, expected, "{name}: stashing after {piece_bytes} bytes");
        let piece_bytes = piece_bytes.max(bytes.len() / CUTS_MAX);
        let carried = run_carrying(deflate, limits, bytes, piece_bytes);
        assert_eq!(&carried, expected, "{name}: another decoder every {piece_bytes} bytes");
    }
}
