//! The process that serves, when another one asks for its place.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use danmaku_mailbox::Lane;
use danmaku_room::store::Loaded;
use danmaku_wire::id::RoomId;

use super::channel::{self, Channel, ChannelError, FDS_MAX};
use super::forward::Answer;
use super::lock::Lock;
use super::message::{Message, Totals};
use super::pump::Pump;
use super::state::Passage;
use crate::ingress::arrival::Arrival;
use crate::ingress::listener::Listener;
use crate::observe::cells::Cells;
use crate::wiring::{Departure, Shared};
use crate::worker::drain::cautious_window_us;
use crate::worker::handover::{Ending, Late, Leaving, Step, Stillness};
use crate::worker::message::{Control, Publisher, Reply};

/// How long the other process may take until it can begin: it makes its threads and binds what is missing.
const PREPARING: Duration = Duration::from_secs(10);
/// How long it may take to hear that nothing comes of it.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long a session that came late may take to be sent.
const LATE: Duration = Duration::from_secs(2);
/// What came late and is not yet sent; a worker that has more waits.
const LATE_AT_ONCE: usize = 1024;
/// How long this process may be there to answer requests, at most.
const ANSWERS: Duration = Duration::from_secs(600);
/// How often it is looked whether the workers stand still.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// What goes into one message, about, bytes.
const PORTION_BYTES: usize = 1 << 20;
/// What an id takes in a message: key, payload, number and time, bytes.
const ID_BYTES: usize = 40;
/// About what a sanction takes.
const SANCTION_BYTES: usize = 512;
/// Ids of a room in one message.
const PORTION_IDS: usize = 16_384;
/// Decisions about users in a message: some kilobytes each at most.
const PORTION_DECISIONS: usize = 256;

/// Why there is no hand-over.
#[derive(Debug, thiserror::Error)]
enum CalledOff {
    #[error("{0}")]
    Channel(#[from] ChannelError),
    #[error("the other process called it off: {0}")]
    ByThem(String),
    #[error("this process is on its way out")]
    Leaving,
    #[error("the workers did not come to a stand within the time of `drain.pause_max`")]
    Restless,
    #[error("there is no socket to lead a TLS session over by: {0}")]
    Bridge(io::Error),
    #[error("the other process said something that does not belong here")]
    OutOfTurn,
}

/// What is given away when another process asks.
#[derive(Debug)]
pub struct Giver {
    shared: Arc<Shared>,
    admin: TcpListener,
    lock: Lock,
    /// The one whose hand-over numbers nobody else writes.
    cells: Arc<Cells>,
}

/// What the workers gave out: kept until the other process has it for good.
#[derive(Default)]
struct GivenOut {
    rooms: Vec<Message>,
    /// Sessions with the worker that they came from.
    sessions: Vec<(u16, Message)>,
    room_count: u64,
    session_count: u64,
}

impl Giver {
    /// What a server gives away.
    pub fn new(shared: Arc<Shared>, admin: TcpListener, lock: Lock, cells: Arc<Cells>) -> Self {
        Self { shared, admin, lock, cells }
    }

    /// Listens in the data directory.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(dir: &Path) -> io::Result<UnixListener> {
        channel::listen(dir)
    }

