//! What the two driver threads and the one that watches tell each other: plain atomics, each with one
//! writer unless it is said otherwise.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::clock::Clock;

/// No time: not yet, or never.
pub const NEVER: u64 = u64::MAX;

/// What a driver thread has done so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Connections whose handshake is done.
    pub open: AtomicUsize,
    /// Connections that never got so far.
    pub failed: AtomicUsize,
    /// Items received.
    pub items: AtomicU64,
    /// Bytes received.
    pub bytes: AtomicU64,
    /// Messages received.
    pub messages: AtomicU64,
    /// Messages published.
    pub sent: AtomicU64,
    /// Publishes answered, one way or the other.
    pub answered: AtomicU64,
    /// Whether every reader was told of everything; looked at after publishing has ended.
    pub told: AtomicBool,
    /// Stuck connections that are over.
    pub stuck_over: AtomicUsize,
}

/// A connection that does not read, as the kernel sees it from the server's side.
#[derive(Debug)]
pub struct Watched {
    /// Our address and port: address in the upper bits, port in the lower 16. 0: not connected yet.
    pub local: AtomicU64,
    /// When the server's send queue last changed while it was not empty; 0: it never was seen so.
    pub full_ns: AtomicU64,
    /// When the server had shut its side; 0: it has not, or it was reset at once.
    pub shut_ns: AtomicU64,
}

/// The state of a run.
#[derive(Debug)]
pub struct Shared {
    /// The time everybody uses.
    pub clock: Clock,
    /// Everybody is to come to an end.
    pub stop: AtomicBool,
    /// When publishing starts.
    pub start_ns: AtomicU64,
    /// When publishing ends.
    pub end_ns: AtomicU64,
    /// Messages due from here on are measured …
    pub window_from_ns: AtomicU64,
    /// … and from here on no longer.
    pub window_to_ns: AtomicU64,
    /// When those that pause stop reading …
    pub pause_ns: AtomicU64,
    /// … and when they go on.
    pub resume_ns: AtomicU64,
    /// Per room the last sequence known from an answer. The publishers' thread alone writes.
    pub last_seq: Box<[AtomicU64]>,
    /// Those who never read, in the order of their connections.
    pub watched: Box<[Watched]>,
    /// One for each driver thread.
    pub tallies: [Tally; 2],
}

impl Shared {
    /// A run that has not started.
    pub fn new(rooms: usize, stuck: usize) -> Self {
        let watched =
            || Watched { local: AtomicU64::new(0), full_ns: AtomicU64::new(0), shut_ns: AtomicU64::new(0) };
        Self {
            clock: Clock::start(),
            stop: AtomicBool::new(false),
            start_ns: AtomicU64::new(NEVER),
            end_ns: AtomicU64::new(NEVER),
            window_from_ns: AtomicU64::new(NEVER),
            window_to_ns: AtomicU64::new(NEVER),
            pause_ns: AtomicU64::new(NEVER),
            resume_ns: AtomicU64::new(NEVER),
            last_seq: (0..rooms).map(|_| AtomicU64::new(0)).collect(),
            watched: (0..stuck).map(|_| watched()).collect(),
            tallies: [Tally::default(), Tally::default()],
        }
    }

    /// Adds up a number of both threads.
    pub fn sum(&self, pick: impl Fn(&Tally) -> &AtomicU64) -> u64 {
        self.tallies.iter().map(|tally| pick(tally).load(Relaxed)).sum()
    }

    /// Adds up a count of both threads.
    pub fn count(&self, pick: impl Fn(&Tally) -> &AtomicUsize) -> usize {
        self.tallies.iter().map(|tally| pick(tally).load(Relaxed)).sum()
    }
}
