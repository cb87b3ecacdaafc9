//! TLS of the client port: certificates, keys and what may be spoken.
//!
//! All workers share one configuration and its ticket keys, so that a client resumes on whichever worker
//! it comes back to. Certificates are read again when their files change or at SIGHUP; connections that are
//! open keep theirs. One that cannot be used changes nothing.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::Config;
use crate::config::tls::{Files, MinVersion, TlsSettings};
use crate::watched::{self, LOOK_EVERY, Look};

/// Tickets after a full handshake (RFC 8446, section 4.6.1): one for the next connection.
const TICKETS: usize = 1;

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of use.
    #[error("`{key} = {path:?}`: {source}", path = .path.display().to_string())]
    File {
        /// The key that names it.
        key: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// The certificate file holds no certificate.
    #[error("`tls.cert = {path:?}`: there is no certificate in it; it is PEM, the server's own certificate first", path = .path.display().to_string())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// The key is not the certificate's, or of a kind that is not spoken.
    #[error("`tls.cert` and `tls.key` cannot be used together: {0}")]
    Pair(rustls::Error),
    /// The versions and ciphers do not go together.
    #[error("`tls.min_version` and `tls.ciphers` leave nothing to speak: {0}")]
    Suites(rustls::Error),
    /// The system's random source failed.
    #[error("cannot make ticket keys: {0}")]
    Tickets(rustls::Error),
}

/// The TLS side of the client port.
#[derive(Debug)]
pub struct Tls {
    running: ArcSwap<ServerConfig>,
    tickets: Arc<dyn ProducesTickets>,
    files: Mutex<Watched>,
}

/// What is watched, and what the files looked like when they were last read.
#[derive(Debug)]
struct Watched {
    settings: TlsSettings,
    seen: [Option<Look>; 2],
}

impl Tls {
    /// Reads certificate and key, if the configuration has TLS spoken anywhere.
    ///
    /// # Errors
    /// When a file cannot be used, or the settings allow nothing.
    pub fn of(config: &Config) -> Result<Option<Self>, TlsError> {
        match (&config.tls.files, config.tls_listen) {
            (Some(files), Some(_)) => Self::load(&config.tls, files).map(Some),
            _ => Ok(None),
        }
    }

    fn load(settings: &TlsSettings, files: &Files) -> Result<Self, TlsError> {
        let tickets = Ticketer::new().map_err(TlsError::Tickets)?;
        let seen = look(files);
        let running = ArcSwap::from_pointee(build(settings, files, &tickets)?);
        Ok(Self { running, tickets, files: Mutex::new(Watched { settings: settings.clone(), seen }) })
    }

    /// Finishes the handshake of a connection.
    pub fn accept(
        &self,
        socket: TcpStream,
    ) -> impl Future<Output = std::io::Result<TlsStream<TcpStream>>> + use<> {
        TlsAcceptor::from(self.running.load_full()).accept(socket)
    }

    /// Takes other settings, or the same files once more, for connections to come.
    ///
    /// # Errors
    /// When they cannot be used: what runs goes on.
    pub fn reload(&self, settings: &TlsSettings) -> Result<(), TlsError> {
        let Some(files) = &settings.files else { return Ok(()) };
        let seen = look(files);
        let built = build(settings, files, &self.tickets);
        let mut watched = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // Seen even if it is of no use: it is told once, not at every look.
        watched.seen = seen;
        self.running.store(Arc::new(built?));
        watched.settings = settings.clone();
        Ok(())
    }

    /// Reads the files again when they have changed, for ever.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let (settings, changed) = {
                let watched = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                let now = watched.settings.files.as_ref().map(look);
                (watched.settings.clone(), now.is_some_and(|now| now != watched.seen))
            };
            if !changed {
                continue;
            }
            match self.reload(&settings) {
                Ok(()) => tracing::info!("the certificate was read again"),
                Err(error) => {
                    tracing::error!(%error, "the new certificate cannot be used; the old one stays");
                }
            }
        }
    }
}

fn look(files: &Files) -> [Option<Look>; 2] {
    [&files.cert, &files.key].map(|path| watched::look(path))
}

fn build(
    settings: &TlsSettings,
    files: &Files,
    tickets: &Arc<dyn ProducesTickets>,
) -> Result<ServerConfig, TlsError> {
    let (chain, key) = read(files)?;
    let mut provider = aws_lc_rs::default_provider();
    if !settings.ciphers.is_empty() {
        provider.cipher_suites.retain(|suite| settings.ciphers.contains(&suite_name(*suite)));
    }
    let versions: &[&SupportedProtocolVersion] = match settings.min_version {
        MinVersion::Tls12 => &[&version::TLS13, &version::TLS12],
        MinVersion::Tls13 => &[&version::TLS13],
    };
    let spoken = |version: &&&SupportedProtocolVersion| {
        provider.cipher_suites.iter().any(|suite| suite.version().version == version.version)
    };
    let versions: Vec<&SupportedProtocolVersion> = versions.iter().filter(spoken).copied().collect();
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&versions)
        .map_err(TlsError::Suites)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ticketer = Arc::clone(tickets);
    config.send_tls13_tickets = TICKETS;
    // A ticket is all the state of a session: nothing is kept here for whoever may come back.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // Early data may be replayed, and a comment must not be (RFC 8446, section 8).
    config.max_early_data_size = 0;
    Ok(config)
}

fn read(files: &Files) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let file = |key, path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { key, path, source }
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(file("tls.cert", &files.cert))?;
    if chain.is_empty() {
        return Err(TlsError::Empty { path: files.cert.clone() });
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(file("tls.key", &files.key))?;
    Ok((chain, key))
}

/// The names of all cipher suites that can be spoken, as IANA registers them, the preferred first.
pub fn suite_names() -> Vec<String> {
    let provider: CryptoProvider = aws_lc_rs::default_provider();
    provider.cipher_suites.iter().map(|suite| suite_name(*suite)).collect()
}

fn suite_name(suite: SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}
