//! How connections come in: listeners, HTTP, handshakes.

pub mod addresses;
pub mod arrival;
pub mod authority;
pub mod body;
pub mod caller;
pub mod document;
pub mod http;
pub mod listener;
pub mod network;
pub mod origin;
pub mod page;
pub mod problem;
pub mod sockets;
pub mod tls;
