//! The one place that orders a room: admission, then a sequence, then a sealed batch.
//!
//! In come publishes, store progress and the time; out go fates, appends for the store and batches on
//! the chain that replicas follow. Exactly one worker holds the owner of a room, so everything in here
//! is plain single-threaded data. `seq` is given at release, never before.

pub mod asked;
pub mod held;
mod orders;
pub mod pushed;
pub mod reports;
mod sealing;
mod state;
mod succession;
mod upkeep;

use std::collections::VecDeque;
use std::sync::Arc;

use danmaku_wire::entry::{Author, Body, Comment, Entry, SIZE_MAX, SIZE_MIN, Tier, Visibility};
use danmaku_wire::id::{CLIENT_ID_BYTES_MAX, RoomId};
use danmaku_wire::native::{ErrorCode, Send};
use danmaku_wire::position::{Epoch, Position, SEQ_MAX};
use siphasher::sip::SipHasher13;

use crate::Now;
use crate::admission::gate::{Ask, Gate, Permit};
use crate::admission::idempotency::{Idempotency, Key, Known};
use crate::admission::policy::keeps_order;
use crate::admission::rule::{Mode, Rule};
use crate::admission::words::Screened;
use crate::admission::worker_gate::WorkerGate;
use crate::admission::{Limits, Refusal, Standing, text};
use crate::batch::{Batch, entry_bytes};
use crate::house::board::Board;
use crate::house::settings::{Settings, State};
use crate::house::stage::Stage;
use crate::log::{RingBounds, RoomLog};
use crate::snapshot::{self, Viewer};
use crate::store::{Append, Durability, Loaded, StoredId};
use crate::traces;
use asked::{Asking, ToAsk};
use held::{Holding, Reason, ToHold};

pub use orders::Done;

/// How an owner is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// Admission limits.
    pub limits: Limits,
    /// What is held, and for how long.
    pub held: held::Bounds,
    /// What viewers may report.
    pub reports: reports::Bounds,
    /// How the platform is asked about comments; `None`: it is not.
    pub asked: Option<asked::Bounds>,
    /// What an ack promises.
    pub durability: Durability,
    /// The least time between two seals of a busy room, microseconds.
    pub seal_interval_us: u64,
    /// Canonical bytes at which an open batch is sealed whatever the time.
    pub seal_bytes_max: usize,
    /// How much of the log stays in memory.
    pub log: RingBounds,
    /// Entries shown but not stored, at most; also the distance between two epochs' numbers.
    pub unstored_max: u64,
    /// Canonical bytes shown but not stored, at most.
    pub unstored_bytes_max: usize,
    /// A store that has not moved for so long stops sequencing, microseconds.
    pub stall_max_us: u64,
    /// Sanctions in force, at most.
    pub sanctions_max: usize,
    /// Of the traces that clients begin, the share that is marked to be recorded; 0 to 1.
    pub traces_sampled: f64,
    /// Secret of the keyed hashes over what strangers choose.
    pub secret: [u8; 16],
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            held: held::Bounds::default(),
            reports: reports::Bounds::default(),
            asked: None,
            durability: Durability::Stored,
            seal_interval_us: 5_000,
            seal_bytes_max: 16 << 10,
            log: RingBounds { bytes_max: 1 << 20, age_max_us: 60_000_000 },
            unstored_max: 4_096,
            unstored_bytes_max: 4 << 20,
            stall_max_us: 2_000_000,
            sanctions_max: 1_024,
            traces_sampled: 0.0,
            secret: [0; 16],
        }
    }
}

/// What becomes of a publish, as far as it is known at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Sequenced and, as far as the room's durability promises, kept.
    Accepted {
        /// Its number in the current epoch.
        seq: u64,
    },
    /// Sequenced, or asked about; the answer comes later.
    Pending,
    /// Taken, and waits for its delay or a moderator.
    Held,
    /// Not taken.
    Refused(Refusal),
}

