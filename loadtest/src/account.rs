//! From an outcome to rows and checks: what every scenario reports, and what holds for everyone who reads.

use std::sync::atomic::Ordering::Relaxed;

use crate::connection::Connection;
use crate::intake::Latencies;
use crate::plan::{self, Role};
use crate::report::Report;
use crate::session::{Outcome, Window};

/// The share of the offered messages that must have been sent; less, and the generator itself was too slow
/// for its numbers to mean anything.
const OFFERED_SHARE_MIN: f64 = 0.98;

/// Everyone who reads all the time.
pub fn readers(outcome: &Outcome) -> impl Iterator<Item = &Connection> {
    outcome.subscribers.iter().filter(|c| c.spec.role == Role::Reading).chain(&outcome.publishers)
}

/// The last sequence of a connection's room that an answer told of.
pub fn last_seq(outcome: &Outcome, connection: &Connection) -> u64 {
    outcome.shared.last_seq[connection.spec.room].load(Relaxed)
}

/// Adds the rows of a window: rates, latencies, the server's costs.
pub fn describe(report: &mut Report, outcome: &Outcome, window: &Window) {
    let rate: f64 = outcome.groups.iter().map(|group| group.rate).sum();
    report.row("connections", "connections", plan::members(&outcome.groups) as f64, "");
    report.row("offered_per_s", "messages offered", rate, "/s");
    report.row("deliveries_per_s", "deliveries", window.items() / window.secs(), "/s");
    if let [latencies] = &outcome.latencies[..] {
        describe_latencies(report, "", latencies);
    } else {
        for (group, latencies) in outcome.groups.iter().zip(&outcome.latencies) {
            describe_latencies(report, group.name, latencies);
        }
    }
    report.row("bytes_per_delivery", "bytes received", window.bytes() / window.items(), "per delivery");
    report.row("items_per_message", "entries", window.items() / window.messages(), "per message");
    describe_server(report, window);
    let kib = |kib: u64| (kib > 0).then_some(kib as f64 / 1_024.0);
    report.row("rss_peak_mib", "server memory, peak", kib(outcome.peaks.rss_kib), "MiB");
    report.row("tcp_peak_mib", "kernel TCP memory, peak", kib(outcome.peaks.tcp_kib), "MiB");
}

/// Adds the rows of a histogram; with a group's name if there is more than one group.
pub fn describe_latencies(report: &mut Report, group: &str, latencies: &Latencies) {
    let (key, label) = if group.is_empty() {
        (String::new(), String::new())
    } else {
        (format!("{group}_"), format!("{group}: "))
    };
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        let value = (!latencies.is_empty()).then(|| latencies.value_at_quantile(quantile) as f64 / 1e3);
        report.row(format!("{key}{name}_ms"), format!("{label}latency {name}"), value, "ms");
    }
}

fn describe_server(report: &mut Report, window: &Window) {
    let (cpu_s, items) = (window.cpu_s(), window.items());
    report.row("cpu_cores", "server CPU", cpu_s.map(|s| s / window.secs()), "cores");
    report.row("cpu_us_per_delivery", "server CPU", cpu_s.map(|s| s * 1e6 / items), "µs per delivery");
    for (i, (name, cpu_s)) in window.threads().iter().take(8).enumerate() {
        let share = cpu_s / window.secs() * 100.0;
        report.row(format!("thread{i}_percent"), format!("thread {name}"), share, "% of a core");
    }
    let (batches, delivered) = (window.counter("batches"), window.counter("delivered"));
    let per = |name: &str, of: Option<f64>| Some(window.counter(name)? / of?);
    report.row("wakes_per_batch", "wakes sent", per("wakes_sent", batches), "per sealed batch");
    report.row("entries_per_batch", "entries", per("batch_entries", batches), "per sealed batch");
    report.row("writes_per_delivery", "writes", per("writes", delivered), "per delivery");
    report.row("sent_bytes_per_delivery", "bytes sent", per("bytes_sent", delivered), "per delivery");
    report.row("forms_per_batch", "forms made", per("forms_made", batches), "per sealed batch");
}

/// Checks what every scenario promises: publishes answered, readers told of everything, once, in order.
pub fn check(report: &mut Report, outcome: &Outcome) {
    check_publishes(report, outcome);
    let ended: Vec<_> = readers(outcome).filter_map(|c| c.end.as_ref()).collect();
    if let Some((first, _)) = ended.first() {
        report.fail(format!("{} connections that read ended early; the first: {first}.", ended.len()));
    }
    let faults: u64 = outcome.subscribers.iter().chain(&outcome.publishers).map(|c| c.ledger.faults).sum();
    if faults > 0 || !outcome.faults.is_empty() {
        let told = outcome.faults.join("; ");
        report.fail(format!("{faults} messages broke the order of ranges: {told}."));
    }
    if outcome.epochs > 0 {
        report.fail(format!("rooms changed their owner: {} epoch messages.", outcome.epochs));
    }
    let missing = |c: &Connection| c.ledger.owed(last_seq(outcome, c)).saturating_sub(c.ledger.covered);
    let short = readers(outcome).filter(|c| !c.ledger.adds_up(last_seq(outcome, c)) || c.ledger.lost > 0);
    let (count, lost) = short.fold((0u64, 0u64), |(n, lost), c| (n + 1, lost + c.ledger.lost));
    let total: u64 = readers(outcome).map(missing).sum();
    report.row("missing", "entries that readers did not get", total as f64, "");
    if count > 0 {
        report.fail(format!(
            "{count} readers did not get every entry exactly once: {total} are missing, {lost} of them told as \
             gaps."
        ));
    }
    if outcome.sent > 0 && outcome.latencies.iter().all(|latencies| latencies.is_empty()) {
        report.fail("no message of the measured window arrived with its token.");
    }
}

fn check_publishes(report: &mut Report, outcome: &Outcome) {
    let refused: u64 = outcome.refused.values().sum();
    if refused > 0 {
        let codes: Vec<_> = outcome.refused.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        let codes = codes.join(", ");
        report.fail(format!("{refused} of {} publishes were refused ({codes}).", outcome.sent));
    }
    let unanswered = outcome.sent.saturating_sub(outcome.answered);
    if unanswered > 0 {
        report.fail(format!("{unanswered} of {} publishes were never answered.", outcome.sent));
    }
    let rate: f64 = outcome.groups.iter().map(|group| group.rate).sum();
    let (start_ns, end_ns) = (outcome.shared.start_ns.load(Relaxed), outcome.shared.end_ns.load(Relaxed));
    let offered = rate * end_ns.saturating_sub(start_ns) as f64 / 1e9;
    if (outcome.sent as f64) < offered * OFFERED_SHARE_MIN - 1.0 {
        report.fail(format!("only {} of {offered:.0} messages due were sent.", outcome.sent));
    }
}
