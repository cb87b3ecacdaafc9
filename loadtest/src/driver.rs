//! A thread that drives connections: dials them, reads what comes, publishes what is due. One runs the
//! subscribers, another the publishers, so that a schedule is not held up by a crowd's input.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::connection::{self, Connection, End};
use crate::frame::TEXT;
use crate::handshake;
use crate::intake::Intake;
use crate::plan::{Role, Spec};
use crate::publisher::Publisher;
use crate::shared::{NEVER, Shared};
use crate::wire::{Trust, Wire};

/// Events taken in one turn.
const EVENTS: usize = 1_024;
/// Bytes read at once: more than a whole run of batches as a rule.
const READ_BYTES: usize = 256 << 10;
/// The longest wait, so that orders of the watching thread are heard.
const WAIT_NS_MAX: u64 = 20_000_000;
/// Between two rounds over all connections that look for what is over or due.
const ROUND_NS: u64 = 20_000_000;
/// Messages sent at once before input is looked at again.
const BURST: usize = 256;

/// How connections are made and read.
#[derive(Debug, Clone)]
pub struct Manner {
    /// The server.
    pub target: SocketAddr,
    /// How TLS is spoken with it; `None`: not at all.
    pub trust: Option<Trust>,
    /// The path and query, up to the name of the room.
    pub path: String,
    /// What follows the name.
    pub query: String,
    /// Whether compression is offered.
    pub deflate: bool,
    /// Source addresses used in turn; 0: whatever the system takes.
    pub sources: u32,
    /// Handshakes under way at once.
    pub parallel: usize,
    /// The receive buffer of those who do not read, bytes; 0: the system's.
    pub receive_buffer: usize,
    /// The pause after each round of reads.
    pub coalesce: Duration,
    /// When those who never read are read after all, counted from the moment they were full.
    pub drain_after_ns: u64,
}

/// What a thread hands back.
#[derive(Debug)]
pub struct Harvest {
    /// Its connections.
    pub connections: Vec<Connection>,
    /// Its counts and latencies.
    pub intake: Intake,
    /// For each connection that was to be stuck, in order: when it was read after all.
    pub drained_ns: Vec<Option<u64>>,
}

/// The state of the thread.
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    manner: Manner,
    rooms: Arc<[String]>,
    specs: Vec<Spec>,
    publisher: Option<Publisher>,
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
    /// Indices of those who never read, and of those who pause.
    stuck: Vec<usize>,
    pausing: Vec<usize>,
    drained_ns: Vec<Option<u64>>,
    pauses: Pauses,
    intake: Intake,
    in_flight: usize,
    sent: u64,
    next_round_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pauses {
    Before,
    During,
    After,
}

