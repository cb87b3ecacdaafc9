//! Protobuf commands, read in place.
//!
//! In comes the payload of a binary message, out goes a [`Command`] whose strings are slices of it (a
//! short id and text may lie in the arena instead). The decoder accepts what prost accepts for the same
//! schema and yields the same values (last one wins, repeated messages merge, another command replaces,
//! unknown fields are skipped), but owns nothing: prost's generated types own every string.

use bumpalo::Bump;

use super::command::{
    Auth, Command, DecodeError, Fields, JoinFields, Malformed, Ping, ReactFields, ReportFields, SendFields,
    Since, ViewFields,
};

/// How deep messages and unknown groups may nest; prost's limit, so that both refuse the same.
const DEPTH_MAX: u32 = 100;
/// From this length on the vector units check UTF-8; below it simdutf8 hands over to the standard library.
const SIMD_BYTES_MIN: usize = 64;
/// From this length on strings are worth a copy that the vector units can take in whole steps.
const PADDED_BYTES_MIN: usize = 16;
/// Up to this length the copy is cheaper than checking an id and a text one by one.
const PADDED_BYTES_MAX: usize = 3 * SIMD_BYTES_MIN;

const VARINT: u32 = 0;
const SIXTY_FOUR_BIT: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const START_GROUP: u32 = 3;
const END_GROUP: u32 = 4;
const THIRTY_TWO_BIT: u32 = 5;

/// Keys: a field's number with the wire type that the schema gives it. Matching both at once costs one
/// jump; a known number under another key is the wrong wire type.
mod key {
    use super::{LENGTH_DELIMITED, VARINT};

    pub(super) const VARINT_1: u32 = 1 << 3 | VARINT;
    pub(super) const VARINT_2: u32 = 2 << 3 | VARINT;
    pub(super) const VARINT_3: u32 = 3 << 3 | VARINT;
    pub(super) const VARINT_4: u32 = 4 << 3 | VARINT;
    pub(super) const VARINT_5: u32 = 5 << 3 | VARINT;
    pub(super) const VARINT_6: u32 = 6 << 3 | VARINT;
    pub(super) const BYTES_1: u32 = 1 << 3 | LENGTH_DELIMITED;
    pub(super) const BYTES_2: u32 = 2 << 3 | LENGTH_DELIMITED;
    pub(super) const BYTES_3: u32 = 3 << 3 | LENGTH_DELIMITED;
    pub(super) const BYTES_4: u32 = 4 << 3 | LENGTH_DELIMITED;
    pub(super) const BYTES_5: u32 = 5 << 3 | LENGTH_DELIMITED;
    pub(super) const BYTES_6: u32 = 6 << 3 | LENGTH_DELIMITED;
    pub(super) const BYTES_7: u32 = 7 << 3 | LENGTH_DELIMITED;
}

/// Decodes a `danmaku.v1.ClientMessage`.
///
/// `arena` takes 192 bytes at most, for an id and a text that are short; reset it after each message or
/// after a few.
///
/// # Errors
/// [`DecodeError::Malformed`] for what is not protobuf of this schema, [`DecodeError::BadField`] for a
/// value outside its field's range.
#[inline]
pub fn decode<'a>(bytes: &'a [u8], arena: &'a Bump) -> Result<Command<'a>, DecodeError<'a>> {
    let mut reader = Reader { rest: bytes };
    // Nearly every message is one publish and nothing else: it needs no merging.
    if reader.eat(key::BYTES_1) {
        let mut body = reader.message()?;
        if reader.rest.is_empty() {
            let mut fields = SendFields::default();
            send_in_order(&mut body, &mut fields, arena)?;
            return Fields::Send(fields).finish(None);
        }
    }
    merged(bytes)?.finish(None)
}

/// Encoders write fields by rising number. Asking for each in turn is easier to predict than a jump on
/// the key; whatever is left after that is read in any order.
#[inline(always)]
fn send_in_order<'a>(
    body: &mut Reader<'a>,
    fields: &mut SendFields<'a>,
    arena: &'a Bump,
) -> Result<(), Malformed> {
    let id = if body.eat(key::BYTES_1) { body.length_delimited()? } else { &[] };
    let text = if body.eat(key::BYTES_2) { body.length_delimited()? } else { &[] };
    (fields.id, fields.text) = utf8_pair(id, text, arena)?;
    if body.eat(key::VARINT_3) {
        fields.mode = body.varint()? as i32;
    }
    if body.eat(key::VARINT_4) {
        fields.color = Some(body.varint()? as u32);
    }
    if body.eat(key::VARINT_6) {
        fields.stream_ms = Some(body.varint()?);
    }
    if body.rest.is_empty() { Ok(()) } else { send(body, fields) }
}

