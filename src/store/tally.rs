//! What a store has done, for metrics and readiness. Written by its threads, read at a scrape.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Upper ends of the buckets of a commit's duration, microseconds.
pub const COMMIT_BUCKETS_US: [u64; 12] =
    [500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 5_000_000];

/// Counters and gauges of a store.
#[derive(Debug, Default)]
pub struct StoreTally {
    /// Entries that were committed.
    pub entries: AtomicU64,
    /// Entries that were given up.
    pub given_up: AtomicU64,
    /// Commits that failed.
    pub failures: AtomicU64,
    /// Rooms that were looked up.
    pub loads: AtomicU64,
    /// Files that cannot be read and were set aside.
    pub set_aside: AtomicU64,
    /// Bytes that wait for a commit.
    pub queue_bytes: AtomicU64,
    /// Days of history that were removed.
    pub removed: AtomicU64,
    /// Bytes of all files.
    pub file_bytes: AtomicU64,
    /// Bytes of the write-ahead log.
    pub wal_bytes: AtomicU64,
    /// Microseconds that commits took.
    pub commit_us: AtomicU64,
    commits: [AtomicU64; COMMIT_BUCKETS_US.len() + 1],
    down: AtomicBool,
}

impl StoreTally {
    /// Notes a commit that took so long.
    pub fn committed(&self, entries: u64, us: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.commit_us.fetch_add(us, Ordering::Relaxed);
        let bucket = COMMIT_BUCKETS_US.partition_point(|end| *end < us);
        self.commits[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// How many commits took so long, by bucket; the last are those beyond all.
    pub fn commits(&self) -> [u64; COMMIT_BUCKETS_US.len() + 1] {
        std::array::from_fn(|at| self.commits[at].load(Ordering::Relaxed))
    }

    /// Whether nothing can be stored at present.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Notes whether anything can be stored. Whether that is news.
    pub fn set_down(&self, down: bool) -> bool {
        self.down.swap(down, Ordering::AcqRel) != down
    }
}
