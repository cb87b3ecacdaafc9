//! An owner and its store, beside a plain account of what was said, promised and kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::rule::{Mode as Acts, Modes};
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::admission::{Limits, Standing};
use danmaku_room::batch::entry_bytes;
use danmaku_room::log::RingBounds;
use danmaku_room::owner::{Config, Fate, Owner};
use danmaku_room::store::Durability;
use danmaku_wire::entry::{Author, Body, Mode, Role};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::{ErrorCode, Send};
use danmaku_wire::position::Epoch;

use super::scripted_store::ScriptedStore;

const UNSTORED_MAX: u64 = 10;
const UNSTORED_BYTES_MAX: usize = 1_400;
const STALL_MAX_US: u64 = 2_000_000;
const WINDOW_US: u64 = 5_000_000;
const SEAL_INTERVAL_US: u64 = 5_000;
const SEAL_BYTES_MAX: usize = 600;
const TEXTS: [&str; 2] = ["hello", "a text that is rather longer than the other one of these two"];

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Publish {
        user: u8,
        id: Option<u8>,
        text: u8,
    },
    /// The end of a worker's turn: what was released goes to the store and, when it is due, to the log.
    Turn,
    Commit {
        entries: usize,
    },
    FailForGood,
    HearFromStore,
    Wait {
        ms: u64,
    },
    Age,
    RestartOwner,
}

/// What is known of a publish with an id.
#[derive(Debug, Clone, Copy)]
struct Said {
    text: u8,
    seq: u64,
    at_us: u64,
    pending: bool,
}

pub(crate) struct World {
    durability: Durability,
    now: Now,
    owner: Owner<u32>,
    store: ScriptedStore,
    said: HashMap<(u8, u8), Said>,
    /// Promised answers: number of the promise → id and sequence.
    promised: BTreeMap<u32, (String, u64)>,
    promises: u32,
    /// Released and not heard of: sequence → bytes and time.
    unsettled: BTreeMap<u64, (usize, u64)>,
    /// Numbers that somebody may have seen.
    shown: BTreeSet<u64>,
    epoch_of: BTreeMap<u64, Epoch>,
    last_seq: u64,
    /// Of this epoch; what was given last before it begins.
    kept: u64,
    open_bytes: usize,
    sealed_us: Option<u64>,
}

fn epoch(n: usize) -> Epoch {
    Epoch::parse(&format!("e{n}")).expect("valid")
}

impl World {
    pub(crate) fn new(durability: Durability) -> Self {
        let now = Now { us: 60_000_000, wall_ms: 1_700_000_000_000 };
        let mut store = ScriptedStore::new(20);
        store.told_late = durability != Durability::Memory;
        let (owner, last_seq) = Self::start_owner(durability, &mut store, now);
        Self {
            durability,
            now,
            owner,
            store,
            said: HashMap::new(),
            promised: BTreeMap::new(),
            promises: 0,
            unsettled: BTreeMap::new(),
            shown: BTreeSet::new(),
            epoch_of: BTreeMap::new(),
            last_seq,
            kept: last_seq,
            open_bytes: 0,
            sealed_us: None,
        }
    }