/// A late answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<R> {
    /// Who waits for it.
    pub reply: R,
    /// The client's id.
    pub id: Box<str>,
    /// The number given.
    pub seq: u64,
    /// Whether it was kept; if not, it was shown but is not in the history.
    pub stored: bool,
}

#[derive(Debug)]
struct PendingAck<R> {
    seq: u64,
    key: Option<Key>,
    reply: R,
    id: Box<str>,
}

/// The owner of one room. `R` is where a late answer goes.
#[derive(Debug)]
pub struct Owner<R> {
    room: RoomId,
    epoch: Epoch,
    config: Config,
    log: RoomLog,
    next_seq: u64,
    // The open batch.
    open: Vec<Arc<Entry>>,
    open_bytes: usize,
    open_flushes: u32,
    open_this_turn: bool,
    sealed_us: Option<u64>,
    seal_interval_us: u64,
    links: u32,
    // Admission.
    ids: Idempotency,
    gate: Gate,
    holding: Holding,
    reports: reports::Reports,
    asking: Asking<R>,
    // Store.
    /// The number before the epoch's first.
    before: u64,
    appended: u64,
    to_append: Vec<Arc<Entry>>,
    ids_to_append: Vec<StoredId>,
    /// The last sequence that the store has taken or given up: what the log may let go of.
    stored: u64,
    /// The last sequence that the store has taken.
    kept: u64,
    unstored: VecDeque<(u64, usize, u64)>,
    unstored_bytes: usize,
    pending: VecDeque<PendingAck<R>>,
    active_us: u64,
    /// The epochs before, each with its last number, oldest first.
    past: Vec<(Epoch, u64)>,
    board: Board,
    settings: Settings,
    stage: Stage,
    /// The configuration of the room's class, where something is set over it.
    class: Option<Box<Config>>,
    /// What members know of the state.
    told: Arc<State>,
}

impl<R> Owner<R> {
    /// Starts ownership in a new `epoch`, after what the store knows of the room.
    ///
    /// The first number is beyond everything that an owner before could have shown without storing it,
    /// so that no two entries of a room ever share a number.
    pub fn start(room: RoomId, epoch: Epoch, loaded: Loaded, config: Config, now: Now) -> Self {
        let base = loaded.epochs.last().map_or(1, |(_, seq)| seq + 1 + config.unstored_max);
        let log = succession::inherited_log(&epoch, base, &loaded, &config, now);
        let holding = Holding::new(&config.secret, &epoch);
        let mut ids = Idempotency::new(config.limits.ids);
        for id in &loaded.ids {
            let age_us = now.wall_ms.saturating_sub(id.at_ms).saturating_mul(1_000);
            ids.remember(id.key, id.payload, id.seq, true, now.us.saturating_sub(age_us));
        }
        let mut gate = Gate::new(config.limits.clone(), config.secret);
        let board = loaded.board();
        for sanction in &loaded.house.sanctions {
            let _ = gate.sanctions_mut().put(sanction.clone(), now.wall_ms, usize::MAX);
        }
        let told = board.told_state();
        let mut owner = Self {
            room,
            epoch,
            log,
            next_seq: base,
            open: Vec::new(),
            open_bytes: 0,
            open_flushes: 0,
            open_this_turn: false,
            sealed_us: None,
            seal_interval_us: config.seal_interval_us,
            links: 0,
            ids,
            gate,
            holding,
            reports: reports::Reports::default(),
            asking: Asking::default(),
            before: base - 1,
            appended: base - 1,
            to_append: Vec::new(),
            ids_to_append: Vec::new(),
            stored: base - 1,
            kept: base - 1,
            unstored: VecDeque::new(),
            unstored_bytes: 0,
            pending: VecDeque::new(),
            active_us: now.us,
            past: loaded.epochs,
            board,
            settings: loaded.house.settings,
            stage: loaded.house.stage,
            class: None,
            told: Arc::default(),
            config: config.clone(),
        };
        owner.take_config(config);
        // Who comes into a room that was never told of is told what holds.
        owner.told = Arc::new(told.unwrap_or_else(|| owner.state_in_force()));
        owner
    }

