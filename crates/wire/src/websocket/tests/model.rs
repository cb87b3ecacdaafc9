//! Random connections against a plain model: what was put in is what comes out.

use proptest::prelude::*;

use super::*;
use crate::websocket::deflate::Deflater;

/// What a client does next.
#[derive(Debug, Clone)]
enum Op {
    Message { is_text: bool, payload: Vec<u8>, deflates: bool, fragments: Vec<usize>, pings: Vec<bool> },
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

fn op() -> impl Strategy<Value = Op> {
    let words =
        prop::sample::select(vec!["danmaku ", "弹幕", "😀", "é", "x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]);
    let written = prop::collection::vec(words, 0..60).prop_map(|words| (true, words.concat().into_bytes()));
    let raw = prop::collection::vec(any::<u8>(), 0..400).prop_map(|bytes| (false, bytes));
    let message = (
        prop_oneof![written, raw],
        any::<bool>(),
        prop::collection::vec(0..2000_usize, 0..5),
        prop::collection::vec(any::<bool>(), 6),
    )
        .prop_map(|((is_text, payload), deflates, fragments, pings)| Op::Message {
            is_text,
            payload,
            deflates,
            fragments,
            pings,
        });
    let control = || prop::collection::vec(any::<u8>(), 0..=125_usize);
    prop_oneof![4 => message, 1 => control().prop_map(Op::Ping), 1 => control().prop_map(Op::Pong)]
}

/// The client's bytes, and what a server must see of them.
fn play(ops: &[Op], deflate: bool) -> (Vec<u8>, Vec<Seen>) {
    let (mut bytes, mut seen) = (Vec::new(), Vec::new());
    for op in ops {
        match op {
            Op::Ping(payload) => {
                bytes.extend(frame(PING, payload));
                seen.push(Seen::Ping(payload.clone()));
            }
            Op::Pong(payload) => {
                bytes.extend(frame(PONG, payload));
                seen.push(Seen::Pong(payload.clone()));
            }
            Op::Message { is_text, payload, deflates, fragments, pings } => {
                let compresses = deflate && *deflates;
                let mut wire = payload.clone();
                if compresses {
                    wire.clear();
                    Deflater::new(6).compress(payload, &mut wire);
                }
                let first = if *is_text { 1 } else { 2 } | if compresses { 0x40 } else { 0 };
                let pings = message_frames(&mut bytes, first, &wire, fragments, pings);
                seen.extend(std::iter::repeat_n(Seen::Ping(b"between".to_vec()), pings));
                seen.push(match is_text {
                    true => text(std::str::from_utf8(payload).expect("made of whole words")),
                    false => Seen::Binary(payload.clone()),
                });
            }
        }
    }
    (bytes, seen)
}

/// Appends a message cut at `fragments`, with a ping before a fragment where `pings` says so; returns
/// how many.
fn message_frames(out: &mut Vec<u8>, first: u8, wire: &[u8], fragments: &[usize], pings: &[bool]) -> usize {
    let mut cuts: Vec<usize> = fragments.iter().map(|cut| cut % (wire.len() + 1)).collect();
    cuts.sort_unstable();
    let ends: Vec<usize> = cuts.into_iter().chain([wire.len()]).collect();
    let (mut from, mut pinged) = (0, 0);
    for (index, to) in ends.iter().copied().enumerate() {
        let opcode = if index == 0 { first } else { 0 };
        let fin = if index + 1 == ends.len() { 0x80 } else { 0 };
        if index > 0 && pings[index] {
            out.extend(frame(PING, b"between"));
            pinged += 1;
        }
        out.extend(frame(fin | opcode, &wire[from..to]));
        from = to;
    }
    pinged
}

/// Cut points inside an input, in order.
fn cuts(bytes: usize, wanted: &[usize]) -> Vec<usize> {
    let mut cuts: Vec<usize> = wanted.iter().map(|cut| cut % (bytes + 1)).collect();
    cuts.sort_unstable();
    cuts
}

proptest! {
    /// Any messages, fragmented, interleaved, deflated and cut in any way, arrive as they were sent.
    #[test]
    fn what_is_sent_is_what_arrives(
        ops in prop::collection::vec(op(), 0..8),
        deflate: bool,
        wanted in prop::collection::vec(any::<usize>(), 0..12),
        piece_bytes in 1..100_usize,
    ) {
        let (bytes, seen) = play(&ops, deflate);
        let expected = (seen, None);
        let cut = run_cut(deflate, WIDE, &bytes, &cuts(bytes.len(), &wanted));
        prop_assert_eq!(&cut, &expected);
        prop_assert_eq!(&run_stashing(deflate, WIDE, &bytes, piece_bytes), &expected);
        prop_assert_eq!(&run_carrying(deflate, WIDE, &bytes, piece_bytes), &expected);
    }

    /// A connection with one damaged byte is judged the same in whatever pieces it came.
    #[test]
    fn damage_is_judged_the_same_however_it_is_cut(
        ops in prop::collection::vec(op(), 1..5),
        deflate: bool,
        damage in (any::<usize>(), 1..=255_u8),
        wanted in prop::collection::vec(any::<usize>(), 1..12),
        piece_bytes in 1..100_usize,
    ) {
        let limits = Limits { frame_bytes_max: 300, message_bytes_max: 500, fragments_max: 4, ..WIDE };
        let (mut bytes, _) = play(&ops, deflate);
        prop_assume!(!bytes.is_empty());
        let at = damage.0 % bytes.len();
        bytes[at] ^= damage.1;
        let whole = run_cut(deflate, limits, &bytes, &[]);
        prop_assert_eq!(&run_cut(deflate, limits, &bytes, &cuts(bytes.len(), &wanted)), &whole);
        prop_assert_eq!(&run_stashing(deflate, limits, &bytes, piece_bytes), &whole);
        prop_assert_eq!(&run_carrying(deflate, limits, &bytes, piece_bytes), &whole);
    }

    /// Whatever bytes are said to be a decoder's state: a decoder or a violation comes of them.
    #[test]
    fn a_state_that_no_decoder_had_is_refused_or_taken_but_never_a_panic(
        incomplete in prop::collection::vec(any::<u8>(), 0..200),
        stash in prop::collection::vec(any::<u8>(), 0..200),
        deflate: bool,
    ) {
        let carried = crate::websocket::decoder::Carried { deflate, incomplete, stash };
        let _ = Decoder::resume(carried, &WIDE);
    }
}
