//! What a room's next owner is told: read from the newest files.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime};

use danmaku_room::admission::idempotency::Key;
use danmaku_room::house::House;
use danmaku_room::house::board::Board;
use danmaku_room::store::{Loaded, StoredId};
use danmaku_wire::entry::Entry;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::{Epoch, SEQ_MAX};
use rusqlite::{Connection, OptionalExtension, Row as Found};

use super::day::Day;
use super::decisions;
use super::row::Row;
use super::schema::{self, FileError};
use super::{Bounds, Question};
use crate::store::tally::StoreTally;

/// How often the directory is looked at for files that went.
const DAYS_FRESH: Duration = Duration::from_secs(1);
/// After so many tries a file is given up that cannot be read.
const TRIES: u32 = 5;
/// The longest wait between two tries to read.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Answers what is known of rooms.
#[derive(Debug)]
pub(super) struct Loader {
    history: History,
    bounds: Bounds,
}

impl Loader {
    /// Opens what is there.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn open(dir: &Path, bounds: Bounds, begun: Arc<AtomicU64>) -> Result<Self, FileError> {
        Ok(Self { history: History::open(dir, begun)?, bounds })
    }

    /// Answers until nobody asks any more.
    pub(super) fn run(mut self, asked: &Receiver<Question>, tally: &Arc<StoreTally>) {
        while let Ok(Question { room, entries, answer }) = asked.recv() {
            let (mut wait, mut tries) = (Duration::from_millis(20), 0);
            let loaded = loop {
                match self.history.room(&room, &self.bounds, entries, wall_ms()) {
                    Ok(loaded) => break loaded,
                    Err(error) => {
                        tries += 1;
                        if tries == 1 {
                            tracing::error!(%error, room = room.as_str(), "a room cannot be read from the store; trying again");
                        }
                        if tries >= TRIES && self.history.set_aside(&error) {
                            tracing::error!(
                                %error,
                                "the file is set aside: what is in it is not shown, and rooms go on without it"
                            );
                            tally.set_aside.fetch_add(1, Ordering::Relaxed);
                            tries = 0;
                        }
                        self.history.close();
                        std::thread::sleep(wait);
                        wait = (wait * 2).min(RETRY_MAX);
                    }
                }
            };
            tally.loads.fetch_add(1, Ordering::Relaxed);
            answer.keep(loaded);
        }
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The files of a store, to be read.
#[derive(Debug)]
pub(super) struct History {
    dir: PathBuf,
    days: Vec<Day>,
    looked_at: Option<Instant>,
    /// How many files the writer has begun.
    begun: Arc<AtomicU64>,
    seen: u64,
    open: HashMap<Day, Connection>,
    /// Days whose files cannot be read.
    unreadable: HashSet<Day>,
    decisions: Option<Connection>,
    /// Whether decisions cannot be read.
    undecided: bool,
}

/// An epoch as a file has it.
struct Begun {
    base: u64,
    epoch: Epoch,
}

impl History {
    /// Opens the files in a directory.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(super) fn open(dir: &Path, begun: Arc<AtomicU64>) -> Result<Self, FileError> {
        let mut history = Self {
            dir: dir.to_owned(),
            days: Vec::new(),
            looked_at: None,
            begun,
            seen: 0,
            open: HashMap::new(),
            unreadable: HashSet::new(),
            decisions: decisions::open(dir)?,
            undecided: false,
        };
        history.look()?;
        for day in history.days.clone() {
            history.connection(day)?;
        }
        Ok(history)
    }

    /// Goes on without the file that an error is about. Whether that changes anything.
    fn set_aside(&mut self, error: &FileError) -> bool {
        if error.path() == decisions::file(&self.dir) {
            return !std::mem::replace(&mut self.undecided, true);
        }
        let day = error.path().file_name().and_then(|name| Day::of_file(name.to_str()?));
        day.is_some_and(|day| self.unreadable.insert(day))
    }

    /// Lets go of all files; they are opened again when they are needed.
    fn close(&mut self) {
        self.open.clear();
        self.decisions = None;
        self.looked_at = None;
    }

    fn look(&mut self) -> Result<(), FileError> {
        let begun = self.begun.load(Ordering::Acquire);
        if begun == self.seen && self.looked_at.is_some_and(|at| at.elapsed() < DAYS_FRESH) {
            return Ok(());
        }
        self.seen = begun;
        let days = Day::in_dir(&self.dir);
        self.days = days.map_err(|source| FileError::Io { path: self.dir.clone(), source })?;
        self.open.retain(|day, _| self.days.contains(day));
        self.looked_at = Some(Instant::now());
        Ok(())
    }

    fn connection(&mut self, day: Day) -> Result<Option<&Connection>, FileError> {
        if !self.open.contains_key(&day) {
            let Some(connection) = schema::open_to_read(&day.file(&self.dir))? else { return Ok(None) };
            self.open.insert(day, connection);
        }
        Ok(self.open.get(&day))
    }

    /// What a room's owner starts from.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn room(
        &mut self,
        room: &RoomId,
        bounds: &Bounds,
        entries: bool,
        now_ms: u64,
    ) -> Result<Loaded, FileError> {
        let house = self.house(room)?;
        let mut loaded = if entries { self.entries(room, bounds, now_ms)? } else { Loaded::default() };
        let last = loaded.epochs.last().map_or(0, |(_, last)| *last);
        let stands = |entry: Option<Arc<Entry>>| entry.filter(|entry| entry.seq <= last);
        let Board { pin, pinned, state } = house.board;
        // What was shown and not stored does not stand.
        let board = match (stands(pin), stands(state)) {
            (Some(pin), state) => Board { pin: Some(pin), pinned, state },
            (None, state) => Board { state, ..Board::default() },
        };
        loaded.house = House { board, ..house };
        Ok(loaded)
    }

    /// What the room's staff has decided.
    fn house(&mut self, room: &RoomId) -> Result<House, FileError> {
        if self.undecided {
            return Ok(House::default());
        }
        if self.decisions.is_none() {
            self.decisions = decisions::open(&self.dir)?;
        }
        let Some(connection) = &self.decisions else { return Ok(House::default()) };
        let path = decisions::file(&self.dir);
        decisions::read(connection, room).map_err(|source| FileError::Sqlite { path, source })
    }

    fn entries(&mut self, room: &RoomId, bounds: &Bounds, now_ms: u64) -> Result<Loaded, FileError> {
        self.look()?;
        let mut tail = Tail::default();
        let (days, unreadable) = (self.days.clone(), self.unreadable.clone());
        for day in days.into_iter().rev().filter(|day| !unreadable.contains(day)) {
            if tail.is_enough(bounds) {
                break;
            }
            let path = day.file(&self.dir);
            let Some(connection) = self.connection(day)? else { continue };
            let read = tail.read(connection, room, bounds, now_ms);
            read.map_err(|source| FileError::Sqlite { path, source })?;
        }
        Ok(tail.finish(room, bounds))
    }
}

