//! Bytes to messages and back, and the vocabulary both sides of the server share.
//!
//! In come slices of bytes and borrowed buffers; out go borrowed messages, framed bytes and typed
//! violations. Nothing here opens a socket, reads a clock, spawns a thread or draws a random number:
//! every function can be tested and fuzzed with bytes alone.

pub mod disconnect;
pub mod entry;
pub mod id;
pub mod native;
pub mod position;
pub mod proxy_protocol;
pub mod trace;
pub mod websocket;
