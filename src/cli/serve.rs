//! `danmaku serve`: until a signal says otherwise.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::{CliError, ServeArgs, now_s};
use crate::config::Change;
use crate::identity::api_key;
use crate::observe::logging;
use crate::serve::{Server, raise_descriptor_limit};

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
        println!("listening on http://{}", server.listen);
        println!("admin on http://{}", server.admin);
        if let Some(path) = staff_key {
            println!("staff key in {}", path.display());
        }
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => reload(args, &server),
            }
        }
        tracing::info!("stopping");
        server.stop();
        let joined = tokio::task::spawn_blocking(move || server.join());
        tokio::select! {
            _ = joined => Ok(()),
            _ = terminate.recv() => std::process::exit(0),
            _ = interrupt.recv() => std::process::exit(0),
        }
    })
}

/// Reads the configuration again; one that cannot be used changes nothing.
fn reload(args: &ServeArgs, server: &Server) {
    let config = match args.load() {
        Ok(config) => config,
        Err(error) => {
            return tracing::error!(%error, "the configuration was not reloaded; the running one stays");
        }
    };
    let reloaded = server.reload(config);
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