/// What is found of a room, the newest first.
#[derive(Default)]
struct Tail {
    entries: Vec<Entry>,
    ids: Vec<StoredId>,
    /// Epochs with their last numbers.
    epochs: Vec<(Epoch, u64)>,
    /// Beyond this nothing older is wanted: an entry there cannot be read.
    cut: bool,
    ids_end: bool,
}

impl Tail {
    fn is_enough(&self, bounds: &Bounds) -> bool {
        let entries = self.cut || self.entries.len() >= bounds.entries_max;
        entries && self.ids_end && self.epochs.len() > bounds.epochs_max
    }

    fn read(
        &mut self,
        connection: &Connection,
        room: &RoomId,
        bounds: &Bounds,
        now_ms: u64,
    ) -> rusqlite::Result<()> {
        // One state of the file for all that is asked.
        let transaction = connection.unchecked_transaction()?;
        let id: Option<i64> = transaction
            .prepare_cached("SELECT id FROM rooms WHERE name = ?1")?
            .query_row([room.as_str()], |row| row.get(0))
            .optional()?;
        let Some(id) = id else { return Ok(()) };
        let mut last =
            transaction.prepare_cached("SELECT max(seq) FROM entries WHERE room = ?1 AND seq < ?2")?;
        let mut before = SEQ_MAX + 1;
        for begun in epochs(&transaction, id)? {
            let end: Option<u64> = last.query_row((id, before), |row| row.get(0))?;
            before = begun.base;
            // The same epoch goes on in the file of the next day.
            let known = self.epochs.last().is_some_and(|(newer, _)| *newer == begun.epoch);
            if let Some(end) = end.filter(|end| *end >= begun.base && !known) {
                self.epochs.push((begun.epoch, end));
            }
            if self.epochs.len() > bounds.epochs_max {
                break;
            }
        }
        let wanted = bounds.entries_max.saturating_sub(self.entries.len());
        if !self.cut && wanted > 0 {
            let mut statement = transaction.prepare_cached(
                "SELECT seq, at_ms, visible, kind, user, stream_ms, body FROM entries WHERE room = ?1 \
                 ORDER BY seq DESC LIMIT ?2",
            )?;
            let rows = statement.query_map((id, wanted as i64), row)?;
            for found in rows {
                match found?.entry() {
                    Ok(entry) => self.entries.push(entry),
                    Err(error) => {
                        tracing::error!(%error, room = room.as_str(), "what is older is not given to the room's owner");
                        self.cut = true;
                        break;
                    }
                }
            }
        }
        if !self.ids_end {
            let mut statement = transaction.prepare_cached(
                "SELECT seq, at_ms, id_key, id_payload FROM entries WHERE room = ?1 ORDER BY seq DESC",
            )?;
            let mut rows = statement.query([id])?;
            while let Some(found) = rows.next()? {
                let at_ms: u64 = found.get(1)?;
                if at_ms + bounds.ids_ms < now_ms || self.ids.len() >= bounds.ids_max {
                    self.ids_end = true;
                    break;
                }
                if let Some(key) = found.get::<_, Option<[u8; 16]>>(2)? {
                    let key = Key::from_bits(u128::from_be_bytes(key));
                    let payload = found.get::<_, i64>(3)?.cast_unsigned();
                    self.ids.push(StoredId { key, payload, seq: found.get(0)?, at_ms });
                }
            }
        }
        Ok(())
    }