/// Merges into the command of the same kind, or replaces another one: a oneof's rule.
macro_rules! merge {
    ($reader:ident, $fields:ident, $variant:ident, $merge:expr) => {{
        let mut body = $reader.message()?;
        if !matches!($fields, Fields::$variant(_)) {
            $fields = Fields::$variant(Default::default());
        }
        if let Fields::$variant(fields) = &mut $fields {
            $merge(&mut body, fields)?;
        }
    }};
}

#[inline(never)]
fn merged(bytes: &[u8]) -> Result<Fields<'_>, Malformed> {
    let mut reader = Reader { rest: bytes };
    let mut fields = Fields::Unknown;
    while let Some(key) = reader.next_key()? {
        match key {
            key::BYTES_1 => merge!(reader, fields, Send, send),
            key::BYTES_2 => merge!(reader, fields, Join, join),
            key::BYTES_3 => merge!(reader, fields, Auth, auth),
            key::BYTES_4 => merge!(reader, fields, View, view),
            key::BYTES_5 => merge!(reader, fields, React, react),
            key::BYTES_6 => merge!(reader, fields, Report, report),
            key::BYTES_7 => merge!(reader, fields, Ping, ping),
            _ => reader.skip_unknown(key, 7, DEPTH_MAX)?,
        }
    }
    Ok(fields)
}

#[inline(never)]
fn send<'a>(body: &mut Reader<'a>, send: &mut SendFields<'a>) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::BYTES_1 => send.id = body.string()?,
            key::BYTES_2 => send.text = body.string()?,
            // Numbers are cut to their low bits, as every protobuf reader does.
            key::VARINT_3 => send.mode = body.varint()? as i32,
            key::VARINT_4 => send.color = Some(body.varint()? as u32),
            key::VARINT_5 => send.size = body.varint()? as u32,
            key::VARINT_6 => send.stream_ms = Some(body.varint()?),
            key::BYTES_7 => send.traceparent = body.string()?,
            _ => body.skip_unknown(key, 7, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn join<'a>(body: &mut Reader<'a>, join: &mut JoinFields<'a>) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::BYTES_1 => join.room = body.string()?,
            key::BYTES_2 => {
                let mut position = body.message()?;
                since(&mut position, join.since.get_or_insert_default())?;
            }
            _ => body.skip_unknown(key, 2, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn since<'a>(body: &mut Reader<'a>, since: &mut Since<'a>) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::BYTES_1 => since.epoch = body.string()?,
            key::VARINT_2 => since.seq = body.varint()?,
            _ => body.skip_unknown(key, 2, DEPTH_MAX - 2)?,
        }
    }
    Ok(())
}

