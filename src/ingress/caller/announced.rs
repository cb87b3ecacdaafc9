//! The PROXY header at the beginning of a connection, taken off its socket.

use std::io;
use std::net::IpAddr;

use danmaku_wire::proxy_protocol::{self, HEADER_BYTES_MAX};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// What was said of a connection before its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// Nothing: no header is spoken here.
    Unspoken,
    /// The proxy speaks for itself, or does not know for whom.
    Itself,
    /// The proxy speaks for this address.
    Source(IpAddr),
}

/// Why a connection has no PROXY header.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// What came is none.
    #[error(transparent)]
    Header(#[from] proxy_protocol::Error),
    /// It ended within the header.
    #[error("the connection ended within its PROXY header")]
    Cut,
    /// The header was not there in time.
    #[error("the PROXY header was not there in time")]
    Late,
    /// Who connected is no proxy of ours.
    #[error("{0} is not in `server.trusted_proxies`")]
    Untrusted(IpAddr),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads the header off a socket, and not a byte of what follows it.
///
/// # Errors
/// When there is no such header. The connection is of no use then.
pub async fn read(socket: &mut TcpStream) -> Result<Announced, AnnounceError> {
    let mut buffer = [0; HEADER_BYTES_MAX];
    let mut taken = 0;
    loop {
        // What is there is looked at before it is taken: behind the header begins somebody else's input.
        let seen = taken + socket.peek(&mut buffer[taken..]).await?;
        if seen == taken {
            return Err(AnnounceError::Cut);
        }
        let header = proxy_protocol::parse(&buffer[..seen])?;
        let end = header.map_or(seen, |(_, bytes)| bytes);
        socket.read_exact(&mut buffer[taken..end]).await?;
        taken = end;
        match header {
            Some((header, _)) => {
                return Ok(header.source.map_or(Announced::Itself, |source| Announced::Source(source.ip())));
            }
            None => debug_assert!(taken < HEADER_BYTES_MAX, "as many bytes are a header or an error"),
        }
    }
}