    /// Answers whoever asks, until somebody has taken this process's place and has all that came late.
    ///
    /// # Errors
    /// When the socket fails for good.
    pub fn serve(self, listener: &UnixListener) -> io::Result<()> {
        loop {
            let mut channel = match listener.accept() {
                Ok((stream, _)) => Channel::from(stream),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept whoever asks for a hand-over");
                    std::thread::sleep(Duration::from_secs(1));
                    continue;
                }
            };
            let began = Instant::now();
            match self.hand_over(&mut channel) {
                Ok((late, given)) => {
                    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    let GivenOut { room_count: rooms, session_count: sessions, .. } = given;
                    tracing::info!(ms, rooms, sessions, "handed over; the other process serves");
                    // The other process alone holds the sockets and the lock from here on.
                    drop((given, self.lock, self.admin));
                    hear_answers(&channel, &self.shared)?;
                    send_late(&mut channel, &late);
                    return Ok(());
                }
                Err(why) => {
                    // Its number may stand there already.
                    let _ = self.lock.sign();
                    tracing::warn!(%why, "the hand-over is called off; this process goes on");
                    self.cells.handovers_called_off.add(1);
                    // It may be gone, which is then the reason.
                    let _ = channel.send(&Message::CalledOff(why.to_string()), Instant::now() + FAREWELL);
                }
            }
        }
    }

    fn hand_over(&self, channel: &mut Channel) -> Result<(mpsc::Receiver<Late>, GivenOut), CalledOff> {
        let pid = channel.peer().map_err(ChannelError::Io)?;
        let until = Instant::now() + PREPARING;
        channel.greeted(until).inspect_err(|_| {
            // So that it can say what we speak.
            let _ = channel.greet(Instant::now() + FAREWELL);
        })?;
        channel.greet(until)?;
        let Message::Ask { build } = next(channel, until)? else { return Err(CalledOff::OutOfTurn) };
        if self.shared.departure() != Departure::None {
            return Err(CalledOff::Leaving);
        }
        tracing::info!(pid, build, "another process asks to take over");
        self.send_sockets(channel, until)?;
        let Message::Begin = next(channel, until)? else { return Err(CalledOff::OutOfTurn) };

        let pause = Duration::from_micros(self.shared.config.load().handover_pause_us);
        let frozen_ns = monotonic_ns();
        let until = Instant::now() + pause;
        let given = self.freeze(until).and_then(|()| self.collect(until));
        let (mut given, complete) = match given {
            Ok(given) => given,
            Err(why) => {
                self.tell_all(|| Step::GoOn);
                return Err(why);
            }
        };
        let sent = match complete {
            true => self.send_all(channel, &mut given, frozen_ns, until).and_then(|()| taken(channel)),
            false => Err(CalledOff::Restless),
        };
        if let Err(why) = sent {
            self.take_back(&mut given);
            return Err(why);
        }
        self.shared.replaced.set();
        Ok((self.end_all(&mut given), given))
    }

    fn send_sockets(&self, channel: &mut Channel, until: Instant) -> Result<(), CalledOff> {
        let (show, shown) = mpsc::sync_channel(self.shared.post.len());
        self.tell_all(|| Step::Show(show.clone()));
        drop(show);
        let mut client: Vec<Listener> = shown.iter().flatten().collect();
        loop {
            let rest = client.split_off(client.len().min(FDS_MAX - 1));
            let admin =
                rest.is_empty().then(|| self.admin.try_clone()).transpose().map_err(ChannelError::Io)?;
            let last = admin.is_some();
            channel.send(&Message::Sockets { build: build(), client, admin }, until)?;
            if last {
                return Ok(());
            }
            client = rest;
        }
    }

    /// Stops all workers, and waits until nothing is under way in or between them.
    fn freeze(&self, until: Instant) -> Result<(), CalledOff> {
        let workers: Vec<Arc<Stillness>> = self.shared.post.iter().map(|_| Arc::default()).collect();
        let mut each = workers.iter();
        self.tell_all(|| Step::Freeze(each.next().map(Arc::clone).unwrap_or_default()));
        loop {
            if self.shared.departure() != Departure::None {
                return Err(CalledOff::Leaving);
            }
            if self.all_still(&workers) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(CalledOff::Restless);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether all workers stood still and all mailboxes were empty at one moment: only a turn makes messages,
    /// and no worker has begun one while the mailboxes were looked at.
    fn all_still(&self, workers: &[Arc<Stillness>]) -> bool {
        let turns = || workers.iter().map(|worker| worker.turns()).collect::<Option<Vec<u64>>>();
        let before = turns();
        let lanes = [Lane::Control, Lane::Vip, Lane::Normal];
        let empty = self.shared.post.iter().all(|post| lanes.iter().all(|lane| post.depth(*lane) == 0));
        empty && before.is_some() && before == turns()
    }

    /// All that the workers have, and whether all of them gave it in time.
    fn collect(&self, until: Instant) -> Result<(GivenOut, bool), CalledOff> {
        let (leave, left) = mpsc::sync_channel(self.shared.post.len());
        self.tell_all(|| Step::Leave(leave.clone()));
        drop(leave);
        let (mut given, mut rooms) = (GivenOut::default(), Vec::new());
        let mut complete = true;
        // What one has given out is nowhere else: it is waited for, however long that takes.
        for _ in 0..self.shared.post.len() {
            let leaving = match left.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {
                    complete = false;
                    left.recv().ok()
                }
                other => other.ok(),
            };
            let Some(Leaving { worker, rooms: own, sessions }) = leaving else { break };
            rooms.extend(own);
            given.session_count += sessions.len() as u64;
            given.sessions.extend(portions(sessions).map(|message| (worker, message)));
        }
        let rooms = self.shared.store.hand_over(rooms);
        given.room_count = rooms.len() as u64;
        given.rooms = room_messages(rooms);
        Ok((given, complete))
    }

    fn send_all(
        &self,
        channel: &mut Channel,
        given: &mut GivenOut,
        frozen_ns: u64,
        until: Instant,
    ) -> Result<(), CalledOff> {
        for (_, message) in &mut given.sessions {
            let Message::Sessions(sessions) = message else { continue };
            sessions.iter_mut().try_for_each(Passage::build_bridge).map_err(CalledOff::Bridge)?;
        }
        let decisions = self.shared.identities.decisions();
        for decisions in decisions.chunks(PORTION_DECISIONS) {
            channel.send(&Message::Decisions(decisions.to_vec()), until)?;
        }
        for message in given.rooms.iter().chain(given.sessions.iter().map(|(_, message)| message)) {
            channel.send(message, until)?;
        }
        let (rooms, sessions) = (given.room_count, given.session_count);
        let secret = *self.shared.config.load().secret();
        channel.send(&Message::All(Totals { rooms, sessions, secret, frozen_ns }), until)?;
        let Message::Ready = next(channel, until)? else { return Err(CalledOff::OutOfTurn) };
        if self.shared.departure() != Departure::None {
            return Err(CalledOff::Leaving);
        }
        let lock = self.lock.as_fd().try_clone_to_owned().map_err(ChannelError::Io)?;
        Ok(channel.send(&Message::Yours(lock), until)?)
    }

    /// Gives the workers back what they gave out, and lets them go on.
    fn take_back(&self, given: &mut GivenOut) {
        for (worker, message) in given.sessions.drain(..) {
            let Message::Sessions(sessions) = message else { continue };
            for session in sessions {
                self.shared.post_patiently(usize::from(worker), Control::Adopt(Box::new(session.session)));
            }
        }
        self.tell_all(|| Step::GoOn);
    }

    /// Has the workers end, each when it has nothing left to do; what comes late comes out of the receiver.
    fn end_all(&self, given: &mut GivenOut) -> mpsc::Receiver<Late> {
        let mut pumps: HashMap<u16, Vec<Pump>> = HashMap::new();
        for (worker, message) in given.sessions.drain(..) {
            let Message::Sessions(sessions) = message else { continue };
            // What went is a session there: of the rest here only the pump is of use.
            let left = sessions.into_iter().filter_map(|mut passage| passage.split_off_pump());
            pumps.entry(worker).or_default().extend(left);
        }
        let count = pumps.values().map(|pumps| pumps.len() as u64).sum();
        let window_us = cautious_window_us(count, &self.shared.config.load());
        let (late, coming) = mpsc::sync_channel(LATE_AT_ONCE);
        let mut workers = 0..;
        self.tell_all(|| {
            let pumps = workers.next().and_then(|worker| pumps.remove(&worker)).unwrap_or_default();
            Step::End(Ending { late: late.clone(), pumps, window_us })
        });
        coming
    }

    fn tell_all(&self, mut step: impl FnMut() -> Step) {
        for worker in 0..self.shared.post.len() {
            let step = step();
            self.shared.post_patiently(worker, Control::Step(Box::new(step)));
        }
    }
}

