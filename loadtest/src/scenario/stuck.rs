//! A room in which some do not read. They must be ended in time, must not cost the others anything, and
//! those who read on in time must be told exactly what they lost.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use clap::Args;

use crate::account;
use crate::clock::secs_ns;
use crate::connection::{Connection, End};
use crate::error::LoadError;
use crate::options::{Common, Setup};
use crate::plan::{Group, Role};
use crate::report::Report;
use crate::session::{LOOK_NS, Outcome, Session};
use crate::shared::Watched;

/// Messages a second unless it is said otherwise.
const RATE: f64 = 100.0;
/// What the server has beyond its grace.
const TOLERANCE_S: f64 = 1.0;
/// What the observation adds: the send queues are looked at every 250 ms, and the server notices a full
/// socket when it next has something for it, at most a tick (250 ms) later.
const BLUR_S: f64 = 2.0 * LOOK_NS as f64 / 1e9;
/// How long after the window the sockets may take to fill up before they are given up.
const FILL_S: f64 = 30.0;
/// The close code of a slow consumer.
const SLOW_CONSUMER: u16 = 4008;

/// Options.
#[derive(Debug, Args)]
pub struct Stuck {
    /// What all scenarios share.
    #[command(flatten)]
    pub common: Common,
    /// Subscribers, those who do not read included.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    subscribers: usize,
    /// How many of them never read after the handshake.
    #[arg(long, value_name = "S", default_value_t = 100)]
    stuck: usize,
    /// How many of them stop reading after the warm-up and then read on.
    #[arg(long, value_name = "K", default_value_t = 0)]
    resume: usize,
    /// For how long, seconds; less than the grace.
    #[arg(long, value_name = "S", default_value_t = 6.0)]
    pause: f64,
    /// Fail if none of those was told a gap: then the pause was too short to test anything.
    #[arg(long)]
    expect_gap: bool,
    /// The server's `slow_consumer.grace`, seconds.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    grace: f64,
    /// Receive buffer of those who do not read, bytes; 0: the system's. A small one is full soon.
    #[arg(long, value_name = "BYTES", default_value_t = 4_096)]
    receive_buffer: usize,
    /// Run in turn without and with those who do not read, and compare the p99 of the readers.
    #[arg(long)]
    compare: bool,
    /// How often, with --compare.
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: usize,
    /// Fail if the median p99 grows by more than this factor, with --compare.
    #[arg(long, value_name = "X")]
    ratio_max: Option<f64>,
}

/// Runs it.
///
/// # Errors
/// When there is no result.
pub fn run(options: &Stuck) -> Result<Report, LoadError> {
    if options.stuck + options.resume > options.subscribers {
        return Err(LoadError::Options("--stuck and --resume together are more than --subscribers"));
    }
    if options.pause >= options.grace {
        return Err(LoadError::Options("--pause must be shorter than --grace"));
    }
    let mut setup = options.common.setup()?;
    setup.manner.receive_buffer = options.receive_buffer;
    setup.manner.drain_after_ns = secs_ns(options.grace + TOLERANCE_S + BLUR_S);
    // A socket that fills up in the window is then judged too early, which fails: the warm-up must be longer.
    setup.quiet_window = options.compare;
    if options.compare { compare(options, &setup) } else { once(options, &setup, true) }
}

fn once(options: &Stuck, setup: &Setup, with_stuck: bool) -> Result<Report, LoadError> {
    let (stuck, pausing) = if with_stuck { (options.stuck, options.resume) } else { (0, 0) };
    let group = Group {
        name: "stuck",
        rooms: 1,
        // Without them there are fewer connections, not more readers: their share is what is compared.
        subscribers: options.subscribers - (options.stuck - stuck) - (options.resume - pausing),
        publishers: 4,
        rate: options.common.rate.unwrap_or(RATE),
        stuck,
        pausing,
    };
    let mut session = Session::connect(setup, &[group])?;
    let pause_ns = session.shared.clock.now_ns() + secs_ns(setup.warmup);
    session.shared.pause_ns.store(pause_ns, Relaxed);
    session.shared.resume_ns.store(pause_ns + secs_ns(options.pause), Relaxed);
    let window = session.measure()?;
    let shared = Arc::clone(&session.shared);
    // Publishing goes on until everybody is judged: nothing fills up in silence.
    let judged_ns = shared.clock.now_ns() + secs_ns(options.grace + TOLERANCE_S + FILL_S);
    session.watch("waiting for the stuck ones to be ended", judged_ns, || {
        let over = shared.count(|tally| &tally.stuck_over) >= stuck;
        over && (pausing == 0 || shared.clock.now_ns() > pause_ns + secs_ns(options.pause + 1.0))
    });
    let outcome = session.finish()?;
    let mut report = Report::new("stuck");
    account::describe(&mut report, &outcome, &window);
    account::check(&mut report, &outcome);
    check_stuck(&mut report, &outcome, options.grace);
    check_pausing(&mut report, &outcome, options.expect_gap);
    Ok(report)
}

