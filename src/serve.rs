//! `danmaku serve`: bind, start the workers, wait for the end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use danmaku_mailbox::{Bounds, mailbox};
use danmaku_placement::{HashRing, RingSeed, Weight};
use danmaku_room::store::Store;
use danmaku_wire::id::RoomId;
use dashmap::DashMap;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::api;
use crate::api::v1::broadcast::Broadcasts;
use crate::config::{Config, Reloaded};
use crate::directory::Directory;
use crate::handover::Replaced;
use crate::handover::forward::{Answer, Forwarded};
use crate::handover::giver::Giver;
use crate::handover::lock::Lock;
use crate::handover::taker::{Estate, Late, LateComer};
use crate::hook::Hook;
use crate::identity::identities::{self, Identities, IdentityError};
use crate::ingress::listener::{Kind, Listener};
use crate::ingress::sockets::Sockets;
use crate::ingress::tls::{Tls, TlsError};
use crate::observe::cells::Cells;
use crate::observe::exposition;
use crate::snapshots::Snapshots;
use crate::store::Backing;
use crate::wiring::{Bell, Departure, Shared, Told};
use crate::word_files::{self, Lists, WordFiles};
use crate::worker::calls::Call;
use crate::worker::drain::cautious_window_us;
use crate::worker::handover::Step;
use crate::worker::message::{Control, Outcome};
use crate::worker::{self, Parts};

/// Descriptors that are not client connections: listeners, epoll sets, bells, files.
const DESCRIPTORS_RESERVED: u64 = 64;
/// Slots of the lane by which comments come to a worker.
pub const NORMAL_SLOTS: usize = 65_536;
/// Mailbox lanes: slots, bytes and age. Control carries at most one token per link and one message per
/// turn and worker; a full normal lane means half a second of a worker's work is waiting.
const CONTROL: Bounds = Bounds { slots: 16_384, bytes_max: 64 << 20, age_max_us: u64::MAX };
const VIP: Bounds = Bounds { slots: 4_096, bytes_max: 8 << 20, age_max_us: 2_000_000 };
const NORMAL: Bounds = Bounds { slots: NORMAL_SLOTS, bytes_max: 64 << 20, age_max_us: 1_000_000 };

/// What a worker's mailbox takes at most: its slots, which are 64 bytes each, and the bytes behind them.
pub(crate) const MAILBOX_BYTES_MAX: usize =
    (CONTROL.slots + VIP.slots + NORMAL.slots) * 64 + CONTROL.bytes_max + VIP.bytes_max + NORMAL.bytes_max;

/// Requests of the process before that wait here for their fates; further ones wait in the channel from there.
const FATES_AT_ONCE: usize = 1024;

