//! A run: connect, measure a window, finish, account. The thread that calls this watches; two others drive
//! the connections.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use crate::clock::secs_ns;
use crate::connection::Connection;
use crate::driver::{Driver, Harvest};
use crate::error::LoadError;
use crate::intake::{Intake, Latencies, latencies};
use crate::metrics::Scrape;
use crate::options::Setup;
use crate::plan::{self, Group, Role};
use crate::process::{self, SendQueues, Usage};
use crate::publisher::Publisher;
use crate::shared::{NEVER, Shared};

/// Between two looks at the server's memory and at what is stuck.
pub const LOOK_NS: u64 = 250_000_000;
/// Between two lines of progress.
const LINE_NS: u64 = 1_000_000_000;
/// How long all connections may take to open.
const CONNECT_NS: u64 = 120_000_000_000;
/// From the order to publish until the first message is due.
const LEAD_NS: u64 = 50_000_000;
/// Descriptors beside the connections: epoll sets, standard streams, files of `/proc`.
const DESCRIPTORS_SPARE: u64 = 32;

/// A run under way.
#[derive(Debug)]
pub struct Session {
    /// What all threads share.
    pub shared: Arc<Shared>,
    setup: Setup,
    groups: Vec<Group>,
    rooms: Arc<[String]>,
    threads: Vec<JoinHandle<Harvest>>,
    queues: SendQueues,
    in_window: bool,
    peaks: Peaks,
    progress: Progress,
    /// When a line of progress was last written.
    told_ns: u64,
}

/// How a run tells how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Silent,
    /// One line that changes.
    Terminal,
    /// A line a second.
    Lines,
}

/// The largest values seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Memory of the server's process, KiB.
    pub rss_kib: u64,
    /// Kernel memory of TCP, KiB.
    pub tcp_kib: u64,
}

/// The state of everything at one moment.
#[derive(Debug, Clone)]
pub struct Mark {
    at_ns: u64,
    items: u64,
    bytes: u64,
    messages: u64,
    usage: Option<Usage>,
    scrape: Option<Scrape>,
}

/// What happened between two marks.
#[derive(Debug, Clone)]
pub struct Window {
    /// The first mark.
    pub from: Mark,
    /// The last.
    pub to: Mark,
}

/// The account of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The groups, as planned.
    pub groups: Vec<Group>,
    /// Those who subscribed, room by room.
    pub subscribers: Vec<Connection>,
    /// When each stuck one of them was read after all.
    pub drained_ns: Vec<Option<u64>>,
    /// Those who published.
    pub publishers: Vec<Connection>,
    /// Latencies by group, microseconds.
    pub latencies: Vec<Latencies>,
    /// The first faults in words.
    pub faults: Vec<String>,
    /// Refused publishes by code.
    pub refused: BTreeMap<String, u64>,
    /// Messages sent.
    pub sent: u64,
    /// Messages answered.
    pub answered: u64,
    /// Changes of owner seen.
    pub epochs: u64,
    /// The largest memory seen.
    pub peaks: Peaks,
    /// What all threads shared.
    pub shared: Arc<Shared>,
}

impl Session {
    /// Connects everyone.
    ///
    /// # Errors
    /// When not every connection can be had.
    pub fn connect(setup: &Setup, groups: &[Group]) -> Result<Self, LoadError> {
        let asked = plan::members(groups);
        allow_descriptors(asked)?;
        let subscribers = plan::subscribers(groups);
        let stuck = subscribers.iter().filter(|spec| spec.role == Role::Stuck).count();
        let shared = Arc::new(Shared::new(plan::rooms(groups), stuck));
        let run = shared.clock.now_ns() / 1_000_000;
        let rooms = groups.iter().flat_map(|g| (0..g.rooms).map(move |i| format!("{}-{run}-{i}", g.name)));
        let rooms: Arc<[String]> = rooms.collect();
        let publisher = Publisher::new(groups, setup.text_bytes);
        let works = [(subscribers, None), (plan::publishers(groups), Some(publisher))];
        let mut threads = Vec::new();
        for (thread, (specs, publisher)) in works.into_iter().enumerate() {
            let intake = Intake::new(Arc::clone(&shared), thread, groups.len(), setup.all_visible);
            let (manner, rooms, shared) = (setup.manner.clone(), Arc::clone(&rooms), Arc::clone(&shared));
            let driver = Driver::new(manner, rooms, specs, publisher, shared, intake)?;
            threads.push(std::thread::spawn(move || driver.run()));
        }
        let mut session = Self {
            shared,
            setup: setup.clone(),
            groups: groups.to_vec(),
            rooms,
            threads,
            queues: SendQueues::default(),
            in_window: false,
            peaks: Peaks::default(),
            progress: match (std::io::stderr().is_terminal(), setup.progress) {
                (true, _) => Progress::Terminal,
                (false, true) => Progress::Lines,
                (false, false) => Progress::Silent,
            },
            told_ns: 0,
        };
        session.wait_until_open(asked)?;
        Ok(session)
    }

