//! What operators see: metrics summed from the workers' cells, and logs.

pub mod audit;
pub mod cells;
pub mod exposition;
pub mod limits;
pub mod limits_page;
pub mod logging;
pub mod memory;
