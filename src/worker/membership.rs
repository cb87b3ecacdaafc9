//! How a connection becomes a member of a room: placed, adopted, joined, moved, gone.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use danmaku_room::admission::Standing;
use danmaku_room::admission::policy::keeps_order;
use danmaku_room::form::Encoding;
use danmaku_room::house::settings::State;
use danmaku_room::replica::{Cursor, Replica, Resume};
use danmaku_room::snapshot::{self, Viewer};
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::entry::{Author, Entry, Role};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{ErrorCode, Joined, ServerMessage, Snapshot, You};
use danmaku_wire::position::Position;
use danmaku_wire::websocket::decoder::{Carried, Decoder};

use super::Worker;
use super::message::{Attach, Attached, Control, Link, Request};
use super::output::NOTHING_OWED;
use super::rooms::{Follow, LocalRoom, View, Waiting};
use super::session::{Cold, Flags, Hot, NOWHERE, Outbox};
use crate::identity::guest;
use crate::identity::user::Presence;
use crate::ingress::addresses::{Hold, Place};
use crate::ingress::arrival::{Arrival, Moved};
use crate::observe::limits::Limit;

/// A session's way to another worker.
#[derive(Debug)]
pub(super) struct Move {
    owner: u16,
    room: RoomId,
    since: Option<Position>,
}

impl Worker {
    /// Decides who serves a connection: while its room is small, the room's owner, so that a comment
    /// touches one thread; else this worker.
    pub(super) fn place(&mut self, arrival: Arrival) {
        let owner = self.shared.owner(&arrival.room);
        let small = self.shared.directory.members(&arrival.room) < self.config.spread_members;
        if owner == self.index || !small || self.leaving() {
            return self.adopt(arrival);
        }
        self.send_arrival(owner, arrival);
    }

    /// Whether sessions stay where they are because everybody is to go anyway.
    pub(super) fn leaving(&self) -> bool {
        self.stopping || self.drain.is_some()
    }

    fn send_arrival(&mut self, owner: u16, arrival: Arrival) {
        // A full ring is no reason to wait: the room is followed from here, then.
        let post = Control::Adopt(Box::new(arrival));
        if let Err(full) = self.post(owner).control(post, 256, self.now.us)
            && let Control::Adopt(arrival) = full.item
        {
            self.adopt(*arrival);
        }
    }

