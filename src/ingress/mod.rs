//! How connections come in: listeners, HTTP, handshakes.

pub mod arrival;
pub mod http;
pub mod listener;
pub mod origin;
pub mod page;
pub mod problem;
