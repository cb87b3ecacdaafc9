//! Protobuf commands, read in place.
//!
//! In comes the payload of a binary message, out goes a [`Command`] whose strings are slices of it. The
//! decoder accepts what prost accepts for the same schema and yields the same values (last one wins,
//! repeated messages merge, another command replaces, unknown fields are skipped), but copies nothing:
//! prost's generated types own every string.

use bumpalo::Bump;

use super::command::{
    Auth, Command, DecodeError, Fields, JoinFields, Malformed, Ping, ReactFields, ReportFields, SendFields,
    ViewFields,
};

/// How deep messages and unknown groups may nest; prost's limit, so that both refuse the same.
const DEPTH_MAX: u32 = 100;
/// Strings of at least this many bytes are worth the vector units.
const SIMD_BYTES_MIN: usize = 32;

const VARINT: u8 = 0;
const SIXTY_FOUR_BIT: u8 = 1;
const LENGTH_DELIMITED: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const THIRTY_TWO_BIT: u8 = 5;

/// Decodes a `danmaku.v1.ClientMessage`.
///
/// `arena` is where a value goes that cannot be a slice of `bytes`. No command of version 1 has one; it
/// is asked for so that a repeated field does not change every caller.
///
/// # Errors
/// [`DecodeError::Malformed`] for what is not protobuf of this schema, [`DecodeError::BadField`] for a
/// value outside its field's range.
pub fn decode<'a>(bytes: &'a [u8], _arena: &'a Bump) -> Result<Command<'a>, DecodeError<'a>> {
    read(bytes)?.finish(None)
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

fn read(bytes: &[u8]) -> Result<Fields<'_>, Malformed> {
    let mut reader = Reader { rest: bytes, wire: VARINT };
    let mut fields = Fields::Unknown;
    while let Some(field) = reader.next_field()? {
        match field {
            1 => merge!(reader, fields, Send, send),
            2 => merge!(reader, fields, Join, join),
            3 => merge!(reader, fields, Auth, auth),
            4 => merge!(reader, fields, View, view),
            5 => merge!(reader, fields, React, react),
            6 => merge!(reader, fields, Report, report),
            7 => merge!(reader, fields, Ping, ping),
            _ => reader.skip(field, DEPTH_MAX)?,
        }
    }
    Ok(fields)
}

