//! RFC 6455 and RFC 7692, server side, without I/O.
//!
//! In come the fields of an upgrade request and the bytes that a socket gave; out go the answer's
//! head, borrowed events and framed bytes. It answers nothing by itself: pongs, echoes of a close
//! and the deadline of a closing handshake are the caller's, and so are rates of frames and of
//! inflated bytes. It never reads a socket or a clock, and never sends a masked frame.
//!
//! One idea a file: [`handshake`] and the extension offers it reads, [`frame`] (what is sent), the
//! header of what is received, the mask, [`decoder`] (whole frames in place, others assembled) and
//! [`deflate`].

pub mod decoder;
pub mod deflate;
pub mod frame;
pub mod handshake;
pub mod mask;
pub mod violation;

mod assembly;
mod extension;
mod header;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, Event, Input, Limits};
pub use deflate::{Deflater, Inflater};
pub use violation::Violation;
