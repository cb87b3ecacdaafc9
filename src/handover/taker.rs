//! The process that takes another one's place.
//!
//! Dropped at any time before the end, it leaves the other process as it was.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use danmaku_room::store::Loaded;
use danmaku_wire::id::RoomId;

use super::channel::{Channel, ChannelError};
use super::codec::Malformed;
use super::forward::{Answer, Forwarded};
use super::giver::{build, monotonic_ns};
use super::lock::Lock;
use super::message::{Message, Totals};
use super::state::Passage;
use crate::identity::users::Decision;
use crate::ingress::listener::Listener;

/// How long the other process may take to say what it is asked. It calls off by itself what takes too long; this
/// is for one that does not even do that.
const PATIENCE: Duration = Duration::from_secs(90);

/// Why the place could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The process that holds the directory does not answer there.
    #[error("cannot reach the process that serves from {}: {source}", dir.display())]
    Unreachable {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What passes between the two does not fit, or one is gone.
    #[error("cannot take over: {0}")]
    Channel(#[from] ChannelError),
    /// The other process goes on serving.
    #[error("cannot take over: the process that serves goes on: {0}")]
    CalledOff(String),
    /// It died in the middle.
    #[error("cannot take over: the process that served has died before it had handed everything over")]
    Died,
}

impl From<Malformed> for TakeOverError {
    fn from(error: Malformed) -> Self {
        Self::Channel(error.into())
    }
}

/// Somebody who has asked for another process's place.
#[derive(Debug)]
pub struct Taker {
    channel: Channel,
    dir: PathBuf,
}

/// All that a process leaves but the lock.
#[derive(Debug)]
pub struct Estate {
    /// Rooms.
    pub rooms: Vec<(RoomId, Loaded)>,
    /// Sessions, not read since.
    pub sessions: Vec<Passage>,
    /// What was decided about users.
    pub decisions: Vec<Decision>,
    /// The secret of hashed ids and guests' ids.
    pub secret: [u8; 16],
    frozen_ns: u64,
}

impl Taker {
    /// Asks whoever serves from a data directory for his place.
    ///
    /// # Errors
    /// When nobody answers, or in another language.
    pub fn ask(dir: &Path) -> Result<Self, TakeOverError> {
        let unreachable = |source| TakeOverError::Unreachable { dir: dir.to_owned(), source };
        let mut channel = Channel::connect(dir).map_err(unreachable)?;
        channel.peer().map_err(unreachable)?;
        let until = Instant::now() + PATIENCE;
        channel.greet(until)?;
        // Before anything else is said: one that speaks another language hangs up, and what it speaks is the reason.
        channel.greeted(until)?;
        channel.send(&Message::Ask { build: build() }, until)?;
        Ok(Self { channel, dir: dir.to_owned() })
    }

    /// The sockets that the other process listens on: for clients, and the admin port's.
    ///
    /// # Errors
    /// When it does not give them.
    pub fn sockets(&mut self) -> Result<(Vec<Listener>, TcpListener), TakeOverError> {
        let mut all = Vec::new();
        loop {
            let Message::Sockets { build, client, admin } = self.next()? else { return Err(out_of_turn()) };
            all.extend(client);
            if let Some(admin) = admin {
                tracing::info!(build, sockets = all.len(), "the running server agrees to hand over");
                return Ok((all, admin));
            }
        }
    }

    /// Has the other process stop and give out everything.
    ///
    /// # Errors
    /// When it calls it off, or what it gives is not whole.
    pub fn begin(&mut self) -> Result<Estate, TakeOverError> {
        self.say(&Message::Begin)?;
        let (mut rooms, mut sessions): (Vec<(RoomId, Loaded)>, Vec<Passage>) = (Vec::new(), Vec::new());
        let mut decisions = Vec::new();
        loop {
            match self.next()? {
                Message::Decisions(more) => decisions.extend(more),
                Message::Rooms(more) => more.into_iter().for_each(|part| add_part(&mut rooms, part)),
                Message::Sessions(more) => sessions.extend(more),
                Message::All(Totals { rooms: room_count, sessions: session_count, secret, frozen_ns }) => {
                    if (rooms.len() as u64, sessions.len() as u64) != (room_count, session_count) {
                        return Err(Malformed("rooms or sessions are missing").into());
                    }
                    if !rooms.iter().all(|(_, loaded)| loaded.is_coherent()) {
                        return Err(Malformed("the numbers of a room do not fit").into());
                    }
                    return Ok(Estate { rooms, sessions, decisions, secret, frozen_ns });
                }
                _ => return Err(out_of_turn()),
            }
        }
    }

    /// Says that this process could serve, and hears that it is to: the lock is its own then, and whatever sessions
    /// come late will come through the returned channel.
    ///
    /// # Errors
    /// When the other process goes on after all.
    pub fn ready(mut self) -> Result<(Lock, Late), TakeOverError> {
        self.say(&Message::Ready)?;
        match self.next() {
            Ok(Message::Yours(lock)) => {
                let lock = self.given(lock)?;
                // If it has gone in this moment, it has nothing left that would be missed.
                let _ = self.say(&Message::Taken);
                Ok((lock, Late(Some(self.channel))))
            }
            Ok(_) => Err(out_of_turn()),
            // It has given everything out and died: only then is the lock free.
            Err(TakeOverError::Died) => match Lock::take(&self.dir) {
                Ok(lock) => Ok((lock, Late(None))),
                Err(_) => Err(TakeOverError::Died),
            },
            Err(error) => Err(error),
        }
    }

    fn given(&self, lock: OwnedFd) -> Result<Lock, TakeOverError> {
        Lock::given(lock).map_err(|error| ChannelError::Io(error).into())
    }

    fn say(&mut self, message: &Message) -> Result<(), TakeOverError> {
        Ok(self.channel.send(message, Instant::now() + PATIENCE)?)
    }

    fn next(&mut self) -> Result<Message, TakeOverError> {
        match self.channel.receive(Instant::now() + PATIENCE) {
            Ok(Some(Message::CalledOff(why))) => Err(TakeOverError::CalledOff(why)),
            Ok(Some(message)) => Ok(message),
            Ok(None) | Err(ChannelError::Gone) => Err(TakeOverError::Died),
            Err(error) => Err(error.into()),
        }
    }
}

impl Estate {
    /// The moment from which on nobody could publish.
    pub fn frozen(&self) -> Instant {
        let ago = Duration::from_nanos(monotonic_ns().saturating_sub(self.frozen_ns));
        let now = Instant::now();
        now.checked_sub(ago).unwrap_or(now)
    }

    /// The sessions, each with the worker that is to serve it: the owner while the room is small, else each in turn.
    pub fn placed(
        sessions: Vec<Passage>,
        workers: usize,
        spread_members: u32,
        owner: impl Fn(&RoomId) -> usize,
    ) -> Vec<(usize, Passage)> {
        let mut members: HashMap<RoomId, u32> = HashMap::new();
        let placed = sessions.into_iter().enumerate().map(|(index, session)| {
            let room = &session.session.room;
            let count = members.entry(room.clone()).or_default();
            *count += 1;
            let worker = if *count <= spread_members { owner(room) } else { index % workers.max(1) };
            (worker, session)
        });
        placed.collect()
    }
}

/// What the other process still had to do with connections when its place was taken.
#[derive(Debug)]
pub struct Late(Option<Channel>);

/// One thing that came late.
#[derive(Debug)]
pub enum LateComer {
    /// A session that was in its handshake.
    Session(Passage),
    /// A comment over HTTP that was still being read.
    Comment(Forwarded),
}

/// Where the fates of late comments are told.
#[derive(Debug)]
pub struct Fates(Option<Channel>);

impl Late {
    /// Where to tell what became of late comments.
    ///
    /// # Errors
    /// When the system refuses another descriptor.
    pub fn fates(&self) -> std::io::Result<Fates> {
        Ok(Fates(self.0.as_ref().map(Channel::try_clone).transpose()?))
    }
}

impl Fates {
    /// Tells one.
    pub fn tell(&mut self, answer: Answer) {
        if let Some(channel) = &mut self.0 {
            // Who waits at a process that has gone waits no longer.
            let _ = channel.send(&Message::Answer(answer), Instant::now() + PATIENCE);
        }
    }
}

impl Iterator for Late {
    type Item = LateComer;

    /// The next; none when the other process has ended.
    fn next(&mut self) -> Option<LateComer> {
        loop {
            match self.0.as_mut()?.receive(Instant::now() + PATIENCE) {
                Ok(Some(Message::Sessions(mut sessions))) if !sessions.is_empty() => {
                    return sessions.pop().map(LateComer::Session);
                }
                Ok(Some(Message::Forward(forwarded))) => return Some(LateComer::Comment(forwarded)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => self.0 = None,
            }
        }
    }
}

fn out_of_turn() -> TakeOverError {
    Malformed("it says something that does not belong here").into()
}

/// Puts a part of a room behind what is known of it already.
fn add_part(rooms: &mut Vec<(RoomId, Loaded)>, (room, part): (RoomId, Loaded)) {
    match rooms.last_mut() {
        Some((last, loaded)) if *last == room => {
            loaded.epochs.extend(part.epochs);
            loaded.tail.extend(part.tail);
            loaded.ids.extend(part.ids);
            // It comes whole, with the first part.
            if !part.house.is_empty() {
                loaded.house = part.house;
            }
        }
        _ => rooms.push((room, part)),
    }
}
