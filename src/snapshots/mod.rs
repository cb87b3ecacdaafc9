//! Snapshots for those who come by HTTP: the newest entries of a room as whole documents, made once for everybody.
//!
//! A room's snapshot is made at most once a second, and only when the room has moved on; each compressed form of it
//! is made when somebody first asks for it. Whoever asks meanwhile waits for the one who makes it. The room's owner
//! lends its entries, whose encoding and compression run on threads for blocking work, never on a worker.

mod document;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use danmaku_room::house::settings::State;
use danmaku_room::snapshot::{Viewer, newest_of};
use danmaku_room::store::{Loaded, Promise};
use danmaku_wire::entry::Entry;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use danmaku_wire::position::Position;
use dashmap::DashMap;
use tokio::sync::{Mutex, Notify, Semaphore, oneshot};
use tokio::time::Instant;

pub use document::{Coding, Document, Made};

use crate::wiring::Shared;
use crate::worker::message::Request;

/// How old a snapshot may be that is given out: what `Cache-Control: max-age=1` says too.
const FRESH: Duration = Duration::from_secs(1);
/// Rooms that are asked about at the same time; whoever comes beyond them is told to come again.
const ASKED_MAX: usize = 256;
/// Documents compressed at the same time: a core at most, beside the workers.
const COMPRESSED_AT_ONCE: usize = 1;

/// What a room's owner is asked for.
#[derive(Debug)]
pub struct Ask {
    /// The room.
    pub room: RoomId,
    /// What the asker has already.
    pub known: Option<Position>,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Newest>,
}

/// What an owner says.
#[derive(Debug)]
pub enum Newest {
    /// The room has not moved on.
    Unchanged,
    /// Where the room is, what it shows and what its state is.
    Entries(Position, Vec<Arc<Entry>>, Arc<State>),
    /// Nobody owns the room at present: the store knows it, if anybody does.
    NotOwned,
}

/// Snapshots of a node's rooms, the newest one of each.
#[derive(Debug)]
pub struct Snapshots {
    rooms: DashMap<RoomId, Arc<Mutex<Option<Kept>>>>,
    asked: Semaphore,
    compressing: Arc<Semaphore>,
    made: AtomicU64,
    compressed: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    made: Arc<Made>,
    looked_at: Instant,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            rooms: DashMap::new(),
            asked: Semaphore::new(ASKED_MAX),
            compressing: Arc::new(Semaphore::new(COMPRESSED_AT_ONCE)),
            made: AtomicU64::new(0),
            compressed: AtomicU64::new(0),
        }
    }
}

impl Snapshots {
    /// The snapshot of a room, at most a second old.
    ///
    /// # Errors
    /// [`ErrorCode::RoomNotFound`] where nothing was ever said; [`ErrorCode::Overloaded`] and
    /// [`ErrorCode::Unavailable`] where it is worth asking again.
    pub async fn of(&self, shared: &Shared, room: &RoomId) -> Result<Arc<Made>, ErrorCode> {
        let place = self.place(shared, room);
        let mut kept = place.lock().await;
        if let Some(kept) = &*kept
            && kept.looked_at.elapsed() < FRESH
        {
            return Ok(Arc::clone(&kept.made));
        }
        let found = self.look(shared, room, kept.as_ref().map(|kept| &kept.made)).await;
        match found {
            Ok(made) => {
                *kept = Some(Kept { made: Arc::clone(&made), looked_at: Instant::now() });
                Ok(made)
            }
            Err(code) => {
                // Whoever asks for rooms that do not exist leaves nothing behind.
                if kept.is_none() {
                    drop(kept);
                    self.rooms.remove_if(room, |_, there| Arc::ptr_eq(there, &place));
                }
                Err(code)
            }
        }
    }

    /// A form of a snapshot, compressed once for everybody.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`] if the compressor failed.
    pub async fn coded(
        &self,
        made: &Arc<Made>,
        document: Document,
        coding: Coding,
    ) -> Result<hyper::body::Bytes, ErrorCode> {
        made.coded(document, coding, &self.compressing, &self.compressed).await
    }

