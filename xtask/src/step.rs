//! What a step is, and the ways it can end.

use std::fmt;
use std::path::PathBuf;

use crate::repository::Repository;

/// One named check.
pub(crate) struct Step {
    /// The word on the command line.
    pub(crate) name: &'static str,
    /// What a pass means, in one line.
    pub(crate) about: &'static str,
    /// Whether a bare `cargo xtask test` runs it.
    pub(crate) in_test: bool,
    /// Runs it.
    pub(crate) run: fn(&Repository) -> Result<Outcome, StepError>,
}

/// How a step ended that did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It ran and everything held.
    Passed,
    /// It could not run here; the text says what is missing.
    Skipped(String),
}

/// Why a step failed.
#[derive(Debug)]
pub(crate) enum StepError {
    /// A tool is not on this machine and could not be installed.
    Missing {
        /// The tool.
        tool: String,
        /// What to do about it.
        remedy: String,
    },
    /// A command ended with something other than 0.
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// A file or a process could not be reached.
    Io {
        /// Which one.
        what: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `cargo metadata` printed something that is not what it documents.
    Metadata(&'static str),
    /// Rules that the sources break; each was printed.
    Findings(usize),
    /// A fuzz target without committed inputs would pass without running.
    NoCorpus(String),
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { tool, remedy } => write!(f, "{tool} is missing: {remedy}"),
            Self::Failed { command, status } => write!(f, "`{command}` ended with {status}"),
            Self::Io { what, source } => write!(f, "{}: {source}", what.display()),
            Self::Metadata(what) => write!(f, "`cargo metadata` gave no {what}"),
            Self::Findings(count) => write!(f, "{count} findings, listed above"),
            Self::NoCorpus(target) => {
                write!(f, "fuzz target {target} has no file under fuzz/corpus/{target}")
            }
        }
    }
}
