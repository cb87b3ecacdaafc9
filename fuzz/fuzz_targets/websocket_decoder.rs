//! A connection's bytes in any pieces: no panic, and the same events whatever the pieces.
//!
//! Input: a byte of flags (bit 0: deflate agreed), a byte that counts the cuts, the cuts (two bytes
//! each, taken modulo the length), and then what the client sends.

#![no_main]

use danmaku_wire::websocket::{Decoder, Event, Inflater, Input, Limits, Violation};
use libfuzzer_sys::fuzz_target;

/// Narrow, so that short inputs reach every one of them.
const LIMITS: Limits =
    Limits { frame_bytes_max: 4096, message_bytes_max: 8192, fragments_max: 16, stash_bytes_max: 1 << 20 };

/// What a worker may hold for one connection: two buffers that may have doubled, and its state.
const BUFFERED_BYTES_MAX: usize = 2 * LIMITS.message_bytes_max + 2 * LIMITS.frame_bytes_max + 1024;

#[derive(Debug, PartialEq)]
enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
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

struct Connection {
    decoder: Decoder,
    inflater: Inflater,
    seen: Vec<Seen>,
}

impl Connection {
    fn new(deflate: bool) -> Self {
        Self { decoder: Decoder::new(deflate), inflater: Inflater::new(), seen: Vec::new() }
    }

    fn step(&mut self, input: &mut Input<'_>) -> bool {
        let before = self.inflater.inflated_bytes();
        let seen = match self.decoder.next(input, &mut self.inflater, &LIMITS) {
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
        assert!(self.decoder.buffered_bytes() <= BUFFERED_BYTES_MAX);
    }

    fn feed_one_and_stash(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let mut input = Input::new(&mut bytes);
        self.step(&mut input);
        let rest = input.rest().to_vec();
        assert!(self.decoder.stash(&rest, &LIMITS));
    }
}

fuzz_target!(|data: &[u8]| {
    let [flags, count, data @ ..] = data else { return };
    let Some((cuts, bytes)) = data.split_at_checked(2 * usize::from(*count)) else { return };
    if bytes.len() > LIMITS.stash_bytes_max {
        return;
    }
    let deflate = flags & 1 != 0;
    let mut whole = Connection::new(deflate);
    whole.feed(bytes);

    let place = |cut: &[u8; 2]| usize::from(u16::from_le_bytes(*cut)) % (bytes.len() + 1);
    let mut places: Vec<usize> = cuts.as_chunks::<2>().0.iter().map(place).collect();
    places.sort_unstable();
    let mut pieces = Connection::new(deflate);
    let mut stashed = Connection::new(deflate);
    let mut from = 0;
    for to in places.into_iter().chain([bytes.len()]) {
        pieces.feed(&bytes[from..to]);
        stashed.feed_one_and_stash(&bytes[from..to]);
        from = to;
    }
    stashed.feed(&[]);
    assert_eq!(pieces.seen, whole.seen, "in pieces");
    assert_eq!(stashed.seen, whole.seen, "with stashes");

    // Quadratic in what is incomplete only if something is wrong, so that it may run every time.
    let mut bytewise = Connection::new(deflate);
    bytes.chunks(1).for_each(|byte| bytewise.feed(byte));
    assert_eq!(bytewise.seen, whole.seen, "byte by byte");
});