/// Hears that the other process has the lock. One that dies before it has said so cannot have begun: its descriptor of
/// the lock is gone with it.
fn taken(channel: &mut Channel) -> Result<(), CalledOff> {
    match channel.receive(Instant::now() + PREPARING) {
        Ok(None) | Err(ChannelError::Gone) => Err(ChannelError::Gone.into()),
        Ok(Some(Message::CalledOff(why))) => Err(CalledOff::ByThem(why)),
        Ok(Some(Message::Taken)) => Ok(()),
        // It has the lock and lives: whatever it does, the rooms are its own.
        Ok(Some(_)) | Err(_) => {
            tracing::warn!(
                "the other process has everything and does not say so; this process ends all the same"
            );
            Ok(())
        }
    }
}

/// Sends sessions that were still in their handshakes, and comments of requests that were still being read, until no
/// worker can have more.
fn send_late(channel: &mut Channel, late: &mpsc::Receiver<Late>) {
    for late in late {
        let message = match late {
            Late::Session(session) => Message::Sessions(vec![*session]),
            Late::Call(forwarded) => Message::Forward(forwarded),
        };
        if let Err(error) = channel.send(&message, Instant::now() + LATE) {
            tracing::warn!(%error, "what came in late is lost");
        }
    }
}

/// Passes on to the workers what the other process says of the comments that were sent to it.
fn hear_answers(channel: &Channel, shared: &Arc<Shared>) -> io::Result<()> {
    let (mut channel, shared) = (channel.try_clone()?, Arc::clone(shared));
    std::thread::Builder::new().name("answers".into()).spawn(move || {
        while let Ok(Some(message)) = channel.receive(Instant::now() + ANSWERS) {
            let Message::Answer(Answer { worker, call, outcome }) = message else { return };
            if usize::from(worker) < shared.post.len() {
                let reply = Reply { publisher: Publisher::Call(call), id: Box::default(), outcome };
                shared.post_patiently(usize::from(worker), Control::Replies([reply].into()));
            }
        }
    })?;
    Ok(())
}

