//! The server's messages as protobuf, byte for byte what prost makes of the same values.

use crate::entry::{Author, Body, COLOR_DEFAULT, Comment, Entry, SIZE_DEFAULT};
use crate::native::message::{
    Ack, AuthInfo, Batch, EpochChange, ErrorMessage, Gap, Joined, Pending, Reconnect, RoomUpdate,
    ServerMessage, Snapshot, You,
};
use crate::position::Position;

const VARINT: u8 = 0;
const LENGTH_DELIMITED: u8 = 2;

/// Appends `message` as a `danmaku.v1.ServerMessage`. Nothing is allocated but the growth of `out`.
pub fn encode(message: &ServerMessage<'_>, out: &mut Vec<u8>) {
    match message {
        ServerMessage::Joined(m) => nested(out, 1, |out| joined(out, m)),
        ServerMessage::Batch(m) => nested(out, 2, |out| batch(out, m)),
        ServerMessage::Snapshot(m) => nested(out, 3, |out| snapshot(out, m)),
        ServerMessage::Ack(m) => nested(out, 4, |out| ack(out, m)),
        ServerMessage::Error(m) => nested(out, 5, |out| error(out, m)),
        ServerMessage::Gap(m) => nested(out, 6, |out| gap(out, m)),
        ServerMessage::Epoch(m) => nested(out, 7, |out| epoch_change(out, m)),
        ServerMessage::Room(m) => nested(out, 8, |out| room_update(out, m)),
        ServerMessage::Pending(m) => nested(out, 9, |out| pending(out, m)),
        ServerMessage::Auth(m) => nested(out, 10, |out| auth_info(out, m)),
        ServerMessage::Reconnect(m) => nested(out, 11, |out| reconnect(out, m)),
        ServerMessage::Pong(m) => nested(out, 12, |out| number(out, 1, m.t)),
    }
}

fn joined(out: &mut Vec<u8>, m: &Joined<'_>) {
    text(out, 1, m.room);
    text(out, 2, m.epoch);
    number(out, 3, m.seq);
    number(out, 4, m.online);
    number(out, 5, m.recovered.into());
    nested(out, 6, |out| you(out, &m.you));
}

fn you(out: &mut Vec<u8>, m: &You<'_>) {
    text(out, 1, m.id);
    text(out, 2, m.name);
    number(out, 3, m.role as u64);
    text(out, 4, m.guest.unwrap_or_default());
}

fn batch(out: &mut Vec<u8>, m: &Batch<'_>) {
    number(out, 1, m.from);
    number(out, 2, m.to);
    for item in m.items {
        nested(out, 3, |out| entry(out, item));
    }
}

fn snapshot(out: &mut Vec<u8>, m: &Snapshot<'_>) {
    text(out, 1, m.epoch);
    number(out, 2, m.seq);
    for item in m.items {
        nested(out, 3, |out| entry(out, item));
    }
    nested(out, 4, |out| room_update(out, &m.room));
}

fn ack(out: &mut Vec<u8>, m: &Ack<'_>) {
    text(out, 1, m.id);
    number(out, 2, m.state as u64);
    number(out, 3, m.seq.unwrap_or_default());
    text(out, 4, m.epoch.unwrap_or_default());
}

fn error(out: &mut Vec<u8>, m: &ErrorMessage<'_>) {
    text(out, 1, m.id.unwrap_or_default());
    text(out, 2, m.code.as_str());
    text(out, 3, m.message);
    number(out, 4, m.retry_after_ms.unwrap_or_default());
    number(out, 5, m.seq.unwrap_or_default());
    number(out, 6, m.shown.into());
    number(out, 7, m.count);
}

fn gap(out: &mut Vec<u8>, m: &Gap<'_>) {
    text(out, 1, m.epoch.unwrap_or_default());
    number(out, 2, m.from);
    number(out, 3, m.to);
    text(out, 4, m.reason);
}

fn epoch_change(out: &mut Vec<u8>, m: &EpochChange<'_>) {
    text(out, 1, m.epoch);
    number(out, 2, m.seq);
    if let Some(Position { epoch, seq }) = m.prev {
        nested(out, 3, |out| {
            text(out, 1, epoch.as_str());
            number(out, 2, *seq);
        });
    }
}

fn room_update(out: &mut Vec<u8>, m: &RoomUpdate<'_>) {
    number(out, 1, m.online);
    number(out, 2, m.viewers);
    for (kind, count) in m.reactions {
        nested(out, 3, |out| {
            text(out, 1, kind);
            number(out, 2, *count);
        });
    }
    number(out, 4, m.slow_mode_ms);
    text(out, 5, m.data);
}

