//! Rooms and sessions as bytes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use danmaku_room::admission::idempotency::Key;
use danmaku_room::form::Encoding;
use danmaku_room::store::{Loaded, StoredId};
use danmaku_wire::entry::{Author, Body, Comment, Entry, Event, Mode, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::position::{Epoch, Position, SEQ_MAX};
use danmaku_wire::trace::TraceContext;
use danmaku_wire::websocket::decoder::Carried;

use super::codec::{Malformed, Reader, Writer};
use super::house::{read_house, write_house};
use crate::identity::user::{Grant, Identity};
use crate::ingress::addresses::{Addresses, Counted, Hold, Limits};
use crate::ingress::arrival::{Arrival, Moved};
use crate::worker::session::Spent;

/// Writes a room, or a part of what is known of it.
pub fn write_room(out: &mut Writer, room: &RoomId, loaded: &Loaded) {
    out.text(room.as_str());
    out.count(loaded.epochs.len());
    for (epoch, last) in &loaded.epochs {
        out.text(epoch.as_str());
        out.u64(*last);
    }
    out.count(loaded.tail.len());
    for entry in &loaded.tail {
        write_entry(out, entry);
    }
    out.count(loaded.ids.len());
    for StoredId { key, payload, seq, at_ms } in &loaded.ids {
        out.u128(key.to_bits());
        out.u64(*payload);
        out.u64(*seq);
        out.u64(*at_ms);
    }
    write_house(out, &loaded.house);
}

/// Reads what [`write_room`] wrote.
///
/// # Errors
/// Where it is not that.
pub fn read_room(from: &mut Reader<'_>) -> Result<(RoomId, Loaded), Malformed> {
    let room = read_room_id(from)?;
    let epochs = from.list(|from| Ok((read_epoch(from)?, read_seq(from)?)))?;
    let tail = from.list(|from| read_entry(from).map(Arc::new))?;
    let ids = from.list(|from| {
        let key = Key::from_bits(from.u128()?);
        Ok(StoredId { key, payload: from.u64()?, seq: read_seq(from)?, at_ms: from.u64()? })
    })?;
    let house = read_house(from)?;
    Ok((room, Loaded { epochs, tail, ids, house }))
}

/// A session on its way.
#[derive(Debug)]
pub struct Passage {
    /// The session, with its place among connections where it is still here.
    pub session: Arrival,
    /// What it is counted by, where limits of addresses apply to it.
    pub counted: Option<Counted>,
    /// What carries it if it speaks TLS, of which nothing but its keys' owner can make anything.
    pub bridge: Option<Bridge>,
}

/// A pair of sockets between two processes: the far end is the session's socket at the other one, at the near end
/// somebody seals and opens what passes.
#[derive(Debug)]
pub struct Bridge {
    /// The end that stays.
    pub near: UnixStream,
    /// The end that goes.
    pub far: UnixStream,
}

impl Passage {
    /// A session that is to go.
    pub fn of(session: Arrival) -> Self {
        let counted = session.hold.as_ref().map(Hold::counted);
        Self { session, counted, bridge: None }
    }

    /// Builds the bridge that the session needs, if it needs one; before it is sent.
    ///
    /// # Errors
    /// When the system refuses one.
    pub fn build_bridge(&mut self) -> io::Result<()> {
        if self.session.tls.is_some() && self.bridge.is_none() {
            self.bridge = Some(Bridge::new()?);
        }
        Ok(())
    }

    /// The descriptor that goes.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match &self.bridge {
            Some(bridge) => bridge.far.as_fd(),
            None => self.session.socket.as_fd(),
        }
    }

    /// The session at this process, counted among its connections.
    pub fn arrive(self, addresses: &Arc<Addresses>, limits: &Limits) -> Arrival {
        let hold = self.counted.map(|counted| addresses.recount(counted, limits));
        Arrival { hold, ..self.session }
    }
}

impl Bridge {
    fn new() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        Ok(Self { near, far })
    }
}

/// Writes a session; its socket goes beside it.
pub fn write_session(out: &mut Writer, passage: &Passage) {
    let Passage { session, counted, bridge } = passage;
    out.u8(session.encoding as u8);
    out.u8(u8::from(session.deflate));
    out.text(session.room.as_str());
    out.option(session.since.as_ref(), |out, since| {
        out.text(since.epoch.as_str());
        out.u64(since.seq);
    });
    out.u8(session.tier as u8);
    out.u8(u8::from(session.snapshot));
    out.option(session.author.as_deref(), write_author);
    out.option(session.identity.as_deref(), write_identity);
    out.u64(session.address);
    out.bytes(&session.response);
    out.bytes(&session.leftover);
    out.option(*counted, |out, counted| match counted {
        Counted::By(IpAddr::V4(v4)) => {
            out.u8(4);
            out.u32(v4.to_bits());
        }
        Counted::By(IpAddr::V6(v6)) => {
            out.u8(6);
            out.u128(v6.to_bits());
        }
        Counted::Shared => out.u8(0),
    });
    out.u8(u8::from(bridge.is_some() || session.bridged.is_some()));
    out.option(session.moved.as_deref(), |out, moved| {
        out.u64(moved.guest);
        out.u8(u8::from(moved.paused));
        out.u32(moved.moves.into());
        out.u8(u8::from(moved.asked));
        out.bytes(&moved.input.incomplete);
        out.bytes(&moved.input.stash);
    });
}