    /// How many snapshots were written down, and how many compressed forms made of them.
    pub fn made(&self) -> [u64; 2] {
        [self.made.load(Ordering::Relaxed), self.compressed.load(Ordering::Relaxed)]
    }

    fn place(&self, shared: &Shared, room: &RoomId) -> Arc<Mutex<Option<Kept>>> {
        if let Some(place) = self.rooms.get(room) {
            return Arc::clone(&place);
        }
        let max = shared.config.load().snapshot_rooms_max;
        if self.rooms.len() >= max {
            // Any other: it is made again when it is asked for.
            let other = self.rooms.iter().next().map(|other| other.key().clone());
            if let Some(other) = other {
                self.rooms.remove(&other);
            }
        }
        Arc::clone(&self.rooms.entry(room.clone()).or_default())
    }

    async fn look(
        &self,
        shared: &Shared,
        room: &RoomId,
        known: Option<&Arc<Made>>,
    ) -> Result<Arc<Made>, ErrorCode> {
        let _asked = self.asked.try_acquire().map_err(|_| ErrorCode::Overloaded)?;
        let within = Duration::from_millis(shared.config.load().answer_within_ms);
        let newest = tokio::time::timeout(within, newest(shared, room, known.map(|made| &made.position)));
        let (position, entries, state) = match (newest.await.map_err(|_| ErrorCode::Unavailable)??, known) {
            (Newest::Entries(position, entries, state), _) => (position, entries, state),
            (Newest::Unchanged, Some(known)) => return Ok(Arc::clone(known)),
            (Newest::Unchanged | Newest::NotOwned, _) => return Err(ErrorCode::RoomNotFound),
        };
        self.made.fetch_add(1, Ordering::Relaxed);
        let made = tokio::task::spawn_blocking(move || Made::new(position, &entries, &state));
        made.await.map(Arc::new).map_err(|_| ErrorCode::Internal)
    }
}

/// Asks the owner, then the store.
async fn newest(shared: &Shared, room: &RoomId, known: Option<&Position>) -> Result<Newest, ErrorCode> {
    let (answer, newest) = oneshot::channel();
    let ask = Ask { room: room.clone(), known: known.cloned(), answer };
    let owner = usize::from(shared.owner(room));
    let now_us = shared.started.elapsed().as_micros() as u64;
    let request = Request::Newest(Box::new(ask));
    if shared.post[owner].normal(request, 256, now_us).is_err() {
        return Err(ErrorCode::Overloaded);
    }
    match newest.await {
        Ok(Newest::NotOwned) => Ok(stored(shared, room, known).await),
        Ok(newest) => Ok(newest),
        // Its worker has gone, or its room starts anew.
        Err(_) => Err(ErrorCode::Unavailable),
    }
}

/// What the store knows of a room that nobody owns.
async fn stored(shared: &Shared, room: &RoomId, known: Option<&Position>) -> Newest {
    let told = Arc::new(Notify::new());
    let bell = Arc::clone(&told);
    let promise: Arc<Promise<Loaded>> = Promise::new(Arc::new(move || bell.notify_one()));
    // No owner begins here: what it is to find must stay.
    let durability = shared.config.load().room(room).owner.durability;
    shared.store.look(room, durability, Arc::clone(&promise));
    let loaded = loop {
        if let Some(loaded) = promise.poll() {
            break loaded;
        }
        told.notified().await;
    };
    let Some((epoch, seq)) = loaded.epochs.last() else { return Newest::NotOwned };
    let position = Position { epoch: epoch.clone(), seq: *seq };
    if known == Some(&position) {
        return Newest::Unchanged;
    }
    let config = shared.config.load();
    let settings = config.room(room);
    let count_max = settings.snapshot_entries;
    let board = loaded.board();
    let newest = newest_of(loaded.tail.iter().rev(), &board, Viewer::GUEST, count_max);
    let owner = &settings.owner;
    let state =
        board.told_state().unwrap_or_else(|| State::of(&owner.limits, &owner.held, &loaded.house.stage));
    Newest::Entries(position, newest.into_iter().cloned().collect(), Arc::new(state))
}
