//! One process per data directory.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The file in the data directory.
pub const LOCK_FILE: &str = "lock";

/// Why a data directory could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "the data directory {} is in use by {holder}: give each server a `--data-dir` of its own, or start this \
         one with `--take-over` to replace that one without dropping anyone",
        dir.display()
    )]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// The lock could not be asked for.
    #[error("cannot lock the data directory with {}: {source}", path.display())]
    Io {
        /// The lock's file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The process that holds a lock, as far as its file tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder(Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}

/// The data directory is this process's, for as long as this or a duplicate of its descriptor is open.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the data directory, which must exist.
    ///
    /// # Errors
    /// When another process has it.
    pub fn take(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join(LOCK_FILE);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let io = |source| LockError::Io { path: path.clone(), source };
        let file = opened.map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let lock = Self(file);
                lock.sign().map_err(io)?;
                Ok(lock)
            }
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                // Only for the sentence: a file that cannot be read names nobody.
                let _ = (&file).take(32).read_to_string(&mut pid);
                Err(LockError::Held { dir: dir.to_owned(), holder: Holder(pid.trim().parse().ok()) })
            }
            Err(error) => Err(io(error.into())),
        }
    }

    /// A lock whose descriptor another process gave away.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn given(fd: OwnedFd) -> io::Result<Self> {
        let lock = Self(File::from(fd));
        lock.sign()?;
        Ok(lock)
    }

    /// Writes this process's number into the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn sign(&self) -> io::Result<()> {
        let mut file = &self.0;
        file.rewind()?;
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
