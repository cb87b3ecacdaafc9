//! JSON commands, read in place.

use bumpalo::Bump;

use super::reader::Reader;
use crate::entry::{Mode, Tier};
use crate::native::command::{
    Auth, Command, DecodeError, Fields, JoinFields, Malformed, Ping, Problem, ReactFields, ReportFields,
    Send, SendFields, Since, ViewFields,
};

/// Decodes an object with one key, the command's name.
///
/// Strings without escapes are slices of `text`; the others are unescaped into `arena`. Fields that this
/// version does not know are skipped, `null` is an absent field, and a known field that stands twice is
/// refused: two readers could take different ones.
///
/// # Errors
/// [`DecodeError::Malformed`] for what is not JSON or nests more than [`super::DEPTH_MAX`] deep,
/// [`DecodeError::NotOneCommand`] for another shape, [`DecodeError::BadField`] for a field of the wrong
/// type or range.
pub fn decode<'a>(text: &'a str, arena: &'a Bump) -> Result<Command<'a>, DecodeError<'a>> {
    let mut reader = Reader::new(text, arena);
    if reader.peek() != Some(b'{') {
        reader.skip()?;
        reader.end()?;
        return Err(DecodeError::NotOneCommand);
    }
    reader.open_object()?;
    let mut fields = Fields::Unknown;
    let mut commands = 0_u32;
    let mut first = true;
    while let Some(key) = reader.next_key(&mut first)? {
        commands = commands.saturating_add(1);
        // Only the first is kept: with two of them the message is refused anyway.
        if commands == 1 {
            fields = command(&mut reader, key)?;
        } else {
            reader.skip()?;
        }
    }
    reader.end()?;
    if commands != 1 {
        return Err(DecodeError::NotOneCommand);
    }
    fields.finish(reader.bad())
}

/// Decodes the object of a `send` alone, as it stands in the body of an HTTP request.
///
/// # Errors
/// As [`decode`]'s.
pub fn decode_send<'a>(text: &'a str, arena: &'a Bump) -> Result<Send<'a>, DecodeError<'a>> {
    let mut reader = Reader::new(text, arena);
    let fields = send(&mut reader)?;
    reader.end()?;
    match Fields::Send(fields).finish(reader.bad())? {
        Command::Send(send) => Ok(send),
        _ => Err(DecodeError::NotOneCommand),
    }
}

fn command<'a>(reader: &mut Reader<'a>, name: &str) -> Result<Fields<'a>, Malformed> {
    Ok(match name {
        "send" => Fields::Send(send(reader)?),
        "join" => Fields::Join(join(reader)?),
        "auth" => Fields::Auth(auth(reader)?),
        "view" => Fields::View(view(reader)?),
        "react" => Fields::React(react(reader)?),
        "report" => Fields::Report(report(reader)?),
        "ping" => Fields::Ping(ping(reader)?),
        _ => {
            reader.skip()?;
            Fields::Unknown
        }
    })
}

/// Reads the object that stands here field by field. Each arm is one field: its name, its bit in the set
/// of those seen, and what to do with its value.
macro_rules! fields {
    ($reader:ident, { $($name:literal => $read:expr,)+ }) => {{
        const NAMES: &[&str] = &[$($name),+];
        let mut seen = 0_u32;
        let mut first = true;
        while let Some(key) = $reader.next_key(&mut first)? {
            if let Some(place) = NAMES.iter().position(|name| *name == key) {
                if seen & 1 << place != 0 {
                    $reader.refuse(NAMES[place], Problem::Twice);
                }
                seen |= 1 << place;
            }
            match key {
                $($name => $read,)+
                _ => $reader.skip()?,
            }
        }
    }};
}

/// The body of a command must be an object; `null` is none.
fn body(reader: &mut Reader<'_>, name: &'static str) -> Result<bool, Malformed> {
    if reader.peek() == Some(b'n') {
        reader.refuse(name, Problem::Type("an object"));
    }
    reader.object(name)
}