/// How many workers a configuration means.
pub fn workers_of(config: &Config) -> usize {
    match config.workers {
        Some(n) => usize::from(n),
        None => thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Why another configuration cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A key of tokens cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// A server whose sockets are bound and whose workers run.
#[derive(Debug)]
pub struct Server {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where clients connect with TLS.
    pub tls_listen: Option<SocketAddr>,
    /// Where back ends ask, if they have an address of their own.
    pub api_listen: Option<SocketAddr>,
    /// Where operators look.
    pub admin: SocketAddr,
    shared: Arc<Shared>,
    cells: Vec<Arc<Cells>>,
    workers: Vec<thread::JoinHandle<()>>,
    admin_thread: thread::JoinHandle<()>,
    /// Who hands over to another process, where that was offered.
    giver: Option<thread::JoinHandle<()>>,
}

/// A server whose workers run, and whom nobody can reach yet.
#[derive(Debug)]
pub struct Unopened {
    shared: Arc<Shared>,
    cells: Vec<Arc<Cells>>,
    workers: Vec<thread::JoinHandle<()>>,
}

impl Unopened {
    /// Starts the workers.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn build(mut config: Config, backing: Backing) -> io::Result<Self> {
        let workers = workers_of(&config);
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        config.set_secret(backing.secret.unwrap_or(secret));
        let words = Arc::new(WordFiles::of(&config.data_dir));
        let wrong_list = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        words.take(words.read(&mut config).map_err(wrong_list)?);
        let wrong_hook = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let hook = Hook::of(&config).map_err(wrong_hook)?;
        let tls = Tls::of(&config).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let cells: Vec<Arc<Cells>> = (0..workers).map(|_| Arc::default()).collect();
        let wrong_key = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let identities = Arc::new(Identities::of(&config).map_err(wrong_key)?);
        identities.begin(&config, &cells[0]).map_err(wrong_key)?;
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
            cells: cells.clone(),
            directory: Directory::default(),
            doors: DashMap::new(),
            broadcasts: Broadcasts::default(),
            audit: crate::observe::audit::Audit::default(),
            config: ArcSwap::from_pointee(config),
            changing: Mutex::default(),
            hook,
            words,
            identities,
            addresses: Arc::default(),
            snapshots: Snapshots::default(),
            tls: tls.map(Arc::new),
            store: backing.store,
            stored: backing.tally,
            started: std::time::Instant::now(),
            departure: AtomicU8::new(Departure::None as u8),
            replaced: Replaced::default(),
            inhabited: AtomicUsize::new(workers),
            incarnation: random_u64()?,
            epochs: AtomicU64::new(0),
            told: Told::all(workers),
        });
        let mut handles = Vec::new();
        for (index, ((mailbox, bell), cells)) in receivers.into_iter().zip(bells).zip(&cells).enumerate() {
            let parts = Parts {
                index: u16::try_from(index).map_err(io::Error::other)?,
                shared: Arc::clone(&shared),
                cells: Arc::clone(cells),
                mailbox,
                bell,
            };
            handles.push(spawn(format!("worker-{index}"), move || worker::run(parts))?);
        }
        Ok(Self { shared, cells, workers: handles })
    }

    /// Lets everybody in.
    ///
    /// # Errors
    /// When the admin port's thread cannot be started.
    pub fn open(self, sockets: Sockets) -> io::Result<Server> {
        let Self { shared, cells, workers } = self;
        let Sockets { client, admin: admin_listener, retired } = sockets;
        let local = |kind| {
            let first = client.iter().find(|listener| listener.entrance.kind == kind);
            first.map(|listener| listener.socket.local_addr()).transpose()
        };
        let listen = local(Kind::Plain)?.ok_or(io::ErrorKind::NotFound)?;
        let (tls_listen, api_listen) = (local(Kind::Tls)?, local(Kind::Api)?);
        let admin = admin_listener.local_addr()?;
        admin_listener.set_nonblocking(true)?;
        let registry = exposition::registry(cells.clone(), Arc::clone(&shared.stored));
        let (admin_shared, admin_cells) = (Arc::clone(&shared), cells.clone());
        let admin_thread = spawn("admin".into(), move || {
            api::admin::run(admin_listener, registry, admin_shared, admin_cells)
        })?;
        let (watched, told) = (Arc::clone(&shared), Arc::clone(&cells[0]));
        spawn("words".into(), move || {
            word_files::watch(&watched, &told);
            Ok(())
        })?;
        let share_out = |listeners: Vec<Listener>, step: fn(Listener) -> Step| {
            for (index, listener) in listeners.into_iter().enumerate() {
                shared.post_patiently(index % workers.len(), Control::Step(Box::new(step(listener))));
            }
        };
        let mut rest = client;
        for kind in Kind::ALL {
            let (own, others) = rest.into_iter().partition(|listener| listener.entrance.kind == kind);
            rest = others;
            share_out(own, Step::Listen);
        }
        share_out(retired, Step::Close);
        Ok(Server {
            listen,
            tls_listen,
            api_listen,
            admin,
            shared,
            cells,
            workers,
            admin_thread,
            giver: None,
        })
    }

    /// Moves in where another process was: its rooms and its sessions, which go on from where they stood.
    pub fn move_in(&self, estate: Estate) {
        let Estate { rooms, sessions, decisions, secret, .. } = estate;
        // Before any session comes that they are about.
        self.shared.identities.take_over(decisions);
        let bridged = sessions.iter().filter(|passage| passage.session.bridged.is_some()).count() as u64;
        let mut config = Config::clone(&self.shared.config.load());
        config.set_secret(secret);
        // The other process may have written since this one read.
        let words = &self.shared.words;
        match words.written.read(config.words_max) {
            Ok(()) => words.give(&mut config, &words.used()),
            Err(error) => {
                tracing::error!(%error, "the written word lists were not read again; older ones hold")
            }
        }
        let (spread_members, limits) = (config.spread_members, config.addresses);
        let window_us = cautious_window_us(bridged, &config);
        self.shared.config.store(Arc::new(config));
        for worker in 0..self.workers.len() {
            self.shared.post_patiently(worker, Control::Reconfigure);
        }
        for (room, left) in rooms {
            self.shared.store.take_over(room, left);
        }
        let owner = |room: &RoomId| usize::from(self.shared.owner(room));
        for (worker, passage) in Estate::placed(sessions, self.workers.len(), spread_members, owner) {
            let mut session = passage.arrive(&self.shared.addresses, &limits);
            session.bridged = session.bridged.map(|_| window_us);
            self.shared.post_patiently(worker, Control::Adopt(Box::new(session)));
        }
    }
}

