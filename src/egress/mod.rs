//! The one way out: `offer(bytes) → accepted`.
//!
//! Plain sockets answer here; TLS, QUIC and io_uring enter through the same contract. A cursor moves
//! when bytes were *accepted*, whatever became of them afterwards, so every transport shares one rule
//! for what a subscriber has and what it is still owed.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::SendFlags;

/// What a transport did with an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// So many bytes were accepted, from the front; fewer than offered means that the transport is full
    /// and will say when it is writable again.
    Accepted(usize),
    /// The connection is gone.
    Gone,
}

/// Offers bytes to a plain socket.
#[inline]
pub fn offer_plain(socket: impl AsFd, bytes: &[u8]) -> Offer {
    loop {
        match rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(n) => return Offer::Accepted(n),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Offer::Accepted(0),
            // The kernel is short of socket memory: as good as a full socket.
            Err(Errno::NOBUFS | Errno::NOMEM) => return Offer::Accepted(0),
            Err(_) => return Offer::Gone,
        }
    }
}
