//! Files that are read again when they have changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How often they are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Enough of a file's state to tell that it is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// What a file looks like now; `None` where there is none.
pub fn look(path: &Path) -> Option<Look> {
    let meta = std::fs::metadata(path).ok()?;
    Some(Look { inode: meta.ino(), bytes: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) })
}
