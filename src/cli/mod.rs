//! The command line: what was asked for, and the code the process ends with.
//!
//! Exit codes: 0 done, or stopped by a signal; 1 failed, or `doctor` found a fault; 2 wrong arguments;
//! 78 a configuration that cannot be used (sysexits.h `EX_CONFIG`).

mod convert;
mod doctor;
mod key;
mod serve;
mod token;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::auth::Anonymous;
use crate::config::value::Duration;
use crate::config::{Config, ConfigError, Flags};
use crate::handover::lock::LockError;
use crate::handover::taker::TakeOverError;
use crate::identity::api_key::KeysError;
use crate::identity::identities::{self, IdentityError};
use crate::identity::token::TokenError;
use crate::ingress::tls::{Tls, TlsError};
use crate::store::sqlite::OpenError;

/// Exit code for a configuration that cannot be used.
const EXIT_CONFIG: u8 = 78;
/// Exit code for everything else that failed.
const EXIT_FAILURE: u8 = 1;
/// Exit code for arguments that make no sense, as clap has it.
const EXIT_USAGE: u8 = 2;

const EXIT_CODES: &str =
    "Exit codes: 0 done, or stopped by a signal · 1 failed · 2 wrong arguments · 78 wrong configuration.";

/// Real-time danmaku (bullet comment) broadcast server.
///
/// Without a command it serves: http://127.0.0.1:8080 has a page to try.
#[derive(Debug, Parser)]
#[command(name = "danmaku", version, about, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients; what happens without a command.
    Serve(ServeArgs),
    /// Read a configuration as `serve` would, and say whether it can be used.
    CheckConfig {
        /// Configuration file, TOML.
        file: PathBuf,
    },
    /// Sign a token for a user with one of `auth.keys`.
    Token(token::TokenArgs),
    /// Keys of back ends and staff, kept in `keys.toml` in the data directory.
    Key(key::KeyArgs),
    /// Write the comments of a Bilibili XML file in another format: for a player, as subtitles, as a table.
    Convert(Box<convert::ConvertArgs>),
    /// Look at this machine for what would hold a server back.
    Doctor(ConfigArgs),
    /// Print the completions of a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff.
    Man,
}

/// Where settings come from.
#[derive(Debug, Args, Default)]
struct ConfigArgs {
    /// Configuration file, TOML; DANMAKU__SECTION__KEY in the environment goes over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where files go.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Args, Default)]
struct ServeArgs {
    #[command(flatten)]
    common: ConfigArgs,
    /// Where clients connect; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where metrics and health are read.
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<SocketAddr>,
    /// Worker threads; one per core unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Replace the server that runs in the same data directory, without dropping its clients; where none runs, just
    /// serve.
    #[arg(long)]
    take_over: bool,
}

impl ServeArgs {
    fn load(&self) -> Result<Config, CliError> {
        let flags = Flags {
            listen: self.listen,
            admin_listen: self.admin_listen,
            data_dir: self.common.data_dir.clone(),
            workers: self.workers,
        };
        checked(self.common.config.as_deref(), &flags)
    }
}

impl ConfigArgs {
    fn load(&self) -> Result<Config, CliError> {
        checked(self.config.as_deref(), &Flags { data_dir: self.data_dir.clone(), ..Flags::default() })
    }
}

/// A configuration whose files can be used as well.
fn checked(file: Option<&Path>, flags: &Flags) -> Result<Config, CliError> {
    let config = Config::load(file, environment(), flags)?;
    Tls::of(&config)?;
    identities::check(&config)?;
    Ok(config)
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("{0}")]
    Identity(#[from] IdentityError),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Keys(#[from] KeysError),
    #[error("the token would be refused: {0}")]
    Token(#[from] TokenError),
    #[error("{0}")]
    Lock(#[from] LockError),
    #[error("{0}")]
    TakeOver(#[from] TakeOverError),
    #[error("{0}")]
    Store(#[from] OpenError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Found(String),
}

impl CliError {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Tls(_) | Self::Identity(_) => EXIT_CONFIG,
            Self::Usage(_) | Self::Token(_) => EXIT_USAGE,
            Self::Keys(_)
            | Self::Lock(_)
            | Self::TakeOver(_)
            | Self::Store(_)
            | Self::Io(_)
            | Self::Found(_) => EXIT_FAILURE,
        }
    }
}

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command.unwrap_or_else(|| Command::Serve(ServeArgs::default())) {
        Command::Serve(args) => serve::run(&args),
        Command::CheckConfig { file } => check_config(file),
        Command::Token(args) => token::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "danmaku", &mut std::io::stdout());
            Ok(())
        }
        Command::Man => {
            clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout()).map_err(Into::into)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(CliError::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("danmaku: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn check_config(file: PathBuf) -> Result<(), CliError> {
    let config = ConfigArgs { config: Some(file.clone()), data_dir: None }.load()?;
    let published = if config.jwks.is_some() { " and those of a key set" } else { "" };
    let with_token = format!("users with a token of {} keys{published}", config.auth_keys.len());
    let has_keys = !config.auth_keys.is_empty() || config.jwks.is_some();
    let users = match (has_keys, config.anonymous) {
        (false, Anonymous::ReadOnly) => "anonymous users who only watch".to_owned(),
        (false, _) => "anonymous users".to_owned(),
        (true, Anonymous::ReadWrite) => format!("{with_token}, and anonymous ones"),
        (true, Anonymous::ReadOnly) => format!("{with_token}, and anonymous ones who only watch"),
        (true, Anonymous::Refused) => with_token,
    };
    let tls = config.tls_listen.map(|address| format!(", {address} with TLS,")).unwrap_or_default();
    let (file, listen) = (file.display(), config.listen);
    writeln!(std::io::stdout(), "{file}: can be used; it serves {listen}{tls} for {users}")?;
    Ok(())
}

/// The process's environment; what is not UTF-8 is not meant for this program.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// `1h`, `30m`: for clap.
fn duration(text: &str) -> Result<Duration, String> {
    Duration::parse(text).ok_or_else(|| "write a duration such as 30m, 10h or 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Cli`: the commands and options are declared without contradiction.
    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
