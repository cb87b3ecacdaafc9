//! JSON commands: the borrowing decoder against a general reader.

use bumpalo::Bump;
use danmaku_wire::entry::{COLOR_DEFAULT, Mode, SIZE_DEFAULT, Tier};
use danmaku_wire::native::{
    Auth, Command, DecodeError, Join, Malformed, Ping, Problem, React, Report, Send, Since, View, json,
};
use danmaku_wire::position::SEQ_MAX;
use proptest::collection::vec;
use proptest::prelude::*;
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
fn check_json(text: &str, value: &Value) -> Result<(), TestCaseError> {
    let arena = Bump::new();
    let decoded = json::decode(text, &arena);
    if depth(value) > json::DEPTH_MAX {
        prop_assert_eq!(decoded, Err(Malformed::TooDeep.into()));
        return Ok(());
    }
    match (meaning_of_json(value), decoded) {
        (Expected::Command(command), decoded) => prop_assert_eq!(decoded, Ok(command)),
        (Expected::NotOneCommand, decoded) => prop_assert_eq!(decoded, Err(DecodeError::NotOneCommand)),
        (Expected::Bad(id, names), Err(DecodeError::BadField { id: found, field, .. })) => {
            prop_assert_eq!(found, id);
            prop_assert!(names.contains(&field), "{field} is not among {names:?}");
        }
        (expected, decoded) => prop_assert!(false, "{expected:?}, but {decoded:?}"),
    }
    Ok(())
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0..1_u64 << 25).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        "scroll|top|bottom|lite|standard|full|".prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[\\\\\"\u{0}-\u{1f}a😀中\u{2028}\u{7f}]{0,20}".prop_map(Value::from),
    ]
}

