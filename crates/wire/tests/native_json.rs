//! JSON commands: the borrowing decoder against a general reader.

#[path = "meaning/json.rs"]
mod meaning;

use bumpalo::Bump;
use danmaku_wire::native::{Auth, Command, DecodeError, Malformed, Ping, Problem, json};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use meaning::{check_json, check_text};

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// `json::decode` reads what serde_json reads, however it is written.
    #[test]
    fn json_means_what_a_general_reader_finds_in_it(value in near_commands(), mut seed in any::<u32>()) {
        let mut text = String::new();
        write_oddly(&value, &mut seed, &mut text);
        let reread = serde_json::from_str::<Value>(&text).ok();
        prop_assert_eq!(reread.as_ref(), Some(&value), "{}", text);
        check_json(&text, &value);
        check_json(&value.to_string(), &value);
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
        check_text(&text.into_iter().collect::<String>());
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