/// How a connection that never read came to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    /// In time.
    Ended {
        /// Seconds from the moment it was full.
        after_s: f64,
    },
    /// Its socket never filled up.
    NeverFull,
    /// Before the grace was over.
    TooEarly,
    /// After it, or not at all.
    TooLate,
    /// By something else than a reset or the code.
    Otherwise,
}

fn judge(connection: &Connection, watched: &Watched, drained_ns: Option<u64>, grace_s: f64) -> Verdict {
    let (full_ns, shut_ns) = (watched.full_ns.load(Relaxed), watched.shut_ns.load(Relaxed));
    let Some((end, ended_ns)) = &connection.end else {
        return if full_ns == 0 { Verdict::NeverFull } else { Verdict::TooLate };
    };
    if full_ns == 0 {
        return Verdict::NeverFull;
    }
    if !matches!(end, End::Reset | End::Closed(Some(SLOW_CONSUMER))) {
        return Verdict::Otherwise;
    }
    let ended_ns = match (shut_ns, drained_ns) {
        (0, Some(drained_ns)) if *ended_ns > drained_ns + secs_ns(TOLERANCE_S) => return Verdict::TooLate,
        // Its last word was there when it was read after all, just past the limit.
        (0, Some(_)) => full_ns + secs_ns(grace_s),
        (0, None) => *ended_ns,
        (shut_ns, _) => shut_ns,
    };
    let after_s = ended_ns.saturating_sub(full_ns) as f64 / 1e9;
    if after_s < grace_s - BLUR_S {
        Verdict::TooEarly
    } else if after_s > grace_s + TOLERANCE_S + BLUR_S {
        Verdict::TooLate
    } else {
        Verdict::Ended { after_s }
    }
}

fn check_stuck(report: &mut Report, outcome: &Outcome, grace_s: f64) {
    let stuck: Vec<_> = outcome.subscribers.iter().filter(|c| c.spec.role == Role::Stuck).collect();
    if stuck.is_empty() {
        return;
    }
    let verdicts: Vec<Verdict> = stuck
        .iter()
        .zip(outcome.shared.watched.iter().zip(&outcome.drained_ns))
        .map(|(connection, (watched, drained_ns))| judge(connection, watched, *drained_ns, grace_s))
        .collect();
    let times = verdicts.iter().filter_map(|verdict| match verdict {
        Verdict::Ended { after_s } => Some(*after_s),
        _ => None,
    });
    let (count, least, most) =
        times.fold((0u32, f64::MAX, 0.0), |(n, least, most), s| (n + 1, s.min(least), s.max(most)));
    let resets = stuck.iter().filter(|c| matches!(c.end, Some((End::Reset, _)))).count();
    report.row("stuck", "connections that never read", stuck.len() as f64, "");
    report.row("stuck_ended", "of them ended in time", f64::from(count), "");
    report.row("stuck_reset", "of them by a reset", resets as f64, "");
    report.row("stuck_ended_after_min_s", "ended after, least", (count > 0).then_some(least), "s");
    report.row("stuck_ended_after_max_s", "ended after, most", (count > 0).then_some(most), "s");
    let mut complain = |verdict: Verdict, words: &str| {
        let at_fault = stuck.iter().zip(&verdicts).filter(|(_, v)| **v == verdict);
        let ends: Vec<_> = at_fault.map(|(connection, _)| &connection.end).collect();
        if let Some(first) = ends.first() {
            let first = first.as_ref().map_or_else(|| "none yet".to_owned(), |(end, _)| end.to_string());
            report.fail(format!(
                "{} connections that never read {words}; the end of the first: {first}.",
                ends.len()
            ));
        }
    };
    complain(Verdict::NeverFull, "were never full, so nothing was tested: raise --rate or --text-bytes");
    complain(Verdict::TooEarly, "were ended before the grace was over");
    complain(Verdict::TooLate, "were not ended within the grace and a second");
    complain(Verdict::Otherwise, "were ended by something else than 4008 or a reset");
}