    /// Makes a session of a connection.
    pub(super) fn adopt(&mut self, arrival: Arrival) {
        let Arrival {
            socket,
            tls,
            leftover,
            response,
            encoding,
            deflate,
            room,
            since,
            tier,
            may_full,
            snapshot,
            author,
            identity,
            address,
            hold,
            bridged,
            moved,
        } = arrival;
        let mut hot = Hot { fd: Some(socket.into()), tls, ..Hot::vacant() };
        if deflate {
            hot.flags.set(Flags::DEFLATE);
        }
        if encoding == Encoding::Sse {
            hot.flags.set(Flags::SSE);
        }
        if !snapshot {
            hot.flags.set(Flags::NO_SNAPSHOT);
        }
        if may_full {
            hot.flags.set(Flags::FULL);
        }
        hot.due_s = self.second + self.config.ping_after_s;
        let mut cold = Cold {
            decoder: Decoder::new(deflate),
            outbox: Some(Box::new(Outbox { bytes: response, ..Outbox::default() })),
            encoding,
            tier,
            // A user's is made anew in its room.
            presence: author.filter(|_| identity.is_none()).map(|guest| Box::new(Presence::of_guest(guest))),
            identity,
            address,
            place: hold.map_or(Place::NONE, Hold::into_place),
            ..Cold::default()
        };
        let was_here = moved.is_some();
        let (mut asked, mut violation) = (true, None);
        match moved {
            Some(moved) => {
                cold.guest = moved.guest;
                (cold.spent, cold.joins) = (moved.spent, moved.moves);
                asked = moved.asked;
                if moved.paused {
                    hot.flags.set(Flags::PAUSED);
                }
                match Decoder::resume(moved.input, &self.config.frames) {
                    Ok(decoder) => cold.decoder = decoder,
                    Err(refused) => violation = Some(refused),
                }
            }
            None => cold.guest = guest::number(random_u64()),
        }
        let session = self.slab.insert(hot, cold);
        let slot = session.slot;
        self.watch_token(slot);
        let hot = self.slab.hot(slot);
        let registered = hot.fd.as_ref().map(|fd| self.poller.add_session(fd, session));
        if let Some(Err(error)) = registered {
            tracing::warn!(%error, "cannot watch a connection");
            return self.gone(slot, DisconnectCode::Overloaded);
        }
        hot.flags.set(Flags::QUEUED);
        self.queued.push(session);
        self.cells.connections.set(self.slab.len() as u64);
        if !was_here && !self.may_create(slot, &room) {
            self.end(slot, DisconnectCode::Overloaded);
        } else {
            self.join(slot, room, since, asked);
        }
        if let Some(violation) = violation
            && self.slab.live(session).is_some()
        {
            return self.end(slot, violation.disconnect());
        }
        if self.drain.is_some() && self.slab.live(session).is_some() {
            self.send_away(slot);
        }
        if let Some(window_us) = bridged
            && self.slab.live(session).is_some()
        {
            self.slab.hot(slot).flags.set(Flags::BRIDGED);
            self.bid_farewell(slot, window_us);
        }
        // What TLS has opened already is no news to the socket.
        if self.slab.live(session).is_some() && self.slab.hot(slot).tls.is_some() {
            self.slab.hot(slot).flags.set(Flags::READY);
            self.ready.push(session);
        }
        // A moved session's decoder may hold whole messages that its old worker had not come to.
        if (was_here || !leftover.is_empty()) && self.slab.live(session).is_some() {
            self.first_input(slot, leftover);
        }
    }

    /// The `join` command: to another room, or to the present one from where the client left off. Whether
    /// the session has to change its worker for it, which the reader of its input then does.
    pub(super) fn move_to(&mut self, slot: u32, room: RoomId, since: Option<Position>) -> Option<Move> {
        let owner = self.shared.owner(&room);
        let small = self.shared.directory.members(&room) < self.config.spread_members;
        let movable = self.slab.cold(slot).unanswered == 0 && !self.slab.hot(slot).flags.any(Flags::BRIDGED);
        if owner != self.index && small && movable && !self.leaving() {
            return Some(Move { owner, room, since });
        }
        if self.rooms.find(room.as_str()).is_none() && self.rooms.len() >= self.config.rooms_max {
            // It stays where it is.
            self.cells.met(Limit::Rooms);
            self.refuse(slot, None, ErrorCode::TooManyRooms);
            return None;
        }
        self.keep_tail(slot);
        self.leave(slot);
        self.join(slot, room, since, true);
        None
    }

    /// Hands a session over to the owner of the small room it moves to, with the input that was not yet
    /// looked at and the output that is still owed.
    pub(super) fn hand_over(&mut self, slot: u32, to: Move, mut decoder: Decoder) {
        let Move { owner, room, since } = to;
        self.tell_held(slot);
        self.keep_tail(slot);
        let input = decoder.carry().unwrap_or_default();
        if let Some(arrival) = self.pack(slot, room, since, true, input) {
            self.send_arrival(owner, arrival);
        }
    }