/// The next message, which says anything but that there will be no hand-over.
fn next(channel: &mut Channel, until: Instant) -> Result<Message, CalledOff> {
    match channel.receive(until)? {
        None => Err(ChannelError::Gone.into()),
        Some(Message::CalledOff(why)) => Err(CalledOff::ByThem(why)),
        Some(message) => Ok(message),
    }
}

/// Sessions in messages, each with as many descriptors as the kernel takes and bytes as are reasonable.
fn portions(sessions: Vec<Arrival>) -> impl Iterator<Item = Message> {
    let mut rest = sessions.into_iter().peekable();
    std::iter::from_fn(move || {
        let (mut portion, mut bytes) = (Vec::new(), 0);
        while portion.len() < FDS_MAX && bytes < PORTION_BYTES {
            let Some(session) = rest.next() else { break };
            let input = session.moved.as_ref().map_or(0, |m| m.input.incomplete.len() + m.input.stash.len());
            bytes += session.response.len() + session.leftover.len() + input;
            portion.push(Passage::of(session));
        }
        (!portion.is_empty()).then_some(Message::Sessions(portion))
    })
}

/// Rooms in messages: small ones together, large ones in parts.
fn room_messages(rooms: Vec<(RoomId, Loaded)>) -> Vec<Message> {
    let (mut messages, mut portion, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut put = |room: &RoomId, part: Loaded, part_bytes: usize, messages: &mut Vec<Message>| {
        bytes += part_bytes + 256;
        portion.push((room.clone(), part));
        if bytes >= PORTION_BYTES {
            bytes = 0;
            messages.push(Message::Rooms(std::mem::take(&mut portion)));
        }
    };
    for (room, Loaded { epochs, tail, ids, house }) in rooms {
        let mut part_bytes = house.sanctions.len() * SANCTION_BYTES;
        let mut part = Loaded { epochs, house, ..Loaded::default() };
        for entry in tail {
            part_bytes += danmaku_room::batch::entry_bytes(&entry);
            part.tail.push(entry);
            if part_bytes >= PORTION_BYTES {
                put(&room, std::mem::take(&mut part), std::mem::take(&mut part_bytes), &mut messages);
            }
        }
        for id in ids {
            part_bytes += ID_BYTES;
            part.ids.push(id);
            if part.ids.len() >= PORTION_IDS {
                put(&room, std::mem::take(&mut part), std::mem::take(&mut part_bytes), &mut messages);
            }
        }
        // Whatever came before, the last part is there, and with it the room, even where nothing is known of it.
        put(&room, part, part_bytes, &mut messages);
    }
    if !portion.is_empty() {
        messages.push(Message::Rooms(portion));
    }
    messages
}

/// The build that runs here.
pub(super) fn build() -> String {
    format!("danmaku {}", env!("CARGO_PKG_VERSION"))
}

/// The machine's monotonic clock, the same for all processes.
pub(super) fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}
