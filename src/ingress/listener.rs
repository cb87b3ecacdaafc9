//! Listening sockets: one per worker on the same address, with the options that every accepted
//! connection inherits.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

/// Unsent bytes above which a connection is not writable. Without it a reader that never reads takes
/// 3.7 MiB of kernel memory before anyone notices.
const NOTSENT_LOWAT: u32 = 32 << 10;
/// How long sent bytes may go unacknowledged before the kernel gives the connection up.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// What a failed accept asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedAccept {
    /// Nobody is waiting.
    Nobody,
    /// This one is gone, or the call was interrupted: the next may be there.
    Next,
    /// There is no descriptor or no memory for anybody: accepting again at once would spin.
    Pause,
}

/// What to do after accept(2) failed. Errors of the network that it passes on belong to the connection that it would
/// have been, and its manual says to go on as after none.
pub fn failed_accept(error: &io::Error) -> FailedAccept {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => FailedAccept::Nobody,
        Some(
            Errno::INTR
            | Errno::CONNABORTED
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH,
        ) => FailedAccept::Next,
        // EMFILE, ENFILE, ENOBUFS, ENOMEM, and whatever else says nothing of the next one.
        _ => FailedAccept::Pause,
    }
}

/// What a connection's listener says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrance {
    /// Whether it begins with a TLS handshake.
    pub tls: bool,
    /// Whether only this machine can come in here.
    pub loopback: bool,
}

/// A listening socket, non-blocking.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// What is known of who comes in.
    pub entrance: Entrance,
}

/// Binds `count` listeners to one address; port 0 picks one port for all.
///
/// # Errors
/// When the address cannot be bound.
pub fn bind(address: SocketAddr, tls: bool, count: usize) -> io::Result<Vec<Listener>> {
    let entrance = Entrance { tls, loopback: address.ip().is_loopback() };
    let first = bind_one(address)?;
    let address = first.local_addr()?;
    let mut listeners = vec![Listener { socket: first, entrance }];
    for _ in 1..count {
        listeners.push(Listener { socket: bind_one(address)?, entrance });
    }
    Ok(listeners)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    // Set on the listener, inherited by every connection: no system call per join.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_notsent_lowat(NOTSENT_LOWAT)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `failed_accept`: one that is gone costs nobody else a wait, and no want is answered by trying again at once.
    #[test]
    fn a_failed_accept_goes_on_or_waits_by_its_cause() {
        for (errno, expected) in [
            (Errno::AGAIN, FailedAccept::Nobody),
            (Errno::INTR, FailedAccept::Next),
            (Errno::CONNABORTED, FailedAccept::Next),
            (Errno::PROTO, FailedAccept::Next),
            (Errno::NETUNREACH, FailedAccept::Next),
            (Errno::PERM, FailedAccept::Pause),
            (Errno::MFILE, FailedAccept::Pause),
            (Errno::NFILE, FailedAccept::Pause),
            (Errno::NOMEM, FailedAccept::Pause),
            (Errno::NOBUFS, FailedAccept::Pause),
            (Errno::BADF, FailedAccept::Pause),
            (Errno::INVAL, FailedAccept::Pause),
        ] {
            assert_eq!(failed_accept(&errno.into()), expected, "{errno:?}");
        }
        assert_eq!(failed_accept(&io::Error::other("no number")), FailedAccept::Pause);
    }
}
