//! `unsafe` stands in few files, each with its reason here, and every use says why it is sound.

use super::Finding;
use super::source::{Source, has_word};

/// The only files that may use `unsafe`.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/mailbox/src/ring.rs", "slots of a lock-free ring are written and read without a lock"),
    (
        "src/handover/inherited.rs",
        "descriptors that a service manager passed have no owner until somebody says so",
    ),
    ("src/observe/memory.rs", "the C library is asked to give memory back, and no crate wraps that call"),
    ("crates/wire/tests/native_allocations.rs", "a global allocator that counts has to be an allocator"),
    ("crates/room/tests/admission_allocations.rs", "a global allocator that counts has to be an allocator"),
    ("crates/words/tests/allocations.rs", "a global allocator that counts has to be an allocator"),
];

/// How far above its use a reason may end.
const REASON_LINES_ABOVE: usize = 3;

pub(super) fn unexplained(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let lines: Vec<&str> = source.text.lines().collect();
    let uses = lines.iter().enumerate().filter(|(_, line)| uses_unsafe(line));
    for (index, _) in uses {
        if !ALLOWED.iter().any(|(path, _)| *path == source.path) {
            findings
                .push(source.finding(index + 1, "unsafe outside the files that xtask allows with a reason"));
        }
        // A function that is declared unsafe puts the proof on its callers: its docs are rustdoc's and clippy's affair.
        if !lines[index].contains("unsafe fn") && !explained(&lines[..=index]) {
            findings.push(source.finding(index + 1, "unsafe without a SAFETY comment right above"));
        }
    }
    findings
}

/// Files that were allowed and no longer need it.
pub(super) fn stale(sources: &[Source]) -> Vec<Finding> {
    let used =
        |path: &str| sources.iter().any(|source| source.path == path && source.text.lines().any(uses_unsafe));
    let unused = ALLOWED.iter().filter(|(path, _)| !used(path));
    unused
        .map(|(path, _)| Finding {
            path: "xtask/src/tidy/unsafety.rs".to_owned(),
            line: 0,
            message: format!("{path} is allowed to use unsafe and does not"),
        })
        .collect()
}

fn uses_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    // What stands between quotes is text.
    let bare: String = code.split('"').step_by(2).collect();
    has_word(&bare, "unsafe") && !bare.trim_start().starts_with('*')
}

/// Whether a reason ends within the allowed distance above the last line; a reason may be longer.
fn explained(lines: &[&str]) -> bool {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let near = lines.len().saturating_sub(REASON_LINES_ABOVE + 1);
    let mut from = near;
    while from > 0 && is_comment(lines[from]) && is_comment(lines[from - 1]) {
        from -= 1;
    }
    lines[from..].iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}
