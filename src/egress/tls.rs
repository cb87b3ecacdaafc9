//! TLS between a session and its socket.
//!
//! The handshake is over when a layer is made: what is left is sealing what goes out and opening what comes
//! in. One record is outstanding at most: the next is sealed only when the socket has taken the last one
//! whole, so that what a slow reader keeps here is one record and not what it is behind.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustls::ServerConnection;

use super::{Offer, Taken, send};

/// Plaintext of one record (RFC 8446, section 5.1).
const RECORD_BYTES_MAX: usize = 16 << 10;
/// What a record adds to its plaintext, at most, in the ciphers spoken here (RFC 5246, section 6.2.3.3).
const RECORD_OVERHEAD: usize = 29;
/// What the library may keep: one record, and an alert or a ticket beside it.
const KEPT_BYTES_MAX: usize = 32 << 10;

/// A connection's keys, and what has not gone through them yet.
#[derive(Debug)]
pub struct TlsLayer {
    connection: ServerConnection,
    /// Sealed bytes that the socket has not taken; exact where it is 0, else a bound.
    kept: usize,
    /// Bytes read from the socket since somebody asked.
    wire_bytes: u32,
    /// The last read left the socket empty.
    drained: bool,
    /// We have said that nothing more comes.
    closed: bool,
}

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// So many bytes.
    Bytes(usize),
    /// Nothing until the socket is readable again.
    Empty,
    /// The peer is done, gone, or does not keep to the protocol.
    End,
}

impl TlsLayer {
    /// Takes a connection over whose handshake is done.
    pub fn new(mut connection: ServerConnection) -> Self {
        connection.set_buffer_limit(Some(KEPT_BYTES_MAX));
        Self { connection, kept: 0, wire_bytes: 0, drained: false, closed: false }
    }

    /// Seals and sends, a record at a time, as long as the socket takes them.
    pub fn offer(&mut self, socket: impl AsFd, bytes: &[u8]) -> Offer {
        let socket = socket.as_fd();
        let Offer::Taken(mut taken) = self.flush(socket) else { return Offer::Gone };
        while !taken.full && taken.bytes < bytes.len() {
            let end = bytes.len().min(taken.bytes + RECORD_BYTES_MAX);
            let Ok(sealed) = self.connection.writer().write(&bytes[taken.bytes..end]) else {
                return Offer::Gone;
            };
            if sealed == 0 {
                // Nothing is kept, so there is room: a connection that takes nothing is closed.
                return Offer::Gone;
            }
            taken.bytes += sealed;
            self.kept += sealed + RECORD_OVERHEAD;
            let Offer::Taken(flushed) = self.flush(socket) else { return Offer::Gone };
            taken.full = flushed.full;
            taken.moved |= flushed.moved;
        }
        Offer::Taken(taken)
    }

    /// Sends what was sealed already.
    pub fn flush(&mut self, socket: impl AsFd) -> Offer {
        let socket = socket.as_fd();
        let mut taken = Taken { bytes: 0, full: false, moved: false };
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Outward(socket)) {
                Ok(0) => {
                    taken.full = true;
                    return Offer::Taken(taken);
                }
                Ok(n) => {
                    taken.moved = true;
                    self.kept = self.kept.saturating_sub(n).max(1);
                }
                Err(_) => return Offer::Gone,
            }
        }
        self.kept = 0;
        Offer::Taken(taken)
    }

    /// Reads what the peer has sent into `buffer`. With `to_the_end` a short read is not taken for the last:
    /// the peer has closed, and no edge will tell of it again.
    pub fn take(&mut self, socket: impl AsFd, to_the_end: bool, buffer: &mut [u8]) -> Intake {
        let socket = socket.as_fd();
        loop {
            match self.connection.reader().read(buffer) {
                Ok(0) => return Intake::End,
                Ok(n) => return Intake::Bytes(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Intake::End,
            }
            if std::mem::take(&mut self.drained) && !to_the_end {
                return Intake::Empty;
            }
            let mut inward = Inward { socket, drained: false };
            match self.connection.read_tls(&mut inward) {
                // The library says that the peer is gone by the next read.
                Ok(n) => self.wire_bytes = self.wire_bytes.saturating_add(n as u32),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Intake::Empty,
                Err(_) => return Intake::End,
            }
            self.drained = inward.drained;
            if self.connection.process_new_packets().is_err() {
                // The alert that says why goes out if it can.
                let _ = self.flush(socket);
                return Intake::End;
            }
        }
    }

    /// Bytes read from the socket since this was last asked.
    pub fn take_wire_bytes(&mut self) -> u32 {
        std::mem::take(&mut self.wire_bytes)
    }

    /// Whether there is something to send that no session asked for: a ticket, an alert, a change of keys.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sealed bytes that the socket has not taken, at most.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Says that nothing more comes (`close_notify`), once.
    pub fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.connection.send_close_notify();
        }
    }
}

/// A socket to write to; full is 0 bytes, not an error.
struct Outward<'s>(BorrowedFd<'s>);

impl Write for Outward<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(self.0, bytes).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket to read from, which notes whether a read has emptied it.
struct Inward<'s> {
    socket: BorrowedFd<'s>,
    drained: bool,
}

impl Read for Inward<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len();
        loop {
            match rustix::io::read(self.socket, &mut *buffer) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(n) => {
                    // An end is no short read: it is read again and again.
                    self.drained = 0 < n && n < wanted;
                    return Ok(n);
                }
            }
        }
    }
}
