//! The server's messages as JSON, written straight from the room's log.
//!
//! Fields at their default are left out, but not those that every reader does arithmetic or loops with:
//! `seq`, `from`, `to`, `of` and `items` always stand where they belong.

use crate::entry::{Author, Body, COLOR_DEFAULT, Comment, Entry, Mode, Role, SIZE_DEFAULT};
use crate::native::message::{
    Ack, AckState, AuthInfo, Batch, EpochChange, ErrorMessage, Gap, Joined, Pending, Reconnect, RoomUpdate,
    ServerMessage, Snapshot, You,
};
use crate::position::Position;

/// Appends `message` as one JSON object on one line. Nothing is allocated but the growth of `out`.
pub fn encode(message: &ServerMessage<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    match message {
        ServerMessage::Joined(m) => object(out, "joined", |out| joined(out, m)),
        ServerMessage::Batch(m) => object(out, "batch", |out| batch(out, m)),
        ServerMessage::Snapshot(m) => object(out, "snapshot", |out| snapshot(out, m)),
        ServerMessage::Ack(m) => object(out, "ack", |out| ack(out, m)),
        ServerMessage::Error(m) => object(out, "error", |out| error(out, m)),
        ServerMessage::Gap(m) => object(out, "gap", |out| gap(out, m)),
        ServerMessage::Epoch(m) => object(out, "epoch", |out| epoch_change(out, m)),
        ServerMessage::Room(m) => object(out, "room", |out| room_update(out, m)),
        ServerMessage::Pending(m) => object(out, "pending", |out| pending(out, m)),
        ServerMessage::Auth(m) => object(out, "auth", |out| auth_info(out, m)),
        ServerMessage::Reconnect(m) => object(out, "reconnect", |out| reconnect(out, m)),
        ServerMessage::Pong(m) => object(out, "pong", |out| always(out, "t", m.t)),
    }
    out.push(b'}');
}

fn joined(out: &mut Vec<u8>, m: &Joined<'_>) {
    text(out, "room", m.room);
    text(out, "epoch", m.epoch);
    always(out, "seq", m.seq);
    number(out, "online", m.online);
    truth(out, "recovered", m.recovered);
    object(out, "you", |out| you(out, &m.you));
}

fn you(out: &mut Vec<u8>, m: &You<'_>) {
    text(out, "id", m.id);
    text(out, "name", m.name);
    role(out, m.role);
    text(out, "guest", m.guest.unwrap_or_default());
}

fn batch(out: &mut Vec<u8>, m: &Batch<'_>) {
    always(out, "from", m.from);
    always(out, "to", m.to);
    items(out, m.items);
}

fn snapshot(out: &mut Vec<u8>, m: &Snapshot<'_>) {
    text(out, "epoch", m.epoch);
    always(out, "seq", m.seq);
    items(out, m.items);
    object(out, "room", |out| room_update(out, &m.room));
}

fn items(out: &mut Vec<u8>, entries: &[&Entry]) {
    array(out, "items", entries, |out, item| {
        out.push(b'{');
        entry(out, item);
        out.push(b'}');
    });
}

fn ack(out: &mut Vec<u8>, m: &Ack<'_>) {
    text(out, "id", m.id);
    if m.state != AckState::Accepted {
        text(out, "state", m.state.as_str());
    }
    number(out, "seq", m.seq.unwrap_or_default());
    text(out, "epoch", m.epoch.unwrap_or_default());
}

fn error(out: &mut Vec<u8>, m: &ErrorMessage<'_>) {
    text(out, "id", m.id.unwrap_or_default());
    text(out, "code", m.code.as_str());
    text(out, "message", m.message);
    number(out, "retryAfterMs", m.retry_after_ms.unwrap_or_default());
    number(out, "seq", m.seq.unwrap_or_default());
    truth(out, "shown", m.shown);
    number(out, "count", m.count);
}

fn gap(out: &mut Vec<u8>, m: &Gap<'_>) {
    text(out, "epoch", m.epoch.unwrap_or_default());
    always(out, "from", m.from);
    always(out, "to", m.to);
    text(out, "reason", m.reason);
}

fn epoch_change(out: &mut Vec<u8>, m: &EpochChange<'_>) {
    text(out, "epoch", m.epoch);
    always(out, "seq", m.seq);
    if let Some(Position { epoch, seq }) = m.prev {
        object(out, "prev", |out| {
            text(out, "epoch", epoch.as_str());
            always(out, "seq", *seq);
        });
    }
}

fn room_update(out: &mut Vec<u8>, m: &RoomUpdate<'_>) {
    number(out, "online", m.online);
    number(out, "viewers", m.viewers);
    if !m.reactions.is_empty() {
        object(out, "reactions", |out| {
            for (kind, count) in m.reactions {
                comma(out);
                string(out, kind);
                out.push(b':');
                digits(out, *count);
            }
        });
    }
    number(out, "slowModeMs", m.slow_mode_ms);
    raw(out, "data", m.data);
}

