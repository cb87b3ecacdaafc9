//! Listening sockets: one per worker on the same address, with the options that every accepted
//! connection inherits.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

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

/// What a listening socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Clients.
    Plain,
    /// Clients that begin with a TLS handshake.
    Tls,
    /// Back ends.
    Api,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Tls, Self::Api];
}

/// What a connection's listener says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrance {
    /// What it is for.
    pub kind: Kind,
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

impl Listener {
    /// A socket that listens already, with the address that it has.
    ///
    /// # Errors
    /// When the system does not tell the address.
    pub fn of(socket: TcpListener, kind: Kind) -> io::Result<Self> {
        let loopback = socket.local_addr()?.ip().is_loopback();
        Ok(Self { socket, entrance: Entrance { kind, loopback } })
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, entrance: self.entrance })
    }
}

/// Binds `count` listeners to one address; port 0 picks one port for all.
///
/// # Errors
/// When the address cannot be bound.
pub fn bind(address: SocketAddr, kind: Kind, count: usize) -> io::Result<Vec<Listener>> {
    let first = Listener::of(bind_one(address)?, kind)?;
    let address = first.socket.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(Listener::of(bind_one(address)?, kind)?);
    }
    Ok(listeners)
}

/// Brings listeners to `count` where they are fewer: by more sockets on the same address, or, where somebody
/// else bound it without sharing, by more descriptors of the same sockets.
///
/// # Errors
/// When the system refuses another descriptor.
pub fn widen(listeners: &mut Vec<Listener>, count: usize) -> io::Result<()> {
    let own = listeners.len();
    let Some(first) = listeners.first() else { return Ok(()) };
    let (address, kind) = (first.socket.local_addr()?, first.entrance.kind);
    while listeners.len() < count {
        let more = match bind_one(address) {
            Ok(more) => Listener::of(more, kind)?,
            Err(_) => listeners[listeners.len() % own].try_clone()?,
        };
        listeners.push(more);
    }
    Ok(())
}

/// Sets what connections inherit from their listener: no system call per join.
///
/// # Errors
/// When the system does not know an option.
pub fn prepare(listener: &SockRef<'_>) -> io::Result<()> {
    listener.set_tcp_nodelay(true)?;
    listener.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    listener.set_tcp_notsent_lowat(NOTSENT_LOWAT)
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    prepare(&SockRef::from(&socket))?;
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