    /// The names of the rooms of all groups, in order.
    pub fn rooms(&self) -> &[String] {
        &self.rooms
    }

    fn wait_until_open(&mut self, asked: usize) -> Result<(), LoadError> {
        let until_ns = self.shared.clock.now_ns() + CONNECT_NS;
        loop {
            let open = self.shared.count(|tally| &tally.open);
            let failed = self.shared.count(|tally| &tally.failed);
            if open == asked {
                return Ok(());
            }
            if open + failed >= asked || self.shared.clock.now_ns() > until_ns {
                let harvests = self.stop()?;
                let ends = harvests.iter().flat_map(|harvest| &harvest.connections);
                let why = ends.filter_map(|connection| connection.end.as_ref()).next();
                let why =
                    why.map_or_else(|| "no answer in two minutes".to_owned(), |(end, _)| end.to_string());
                return Err(LoadError::Connect { open, asked, why });
            }
            self.progress("connecting");
            self.shared.clock.sleep_until(self.shared.clock.now_ns() + LOOK_NS / 10);
        }
    }

    /// Starts publishing, and measures what is due in a window after the warm-up.
    ///
    /// # Errors
    /// When the server's process or its metrics cannot be read.
    pub fn measure(&mut self) -> Result<Window, LoadError> {
        let start_ns = self.shared.clock.now_ns() + LEAD_NS;
        let from_ns = start_ns + secs_ns(self.setup.warmup);
        let to_ns = from_ns + secs_ns(self.setup.secs);
        self.shared.window_from_ns.store(from_ns, Relaxed);
        self.shared.window_to_ns.store(to_ns, Relaxed);
        self.shared.start_ns.store(start_ns, Relaxed);
        self.watch("warming up", from_ns, || false);
        let from = self.mark()?;
        self.in_window = true;
        self.watch("measuring", to_ns, || false);
        self.in_window = false;
        Ok(Window { from, to: self.mark()? })
    }

    /// Watches until a moment, or until `done`. Whether it was done.
    pub fn watch(&mut self, what: &str, until_ns: u64, done: impl Fn() -> bool) -> bool {
        loop {
            let now_ns = self.shared.clock.now_ns();
            self.look(now_ns);
            self.progress(what);
            if done() {
                return true;
            }
            if now_ns >= until_ns {
                return false;
            }
            self.shared.clock.sleep_until((now_ns + LOOK_NS).min(until_ns));
        }
    }