fn check_pausing(report: &mut Report, outcome: &Outcome, expect_gap: bool) {
    let pausing: Vec<_> = outcome.subscribers.iter().filter(|c| c.spec.role == Role::Pausing).collect();
    if pausing.is_empty() {
        return;
    }
    let sum = |pick: fn(&Connection) -> u64| pausing.iter().map(|c| pick(c)).sum::<u64>() as f64;
    report.row("paused", "connections that paused", pausing.len() as f64, "");
    report.row("paused_gaps", "gaps they were told", sum(|c| c.ledger.gaps), "");
    report.row("paused_lost", "entries told as lost", sum(|c| c.ledger.lost), "");
    let ended: Vec<_> = pausing.iter().filter_map(|c| c.end.as_ref()).collect();
    if let Some((first, _)) = ended.first() {
        report.fail(format!(
            "{} connections that read on in time were ended; the first: {first}.",
            ended.len()
        ));
    }
    let wrong = |c: &&&Connection| c.end.is_none() && !c.ledger.adds_up(account::last_seq(outcome, c));
    let wrong: Vec<_> = pausing.iter().filter(wrong).collect();
    if let Some(first) = wrong.first() {
        let ledger = &first.ledger;
        report.fail(format!(
            "for {} connections that paused, entries delivered and told as lost do not add up to what was \
             published; the first: {} + {} of {}.",
            wrong.len(),
            ledger.covered,
            ledger.lost,
            ledger.owed(account::last_seq(outcome, first)),
        ));
    }
    if expect_gap && pausing.iter().all(|c| c.ledger.gaps == 0) {
        report.fail("nobody who paused was told a gap: raise --rate, --text-bytes or --pause.");
    }
}

/// Alternates, so that a slow minute of the machine hits both.
fn compare(options: &Stuck, setup: &Setup) -> Result<Report, LoadError> {
    let mut report = Report::new("stuck, compared");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds.max(1) {
        for with_stuck in [false, true] {
            let one = once(options, setup, with_stuck)?;
            if with_stuck { &mut with } else { &mut without }.extend(one.value("p99_ms"));
            report.include(&format!("{}{round}", if with_stuck { "with" } else { "without" }), one);
        }
    }
    let (without, with) = (median(&mut without), median(&mut with));
    report.row("p99_without_ms", "p99 without, median", without, "ms");
    report.row("p99_with_ms", "p99 with, median", with, "ms");
    let ratio = without.zip(with).map(|(without, with)| with / without);
    report.row("p99_ratio", "p99 with / without", ratio, "");
    if let (Some(ratio), Some(max)) = (ratio, options.ratio_max)
        && ratio > max
    {
        report.fail(format!("those who do not read raise the others' p99 by {ratio:.2}, above {max}."));
    }
    Ok(report)
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use rustix::io::Errno;

    use super::*;
    use crate::plan::Spec;

    /// `judge`: in time, too early, too late, in the wrong way, or not tested at all.
    #[test]
    fn a_stuck_connection_is_judged_by_when_and_how_it_ended() {
        let s = |secs: f64| secs_ns(100.0 + secs);
        let check = |end: Option<(End, f64)>, full, shut, drained: Option<f64>, expected: Verdict| {
            let spec = Spec { group: 0, room: 0, role: Role::Stuck };
            let mut connection = Connection::failed(spec, Errno::IO, 0);
            connection.end = end.clone().map(|(end, at)| (end, s(at)));
            let at = |secs: Option<f64>| AtomicU64::new(secs.map_or(0, s));
            let watched = Watched { local: AtomicU64::new(1), full_ns: at(full), shut_ns: at(shut) };
            let got = judge(&connection, &watched, drained.map(s), 10.0);
            let same = match (got, expected) {
                (Verdict::Ended { after_s: a }, Verdict::Ended { after_s: b }) => (a - b).abs() < 1e-6,
                (a, b) => a == b,
            };
            assert!(same, "{end:?} full {full:?} shut {shut:?} drained {drained:?}: {got:?}");
        };
        let slow = || End::Closed(Some(4008));
        let in_time = |after_s| Verdict::Ended { after_s };
        check(Some((End::Reset, 12.5)), Some(2.0), None, None, in_time(10.5));
        check(Some((slow(), 14.0)), Some(2.0), Some(12.0), Some(13.0), in_time(10.0));
        check(Some((slow(), 13.6)), Some(2.0), None, Some(13.5), in_time(10.0));
        check(Some((End::Reset, 9.0)), Some(2.0), None, None, Verdict::TooEarly);
        check(Some((End::Reset, 14.0)), Some(2.0), None, None, Verdict::TooLate);
        check(Some((slow(), 15.0)), Some(2.0), None, Some(13.5), Verdict::TooLate);
        check(None, Some(2.0), None, Some(13.5), Verdict::TooLate);
        check(None, None, None, None, Verdict::NeverFull);
        check(Some((End::Closed(Some(1011)), 12.0)), Some(2.0), None, None, Verdict::Otherwise);
    }

    /// `median`: of odd and even numbers of values, and of none.
    #[test]
    fn the_median_lies_in_the_middle() {
        let check = |mut values: Vec<f64>, expected| assert_eq!(median(&mut values), expected);
        check(vec![], None);
        check(vec![3.0, 1.0, 2.0], Some(2.0));
        check(vec![4.0, 1.0], Some(2.5));
    }
}
