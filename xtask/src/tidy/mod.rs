//! The house rules that no compiler holds.
//!
//! In come the text files of the work tree and cargo's metadata; out go findings, one line each with
//! file, line and what to do. Each rule is a pure function of a path and a text, so that its test is
//! a text that breaks it. Nothing is ever rewritten.

mod dependencies;
mod documents;
mod purity;
mod shape;
mod source;
#[cfg(test)]
mod tests;
mod unsafety;

use std::fmt;

use crate::repository::Repository;
use crate::step::{Outcome, StepError};

use source::Source;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the root, with forward slashes.
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    /// What is wrong and what would be right.
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Rules that look at one file at a time.
const FILE_RULES: [fn(&Source) -> Vec<Finding>; 7] = [
    purity::system_calls,
    shape::unfinished_marks,
    shape::empty_names,
    shape::long_files,
    shape::machine_words,
    shape::lock_addresses,
    unsafety::unexplained,
];

/// Runs every rule over the work tree.
pub(crate) fn run(repository: &Repository) -> Result<Outcome, StepError> {
    let sources = source::read_all(&repository.root)?;
    let mut findings: Vec<Finding> =
        sources.iter().flat_map(|source| FILE_RULES.iter().flat_map(|rule| rule(source))).collect();
    findings.extend(unsafety::stale(&sources));
    findings.extend(documents::unlinked_decisions(&sources));
    findings.extend(dependencies::broken_law(&repository.metadata)?);
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} files read, {} findings", sources.len(), findings.len());
    if findings.is_empty() { Ok(Outcome::Passed) } else { Err(StepError::Findings(findings.len())) }
}
