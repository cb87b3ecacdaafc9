//! Marks of unfinished work, names that say nothing, files that grew, and words of one machine.

use super::Finding;
use super::source::{Source, has_word};

// The words are put together from pieces, so that this file does not break its own rules.
const UNFINISHED_WORDS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const UNFINISHED_MACROS: [&str; 2] = [concat!("to", "do!"), concat!("unimple", "mented!")];

pub(super) fn unfinished_marks(source: &Source) -> Vec<Finding> {
    if !source.is_code() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let word = UNFINISHED_WORDS.iter().find(|word| has_word(line, word));
        let called = UNFINISHED_MACROS.iter().find(|name| source.is_rust() && line.contains(*name));
        if let Some(mark) = word.or(called) {
            findings.push(source.finding(index + 1, format!("{mark}: finish it or open an issue")));
        }
    }
    findings
}

const EMPTY_NAMES: [&str; 8] =
    ["utils", "util", "common", "helper", "helpers", "manager", "managers", "misc"];

/// File, folder and module names that say only that their author had no name.
pub(super) fn empty_names(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(name) = source.names().find(|name| EMPTY_NAMES.contains(name)) {
        findings.push(source.finding(0, format!("{name:?} is no name: say what the thing is")));
    }
    if source.is_rust() {
        for (index, line) in source.text.lines().enumerate() {
            let declared = line.trim_start().split_once("mod ").and_then(|(before, rest)| {
                let is_declaration = before.is_empty() || before.starts_with("pub");
                is_declaration.then(|| rest.split([';', ' ', '{']).next().unwrap_or(rest))
            });
            if let Some(name) = declared.filter(|name| EMPTY_NAMES.contains(name)) {
                findings
                    .push(source.finding(index + 1, format!("module {name:?} is no name: say what it is")));
            }
        }
    }
    findings
}

const FILE_LINES_MAX: usize = 700;
/// Tables of cases are long and read from top to bottom.
const TEST_FILE_LINES_MAX: usize = 1_000;

pub(super) fn long_files(source: &Source) -> Vec<Finding> {
    let max = if source.is_test() { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
    let lines = source.text.lines().count();
    if source.is_rust() && lines > max {
        return vec![
            source.finding(0, format!("{lines} lines, more than {max}: split it along a real seam")),
        ];
    }
    Vec::new()
}

/// Paths and hosts that only the machine of whoever wrote them has.
const MACHINE_WORDS: [&str; 6] = [
    concat!("/wo", "rk"),
    concat!("/ro", "ot"),
    concat!("/ho", "me"),
    concat!("../sha", "red"),
    concat!("../.lib", "rary"),
    concat!(".py", "env"),
];

pub(super) fn machine_words(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        if let Some(word) = MACHINE_WORDS.iter().find(|word| names_path(line, word)) {
            findings.push(source.finding(index + 1, format!("{word} is a path of one machine")));
        }
    }
    findings
}

/// Whether a path that begins with `word` stands in the line: `/a` does in `cd /a/b` and in `"/a"`,
/// not in `x/a` or `/ab`.
fn names_path(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')');
        let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        // A relative word may follow a slash.
        let fresh = !before.is_some_and(joins) || !word.starts_with('/');
        fresh && !after.is_some_and(goes_on)
    })
}

/// A lock file of npm must not say from which mirror its author's machine fetched.
pub(super) fn lock_addresses(source: &Source) -> Vec<Finding> {
    if !source.path.ends_with("package-lock.json") {
        return Vec::new();
    }
    let lines = source.text.lines().enumerate();
    let resolved = lines.filter(|(_, line)| line.contains("\"resolved\": \"http"));
    resolved.map(|(index, _)| source.finding(index + 1, "a download address in a lock file")).collect()
}
