//! The commands of the repository, for people and for CI alike: `cargo xtask test`.
//!
//! In come a command and names of steps; out go the output of the tools, one line per step with its
//! time, and an exit code: 0 when every step passed or said why it was skipped, 1 when one failed, 2
//! when the command line was not understood. Nothing here is part of the server, and no check lives
//! only in CI: what CI runs, anyone can run.

mod debian;
mod process;
mod repository;
mod step;
mod steps;
mod tidy;
mod tool;

use std::process::ExitCode;

use repository::Repository;
use step::{Outcome, Step};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chosen = match parse(&arguments) {
        Ok(Command::List) => {
            list();
            return ExitCode::SUCCESS;
        }
        Ok(Command::Run(chosen)) => chosen,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let repository = match Repository::find() {
        Ok(repository) => repository,
        Err(error) => {
            eprintln!("xtask: {error}");
            return ExitCode::FAILURE;
        }
    };
    run(&repository, &chosen)
}

const USAGE: &str = "\
usage: cargo xtask test [STEP...]   run the steps of a test run, or only those named
       cargo xtask STEP             run one step
       cargo xtask list             name every step";

enum Command {
    List,
    Run(Vec<&'static Step>),
}

/// What is wrong with a command line.
#[derive(Debug, PartialEq, Eq)]
enum Usage {
    NoCommand,
    UnknownStep(String),
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCommand => f.write_str("a command is missing"),
            Self::UnknownStep(name) => write!(f, "there is no step or command named {name:?}"),
        }
    }
}

fn parse(arguments: &[String]) -> Result<Command, Usage> {
    let find = |name: &String| {
        steps::ALL.iter().find(|step| step.name == name).ok_or_else(|| Usage::UnknownStep(name.clone()))
    };
    match arguments {
        [] => Err(Usage::NoCommand),
        [list] if list == "list" => Ok(Command::List),
        [test] if test == "test" => Ok(Command::Run(steps::ALL.iter().filter(|step| step.in_test).collect())),
        [test, named @ ..] if test == "test" => {
            Ok(Command::Run(named.iter().map(find).collect::<Result<_, _>>()?))
        }
        named => Ok(Command::Run(named.iter().map(find).collect::<Result<_, _>>()?)),
    }
}

fn list() {
    for step in steps::ALL {
        let when = if step.in_test { "test" } else { "alone" };
        println!("{:<12} {when:<6} {}", step.name, step.about);
    }
}

/// Runs the steps in order and stops at the first that fails.
fn run(repository: &Repository, chosen: &[&'static Step]) -> ExitCode {
    let mut lines = Vec::new();
    let mut failed = false;
    for step in chosen {
        println!("== {}: {}", step.name, step.about);
        let started = std::time::Instant::now();
        let result = (step.run)(repository);
        let seconds = started.elapsed().as_secs_f64();
        let verdict = match &result {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Skipped(why)) => format!("SKIPPED: {why}"),
            Err(error) => format!("FAILED: {error}"),
        };
        println!("== {} {verdict} ({seconds:.1} s)\n", step.name);
        lines.push(format!("{:<12} {seconds:>7.1} s  {verdict}", step.name));
        if result.is_err() {
            failed = true;
            break;
        }
    }
    let left = chosen.len() - lines.len();
    println!("Steps:");
    lines.iter().for_each(|line| println!("  {line}"));
    if left > 0 {
        println!("  {left} more not run, because a step failed");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &[&str]) -> Result<Vec<&'static str>, Usage> {
        let owned: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        match parse(&owned)? {
            Command::List => Ok(vec!["(list)"]),
            Command::Run(chosen) => Ok(chosen.iter().map(|step| step.name).collect()),
        }
    }

    /// `parse`: a bare `test` runs the test steps, names run what they name, in their order.
    #[test]
    fn a_command_line_names_the_steps_it_runs() {
        assert_eq!(names(&["test", "tidy", "fmt"]), Ok(vec!["tidy", "fmt"]));
        assert_eq!(names(&["deny"]), Ok(vec!["deny"]));
        assert_eq!(names(&["list"]), Ok(vec!["(list)"]));
        assert_eq!(names(&[]), Err(Usage::NoCommand));
        assert_eq!(names(&["test", "tidyy"]), Err(Usage::UnknownStep("tidyy".to_owned())));
        let all = names(&["test"]).expect("a test run needs no names");
        assert!(all.contains(&"unit") && all.contains(&"clients") && !all.contains(&"deny"), "{all:?}");
    }

    /// `steps::ALL`: a name that stands twice would hide a step.
    #[test]
    fn no_two_steps_share_a_name() {
        let mut seen: Vec<_> = steps::ALL.iter().map(|step| step.name).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), steps::ALL.len());
    }
}
