//! The rooms of one worker: owned ones, followed ones, and both.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use danmaku_room::form::{FORM_COUNT, FormKey};
use danmaku_room::house::House;
use danmaku_room::house::settings::State;
use danmaku_room::owner::Owner;
use danmaku_room::pass::Law;
use danmaku_room::replica::{Replica, Run};
use danmaku_room::store::{Durability, Loaded, Progress, Promise};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::RoomUpdate;
use danmaku_wire::position::Position;

use crate::worker::message::{Link, Publish, ReplyTo};
use crate::worker::orders::Order;
use crate::worker::session::NOWHERE;
use crate::worker::slab::{SessionRef, Slab};

/// A room as one worker knows it.
#[derive(Debug)]
pub struct LocalRoom {
    /// The name.
    pub id: RoomId,
    /// The owner, if the room is owned here and has been used.
    pub owner: Option<OwnerState>,
    /// What an owner left here that failed, for the one that comes.
    pub left: Option<Box<House>>,
    /// This worker's members and its replica.
    pub view: View,
    /// Members on all workers.
    pub online: Arc<AtomicU32>,
}

/// Where an owner is in its life. Idle is Active without links; evicted is absent.
#[derive(Debug)]
pub enum OwnerState {
    /// The store is asked; followers wait.
    Loading {
        /// The store's answer.
        promise: Arc<Promise<Loaded>>,
        /// What the owner is going to promise.
        durability: Durability,
        /// Who wants to follow.
        waiting: Vec<Link>,
        /// Comments that came before the owner.
        publishes: Vec<Publish>,
        /// Orders that did.
        orders: Vec<Order>,
    },
    /// It orders the room.
    Active(Box<ActiveOwner>),
}

/// An owner at work.
#[derive(Debug)]
pub struct ActiveOwner {
    /// The state machine.
    pub owner: Owner<ReplyTo>,
    /// How far the store has come.
    pub progress: Arc<Progress>,
    /// The store's progress as last seen: stored and failed.
    pub seen: (u64, u64),
    /// Followers, this worker included.
    pub links: Vec<Link>,
    /// Followers' ticks in the order of `links`, microseconds.
    pub ticks_us: Vec<u32>,
    /// Links whose token found a full ring: tried again each turn.
    pub behind: bool,
    /// In the list of owners to look at this turn.
    pub touched: bool,
}

/// Whether this worker follows the room.
#[derive(Debug)]
pub enum Follow {
    /// Nobody asked.
    Not,
    /// The owner is asked.
    Attaching,
    /// The chain is followed.
    Active(Box<Replica>),
}

/// A session that waits for the replica.
#[derive(Debug)]
pub struct Waiting {
    /// Which.
    pub session: SessionRef,
    /// Where it goes on from.
    pub since: Option<Position>,
    /// Whether it asked to join and is to be answered; else it was here before and the replica is new.
    pub asked: bool,
}

/// This worker's side of a room.
#[derive(Debug)]
pub struct View {
    /// The replica.
    pub follow: Follow,
    /// Counts attachments.
    pub generation: u32,
    /// Whether a token for the present attachment lies in the mailbox.
    pub link_dirty: Arc<AtomicBool>,
    /// Members by form.
    pub members: [Vec<u32>; FORM_COUNT],
    /// How many.
    pub member_count: u32,
    /// Sessions that wait for the replica, with what they asked for.
    pub waiting: Vec<Waiting>,
    /// Members who keep order, and hear of held comments; stale entries are dropped when looked at.
    pub staff: Vec<SessionRef>,
    /// Members whose sockets are full; stale entries are dropped when looked at.
    pub blocked: Vec<u32>,
    /// When passes run.
    pub law: Law,
    /// The pass under way.
    pub pass: Option<Box<Pass>>,
    /// There is something that no pass has taken up.
    pub dirty: bool,
    /// Start of the newest pass, microseconds.
    pub pass_started_us: u64,
    /// Where the next pass begins, so that nobody is always last.
    pub rotation: usize,
    /// The room's state as the owner, or the newest entry about it, has it.
    pub state: Arc<State>,
    /// The entry that told it; 0: the owner.
    pub state_seq: u64,
    /// The online count that members were told.
    pub told_online: u32,
    /// The state that members were told; `None`: none since the replica began.
    pub told_state: Option<Arc<State>>,
    /// Since when there is nobody, microseconds.
    pub empty_us: Option<u64>,
    /// The newest snapshot by form, with the head it was made at.
    pub snapshot: Option<(FormKey, u64, Arc<[u8]>)>,
}