    /// Takes a session out of its room and off this worker, as what makes a session of it elsewhere.
    pub(super) fn pack(
        &mut self,
        slot: u32,
        room: RoomId,
        since: Option<Position>,
        asked: bool,
        input: Carried,
    ) -> Option<Arrival> {
        self.leave(slot);
        let unwatched = self.slab.hot(slot).fd.as_ref().map(|fd| self.poller.remove_session(fd));
        let (hot, cold) = self.slab.remove(slot);
        self.cells.connections.set(self.slab.len() as u64);
        let hold = self.shared.addresses.resume(cold.place);
        let (Some(fd), Some(Ok(()))) = (hot.fd, unwatched) else { return None };
        let mut response = Vec::new();
        if let Some(outbox) = cold.outbox {
            self.tail_bytes -= outbox.tail;
            response.extend_from_slice(&outbox.bytes[outbox.sent..]);
        }
        Some(Arrival {
            socket: TcpStream::from(fd),
            tls: hot.tls,
            leftover: Vec::new(),
            response,
            encoding: cold.encoding,
            deflate: hot.flags.any(Flags::DEFLATE),
            room,
            since,
            tier: cold.tier,
            may_full: hot.flags.any(Flags::FULL),
            snapshot: !hot.flags.any(Flags::NO_SNAPSHOT),
            author: cold.presence.filter(|_| cold.identity.is_none()).map(|guest| guest.author),
            identity: cold.identity,
            address: cold.address,
            hold,
            bridged: hot.flags.any(Flags::BRIDGED).then_some(0),
            moved: Some(Box::new(Moved {
                input,
                guest: cold.guest,
                spent: cold.spent,
                moves: cold.joins,
                paused: hot.flags.any(Flags::PAUSED),
                asked,
            })),
        })
    }

    /// Makes a session a member; `asked` as in [`Waiting`].
    fn join(&mut self, slot: u32, room: RoomId, since: Option<Position>, asked: bool) {
        self.cells.joins.add(u64::from(asked));
        if !self.may_enter(slot) {
            return self.end(slot, DisconnectCode::TokenExpired);
        }
        let Some(index) = self.find_or_open(room) else {
            self.cells.met(Limit::Rooms);
            self.refuse(slot, None, ErrorCode::TooManyRooms);
            return self.end(slot, DisconnectCode::Overloaded);
        };
        let session = self.slab.reference(slot);
        let hot = self.slab.hot(slot);
        hot.room = index;
        hot.cursor = NOTHING_OWED;
        hot.flags.set(Flags::ATTACHING);
        let local = self.rooms.get(index);
        local.view.member_count += 1;
        local.view.empty_us = None;
        local.online.fetch_add(1, Ordering::Relaxed);
        match local.view.follow {
            Follow::Active(_) => self.settle(slot, since, asked),
            Follow::Attaching => local.view.waiting.push(Waiting { session, since, asked }),
            Follow::Not => {
                local.view.waiting.push(Waiting { session, since, asked });
                self.ask_to_follow(index);
            }
        }
    }

    pub(super) fn find_or_open(&mut self, room: RoomId) -> Option<u32> {
        if let Some(index) = self.rooms.find(room.as_str()) {
            return Some(index);
        }
        if self.rooms.len() >= self.config.rooms_max {
            return None;
        }
        let online = self.shared.directory.online(&room);
        let view = View::new(self.config.tick_max_us);
        Some(self.rooms.insert(LocalRoom { id: room, owner: None, left: None, view, online }))
    }

    /// The room's index here, opened if it is not known yet.
    pub(super) fn open_room(&mut self, room: &RoomId) -> u32 {
        match self.find_or_open(room.clone()) {
            Some(index) => index,
            // An owner must exist for whoever follows; the bound is kept where members come in.
            None => {
                let online = self.shared.directory.online(room);
                let view = View::new(self.config.tick_max_us);
                self.rooms.insert(LocalRoom { id: room.clone(), owner: None, left: None, view, online })
            }
        }
    }

