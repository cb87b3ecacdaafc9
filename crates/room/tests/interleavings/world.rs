//! The owner, the store, the workers and the viewers, moved one operation at a time.
//!
//! The workers do what the server's worker does with a replica: passes over members, a flush for one,
//! tails of half-written frames, gaps, and a new attachment where the log has moved past.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::form::{Encoder, Encoding, FormKey};
use danmaku_room::log::RingBounds;
use danmaku_room::owner::{Config, Owner};
use danmaku_room::replica::{Cursor, Replica, Resume};
use danmaku_room::store::Durability;
use danmaku_wire::entry::{Author, Body, Comment, Mode, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::{Joined, RoomUpdate, ServerMessage, Snapshot, You};
use danmaku_wire::position::{Epoch, Position};

use super::scripted_store::ScriptedStore;
use super::viewer::{Truth, Viewer};

const VIEWERS: usize = 5;
const AGE_MAX_US: u64 = 2_000_000;
const UNSTORED_MAX: u64 = 12;
/// About what a batch of one comment costs.
pub(crate) const BATCH_BYTES: usize = 700;
/// How far above its bound a ring may grow for a pass that is late, as the replica documents it.
pub(crate) const OVERSHOOT: usize = 4;

/// Where a viewer says that it left off. Numbers of epochs, workers and viewers are taken modulo how many
/// there are.
#[derive(Debug, Clone)]
pub(crate) enum Since {
    Nothing,
    /// Where it really did.
    Own,
    /// Anywhere in an epoch that began.
    In {
        epoch: usize,
        seq: u64,
    },
    Head {
        back: u64,
    },
    BeyondHead {
        ahead: u64,
    },
    UnknownEpoch {
        seq: u64,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Release {
        seen_by: u8,
        chars: usize,
    },
    Seal,
    /// Batches one after the other, each stored.
    Burst {
        batches: usize,
    },
    HandToStore,
    Commit {
        entries: usize,
    },
    FailForGood,
    HearFromStore,
    Pull {
        worker: usize,
    },
    Pass {
        worker: usize,
        accept: Vec<usize>,
        counts: bool,
    },
    Writable {
        viewer: usize,
        accept: usize,
    },
    Connect {
        viewer: usize,
        worker: usize,
        since: Since,
        accept: usize,
    },
    Disconnect {
        viewer: usize,
    },
    ChangeTier {
        viewer: usize,
        tier: u8,
    },
    /// Something for one viewer alone, such as an ack.
    Tell {
        viewer: usize,
        accept: usize,
    },
    Wait {
        ms: u64,
    },
    Age,
    AttachAgain {
        worker: usize,
    },
    RestartOwner,
}

#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) durability: Durability,
    pub(crate) workers: usize,
    pub(crate) log_batches: usize,
    pub(crate) ring_batches: usize,
    pub(crate) tail_max: usize,
    pub(crate) run_bytes_max: usize,
}

/// A viewer's connection on a worker.
pub(crate) struct Connection {
    pub(crate) worker: usize,
    pub(crate) cursor: Cursor,
    pub(crate) key: FormKey,
    pub(crate) blocked: bool,
    pub(crate) outbox: Vec<u8>,
    /// Bytes that the socket has taken so far.
    pub(crate) sent: usize,
}

pub(crate) struct Worker {
    pub(crate) replica: Replica,
    pub(crate) encoder: Encoder,
    /// The owner that the replica follows.
    pub(crate) follows: Epoch,
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) now: Now,
    pub(crate) owner: Owner<()>,
    pub(crate) store: ScriptedStore,
    pub(crate) workers: Vec<Worker>,
    pub(crate) connections: Vec<Option<Connection>>,
    pub(crate) viewers: Vec<Viewer>,
    pub(crate) truth: Truth,
    pub(crate) author: Arc<Author>,
    /// What the owner has heard that the store took or gave up.
    pub(crate) settled: u64,
}