    /// Takes other settings over while the room goes on. What users have spent of their buckets stays
    /// spent; a window whose size changes is counted anew. What an ack promises stays as long as this owner does: what
    /// came before is kept where it was. The secret must be the one it has.
    pub fn reconfigure(&mut self, config: Config) {
        let config = Config { durability: self.config.durability, ..config };
        assert_eq!(config.secret, self.config.secret, "hashed keys outlive settings");
        self.ids.set_bounds(config.limits.ids);
        self.log.set_bounds(config.log);
        self.seal_interval_us = config.seal_interval_us;
        self.take_config(config);
    }

    /// A viewer's comment: through admission to a number, or refused.
    ///
    /// `worker` is what all rooms of its worker are held to. `reply` is asked for only where the answer comes later.
    pub fn publish(
        &mut self,
        worker: &mut WorkerGate,
        now: Now,
        user: &Arc<Author>,
        standing: Standing,
        send: &Send<'_>,
        reply: impl FnOnce() -> R,
    ) -> Fate {
        self.active_us = now.us;
        match self.admit(worker, now, user, standing, send) {
            Err(refusal) => Fate::Refused(refusal),
            Ok(Admitted::Again(seq)) => Fate::Accepted { seq },
            // Attaching costs no token, so its number has its own bound: one more each on the average.
            Ok(Admitted::Attach(..)) if self.pending.len() as u64 >= 2 * self.config.unstored_max => {
                Fate::Refused(Refusal::until(ErrorCode::StoreUnavailable, 500_000))
            }
            Ok(Admitted::Attach(seq, key)) => {
                self.wait(seq, Some(key), reply(), send.id);
                Fate::Pending
            }
            Ok(Admitted::Held) => Fate::Held,
            Ok(Admitted::AttachAsked(key)) => {
                self.asking.attach(key, reply(), send.id);
                Fate::Pending
            }
            Ok(Admitted::New { text, ids, permit, screened, held }) => {
                self.gate.charge(worker, now, &permit);
                let Config { secret, traces_sampled, .. } = &self.config;
                let span = traces::span(secret, *traces_sampled, send.traceparent.as_bytes());
                let visibility = match screened {
                    Screened::Shadowed => Visibility::Author(user.id.clone()),
                    _ if permit.shadowed() => Visibility::Author(user.id.clone()),
                    _ => Visibility::Tier(Tier::Lite),
                };
                let text = match screened {
                    Screened::Masked(text) => text,
                    _ => text.into(),
                };
                let comment = Comment {
                    user: Arc::clone(user),
                    text,
                    mode: send.mode,
                    color: send.color,
                    size: send.size.clamp(SIZE_MIN, SIZE_MAX),
                    stream_ms: self.stage.stream_ms(now, send.stream_ms),
                    trace: span.filter(|_| permit.priority()).map(Box::new),
                };
                if !matches!(held, Some(Reason::Words | Reason::Spread)) && self.asks() {
                    let number = self.holding.take_number();
                    self.asking.mention(number, &comment, span);
                    if self.gate.mode(Rule::Webhook) == Mode::Enforce {
                        if let Some((key, payload)) = ids {
                            self.ids.ask(key, payload, now.us);
                        }
                        let (by, delayed) = (self.gate.hash_of(user), held.is_some());
                        let (reply, id) = (reply(), send.id.into());
                        let ask = ToAsk { by, comment, visibility, ids, delayed, reply, id };
                        self.asking.wait(number, ask);
                        return Fate::Pending;
                    }
                }
                if let Some(reason) = held {
                    if let Some((key, payload)) = ids {
                        self.ids.hold(key, payload, now.us);
                    }
                    let to_hold = ToHold { comment, visibility, ids, reason };
                    self.holding.hold(&self.config.held, to_hold, now);
                    return Fate::Held;
                }
                let comment = Comment { user: self.shown_author(now, user), ..comment };
                let seq = self.release(now, visibility, Body::Comment(comment));
                self.promise(now, seq, ids, reply, send.id)
            }
        }
    }

