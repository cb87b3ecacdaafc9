//! Moves the write-ahead log into its file while the writer goes on, and has old files removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::retention::Retention;
use crate::store::tally::StoreTally;

/// How often the log's size is looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(200);
/// A log that is moved.
const MOVED_BYTES: u64 = 4 << 20;
/// A log that has grown all the same, because there was always something newer in it: here the writer has to wait for
/// what little is left of it, and it begins anew.
const CUT_BYTES: u64 = 64 << 20;

/// Moves the log of the newest file that `watched` tells of, until nobody can tell any more.
pub(super) fn run(watched: &Receiver<PathBuf>, mut retention: Retention, tally: &Arc<StoreTally>) {
    let mut open: Option<(PathBuf, Connection)> = None;
    let mut told = false;
    loop {
        match watched.recv_timeout(LOOKED_AT_EVERY) {
            Ok(path) => {
                // What the file before has left in its log is its own last word.
                if let Some((_, connection)) = open.take() {
                    let _ = move_log(&connection, "TRUNCATE");
                }
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                open = Connection::open_with_flags(&path, flags).ok().map(|connection| (path, connection));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        retention.look(tally);
        let Some((path, connection)) = &open else { continue };
        let bytes = log_bytes(path);
        tally.wal_bytes.store(bytes, Ordering::Relaxed);
        if bytes < MOVED_BYTES {
            continue;
        }
        let moved = move_log(connection, "PASSIVE")
            .and_then(|()| if bytes < CUT_BYTES { Ok(()) } else { move_log(connection, "TRUNCATE") });
        match moved {
            Ok(()) => told = false,
            Err(error) if !std::mem::replace(&mut told, true) => {
                tracing::warn!(%error, wal_bytes = bytes, "the store's log cannot be moved into its file; it grows");
            }
            Err(_) => {}
        }
    }
}

fn move_log(connection: &Connection, how: &str) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(500))?;
    connection.query_row(&format!("PRAGMA wal_checkpoint({how})"), (), |_| Ok(()))
}

fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |log| log.len())
}
