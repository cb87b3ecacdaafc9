//! The command line that all scenarios share, and what it means.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::driver::Manner;
use crate::error::LoadError;
use crate::target::{self, Endpoint};
use crate::wire::Trust;

/// How much of a busy room viewers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// The smallest share.
    Lite,
    /// The server's default.
    Standard,
    /// Everything: only then can each entry be accounted for.
    Full,
}

impl From<Tier> for danmaku_client::Tier {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Lite => Self::Lite,
            Tier::Standard => Self::Standard,
            Tier::Full => Self::Full,
        }
    }
}

/// Options of every scenario.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// The server's WebSocket endpoint; `wss://` needs `--ca`.
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8080/ws")]
    pub url: String,
    /// Certificates to trust, PEM: the server's own, or who signed it.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The server's admin port, for its own counters.
    #[arg(long, value_name = "URL")]
    pub admin: Option<String>,
    /// Allow a server that is not on this machine.
    #[arg(long)]
    pub allow_remote: bool,
    /// The server's process: its CPU time and memory are measured.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Messages a second, all publishers together.
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Seconds measured.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub secs: f64,
    /// Seconds published before measuring.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub warmup: f64,
    /// Seconds to wait at most for late messages.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub drain: f64,
    /// Bytes of a text, its token of 21 included.
    #[arg(long, value_name = "BYTES", default_value_t = 60)]
    pub text_bytes: usize,
    /// How much of a busy room the viewers ask for.
    #[arg(long, value_enum, default_value_t = Tier::Full)]
    pub tier: Tier,
    /// Offer permessage-deflate on all connections; every message is inflated and checked.
    #[arg(long)]
    pub deflate: bool,
    /// Pause after each round of reads, microseconds: fewer wake-ups, and at most so much more latency.
    #[arg(long, value_name = "US", default_value_t = 500)]
    pub coalesce_us: u64,
    /// Source addresses 127.0.1.1 and following used in turn, so that ports do not run out.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub source_addresses: u8,
    /// Handshakes under way at once.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub parallel: usize,
    /// Tell how far it is on standard error, a line a second, where that is no terminal. A terminal is told
    /// all the time.
    #[arg(long)]
    pub progress: bool,
    /// Write the result as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The options, checked.
#[derive(Debug, Clone)]
pub struct Setup {
    /// How connections are made.
    pub manner: Manner,
    /// Where the server's counters are.
    pub admin: Option<SocketAddr>,
    /// Its process.
    pub server_pid: Option<u32>,
    /// Whether each entry can be accounted for.
    pub all_visible: bool,
    /// Bytes of a text.
    pub text_bytes: usize,
    /// Seconds measured.
    pub secs: f64,
    /// Seconds published before.
    pub warmup: f64,
    /// Seconds to wait for late messages.
    pub drain: f64,
    /// Whether progress is told where there is no terminal.
    pub progress: bool,
    /// Nothing is read of the system's table of sockets while it is measured: with thousands of them a read
    /// keeps the generator's core for milliseconds, which viewers' latencies would show.
    pub quiet_window: bool,
}

impl Common {
    /// Checks the options.
    ///
    /// # Errors
    /// When an address is none or not allowed.
    pub fn setup(&self) -> Result<Setup, LoadError> {
        let Endpoint { address: target, certified, path } = target::websocket(&self.url, self.allow_remote)?;
        let trust = match (&certified, &self.ca) {
            (Some(name), Some(ca)) => Some(Trust::new(ca, name)?),
            (Some(_), None) => return Err(LoadError::Options("wss:// needs --ca: whom to trust")),
            (None, _) => None,
        };
        let admin = self.admin.as_deref().map(|url| target::http(url, self.allow_remote)).transpose()?;
        if !(self.secs > 0.0 && self.warmup >= 0.0 && self.rate.is_none_or(|rate| rate > 0.0)) {
            return Err(LoadError::Options("--secs and --rate must be above 0, --warmup not below"));
        }
        if self.parallel == 0 {
            return Err(LoadError::Options("--parallel must be at least 1"));
        }
        let tier = match self.tier {
            Tier::Lite => "lite",
            Tier::Standard => "standard",
            Tier::Full => "full",
        };
        let local = target.is_ipv4() && target.ip().is_loopback();
        let manner = Manner {
            target,
            trust,
            path: format!("{path}?room="),
            query: format!("&tier={tier}&snapshot=none"),
            deflate: self.deflate,
            sources: if local { self.source_addresses.into() } else { 0 },
            parallel: self.parallel,
            receive_buffer: 0,
            coalesce: Duration::from_micros(self.coalesce_us),
            drain_after_ns: u64::MAX,
        };
        Ok(Setup {
            manner,
            admin,
            server_pid: self.server_pid,
            all_visible: self.tier == Tier::Full,
            text_bytes: self.text_bytes,
            secs: self.secs,
            warmup: self.warmup,
            drain: self.drain,
            progress: self.progress,
            quiet_window: false,
        })
    }
}