    /// Asks the room's owner for its backlog and its chain.
    pub(super) fn ask_to_follow(&mut self, index: u32) {
        let me = self.index;
        let local = self.rooms.get(index);
        local.view.follow = Follow::Attaching;
        local.view.generation = local.view.generation.wrapping_add(1);
        local.view.link_dirty = Arc::new(AtomicBool::new(false));
        let link = Link {
            worker: me,
            room: index,
            generation: local.view.generation,
            dirty: Arc::clone(&local.view.link_dirty),
        };
        let room = local.id.clone();
        let owner = self.shared.owner(&room);
        if owner == me {
            return self.attach_link(&room, link);
        }
        let request = Request::Attach(Box::new(Attach { room, link }));
        if self.post(owner).normal(request, 128, self.now.us).is_err() {
            self.cells.mailbox_refused.add(1);
            self.follow_refused(index);
        }
    }

    /// Stops following a room in which nobody is left.
    pub(super) fn unfollow(&mut self, index: u32) {
        let me = self.index;
        let local = self.rooms.get(index);
        local.view.follow = Follow::Not;
        local.view.pass = None;
        local.view.dirty = false;
        local.view.snapshot = None;
        let (room, generation) = (local.id.clone(), local.view.generation);
        self.dirty.retain(|r| *r != index);
        let owner = self.shared.owner(&room);
        if owner == me {
            self.detach_link(&room, me, generation);
        } else {
            self.post_control(owner, Control::Detach { room, worker: me, generation });
        }
    }

    /// The owner could not take the request: those who wait are told so and go.
    fn follow_refused(&mut self, index: u32) {
        let view = &mut self.rooms.get(index).view;
        view.follow = Follow::Not;
        for Waiting { session, .. } in std::mem::take(&mut view.waiting) {
            if let Some(slot) = self.slab.live(session) {
                self.refuse(slot, None, ErrorCode::Overloaded);
                self.end(slot, DisconnectCode::Overloaded);
            }
        }
    }

    /// The owner has answered: the replica starts, and those who waited are settled.
    pub(super) fn attached(&mut self, attached: Attached) {
        let Attached { room, generation, backlog, tail, board, state } = attached;
        let Some(local) = self.rooms.get_if(room) else { return };
        let bounds = self.config.room(&local.id).backlog;
        if local.view.generation != generation || matches!(local.view.follow, Follow::Not) {
            return;
        }
        // Unasked for, it is a new owner's: everybody starts anew from where he stands.
        self.unsettle(room);
        let view = &mut self.rooms.get(room).view;
        view.follow = Follow::Active(Box::new(Replica::new(backlog, tail, bounds).with_board(board)));
        view.begin_state(state);
        view.snapshot = None;
        let waiting = std::mem::take(&mut view.waiting);
        for Waiting { session, since, asked } in waiting {
            if let Some(slot) = self.slab.live(session)
                && self.slab.hot(slot).room == room
            {
                self.settle(slot, since, asked);
            }
        }
        self.want_pass(room);
        // News may have come between the answer and now.
        self.follow_chain(room, None);
    }

    /// The owner's log has moved past this replica: it starts again, and members go on from where they
    /// stand, or are told the gap.
    pub(super) fn resync(&mut self, room: u32) {
        self.unsettle(room);
        self.ask_to_follow(room);
    }

    /// Makes every member of a room wait for the replica that comes, with what it was given last.
    fn unsettle(&mut self, room: u32) {
        self.rooms.get(room).view.pass = None;
        if !matches!(self.rooms.get(room).view.follow, Follow::Active(_)) {
            return;
        }
        for slot in 0..self.slab.slots() {
            if !self.slab.occupied(slot) || self.slab.hot(slot).room != room {
                continue;
            }
            // A half-written frame is finished from a copy: its batch goes with the old replica.
            self.keep_tail(slot);
            let session = self.slab.reference(slot);
            let view = &mut self.rooms.get(room).view;
            view.delist(&mut self.slab, slot);
            let hot = self.slab.hot(slot);
            hot.flags.set(Flags::ATTACHING);
            let since = view.replica().map(|replica| replica.given(hot.cursor));
            view.waiting.push(Waiting { session, since, asked: false });
        }
    }

