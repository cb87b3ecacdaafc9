//! Many small rooms: what almost all rooms are. Each has one member who also publishes.

use clap::Args;

use crate::error::LoadError;
use crate::options::Common;
use crate::plan::Group;
use crate::report::Report;

/// Messages a second over all rooms unless it is said otherwise.
const RATE: f64 = 1_000.0;

/// Options.
#[derive(Debug, Args)]
pub struct Rooms {
    /// What all scenarios share.
    #[command(flatten)]
    pub common: Common,
    /// Rooms.
    #[arg(long, value_name = "M", default_value_t = 1_000)]
    rooms: usize,
    /// Members of each, the one who publishes included.
    #[arg(long, value_name = "K", default_value_t = 8)]
    members: usize,
}

/// Runs it.
///
/// # Errors
/// When there is no result.
pub fn run(options: &Rooms) -> Result<Report, LoadError> {
    if options.rooms == 0 || options.members == 0 {
        return Err(LoadError::Options("--rooms and --members must be at least 1"));
    }
    let group = Group {
        name: "small",
        rooms: options.rooms,
        subscribers: options.members - 1,
        publishers: 1,
        rate: options.common.rate.unwrap_or(RATE),
        stuck: 0,
        pausing: 0,
    };
    super::run("rooms", &options.common.setup()?, &[group])
}
