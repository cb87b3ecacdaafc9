//! The assembler with the inflater: conversations of mostly honest clients (fragments, control frames in
//! between, masks, every way to deflate), cut anywhere. What was said must arrive, and whatever else is
//! said must be judged by the book.
//!
//! Input: a list of operations.

#![no_main]

use std::cell::RefCell;

use arbitrary::{Result, Unstructured};
use danmaku_fuzz::connection::{self, LIMITS, Seen};
use danmaku_fuzz::masked::{BINARY, CLOSE, FIN, PING, PONG, RSV1, TEXT, write_frame};
use danmaku_fuzz::{deflated, frames};
use danmaku_wire::websocket::Deflater;
use libfuzzer_sys::fuzz_target;

const OPERATIONS_MAX: usize = 24;
const WORDS: [&str; 6] = ["danmaku ", "弹幕", "😀", "é", "x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"];

thread_local! {
    static DEFLATERS: RefCell<[Deflater; 3]> = RefCell::new([1, 6, 9].map(Deflater::new));
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut client = Client { deflate: input.arbitrary().unwrap_or(true), ..Client::default() };
    for _ in 0..OPERATIONS_MAX {
        if client.ended || input.is_empty() || client.act(&mut input).is_err() {
            break;
        }
    }
    let Client { deflate, bytes, said, .. } = client;
    let seen = frames::read(&bytes, deflate, &LIMITS);
    assert!(seen.starts_with(&said), "said {said:?}, but {seen:?}");
    let mut cuts: Vec<usize> = (0..input.len().min(8))
        .map_while(|_| input.arbitrary::<u16>().ok())
        .map(|cut| usize::from(cut) % (bytes.len() + 1))
        .collect();
    cuts.sort_unstable();
    connection::check(deflate, &bytes, &cuts, &seen);
});

/// What a client has sent.
#[derive(Default)]
struct Client {
    deflate: bool,
    bytes: Vec<u8>,
    /// What must arrive, as long as everything kept to the rules and the limits.
    said: Vec<Seen>,
    broke: bool,
    ended: bool,
}

impl Client {
    fn act(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=9)? {
            0..=5 => self.message(input),
            6 | 7 => self.control(input),
            8 => self.close(input),
            _ => self.anything(input),
        }
    }

    fn say(&mut self, seen: Seen) {
        if !self.broke {
            self.said.push(seen);
        }
    }

    fn frame(&mut self, first: u8, key: [u8; 4], payload: &[u8]) {
        self.broke |= payload.len() > LIMITS.frame_bytes_max;
        write_frame(&mut self.bytes, first, key, payload);
    }

    fn message(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let payload = payload(input)?;
        let text = input.arbitrary()? && str::from_utf8(&payload).is_ok();
        let opcode = if text { TEXT } else { BINARY };
        let (wire, rsv1) = match self.deflate && input.arbitrary()? {
            true => (deflate(&payload, input)?, RSV1),
            false => (payload.clone(), 0),
        };
        self.broke |= wire.len().max(payload.len()) > LIMITS.message_bytes_max;
        let fragments = input.int_in_range(1..=6)?;
        let mut rest = wire.as_slice();
        for fragment in 1..=fragments {
            let last = fragment == fragments;
            let bytes = if last { rest.len() } else { input.int_in_range(0..=rest.len())? };
            let (now, later) = rest.split_at(bytes);
            let first = if fragment == 1 { opcode | rsv1 } else { 0 } | if last { FIN } else { 0 };
            self.frame(first, input.arbitrary()?, now);
            rest = later;
            if !last && input.arbitrary()? {
                self.control(input)?;
            }
        }
        self.say(if text {
            Seen::Text(String::from_utf8(payload).expect("looked at before"))
        } else {
            Seen::Binary(payload)
        });
        Ok(())
    }

    fn control(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let bytes = input.int_in_range(0..=125)?;
        let (ping, payload) = (input.arbitrary()?, input.bytes(bytes.min(input.len()))?);
        let key = input.arbitrary()?;
        self.frame(FIN | if ping { PING } else { PONG }, key, payload);
        self.say(if ping { Seen::Ping(payload.to_vec()) } else { Seen::Pong(payload.to_vec()) });
        Ok(())
    }

    fn close(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let bytes = input.int_in_range(0..=125)?;
        let payload = input.bytes(bytes.min(input.len()))?;
        self.frame(FIN | CLOSE, input.arbitrary()?, payload);
        // What follows a close is not looked at, and nothing may come of it.
        self.broke = true;
        Ok(())
    }

    /// Any head, with a payload that may be shorter than it says.
    fn anything(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        self.broke = true;
        let head: [u8; 2] = input.arbitrary()?;
        self.bytes.extend_from_slice(&head);
        let more = input.int_in_range(0..=40)?;
        self.bytes.extend_from_slice(input.bytes(more.min(input.len()))?);
        self.ended = input.ratio(1, 2)?;
        Ok(())
    }
}

fn payload(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    Ok(match input.int_in_range(0..=3)? {
        0 | 1 => {
            let words = input.int_in_range(0..=40)?;
            let words: Result<Vec<_>> = (0..words).map(|_| input.choose(&WORDS).copied()).collect();
            words?.concat().into_bytes()
        }
        2 => {
            let bytes = input.int_in_range(0..=300)?;
            input.bytes(bytes.min(input.len()))?.to_vec()
        }
        // About the limits of a frame and of a message, and beyond.
        _ => vec![input.arbitrary()?; input.int_in_range(0..=9_000)?],
    })
}

fn deflate(payload: &[u8], input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    Ok(match input.int_in_range(0..=3)? {
        0 => DEFLATERS.with_borrow_mut(|deflaters| {
            let mut out = Vec::new();
            input.choose_index(deflaters.len()).map(|level| deflaters[level].compress(payload, &mut out))?;
            Ok(out)
        })?,
        1 => deflated::stored(payload, input.arbitrary()?),
        2 => deflated::finished(std::iter::once(payload), input.int_in_range(0..=10)?),
        _ => {
            // As a client that ends a stream with every fragment; no more than may be ended.
            let bytes = input.int_in_range(1..=300)?.max(payload.len() / (deflated::STREAM_ENDS_MAX - 1) + 1);
            deflated::finished(payload.chunks(bytes), input.int_in_range(0..=10)?)
        }
    })
}
