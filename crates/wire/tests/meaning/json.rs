//! What a JSON text means as a command, told by a reader that knows nothing of borrowing: what the decoder
//! is held against, by the tests and by the fuzz target.

use std::collections::HashSet;

use bumpalo::Bump;
use danmaku_wire::entry::{COLOR_DEFAULT, Mode, SIZE_DEFAULT, Tier};
use danmaku_wire::native::{
    Auth, Command, DecodeError, Join, Malformed, Ping, React, Report, Send, Since, View, json,
};
use danmaku_wire::position::SEQ_MAX;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What a JSON value means, told by a reader that knows nothing of borrowing.
#[derive(Debug)]
enum Expected<'v> {
    Command(Command<'v>),
    /// Any of these fields may be named.
    Bad(Option<&'v str>, Vec<&'static str>),
    NotOneCommand,
}

/// A command's body, field by field; what does not fit is collected.
struct Body<'v> {
    fields: &'v Map<String, Value>,
    bad: Vec<&'static str>,
}

impl<'v> Body<'v> {
    fn present(&self, key: &str) -> Option<&'v Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &'static str, name: &'static str) -> &'v str {
        self.present(key).and_then(|value| value.as_str().or_else(|| self.refuse(name))).unwrap_or_default()
    }

    fn number(&mut self, key: &'static str, name: &'static str, max: u64) -> Option<u64> {
        let value = self.present(key)?;
        value.as_u64().filter(|n| *n <= max).or_else(|| self.refuse(name))
    }

    fn refuse<T>(&mut self, name: &'static str) -> Option<T> {
        self.bad.push(name);
        None
    }
}

fn meaning_of_json(value: &Value) -> Expected<'_> {
    let Some((name, body)) = value.as_object().filter(|o| o.len() == 1).and_then(|o| o.iter().next()) else {
        return Expected::NotOneCommand;
    };
    const NAMES: [&str; 7] = ["send", "join", "auth", "view", "react", "report", "ping"];
    let Some(name) = NAMES.into_iter().find(|n| n == name) else {
        return Expected::Command(Command::Unknown);
    };
    let Some(fields) = body.as_object() else { return Expected::Bad(None, vec![name]) };
    let mut body = Body { fields, bad: Vec::new() };
    let mut id = None;
    let command = match name {
        "send" => {
            let send = meaning_of_send(&mut body);
            id = Some(send.id).filter(|id| !id.is_empty());
            Command::Send(send)
        }
        "join" => {
            let since = body.present("since").and_then(|v| v.as_object().or_else(|| body.refuse("since")));
            let since = since.map(|fields| {
                let mut inner = Body { fields, bad: Vec::new() };
                let epoch = inner.text("epoch", "since.epoch");
                let seq = inner.number("seq", "since.seq", SEQ_MAX).unwrap_or_default();
                body.bad.append(&mut inner.bad);
                Since { epoch, seq }
            });
            Command::Join(Join { room: body.text("room", "room"), since })
        }
        "auth" => Command::Auth(Auth { token: body.text("token", "token") }),
        "view" => {
            let paused = body.present("paused").and_then(|v| v.as_bool().or_else(|| body.refuse("paused")));
            let tier = match body.text("tier", "tier") {
                "" if body.present("tier").is_none() => None,
                tier => Tier::parse(tier).or_else(|| body.refuse("tier")),
            };
            Command::View(View { paused: paused.unwrap_or_default(), tier })
        }
        "react" => {
            let count = body.number("count", "count", u32::MAX.into()).unwrap_or_default();
            Command::React(React { kind: body.text("kind", "kind"), count: (count as u32).max(1) })
        }
        "report" => {
            let seq = body.number("seq", "seq", SEQ_MAX).unwrap_or_default();
            Command::Report(Report { seq, reason: body.text("reason", "reason") })
        }
        _ => Command::Ping(Ping { t: body.number("t", "t", u64::MAX).unwrap_or_default() }),
    };
    if body.bad.is_empty() { Expected::Command(command) } else { Expected::Bad(id, body.bad) }
}

