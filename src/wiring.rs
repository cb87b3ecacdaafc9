//! Every part built once, and what the workers share.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use danmaku_mailbox::{Sender, Wake};
use danmaku_placement::HashRing;
use danmaku_room::house::Door;
use danmaku_room::store::Store;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::Epoch;
use dashmap::DashMap;

use crate::api::v1::broadcast::Broadcasts;
use crate::config::Config;
use crate::directory::Directory;
use crate::handover::Replaced;
use crate::hook::Hook;
use crate::identity::identities::Identities;
use crate::ingress::addresses::Addresses;
use crate::ingress::tls::Tls;
use crate::observe::audit::Audit;
use crate::observe::cells::{Cell, Cells};
use crate::snapshots::Snapshots;
use crate::store::tally::StoreTally;
use crate::word_files::WordFiles;
use crate::worker::message::{Control, Request};
use crate::worker::poller;

/// A worker's end of everyone else's mailboxes.
pub type Post = Sender<Control, Request, Bell>;

/// Wakes a sleeping worker. Hung up by the worker itself, once its epoll set exists.
#[derive(Debug, Clone, Default)]
pub struct Bell {
    fd: Arc<OnceLock<Arc<OwnedFd>>>,
    rung: Arc<AtomicU64>,
}

impl Bell {
    /// Gives the bell its descriptor.
    pub fn hang(&self, fd: Arc<OwnedFd>) {
        let _ = self.fd.set(fd);
    }

    /// How often it was rung.
    pub fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.rung.fetch_add(1, Ordering::Relaxed);
        if let Some(fd) = self.fd.get() {
            poller::ring(fd);
        }
    }
}

/// What all workers see.
pub struct Shared {
    /// Which worker owns which room.
    pub ring: HashRing<u16>,
    /// Everyone's mailbox, by worker.
    pub post: Vec<Post>,
    /// Everyone's bell, by worker.
    pub bells: Vec<Bell>,
    /// Everyone's numbers, by worker.
    pub cells: Vec<Arc<Cells>>,
    /// Members of each room on all workers: read at joins and by the API, never for a delivery.
    pub directory: Directory,
    /// Who may not come into which room; a room that keeps nobody out is not in it. Written by the worker that owns the
    /// room, read when somebody comes in.
    pub doors: DashMap<RoomId, Door>,
    /// Events on their way into all rooms.
    pub broadcasts: Broadcasts,
    /// What staff and back ends have ordered.
    pub audit: Audit,
    /// What is configured; workers take a new one over when they are told to.
    pub config: ArcSwap<Config>,
    /// Held by whoever reads the configuration to put another one in its place; no worker does.
    pub changing: Mutex<()>,
    /// Word lists in files.
    pub words: Arc<WordFiles>,
    /// The platform's receiver, where there is one.
    pub hook: Option<Hook>,
    /// Keys, tokens, tickets, and what was decided about users.
    pub identities: Arc<Identities>,
    /// Connections by address.
    pub addresses: Arc<Addresses>,
    /// Certificates and keys of TLS; absent where nothing is served with it.
    pub tls: Option<Arc<Tls>>,
    /// Snapshots for those who come by HTTP.
    pub snapshots: Snapshots,
    /// Where entries are kept.
    pub store: Arc<dyn Store>,
    /// What the store has done.
    pub stored: Arc<StoreTally>,
    /// The origin of every worker's clock: ages of batches and messages are told across workers.
    pub started: Instant,
    /// How far the process is on its way out: a [`Departure`].
    pub departure: AtomicU8,
    /// Whether another process has taken this one's place.
    pub replaced: Replaced,
    /// Workers that still have sessions, counted on the way out.
    pub inhabited: AtomicUsize,
    /// Random, new at every start; part of every epoch minted here.
    pub incarnation: u64,
    /// Epochs minted so far.
    pub epochs: AtomicU64,
    /// What each worker tells the others of itself, by worker.
    pub told: Box<[Told]>,
}

/// What a worker tells the others of itself: each number is written by that worker alone.
#[derive(Debug, Default)]
pub struct Told {
    /// Comments in its part of the window over the process.
    pub window: Cell,
    /// How far its passes are behind, microseconds.
    pub pass_lag_us: Cell,
}

impl Told {
    /// The numbers of so many workers.
    pub fn all(workers: usize) -> Box<[Self]> {
        (0..workers).map(|_| Self::default()).collect()
    }
}

/// How far a process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Departure {
    /// It stays.
    None,
    /// Readiness is red, everything else as ever: load balancers look away.
    LameDuck,
    /// Nobody is accepted; sessions are sent away one by one.
    Draining,
    /// Everybody is closed.
    Now,
}

impl Shared {
    /// How far the process is on its way out.
    pub fn departure(&self) -> Departure {
        match self.departure.load(Ordering::Acquire) {
            0 => Departure::None,
            1 => Departure::LameDuck,
            2 => Departure::Draining,
            _ => Departure::Now,
        }
    }

    /// Goes on to `next`, and tells the workers; never back.
    pub fn depart(&self, next: Departure) {
        self.departure.fetch_max(next as u8, Ordering::AcqRel);
        for bell in &self.bells {
            bell.wake();
        }
    }

    /// The worker that a room belongs to.
    pub fn owner(&self, room: &RoomId) -> u16 {
        *self.ring.owner(room.as_str().as_bytes())
    }

    /// Posts what must arrive, from a thread that may wait: a full ring empties within a turn of its worker.
    pub fn post_patiently(&self, worker: usize, control: Control) {
        let mut control = control;
        while let Err(full) = self.post[worker].control(control, 64, 0) {
            control = full.item;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Puts another configuration in the place of the running one, and tells the workers. For whoever holds
    /// [`Self::changing`].
    pub fn take_config(&self, config: Config) {
        self.config.store(Arc::new(config));
        for worker in 0..self.post.len() {
            self.post_patiently(worker, Control::Reconfigure);
        }
    }

    /// An epoch that never was and never will be again.
    pub fn mint_epoch(&self) -> Epoch {
        let n = self.epochs.fetch_add(1, Ordering::Relaxed);
        let text = format!("{}-{n}", base36(self.incarnation));
        Epoch::parse(&text).expect("base 36 and a dash are within the alphabet")
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("workers", &self.post.len()).finish_non_exhaustive()
    }
}

/// A number in digits and lower-case letters, shortest first.
pub fn base36(mut n: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(n % 36) as usize]);
        n /= 36;
        if n == 0 {
            break;
        }
    }
    digits.reverse();
    digits.into_iter().map(char::from).collect()
}