fn object(value: impl Strategy<Value = Value> + 'static, least: usize) -> impl Strategy<Value = Value> {
    let names = "id|text|mode|color|size|streamMs|traceparent|room|since|token|paused|tier|kind|count|seq|\
                 reason|t|epoch|.{0,4}";
    vec((names, value), least..5).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// Values near commands: right and wrong names, fields, types and depths.
fn near_commands() -> impl Strategy<Value = Value> {
    let any_value = scalar().prop_recursive(9, 24, 3, |inner| {
        prop_oneof![vec(inner.clone(), 0..3).prop_map(Value::Array), object(inner, 0)]
    });
    let fields = prop_oneof![3 => scalar(), 1 => object(scalar(), 1), 1 => any_value.clone()];
    let body = prop_oneof![8 => object(fields, 0), 1 => any_value.clone()];
    let name = "send|send|join|auth|view|react|report|ping|.{0,4}";
    let command = vec((name, body), 1..2);
    let commands =
        prop_oneof![8 => command.clone(), 1 => (command.clone(), command).prop_map(|(a, b)| [a, b].concat())];
    prop_oneof![
        12 => commands.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        1 => any_value,
    ]
}

/// Writes the value with white space and escapes that nobody needs, chosen by `seed`.
fn write_oddly(value: &Value, seed: &mut u32, out: &mut String) {
    let mut pick = |n: u32| {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*seed >> 16) % n
    };
    out.push_str(["", "", "", " ", "\n\t", "\r "][pick(6) as usize]);
    match value {
        Value::String(text) => {
            out.push('"');
            for c in text.chars() {
                let plain = c >= ' ' && c != '"' && c != '\\';
                match pick(8) {
                    0 => {
                        let mut units = [0; 2];
                        c.encode_utf16(&mut units).iter().for_each(|u| out.push_str(&format!("\\u{u:04x}")));
                    }
                    _ if plain => out.push(c),
                    _ => {
                        let quoted = serde_json::to_string(&c).expect("a string");
                        out.push_str(&quoted[1..quoted.len() - 1]);
                    }
                }
            }
            out.push('"');
        }
        Value::Array(values) => {
            out.push('[');
            for (place, value) in values.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                write_oddly(value, seed, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (place, (key, value)) in fields.iter().enumerate() {
                out.push_str(if place > 0 { " ," } else { "" });
                write_oddly(&Value::from(key.as_str()), seed, out);
                out.push(':');
                write_oddly(value, seed, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// `json::decode` and serde_json agree on which damaged texts are JSON, and on what is left of them.
fn check_damaged_json(text: &str) -> Result<(), TestCaseError> {
    let arena = Bump::new();
    let decoded = json::decode(text, &arena);
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match decoded {
        Err(DecodeError::Malformed(Malformed::TooDeep)) => {
            let opened = text.bytes().filter(|b| matches!(b, b'{' | b'[')).count();
            prop_assert!(opened > json::DEPTH_MAX as usize);
        }
        Err(DecodeError::Malformed(why)) => prop_assert!(!is_json, "{why}"),
        Err(_) => prop_assert!(is_json),
        Ok(command) => {
            prop_assert!(is_json, "{command:?}");
            // A lone surrogate or a huge exponent in a field that is skipped is no value of serde_json's.
            if let Ok(value) = serde_json::from_str::<Value>(text) {
                let expected = meaning_of_json(&value);
                prop_assert!(matches!(expected, Expected::Command(c) if c == command), "{command:?}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// `json::decode` reads what serde_json reads, however it is written.
    #[test]
    fn json_means_what_a_general_reader_finds_in_it(value in near_commands(), mut seed in any::<u32>()) {
        let mut text = String::new();
        write_oddly(&value, &mut seed, &mut text);
        let reread = serde_json::from_str::<Value>(&text).ok();
        prop_assert_eq!(reread.as_ref(), Some(&value), "{}", text);
        check_json(&text, &value)?;
        check_json(&value.to_string(), &value)?;
    }

    /// `json::decode` takes nothing for JSON that is none, and the other way round.
    #[test]
    fn damaged_json_is_refused_exactly_where_a_general_reader_refuses_it(
        value in near_commands(),
        mut seed in any::<u32>(),
        damages in vec((any::<prop::sample::Index>(), any::<bool>(), "[\\[\\]{}:,\"\\\\u0eE.+-]|[tfn d8\u{1}]|."), 1..4),
    ) {
        let mut text = String::new();
        write_oddly(&value, &mut seed, &mut text);
        let mut text: Vec<char> = text.chars().collect();
        for (at, replace, junk) in damages {
            let at = at.index(text.len() + 1);
            if replace && at < text.len() {
                text.remove(at);
            }
            text.splice(at..at, junk.chars());
        }
        check_damaged_json(&text.into_iter().collect::<String>())?;
    }
}

fn bad<'a>(field: &'static str, problem: Problem) -> Result<Command<'a>, DecodeError<'a>> {
    Err(DecodeError::BadField { id: None, field, problem })
}

/// `json::decode`: one table of what is refused, and how.
#[test]
fn what_is_no_command_is_refused_by_what_the_server_answers() {
    let malformed = |at| Err(Malformed::Json { at }.into());
    let number = Problem::Type("a whole number");
    let table = [
        ("", malformed(0)),
        ("{", malformed(1)),
        ("\u{feff}{}", malformed(0)),
        ("{\"ping\":{}}x", malformed(11)),
        ("{\"ping\":{},}", malformed(11)),
        ("{\"ping\":{\"t\":01}}", malformed(15)),
        ("{\"ping\":{\"t\":1.}}", malformed(15)),
        ("{\"ping\":{\"t\":-}}", malformed(14)),
        ("{\"auth\":{\"token\":\"a\nb\"}}", malformed(19)),
        ("{\"auth\":{\"token\":\"\\x\"}}", malformed(19)),
        ("{\"auth\":{\"token\":\"\\u12g4\"}}", malformed(22)),
        ("{a:1}", malformed(1)),
        ("{}", Err(DecodeError::NotOneCommand)),
        ("[]", Err(DecodeError::NotOneCommand)),
        ("null", Err(DecodeError::NotOneCommand)),
        ("{\"ping\":{},\"ping\":{}}", Err(DecodeError::NotOneCommand)),
        ("{\"ping\":{},\"more\":1}", Err(DecodeError::NotOneCommand)),
        ("{\"x\":[[[[[[[1]]]]]]]}", Ok(Command::Unknown)),
        ("{\"x\":[[[[[[[[1]]]]]]]]}", Err(Malformed::TooDeep.into())),
        ("{\"ping\":null}", bad("ping", Problem::Type("an object"))),
        ("{\"ping\":[]}", bad("ping", Problem::Type("an object"))),
        ("{\"ping\":{\"t\":1,\"t\":1}}", bad("t", Problem::Twice)),
        ("{\"ping\":{\"t\":1,\"\\u0074\":1}}", bad("t", Problem::Twice)),
        ("{\"ping\":{\"x\":1,\"x\":1}}", Ok(Command::Ping(Ping { t: 0 }))),
        ("{\"ping\":{\"t\":1.0}}", bad("t", number)),
        ("{\"ping\":{\"t\":\"1\"}}", bad("t", number)),
        ("{\"ping\":{\"t\":-1}}", bad("t", Problem::Range)),
        ("{\"ping\":{\"t\":18446744073709551616}}", bad("t", Problem::Range)),
        ("{\"ping\":{\"t\":null}}", Ok(Command::Ping(Ping { t: 0 }))),
        ("{\"report\":{\"seq\":9007199254740992}}", bad("seq", Problem::Range)),
        ("{\"send\":{\"color\":16777216}}", bad("color", Problem::Range)),
        ("{\"send\":{\"mode\":\"Scroll\"}}", bad("mode", Problem::Name)),
        ("{\"view\":{\"tier\":\"\"}}", bad("tier", Problem::Name)),
        ("{\"view\":{\"paused\":1}}", bad("paused", Problem::Type("true or false"))),
        ("{\"join\":{\"since\":\"e:1\"}}", bad("since", Problem::Type("an object"))),
        ("{\"auth\":{\"token\":\"\\ud83d\"}}", bad("token", Problem::Surrogate)),
        ("{\"auth\":{\"token\":\"\\ude00\\ud83d\"}}", bad("token", Problem::Surrogate)),
        ("{\"auth\":{\"token\":\"\\ud83d\\ude00\"}}", Ok(Command::Auth(Auth { token: "😀" }))),
        ("{\"auth\":{\"token\":\"\\ud83d\\n\"}}", bad("token", Problem::Surrogate)),
        ("{\"auth\":{\"x\":\"\\ud83d\"}}", Ok(Command::Auth(Auth { token: "" }))),
    ];
    for (text, expected) in table {
        assert_eq!(json::decode(text, &Bump::new()), expected, "{text}");
    }
}

/// `DecodeError::BadField`: a refused publish names its id, wherever in the object that stands.
#[test]
fn a_refused_publish_is_told_under_its_own_id() {
    for text in [r#"{"send":{"id":"k1","mode":"spin"}}"#, r#"{"send":{"mode":7,"text":[],"id":"k1"}}"#] {
        let arena = Bump::new();
        let refused = json::decode(text, &arena);
        assert!(
            matches!(refused, Err(DecodeError::BadField { id: Some("k1"), field: "mode", .. })),
            "{refused:?}"
        );
    }
}

/// `Auth` does not print its token.
#[test]
fn a_token_does_not_show_when_its_command_is_printed() {
    let printed = format!("{:?}", Command::Auth(Auth { token: "secret" }));
    assert!(!printed.contains("secret"), "{printed}");
}