    /// Gives a session its place: where it goes on, what it is told first, and its list.
    fn settle(&mut self, slot: u32, since: Option<Position>, asked: bool) {
        if self.keep_out(slot) {
            return;
        }
        let user = self.user(slot);
        if user.as_ref().is_some_and(|user| keeps_order(user.author.role)) {
            self.note_staff(slot);
        }
        let (hot, cold) = self.slab.both(slot);
        let local = self.rooms.get(hot.room);
        let Follow::Active(replica) = &local.view.follow else { return };
        hot.flags.clear(Flags::ATTACHING);
        let key = cold.key(hot.flags);
        let resume = since.as_ref().map_or(Resume::Unknown, |since| replica.resume(since));
        let recovered = !matches!(resume, Resume::Unknown);
        // Beyond the head of a room that began anew it would wait for ever: such a member joins like a stranger.
        let known = since.as_ref().is_some_and(|since| recovered || since.seq <= replica.head());
        if !asked && known {
            return self.settle_again(slot, since);
        }
        let online = local.online.load(Ordering::Relaxed);
        let guest_id = guest::id(cold.guest);
        let (id, name, role) = match user.as_ref().or(cold.presence.as_deref()) {
            Some(Presence { author, .. }) => (author.id.as_str(), &*author.name, author.role),
            None => (&*guest_id, "", Role::Viewer),
        };
        let signed = id.starts_with(guest::MARK).then(|| guest::signed(id, self.config.secret()));
        let you = You { id, name, role, guest: signed.as_deref() };
        let seq = replica.head();
        let joined = Joined {
            room: local.id.as_str(),
            epoch: replica.epoch().as_str(),
            seq,
            online: online.into(),
            recovered,
            you,
        };
        let mut bytes = Vec::new();
        self.encoder.control(&ServerMessage::Joined(joined), cold.encoding, &mut bytes);
        if (recovered || hot.flags.any(Flags::NO_SNAPSHOT)) && *local.view.state != State::default() {
            // The entry that told it may be long gone, and no snapshot comes.
            let update = ServerMessage::Room(local.view.update(online));
            self.encoder.control(&update, cold.encoding, &mut bytes);
        }
        hot.cursor = match resume {
            Resume::At(cursor) => cursor,
            Resume::Within(batch) => {
                let seq = since.map_or(0, |s| s.seq);
                self.encoder.rest_of(batch, seq, key, &mut bytes);
                let own = batch.private().filter(|entry| entry.seq > seq && cold.is_author_of(entry));
                own.for_each(|entry| self.encoder.private(entry, cold.encoding, &mut bytes));
                Cursor { seq: batch.to + 1, offset: 0 }
            }
            Resume::Unknown => {
                if !hot.flags.any(Flags::NO_SNAPSHOT) {
                    // Whoever alone sees some of it gets one like nobody else's.
                    let own =
                        user.as_ref().or(cold.presence.as_deref()).map(|presence| presence.author.id.clone());
                    let own = own.filter(|user| snapshot::has_own(replica, user));
                    let fresh = local.view.snapshot.as_ref();
                    let fresh = fresh.filter(|(k, at, _)| *k == key && *at == seq && own.is_none());
                    let snapshot = match fresh {
                        Some((_, _, snapshot)) => Arc::clone(snapshot),
                        None => {
                            let entries = self.config.room(&local.id).snapshot_entries;
                            let viewer = Viewer { tier: cold.tier, user: own.as_ref() };
                            let newest = snapshot::newest(replica, viewer, entries);
                            let items: Vec<&Entry> = newest.into_iter().map(|entry| &**entry).collect();
                            let room = local.view.update(online);
                            let epoch = replica.epoch().as_str();
                            let message = Snapshot { epoch, seq, items: &items, room };
                            let mut frame = Vec::new();
                            self.encoder.control(
                                &ServerMessage::Snapshot(message),
                                cold.encoding,
                                &mut frame,
                            );
                            Arc::from(frame)
                        }
                    };
                    bytes.extend_from_slice(&snapshot);
                    if own.is_none() {
                        local.view.snapshot = Some((key, seq, snapshot));
                    }
                }
                replica.live()
            }
        };
        if !hot.flags.any(Flags::PAUSED) {
            local.view.enlist(&mut self.slab, slot);
        }
        self.outbox(slot, |out| out.extend_from_slice(&bytes));
    }