fn epoch(n: usize) -> Epoch {
    Epoch::parse(&format!("e{n}")).expect("valid")
}

fn tier(n: u8) -> Tier {
    [Tier::Lite, Tier::Standard, Tier::Full][usize::from(n % 3)]
}

fn author(id: &str) -> Arc<Author> {
    let id = UserId::parse(id).expect("valid");
    Arc::new(Author { id, name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() })
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let now = Now { us: 1_000_000, wall_ms: 1_700_000_000_000 };
        let mut store = ScriptedStore::new(setup.tail_max);
        store.told_late = setup.durability != Durability::Memory;
        let mut owner = Self::start_owner(&setup, &mut store, now);
        let workers = (0..setup.workers).map(|_| Self::attach(&setup, &mut owner, now)).collect();
        Self {
            now,
            owner,
            store,
            workers,
            connections: (0..VIEWERS).map(|_| None).collect(),
            viewers: (0..VIEWERS).map(|_| Viewer::default()).collect(),
            truth: Truth::default(),
            author: author("u1"),
            settled: 0,
            setup,
        }
    }

    fn start_owner(setup: &Setup, store: &mut ScriptedStore, now: Now) -> Owner<()> {
        let loaded = store.load();
        let (fresh, last) = (epoch(store.begun()), loaded.epochs.last().map(|(_, seq)| *seq));
        let log = RingBounds { bytes_max: setup.log_batches * BATCH_BYTES, age_max_us: AGE_MAX_US };
        let config = Config {
            durability: setup.durability,
            log,
            unstored_max: UNSTORED_MAX,
            stall_max_us: u64::MAX,
            ..Config::default()
        };
        let room = RoomId::parse("r1").expect("valid");
        let owner = Owner::start(room, fresh.clone(), loaded, config, now);
        store.begin(fresh, last.map_or(1, |seq| seq + 1 + UNSTORED_MAX));
        owner
    }

    fn attach(setup: &Setup, owner: &mut Owner<()>, now: Now) -> Worker {
        let (backlog, tail) = owner.attach(now);
        let bounds = RingBounds { bytes_max: setup.ring_batches * BATCH_BYTES, age_max_us: AGE_MAX_US };
        let replica = Replica::new(backlog, tail, bounds);
        Worker { replica, encoder: Encoder::new(1), follows: owner.epoch().clone() }
    }

    pub(crate) fn apply(&mut self, op: Op) {
        self.now.us += 1;
        match op {
            Op::Release { seen_by, chars } => self.release(seen_by, chars),
            Op::Seal => {
                self.owner.end_turn();
                if self.owner.seal(self.now).is_some() {
                    self.check_log();
                }
            }
            Op::Burst { batches } => (0..batches).for_each(|chars| {
                let release = Op::Release { seen_by: 0, chars: chars + 1 };
                let stored = [Op::HandToStore, Op::Commit { entries: usize::MAX }, Op::HearFromStore];
                [release, Op::Seal].into_iter().chain(stored).for_each(|op| self.apply(op));
            }),
            Op::HandToStore => {
                if let Some(append) = self.owner.take_append() {
                    self.store.append(append);
                }
            }
            Op::Commit { entries } => self.store.commit(entries),
            Op::FailForGood => self.store.fail(),
            Op::HearFromStore => {
                let (stored, failed) = self.store.progress();
                self.owner.progress(stored, failed, &mut Vec::new());
                self.settled = self.settled.max(stored).max(failed);
            }
            Op::Pull { worker } => self.pull(worker % self.setup.workers),
            Op::Pass { worker, accept, counts } => {
                self.pass(worker % self.setup.workers, &accept, counts);
            }
            Op::Writable { viewer, accept } => self.writable(viewer % VIEWERS, accept),
            Op::Connect { viewer, worker, since, accept } => {
                self.connect(viewer % VIEWERS, worker % self.setup.workers, &since, accept);
            }
            Op::Disconnect { viewer } => self.connections[viewer % VIEWERS] = None,
            Op::ChangeTier { viewer, tier: n } => self.change_tier(viewer % VIEWERS, tier(n)),
            Op::Tell { viewer, accept } => self.tell(viewer % VIEWERS, accept),
            Op::Wait { ms } => {
                self.now.us += ms * 1_000;
                self.now.wall_ms += ms;
            }
            Op::Age => {
                self.owner.age(self.now);
                self.check_log();
                (0..self.setup.workers).for_each(|worker| self.evict(worker));
            }
            Op::AttachAgain { worker } => self.attach_again(worker % self.setup.workers, true),
            Op::RestartOwner => {
                if !self.owner.is_announced() {
                    // Nobody was shown what the next owner is not told of.
                    let (gone, store) = (self.owner.epoch(), &self.store);
                    self.truth.entries.retain(|seq, (epoch, _)| epoch != gone || store.holds(*seq));
                }
                self.owner = Self::start_owner(&self.setup, &mut self.store, self.now);
                self.settled = self.store.epochs.last().map_or(0, |(_, before)| *before);
            }
        }
    }

    fn release(&mut self, seen_by: u8, chars: usize) {
        if self.owner.may_release(self.now).is_err() {
            return;
        }
        let visibility = match seen_by {
            0..3 => Visibility::Tier(tier(seen_by)),
            3 => Visibility::Author(self.author.id.clone()),
            4 => Visibility::Staff,
            _ => Visibility::Tier(Tier::Lite),
        };
        let comment = Comment {
            user: Arc::clone(&self.author),
            text: "x".repeat(chars).into(),
            mode: Mode::Scroll,
            color: 1,
            size: 25,
            stream_ms: None,
            trace: None,
        };
        let body = Body::Comment(comment);
        let seq = self.owner.release(self.now, visibility.clone(), body.clone());
        let entry = Arc::new(danmaku_wire::entry::Entry { seq, at_ms: self.now.wall_ms, visibility, body });
        let before = self.truth.entries.insert(seq, (self.owner.epoch().clone(), entry));
        assert!(before.is_none(), "{seq} was given twice");
    }

    /// The log keeps to its bounds, but for what is not settled and for its newest batch.
    fn check_log(&self) {
        let log = self.owner.log();
        let over = log.bytes() > self.setup.log_batches * BATCH_BYTES && log.batches().count() > 1;
        let oldest = log.batches().next().map_or(0, |b| b.to);
        assert!(!over || oldest > self.settled, "{oldest} was settled and is held over the bound");
        assert_eq!(log.bytes(), log.batches().map(|b| b.bytes).sum::<usize>());
        let unsettled = self.truth.entries.range(self.settled + 1..).next().map(|(seq, _)| *seq);
        let first = log.batches().next().map(|b| b.from);
        assert!(
            unsettled.is_none_or(|seq| first.is_none_or(|first| first <= seq)),
            "an unstored entry is gone"
        );
    }

    fn pull(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        let pulled = worker.replica.pull();
        if pulled.lapped {
            let wanted = worker.replica.head() + 1;
            let same = worker.follows == *self.owner.epoch();
            let held = self.owner.log().batches().any(|b| b.from == wanted);
            assert!(!(same && held), "lapped although {wanted} is in the log");
            return self.attach_again(at, false);
        }
        self.evict(at);
    }

    /// The replica starts anew; who followed it goes on where it was.
    fn attach_again(&mut self, at: usize, same_link: bool) {
        let members = self.members(at);
        members.iter().for_each(|slot| self.keep_tail(*slot));
        let given: Vec<Position> = members
            .iter()
            .map(|slot| self.workers[at].replica.given(self.connection(*slot).cursor))
            .collect();
        if same_link || self.workers[at].follows == *self.owner.epoch() {
            self.owner.detach(self.now);
        }
        self.workers[at] = Self::attach(&self.setup, &mut self.owner, self.now);
        for (slot, given) in members.into_iter().zip(given) {
            self.go_on(slot, &given);
        }
        self.evict(at);
    }

    fn go_on(&mut self, slot: usize, given: &Position) {
        let connection = self.connections[slot].as_mut().expect("a member");
        let Worker { replica, encoder, .. } = &mut self.workers[connection.worker];
        match replica.resume(given) {
            Resume::At(cursor) => connection.cursor = cursor,
            Resume::Within(batch) => {
                encoder.rest_of(batch, given.seq, connection.key, &mut connection.outbox);
                connection.cursor = Cursor { seq: batch.to + 1, offset: 0 };
            }
            // Behind the ring it is told of a gap; of another past it is told anew.
            Resume::Unknown if given.epoch == *replica.epoch() => {}
            Resume::Unknown => self.welcome(slot, false),
        }
    }

    /// What somebody is told who begins: `joined`, and a snapshot where nothing was recovered.
    fn welcome(&mut self, slot: usize, recovered: bool) {
        let connection = self.connections[slot].as_mut().expect("a member");
        let Worker { replica, encoder, .. } = &mut self.workers[connection.worker];
        let (epoch, seq) = (replica.epoch().as_str(), replica.head());
        let you = You { id: "u9", name: "", role: Role::Viewer, guest: None };
        let joined = Joined { room: "r1", epoch, seq, online: 1, recovered, you };
        encoder.control(&ServerMessage::Joined(joined), Encoding::Json, &mut connection.outbox);
        if !recovered {
            let snapshot = Snapshot { epoch, seq, items: &[], room: RoomUpdate::default() };
            encoder.control(&ServerMessage::Snapshot(snapshot), Encoding::Json, &mut connection.outbox);
            connection.cursor = replica.live();
        }
    }

    fn connect(&mut self, slot: usize, worker: usize, since: &Since, accept: usize) {
        self.connections[slot] = None;
        let replica = &self.workers[worker].replica;
        let position = self.position(since, slot, replica);
        if !matches!(since, Since::Own) {
            self.viewers[slot].stand_at(position.clone());
        }
        let tier = tier(slot as u8);
        self.viewers[slot].connected(tier);
        let key = FormKey { encoding: Encoding::Json, deflate: slot % 2 == 1, tier };
        let (cursor, rest) = match position.as_ref().map(|since| (replica.resume(since), since)) {
            None | Some((Resume::Unknown, _)) => (None, None),
            Some((Resume::At(cursor), _)) => (Some(cursor), None),
            Some((Resume::Within(batch), since)) => {
                (Some(Cursor { seq: batch.to + 1, offset: 0 }), Some((Arc::clone(batch), since.seq)))
            }
        };
        if let Some(since) = &position {
            self.check_recovered(since, cursor.is_some(), replica);
        }
        self.connections[slot] = Some(Connection {
            worker,
            cursor: cursor.unwrap_or(replica.live()),
            key,
            blocked: false,
            outbox: Vec::new(),
            sent: 0,
        });
        self.welcome(slot, cursor.is_some());
        if let Some((batch, seq)) = rest {
            let connection = self.connections[slot].as_mut().expect("just made");
            self.workers[worker].encoder.rest_of(&batch, seq, key, &mut connection.outbox);
        }
        self.flush(slot, accept);
    }

    fn position(&self, since: &Since, slot: usize, replica: &Replica) -> Option<Position> {
        let current = |seq| Position { epoch: replica.epoch().clone(), seq };
        match since {
            Since::Nothing => None,
            Since::Own => self.viewers[slot].position.clone(),
            Since::In { epoch, seq } => {
                let (epoch, _) = &self.store.epochs[epoch % self.store.epochs.len()];
                let of = |seq: &u64| self.truth.entries[seq].0 == *epoch;
                let given: Vec<u64> = self.truth.entries.keys().copied().filter(of).collect();
                let seq = *given.get(*seq as usize % given.len().max(1))?;
                Some(Position { epoch: epoch.clone(), seq })
            }
            Since::Head { back } => Some(current(replica.head().saturating_sub(*back))),
            Since::BeyondHead { ahead } => Some(current(replica.head() + 1 + ahead)),
            Since::UnknownEpoch { seq } => {
                Some(Position { epoch: Epoch::parse("other").expect("valid"), seq: *seq })
            }
        }
    }

    /// Nobody is refused a recovery that the ring could give, and nobody is promised another.
    fn check_recovered(&self, since: &Position, recovered: bool, replica: &Replica) {
        let first = replica.first();
        let change = replica.batches().find_map(|b| match &b.kind {
            danmaku_room::batch::Kind::EpochChange { prev } => Some((prev.clone(), b.to)),
            _ => None,
        });
        let possible = if since.epoch == *replica.epoch() {
            let start = change.map_or(0, |(_, to)| to);
            (start.max(first - 1)..=replica.head()).contains(&since.seq)
        } else {
            change.is_some_and(|(prev, _)| prev.epoch == since.epoch && since.seq + 1 >= first)
        };
        assert_eq!(recovered, possible, "{since} of a ring from {first} to {}", replica.head());
    }

    pub(crate) fn members(&self, worker: usize) -> Vec<usize> {
        let on = |slot: &usize| self.connections[*slot].as_ref().is_some_and(|c| c.worker == worker);
        (0..VIEWERS).filter(on).collect()
    }

    pub(crate) fn connection(&self, slot: usize) -> &Connection {
        self.connections[slot].as_ref().expect("a member")
    }

    /// The store catches up, every socket takes everything: then every viewer stands at the head.
    pub(crate) fn come_to_rest(&mut self) {
        for round in 0..2 {
            if self.owner.failed() {
                self.apply(Op::RestartOwner);
            }
            for op in [Op::HandToStore, Op::Commit { entries: usize::MAX }] {
                self.apply(op);
            }
            while self.store.busy() {
                self.apply(Op::Commit { entries: usize::MAX });
            }
            self.apply(Op::HearFromStore);
            self.apply(Op::Seal);
            assert!(self.owner.unstored() == 0 || round == 0, "everything was settled");
        }
        for at in 0..self.setup.workers {
            self.pull(at);
            self.pass(at, &[usize::MAX], true);
        }
        for slot in 0..VIEWERS {
            self.writable(slot, usize::MAX);
            self.check_viewer(slot);
        }
    }

    fn check_viewer(&self, slot: usize) {
        let Some(connection) = &self.connections[slot] else { return };
        let (viewer, replica) = (&self.viewers[slot], &self.workers[connection.worker].replica);
        assert!(!viewer.half_a_frame() && connection.outbox.is_empty() && !connection.blocked);
        let head = Position { epoch: replica.epoch().clone(), seq: replica.head() };
        assert_eq!(viewer.position.as_ref(), Some(&head), "viewer {slot} has come to the head");
        assert_eq!(head.epoch, *self.owner.epoch());
        assert!(viewer.shown.values().all(|times| *times == 1), "nothing came twice");
        for (seq, (epoch, entry)) in self.truth.entries.range(viewer.owed_from..) {
            let everyone = entry.visibility == Visibility::Tier(Tier::Lite);
            let stands = epoch == self.owner.epoch() || self.store.holds(*seq);
            let told = viewer.gaps.iter().any(|(from, to)| (from..=to).contains(&seq));
            let shown = viewer.shown.contains_key(seq);
            assert!(!everyone || !stands || told || shown, "viewer {slot} misses {seq} without a word");
            assert!(stands || !shown, "viewer {slot} still shows {seq}, which was not kept");
        }
    }
}