#[inline]
fn send<'a>(body: &mut Reader<'a>, send: &mut SendFields<'a>) -> Result<(), Malformed> {
    while let Some(field) = body.next_field()? {
        match field {
            1 => send.id = body.string()?,
            2 => send.text = body.string()?,
            3 => send.mode = body.int32()?,
            4 => send.color = Some(body.uint32()?),
            5 => send.size = body.uint32()?,
            6 => send.stream_ms = Some(body.uint64()?),
            7 => send.traceparent = body.string()?,
            _ => body.skip(field, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn join<'a>(body: &mut Reader<'a>, join: &mut JoinFields<'a>) -> Result<(), Malformed> {
    while let Some(field) = body.next_field()? {
        match field {
            1 => join.room = body.string()?,
            2 => {
                let mut position = body.message()?;
                let since = join.since.get_or_insert_default();
                while let Some(field) = position.next_field()? {
                    match field {
                        1 => since.epoch = position.string()?,
                        2 => since.seq = position.uint64()?,
                        _ => position.skip(field, DEPTH_MAX - 2)?,
                    }
                }
            }
            _ => body.skip(field, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn auth<'a>(body: &mut Reader<'a>, auth: &mut Auth<'a>) -> Result<(), Malformed> {
    while let Some(field) = body.next_field()? {
        match field {
            1 => auth.token = body.string()?,
            _ => body.skip(field, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn view(body: &mut Reader<'_>, view: &mut ViewFields) -> Result<(), Malformed> {
    while let Some(field) = body.next_field()? {
        match field {
            1 => view.paused = body.uint64()? != 0,
            2 => view.tier = Some(body.int32()?),
            _ => body.skip(field, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn react<'a>(body: &mut Reader<'a>, react: &mut ReactFields<'a>) -> Result<(), Malformed> {
    while let Some(field) = body.next_field()? {
        match field {
            1 => react.kind = body.string()?,
            2 => react.count = body.uint32()?,
            _ => body.skip(field, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn report<'a>(body: &mut Reader<'a>, report: &mut ReportFields<'a>) -> Result<(), Malformed> {
    while let Some(field) = body.next_field()? {
        match field {
            1 => report.seq = body.uint64()?,
            2 => report.reason = body.string()?,
            _ => body.skip(field, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

fn ping(body: &mut Reader<'_>, ping: &mut Ping) -> Result<(), Malformed> {
    while let Some(field) = body.next_field()? {
        match field {
            1 => ping.t = body.uint64()?,
            _ => body.skip(field, DEPTH_MAX - 1)?,
        }
    }
    Ok(())
}

/// The rest of one message. A nested message gets a reader of its own bytes, so that no field can run
/// past its end.
struct Reader<'a> {
    rest: &'a [u8],
    /// Wire type of the field whose key was read last.
    wire: u8,
}

impl<'a> Reader<'a> {
    /// Reads the next key: the field's number, or `None` at the end.
    #[inline(always)]
    fn next_field(&mut self) -> Result<Option<u32>, Malformed> {
        match *self.rest {
            [] => Ok(None),
            // One byte holds every field number of this schema.
            [key @ 8..0x80, ref rest @ ..] if key & 7 <= THIRTY_TWO_BIT => {
                self.rest = rest;
                self.wire = key & 7;
                Ok(Some(u32::from(key >> 3)))
            }
            _ => self.long_key().map(Some),
        }
    }

    #[cold]
    fn long_key(&mut self) -> Result<u32, Malformed> {
        let key = u32::try_from(self.varint()?).map_err(|_| Malformed::Key)?;
        self.wire = (key & 7) as u8;
        match key >> 3 {
            0 => Err(Malformed::Key),
            _ if self.wire > THIRTY_TWO_BIT => Err(Malformed::Key),
            field => Ok(field),
        }
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
    fn expect(&self, wire: u8) -> Result<(), Malformed> {
        if self.wire == wire { Ok(()) } else { Err(Malformed::WireType) }
    }

    #[inline(always)]
    fn uint64(&mut self) -> Result<u64, Malformed> {
        self.expect(VARINT)?;
        self.varint()
    }

    /// A wider number is cut to its low bits, as every protobuf reader does.
    #[inline(always)]
    fn uint32(&mut self) -> Result<u32, Malformed> {
        self.uint64().map(|value| value as u32)
    }

    #[inline(always)]
    fn int32(&mut self) -> Result<i32, Malformed> {
        self.uint64().map(|value| value as i32)
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
        self.expect(LENGTH_DELIMITED)?;
        let count = self.varint()?;
        self.take(count)
    }

    #[inline(always)]
    fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.length_delimited()?;
        if bytes.len() < SIMD_BYTES_MIN {
            std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)
        } else {
            simdutf8::basic::from_utf8(bytes).map_err(|_| Malformed::Utf8)
        }
    }

    #[inline(always)]
    fn message(&mut self) -> Result<Self, Malformed> {
        Ok(Self { rest: self.length_delimited()?, wire: VARINT })
    }

    /// Skips a field that this version does not know; `depth` is how many more groups may open.
    #[cold]
    fn skip(&mut self, field: u32, depth: u32) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed::TooDeep)?;
        match self.wire {
            VARINT => self.varint().map(drop),
            SIXTY_FOUR_BIT => self.take(8).map(drop),
            THIRTY_TWO_BIT => self.take(4).map(drop),
            LENGTH_DELIMITED => self.length_delimited().map(drop),
            START_GROUP => loop {
                let inner = self.next_field()?.ok_or(Malformed::Truncated)?;
                if self.wire != END_GROUP {
                    self.skip(inner, depth)?;
                } else if inner == field {
                    return Ok(());
                } else {
                    return Err(Malformed::Group);
                }
            },
            _ => Err(Malformed::Group),
        }
    }
}
