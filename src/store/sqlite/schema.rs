//! Files of the store: how they are opened, what is in them, and which versions read them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};

/// The form of files that this version writes.
pub(super) const VERSION: u32 = 1;
/// `dmku`, by which a file says whose it is.
const APPLICATION_ID: i32 = 0x646d_6b75;
/// How long another process's lock is waited for.
const BUSY: Duration = Duration::from_secs(1);

/// Why a file of the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is of a later version that this one cannot read.
    #[error(
        "{} was written by a later version (form {version}, readable from form {readable_by} on; this one knows form \
         {VERSION}): start that version, or give this one another `store.path`",
        path.display()
    )]
    Later {
        /// Which.
        path: PathBuf,
        /// Its form.
        version: u32,
        /// The oldest form whose readers understand it.
        readable_by: u32,
    },
    /// It is a database of something else.
    #[error("{} is no file of danmaku's store: give the store a directory of its own by `store.path`", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// The database says no.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The file system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl FileError {
    /// The file, or the directory of all.
    pub fn path(&self) -> &Path {
        match self {
            Self::Later { path, .. } | Self::Foreign { path } => path,
            Self::Sqlite { path, .. } | Self::Io { path, .. } => path,
        }
    }
}

/// The form of a file, and the oldest whose readers understand it.
const FORM: &str = "CREATE TABLE form (version INTEGER NOT NULL, readable_by INTEGER NOT NULL);";

/// What is in a day's file.
pub(super) const DAY: &str = "
    CREATE TABLE rooms (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    -- base: the number of the epoch's first entry in this file.
    CREATE TABLE epochs (
        room INTEGER NOT NULL, base INTEGER NOT NULL, epoch TEXT NOT NULL, PRIMARY KEY (room, base)
    ) WITHOUT ROWID;
    CREATE TABLE entries (
        room INTEGER NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, visible INTEGER NOT NULL,
        kind INTEGER NOT NULL, user TEXT, stream_ms INTEGER, body TEXT NOT NULL,
        -- The id under which it was published, for as long as that counts.
        id_key BLOB, id_payload INTEGER,
        PRIMARY KEY (room, seq)
    ) WITHOUT ROWID;
    CREATE INDEX entries_by_user ON entries (user, room, seq) WHERE user IS NOT NULL;
    CREATE INDEX entries_by_stream ON entries (room, stream_ms) WHERE stream_ms IS NOT NULL;
";

/// Opens a file to write, and makes it with these tables if it is not there.
///
/// # Errors
/// When it cannot be made or is not what it should be.
pub(super) fn open_to_write(path: &Path, tables: &str) -> Result<Connection, FileError> {
    let sqlite = |source| FileError::Sqlite { path: path.to_owned(), source };
    let io = |source| FileError::Io { path: path.to_owned(), source };
    if !path.exists() {
        use std::os::unix::fs::OpenOptionsExt;
        // Whatever SQLite makes beside it has the same mode.
        let made = File::options().write(true).create_new(true).mode(0o600).open(path);
        made.and_then(|file| file.sync_all()).map_err(io)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    guard(&connection).map_err(sqlite)?;
    prepare(&mut connection, tables).map_err(sqlite)?;
    check(&connection, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)?;
    }
    Ok(connection)
}

fn prepare(connection: &mut Connection, tables: &str) -> rusqlite::Result<()> {
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; \
         PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;",
    )?;
    if is_empty(connection)? {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(FORM)?;
        transaction.execute_batch(tables)?;
        transaction.execute("INSERT INTO form VALUES (?1, ?1)", [VERSION])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.commit()?;
    }
    Ok(())
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", (), |row| row.get(0))
}

/// Opens a file to read: nothing that goes through this connection changes anything. `None` where a crash left
/// one without tables.
///
/// # Errors
/// When it is not what it should be.
pub(super) fn open_to_read(path: &Path) -> Result<Option<Connection>, FileError> {
    let sqlite = |source| FileError::Sqlite { path: path.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Opened as a writer would: a read-only connection cannot recover the log of a process that was killed.
    let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    guard(&connection).map_err(sqlite)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -4096;").map_err(sqlite)?;
    if is_empty(&connection).map_err(sqlite)? {
        return Ok(None);
    }
    check(&connection, path)?;
    Ok(Some(connection))
}

fn guard(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    for refused in [
        DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE,
        DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
        DbConfig::SQLITE_DBCONFIG_DQS_DML,
        DbConfig::SQLITE_DBCONFIG_DQS_DDL,
    ] {
        connection.set_db_config(refused, false)?;
    }
    Ok(())
}

fn check(connection: &Connection, path: &Path) -> Result<(), FileError> {
    let sqlite = |source| FileError::Sqlite { path: path.to_owned(), source };
    let application: i32 =
        connection.query_row("PRAGMA application_id", (), |row| row.get(0)).map_err(sqlite)?;
    if application != APPLICATION_ID {
        return Err(FileError::Foreign { path: path.to_owned() });
    }
    let form = connection.query_row("SELECT version, readable_by FROM form", (), |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?))
    });
    match form.optional().map_err(sqlite)? {
        None => Err(FileError::Foreign { path: path.to_owned() }),
        Some((version, readable_by)) if readable_by > VERSION => {
            Err(FileError::Later { path: path.to_owned(), version, readable_by })
        }
        Some(_) => Ok(()),
    }
}
