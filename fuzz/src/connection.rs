//! A decoder that is fed a client's bytes, whole, in pieces, byte by byte and with stashes in between.

use danmaku_wire::websocket::{Decoder, Event, Inflater, Input, Limits, Violation};

/// Narrow, so that short inputs reach every one of them.
pub const LIMITS: Limits =
    Limits { frame_bytes_max: 4096, message_bytes_max: 8192, fragments_max: 16, stash_bytes_max: 1 << 20 };

/// What a worker may hold for one connection: two buffers that may have doubled, and its state.
const BUFFERED_BYTES_MAX: usize = 2 * LIMITS.message_bytes_max + 2 * LIMITS.frame_bytes_max + 1024;

/// An event that outlives the bytes it came from, or the end.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A text message.
    Text(String),
    /// A message of bytes.
    Binary(Vec<u8>),
    /// A ping and its payload.
    Ping(Vec<u8>),
    /// A pong and its payload.
    Pong(Vec<u8>),
    /// A close, with its code and reason if it has them.
    Close(Option<(u16, String)>),
    /// The connection is over.
    End(Violation),
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

/// Feeds `bytes` in every way there is, the pieces that end at `cuts` (in order) among them: each time
/// `expected` must come of it, and no more may be held than the limits allow.
pub fn check(deflate: bool, bytes: &[u8], cuts: &[usize], expected: &[Seen]) {
    // One inflater for all of them, as a worker has one for all its connections.
    let mut inflater = Inflater::new();
    let mut whole = Connection::new(deflate, &mut inflater);
    whole.feed(bytes);
    assert_eq!(whole.seen, expected, "whole");

    let pieces = || {
        let ends = cuts.iter().copied().chain([bytes.len()]);
        ends.scan(0, |from, to| Some(&bytes[std::mem::replace(from, to)..to]))
    };
    let mut connection = Connection::new(deflate, &mut inflater);
    pieces().for_each(|piece| connection.feed(piece));
    assert_eq!(connection.seen, expected, "in pieces");

    let mut connection = Connection::new(deflate, &mut inflater);
    pieces().for_each(|piece| connection.feed_one_and_stash(piece));
    connection.feed(&[]);
    assert_eq!(connection.seen, expected, "with stashes");

    // Quadratic in what is incomplete only if something is wrong, so that it may run every time; of a long
    // input not quite every byte, for the sake of the inputs behind it.
    let mut connection = Connection::new(deflate, &mut inflater);
    bytes.chunks(1 + bytes.len() / 1024).for_each(|piece| connection.feed(piece));
    assert_eq!(connection.seen, expected, "byte by byte");
}

struct Connection<'i> {
    decoder: Decoder,
    inflater: &'i mut Inflater,
    seen: Vec<Seen>,
}

impl<'i> Connection<'i> {
    fn new(deflate: bool, inflater: &'i mut Inflater) -> Self {
        Self { decoder: Decoder::new(deflate), inflater, seen: Vec::new() }
    }

    fn step(&mut self, input: &mut Input<'_>) -> bool {
        let before = self.inflater.inflated_bytes();
        let seen = match self.decoder.next(input, self.inflater, &LIMITS) {
            Ok(Some(event)) => Seen::from(event),
            Ok(None) => return false,
            Err(violation) => Seen::End(violation),
        };
        self.seen.push(seen);
        assert!(self.inflater.inflated_bytes() - before <= LIMITS.message_bytes_max as u64 + 1);
        true
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let mut input = Input::new(&mut bytes);
        while self.step(&mut input) {}
        assert!(input.is_empty(), "an input was left unread");
        assert!(self.decoder.buffered_bytes() <= BUFFERED_BYTES_MAX);
    }

    fn feed_one_and_stash(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let mut input = Input::new(&mut bytes);
        self.step(&mut input);
        let rest = input.rest().to_vec();
        assert!(self.decoder.stash(&rest, &LIMITS), "the stash is wide enough");
    }
}

/// An input of cuts and bytes: a byte that counts the cuts, the cuts (two bytes each, taken modulo the
/// length), and then what the client sends. `None` where it is too short or too long.
pub fn cuts_and_bytes(data: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let (count, data) = data.split_first()?;
    let (cuts, bytes) = data.split_at_checked(2 * usize::from(*count))?;
    if bytes.len() > LIMITS.stash_bytes_max {
        return None;
    }
    let place = |cut: &[u8; 2]| usize::from(u16::from_le_bytes(*cut)) % (bytes.len() + 1);
    let mut places: Vec<usize> = cuts.as_chunks::<2>().0.iter().map(place).collect();
    places.sort_unstable();
    Some((places, bytes))
}
