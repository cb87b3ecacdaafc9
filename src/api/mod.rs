//! The HTTP sides for operators and for back ends.

pub mod admin;
pub mod v1;