fn send<'a>(reader: &mut Reader<'a>) -> Result<SendFields<'a>, Malformed> {
    let mut send = SendFields::default();
    if !body(reader, "send")? {
        return Ok(send);
    }
    fields!(reader, {
        "id" => send.id = reader.string("id")?.unwrap_or_default(),
        "text" => send.text = reader.string("text")?.unwrap_or_default(),
        "mode" => if let Some(name) = reader.string("mode")? {
            match Mode::parse(name) {
                Some(mode) => send.mode = mode as i32,
                None => reader.refuse("mode", Problem::Name),
            }
        },
        "color" => send.color = number32(reader, "color")?,
        "size" => send.size = number32(reader, "size")?.unwrap_or_default(),
        "streamMs" => send.stream_ms = reader.number("streamMs", u64::MAX)?,
        "traceparent" => send.traceparent = reader.string("traceparent")?.unwrap_or_default(),
    });
    Ok(send)
}

fn join<'a>(reader: &mut Reader<'a>) -> Result<JoinFields<'a>, Malformed> {
    let mut join = JoinFields::default();
    if !body(reader, "join")? {
        return Ok(join);
    }
    fields!(reader, {
        "room" => join.room = reader.string("room")?.unwrap_or_default(),
        "since" => if reader.object("since")? {
            join.since = Some(since(reader)?);
        },
    });
    Ok(join)
}

fn since<'a>(reader: &mut Reader<'a>) -> Result<Since<'a>, Malformed> {
    let mut since = Since::default();
    fields!(reader, {
        "epoch" => since.epoch = reader.string("since.epoch")?.unwrap_or_default(),
        "seq" => since.seq = reader.number("since.seq", u64::MAX)?.unwrap_or_default(),
    });
    Ok(since)
}

fn auth<'a>(reader: &mut Reader<'a>) -> Result<Auth<'a>, Malformed> {
    let mut auth = Auth::default();
    if body(reader, "auth")? {
        fields!(reader, {
            "token" => auth.token = reader.string("token")?.unwrap_or_default(),
        });
    }
    Ok(auth)
}

fn view(reader: &mut Reader<'_>) -> Result<ViewFields, Malformed> {
    let mut view = ViewFields::default();
    if !body(reader, "view")? {
        return Ok(view);
    }
    fields!(reader, {
        "paused" => view.paused = reader.boolean("paused")?.unwrap_or_default(),
        "tier" => if let Some(name) = reader.string("tier")? {
            match Tier::parse(name) {
                Some(tier) => view.tier = Some(tier as i32),
                None => reader.refuse("tier", Problem::Name),
            }
        },
    });
    Ok(view)
}

fn react<'a>(reader: &mut Reader<'a>) -> Result<ReactFields<'a>, Malformed> {
    let mut react = ReactFields::default();
    if body(reader, "react")? {
        fields!(reader, {
            "kind" => react.kind = reader.string("kind")?.unwrap_or_default(),
            "count" => react.count = number32(reader, "count")?.unwrap_or_default(),
        });
    }
    Ok(react)
}

fn report<'a>(reader: &mut Reader<'a>) -> Result<ReportFields<'a>, Malformed> {
    let mut report = ReportFields::default();
    if body(reader, "report")? {
        fields!(reader, {
            "seq" => report.seq = reader.number("seq", u64::MAX)?.unwrap_or_default(),
            "reason" => report.reason = reader.string("reason")?.unwrap_or_default(),
        });
    }
    Ok(report)
}

fn ping(reader: &mut Reader<'_>) -> Result<Ping, Malformed> {
    let mut ping = Ping::default();
    if body(reader, "ping")? {
        fields!(reader, {
            "t" => ping.t = reader.number("t", u64::MAX)?.unwrap_or_default(),
        });
    }
    Ok(ping)
}

fn number32(reader: &mut Reader<'_>, field: &'static str) -> Result<Option<u32>, Malformed> {
    Ok(reader.number(field, u32::MAX.into())?.and_then(|value| u32::try_from(value).ok()))
}