impl Server {
    /// Binds everything and starts the threads, with a store that forgets when the process ends.
    ///
    /// # Errors
    /// When an address cannot be bound or a thread cannot be started.
    pub fn start(config: Config) -> io::Result<Self> {
        let backing = Backing::memory(&config);
        Self::start_in(config, backing)
    }

    /// The same with a store of the caller's.
    ///
    /// # Errors
    /// When an address cannot be bound or a thread cannot be started.
    pub fn start_with(config: Config, store: Arc<dyn Store>) -> io::Result<Self> {
        Self::start_in(config, Backing::of(store))
    }

    fn start_in(config: Config, backing: Backing) -> io::Result<Self> {
        let sockets = Sockets::bind(&config, workers_of(&config))?;
        Unopened::build(config, backing)?.open(sockets)
    }

    /// Lets another process take this one's place, from the socket in the data directory on.
    ///
    /// # Errors
    /// When there cannot be such a socket, or its thread cannot be started.
    pub fn offer(&mut self, dir: &Path, lock: Lock, admin: TcpListener) -> io::Result<()> {
        let listener = Giver::listen(dir)?;
        let giver = Giver::new(Arc::clone(&self.shared), admin, lock, Arc::clone(&self.cells[0]));
        self.giver = Some(spawn("handover".into(), move || giver.serve(&listener))?);
        Ok(())
    }

    /// Notes that this process has taken another one's place, and takes in what comes late from there.
    ///
    /// # Errors
    /// When the thread for that cannot be started.
    pub fn taken_over(&self, pause: Duration, late: Late) -> io::Result<()> {
        self.cells[0].taken_over.add(1);
        self.cells[0].taken_over_pause_us_max.set(u64::try_from(pause.as_micros()).unwrap_or(u64::MAX));
        let (mut fates, (wait, waiting)) = (late.fates()?, mpsc::sync_channel(FATES_AT_ONCE));
        spawn("fates".into(), move || {
            for (worker, call, fate) in waiting {
                // An owner that says nothing is as good as none: whoever waits there does not wait for ever.
                if let Ok(outcome) = tokio::sync::oneshot::Receiver::blocking_recv(fate) {
                    fates.tell(Answer { worker, call, outcome });
                }
            }
            Ok(())
        })?;
        let shared = Arc::clone(&self.shared);
        spawn("late".into(), move || {
            for comer in late {
                admit(&shared, comer, &wait);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// What is configured at the moment.
    pub fn config(&self) -> Arc<Config> {
        self.shared.config.load_full()
    }

    /// Puts another configuration, with its word lists, in the place of the running one, as far as that is possible while it
    /// runs. What changed, and what waits for a restart.
    ///
    /// # Errors
    /// When the certificate or a key cannot be used: nothing changes then.
    pub fn reload(&self, (mut config, lists): (Config, Lists)) -> Result<Reloaded, ReloadError> {
        let _changing = self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at first: a certificate cannot be taken back.
        identities::check(&config)?;
        if let Some(tls) = &self.shared.tls {
            tls.reload(&config.tls)?;
        }
        self.shared.identities.reload(&config)?;
        let reloaded = config.reload_over(&self.config());
        // What was written since these were read holds too.
        self.shared.words.give(&mut config, &lists);
        self.shared.words.take(lists);
        self.shared.take_config(config);
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

    /// Waits until all workers have stopped, and where another process has taken this one's place, until whoever
    /// is connected to the admin port has been answered.
    pub fn join(self) {
        for worker in self.workers {
            // A worker that panicked has ended the process.
            let _ = worker.join();
        }
        if self.shared.replaced.is_set() {
            let _ = self.admin_thread.join();
            // It may have something of the workers' still to send.
            let _ = self.giver.map(thread::JoinHandle::join);
        }
    }
}

/// A request of another process: its worker and number there, and what comes of it.
type Waiting = (u16, u64, tokio::sync::oneshot::Receiver<Outcome>);

/// Gives what came late from the process before to the worker that owns its room.
fn admit(shared: &Shared, comer: LateComer, wait: &mpsc::SyncSender<Waiting>) {
    match comer {
        LateComer::Session(passage) => {
            let config = shared.config.load();
            let mut session = passage.arrive(&shared.addresses, &config.addresses);
            session.bridged = session.bridged.map(|_| config.drain_window_us);
            shared.post_patiently(shared.owner(&session.room).into(), Control::Adopt(Box::new(session)));
        }
        LateComer::Comment(Forwarded { worker, call, room, user, standing, send }) => {
            let (answer, fate) = tokio::sync::oneshot::channel();
            let owner = shared.owner(&room);
            let comment = Call { room, user, standing, send, answer };
            shared.post_patiently(owner.into(), Control::Call(Box::new(comment)));
            // Its receiver lives as long as the thread that hears of the fates, which ends with this one.
            let _ = wait.send((worker, call, fate));
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