fn pending(out: &mut Vec<u8>, m: &Pending<'_>) {
    text(out, 1, m.id);
    nested(out, 2, |out| user(out, m.user));
    text(out, 3, m.text);
    text(out, 4, m.reason);
    number(out, 5, m.at_ms);
    optional(out, 6, m.release_in_ms);
}

fn auth_info(out: &mut Vec<u8>, m: &AuthInfo<'_>) {
    number(out, 1, m.expires_in_ms.unwrap_or_default());
    if let Some(identity) = &m.you {
        nested(out, 2, |out| you(out, identity));
    }
}

fn reconnect(out: &mut Vec<u8>, m: &Reconnect<'_>) {
    number(out, 1, m.after_ms);
    text(out, 2, m.reason);
    text(out, 3, m.url.unwrap_or_default());
}

fn entry(out: &mut Vec<u8>, m: &Entry) {
    number(out, 1, m.seq);
    match &m.body {
        Body::Comment(body) => comment(out, body, m.at_ms),
        Body::Event(event) => {
            text(out, 2, &event.kind);
            if let Some(author) = &event.user {
                nested(out, 3, |out| user(out, author));
            }
            number(out, 8, m.at_ms);
            text(out, 10, &event.data);
        }
        Body::Retract { epoch, seqs } => {
            text(out, 2, "retract");
            number(out, 8, m.at_ms);
            if !seqs.is_empty() {
                nested(out, 14, |out| seqs.iter().for_each(|seq| varint(out, *seq)));
            }
            text(out, 15, epoch.as_ref().map_or("", |e| e.as_str()));
        }
        Body::Fold { of, count } => {
            text(out, 2, "fold");
            number(out, 8, m.at_ms);
            number(out, 11, *of);
            number(out, 12, *count);
        }
        Body::Pin { of } => {
            text(out, 2, "pin");
            number(out, 8, m.at_ms);
            number(out, 11, *of);
        }
        Body::Clear { up_to } => {
            text(out, 2, "clear");
            number(out, 8, m.at_ms);
            number(out, 13, *up_to);
        }
        Body::State { data } => {
            text(out, 2, "state");
            number(out, 8, m.at_ms);
            text(out, 10, data);
        }
    }
}

fn comment(out: &mut Vec<u8>, m: &Comment, at_ms: u64) {
    nested(out, 3, |out| user(out, &m.user));
    text(out, 4, &m.text);
    number(out, 5, m.mode as u64);
    optional(out, 6, (m.color != COLOR_DEFAULT).then(|| m.color.into()));
    if m.size != SIZE_DEFAULT {
        number(out, 7, m.size.into());
    }
    number(out, 8, at_ms);
    optional(out, 9, m.stream_ms);
    if let Some(trace) = &m.trace {
        bytes(out, 16, &trace.to_bytes());
    }
}

fn user(out: &mut Vec<u8>, m: &Author) {
    text(out, 1, m.id.as_str());
    text(out, 2, &m.name);
    number(out, 3, m.role as u64);
    number(out, 4, m.level.into());
    for badge in &m.badges {
        bytes(out, 5, badge.as_bytes());
    }
}

/// A field number and its wire type.
fn key(out: &mut Vec<u8>, field: u8, wire: u8) {
    varint(out, u64::from(field) << 3 | u64::from(wire));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A number whose default is 0.
fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        optional(out, field, Some(value));
    }
}

/// A number that may be present and 0.
fn optional(out: &mut Vec<u8>, field: u8, value: Option<u64>) {
    if let Some(value) = value {
        key(out, field, VARINT);
        varint(out, value);
    }
}

/// A string whose default is empty.
fn text(out: &mut Vec<u8>, field: u8, value: &str) {
    if !value.is_empty() {
        bytes(out, field, value.as_bytes());
    }
}

fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    key(out, field, LENGTH_DELIMITED);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A message whose length is known only once it is written: one byte is kept for the length, and the
/// message moves up where that was not enough, so that lengths are as short as prost's.
fn nested(out: &mut Vec<u8>, field: u8, write: impl FnOnce(&mut Vec<u8>)) {
    key(out, field, LENGTH_DELIMITED);
    let length_at = out.len();
    out.push(0);
    let start = out.len();
    write(out);
    let mut length = out.len() - start;
    let more = length_bytes(length) - 1;
    if more > 0 {
        let end = out.len();
        out.resize(end + more, 0);
        out.copy_within(start..end, start + more);
    }
    for byte in &mut out[length_at..length_at + more] {
        *byte = length as u8 | 0x80;
        length >>= 7;
    }
    out[length_at + more] = length as u8;
}

/// How many bytes a length takes as a varint.
const fn length_bytes(length: usize) -> usize {
    match length.checked_ilog2() {
        Some(log2) => log2 as usize / 7 + 1,
        None => 1,
    }
}
