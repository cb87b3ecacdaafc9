//! What a service manager is told (sd_notify(3)): a datagram to the socket that it named.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager, if there is one, lines such as `READY=1`. A manager that does not listen is no
/// reason not to serve.
pub fn tell(lines: &str) {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return };
    let bytes = name.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(&name),
    };
    let told = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(lines.as_bytes(), &address)
    });
    if let Err(error) = told {
        tracing::warn!(%error, lines, "the service manager could not be told");
    }
}
