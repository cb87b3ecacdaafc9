//! The way to the receiver: looked up, judged, connected, with TLS where the URL says so.
//!
//! A name is looked up once for each connection, and the very address that was judged is connected to,
//! so a name that changes its address in between gains nothing. No proxy of the environment is used.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::address::AddressLaw;
use crate::endpoint::{Endpoint, Host};
use crate::failure::Failure;
use crate::signature::Secret;

/// Addresses of a name that are tried, one after the other.
const ADDRESSES_MAX: usize = 4;
/// Lookups at a time. One that hangs in the system's resolver cannot be ended; it must not pile up.
const LOOKUPS_MAX: usize = 2;
/// Longest head of an answer, bytes; the least that hyper reads at once.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Most headers of an answer.
const HEADERS_MAX: usize = 64;

/// Turns a host name and a port into addresses. Called on a thread that may block.
pub(crate) type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The system's own lookup.
pub(crate) fn system_lookup(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (name, port).to_socket_addrs().map(Iterator::collect)
}

/// Everything that calls of one receiver share.
pub(crate) struct Line {
    pub(crate) endpoint: Endpoint,
    pub(crate) secret: Secret,
    law: AddressLaw,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    lookup: Arc<Lookup>,
    lookups: Arc<Semaphore>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of authorities has something else than certificates in it.
    #[error("ca_pem cannot be read: {0}")]
    Pem(rustls::pki_types::pem::Error),
    /// The file of authorities has none that can be used.
    #[error("ca_pem has no certificate that can be an authority")]
    NoAuthority,
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
    /// The host cannot be in a certificate.
    #[error("{0:?} is no name that a certificate can have")]
    Name(String),
}

impl Line {
    /// The way to a receiver. `ca_pem`: authorities that count in place of Mozilla's.
    pub(crate) fn new(
        endpoint: Endpoint,
        secret: Secret,
        law: AddressLaw,
        ca_pem: Option<&[u8]>,
        lookup: Arc<Lookup>,
    ) -> Result<Self, TlsError> {
        let tls = if endpoint.tls {
            let host = endpoint.host_text();
            let name = ServerName::try_from(host.clone()).map_err(|_| TlsError::Name(host))?;
            Some((TlsConnector::from(Arc::new(tls_config(ca_pem)?)), name))
        } else {
            None
        };
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Ok(Self { endpoint, secret, law, tls, lookup, lookups })
    }

    /// A new connection that was made before `deadline`.
    pub(crate) async fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        let stream = self.tcp(deadline).await?;
        // Questions are small and waited for.
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => Connection::over(stream).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|_| Failure::Tls)?;
                Connection::over(stream).await
            }
        }
    }

    async fn tcp(&self, deadline: Instant) -> Result<TcpStream, Failure> {
        let addresses = self.addresses().await?;
        for (tried, address) in addresses.iter().enumerate() {
            // One address that swallows everything must leave time for the next.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1);
            if let Ok(Ok(stream)) = timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
                return Ok(stream);
            }
        }
        Err(Failure::Connect)
    }

    /// The addresses that may be connected to; never empty.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        let port = self.endpoint.port;
        let found = match &self.endpoint.host {
            Host::Address(address) => vec![SocketAddr::new(*address, port)],
            Host::Name(name) => self.look_up(name.clone(), port).await?,
        };
        let mut denied = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.law.judge(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(why) => denied = denied.or(Some(why)),
            }
        }
        allowed.truncate(ADDRESSES_MAX);
        match denied {
            Some(why) if allowed.is_empty() => Err(Failure::Denied(why)),
            None if allowed.is_empty() => Err(Failure::Resolve),
            _ => Ok(allowed),
        }
    }

    async fn look_up(&self, name: String, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(|_| Failure::Resolve)?;
        let lookup = Arc::clone(&self.lookup);
        let found = spawn_blocking(move || {
            // Held until the lookup has ended, not only until nobody waits for it.
            let _permit = permit;
            lookup(&name, port)
        });
        found.await.ok().and_then(Result::ok).ok_or(Failure::Resolve)
    }
}

fn tls_config(ca_pem: Option<&[u8]>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    match ca_pem {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
            let (used, _) = roots.add_parsable_certificates(read.map_err(TlsError::Pem)?);
            if used == 0 {
                return Err(TlsError::NoAuthority);
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A connection to the receiver. Dropping it closes the socket.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Connection {
    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Self, Failure> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure::Broken)?;
        // How it ends is told to whoever has a question on it.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, driver })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
