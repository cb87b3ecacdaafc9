//! Asks an HTTP receiver of the operator what to do with a comment, or whether somebody may connect.
//!
//! In come questions from any thread, out comes exactly one answer to each, at the latest at its deadline:
//! the receiver's verdict, or why there is none. Everything that takes time (lookups, sockets, TLS) happens
//! on a thread of the client's own. What an unanswered question means is the room's setting
//! ([`FailMode`]); whether a replaced text may be shown is checked by whoever asked. What the receiver
//! sees is written down in `docs/webhook.md`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use danmaku_webhook::{Client, FailMode, Question, Settings, Verdict};
//!
//! let client = Client::new(Settings::new("https://moderation.example/danmaku", [7; 32]))?;
//! let question = Question {
//!     id: "m1".into(),
//!     room: "lobby".into(),
//!     user: "u7".into(),
//!     role: "viewer".into(),
//!     text: "你好".into(),
//!     traceparent: None,
//! };
//! if FailMode::Closed.settle(client.ask(question).await) == Verdict::Pass {
//!     // show it
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod breaker;
mod client;
mod counters;
mod dispatch;
mod endpoint;
mod exchange;
mod failure;
mod forwarding;
mod gathering;
mod idle;
mod line;
mod names;
mod promise;
mod question;
mod settings;
mod signature;

pub use address::{AddressLaw, Denied, Kind, Network, NetworkError, kind_of};
pub use breaker::{Breaker, BreakerSettings, BreakerSettingsError, BreakerState, Permit};
pub use client::Client;
pub use counters::Figures;
pub use danmaku_wire::trace::TraceContext;
pub use endpoint::{Endpoint, EndpointError, Host};
pub use exchange::REPLY_BYTES_MAX;
pub use failure::Failure;
pub use forwarding::Forwarding;
pub use gathering::Batching;
pub use line::TlsError;
pub use names::{Names, NamesError};
pub use promise::Pending;
pub use question::{
    CLAIMS_BYTES_MAX, ConnectQuestion, ConnectVerdict, FailMode, QUESTION_BYTES_MAX, Question,
    REASON_BYTES_MAX, UNANSWERED, Verdict,
};
pub use settings::{
    BATCH_QUESTIONS_MAX, CONCURRENCY_MAX, DEADLINE_MAX, IDLE_TIMEOUT_MAX, QUEUE_MAX, Settings, SettingsError,
    WallClock,
};
pub use signature::{SECRET_BYTES_MIN, SIGNATURE_HEADER, Secret, SecretTooShort, TIMESTAMP_HEADER};
