//! `docs/protocol.md`: its tables are those of the code, and its examples are messages.
//!
//! `UPDATE_GOLDEN=1 cargo test -p danmaku-wire --test native_docs` rewrites the tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use bumpalo::Bump;
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::native::{Command, ErrorCode, json};
use serde_json::Value;

/// The page is one file, and tests that read and rewrite it run side by side.
static PAGE: Mutex<()> = Mutex::new(());

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "protocol.md"].iter().collect()
}

fn page() -> String {
    std::fs::read_to_string(path()).expect("the page exists")
}

/// Compares what stands between the markers of `name` with `table`, or rewrites it.
fn check_table(name: &str, table: &str) {
    let alone = PAGE.lock().expect("nothing panics while it has the page");
    let page = page();
    let begin = format!("<!-- {name}: begin; written by crates/wire/tests/native_docs.rs -->\n");
    let (before, rest) = page.split_once(&begin).expect("the first marker");
    let (found, after) = rest.split_once(&format!("<!-- {name}: end -->")).expect("the second marker");
    let same = found == table;
    if !same && std::env::var_os("UPDATE_GOLDEN").is_some_and(|v| v == "1") {
        let page = format!("{before}{begin}{table}<!-- {name}: end -->{after}");
        return std::fs::write(path(), page).expect("the page can be written");
    }
    drop(alone);
    assert!(same, "the table of {name} is not the code's; UPDATE_GOLDEN=1 rewrites it");
}

/// `ErrorCode`: the page lists every code as the code means it.
#[test]
fn the_error_codes_of_the_page_are_those_of_the_server() {
    let mut table = String::from("| code | try again | meaning |\n| --- | --- | --- |\n");
    for code in ErrorCode::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        writeln!(table, "| `{}` | {again} | {} |", code.as_str(), code.meaning()).expect("a String");
    }
    check_table("error codes", &table);
}

/// What a client author should know of a code; a variant without a line here does not compile.
fn explained(code: DisconnectCode) -> &'static str {
    match code {
        DisconnectCode::Normal => "The answer to your own close.",
        DisconnectCode::Protocol => "A WebSocket frame or a message could not be parsed.",
        DisconnectCode::WrongType => "A text message under `danmaku.v1.proto`, or a binary one under JSON.",
        DisconnectCode::InvalidText => "Text that is not UTF-8.",
        DisconnectCode::Policy => "A rule of the server was broken, such as sending far too fast.",
        DisconnectCode::TooBig => "A message over the limit.",
        DisconnectCode::Internal => "A fault of the server.",
        DisconnectCode::Restart => "The server restarts; `reconnect` came before where time allowed.",
        DisconnectCode::Overloaded => "The server can take no more connections.",
        DisconnectCode::TokenExpired => "The token ran out and was not refreshed; get a new one.",
        DisconnectCode::Banned => "The user is banned.",
        DisconnectCode::RoomClosed => "The room was closed.",
        DisconnectCode::SlowConsumer => "The connection could not keep up for longer than the grace.",
        DisconnectCode::Replaced => "The same session is connected elsewhere.",
    }
}

/// `DisconnectCode`: the page lists every code with its number and advice.
#[test]
fn the_close_codes_of_the_page_are_those_of_the_server() {
    const ALL: [DisconnectCode; 14] = [
        DisconnectCode::Normal,
        DisconnectCode::Protocol,
        DisconnectCode::WrongType,
        DisconnectCode::InvalidText,
        DisconnectCode::Policy,
        DisconnectCode::TooBig,
        DisconnectCode::Internal,
        DisconnectCode::Restart,
        DisconnectCode::Overloaded,
        DisconnectCode::TokenExpired,
        DisconnectCode::Banned,
        DisconnectCode::RoomClosed,
        DisconnectCode::SlowConsumer,
        DisconnectCode::Replaced,
    ];
    let mut table = String::from("| code | reason | come back | meaning |\n| --- | --- | --- | --- |\n");
    for code in ALL {
        let again = if code.may_reconnect() { "yes" } else { "no" };
        let (number, reason) = (code.code(), code.reason());
        writeln!(table, "| {number} | {reason} | {again} | {} |", explained(code)).expect("a String");
    }
    check_table("close codes", &table);
}

/// The examples: every command decodes to one, every message is JSON of one known key, none is missing.
#[test]
fn the_examples_of_the_page_are_messages() {
    let alone = PAGE.lock().expect("nothing panics while it has the page");
    let page = page();
    drop(alone);
    let (commands, messages) = page.split_once("## What the server sends").expect("the page's two halves");
    let examples = |half: &str| -> Vec<String> {
        let blocks = half.split("```json\n").skip(1).map(|block| block.split("```").next());
        blocks.flatten().flat_map(|block| block.lines().map(str::to_owned)).collect()
    };
    for example in examples(commands) {
        let arena = Bump::new();
        let decoded = json::decode(&example, &arena);
        assert!(decoded.is_ok_and(|command| command != Command::Unknown), "{example}: {decoded:?}");
    }
    let mut seen = BTreeSet::new();
    for example in examples(messages) {
        let message: Value = serde_json::from_str(&example).expect("an example is JSON");
        let fields = message.as_object().expect("an example is an object");
        assert_eq!(fields.len(), 1, "{example}");
        seen.extend(fields.keys().cloned());
    }
    let expected = "ack auth batch epoch error gap joined pending pong reconnect room snapshot";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(" "), expected);
}
