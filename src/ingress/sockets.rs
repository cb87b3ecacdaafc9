//! What a server listens on: bound here, opened by a service manager, or taken over from the process before.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::listener::{self, Kind, Listener};
use crate::config::Config;
use crate::handover::inherited::Inherited;

/// All listening sockets of a server.
#[derive(Debug)]
pub struct Sockets {
    /// For clients: of each kind at least one for each worker.
    pub client: Vec<Listener>,
    /// For operators.
    pub admin: TcpListener,
    /// Who waits there already is served; then they are closed.
    pub retired: Vec<Listener>,
}

impl Sockets {
    /// Binds all addresses of a configuration.
    ///
    /// # Errors
    /// When one cannot be bound.
    pub fn bind(config: &Config, workers: usize) -> io::Result<Self> {
        Self::with(config, workers, Inherited::default())
    }

    /// Takes what a service manager has opened, and binds the rest. The configuration's addresses are not asked
    /// where there is a socket of their kind.
    ///
    /// # Errors
    /// When an address cannot be bound, or the sockets do not fit the configuration.
    pub fn with(config: &Config, workers: usize, inherited: Inherited) -> io::Result<Self> {
        let Inherited { client, admin } = inherited;
        if config.tls_listen.is_none() && client.iter().any(|socket| socket.entrance.kind == Kind::Tls) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a socket named `tls` was passed in LISTEN_FDS, and TLS is not configured: set `tls.listen`, `tls.cert` \
                 and `tls.key`",
            ));
        }
        let mut given = client;
        let mut client = Vec::new();
        for kind in Kind::ALL {
            let (own, others) = given.into_iter().partition(|socket| socket.entrance.kind == kind);
            given = others;
            client.extend(of_kind(own, address_of(config, kind), kind, workers)?);
        }
        let admin = match admin {
            Some(admin) => admin,
            None => TcpListener::bind(config.admin_listen)?,
        };
        Ok(Self { client, admin, retired: Vec::new() })
    }

    /// After a take-over: the other process's sockets where kind and address are the same (or any port would do), else
    /// new ones. Those of its own that are not used are closed as soon as who waits there is served.
    ///
    /// # Errors
    /// When a new address cannot be bound.
    pub fn after(
        config: &Config,
        workers: usize,
        (client, admin): (Vec<Listener>, TcpListener),
    ) -> io::Result<Self> {
        let wanted = |socket: &Listener| {
            let address = address_of(config, socket.entrance.kind);
            address.is_some_and(|address| fits(address, &socket.socket))
        };
        let (kept, retired): (Vec<_>, Vec<_>) = client.into_iter().partition(wanted);
        let admin = Some(admin).filter(|admin| fits(config.admin_listen, admin));
        let sockets = Self::with(config, workers, Inherited { client: kept, admin })?;
        Ok(Self { retired, ..sockets })
    }
}

/// Where sockets of a kind are to listen.
fn address_of(config: &Config, kind: Kind) -> Option<SocketAddr> {
    match kind {
        Kind::Plain => Some(config.listen),
        Kind::Tls => config.tls_listen,
        Kind::Api => config.api_listen,
    }
}

/// Whether a socket listens where it is wanted.
fn fits(wanted: SocketAddr, socket: &TcpListener) -> bool {
    socket
        .local_addr()
        .is_ok_and(|is| is.ip() == wanted.ip() && (wanted.port() == 0 || is.port() == wanted.port()))
}

/// Listeners of one kind, at least one for each worker where there is an address.
fn of_kind(
    mut given: Vec<Listener>,
    address: Option<SocketAddr>,
    kind: Kind,
    workers: usize,
) -> io::Result<Vec<Listener>> {
    if given.is_empty() {
        return address.map_or(Ok(Vec::new()), |address| listener::bind(address, kind, workers));
    }
    listener::widen(&mut given, workers)?;
    Ok(given)
}
