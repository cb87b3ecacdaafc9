//! A small room on a machine whose workers a giant one saturates: the small one should not notice.

use clap::Args;

use crate::error::LoadError;
use crate::options::Common;
use crate::plan::Group;
use crate::report::Report;

/// Messages a second in the giant room unless it is said otherwise.
const RATE: f64 = 500.0;
/// Messages a second in the small room: people talking.
const SMALL_RATE: f64 = 5.0;
/// Members of the small room. All of them publish in turn, so that the publishers' thread drives them: on
/// the subscribers' one they would wait behind the giant's crowd in the load generator itself.
const SMALL_MEMBERS: usize = 8;

/// Options.
#[derive(Debug, Args)]
pub struct Beside {
    /// What all scenarios share.
    #[command(flatten)]
    pub common: Common,
    /// Subscribers of the giant room.
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    subscribers: usize,
    /// Fail if the small room's p99 beside the giant one is larger than this, milliseconds.
    #[arg(long, value_name = "MS")]
    p99_max_ms: Option<f64>,
}

/// Runs it: once with the giant room silent, once with it loud. All are connected both times.
///
/// # Errors
/// When there is no result.
pub fn run(options: &Beside) -> Result<Report, LoadError> {
    let setup = options.common.setup()?;
    let small = Group {
        name: "small",
        rooms: 1,
        subscribers: 0,
        publishers: SMALL_MEMBERS,
        rate: SMALL_RATE,
        stuck: 0,
        pausing: 0,
    };
    let loud = Group {
        name: "giant",
        subscribers: options.subscribers,
        publishers: 4,
        rate: options.common.rate.unwrap_or(RATE),
        ..small.clone()
    };
    let silent = Group { rate: 0.0, ..loud.clone() };
    let mut report = Report::new("small-beside-giant");
    report.include("quiet", super::run("quiet", &setup, &[silent, small.clone()])?);
    report.include("beside", super::run("beside", &setup, &[loud, small])?);
    let (quiet, beside) = (report.value("quiet_small_p99_ms"), report.value("beside_small_p99_ms"));
    report.row("p99_quiet_ms", "small room's p99, quiet", quiet, "ms");
    // Under the summary's names: what the table shows is the small room beside the giant one.
    report.row("p50_ms", "small room's p50, beside the giant", report.value("beside_small_p50_ms"), "ms");
    report.row("p99_ms", "small room's p99, beside the giant", beside, "ms");
    let missing = report.value("quiet_missing").zip(report.value("beside_missing"));
    report.row("missing", "entries that readers did not get", missing.map(|(a, b)| a + b), "");
    for key in ["connections", "offered_per_s", "deliveries_per_s", "cpu_us_per_delivery", "rss_peak_mib"] {
        report.row(key, format!("both rooms: {key}"), report.value(&format!("beside_{key}")), "");
    }
    if let (Some(beside), Some(max)) = (beside, options.p99_max_ms)
        && beside > max
    {
        report.fail(format!("the small room's p99 beside the giant one is {beside:.1} ms, above {max} ms."));
    }
    Ok(report)
}
