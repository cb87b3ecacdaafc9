//! One room with a crowd in it.

use clap::Args;

use crate::error::LoadError;
use crate::options::Common;
use crate::plan::Group;
use crate::report::Report;

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
    super::run("giant", &options.common.setup()?, &[group])
}
