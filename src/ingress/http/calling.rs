//! Who is calling: by the connection, and by each request on it.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpStream;

use super::{Caller, Front};
use crate::ingress::caller::announced::{self, AnnounceError, Announced};
use crate::ingress::caller::{Asker, ProxyProtocol, is_trusted};
use crate::observe::limits::Limit;

impl Front {
    /// Takes the PROXY header off a fresh connection where one is required.
    ///
    /// # Errors
    /// When it is not there, and nobody but a trusted proxy may write one: the connection is closed.
    pub(super) async fn announced(
        &self,
        socket: &mut TcpStream,
        peer: SocketAddr,
    ) -> Result<Announced, AnnounceError> {
        let (within, trusted) = {
            let config = self.shared.config.load();
            if config.proxy_protocol == ProxyProtocol::Off {
                return Ok(Announced::Unspoken);
            }
            (Duration::from_millis(config.proxy_header_ms), is_trusted(peer.ip(), &config.trusted_proxies))
        };
        let announced = if trusted {
            let read = tokio::time::timeout(within, announced::read(socket)).await;
            read.unwrap_or(Err(AnnounceError::Late))
        } else {
            Err(AnnounceError::Untrusted(peer.ip()))
        };
        if matches!(announced, Err(AnnounceError::Late)) {
            self.cells.met(Limit::ProxyHeader);
        }
        if announced.is_err() {
            self.cells.proxy_headers_refused.add(1);
        }
        announced
    }

    /// Who sent a request.
    pub(super) fn asker(&self, request: &Request<Incoming>, caller: Caller) -> Asker {
        let config = self.shared.config.load();
        Asker::of(caller.peer.ip(), caller.announced, request.headers(), &config.trusted_proxies)
    }
}