    /// Gives a member its place in a replica that was started anew: nothing is told where nothing is
    /// missing.
    fn settle_again(&mut self, slot: u32, since: Option<Position>) {
        let (hot, cold) = self.slab.both(slot);
        let view = &mut self.rooms.get(hot.room).view;
        let (Some(replica), Some(since)) = (view.replica(), since) else { return };
        hot.cursor = match replica.resume(&since) {
            Resume::At(cursor) => cursor,
            Resume::Within(batch) => {
                let mut rest = Vec::new();
                self.encoder.rest_of(batch, since.seq, cold.key(hot.flags), &mut rest);
                let own = batch.private().filter(|entry| entry.seq > since.seq && cold.is_author_of(entry));
                own.for_each(|entry| self.encoder.private(entry, cold.encoding, &mut rest));
                cold.outbox.get_or_insert_default().bytes.extend_from_slice(&rest);
                Cursor { seq: batch.to + 1, offset: 0 }
            }
            // Before everything that the ring holds: the next flush tells the gap.
            Resume::Unknown => Cursor { seq: since.seq + 1, offset: 0 },
        };
        if !hot.flags.any(Flags::PAUSED) {
            view.enlist(&mut self.slab, slot);
        }
        if !self.slab.hot(slot).flags.any(Flags::BLOCKED) {
            self.flush(slot);
        }
    }

    /// Takes a session out of its room.
    pub(super) fn leave(&mut self, slot: u32) {
        let now_us = self.now.us;
        let hot = self.slab.hot(slot);
        let room = std::mem::replace(&mut hot.room, NOWHERE);
        if room == NOWHERE {
            return;
        }
        let was_listed = hot.flags.any(Flags::LISTED);
        hot.flags.clear(Flags::LISTED);
        hot.flags.clear(Flags::ATTACHING);
        let local = self.rooms.get(room);
        local.view.delist(&mut self.slab, slot);
        if was_listed {
            local.view.blocked.retain(|s| *s != slot);
        }
        local.view.member_count -= 1;
        local.online.fetch_sub(1, Ordering::Relaxed);
        if local.view.member_count == 0 {
            local.view.empty_us = Some(now_us);
            local.view.waiting.clear();
            local.view.staff.clear();
        }
    }

    /// What is known of a session beside its author. Guests from this machine write as users do: no limit of addresses
    /// applies to them either.
    pub(super) fn standing(&mut self, slot: u32) -> Standing {
        let (place, address) = (self.slab.cold(slot).place, self.slab.cold(slot).address);
        let presence = self.presence(slot);
        let standing = presence.standing(guest::is_guest(&presence.author) && place != Place::NONE);
        let address = guest::measured_by(&presence.author, address);
        Standing { address, ..standing }
    }

    /// Who publishes here, as others see it.
    pub(super) fn author(&mut self, slot: u32) -> Arc<Author> {
        Arc::clone(&self.presence(slot).author)
    }

    /// Who publishes here: made when it is first needed.
    fn presence(&mut self, slot: u32) -> &Presence {
        let missing = self.slab.cold(slot).presence.is_none();
        let user = if missing { self.user(slot) } else { None };
        let Cold { presence, guest, .. } = self.slab.cold(slot);
        presence.get_or_insert_with(|| {
            Box::new(user.unwrap_or_else(|| Presence::of_guest(guest::author(*guest))))
        })
    }
}

pub(super) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system's random source answers");
    u64::from_ne_bytes(bytes)
}
