//! The files under the rules, and how to look at a Rust text without its comments and tests.

use std::fs;
use std::path::Path;

use crate::step::StepError;

use super::Finding;

/// What was built, fetched or recorded and not written; in a work tree of its own `.git` is a file.
const SKIPPED: [&str; 6] = [".git", "target", "node_modules", "__pycache__", "corpus", "artifacts"];

/// One text file of the work tree.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the root, with forward slashes.
    pub(super) path: String,
    /// Its text.
    pub(super) text: String,
}

impl Source {
    pub(super) fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Code in any language, as against prose and data.
    pub(super) fn is_code(&self) -> bool {
        let endings = [".rs", ".py", ".js", ".mjs", ".html", ".css", ".proto", ".toml", ".sh"];
        endings.iter().any(|ending| self.path.ends_with(ending)) || self.path == ".ci/run"
    }

    /// A file that exists for tests alone.
    pub(super) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.starts_with("loom_"))
    }

    /// Folders and the file's name without its ending.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').map(|part| part.split('.').find(|piece| !piece.is_empty()).unwrap_or(part))
    }

    /// Numbered lines of a Rust file that are neither comments nor inside an inline test module.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut in_tests = false;
        let mut test_attribute = false;
        let numbered = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.filter(move |(_, line)| {
            if test_attribute && line.starts_with("mod ") && line.ends_with('{') {
                in_tests = true;
            }
            // rustfmt puts the brace that closes a module at the margin.
            let keep = !in_tests && !line.trim_start().starts_with("//");
            in_tests = in_tests && *line != "}";
            test_attribute = line.starts_with("#[cfg(") && line.contains("test");
            keep
        })
    }
}

/// Reads every text file under `root`.
pub(super) fn read_all(root: &Path) -> Result<Vec<Source>, StepError> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |source| StepError::Io { what: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            if SKIPPED.iter().any(|skipped| name == *skipped) {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let bytes =
                    fs::read(entry.path()).map_err(|source| StepError::Io { what: entry.path(), source })?;
                // What is not UTF-8 is a picture or a recording.
                if let (Ok(text), Ok(path)) = (String::from_utf8(bytes), entry.path().strip_prefix(root)) {
                    sources.push(Source { path: path.to_string_lossy().replace('\\', "/"), text });
                }
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Whether `word` stands in `text` with no letter, digit or underscore touching it.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let after = text[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}