fn auth<'a>(body: &mut Reader<'a>, auth: &mut Auth<'a>) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::BYTES_1 => auth.token = body.string()?,
            _ => body.skip_unknown(key, 1, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn view(body: &mut Reader<'_>, view: &mut ViewFields) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::VARINT_1 => view.paused = body.varint()? != 0,
            key::VARINT_2 => view.tier = Some(body.varint()? as i32),
            _ => body.skip_unknown(key, 2, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn react<'a>(body: &mut Reader<'a>, react: &mut ReactFields<'a>) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::BYTES_1 => react.kind = body.string()?,
            key::VARINT_2 => react.count = body.varint()? as u32,
            _ => body.skip_unknown(key, 2, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn report<'a>(body: &mut Reader<'a>, report: &mut ReportFields<'a>) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::VARINT_1 => report.seq = body.varint()?,
            key::BYTES_2 => report.reason = body.string()?,
            _ => body.skip_unknown(key, 2, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn ping(body: &mut Reader<'_>, ping: &mut Ping) -> Result<(), Malformed> {
    while let Some(key) = body.next_key()? {
        match key {
            key::VARINT_1 => ping.t = body.varint()?,
            _ => body.skip_unknown(key, 1, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

/// The rest of one message. A nested message gets a reader of its own bytes, so that no field can run
/// past its end.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads the next key as it stands, or `None` at the end of the message.
    #[inline(always)]
    fn next_key(&mut self) -> Result<Option<u32>, Malformed> {
        match *self.rest {
            [] => Ok(None),
            // One byte holds every key of this schema.
            [key @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(Some(key.into()))
            }
            _ => self.long_key().map(Some),
        }
    }

    /// Steps over `key` if it stands here in its one-byte form.
    #[inline(always)]
    fn eat(&mut self, key: u32) -> bool {
        match *self.rest {
            [byte, ref rest @ ..] if u32::from(byte) == key => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    #[cold]
    fn long_key(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed::Key)
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match *self.rest {
            [a @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(a))
            }
            [a, b @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(a & 0x7F) | u64::from(b) << 7)
            }
            // Colours and times in a stream: spelled out, because a loop's end is hard to predict.
            [a, b, c @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(a & 0x7F) | u64::from(b & 0x7F) << 7 | u64::from(c) << 14)
            }
            [a, b, c, d @ 0..0x80, ref rest @ ..] => {
                self.rest = rest;
                let low = u64::from(a & 0x7F) | u64::from(b & 0x7F) << 7;
                Ok(low | u64::from(c & 0x7F) << 14 | u64::from(d) << 21)
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (at, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * at);
            if byte < 0x80 {
                // The tenth byte has room for the 64th bit only.
                if at == 9 && byte > 1 {
                    return Err(Malformed::Varint);
                }
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { Malformed::Truncated } else { Malformed::Varint })
    }

    #[inline(always)]
    fn take(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed::Truncated)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline(always)]
    fn length_delimited(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.varint()?;
        self.take(count)
    }

    #[inline(always)]
    fn string(&mut self) -> Result<&'a str, Malformed> {
        utf8(self.length_delimited()?)
    }

    #[inline(always)]
    fn message(&mut self) -> Result<Self, Malformed> {
        Ok(Self { rest: self.length_delimited()? })
    }

    /// Skips the field of `key`, which is none of the message's `known` fields, unless one of them
    /// stands there with the wrong wire type. `depth` is how deep groups may still nest.
    #[cold]
    fn skip_unknown(&mut self, key: u32, known: u32, depth: u32) -> Result<(), Malformed> {
        if key & 7 <= THIRTY_TWO_BIT && (1..=known).contains(&(key >> 3)) {
            return Err(Malformed::WireType);
        }
        self.skip(key, depth)
    }

    fn skip(&mut self, key: u32, depth: u32) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed::TooDeep)?;
        match (key >> 3, key & 7) {
            (0, _) => Err(Malformed::Key),
            (_, VARINT) => self.varint().map(drop),
            (_, SIXTY_FOUR_BIT) => self.take(8).map(drop),
            (_, THIRTY_TWO_BIT) => self.take(4).map(drop),
            (_, LENGTH_DELIMITED) => self.length_delimited().map(drop),
            (field, START_GROUP) => loop {
                let inner = self.next_key()?.ok_or(Malformed::Truncated)?;
                match (inner >> 3, inner & 7) {
                    (end, END_GROUP) if end == field => return Ok(()),
                    (_, END_GROUP) => return Err(Malformed::Group),
                    _ => self.skip(inner, depth)?,
                }
            },
            (_, END_GROUP) => Err(Malformed::Group),
            _ => Err(Malformed::Key),
        }
    }
}

#[inline(always)]
fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    if bytes.len() < SIMD_BYTES_MIN {
        std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)
    } else {
        simdutf8::basic::from_utf8(bytes).map_err(|_| Malformed::Utf8)
    }
}

/// Checks an id and a text in one go, copied one behind the other and filled up with zeros to whole steps
/// of the vector units. One by one the id, and any text below a step, would go to the standard
/// library, which takes a nanosecond a byte of Chinese and guesses wrong where a short string ends.
///
/// Zeros are characters of their own, so the whole is valid, and can be cut at both places, exactly if
/// each of the two is valid.
#[inline(always)]
fn utf8_pair<'a>(a: &'a [u8], b: &'a [u8], arena: &'a Bump) -> Result<(&'a str, &'a str), Malformed> {
    let (middle, end) = (a.len(), a.len() + b.len());
    if !(PADDED_BYTES_MIN..=PADDED_BYTES_MAX).contains(&end) {
        return Ok((utf8(a)?, utf8(b)?));
    }
    let padded = &mut arena.alloc([0; PADDED_BYTES_MAX])[..end.next_multiple_of(SIMD_BYTES_MIN)];
    padded[..middle].copy_from_slice(a);
    padded[middle..end].copy_from_slice(b);
    let both = utf8(padded)?;
    both.get(..middle).zip(both.get(middle..end)).ok_or(Malformed::Utf8)
}
