//! `danmaku serve`: until a signal says otherwise.

use std::io::{self, Write};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::{CliError, ServeArgs, now_s};
use crate::config::Change;
use crate::identity::api_key;
use crate::observe::logging;
use crate::serve::{Server, raise_descriptor_limit};
use crate::wiring::Departure;

pub(super) fn run(args: &ServeArgs) -> Result<(), CliError> {
    let config = args.load()?;
    logging::install();
    let staff_key = api_key::first_start(&config.data_dir, now_s())?;
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let (listen, admin) = (config.listen, config.admin_listen);
        let server = Server::start(config).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot serve on {listen} with the admin port on {admin}: {error}"),
            )
        })?;
        if let Some(path) = staff_key {
            say(format_args!("staff key in {}", path.display()));
        }
        say(format_args!("listening on http://{}", server.listen));
        if let Some(address) = server.tls_listen {
            say(format_args!("listening on https://{address}"));
        }
        say(format_args!("admin on http://{}", server.admin));
        let patient = loop {
            tokio::select! {
                _ = terminate.recv() => break true,
                _ = interrupt.recv() => break false,
                _ = hangup.recv() => reload(args, &server),
            }
        };
        let shared = server.shared();
        let mut joined = tokio::task::spawn_blocking(move || server.join());
        if patient {
            let lame_duck = Duration::from_micros(shared.config.load().lame_duck_us);
            let lame_duck_ms = u64::try_from(lame_duck.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(lame_duck_ms, "leaving; a second signal ends the patience");
            shared.depart(Departure::LameDuck);
            tokio::select! {
                () = tokio::time::sleep(lame_duck) => shared.depart(Departure::Draining),
                _ = terminate.recv() => shared.depart(Departure::Now),
                _ = interrupt.recv() => shared.depart(Departure::Now),
            }
            tokio::select! {
                _ = &mut joined => return Ok(()),
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        tracing::info!("closing everybody");
        shared.depart(Departure::Now);
        tokio::select! {
            _ = joined => Ok(()),
            _ = terminate.recv() => std::process::exit(0),
            _ = interrupt.recv() => std::process::exit(0),
        }
    })
}

/// Prints a line for whoever started the server. Nobody may be there to read it, or any more.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Reads the configuration again; one that cannot be used changes nothing.
fn reload(args: &ServeArgs, server: &Server) {
    let config = match args.load() {
        Ok(config) => config,
        Err(error) => {
            return tracing::error!(%error, "the configuration was not reloaded; the running one stays");
        }
    };
    let reloaded = match server.reload(config) {
        Ok(reloaded) => reloaded,
        Err(error) => {
            return tracing::error!(%error, "the configuration was not reloaded; the running one stays");
        }
    };
    for Change { key, from, to } in &reloaded.changed {
        tracing::info!(key, from = told(from), to = told(to), "a setting changed");
    }
    for Change { key, from, to } in &reloaded.waiting {
        tracing::warn!(key, running = told(from), file = told(to), "a setting waits for a restart");
    }
    tracing::info!(
        changed = reloaded.changed.len(),
        waiting = reloaded.waiting.len(),
        "configuration reloaded"
    );
}

fn told(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("absent")
}
