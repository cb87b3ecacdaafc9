//! The load generator behind the `loadtest` binary.
//!
//! It measures and checks at once: every message carries the time at which it was due, so that a stall
//! anywhere is in its latency, and every connection keeps a ledger of what it was told, so that an entry
//! that is lost, doubled or out of order fails the run. It never touches another machine unless asked to.
//!
//! Two threads drive the sockets (subscribers, publishers), the one that calls watches. Nothing is
//! allocated per message there. A few witnesses in a giant room use the Rust client on a third thread.

pub mod account;
pub mod clock;
pub mod connection;
pub mod driver;
pub mod error;
pub mod frame;
pub mod handshake;
pub mod intake;
pub mod ledger;
pub mod memo;
pub mod message;
pub mod metrics;
pub mod options;
pub mod plan;
pub mod process;
pub mod publisher;
pub mod report;
pub mod scenario;
pub mod schedule;
pub mod session;
pub mod shared;
pub mod target;
pub mod wire;
pub mod witness;
