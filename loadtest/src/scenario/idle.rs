//! Connections that do nothing: what they cost, and whether it is given back.

use clap::Args;

use crate::account;
use crate::error::LoadError;
use crate::options::Common;
use crate::plan::Group;
use crate::process;
use crate::report::Report;
use crate::session::{LOOK_NS, Session};

/// How long the connections stand before they are measured.
const STAND_NS: u64 = 1_500_000_000;
/// How long the memory may take to come back.
const RETURN_NS: u64 = 15_000_000_000;
/// Looks without a smaller value after which it is taken for the last.
const STILL_LOOKS: u32 = 12;

/// Options.
#[derive(Debug, Args)]
pub struct Idle {
    /// What all scenarios share.
    #[command(flatten)]
    pub common: Common,
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 8_000)]
    connections: usize,
    /// Rooms they are spread over.
    #[arg(long, value_name = "M", default_value_t = 1)]
    rooms: usize,
}

/// Runs it.
///
/// # Errors
/// When there is no result.
pub fn run(options: &Idle) -> Result<Report, LoadError> {
    let setup = options.common.setup()?;
    let pid = setup.server_pid.ok_or(LoadError::Options("idle measures memory: give --server-pid"))?;
    let rss = || process::usage(pid).map(|usage| usage.rss_kib as f64).ok_or(LoadError::NoProcess(pid));
    let rooms = options.rooms.max(1);
    let group = Group {
        name: "idle",
        rooms,
        subscribers: options.connections / rooms,
        publishers: 0,
        rate: 0.0,
        stuck: 0,
        pausing: 0,
    };
    let before = rss()?;
    let mut session = Session::connect(&setup, &[group])?;
    let clock = session.shared.clock;
    session.watch("standing", clock.now_ns() + STAND_NS, || false);
    let standing = rss()?;
    let tcp_kib = process::tcp_memory_kib().unwrap_or_default() as f64;
    let outcome = session.finish()?;
    let count = outcome.subscribers.len() as f64;
    let mut report = Report::new("idle");
    report.row("connections", "connections", count, "");
    account::check(&mut report, &outcome);
    // Everyone leaves.
    drop(outcome);
    let left_ns = clock.now_ns();
    let (mut after, mut still) = (standing, 0);
    while still < STILL_LOOKS && clock.now_ns() < left_ns + RETURN_NS {
        clock.sleep_until(clock.now_ns() + LOOK_NS);
        let now = rss()?;
        still = if now < after { 0 } else { still + 1 };
        after = after.min(now);
    }
    report.row("rss_before_mib", "server memory before", before / 1_024.0, "MiB");
    report.row("rss_peak_mib", "server memory with all", standing / 1_024.0, "MiB");
    report.row("rss_after_mib", "server memory after all have left", after / 1_024.0, "MiB");
    report.row("rss_kib_per_connection", "server memory", (standing - before) / count, "KiB per connection");
    report.row("tcp_kib_per_connection", "kernel TCP memory", tcp_kib / count, "KiB per connection");
    Ok(report)
}