    /// What is said of an entry that has its number: at once, or when the store has it as well. Its id is known from here on.
    fn promise(
        &mut self,
        now: Now,
        seq: u64,
        ids: Option<(Key, u64)>,
        reply: impl FnOnce() -> R,
        id: &str,
    ) -> Fate {
        let acked = self.config.durability != Durability::Stored;
        if let Some((key, payload)) = ids {
            self.ids.remember(key, payload, seq, acked, now.us);
            self.ids_to_append.push(StoredId { key, payload, seq, at_ms: now.wall_ms });
        }
        if acked {
            return Fate::Accepted { seq };
        }
        self.wait(seq, ids.map(|(key, _)| key), reply(), id);
        Fate::Pending
    }

    fn admit<'a>(
        &mut self,
        worker: &mut WorkerGate,
        now: Now,
        user: &Author,
        standing: Standing,
        send: &Send<'a>,
    ) -> Result<Admitted<'a>, Refusal> {
        let text = text::check(send.text, &self.config.limits.text).map_err(Refusal::of)?;
        if send.id.len() > CLIENT_ID_BYTES_MAX || send.id.chars().any(char::is_control) {
            return Err(Refusal::of(ErrorCode::IdInvalid));
        }
        let ids = (!send.id.is_empty()).then(|| {
            let key = Key::new(&self.config.secret, user.id.as_str(), send.id);
            (key, payload_hash(&self.config.secret, send))
        });
        if let Some((key, payload)) = ids {
            match self.ids.look_up(key, payload, now.us) {
                Known::New => {}
                Known::Acked(seq) => return Ok(Admitted::Again(seq)),
                Known::Pending(seq) => return Ok(Admitted::Attach(seq, key)),
                Known::Held => return Ok(Admitted::Held),
                Known::Asked if self.asking.may_attach(key) => return Ok(Admitted::AttachAsked(key)),
                Known::Asked => return Err(Refusal::until(ErrorCode::Overloaded, 500_000)),
                Known::Reused => return Err(Refusal::of(ErrorCode::IdReused)),
                Known::Full(us) => return Err(Refusal::until(ErrorCode::IdsFull, us)),
            }
        }
        self.may_release(now)?;
        // Sessions do not tell the name of their program.
        let permit = self.gate.examine(worker, now, &Ask { user, standing, client: "", send, text })?;
        let screened = self.gate.screen(text)?;
        let delayed = self.config.held.delay_us > 0 && !permit.priority() && !keeps_order(user.role);
        let held = match screened {
            Screened::Held => Some(Reason::Words),
            _ if permit.spreads() => Some(Reason::Spread),
            _ => delayed.then_some(Reason::Delay),
        };
        if let Some(reason) = held {
            self.holding.check(&self.config.held, reason, now.us)?;
        }
        if let Some(bounds) = &self.config.asked
            && self.asks()
            && self.asking.is_full(bounds)
        {
            self.holding.count_asked_full();
            return Err(Refusal::until(ErrorCode::Overloaded, 200_000));
        }
        Ok(Admitted::New { text, ids, permit, screened, held })
    }

    /// Whether the platform is asked about comments.
    fn asks(&self) -> bool {
        self.config.asked.is_some() && self.gate.mode(Rule::Webhook) != Mode::Off
    }

    /// The author as others are to see it: without what the room's lists find in its name.
    fn shown_author(&mut self, now: Now, user: &Arc<Author>) -> Arc<Author> {
        match self.gate.screen_name(&user.name, now.us) {
            None => Arc::clone(user),
            Some(name) => Arc::new(Author { name: name.into(), ..Author::clone(user) }),
        }
    }

    /// The stall rule: what was shown but not stored is bounded in number, bytes and age.
    ///
    /// The number counts from the last entry that was kept, what the store gave up included: the next
    /// owner begins that far behind it, and must find no number used.
    ///
    /// # Errors
    /// `store_unavailable` while nothing more may be released.
    pub fn may_release(&self, now: Now) -> Result<(), Refusal> {
        let full = (self.next_seq - 1).saturating_sub(self.kept) >= self.config.unstored_max
            || self.unstored_bytes >= self.config.unstored_bytes_max;
        let oldest_us = self.unstored.front().map_or(now.us, |(_, _, us)| *us);
        let stalled = now.us.saturating_sub(oldest_us) > self.config.stall_max_us;
        if full || stalled || self.next_seq > SEQ_MAX {
            return Err(Refusal::until(ErrorCode::StoreUnavailable, 500_000));
        }
        Ok(())
    }

    /// Gives the next number to an entry: what every release goes through, whoever caused it, after
    /// [`Self::may_release`].
    pub fn release(&mut self, now: Now, visibility: Visibility, body: Body) -> u64 {
        let visibility = match (&body, visibility) {
            (Body::Comment(comment), Visibility::Tier(Tier::Lite)) => {
                Visibility::Tier(self.gate.display(now, &comment.user))
            }
            (Body::Event(_), visibility) => {
                self.gate.display_event(now);
                visibility
            }
            (_, visibility) => visibility,
        };
        let seq = self.next_seq;
        self.next_seq += 1;
        let entry = Arc::new(Entry { seq, at_ms: now.wall_ms, visibility, body });
        let bytes = entry_bytes(&entry);
        self.open_bytes += bytes;
        self.unstored.push_back((seq, bytes, now.us));
        self.unstored_bytes += bytes;
        self.to_append.push(Arc::clone(&entry));
        if Board::heeds(&entry.body) && matches!(entry.visibility, Visibility::Tier(_)) {
            let mut board = std::mem::take(&mut self.board);
            board.note(&entry, |of| self.entry(of).cloned());
            self.board = board;
        }
        self.open.push(entry);
        self.open_this_turn = true;
        self.active_us = now.us;
        seq
    }

    fn wait(&mut self, seq: u64, key: Option<Key>, reply: R, id: &str) {
        let at = self.pending.partition_point(|p| p.seq <= seq);
        self.pending.insert(at, PendingAck { seq, key, reply, id: id.into() });
    }

    /// What the store is to append now, if anything.
    pub fn take_append(&mut self) -> Option<Append> {
        let last = self.to_append.last()?.seq;
        let expected = std::mem::replace(&mut self.appended, last);
        Some(Append {
            room: self.room.clone(),
            epoch: self.epoch.clone(),
            durability: self.config.durability,
            expected,
            entries: std::mem::take(&mut self.to_append),
            ids: std::mem::take(&mut self.ids_to_append),
        })
    }

    /// The store has come to `stored` and given up what is not stored up to `failed`; pushes the
    /// answers that were waiting.
    pub fn progress(&mut self, stored: u64, failed: u64, answers: &mut Vec<Answer<R>>) {
        self.stored = self.stored.max(stored);
        self.kept = self.kept.max(stored);
        let settled = stored.max(failed);
        while self.unstored.front().is_some_and(|(seq, ..)| *seq <= settled) {
            if let Some((_, bytes, _)) = self.unstored.pop_front() {
                self.unstored_bytes -= bytes;
            }
        }
        while self.pending.front().is_some_and(|p| p.seq <= settled) {
            let Some(p) = self.pending.pop_front() else { break };
            let kept = p.seq <= stored;
            match p.key {
                Some(key) if kept => self.ids.acked(key),
                Some(key) => self.ids.release(key),
                None => {}
            }
            answers.push(Answer { reply: p.reply, id: p.id, seq: p.seq, stored: kept });
        }
        // Given up counts as settled for the log too: it would otherwise hold those entries for ever.
        self.stored = self.stored.max(failed);
    }

    /// Ends ownership before its time: who still waits for an answer, to be told to try again. Their ids
    /// find what was stored under them at the next owner.
    pub fn abandon(&mut self) -> impl Iterator<Item = (R, Box<str>)> + use<'_, R> {
        let asked = self.asking.abandon();
        self.pending.drain(..).map(|p| (p.reply, p.id)).chain(asked)
    }

    /// Another worker's replica follows the chain from here on: its backlog and the chain's end.
    pub fn attach(&mut self, now: Now) -> (Vec<Arc<Batch>>, Arc<Batch>) {
        // Whoever attaches gets what is released already; the open batch would come to it twice.
        self.seal(now);
        self.links += 1;
        self.active_us = now.us;
        (self.log.batches().cloned().collect(), Arc::clone(self.log.tail()))
    }

    /// What a stranger is shown first: the position of the newest sealed batch and, unless that is `known` already,
    /// the newest entries up to it as the guest of a `standard` tier sees them. Cheap: shares entries, copies none.
    pub fn newest(&self, known: Option<&Position>, count_max: usize) -> (Position, Option<Vec<Arc<Entry>>>) {
        let position = Position { epoch: self.epoch.clone(), seq: self.log.tail().to };
        if known == Some(&position) {
            return (position, None);
        }
        let entries = self.log.batches().rev().flat_map(|b| b.entries.iter().rev());
        let newest = snapshot::newest_of(entries, &self.board, Viewer::GUEST, count_max);
        (position, Some(newest.into_iter().cloned().collect()))
    }

    /// A link is gone.
    pub fn detach(&mut self, now: Now) {
        self.links = self.links.saturating_sub(1);
        self.active_us = now.us;
    }

    /// Whether the room could be forgotten: no link, nothing pending or unstored, every window expired, nothing decided
    /// that still holds.
    pub fn idle(&self) -> bool {
        self.links == 0
            && self.pending.is_empty()
            && self.unstored.is_empty()
            && self.open.is_empty()
            && self.ids.is_empty()
            && self.holding.is_empty()
            && self.reports.is_empty()
            && self.asking.is_empty()
            && self.gate.is_idle()
            // What was decided is kept nowhere else.
            && self.gate.sanctions().is_empty()
            && self.board.pin.is_none()
            && self.settings.is_empty()
            && self.stage.is_open()
    }

    /// When the room was last used, microseconds.
    pub fn active_us(&self) -> u64 {
        self.active_us
    }

    /// The room.
    pub fn room(&self) -> &RoomId {
        &self.room
    }

    /// The current epoch.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The epoch of a number that was acked: not always the current one, since ids outlive owners.
    pub fn epoch_of(&self, seq: u64) -> &Epoch {
        let at = self.past.partition_point(|(_, last)| *last < seq);
        self.past.get(at).map_or(&self.epoch, |(epoch, _)| epoch)
    }

    /// Whether the store has given up entries: it takes no more of this epoch, so the room needs a new
    /// owner.
    pub fn failed(&self) -> bool {
        self.stored > self.kept
    }

    /// How it is set up at the moment.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The log.
    pub fn log(&self) -> &RoomLog {
        &self.log
    }

    /// Entries shown but not stored.
    pub fn unstored(&self) -> usize {
        self.unstored.len()
    }

    /// Links attached.
    pub fn links(&self) -> u32 {
        self.links
    }
}

/// What admission says of a publish that it does not refuse.
enum Admitted<'a> {
    /// A number is to be given.
    New { text: &'a str, ids: Option<(Key, u64)>, permit: Permit, screened: Screened, held: Option<Reason> },
    /// The same publish was acked before.
    Again(u64),
    /// The same publish was held.
    Held,
    /// The platform is asked about the same publish.
    AttachAsked(Key),
    /// The same publish waits for the store.
    Attach(u64, Key),
}

/// A hash of all that a publish says, so that the same id with other words is noticed.
fn payload_hash(secret: &[u8; 16], send: &Send<'_>) -> u64 {
    use std::hash::Hasher;
    let mut hasher = SipHasher13::new_with_key(secret);
    hasher.write(send.text.as_bytes());
    hasher.write_u8(send.mode as u8);
    hasher.write_u32(send.color);
    hasher.write_u8(send.size);
    hasher.finish()
}
