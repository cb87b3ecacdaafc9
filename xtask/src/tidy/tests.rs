//! Every rule against a text that breaks it and against one that is close and does not.

use serde_json::json;

use super::source::Source;
use super::{Finding, dependencies, documents, purity, shape, unsafety};

fn source(path: &str, text: impl Into<String>) -> Source {
    Source { path: path.to_owned(), text: text.into() }
}

/// Runs one rule over one text and compares the lines it points at.
#[track_caller]
fn check(rule: fn(&Source) -> Vec<Finding>, path: &str, text: &str, lines: &[usize]) {
    let found: Vec<usize> = rule(&source(path, text)).iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "{path}:\n{text}");
}

/// `purity::system_calls`: only in the sources of crates, only outside tests and comments.
#[test]
fn a_pure_crate_may_not_name_the_system() {
    let rule = purity::system_calls;
    let path = "crates/room/src/log.rs";
    for bad in [
        "use std::net::SocketAddr;",
        "let t = std::fs::read(p);",
        "let t = Instant::now();",
        "let t: SystemTime = x;",
        "std::thread::spawn(f);",
        "thread::spawn(f);",
        "let e = std::env::var(n);",
        "use std::{fmt, net};",
    ] {
        check(rule, path, bad, &[1]);
        check(rule, "src/worker/mod.rs", bad, &[]);
        check(rule, "crates/webhook/src/breaker.rs", bad, &[1]);
        check(rule, "crates/webhook/src/line.rs", bad, &[]);
        check(rule, "crates/room/tests/log.rs", bad, &[]);
        check(rule, "crates/room/src/log/tests.rs", bad, &[]);
        check(rule, path, &format!("// {bad}"), &[]);
        check(rule, path, &format!("#[cfg(test)]\nmod tests {{\n    {bad}\n}}\n"), &[]);
    }
    check(rule, path, "#[cfg(test)]\nmod tests {\n}\nfn f() { Instant::now(); }\n", &[4]);
    check(rule, path, "use std::{\n    fmt,\n    fs,\n};\nfn fs() {}\n", &[3]);
    check(rule, path, "use std::sync::Arc;\nlet instant = now;\n", &[]);
}

/// `shape::unfinished_marks`: words in any code, macros in Rust.
#[test]
fn unfinished_work_is_found() {
    let rule = shape::unfinished_marks;
    for mark in [
        concat!("// TO", "DO later"),
        concat!("// FIX", "ME"),
        concat!("to", "do!()"),
        concat!("unimple", "mented!()"),
    ] {
        check(rule, "src/a.rs", &format!("fn f() {{\n    {mark}\n}}\n"), &[2]);
    }
    check(rule, "tests/clients/a.py", concat!("# TO", "DO"), &[1]);
    check(rule, "docs/style.md", concat!("No TO", "DO."), &[]);
    check(rule, "src/a.rs", concat!("const TO", "DOS: u8 = 1;"), &[]);
}

/// `shape::empty_names`: files, folders and inline modules.
#[test]
fn names_that_say_nothing_are_found() {
    let rule = shape::empty_names;
    check(rule, "src/utils.rs", "", &[0]);
    check(rule, "tests/common/mod.rs", "", &[0]);
    check(rule, "tests/clients/helper.py", "", &[0]);
    check(rule, "src/a.rs", "mod helper;\npub(crate) mod manager {\n}\n", &[1, 2]);
    check(rule, "src/utility_pole.rs", "mod commons;\n// a mod helper\n", &[]);
}

/// `shape::long_files`: tests may be longer than code, and neither without end.
#[test]
fn files_that_grew_are_found() {
    let rule = shape::long_files;
    let text = |lines: usize| "x\n".repeat(lines);
    check(rule, "src/a.rs", &text(700), &[]);
    check(rule, "src/a.rs", &text(701), &[0]);
    check(rule, "src/a/tests.rs", &text(1_000), &[]);
    check(rule, "src/a/tests.rs", &text(1_001), &[0]);
    check(rule, "docs/protocol.md", &text(5_000), &[]);
}

/// `shape::machine_words`: paths of one machine, not words that contain them.
#[test]
fn paths_of_one_machine_are_found() {
    let rule = shape::machine_words;
    for word in [
        concat!("cd /wo", "rk/main"),
        concat!("\"/wo", "rk\""),
        concat!("see ../sha", "red/x.md"),
        concat!("see ../../.lib", "rary/x"),
        concat!("/ro", "ot/.cache"),
        concat!("~/.py", "env/versions"),
    ] {
        check(rule, "docs/a.md", word, &[1]);
    }
    for word in ["/workers", "crates/work", "/rooms", "https://a.example/worker", "$HOME/.cargo"] {
        check(rule, "docs/a.md", word, &[]);
    }
}

