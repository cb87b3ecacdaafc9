//! `danmaku serve`: until a signal says otherwise.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::{CliError, ServeArgs, now_s};
use crate::config::{Change, Config};
use crate::handover::lock::{Lock, LockError};
use crate::handover::taker::Taker;
use crate::handover::{inherited, notify};
use crate::identity::api_key;
use crate::ingress::sockets::Sockets;
use crate::observe::logging;
use crate::serve::{Server, Unopened, raise_descriptor_limit, workers_of};
use crate::store::Backing;
use crate::wiring::{Departure, Shared};
use crate::word_files::{Lists, WordFileError};

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
        // A file that may not grow any more is an error of whoever writes to it, and not the end.
        let _file_size = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        let (server, close) = start(config, args.take_over)?;
        if let Some(path) = staff_key {
            say(format_args!("staff key in {}", path.display()));
        }
        say(format_args!("listening on http://{}", server.listen));
        if let Some(address) = server.tls_listen {
            say(format_args!("listening on https://{address}"));
        }
        if let Some(address) = server.api_listen {
            say(format_args!("back ends on http://{address}"));
        }
        say(format_args!("admin on http://{}", server.admin));
        notify::tell(&format!("READY=1\nMAINPID={}", std::process::id()));
        let shared = server.shared();
        let (mut reading, mut again) = (None, false);
        let leave = loop {
            tokio::select! {
                _ = terminate.recv() => break Leave::Patiently,
                _ = interrupt.recv() => break Leave::AtOnce,
                _ = hangup.recv() => match &reading {
                    None => reading = read(args, &shared),
                    Some(_) => again = true,
                },
                read_again = async { reading.as_mut().expect("asked only then").await }, if reading.is_some() => {
                    reading = None;
                    // It panics only where a list made it, which is as bad as any other error in one.
                    if let Ok(read_again) = read_again {
                        reload(read_again, &server);
                    }
                    if std::mem::take(&mut again) {
                        reading = read(args, &shared);
                    }
                }
                () = shared.replaced.wait() => break Leave::Replaced,
            }
        };
        let mut joined = tokio::task::spawn_blocking(move || {
            server.join();
            // What has been acked and waits for the disk.
            close();
        });
        if leave == Leave::Replaced {
            tokio::select! {
                _ = &mut joined => return Ok(()),
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        if leave == Leave::Patiently {
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

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// Everybody is sent away in time.
    Patiently,
    /// Everybody is closed.
    AtOnce,
    /// Another process serves: what is still under way here is brought to its end.
    Replaced,
}

/// Commits what waits for the disk.
type Close = Box<dyn FnOnce() + Send>;

/// Starts a server in its data directory, or in the place of the one that runs there.
fn start(config: Config, take_over: bool) -> Result<(Server, Close), CliError> {
    let dir = config.data_dir.clone();
    let inherited = inherited::take()?;
    match Lock::take(&dir) {
        Ok(lock) => {
            let (listen, admin) = (config.listen, config.admin_listen);
            let backing = Backing::open(&config)?;
            let close = backing.closer();
            let server = Sockets::with(&config, workers_of(&config), inherited)
                .and_then(|sockets| open(Unopened::build(config, backing)?, sockets, &dir, lock));
            let server = server.map_err(|error| {
                let text = format!("cannot serve on {listen} with the admin port on {admin}: {error}");
                io::Error::new(error.kind(), text)
            })?;
            Ok((server, close))
        }
        Err(LockError::Held { .. }) if take_over => {
            // They are duplicates of what comes from the process that runs.
            drop(inherited);
            replace(config, &dir)
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes the place of the server that runs in a data directory.
fn replace(config: Config, dir: &Path) -> Result<(Server, Close), CliError> {
    let mut taker = Taker::ask(dir)?;
    let sockets = Sockets::after(&config, workers_of(&config), taker.sockets()?)?;
    let backing = Backing::open(&config)?;
    let close = backing.closer();
    let unopened = Unopened::build(config, backing)?;
    let estate = taker.begin()?;
    let (rooms, sessions) = (estate.rooms.len(), estate.sessions.len());
    let (lock, late) = taker.ready()?;
    let frozen = estate.frozen();
    unopened.move_in(estate);
    let server = open(unopened, sockets, dir, lock)?;
    let pause = frozen.elapsed();
    server.taken_over(pause, late)?;
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(rooms, sessions, pause_ms, "took over from the process that served");
    Ok((server, close))
}

/// Lets everybody in, and whoever is to take over from here.
fn open(unopened: Unopened, sockets: Sockets, dir: &Path, lock: Lock) -> io::Result<Server> {
    let admin = sockets.admin.try_clone()?;
    let mut server = unopened.open(sockets)?;
    server.offer(dir, lock, admin)?;
    Ok(server)
}

/// Prints a line for whoever started the server. Nobody may be there to read it, or any more.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A configuration that was read, with its word lists.
type Read = Result<(Config, Lists), WordFileError>;

/// Begins to read the configuration again. Long word lists take seconds, in which other signals are heard too.
fn read(args: &ServeArgs, shared: &Arc<Shared>) -> Option<JoinHandle<Read>> {
    let mut config = match args.load() {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "the configuration was not reloaded; the running one stays");
            return None;
        }
    };
    let words = Arc::clone(&shared.words);
    Some(tokio::task::spawn_blocking(move || words.read(&mut config).map(|lists| (config, lists))))
}

/// Takes a configuration over that was read again; one that cannot be used changes nothing.
fn reload(read: Read, server: &Server) {
    let read = match read {
        Ok(read) => read,
        Err(error) => {
            return tracing::error!(%error, "the configuration was not reloaded; the running one stays");
        }
    };
    let reloaded = match server.reload(read) {
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
