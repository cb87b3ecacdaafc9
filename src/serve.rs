//! `danmaku serve`: bind, start the workers, wait for the end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::thread;

use arc_swap::ArcSwap;
use danmaku_mailbox::{Bounds, mailbox};
use danmaku_placement::{HashRing, RingSeed, Weight};
use danmaku_room::store::Store;
use dashmap::DashMap;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::api;
use crate::config::{Config, Reloaded};
use crate::ingress::listener::{self, Listener};
use crate::ingress::tls::{Tls, TlsError};
use crate::observe::cells::Cells;
use crate::observe::exposition;
use crate::store::memory::{self, MemoryStore};
use crate::wiring::{Bell, Departure, Shared};
use crate::worker::message::Control;
use crate::worker::{self, Parts};

/// Descriptors that are not client connections: listeners, epoll sets, bells, files.
const DESCRIPTORS_RESERVED: u64 = 64;
/// Mailbox lanes: slots, bytes and age. Control carries at most one token per link and one message per
/// turn and worker; a full normal lane means half a second of a worker's work is waiting.
const CONTROL: Bounds = Bounds { slots: 16_384, bytes_max: 64 << 20, age_max_us: u64::MAX };
const VIP: Bounds = Bounds { slots: 4_096, bytes_max: 8 << 20, age_max_us: 2_000_000 };
const NORMAL: Bounds = Bounds { slots: 65_536, bytes_max: 64 << 20, age_max_us: 1_000_000 };

/// What a worker's mailbox takes at most: its slots, which are 64 bytes each, and the bytes behind them.
pub(crate) const MAILBOX_BYTES_MAX: usize =
    (CONTROL.slots + VIP.slots + NORMAL.slots) * 64 + CONTROL.bytes_max + VIP.bytes_max + NORMAL.bytes_max;

/// A server whose sockets are bound and whose workers run.
#[derive(Debug)]
pub struct Server {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where clients connect with TLS.
    pub tls_listen: Option<SocketAddr>,
    /// Where operators look.
    pub admin: SocketAddr,
    shared: Arc<Shared>,
    workers: Vec<thread::JoinHandle<()>>,
}

impl Server {
    /// Binds everything and starts the threads, with a store that forgets when the process ends.
    ///
    /// # Errors
    /// When an address cannot be bound or a thread cannot be started.
    pub fn start(config: Config) -> io::Result<Self> {
        let store = memory_store(&config);
        Self::start_with(config, store)
    }

    /// The same with a store of the caller's.
    ///
    /// # Errors
    /// When an address cannot be bound or a thread cannot be started.
    pub fn start_with(mut config: Config, store: Arc<dyn Store>) -> io::Result<Self> {
        let workers = match config.workers {
            Some(n) => usize::from(n),
            None => thread::available_parallelism().map_or(1, usize::from),
        };
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        config.set_secret(secret);
        let tls = Tls::of(&config).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut listeners: Vec<_> = listener::bind(config.listen, false, workers)?
            .into_iter()
            .map(|listener| vec![listener])
            .collect();
        if let Some(address) = config.tls_listen {
            let secure = listener::bind(address, true, workers)?;
            listeners.iter_mut().zip(secure).for_each(|(own, listener)| own.push(listener));
        }
        let admin_listener = TcpListener::bind(config.admin_listen)?;
        admin_listener.set_nonblocking(true)?;
        let local = |own: &Vec<Listener>, tls| {
            own.iter().find(|l| l.entrance.tls == tls).map(|l| l.socket.local_addr()).transpose()
        };
        let listen = local(&listeners[0], false)?.unwrap_or(config.listen);
        let tls_listen = local(&listeners[0], true)?;
        let admin = admin_listener.local_addr()?;
        let (mut post, mut receivers, mut bells) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..workers {
            let bell = Bell::default();
            let (sender, receiver) = mailbox(CONTROL, VIP, NORMAL, bell.clone());
            post.push(sender);
            receivers.push(receiver);
            bells.push(bell);
        }
        let shared = Arc::new(Shared {
            ring: ring(workers)?,
            post,
            bells: bells.clone(),
            directory: DashMap::new(),
            config: ArcSwap::from_pointee(config),
            addresses: Arc::default(),
            tls: tls.map(Arc::new),
            store,
            started: std::time::Instant::now(),
            departure: AtomicU8::new(Departure::None as u8),
            inhabited: AtomicUsize::new(workers),
            incarnation: random_u64()?,
            epochs: AtomicU64::new(0),
        });
        let cells: Vec<Arc<Cells>> = (0..workers).map(|_| Arc::default()).collect();
        let registry = exposition::registry(cells.clone());
        let admin_shared = Arc::clone(&shared);
        let admin_cells = cells.clone();
        spawn("admin".into(), move || api::admin::run(admin_listener, registry, admin_shared, admin_cells))?;
        let mut handles = Vec::new();
        let parts = listeners.into_iter().zip(receivers).zip(bells).zip(cells).enumerate();
        for (index, (((listeners, mailbox), bell), cells)) in parts {
            let parts = Parts {
                index: u16::try_from(index).map_err(io::Error::other)?,
                shared: Arc::clone(&shared),
                cells,
                listeners,
                mailbox,
                bell,
            };
            handles.push(spawn(format!("worker-{index}"), move || worker::run(parts))?);
        }
        Ok(Self { listen, tls_listen, admin, shared, workers: handles })
    }

