//! The one way out: `offer(bytes) → taken`.
//!
//! Plain sockets and TLS answer here; QUIC and io_uring enter through the same contract. A cursor moves
//! when bytes were *taken*, whatever became of them afterwards, so every transport shares one rule
//! for what a subscriber has and what it is still owed.

pub mod tls;

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;

use tls::TlsLayer;

/// What a transport did with an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Something of it was taken, perhaps all.
    Taken(Taken),
    /// The connection is gone.
    Gone,
}

/// How much of an offer was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// So many bytes, from the front.
    pub bytes: usize,
    /// The transport takes no more until the socket is writable. True wherever not all was taken; a transport
    /// that keeps bytes of its own may be full though it took everything.
    pub full: bool,
    /// Whether anything went on its way to the peer.
    pub moved: bool,
}

/// Offers bytes to a session's transport.
#[inline]
pub fn offer(socket: &OwnedFd, tls: Option<&mut TlsLayer>, bytes: &[u8]) -> Offer {
    match tls {
        None => offer_plain(socket, bytes),
        Some(tls) => tls.offer(socket, bytes),
    }
}

/// Offers bytes to a plain socket.
#[inline]
fn offer_plain(socket: impl AsFd, bytes: &[u8]) -> Offer {
    match send(socket, bytes) {
        Some(n) => Offer::Taken(Taken { bytes: n, full: n < bytes.len(), moved: n > 0 }),
        None => Offer::Gone,
    }
}

/// Writes to a socket: how many bytes it took, or none where it is gone.
#[inline]
fn send(socket: impl AsFd, bytes: &[u8]) -> Option<usize> {
    loop {
        match rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(n) => return Some(n),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Some(0),
            // The kernel is short of socket memory: as good as a full socket.
            Err(Errno::NOBUFS | Errno::NOMEM) => return Some(0),
            Err(_) => return None,
        }
    }
}
