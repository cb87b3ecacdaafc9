//! One room with a crowd in it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;

use crate::account;
use crate::error::LoadError;
use crate::options::{Common, Setup};
use crate::plan::Group;
use crate::report::Report;
use crate::session::Session;
use crate::witness::{Testimony, Witnesses};

/// Messages a second unless it is said otherwise.
const RATE: f64 = 100.0;

/// Options.
#[derive(Debug, Args)]
pub struct Giant {
    /// What all scenarios share.
    #[command(flatten)]
    pub common: Common,
    /// Subscribers.
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    subscribers: usize,
    /// Publishers, members too.
    #[arg(long, value_name = "P", default_value_t = 4)]
    publishers: usize,
    /// Further subscribers who use the Rust client; each one's whole log is checked.
    #[arg(long, value_name = "N", default_value_t = 2)]
    witnesses: usize,
}

/// Runs it.
///
/// # Errors
/// When there is no result.
pub fn run(options: &Giant) -> Result<Report, LoadError> {
    let group = Group {
        name: "giant",
        rooms: 1,
        subscribers: options.subscribers,
        publishers: options.publishers.max(1),
        rate: options.common.rate.unwrap_or(RATE),
        stuck: 0,
        pausing: 0,
    };
    let setup = options.common.setup()?;
    let mut session = Session::connect(&setup, &[group])?;
    let witnesses = match (options.witnesses, session.rooms()) {
        (0, _) | (_, []) => None,
        (count, [room, ..]) => {
            Some(Witnesses::start(&options.common.url, room, options.common.tier.into(), count)?)
        }
    };
    let window = session.measure()?;
    let outcome = session.finish()?;
    let last_seq = outcome.shared.last_seq[0].load(Relaxed);
    let testimonies =
        witnesses.map(|w| w.finish(last_seq, Duration::from_secs_f64(setup.drain))).transpose()?;
    let mut report = Report::new("giant");
    account::describe(&mut report, &outcome, &window);
    account::check(&mut report, &outcome);
    check_witnesses(&mut report, &testimonies.unwrap_or_default(), last_seq, &setup);
    Ok(report)
}

/// What the client library promises: every entry once, in order, and without having to come back.
fn check_witnesses(report: &mut Report, testimonies: &[Testimony], last_seq: u64, setup: &Setup) {
    if testimonies.is_empty() {
        return;
    }
    let shown: usize = testimonies.iter().map(|testimony| testimony.shown.len()).sum();
    report.row("witnesses", "witnesses with the Rust client", testimonies.len() as f64, "");
    report.row("witnessed", "entries they were shown", shown as f64, "");
    for (i, testimony) in testimonies.iter().enumerate() {
        let audit = testimony.audit(last_seq, setup.all_visible);
        let Testimony { lost, reconnects, resets, .. } = testimony;
        if audit != Default::default() || lost + reconnects + resets > 0 {
            report.fail(format!(
                "witness {i}: {} entries missing, {} doubled, {} out of order, {lost} told as lost, {reconnects} \
                 reconnects, {resets} resets.",
                audit.missing, audit.doubled, audit.disordered
            ));
        }
    }
}