    fn start_owner(durability: Durability, store: &mut ScriptedStore, now: Now) -> (Owner<u32>, u64) {
        let loaded = store.load();
        let fresh = epoch(store.begun());
        let last_seq = loaded.epochs.last().map_or(0, |(_, seq)| seq + UNSTORED_MAX);
        let config = Config {
            limits: Limits {
                modes: Modes::of(Acts::Off),
                user: None,
                room: None,
                ids: danmaku_room::admission::idempotency::Bounds { window_us: WINDOW_US, ids_max: 1_000 },
                ..Limits::default()
            },
            held: danmaku_room::owner::held::Bounds::default(),
            asked: None,
            durability,
            seal_interval_us: SEAL_INTERVAL_US,
            sanctions_max: 64,
            reports: danmaku_room::owner::reports::Bounds::default(),
            traces_sampled: 0.0,
            seal_bytes_max: SEAL_BYTES_MAX,
            log: RingBounds { bytes_max: 2_000, age_max_us: 10_000_000 },
            unstored_max: UNSTORED_MAX,
            unstored_bytes_max: UNSTORED_BYTES_MAX,
            stall_max_us: STALL_MAX_US,
            secret: [7; 16],
        };
        let room = RoomId::parse("r1").expect("valid");
        let owner = Owner::start(room, fresh.clone(), loaded, config, now);
        store.begin(fresh, last_seq + 1);
        (owner, last_seq)
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::Publish { user, id, text } => self.publish(user, id, text),
            Op::Turn => self.turn(),
            Op::Commit { entries } => self.store.commit(entries),
            Op::FailForGood => self.store.fail(),
            Op::HearFromStore => self.hear(),
            Op::Wait { ms } => {
                self.now.us += ms * 1_000;
                self.now.wall_ms += ms;
            }
            Op::Age => self.owner.age(self.now),
            Op::RestartOwner => self.restart(),
        }
        assert_eq!(self.owner.unstored(), self.unsettled.len());
        if self.owner.idle() {
            assert!(self.promised.is_empty() && self.unsettled.is_empty() && self.open_bytes == 0);
        }
    }

    /// Whether the owner may show more, by what it has not heard of.
    fn closed(&self) -> bool {
        let bytes: usize = self.unsettled.values().map(|(bytes, _)| bytes).sum();
        let oldest_us = self.unsettled.values().next().map_or(self.now.us, |(_, us)| *us);
        self.last_seq - self.kept >= UNSTORED_MAX
            || bytes >= UNSTORED_BYTES_MAX
            || self.now.us - oldest_us > STALL_MAX_US
    }

    /// What the owner must remember of an id now.
    fn remembered(&self, user: u8, id: Option<u8>) -> Option<Said> {
        let said = self.said.get(&(user, id?))?;
        (said.pending || self.now.us - said.at_us < WINDOW_US).then_some(*said)
    }

    fn publish(&mut self, user: u8, id: Option<u8>, text: u8) {
        let name = id.map_or(String::new(), |id| format!("k-{id}"));
        let author = Arc::new(Author {
            id: UserId::parse(&format!("u{user}")).expect("valid"),
            name: "".into(),
            role: Role::Viewer,
            level: 0,
            badges: Vec::new(),
        });
        let send = Send {
            id: &name,
            text: TEXTS[usize::from(text)],
            mode: Mode::Scroll,
            color: 0,
            size: 25,
            stream_ms: None,
            traceparent: "",
        };
        let promise = self.promises;
        let fate = self.owner.publish(
            &mut WorkerGate::default(),
            self.now,
            &author,
            Standing::default(),
            &send,
            || promise,
        );
        self.promises += 1;
        match self.remembered(user, id) {
            Some(said) if said.text != text => self.check_refused(fate, ErrorCode::IdReused),
            Some(said) if said.pending => {
                if self.promised.len() as u64 >= 2 * UNSTORED_MAX {
                    return self.check_refused(fate, ErrorCode::StoreUnavailable);
                }
                assert_eq!(fate, Fate::Pending, "a retry waits with the first");
                self.promised.insert(promise, (name, said.seq));
            }
            Some(said) => {
                assert_eq!(fate, Fate::Accepted { seq: said.seq }, "a retry is told what the first was");
                assert_eq!(self.owner.epoch_of(said.seq), &self.epoch_of[&said.seq]);
            }
            None if self.closed() => self.check_refused(fate, ErrorCode::StoreUnavailable),
            None => self.released(fate, user, id, text, name, promise),
        }
    }

    fn check_refused(&self, fate: Fate, code: ErrorCode) {
        assert!(matches!(fate, Fate::Refused(refusal) if refusal.code == code), "{fate:?}, not {code:?}");
    }

    fn released(&mut self, fate: Fate, user: u8, id: Option<u8>, text: u8, name: String, promise: u32) {
        self.last_seq += 1;
        let seq = self.last_seq;
        let pending = self.durability == Durability::Stored;
        let expected = if pending { Fate::Pending } else { Fate::Accepted { seq } };
        assert_eq!(fate, expected);
        assert!(!self.shown.contains(&seq), "{seq} was shown before");
        self.epoch_of.insert(seq, self.owner.epoch().clone());
        if let Some(id) = id {
            self.said.insert((user, id), Said { text, seq, at_us: self.now.us, pending });
        }
        if pending {
            self.promised.insert(promise, (name, seq));
        }
        let bytes = self.bytes_of(text);
        self.open_bytes += bytes;
        self.unsettled.insert(seq, (bytes, self.now.us));
    }

    fn bytes_of(&self, text: u8) -> usize {
        let empty = danmaku_wire::entry::Entry {
            seq: 1,
            at_ms: 0,
            visibility: danmaku_wire::entry::Visibility::Staff,
            body: Body::Pin { of: 0 },
        };
        entry_bytes(&empty) + TEXTS[usize::from(text)].len()
    }

    fn turn(&mut self) {
        self.owner.end_turn();
        if let Some(append) = self.owner.take_append() {
            self.store.append(append);
        }
        let now_us = self.now.us;
        if self.owner.seal_due_us().is_some_and(|due| due <= now_us) {
            let batch = self.owner.seal(self.now).expect("what is due is there");
            assert_eq!(batch.to, self.last_seq, "everything open is sealed");
            let announced = self.durability == Durability::Memory || self.store.knows(&batch.epoch);
            assert!(announced, "the next owner would not know of this epoch");
            self.shown.extend(batch.from..=batch.to);
            let quiet = self.sealed_us.is_none_or(|at| now_us - at >= SEAL_INTERVAL_US);
            assert!(quiet || self.open_bytes >= SEAL_BYTES_MAX, "sealed too soon");
            (self.sealed_us, self.open_bytes) = (Some(now_us), 0);
        } else if self.open_bytes > 0 && self.owner.is_announced() {
            let waits = self.sealed_us.is_some_and(|at| now_us - at < SEAL_INTERVAL_US);
            assert!(waits && self.open_bytes < SEAL_BYTES_MAX, "what is open waits for no reason");
        } else {
            assert_eq!(self.owner.seal_due_us(), None);
        }
    }

    fn hear(&mut self) {
        let (stored, failed) = self.store.progress();
        let mut answers = Vec::new();
        self.owner.progress(stored, failed, &mut answers);
        let settled = stored.max(failed);
        self.kept = self.kept.max(stored);
        self.unsettled.retain(|seq, _| *seq > settled);
        for said in self.said.values_mut() {
            said.pending &= said.seq > settled;
        }
        let mut lost = Vec::new();
        for answer in answers {
            let (id, seq) = self.promised.remove(&answer.reply).expect("promised, and answered once");
            assert_eq!((&*answer.id, answer.seq), (&*id, seq));
            assert_eq!(answer.stored, self.store.holds(seq), "the answer for {seq} is true");
            if !answer.stored {
                lost.push(seq);
            }
        }
        // What was not kept may be said again under the same id.
        self.said.retain(|_, said| !lost.contains(&said.seq));
        assert!(self.promised.values().all(|(_, seq)| *seq > settled), "what is settled is answered");
    }

    fn restart(&mut self) {
        let (owner, last_seq) = Self::start_owner(self.durability, &mut self.store, self.now);
        (self.owner, self.last_seq, self.kept) = (owner, last_seq, last_seq);
        self.promised.clear();
        self.unsettled.clear();
        (self.open_bytes, self.sealed_us) = (0, None);
        let store = &self.store;
        self.said.retain(|_, said| {
            said.pending = false;
            store.holds(said.seq)
        });
    }

    /// The store catches up; nothing is owed then, and after the window nothing is remembered.
    pub(crate) fn come_to_rest(&mut self) {
        self.turn();
        while self.store.busy() {
            self.store.commit(usize::MAX);
        }
        self.hear();
        assert!(self.promised.is_empty(), "{:?} were never answered", self.promised);
        self.apply(Op::Wait { ms: WINDOW_US / 1_000 });
        self.apply(Op::Turn);
        self.apply(Op::Age);
        // What was given up makes way for another owner.
        assert!(self.owner.idle() || self.owner.failed(), "nothing is owed");
    }
}
