//! The scenarios: each connects, loads, accounts and says what it found.

pub mod giant;
pub mod idle;
pub mod rooms;
pub mod small_beside_giant;
pub mod stuck;

use crate::account;
use crate::error::LoadError;
use crate::options::Setup;
use crate::plan::Group;
use crate::report::Report;
use crate::session::Session;

/// One window over `groups`, with everything that is reported and checked everywhere.
fn run(name: &str, setup: &Setup, groups: &[Group]) -> Result<Report, LoadError> {
    let mut session = Session::connect(setup, groups)?;
    let window = session.measure()?;
    let outcome = session.finish()?;
    let mut report = Report::new(name);
    account::describe(&mut report, &outcome, &window);
    account::check(&mut report, &outcome);
    Ok(report)
}
