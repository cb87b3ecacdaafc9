//! The embedded store: SQLite files, one per day, written by one thread in groups and read by another.
//!
//! What the owners append waits in a queue. The writer takes what is there, at most [`Settings::commit_entries`] and
//! not sooner than [`Settings::commit_interval`] after it last began, and commits it in one transaction: entries with
//! their ids, and the epochs that begin with them. An answer is given when the write-ahead log is on the disk. A
//! third thread moves that log into the file, so that no commit waits for it, and removes what is too old. A commit that fails is not tried again:
//! its entries are given up, the connection is closed, and a new one first takes out what the failed one may have
//! left. Until that has succeeded, the queue waits and [`StoreTally::is_down`] is true.

mod checkpoint;
mod commit;
mod day;
mod decisions;
mod faults;
mod load;
mod retention;
mod row;
mod schema;
mod writer;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use danmaku_room::batch::entry_bytes;
use danmaku_room::house::House;
use danmaku_room::store::{Append, Durability, Loaded, Progress, Promise, Store};
use danmaku_wire::id::RoomId;

use super::secret::{self, SecretError};
use super::tally::StoreTally;
pub use faults::Faults;
pub use retention::Keep;
pub use schema::FileError;

/// How a store is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory, which is made if it is not there.
    pub dir: PathBuf,
    /// The least time between the beginnings of two commits.
    pub commit_interval: Duration,
    /// How long entries may wait whose acks do not.
    pub relaxed_interval: Duration,
    /// Entries of one commit, at most; an append is not divided.
    pub commit_entries: usize,
    /// Bytes that may wait for a commit; what comes beyond is given up.
    pub queue_bytes_max: usize,
    /// How much a room's next owner is told.
    pub loaded: Bounds,
    /// How long history is kept.
    pub keep: Keep,
    /// What tests let go wrong.
    pub faults: Faults,
}

/// How much is read of a room for its owner.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Newest entries.
    pub entries_max: usize,
    /// Ids within their window.
    pub ids_max: usize,
    /// The window of ids, milliseconds.
    pub ids_ms: u64,
    /// Epochs.
    pub epochs_max: usize,
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be used.
    #[error("the store's directory {} cannot be used: {source}", dir.display())]
    Dir {
        /// Which.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file in it cannot be used.
    #[error("the store cannot be opened: {0}")]
    File(#[from] FileError),
    /// Its secret cannot be used.
    #[error("the store cannot be opened: {0}")]
    Secret(#[from] SecretError),
    /// A thread cannot be started.
    #[error("the store's threads cannot be started: {0}")]
    Thread(io::Error),
}

/// What the writer is asked for.
enum Job {
    Append(Append, Arc<Progress>, usize),
    /// What staff decided in a room.
    Keep(RoomId, Box<House>),
    /// A room to be read when everything that was appended before is committed.
    Load(Question),
    /// Everything before this is committed, then the writer ends.
    Stop,
}

/// What the reader is asked for.
struct Question {
    room: RoomId,
    /// Whether more is wanted than what staff decided.
    entries: bool,
    answer: Arc<Promise<Loaded>>,
}

impl Question {
    fn of(room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) -> Self {
        Self { room: room.clone(), entries: durability != Durability::Memory, answer }
    }
}

/// The embedded store.
pub struct SqliteStore {
    jobs: mpsc::Sender<Job>,
    questions: mpsc::Sender<Question>,
    queue_bytes_max: u64,
    tally: Arc<StoreTally>,
    secret: [u8; 16],
    full: AtomicBool,
    /// Whether nothing is waited for any more.
    closing: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens a store, or makes an empty one, and starts its threads.
    ///
    /// # Errors
    /// When the directory or a file in it cannot be used: a server that cannot keep what it promises does not start.
    pub fn open(settings: Settings, tally: Arc<StoreTally>) -> Result<Self, OpenError> {
        let dir = settings.dir.clone();
        let unusable = |source| OpenError::Dir { dir: dir.clone(), source };
        make_dir(&dir).map_err(unusable)?;
        let secret = secret::of(&dir)?;
        let (jobs, queue) = channel();
        let (questions, asked) = channel();
        let (wal, watched) = channel();
        let (begun, closing) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut writer = writer::Writer::new(
            &settings,
            questions.clone(),
            wal,
            Arc::clone(&begun),
            Arc::clone(&closing),
            Arc::clone(&tally),
        );
        writer.open()?;
        let loader = load::Loader::open(&dir, settings.loaded, begun)?;
        let queue_bytes_max = settings.queue_bytes_max as u64;
        let told = Arc::clone(&tally);
        let mut threads = Vec::new();
        let mut start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(run).map_err(OpenError::Thread);
            thread.map(|thread| threads.push(thread))
        };
        start("store", Box::new(move || writer.run(&queue)))?;
        start("store-read", Box::new(move || loader.run(&asked, &told)))?;
        let told = Arc::clone(&tally);
        let retention = retention::Retention::new(&dir, settings.keep);
        start("store-log", Box::new(move || checkpoint::run(&watched, retention, &told)))?;
        let (full, threads) = (AtomicBool::new(false), Mutex::new(threads));
        Ok(Self { jobs, questions, queue_bytes_max, tally, secret, full, closing, threads })
    }

    /// The secret of the keyed hashes that are stored.
    pub fn secret(&self) -> [u8; 16] {
        self.secret
    }

    /// Commits everything that was appended, if the disk takes it now, and ends.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        let _ = self.jobs.send(Job::Stop);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // The first is the writer; the others end with what they hear from.
        if let Some(writer) = threads.into_iter().next() {
            let _ = writer.join();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "appends are bounded by `queue_bytes`, decisions by what staff can order, questions by the rooms that are loaded and the snapshots that are \
              made at a time, files by the calendar"
)]
fn channel<T>() -> (mpsc::Sender<T>, mpsc::Receiver<T>) {
    mpsc::channel()
}

fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

impl Store for SqliteStore {
    fn load(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        // The writer ends with the process: then nobody waits for an answer.
        let _ = self.jobs.send(Job::Load(Question::of(room, durability, answer)));
    }

    fn look(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        let _ = self.questions.send(Question::of(room, durability, answer));
    }

    fn keep(&self, room: &RoomId, house: House) {
        let _ = self.jobs.send(Job::Keep(room.clone(), Box::new(house)));
    }

    fn append(&self, append: Append, progress: &Arc<Progress>) {
        let Some(last) = append.entries.last().map(|entry| entry.seq) else { return };
        let bytes: usize = append.entries.iter().map(|entry| entry_bytes(entry)).sum();
        let before = self.tally.queue_bytes.fetch_add(bytes as u64, Ordering::AcqRel);
        if before > 0 && before + bytes as u64 > self.queue_bytes_max {
            self.tally.queue_bytes.fetch_sub(bytes as u64, Ordering::AcqRel);
            self.tally.given_up.fetch_add(append.entries.len() as u64, Ordering::Relaxed);
            if !self.full.swap(true, Ordering::AcqRel) {
                tracing::error!(
                    queue_bytes = before,
                    "the store does not keep up: what waits for it is at `store.queue_bytes`; further comments are \
                     answered with `not_stored`"
                );
            }
            return progress.fail_to(last);
        }
        self.full.store(false, Ordering::Release);
        if self.jobs.send(Job::Append(append, Arc::clone(progress), bytes)).is_err() {
            progress.fail_to(last);
        }
    }
}

#[cfg(test)]
mod tests;
