//! Bytes of a connection, in the plain or through TLS.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::LoadError;

/// How TLS is spoken: whom to trust, and who is expected.
#[derive(Debug, Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Trust {
    /// Trusts the certificates of a PEM file and no others; the server is expected to be `host`.
    ///
    /// # Errors
    /// When the file holds none, or the host is no name.
    pub fn new(ca: &Path, host: &str) -> Result<Self, LoadError> {
        let bad = |why: String| LoadError::File { path: ca.to_owned(), source: io::Error::other(why) };
        let mut roots = RootCertStore::empty();
        for cert in CertificateDer::pem_file_iter(ca).map_err(|error| bad(error.to_string()))? {
            let cert = cert.map_err(|error| bad(error.to_string()))?;
            roots.add(cert).map_err(|error| bad(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(bad("there is no certificate in it".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(|_| LoadError::Address(host.to_owned()))?;
        Ok(Self { config: Arc::new(config), name })
    }
}

/// A socket, with TLS around it or without.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    /// A connection that is being made.
    ///
    /// # Errors
    /// When TLS cannot be begun.
    pub fn new(socket: OwnedFd, trust: Option<&Trust>) -> Result<Self, Errno> {
        let tls = trust
            .map(|trust| ClientConnection::new(Arc::clone(&trust.config), trust.name.clone()).map(Box::new));
        Ok(Self { socket, tls: tls.transpose().map_err(|_| Errno::PROTO)? })
    }

    /// The socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether a read that does not fill its buffer has left nothing to read.
    pub fn short_means_empty(&self) -> bool {
        self.tls.is_none()
    }

    /// Takes bytes to send; TLS keeps what the socket does not take, and says so by the next call.
    ///
    /// # Errors
    /// `AGAIN` where there is no room, else the end of the connection.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else {
            return rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL);
        };
        push(tls, &self.socket)?;
        // Before the handshake is over it is kept by the library, and goes out behind it.
        let taken = tls.writer().write(bytes).map_err(|_| Errno::PIPE)?;
        match push(tls, &self.socket) {
            Err(Errno::AGAIN) | Ok(()) => Ok(taken),
            Err(error) => Err(error),
        }
    }

    /// Sends what TLS has to say of its own.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn flush(&mut self) -> Result<(), Errno> {
        self.tls.as_mut().map_or(Ok(()), |tls| push(tls, &self.socket))
    }

    /// Reads; 0 is the end.
    ///
    /// # Errors
    /// `AGAIN` where there is nothing, else the end of the connection.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        let Some(tls) = &mut self.tls else { return rustix::io::read(&self.socket, buf) };
        loop {
            match tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(_) => return Err(Errno::PROTO),
                Ok(n) => return Ok(n),
            }
            tls.read_tls(&mut Socket(&self.socket)).map_err(errno)?;
            tls.process_new_packets().map_err(|_| Errno::PROTO)?;
            match push(tls, &self.socket) {
                Err(Errno::AGAIN) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn push(tls: &mut ClientConnection, socket: &OwnedFd) -> Result<(), Errno> {
    while tls.wants_write() {
        tls.write_tls(&mut Socket(socket)).map_err(errno)?;
    }
    Ok(())
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::PROTO)
}

/// A socket as the library reads and writes it.
struct Socket<'s>(&'s OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buf)?)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
