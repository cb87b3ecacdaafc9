//! `loadtest`: command line, then the scenario that was asked for.
//!
//! Exit codes: 0, all checks passed; 1, some did not; 2, there is no result.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use danmaku_loadtest::error::LoadError;
use danmaku_loadtest::report::{self, Report};
use danmaku_loadtest::scenario::{giant, idle, rooms, small_beside_giant, stuck};

/// Exit code for a run without a result.
const EXIT_NO_RESULT: u8 = 2;

/// Open-loop load generator for danmaku servers.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One room with a crowd.
    Giant(giant::Giant),
    /// Many small rooms.
    Rooms(rooms::Rooms),
    /// A room in which some do not read.
    Stuck(stuck::Stuck),
    /// A small room quiet, and beside a giant one.
    SmallBesideGiant(small_beside_giant::Beside),
    /// Connections that do nothing, and what is left when they are gone.
    Idle(idle::Idle),
    /// One markdown table of several results.
    Table {
        /// Result files, in order.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("loadtest: {error}");
            ExitCode::from(EXIT_NO_RESULT)
        }
    }
}

fn run(command: &Command) -> Result<bool, LoadError> {
    let (report, json) = match command {
        Command::Giant(options) => (giant::run(options)?, &options.common.json),
        Command::Rooms(options) => (rooms::run(options)?, &options.common.json),
        Command::Stuck(options) => (stuck::run(options)?, &options.common.json),
        Command::SmallBesideGiant(options) => (small_beside_giant::run(options)?, &options.common.json),
        Command::Idle(options) => (idle::run(options)?, &options.common.json),
        Command::Table { files } => {
            print!("{}", report::markdown(files)?);
            return Ok(true);
        }
    };
    print!("{}", report.table());
    json.as_deref().map(|path| Report::write(&report, path)).transpose()?;
    Ok(report.passed())
}
