//! Listening sockets: one per worker on the same address, with the options that every accepted
//! connection inherits.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Unsent bytes above which a connection is not writable. Without it a reader that never reads takes
/// 3.7 MiB of kernel memory before anyone notices.
const NOTSENT_LOWAT: u32 = 32 << 10;
/// How long sent bytes may go unacknowledged before the kernel gives the connection up.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// Binds `count` listeners to one address; port 0 picks one port for all.
///
/// # Errors
/// When the address cannot be bound.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let first = bind_one(address)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(bind_one(address)?);
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
