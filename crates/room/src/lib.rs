//! A room as a log, without I/O.
//!
//! In come commands, positions, byte counts and the time; out go entries, sealed batches, framed bytes
//! and fates. One [`owner::Owner`] orders a room; every worker with members keeps a
//! [`replica::Replica`] that follows the owner's chain of [`batch::Batch`]es. Nothing here opens a
//! socket, reads a clock, starts a thread or draws a random number, so that every interleaving can be
//! played by a test.

pub mod admission;
pub mod batch;
pub mod form;
pub mod house;
pub mod log;
pub mod owner;
pub mod pass;
pub mod replica;
pub mod snapshot;
pub mod store;
pub mod traces;

/// The time of a turn, read once by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Microseconds of a clock that never goes back.
    pub us: u64,
    /// Milliseconds since 1970, for what viewers see.
    pub wall_ms: u64,
}