/// `shape::lock_addresses`.
#[test]
fn download_addresses_in_a_lock_file_are_found() {
    let line = "  \"resolved\": \"https://mirror.example/ws.tgz\",\n";
    check(shape::lock_addresses, "tests/clients/node/package-lock.json", line, &[1]);
    check(shape::lock_addresses, "tests/clients/node/package.json", line, &[]);
}

/// `unsafety::unexplained`: an allowed file, and a reason that ends right above.
#[test]
fn unsafe_needs_an_allowed_file_and_a_reason() {
    let rule = unsafety::unexplained;
    let allowed = "crates/mailbox/src/ring.rs";
    check(rule, allowed, "// SAFETY: the slot is ours.\nunsafe { f() }\n", &[]);
    check(rule, allowed, "// SAFETY: a\n// b\n// c\n// d\n// e\nlet x =\n    unsafe { f() };\n", &[]);
    check(rule, allowed, "unsafe { f() }\n", &[1]);
    check(rule, allowed, "unsafe fn f() {}\n", &[]);
    check(rule, "src/a.rs", "unsafe fn f() {}\n", &[1]);
    check(rule, allowed, "// SAFETY: far\n\n\n\nunsafe impl Send for X {}\n", &[5]);
    check(rule, "src/a.rs", "// SAFETY: yes.\nunsafe { f() }\n", &[2]);
    check(rule, "src/a.rs", "#![allow(unsafe_code)]\n// no unsafe here\nlet s = \"unsafe\";\n", &[]);
}

/// `unsafety::stale`: an empty tree uses nothing that is allowed.
#[test]
fn a_permission_that_nobody_uses_is_found() {
    assert!(!unsafety::stale(&[]).is_empty());
}

/// `documents::unlinked_decisions`: only once there is a map.
#[test]
fn a_decision_without_a_link_is_found() {
    let decision = || source("docs/decisions/0001-x.md", "");
    let found =
        |map: &str| documents::unlinked_decisions(&[decision(), source("ARCHITECTURE.md", map)]).len();
    assert_eq!(found("nothing"), 1);
    assert_eq!(found("see [x](docs/decisions/0001-x.md)"), 0);
    assert_eq!(documents::unlinked_decisions(&[decision()]), []);
}

/// `dependencies::broken_law` over a workspace of one package that depends on one other.
#[track_caller]
fn check_law(from: &str, to: &str, kind: serde_json::Value, expected: &[&str]) {
    let metadata = json!({
        "workspace_members": [from, "danmaku"],
        "packages": [
            {"id": from, "name": from, "dependencies": [{"name": to, "kind": kind}]},
            {"id": "danmaku", "name": "danmaku", "dependencies": []},
            {"id": "between", "name": "between", "dependencies": []},
            {"id": to, "name": to, "dependencies": []},
        ],
        "resolve": {"nodes": [
            {"id": from, "deps": [{"pkg": "between", "dep_kinds": [{"kind": kind}]}]},
            {"id": "between", "deps": [{"pkg": to, "dep_kinds": [{"kind": null}]}]},
        ]},
    });
    let found = dependencies::broken_law(&metadata).expect("the metadata is complete");
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{from} -> {to}");
}

#[test]
fn a_dependency_against_the_law_is_found() {
    check_law("danmaku-wire", "danmaku", json!(null), &["danmaku-wire: may not depend on danmaku"]);
    check_law("danmaku-wire", "danmaku", json!("dev"), &["danmaku-wire: may not depend on danmaku"]);
    check_law("danmaku-room", "tokio", json!(null), &["danmaku-room: is pure and links tokio"]);
    check_law("danmaku-room", "tokio", json!("dev"), &[]);
    check_law("danmaku-loadtest", "tokio", json!(null), &[]);
    check_law(
        "danmaku-loadtest",
        "yawc",
        json!(null),
        &["danmaku-loadtest: may depend on yawc in its tests only"],
    );
    check_law("danmaku-loadtest", "yawc", json!("dev"), &[]);
    let unknown = "danmaku-new: is not in the dependency law (xtask/src/tidy/dependencies.rs)";
    check_law("danmaku-new", "serde", json!(null), &[unknown]);
    assert!(dependencies::broken_law(&json!({})).is_err());
}
