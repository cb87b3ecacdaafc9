//! The pure crates name no socket, file, thread, clock or environment.
//!
//! Clippy's banned calls (`xtask/pure/clippy.toml`) hold the same law with types resolved; this one
//! also sees code that is compiled out, and costs nothing.

use super::Finding;
use super::source::{Source, has_word};

/// What is banned, and what a pure crate does instead.
const BANNED: [(&str, &str); 8] = [
    ("std::net", "bytes come in and go out as slices"),
    ("std::fs", "contents are an argument"),
    ("std::env", "settings are an argument"),
    ("std::process", "report to the caller"),
    ("std::thread::spawn", "threads belong to the server"),
    ("thread::spawn", "threads belong to the server"),
    ("Instant::now", "time is an argument"),
    ("SystemTime", "time is an argument"),
];

/// Modules of std whose names in `use std::{…}` say the same.
const BANNED_MODULES: [&str; 4] = ["net", "fs", "env", "process"];

/// The thin part around a core: sockets, a thread and clocks are what these files are for.
const SHELLS: [&str; 3] =
    ["crates/webhook/src/client.rs", "crates/webhook/src/dispatch.rs", "crates/webhook/src/line.rs"];

pub(super) fn system_calls(source: &Source) -> Vec<Finding> {
    let is_pure = source.path.starts_with("crates/") && source.path.split('/').nth(2) == Some("src");
    if !is_pure || SHELLS.contains(&source.path.as_str()) || !source.is_rust() || source.is_test() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut in_std_list = false;
    for (number, line) in source.code_lines() {
        let banned = BANNED.iter().find(|(what, _)| has_word(line, what));
        if let Some((what, instead)) = banned {
            findings.push(source.finding(number, format!("{what} in a pure crate: {instead}")));
        }
        in_std_list |= line.contains("use std::{");
        if in_std_list && let Some(module) = BANNED_MODULES.iter().find(|module| has_word(line, module)) {
            findings.push(source.finding(number, format!("std::{module} in a pure crate")));
        }
        in_std_list &= !line.contains(';');
    }
    findings
}