impl Driver {
    /// A thread's work: the connections of `specs`, and what they publish.
    ///
    /// # Errors
    /// When the system has no epoll set for it.
    pub fn new(
        manner: Manner,
        rooms: Arc<[String]>,
        specs: Vec<Spec>,
        publisher: Option<Publisher>,
        shared: Arc<Shared>,
        intake: Intake,
    ) -> Result<Self, Errno> {
        let with = |role| specs.iter().enumerate().filter(move |(_, s)| s.role == role).map(|(i, _)| i);
        let (stuck, pausing): (Vec<_>, Vec<_>) = (with(Role::Stuck).collect(), with(Role::Pausing).collect());
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            connections: Vec::with_capacity(specs.len()),
            drained_ns: vec![None; stuck.len()],
            stuck,
            pausing,
            pauses: Pauses::Before,
            in_flight: 0,
            sent: 0,
            next_round_ns: 0,
            shared,
            manner,
            rooms,
            specs,
            publisher,
            intake,
        })
    }

    /// Works until told to stop.
    pub fn run(mut self) -> Harvest {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut buf = vec![0; READ_BYTES];
        while !self.shared.stop.load(Relaxed) {
            self.dial();
            let wait_ns = self.publish();
            self.wait(&mut events, wait_ns);
            for event in events.drain(..) {
                let flags = event.flags;
                self.ready(event.data.u64() as usize, flags, &mut buf);
            }
            let now_ns = self.shared.clock.now_ns();
            if now_ns >= self.next_round_ns {
                self.next_round_ns = now_ns + ROUND_NS;
                self.round(now_ns);
            }
            self.intake.exchange();
            if self.publisher.is_none() && self.in_flight == 0 {
                std::thread::sleep(self.manner.coalesce);
            }
        }
        Harvest { connections: self.connections, intake: self.intake, drained_ns: self.drained_ns }
    }

    fn dial(&mut self) {
        while self.connections.len() < self.specs.len() && self.in_flight < self.manner.parallel {
            let index = self.connections.len();
            let spec = self.specs[index];
            let connection = self.dial_one(index, spec);
            let connection = connection.unwrap_or_else(|error| {
                self.intake.tally().failed.fetch_add(1, Relaxed);
                Connection::failed(spec, error, self.shared.clock.now_ns())
            });
            self.connections.push(connection);
        }
    }

    fn dial_one(&mut self, index: usize, spec: Spec) -> Result<Connection, Errno> {
        let Manner { target, deflate, sources, .. } = self.manner;
        let source = (sources > 0).then(|| index as u32 % sources.max(1));
        let buffer = if spec.role == Role::Reading { 0 } else { self.manner.receive_buffer };
        let fd = connection::dial(target, source, buffer)?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &fd, EventData::new_u64(index as u64), flags)?;
        let path = format!("{}{}{}", self.manner.path, self.rooms[spec.room], self.manner.query);
        self.in_flight += 1;
        let wire = Wire::new(fd, self.manner.trust.as_ref())?;
        Ok(Connection::new(spec, wire, handshake::request(target, &path, deflate), deflate))
    }

    /// Sends what is due, and tells how long nothing will be.
    fn publish(&mut self) -> u64 {
        let Some(publisher) = &mut self.publisher else { return WAIT_NS_MAX };
        let start_ns = self.shared.start_ns.load(Relaxed);
        if start_ns == NEVER {
            return WAIT_NS_MAX;
        }
        if publisher.next_ns() == NEVER {
            publisher.start(start_ns);
        }
        let end_ns = self.shared.end_ns.load(Relaxed);
        for _ in 0..BURST {
            let now_ns = self.shared.clock.now_ns();
            let Some(due) = publisher.take(now_ns, end_ns) else { break };
            let connection = &mut self.connections[due.publisher];
            connection.say(TEXT, publisher.message(due.at_ns), now_ns);
            self.sent += u64::from(connection.is_open());
        }
        self.intake.tally().sent.store(self.sent, Relaxed);
        let next_ns = publisher.next_ns();
        if next_ns >= end_ns {
            return WAIT_NS_MAX;
        }
        next_ns.saturating_sub(self.shared.clock.now_ns()).min(WAIT_NS_MAX)
    }

    /// Waits for events. The system call counts in milliseconds; what is shorter is slept.
    fn wait(&self, events: &mut Vec<Event>, wait_ns: u64) {
        let millis = wait_ns / 1_000_000;
        if millis == 0 && wait_ns > 0 {
            std::thread::sleep(Duration::from_nanos(wait_ns));
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: (millis * 1_000_000) as _ };
        // An interrupted wait is one that returned nothing.
        let _ = epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout));
    }

    fn ready(&mut self, index: usize, flags: EventFlags, buf: &mut [u8]) {
        let clock = self.shared.clock;
        let connection = &mut self.connections[index];
        if connection.end.is_some() {
            return;
        }
        let (was_opened, read_before) = (connection.was_opened(), connection.reads);
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        if failed || flags.contains(EventFlags::OUT) {
            connection.writable(clock.now_ns());
        }
        let shut = failed || flags.contains(EventFlags::RDHUP);
        if !connection.reads && failed {
            connection.finish(End::Reset, clock.now_ns());
        } else if !connection.reads && shut {
            // The server has said its last word; what it was is read now.
            connection.reads = true;
        }
        connection.readable(buf, shut, &mut self.intake, || clock.now_ns());
        let (opened, over) = (connection.was_opened(), connection.end.is_some());
        if !was_opened && (opened || over) {
            self.in_flight -= 1;
            let tally = self.intake.tally();
            if opened { &tally.open } else { &tally.failed }.fetch_add(1, Relaxed);
        }
        if read_before && !connection.reads && !over {
            self.stop_reading(index);
        }
    }

    /// From now on only the end of a connection is of interest.
    fn stop_reading(&mut self, index: usize) {
        self.connections[index].reads = false;
        self.watch_for(index, EventFlags::RDHUP | EventFlags::ET);
        let Ok(nth) = self.stuck.binary_search(&index) else { return };
        let Some(socket) = self.connections[index].socket() else { return };
        let local = rustix::net::getsockname(socket).ok().and_then(|any| SocketAddr::try_from(any).ok());
        if let Some(SocketAddr::V4(local)) = local {
            let packed = u64::from(u32::from(*local.ip())) << 16 | u64::from(local.port());
            self.shared.watched[nth].local.store(packed, Relaxed);
        }
    }

    fn read_on(&mut self, index: usize) {
        self.connections[index].reads = true;
        self.watch_for(index, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET);
    }

    fn watch_for(&mut self, index: usize, flags: EventFlags) {
        if let Some(socket) = self.connections[index].socket() {
            // It fails only for a socket that is not in the set; all are.
            let _ = epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), flags);
        }
    }

    /// Looks for what no event tells of.
    fn round(&mut self, now_ns: u64) {
        if self.pauses == Pauses::Before && now_ns >= self.shared.pause_ns.load(Relaxed) {
            self.pauses = Pauses::During;
            for index in self.pausing.clone() {
                self.stop_reading(index);
            }
        }
        if self.pauses == Pauses::During && now_ns >= self.shared.resume_ns.load(Relaxed) {
            self.pauses = Pauses::After;
            for index in self.pausing.clone() {
                self.read_on(index);
            }
        }
        let mut over = 0;
        for nth in 0..self.stuck.len() {
            let index = self.stuck[nth];
            let Some(connection) = self.connections.get(index) else { break };
            over += usize::from(connection.end.is_some());
            let watched = &self.shared.watched[nth];
            let (full_ns, shut_ns) = (watched.full_ns.load(Relaxed), watched.shut_ns.load(Relaxed));
            let late = full_ns > 0 && now_ns >= full_ns.saturating_add(self.manner.drain_after_ns);
            if connection.is_open() && self.drained_ns[nth].is_none() && (late || shut_ns > 0) {
                self.drained_ns[nth] = Some(now_ns);
                self.read_on(index);
            }
        }
        self.intake.tally().stuck_over.store(over, Relaxed);
        if now_ns >= self.shared.end_ns.load(Relaxed) {
            let told = |c: &Connection| c.ledger.is_told(self.shared.last_seq[c.spec.room].load(Relaxed));
            let mut readers = self.connections.iter().filter(|c| c.is_open() && c.spec.role != Role::Stuck);
            self.intake.tally().told.store(readers.all(told), Relaxed);
        }
    }
}