/// Reads what [`write_session`] wrote.
///
/// # Errors
/// Where it is not that.
pub fn read_session(from: &mut Reader<'_>, socket: OwnedFd) -> Result<Passage, Malformed> {
    let encoding = match from.u8()? {
        n if n == Encoding::Json as u8 => Encoding::Json,
        n if n == Encoding::Proto as u8 => Encoding::Proto,
        n if n == Encoding::Sse as u8 => Encoding::Sse,
        _ => return Err(Malformed("an encoding that there is not")),
    };
    let deflate = from.flag()?;
    let room = read_room_id(from)?;
    let since = from.option(|from| Ok(Position { epoch: read_epoch(from)?, seq: read_seq(from)? }))?;
    let tier = tier(from.u8()?).ok_or(Malformed("a tier that there is not"))?;
    let snapshot = from.flag()?;
    let author = from.option(read_author)?.map(Arc::new);
    let identity = from.option(read_identity)?.map(Arc::new);
    let address = from.u64()?;
    let response = from.bytes()?.to_vec();
    let leftover = from.bytes()?.to_vec();
    let counted = from.option(|from| {
        Ok(match from.u8()? {
            0 => Counted::Shared,
            4 => Counted::By(Ipv4Addr::from_bits(from.u32()?).into()),
            6 => Counted::By(Ipv6Addr::from_bits(from.u128()?).into()),
            _ => return Err(Malformed("a kind of address that there is not")),
        })
    })?;
    let bridged = from.flag()?.then_some(0);
    let moved = from.option(|from| {
        let (guest, paused) = (from.u64()?, from.flag()?);
        let moves = u16::try_from(from.u32()?).map_err(|_| Malformed("more moves than there can be"))?;
        let asked = from.flag()?;
        let (incomplete, stash) = (from.bytes()?.to_vec(), from.bytes()?.to_vec());
        let input = Carried { deflate, incomplete, stash };
        // Seconds are each process's own: what was sent in this one is forgiven.
        Ok(Box::new(Moved { input, guest, spent: Spent::default(), moves, paused, asked }))
    })?;
    if since.is_none() && moved.as_ref().is_some_and(|moved| !moved.asked) {
        return Err(Malformed("a session that is nowhere"));
    }
    let session = Arrival {
        socket: TcpStream::from(socket),
        tls: None,
        leftover,
        response,
        encoding,
        deflate,
        room,
        since,
        tier,
        // Where it comes from is not told; whoever has all of the room now may come back to it.
        may_full: tier == Tier::Full,
        snapshot,
        author,
        identity,
        address,
        hold: None,
        bridged,
        moved,
    };
    Ok(Passage { session, counted, bridge: None })
}

fn write_identity(out: &mut Writer, identity: &Identity) {
    out.text(identity.id.as_str());
    out.text(&identity.name);
    out.option(identity.issued_s, Writer::u64);
    out.u64(identity.ends_s);
    write_grant(out, &identity.everywhere);
    out.count(identity.rooms.len());
    for (room, grant) in &identity.rooms {
        out.text(room.as_str());
        write_grant(out, grant);
    }
}

fn read_identity(from: &mut Reader<'_>) -> Result<Identity, Malformed> {
    Ok(Identity {
        id: read_user(from)?,
        name: from.text()?.into(),
        issued_s: from.option(Reader::u64)?,
        ends_s: from.u64()?,
        everywhere: read_grant(from)?,
        rooms: from.list(|from| Ok((read_room_id(from)?, read_grant(from)?)))?.into(),
    })
}

fn write_grant(out: &mut Writer, grant: &Grant) {
    out.u8(grant.role as u8);
    out.u32(grant.level);
    out.u8(u8::from(grant.member));
    out.option(grant.followed_at_s, Writer::u64);
    out.count(grant.badges.len());
    for badge in &grant.badges {
        out.text(badge);
    }
}

fn read_grant(from: &mut Reader<'_>) -> Result<Grant, Malformed> {
    Ok(Grant {
        role: read_role(from)?,
        level: from.u32()?,
        member: from.flag()?,
        followed_at_s: from.option(Reader::u64)?,
        badges: from.list(|from| Ok(from.text()?.into()))?.into(),
    })
}

pub(super) fn write_author(out: &mut Writer, author: &Author) {
    out.text(author.id.as_str());
    out.text(&author.name);
    out.u8(author.role as u8);
    out.u32(author.level);
    out.count(author.badges.len());
    for badge in &author.badges {
        out.text(badge);
    }
}

pub(super) fn read_role(from: &mut Reader<'_>) -> Result<Role, Malformed> {
    Ok(match from.u8()? {
        0 => Role::Viewer,
        1 => Role::Vip,
        2 => Role::Moderator,
        3 => Role::Streamer,
        4 => Role::Staff,
        _ => return Err(Malformed("a role that there is not")),
    })
}