/// A pass over the members, in slices.
#[derive(Debug)]
pub struct Pass {
    /// The head when the pass began: all members have got that far when it ends.
    pub begun_at: u64,
    /// What members looked at from now on get: the head when the pass began or was freshened.
    pub end: u64,
    /// How often it was freshened.
    pub freshened: u32,
    /// Classes with members, each with where its round began and how far it has come.
    pub class: usize,
    /// Where the round over the class began.
    pub first: usize,
    /// Members of the class seen.
    pub seen: usize,
    /// Runs made for this pass: most members want the same one.
    pub runs: Vec<(usize, Run)>,
    /// What goes behind the frames, by encoding: counts, at most once a second.
    pub trailers: [Vec<u8>; 3],
    /// CPU time so far, microseconds.
    pub cpu_us: f64,
    /// Members moved while the pass ran: it looks over all of them once more.
    pub again: bool,
}

impl View {
    /// A view that follows nothing.
    pub fn new(tick_max_us: u64) -> Self {
        Self {
            follow: Follow::Not,
            generation: 0,
            link_dirty: Arc::default(),
            members: std::array::from_fn(|_| Vec::new()),
            member_count: 0,
            waiting: Vec::new(),
            staff: Vec::new(),
            blocked: Vec::new(),
            law: Law::new(tick_max_us),
            pass: None,
            dirty: false,
            pass_started_us: 0,
            rotation: 0,
            state: Arc::default(),
            state_seq: 0,
            told_online: 0,
            told_state: None,
            empty_us: None,
            snapshot: None,
        }
    }

    /// The replica, once there is one.
    pub fn replica(&self) -> Option<&Replica> {
        match &self.follow {
            Follow::Active(replica) => Some(replica),
            _ => None,
        }
    }

    /// The replica, once there is one.
    pub fn replica_mut(&mut self) -> Option<&mut Replica> {
        match &mut self.follow {
            Follow::Active(replica) => Some(replica),
            _ => None,
        }
    }

    /// Begins with the state that an owner tells with its backlog.
    pub fn begin_state(&mut self, state: Arc<State>) {
        self.state_seq =
            self.replica().and_then(|replica| replica.board().state.as_ref()).map_or(0, |e| e.seq);
        self.state = state;
    }

    /// Takes in what the newest entry says of the room's state.
    pub fn note_state(&mut self) {
        let Some(board) = self.replica().map(Replica::board) else { return };
        let seq = board.state.as_ref().map_or(0, |entry| entry.seq);
        if seq != self.state_seq
            && let Some(state) = board.told_state()
        {
            (self.state, self.state_seq) = (Arc::new(state), seq);
        }
    }

    /// Whether members have not been told how many they are, or what the room's state is.
    pub fn has_counts_to_tell(&self, online: u32) -> bool {
        self.told_online != online || self.told_state.as_ref().is_none_or(|told| *told != self.state)
    }

    /// Counts and state as members are told them.
    pub fn update(&self, online: u32) -> RoomUpdate<'_> {
        RoomUpdate {
            online: online.into(),
            viewers: online.into(),
            slow_mode_ms: self.state.slow_mode_ms,
            data: &self.state.data,
            ..RoomUpdate::default()
        }
    }

    /// Puts a session on the list of its form.
    pub fn enlist(&mut self, slab: &mut Slab, slot: u32) {
        let (hot, cold) = slab.both(slot);
        hot.flags.set_mark(cold.mark());
        let list = &mut self.members[cold.key(hot.flags).index()];
        hot.member = list.len() as u32;
        list.push(slot);
    }

    /// Takes a session off its list. Must be called before what makes up its form changes.
    pub fn delist(&mut self, slab: &mut Slab, slot: u32) {
        let (hot, cold) = slab.both(slot);
        let place = std::mem::replace(&mut hot.member, NOWHERE);
        if place == NOWHERE {
            return;
        }
        let list = &mut self.members[cold.key(hot.flags).index()];
        list.swap_remove(place as usize);
        if let Some(moved) = list.get(place as usize) {
            slab.hot(*moved).member = place;
        }
        if let Some(pass) = &mut self.pass {
            pass.again = true;
        }
    }

    /// When the next pass may start, if one is wanted, microseconds.
    pub fn pass_due_us(&self) -> Option<u64> {
        (self.dirty && self.pass.is_none()).then(|| self.pass_started_us + self.law.tick_us())
    }
}

