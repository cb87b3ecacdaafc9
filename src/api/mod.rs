//! The HTTP side for operators.

pub mod admin;
