//! What a client is told.

use std::fmt;
use std::time::Duration;

use crate::address::Network;
use crate::breaker::{BreakerSettings, BreakerSettingsError};
use crate::client::system_seconds;
use crate::endpoint::EndpointError;
use crate::gathering::Batching;
use crate::line::TlsError;
use crate::signature::SecretTooShort;

/// Most posts at a time.
pub const CONCURRENCY_MAX: usize = 1_024;
/// Most questions that wait for their turn.
pub const QUEUE_MAX: usize = 65_536;
/// Longest time for an answer.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Longest time that a connection waits.
pub const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Most questions in a batch.
pub const BATCH_QUESTIONS_MAX: usize = 256;

/// Seconds since 1970, for signatures.
pub type WallClock = fn() -> u64;

/// Everything a client needs to know. [`Client::new`](crate::Client::new) checks it.
#[derive(Clone)]
pub struct Settings {
    /// The receiver, `https://…` or `http://…`; from the configuration, never from a viewer.
    pub url: String,
    /// The secret that signs, at least 32 bytes.
    pub secret: Vec<u8>,
    /// Networks that may be called though they are not of the public internet.
    pub allow_private: Vec<Network>,
    /// Ports that may be called.
    pub ports: Vec<u16>,
    /// Authorities in PEM that count in place of Mozilla's, for a receiver with a certificate of one's own.
    pub ca_pem: Option<Vec<u8>>,
    /// Within which an answer must be there, from the moment of asking: waiting, lookup, connecting and TLS
    /// are part of it. Up to [`DEADLINE_MAX`].
    pub deadline: Duration,
    /// Posts at a time, and so connections; 1–[`CONCURRENCY_MAX`].
    pub concurrency_max: usize,
    /// Questions that wait for their turn, 1–[`QUEUE_MAX`]; further ones fail at once.
    pub queue_max: usize,
    /// How long a connection waits for its next question, up to [`IDLE_TIMEOUT_MAX`]; must be below what the receiver keeps it. Where
    /// the receiver says so (`Keep-Alive: timeout=`), four fifths of that count if they are less.
    pub idle_timeout: Duration,
    /// Whether questions about comments are asked together.
    pub batching: Batching,
    /// When the receiver is not asked for a while.
    pub breaker: BreakerSettings,
    /// The time that is signed.
    pub unix_seconds: WallClock,
}

impl Settings {
    /// Settings with their defaults: 200 ms, 32 posts at a time, 1,024 questions waiting, connections kept
    /// for 4 s (below the 5 s of Node.js and uvicorn), ports 80 and 443, nothing private, no batches.
    #[must_use]
    pub fn new(url: impl Into<String>, secret: impl Into<Vec<u8>>) -> Self {
        Self {
            url: url.into(),
            secret: secret.into(),
            allow_private: Vec::new(),
            ports: vec![80, 443],
            ca_pem: None,
            deadline: Duration::from_millis(200),
            concurrency_max: 32,
            queue_max: 1_024,
            idle_timeout: Duration::from_secs(4),
            batching: Batching { questions_max: 1, wait: Duration::ZERO },
            breaker: BreakerSettings::default(),
            unix_seconds: system_seconds,
        }
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let rules = [
            (
                !self.deadline.is_zero() && self.deadline <= DEADLINE_MAX,
                "deadline",
                "above 0 and at most 60 s",
            ),
            ((1..=CONCURRENCY_MAX).contains(&self.concurrency_max), "concurrency_max", "1 to 1,024"),
            ((1..=QUEUE_MAX).contains(&self.queue_max), "queue_max", "1 to 65,536"),
            (self.idle_timeout <= IDLE_TIMEOUT_MAX, "idle_timeout", "at most an hour"),
            (
                (1..=BATCH_QUESTIONS_MAX).contains(&self.batching.questions_max),
                "batching.questions_max",
                "1 to 256",
            ),
            (self.batching.wait < self.deadline, "batching.wait", "shorter than deadline"),
        ];
        match rules.iter().find(|(kept, ..)| !kept) {
            Some((_, key, right)) => Err(SettingsError::Range { key, right }),
            None => Ok(()),
        }
    }
}

/// Without the secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A number or a time that makes no sense.
    #[error("{key} is out of range: {right}")]
    Range {
        /// Which setting.
        key: &'static str,
        /// What would be right.
        right: &'static str,
    },
    /// A number or a time of the breaker that makes no sense.
    #[error(transparent)]
    Breaker(#[from] BreakerSettingsError),
    /// A URL that cannot or may not be called.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A secret that is too short.
    #[error(transparent)]
    Secret(#[from] SecretTooShort),
    /// Authorities that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system gives no thread or no poll.
    #[error("the webhook's thread cannot be started: {0}")]
    Thread(std::io::Error),
}
