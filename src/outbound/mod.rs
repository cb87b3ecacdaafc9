//! What the server asks of others: where it may connect to, and how it fetches what it needs.
//!
//! Addresses come from the configuration alone. They are resolved once and connected to as they were found; nothing
//! follows a redirection, reads a proxy from the environment, or reaches a network that is not the public one unless
//! the configuration names it.

pub mod destination;
pub mod fetch;
