//! `danmaku key`: keys of back ends and staff.

use std::io::Write;

use clap::{Args, Subcommand};

use super::{CliError, ConfigArgs, duration, now_s};
use crate::config::value::Duration;
use crate::identity::api_key::{Keys, NewKey};

#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key and print it; it is not shown again.
    Add {
        #[command(flatten)]
        common: ConfigArgs,
        /// Whose it is, for people.
        name: String,
        /// What it may do, repeatable; everything unless given.
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        /// For which room, repeatable; all unless given.
        #[arg(long, value_name = "ROOM")]
        room: Vec<String>,
        /// When it ends; never unless given.
        #[arg(long, value_name = "TIME", value_parser = duration)]
        expires_in: Option<Duration>,
    },
    /// List the keys; their secrets are not kept.
    List {
        #[command(flatten)]
        common: ConfigArgs,
    },
    /// Revoke a key.
    Revoke {
        #[command(flatten)]
        common: ConfigArgs,
        /// Its id, as `list` shows it.
        id: String,
    },
}

pub(super) fn run(args: &KeyArgs) -> Result<(), CliError> {
    match &args.command {
        KeyCommand::Add { common, name, scope, room, expires_in } => {
            let data_dir = common.load()?.data_dir;
            std::fs::create_dir_all(&data_dir)?;
            let now_s = now_s();
            let new = NewKey {
                name: name.clone(),
                scopes: scope.clone(),
                rooms: room.clone(),
                expires: expires_in.map(|time| now_s + time.us() / 1_000_000),
            };
            writeln!(std::io::stdout(), "{}", Keys::to_change(&data_dir)?.add(new, now_s)?)?;
        }
        KeyCommand::List { common } => list(&Keys::read(&common.load()?.data_dir)?)?,
        KeyCommand::Revoke { common, id } => Keys::to_change(&common.load()?.data_dir)?.revoke(id)?,
    }
    Ok(())
}

fn list(keys: &Keys) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let now_s = now_s();
    for key in keys.all() {
        let all = |list: &[String]| if list.is_empty() { "all".to_owned() } else { list.join(",") };
        let ends = match key.expires {
            None => "never ends".to_owned(),
            Some(at) if at <= now_s => "has ended".to_owned(),
            Some(at) => format!("ends in {} h", (at - now_s) / 3_600),
        };
        let (id, name) = (&key.id, key.name.escape_debug());
        writeln!(out, "{id}\t{name}\tscopes {}\trooms {}\t{ends}", all(&key.scopes), all(&key.rooms))?;
    }
    Ok(())
}