fn meaning_of_send<'v>(body: &mut Body<'v>) -> Send<'v> {
    let mode = match body.text("mode", "mode") {
        "" if body.present("mode").is_none() => Some(Mode::Scroll),
        mode => Mode::parse(mode).or_else(|| body.refuse("mode")),
    };
    let size = body.number("size", "size", u32::MAX.into()).unwrap_or_default();
    Send {
        id: body.text("id", "id"),
        text: body.text("text", "text"),
        mode: mode.unwrap_or_default(),
        color: body.number("color", "color", 0x00FF_FFFF).map_or(COLOR_DEFAULT, |c| c as u32),
        size: if size == 0 { SIZE_DEFAULT } else { size.min(255) as u8 },
        stream_ms: body.number("streamMs", "streamMs", u64::MAX),
        traceparent: body.text("traceparent", "traceparent"),
    }
}

fn depth(value: &Value) -> u32 {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// `json::decode` must say of `text`, which holds `value` without a key twice, what the value means.
pub(crate) fn check_json(text: &str, value: &Value) {
    let arena = Bump::new();
    let decoded = json::decode(text, &arena);
    if depth(value) > json::DEPTH_MAX {
        assert_eq!(decoded, Err(Malformed::TooDeep.into()));
        return;
    }
    match (meaning_of_json(value), decoded) {
        (Expected::Command(command), decoded) => assert_eq!(decoded, Ok(command)),
        (Expected::NotOneCommand, decoded) => assert_eq!(decoded, Err(DecodeError::NotOneCommand)),
        (Expected::Bad(id, names), Err(DecodeError::BadField { id: found, field, .. })) => {
            assert_eq!(found, id);
            assert!(names.contains(&field), "{field} is not among {names:?}");
        }
        (expected, decoded) => panic!("{expected:?}, but {decoded:?}"),
    }
}

/// `json::decode` must say of any text what serde_json says: whether it is JSON, and if so what it means.
pub(crate) fn check_text(text: &str) {
    let arena = Bump::new();
    let decoded = json::decode(text, &arena);
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match decoded {
        // The rest was not looked at.
        Err(DecodeError::Malformed(Malformed::TooDeep)) => {
            let opened = text.bytes().filter(|b| matches!(b, b'{' | b'[')).count();
            assert!(opened > json::DEPTH_MAX as usize);
            return;
        }
        Err(DecodeError::Malformed(why)) => return assert!(!is_json, "{why}"),
        Err(why) => assert!(is_json, "{why}"),
        Ok(command) => assert!(is_json, "{command:?}"),
    }
    // serde_json takes an object with this one key for a text of its own making.
    if text.contains("$serde_json::private") {
        return;
    }
    // A lone surrogate or a huge exponent in a field that is skipped is no value of serde_json's.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    if !serde_json::from_str::<Keys>(text).is_ok_and(|keys| keys.repeated) {
        return check_json(text, &value);
    }
    // What stands there twice is unknown, or below something unknown; where it is refused, which of the two
    // serde_json has kept does not matter any more.
    if let Ok(command) = decoded {
        assert!(matches!(meaning_of_json(&value), Expected::Command(c) if c == command), "{command:?}");
    }
}

/// Whether a key stands twice in an object, at any depth: of that, a value of serde_json tells nothing.
struct Keys {
    repeated: bool,
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeysVisitor)
    }
}

struct KeysVisitor;

impl<'de> Visitor<'de> for KeysVisitor {
    type Value = Keys;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Keys, E> {
        Ok(Keys { repeated: false })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Keys, E> {
        Ok(Keys { repeated: false })
    }

    fn visit_u64<E>(self, _: u64) -> Result<Keys, E> {
        Ok(Keys { repeated: false })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Keys, E> {
        Ok(Keys { repeated: false })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Keys, E> {
        Ok(Keys { repeated: false })
    }

    fn visit_str<E>(self, _: &str) -> Result<Keys, E> {
        Ok(Keys { repeated: false })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Keys, A::Error> {
        let mut repeated = false;
        while let Some(keys) = values.next_element::<Keys>()? {
            repeated |= keys.repeated;
        }
        Ok(Keys { repeated })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Keys, A::Error> {
        let (mut seen, mut repeated) = (HashSet::new(), false);
        while let Some((key, keys)) = fields.next_entry::<String, Keys>()? {
            repeated |= keys.repeated | !seen.insert(key);
        }
        Ok(Keys { repeated })
    }
}