pub(super) fn read_author(from: &mut Reader<'_>) -> Result<Author, Malformed> {
    Ok(Author {
        id: read_user(from)?,
        name: from.text()?.into(),
        role: read_role(from)?,
        level: from.u32()?,
        badges: from.list(|from| Ok(from.text()?.into()))?,
    })
}

pub(super) fn write_entry(out: &mut Writer, entry: &Entry) {
    out.u64(entry.seq);
    out.u64(entry.at_ms);
    match &entry.visibility {
        Visibility::Tier(tier) => out.u8(*tier as u8),
        Visibility::Author(user) => {
            out.u8(3);
            out.text(user.as_str());
        }
        Visibility::Staff => out.u8(4),
    }
    match &entry.body {
        Body::Comment(Comment { user, text, mode, color, size, stream_ms, trace }) => {
            out.u8(0);
            write_author(out, user);
            out.text(text);
            out.u8(*mode as u8);
            out.u32(*color);
            out.u8(*size);
            out.option(*stream_ms, Writer::u64);
            out.option(trace.as_deref(), |out, trace| out.text(&trace.to_string()));
        }
        Body::Event(Event { kind, user, data }) => {
            out.u8(1);
            out.text(kind);
            out.option(user.as_deref(), write_author);
            out.text(data);
        }
        Body::Retract { epoch, seqs } => {
            out.u8(2);
            out.option(epoch.as_ref(), |out, epoch| out.text(epoch.as_str()));
            out.count(seqs.len());
            for seq in seqs {
                out.u64(*seq);
            }
        }
        Body::Fold { of, count } => {
            out.u8(3);
            out.u64(*of);
            out.u64(*count);
        }
        Body::Pin { of } => {
            out.u8(4);
            out.u64(*of);
        }
        Body::Clear { up_to } => {
            out.u8(5);
            out.u64(*up_to);
        }
        Body::State { data } => {
            out.u8(6);
            out.text(data);
        }
    }
}

fn read_trace(from: &mut Reader<'_>) -> Result<TraceContext, Malformed> {
    TraceContext::parse(from.text()?.as_bytes()).ok_or(Malformed("a trace that there is not"))
}

pub(super) fn read_entry(from: &mut Reader<'_>) -> Result<Entry, Malformed> {
    let (seq, at_ms) = (read_seq(from)?, from.u64()?);
    let visibility = match from.u8()? {
        3 => Visibility::Author(read_user(from)?),
        4 => Visibility::Staff,
        n => Visibility::Tier(tier(n).ok_or(Malformed("a visibility that there is not"))?),
    };
    let body = match from.u8()? {
        0 => Body::Comment(Comment {
            user: Arc::new(read_author(from)?),
            text: from.text()?.into(),
            mode: read_mode(from)?,
            color: from.u32()?,
            size: from.u8()?,
            stream_ms: from.option(Reader::u64)?,
            trace: from.option(read_trace)?.map(Box::new),
        }),
        1 => Body::Event(Event {
            kind: from.text()?.into(),
            user: from.option(read_author)?.map(Arc::new),
            data: from.text()?.into(),
        }),
        2 => Body::Retract { epoch: from.option(read_epoch)?, seqs: from.list(Reader::u64)? },
        3 => Body::Fold { of: from.u64()?, count: from.u64()? },
        4 => Body::Pin { of: from.u64()? },
        5 => Body::Clear { up_to: from.u64()? },
        6 => Body::State { data: from.text()?.into() },
        _ => return Err(Malformed("a kind of entry that there is not")),
    };
    Ok(Entry { seq, at_ms, visibility, body })
}

pub(super) fn read_mode(from: &mut Reader<'_>) -> Result<Mode, Malformed> {
    match from.u8()? {
        0 => Ok(Mode::Scroll),
        1 => Ok(Mode::Top),
        2 => Ok(Mode::Bottom),
        _ => Err(Malformed("a mode that there is not")),
    }
}

fn tier(n: u8) -> Option<Tier> {
    [Tier::Lite, Tier::Standard, Tier::Full].into_iter().find(|tier| *tier as u8 == n)
}

pub(super) fn read_seq(from: &mut Reader<'_>) -> Result<u64, Malformed> {
    let seq = from.u64()?;
    if seq <= SEQ_MAX { Ok(seq) } else { Err(Malformed("a number beyond all numbers")) }
}

pub(super) fn read_room_id(from: &mut Reader<'_>) -> Result<RoomId, Malformed> {
    RoomId::parse(from.text()?).map_err(|_| Malformed("a room's name that is none"))
}

pub(super) fn read_user(from: &mut Reader<'_>) -> Result<UserId, Malformed> {
    UserId::parse(from.text()?).map_err(|_| Malformed("a user's id that is none"))
}

pub(super) fn read_epoch(from: &mut Reader<'_>) -> Result<Epoch, Malformed> {
    Epoch::parse(from.text()?).ok_or(Malformed("an epoch that is none"))
}
