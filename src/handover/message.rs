//! What the two processes say to each other.

use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use danmaku_room::store::Loaded;
use danmaku_wire::id::RoomId;

use super::codec::{Malformed, Reader, Writer};
use super::decisions::{read_decision, write_decision};
use super::forward::{Answer, Forwarded, read_answer, read_forwarded, write_answer, write_forwarded};
use super::state::{Passage, read_room, read_session, write_room, write_session};
use crate::identity::users::Decision;
use crate::ingress::listener::{Kind, Listener};

/// One message.
#[derive(Debug)]
pub enum Message {
    /// The new process asks to take over.
    Ask {
        /// Its build.
        build: String,
    },
    /// The old process's listening sockets.
    Sockets {
        /// Its build.
        build: String,
        /// For clients; further messages may bring more.
        client: Vec<Listener>,
        /// The admin port's, in the last of these messages, which it ends.
        admin: Option<TcpListener>,
    },
    /// There will be no hand-over, and why. Both sides may say so, at any time before the end.
    CalledOff(String),
    /// The new process is as far as it gets without rooms and sessions.
    Begin,
    /// Rooms with what is known of them. A large room comes in parts, right behind each other.
    Rooms(Vec<(RoomId, Loaded)>),
    /// Sessions.
    Sessions(Vec<Passage>),
    /// What was decided about users.
    Decisions(Vec<Decision>),
    /// That was all.
    All(Totals),
    /// The new process has it and could begin.
    Ready,
    /// The rooms have changed their owner: the new process has the lock.
    Yours(OwnedFd),
    /// The new process has the lock, and begins.
    Taken,
    /// A comment that came over HTTP to the old process when the rooms were no longer its own.
    Forward(Forwarded),
    /// What became of it.
    Answer(Answer),
}

/// What must have arrived, and what belongs to all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Rooms.
    pub rooms: u64,
    /// Sessions.
    pub sessions: u64,
    /// The secret of hashed ids and of guests' ids.
    pub secret: [u8; 16],
    /// When the old process read its last publish, nanoseconds of the machine's monotonic clock.
    pub frozen_ns: u64,
}

impl Message {
    /// The number that stands for this kind of message.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Ask { .. } => 1,
            Self::Sockets { .. } => 2,
            Self::CalledOff(_) => 3,
            Self::Begin => 4,
            Self::Rooms(_) => 5,
            Self::Sessions(_) => 6,
            Self::All(_) => 7,
            Self::Ready => 8,
            Self::Yours(_) => 9,
            Self::Taken => 10,
            Self::Forward(_) => 11,
            Self::Answer(_) => 12,
            Self::Decisions(_) => 13,
        }
    }

    /// The bytes, and the descriptors that go with them.
    pub fn encode(&self) -> (Vec<u8>, Vec<BorrowedFd<'_>>) {
        let mut out = Writer::default();
        let mut fds = Vec::new();
        match self {
            Self::Ask { build } => out.text(build),
            Self::CalledOff(why) => out.text(why),
            Self::Sockets { build, client, admin } => {
                out.text(build);
                out.u8(u8::from(admin.is_some()));
                for listener in client {
                    out.u8(listener.entrance.kind as u8);
                    fds.push(listener.socket.as_fd());
                }
                fds.extend(admin.iter().map(AsFd::as_fd));
            }
            Self::Begin | Self::Ready | Self::Taken => {}
            Self::Rooms(rooms) => {
                out.count(rooms.len());
                for (room, loaded) in rooms {
                    write_room(&mut out, room, loaded);
                }
            }
            Self::Sessions(sessions) => {
                for session in sessions {
                    write_session(&mut out, session);
                    fds.push(session.socket());
                }
            }
            Self::Decisions(decisions) => {
                out.count(decisions.len());
                decisions.iter().for_each(|decision| write_decision(&mut out, decision));
            }
            Self::All(Totals { rooms, sessions, secret, frozen_ns }) => {
                out.u64(*rooms);
                out.u64(*sessions);
                out.u128(u128::from_le_bytes(*secret));
                out.u64(*frozen_ns);
            }
            Self::Yours(lock) => fds.push(lock.as_fd()),
            Self::Forward(forwarded) => write_forwarded(&mut out, forwarded),
            Self::Answer(answer) => write_answer(&mut out, answer),
        }
        (out.into_bytes(), fds)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Where it is not that, to the last byte and descriptor.
    pub fn decode(kind: u8, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        let mut fds = fds.into_iter();
        let message = match kind {
            1 => Self::Ask { build: from.text()?.to_owned() },
            2 => read_sockets(&mut from, &mut fds)?,
            3 => Self::CalledOff(from.text()?.to_owned()),
            4 => Self::Begin,
            5 => Self::Rooms(from.list(read_room)?),
            6 => {
                let mut sessions = Vec::new();
                for fd in fds.by_ref() {
                    sessions.push(read_session(&mut from, fd)?);
                }
                Self::Sessions(sessions)
            }
            7 => Self::All(Totals {
                rooms: from.u64()?,
                sessions: from.u64()?,
                secret: from.u128()?.to_le_bytes(),
                frozen_ns: from.u64()?,
            }),
            8 => Self::Ready,
            9 => Self::Yours(fds.next().ok_or(Malformed("the lock is missing"))?),
            10 => Self::Taken,
            11 => Self::Forward(read_forwarded(&mut from)?),
            12 => Self::Answer(read_answer(&mut from)?),
            13 => Self::Decisions(from.list(read_decision)?),
            _ => return Err(Malformed("a kind of message that there is not")),
        };
        if fds.next().is_some() {
            return Err(Malformed("descriptors that do not belong to it"));
        }
        from.finish()?;
        Ok(message)
    }
}

fn read_sockets(from: &mut Reader<'_>, fds: &mut std::vec::IntoIter<OwnedFd>) -> Result<Message, Malformed> {
    let build = from.text()?.to_owned();
    let with_admin = from.flag()?;
    let mut client = Vec::new();
    while fds.len() > usize::from(with_admin) {
        let Some(fd) = fds.next() else { break };
        let kind =
            Kind::ALL.get(usize::from(from.u8()?)).ok_or(Malformed("a socket for nothing that is known"))?;
        let listener = Listener::of(TcpListener::from(fd), *kind);
        client.push(listener.map_err(|_| Malformed("a socket that has no address"))?);
    }
    let admin = match (with_admin, fds.next()) {
        (true, None) => return Err(Malformed("the admin port's socket is missing")),
        (_, admin) => admin.map(TcpListener::from),
    };
    Ok(Message::Sockets { build, client, admin })
}
