//! What goes into a day's file in one transaction.

use std::collections::HashMap;

use danmaku_room::store::Append;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::Epoch;
use rusqlite::{CachedStatement, Connection, OptionalExtension, TransactionBehavior};

use super::faults::Faults;
use super::row::{self, Row};

/// Rooms whose state in the file is remembered; beyond that it is looked up again.
const ROOMS_MAX: usize = 65_536;

/// Why an append is not in a transaction that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    /// Where the room stands.
    pub(super) stands: u64,
    /// What the append expects.
    pub(super) expected: u64,
}

/// Why appends were not committed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    /// Nothing of it was tried: it can be, later.
    #[error("{0}")]
    NotBegun(rusqlite::Error),
    /// What became of it, nobody can say.
    #[error("{0}")]
    Failed(rusqlite::Error),
}

/// A day's file and what is known of it.
pub(super) struct Page {
    connection: Connection,
    faults: Faults,
    rooms: HashMap<RoomId, Standing>,
}

/// A room in the file.
#[derive(Debug, Clone)]
struct Standing {
    id: i64,
    epoch: Option<Epoch>,
    last: u64,
}

/// What a commit that failed may have left in the file all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) room: RoomId,
    /// The last number before it.
    pub(super) after: u64,
    /// Its last number.
    pub(super) to: u64,
}

impl Page {
    pub(super) fn new(connection: Connection, faults: Faults) -> Self {
        Self { connection, faults, rooms: HashMap::new() }
    }

    /// Commits appends in their order; for each, whether it fitted.
    ///
    /// # Errors
    /// When nothing of it may be taken as stored.
    pub(super) fn commit<'a>(
        &mut self,
        appends: impl Iterator<Item = &'a Append>,
    ) -> Result<Vec<Result<(), Misfit>>, CommitError> {
        if self.rooms.len() > ROOMS_MAX {
            self.rooms.clear();
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(CommitError::NotBegun)?;
        let fitted = append_all(&transaction, &mut self.rooms, appends).map_err(CommitError::Failed)?;
        match self.faults.of_commit() {
            None => transaction.commit().map_err(CommitError::Failed)?,
            #[cfg(test)]
            Some(fault) => {
                if fault == super::faults::Fault::DoneInSecret {
                    transaction.commit().map_err(CommitError::Failed)?;
                }
                let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
                return Err(CommitError::Failed(rusqlite::Error::SqliteFailure(error, None)));
            }
            #[cfg(not(test))]
            Some(_) => {}
        }
        Ok(fitted)
    }

    /// Writes something that changes nothing, and waits until it is on the disk.
    ///
    /// # Errors
    /// When nothing can be written.
    pub(super) fn probe(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("UPDATE form SET version = version", ())?;
        transaction.commit()
    }

    /// Takes out what failed commits may have left: it was answered as not stored.
    ///
    /// # Errors
    /// When that fails too.
    pub(super) fn settle(&mut self, doubts: &[Doubt]) -> rusqlite::Result<usize> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut removed = 0;
        for Doubt { room, after, to } in doubts {
            let id: Option<i64> = transaction
                .query_row("SELECT id FROM rooms WHERE name = ?1", [room.as_str()], |row| row.get(0))
                .optional()?;
            let Some(id) = id else { continue };
            removed += transaction
                .execute("DELETE FROM entries WHERE room = ?1 AND seq > ?2 AND seq <= ?3", (id, after, to))?;
            transaction.execute(
                "DELETE FROM epochs WHERE room = ?1 AND base > ?2 AND base <= ?3",
                (id, after, to),
            )?;
        }
        transaction.commit()?;
        // What is seen is in the log's pages in memory, whatever became of the disk: from here it is written anew.
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| {
            let busy: i64 = row.get(0)?;
            if busy == 0 { Ok(()) } else { Err(busy_error()) }
        })?;
        self.rooms.clear();
        Ok(removed)
    }
}

fn busy_error() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}

/// Appends in their order; for each, whether it fitted.
fn append_all<'a>(
    connection: &Connection,
    rooms: &mut HashMap<RoomId, Standing>,
    appends: impl Iterator<Item = &'a Append>,
) -> rusqlite::Result<Vec<Result<(), Misfit>>> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO entries (room, seq, at_ms, visible, kind, user, stream_ms, body, id_key, id_payload) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut fitted = Vec::new();
    for append in appends {
        let standing = match rooms.get_mut(&append.room) {
            Some(standing) => standing,
            None => {
                let standing = find(connection, &append.room)?;
                rooms.entry(append.room.clone()).or_insert(standing)
            }
        };
        fitted.push(append_to(connection, &mut insert, standing, append)?);
    }
    Ok(fitted)
}

/// Where a room stands in the file; it is named there if it was not.
fn find(connection: &Connection, room: &RoomId) -> rusqlite::Result<Standing> {
    let known = connection
        .prepare_cached(
            "SELECT id, (SELECT epoch FROM epochs WHERE room = id ORDER BY base DESC LIMIT 1), \
             (SELECT max(seq) FROM entries WHERE room = id) FROM rooms WHERE name = ?1",
        )?
        .query_row([room.as_str()], |row| {
            let epoch: Option<String> = row.get(1)?;
            let last: Option<u64> = row.get(2)?;
            let epoch = epoch.and_then(|epoch| Epoch::parse(&epoch));
            Ok(Standing { id: row.get(0)?, epoch, last: last.unwrap_or(0) })
        })
        .optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    connection.prepare_cached("INSERT INTO rooms (name) VALUES (?1)")?.execute([room.as_str()])?;
    Ok(Standing { id: connection.last_insert_rowid(), epoch: None, last: 0 })
}

fn append_to(
    connection: &Connection,
    insert: &mut CachedStatement<'_>,
    standing: &mut Standing,
    append: &Append,
) -> rusqlite::Result<Result<(), Misfit>> {
    let Append { epoch, expected, entries, ids, .. } = append;
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(Ok(())) };
    let goes_on = standing.epoch.as_ref() == Some(epoch);
    let fits = if goes_on { standing.last == *expected } else { standing.last <= *expected };
    if !fits || first.seq <= *expected {
        return Ok(Err(Misfit { stands: standing.last, expected: *expected }));
    }
    if !goes_on {
        connection
            .prepare_cached("INSERT INTO epochs (room, base, epoch) VALUES (?1, ?2, ?3)")?
            .execute((standing.id, first.seq, epoch.as_str()))?;
    }
    let mut ids = ids.iter().peekable();
    for entry in entries {
        let Row { seq, at_ms, visible, kind, user, stream_ms, body } = Row::of(entry);
        while ids.peek().is_some_and(|id| id.seq < seq) {
            ids.next();
        }
        let id = ids.peek().filter(|id| id.seq == seq).map(|id| row::id_columns(id));
        let (key, payload) = id.map_or((None, None), |(key, payload)| (Some(key), Some(payload)));
        insert.execute((
            standing.id,
            seq,
            number(at_ms),
            visible,
            kind,
            user.as_deref(),
            stream_ms.map(number),
            body,
            key,
            payload,
        ))?;
    }
    (standing.epoch, standing.last) = (Some(epoch.clone()), last.seq);
    Ok(Ok(()))
}

/// A time as SQLite's integers hold it; nobody lives to see those that they do not.
fn number(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