    /// What is configured at the moment.
    pub fn config(&self) -> Arc<Config> {
        self.shared.config.load_full()
    }

    /// Puts another configuration in the place of the running one, as far as that is possible while it
    /// runs. What changed, and what waits for a restart.
    ///
    /// # Errors
    /// When the certificate cannot be used: nothing changes then.
    pub fn reload(&self, mut config: Config) -> Result<Reloaded, TlsError> {
        if let Some(tls) = &self.shared.tls {
            tls.reload(&config.tls)?;
        }
        let reloaded = config.reload_over(&self.config());
        self.shared.config.store(Arc::new(config));
        for post in &self.shared.post {
            // A full ring of must-arrive messages empties within a turn of its worker.
            while post.control(Control::Reconfigure, 64, 0).is_err() {
                thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        Ok(reloaded)
    }

    /// What a server can be told by while somebody waits in [`Self::join`].
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Tells the workers to close their sessions and stop.
    pub fn stop(&self) {
        self.shared.depart(Departure::Now);
    }

    /// Waits until all workers have stopped.
    pub fn join(self) {
        for worker in self.workers {
            // A worker that panicked has ended the process.
            let _ = worker.join();
        }
    }
}

/// Starts a thread whose failure or panic ends the process: half a server is worse than none.
fn spawn(
    name: String,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let called = name.clone();
    thread::Builder::new().name(name).spawn(move || match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::error!(%error, thread = called, "a thread failed; the process ends");
            std::process::abort();
        }
        Err(_) => std::process::abort(),
    })
}

fn ring(workers: usize) -> io::Result<HashRing<u16>> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    let members = (0..workers).map(|w| (u16::try_from(w).unwrap_or(u16::MAX), Weight::default()));
    HashRing::build(RingSeed::new(seed), members).map_err(io::Error::other)
}

fn memory_store(config: &Config) -> Arc<dyn Store> {
    let ids = config.rooms().next().map(|room| room.owner.limits.ids).unwrap_or_default();
    Arc::new(MemoryStore::new(memory::Bounds {
        rooms_max: config.rooms_max,
        entries_max: config.rooms().map(|room| room.snapshot_entries).max().unwrap_or(0).max(64),
        ids_max: ids.ids_max,
        ids_ms: ids.window_us / 1_000,
        epochs_max: 16,
    }))
}

fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Raises the descriptor limit as far as the system lets, and says how many connections that allows.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the descriptor limit stays as it is");
    }
    match getrlimit(Resource::Nofile).current {
        Some(n) => {
            tracing::info!(
                connections_max = n.saturating_sub(DESCRIPTORS_RESERVED),
                "descriptors limit connections"
            );
        }
        None => tracing::info!("no descriptor limit"),
    }
}