    fn look(&mut self, now_ns: u64) {
        if let Some(usage) = self.setup.server_pid.and_then(process::usage) {
            self.peaks.rss_kib = self.peaks.rss_kib.max(usage.rss_kib);
        }
        self.peaks.tcp_kib = self.peaks.tcp_kib.max(process::tcp_memory_kib().unwrap_or_default());
        let quiet = self.in_window && self.setup.quiet_window;
        if !self.shared.watched.is_empty() && !quiet {
            self.queues.look(self.setup.manner.target.port(), &self.shared, now_ns);
        }
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// When the server's process or its metrics cannot be read.
    pub fn mark(&self) -> Result<Mark, LoadError> {
        let usage = self.setup.server_pid.map(|pid| process::usage(pid).ok_or(LoadError::NoProcess(pid)));
        Ok(Mark {
            at_ns: self.shared.clock.now_ns(),
            items: self.shared.sum(|tally| &tally.items),
            bytes: self.shared.sum(|tally| &tally.bytes),
            messages: self.shared.sum(|tally| &tally.messages),
            usage: usage.transpose()?,
            scrape: self.setup.admin.map(Scrape::read).transpose()?,
        })
    }

    /// Ends publishing, waits for what is late, and accounts.
    ///
    /// # Errors
    /// When a driver thread broke.
    pub fn finish(mut self) -> Result<Outcome, LoadError> {
        let now_ns = self.shared.clock.now_ns();
        self.shared.end_ns.store(now_ns, Relaxed);
        let shared = Arc::clone(&self.shared);
        // The drivers look round every 20 ms; before they did, what they tell is not about the end.
        self.watch("finishing", now_ns + 2 * LOOK_NS, || false);
        self.watch("finishing", now_ns + secs_ns(self.setup.drain), || {
            let answered = shared.sum(|tally| &tally.answered) >= shared.sum(|tally| &tally.sent);
            answered && shared.tallies.iter().all(|tally| tally.told.load(Relaxed))
        });
        let mut harvests = self.stop()?.into_iter();
        let (Some(subscribers), Some(publishers)) = (harvests.next(), harvests.next()) else {
            return Err(LoadError::Panicked);
        };
        let intakes = [subscribers.intake, publishers.intake];
        let mut all: Vec<Latencies> = self.groups.iter().map(|_| latencies()).collect();
        let mut refused = BTreeMap::new();
        for intake in &intakes {
            for (sum, part) in all.iter_mut().zip(&intake.latencies) {
                sum.add(part).expect("histograms of one shape add up");
            }
            for (code, count) in &intake.refused {
                *refused.entry(code.clone()).or_default() += count;
            }
        }
        Ok(Outcome {
            groups: self.groups,
            subscribers: subscribers.connections,
            drained_ns: subscribers.drained_ns,
            publishers: publishers.connections,
            latencies: all,
            faults: intakes.iter().flat_map(|intake| intake.faults.clone()).collect(),
            refused,
            sent: self.shared.sum(|tally| &tally.sent),
            answered: self.shared.sum(|tally| &tally.answered),
            epochs: intakes.iter().map(|intake| intake.epochs).sum(),
            peaks: self.peaks,
            shared: self.shared,
        })
    }

    fn stop(&mut self) -> Result<Vec<Harvest>, LoadError> {
        self.shared.stop.store(true, Relaxed);
        if self.progress == Progress::Terminal {
            eprint!("\r\x1b[K");
        }
        std::mem::take(&mut self.threads)
            .into_iter()
            .map(|t| t.join().map_err(|_| LoadError::Panicked))
            .collect()
    }

    fn progress(&mut self, what: &str) {
        let now_ns = self.shared.clock.now_ns();
        let due = match self.progress {
            Progress::Silent => false,
            Progress::Terminal => true,
            Progress::Lines => now_ns >= self.told_ns + LINE_NS,
        };
        if !due {
            return;
        }
        self.told_ns = now_ns;
        let shared = &self.shared;
        let start_ns = shared.start_ns.load(Relaxed);
        let ran_s = if start_ns == NEVER { 0 } else { now_ns.saturating_sub(start_ns) / 1_000_000_000 };
        let (open, sent) = (shared.count(|t| &t.open), shared.sum(|t| &t.sent));
        let (answered, items) = (shared.sum(|t| &t.answered), shared.sum(|t| &t.items));
        let line =
            format!("{what}  {ran_s} s  open {open}  sent {sent}  answered {answered}  delivered {items}");
        let mut out = std::io::stderr().lock();
        // A terminal that is gone is no reason to stop.
        let _ = match self.progress {
            Progress::Terminal => write!(out, "\r\x1b[K{line}").and_then(|()| out.flush()),
            _ => writeln!(out, "{line}"),
        };
    }
}

impl Window {
    /// Its length in seconds.
    pub fn secs(&self) -> f64 {
        (self.to.at_ns - self.from.at_ns) as f64 / 1e9
    }

    /// Items received.
    pub fn items(&self) -> f64 {
        (self.to.items - self.from.items) as f64
    }

    /// Bytes received.
    pub fn bytes(&self) -> f64 {
        (self.to.bytes - self.from.bytes) as f64
    }

    /// Messages received.
    pub fn messages(&self) -> f64 {
        (self.to.messages - self.from.messages) as f64
    }

    /// CPU seconds of the server.
    pub fn cpu_s(&self) -> Option<f64> {
        Some(self.to.usage.as_ref()?.cpu_s - self.from.usage.as_ref()?.cpu_s)
    }

    /// CPU seconds of each of the server's threads that used any, the busiest first.
    pub fn threads(&self) -> Vec<(String, f64)> {
        let (Some(from), Some(to)) = (&self.from.usage, &self.to.usage) else { return Vec::new() };
        let used = |(tid, (name, cpu_s)): (&u32, &(String, f64))| {
            (name.clone(), cpu_s - from.threads.get(tid).map_or(0.0, |(_, before)| *before))
        };
        let mut all: Vec<_> = to.threads.iter().map(used).filter(|(_, cpu_s)| *cpu_s > 0.0).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    /// How much one of the server's counters has grown.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.to.scrape.as_ref()?.since(self.from.scrape.as_ref()?, name)
    }
}

/// Raises the soft limit of descriptors to the hard one.
fn allow_descriptors(connections: usize) -> Result<(), LoadError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    match maximum {
        Some(limit) if connections as u64 + DESCRIPTORS_SPARE > limit => {
            Err(LoadError::Descriptors { connections, limit })
        }
        _ => Ok(()),
    }
}