fn pending(out: &mut Vec<u8>, m: &Pending<'_>) {
    text(out, "id", m.id);
    object(out, "user", |out| user(out, m.user));
    text(out, "text", m.text);
    text(out, "reason", m.reason);
    number(out, "at", m.at_ms);
    optional(out, "releaseInMs", m.release_in_ms);
}

fn auth_info(out: &mut Vec<u8>, m: &AuthInfo<'_>) {
    number(out, "expiresInMs", m.expires_in_ms.unwrap_or_default());
    if let Some(identity) = &m.you {
        object(out, "you", |out| you(out, identity));
    }
}

fn reconnect(out: &mut Vec<u8>, m: &Reconnect<'_>) {
    number(out, "afterMs", m.after_ms);
    text(out, "reason", m.reason);
    text(out, "url", m.url.unwrap_or_default());
}

fn entry(out: &mut Vec<u8>, m: &Entry) {
    always(out, "seq", m.seq);
    match &m.body {
        Body::Comment(body) => comment(out, body),
        Body::Event(event) => {
            text(out, "type", &event.kind);
            if let Some(author) = &event.user {
                object(out, "user", |out| user(out, author));
            }
            raw(out, "data", &event.data);
        }
        Body::Retract { epoch, seqs } => {
            text(out, "type", "retract");
            array(out, "seqs", seqs, |out, seq| digits(out, *seq));
            text(out, "epoch", epoch.as_ref().map_or("", |e| e.as_str()));
        }
        Body::Fold { of, count } => {
            text(out, "type", "fold");
            always(out, "of", *of);
            number(out, "count", *count);
        }
        Body::Pin { of } => {
            text(out, "type", "pin");
            always(out, "of", *of);
        }
        Body::Clear { up_to } => {
            text(out, "type", "clear");
            number(out, "upTo", *up_to);
        }
        Body::State { data } => {
            text(out, "type", "state");
            raw(out, "data", data);
        }
    }
    number(out, "at", m.at_ms);
}

fn comment(out: &mut Vec<u8>, m: &Comment) {
    object(out, "user", |out| user(out, &m.user));
    text(out, "text", &m.text);
    if m.mode != Mode::Scroll {
        text(out, "mode", m.mode.as_str());
    }
    optional(out, "color", (m.color != COLOR_DEFAULT).then(|| m.color.into()));
    if m.size != SIZE_DEFAULT {
        number(out, "size", m.size.into());
    }
    optional(out, "streamMs", m.stream_ms);
    if let Some(trace) = &m.trace {
        text(out, "traceparent", std::str::from_utf8(&trace.to_bytes()).unwrap_or_default());
    }
}

fn user(out: &mut Vec<u8>, m: &Author) {
    text(out, "id", m.id.as_str());
    text(out, "name", &m.name);
    role(out, m.role);
    number(out, "level", m.level.into());
    if !m.badges.is_empty() {
        array(out, "badges", &m.badges, |out, badge| string(out, badge));
    }
}

fn role(out: &mut Vec<u8>, role: Role) {
    if role != Role::Viewer {
        text(out, "role", role.as_str());
    }
}

/// Separates from what stands before, if anything does.
fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[')) {
        out.push(b',');
    }
}

/// A key; names are ours and need no escapes.
fn key(out: &mut Vec<u8>, name: &str) {
    comma(out);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn object(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    key(out, name);
    out.push(b'{');
    write(out);
    out.push(b'}');
}

fn array<T>(out: &mut Vec<u8>, name: &str, values: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    key(out, name);
    out.push(b'[');
    for value in values {
        comma(out);
        write(out, value);
    }
    out.push(b']');
}

/// A string whose default is empty.
fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    if !value.is_empty() {
        key(out, name);
        string(out, value);
    }
}

/// A number whose default is 0.
fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    if value != 0 {
        always(out, name, value);
    }
}

/// A number that may be present and 0.
fn optional(out: &mut Vec<u8>, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        always(out, name, value);
    }
}

fn always(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    digits(out, value);
}

fn digits(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn truth(out: &mut Vec<u8>, name: &str, value: bool) {
    if value {
        key(out, name);
        out.extend_from_slice(b"true");
    }
}

/// A JSON value as it came, but on one line: line ends can only be white space between its tokens, and
/// the server-sent events that carry these messages end their data at one.
fn raw(out: &mut Vec<u8>, name: &str, json: &str) {
    if json.is_empty() {
        return;
    }
    key(out, name);
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    for byte in &mut out[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// A string with the escapes that RFC 8259 §7 requires and no others.
fn string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    let mut rest = value.as_bytes();
    while let Some(at) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cold]
fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        _ => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&digits);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