    fn finish(self, room: &RoomId, bounds: &Bounds) -> Loaded {
        let Self { entries, mut ids, mut epochs, .. } = self;
        epochs.reverse();
        ids.reverse();
        let tail = entries.into_iter().rev().map(Arc::new).collect();
        let mut loaded = Loaded { epochs, tail, ids, ..Loaded::default() };
        loaded.keep_epochs(bounds.epochs_max);
        if !loaded.is_coherent() {
            tracing::error!(
                room = room.as_str(),
                "the newest entries of the room have holes: its owner goes on behind them without them"
            );
            let last = loaded.epochs.last().map_or(0, |(_, last)| *last);
            loaded.tail.clear();
            loaded.ids.retain(|id| id.seq <= last);
        }
        loaded
    }
}

/// The epochs of a room, the newest first.
fn epochs(connection: &Connection, room: i64) -> rusqlite::Result<Vec<Begun>> {
    let mut statement = connection
        .prepare_cached("SELECT base, epoch FROM epochs WHERE room = ?1 ORDER BY base DESC LIMIT 64")?;
    let rows = statement.query_map([room], |row| {
        let epoch: String = row.get(1)?;
        Ok(Epoch::parse(&epoch).map(|epoch| (row.get(0), epoch)))
    })?;
    let mut found = Vec::new();
    for begun in rows {
        if let Some((base, epoch)) = begun? {
            found.push(Begun { base: base?, epoch });
        }
    }
    Ok(found)
}

fn row(found: &Found<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        seq: found.get(0)?,
        at_ms: found.get(1)?,
        visible: found.get(2)?,
        kind: found.get(3)?,
        user: found.get::<_, Option<String>>(4)?.map(Into::into),
        stream_ms: found.get(5)?,
        body: found.get(6)?,
    })
}
