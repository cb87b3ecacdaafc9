//! Why a run could not be made, by whose fault. What a run found wrong with the server is no error but a
//! failed check of the report.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An address that is none.
    #[error("{0:?} is not an address: write ws://HOST:PORT/ws or http://HOST:PORT")]
    Address(String),
    /// A target elsewhere.
    #[error("{0} is not on this machine: load only what is yours, and then say --allow-remote")]
    NotLoopback(SocketAddr),
    /// Options that contradict each other.
    #[error("{0}")]
    Options(&'static str),
    /// More connections than descriptors.
    #[error("{connections} connections need more than the {limit} descriptors this process may have")]
    Descriptors {
        /// Connections asked for.
        connections: usize,
        /// Descriptors allowed.
        limit: u64,
    },
    /// The process to watch is not there.
    #[error("there is no process {0} to watch")]
    NoProcess(u32),
    /// Not all connections could be had.
    #[error("{open} of {asked} connections were opened: {why}")]
    Connect {
        /// Connections opened.
        open: usize,
        /// Connections asked for.
        asked: usize,
        /// The first reason.
        why: String,
    },
    /// The server's metrics cannot be read.
    #[error("cannot read the metrics at {address}: {source}")]
    Metrics {
        /// Where they should be.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A result file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The system refused something.
    #[error("the system refused: {0}")]
    System(#[from] rustix::io::Errno),
    /// The witnesses' thread cannot be had.
    #[error("cannot start the witnesses: {0}")]
    Runtime(std::io::Error),
    /// A driver thread broke.
    #[error("a driver thread panicked")]
    Panicked,
}