impl Pass {
    /// The next member to look at, with its class; `None` when all were seen.
    #[inline]
    pub fn next(&mut self, members: &[Vec<u32>; FORM_COUNT]) -> Option<(usize, u32)> {
        while self.class < FORM_COUNT {
            let list = &members[self.class];
            if self.seen < list.len() {
                let at = self.first + self.seen;
                self.seen += 1;
                let at = if at >= list.len() { at % list.len() } else { at };
                return Some((self.class, list[at]));
            }
            self.class += 1;
            self.seen = 0;
        }
        None
    }

    /// Whether the pass has to look over all members once more, which it then begins to. Never within a
    /// slice: what the slice found out about members is acted on first.
    pub fn starts_over(&mut self) -> bool {
        let again = std::mem::take(&mut self.again);
        if again {
            (self.class, self.seen) = (0, 0);
        }
        again
    }
}

/// All rooms of a worker, by index and by name.
#[derive(Debug, Default)]
pub struct Rooms {
    rooms: Vec<Option<Box<LocalRoom>>>,
    free: Vec<u32>,
    // The standard map's hasher is keyed at random: strangers choose room names.
    by_id: HashMap<RoomId, u32>,
    /// Rooms that may have blocked members: those few are looked at ten times a second, not all.
    blocked: Vec<u32>,
}

impl Rooms {
    /// The index of a room.
    pub fn find(&self, id: &str) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    /// Adds a room that is not there yet.
    pub fn insert(&mut self, room: LocalRoom) -> u32 {
        let id = room.id.clone();
        let index = match self.free.pop() {
            Some(index) => {
                self.rooms[index as usize] = Some(Box::new(room));
                index
            }
            None => {
                self.rooms.push(Some(Box::new(room)));
                (self.rooms.len() - 1) as u32
            }
        };
        self.by_id.insert(id, index);
        index
    }

    /// Forgets a room.
    pub fn remove(&mut self, index: u32) {
        if let Some(room) = self.rooms[index as usize].take() {
            self.by_id.remove(&room.id);
            self.free.push(index);
        }
    }

    /// The room at a live index.
    pub fn get(&mut self, index: u32) -> &mut LocalRoom {
        self.rooms[index as usize].as_mut().expect("room indices are live while somebody holds them")
    }

    /// The room at an index that may be stale.
    pub fn get_if(&mut self, index: u32) -> Option<&mut LocalRoom> {
        self.rooms.get_mut(index as usize)?.as_deref_mut()
    }

    /// Notes a member whose socket is full.
    pub fn add_blocked(&mut self, index: u32, slot: u32) {
        let blocked = &mut self.get(index).view.blocked;
        blocked.push(slot);
        if blocked.len() == 1 {
            self.blocked.push(index);
        }
    }

    /// The rooms with members whose sockets are full.
    pub fn with_blocked(&mut self) -> Vec<u32> {
        let mut blocked = std::mem::take(&mut self.blocked);
        // A room may have been noted again before it was looked at, and its index may be another's by now.
        blocked.sort_unstable();
        blocked.dedup();
        blocked.retain(|index| self.get_if(*index).is_some_and(|room| !room.view.blocked.is_empty()));
        self.blocked.clone_from(&blocked);
        blocked
    }

    /// One past the highest index that may be live.
    pub fn slots(&self) -> u32 {
        self.rooms.len() as u32
    }

    /// Live indices.
    pub fn indices(&self) -> impl Iterator<Item = u32> + use<> {
        let live: Vec<u32> =
            self.rooms.iter().enumerate().filter(|(_, r)| r.is_some()).map(|(i, _)| i as u32).collect();
        live.into_iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}
