//! One document over HTTP/1.1, within bounds of size and time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::destination::{HttpUrl, allowed};
use crate::ingress::network::Network;

/// Why a document could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name has no address, or the lookup failed.
    #[error("cannot find the address of {host}: {source}")]
    Lookup {
        /// Whose.
        host: String,
        /// Why.
        source: std::io::Error,
    },
    /// It has none that may be connected to.
    #[error(
        "{host} has no address that may be asked: name its network in `auth.jwks_allow_private` if it is a private one"
    )]
    Forbidden {
        /// Whose.
        host: String,
    },
    /// The connection could not be made.
    #[error("cannot connect to {authority}: {source}")]
    Connect {
        /// Whom.
        authority: String,
        /// Why.
        source: std::io::Error,
    },
    /// The authorities that are to be trusted cannot be read.
    #[error("cannot use the authorities in {path}: {reason}")]
    Authorities {
        /// In which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is not spoken to as it should be.
    #[error("{authority} does not speak HTTP as it should: {source}")]
    Http {
        /// Who.
        authority: String,
        /// Why.
        source: hyper::Error,
    },
    /// It answers something else.
    #[error("{authority} answers {status}, and not 200; redirections are not followed")]
    Status {
        /// Who.
        authority: String,
        /// What.
        status: StatusCode,
    },
    /// The document is too long, or broke off.
    #[error("what {authority} sends is longer than {bytes_max} bytes, or broke off")]
    Body {
        /// Who.
        authority: String,
        /// How long it may be.
        bytes_max: usize,
    },
    /// It took too long.
    #[error("{authority} took longer than {within_ms} ms")]
    Late {
        /// Who.
        authority: String,
        /// How long it may take.
        within_ms: u128,
    },
}

/// How a document is fetched.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Networks that are not public and may be connected to all the same.
    pub allow_private: Vec<Network>,
    /// Authorities to trust instead of the public ones, a file in PEM.
    pub authorities: Option<PathBuf>,
    /// The longest document, bytes.
    pub bytes_max: usize,
    /// How long all of it may take.
    pub within: Duration,
}

/// Fetches a document.
///
/// # Errors
/// Why it could not be had; nothing of what came is in it.
pub async fn fetch(url: &HttpUrl, terms: &Terms) -> Result<Bytes, FetchError> {
    let late = |_| FetchError::Late { authority: url.authority.clone(), within_ms: terms.within.as_millis() };
    tokio::time::timeout(terms.within, fetch_in_time(url, terms)).await.map_err(late)?
}

async fn fetch_in_time(url: &HttpUrl, terms: &Terms) -> Result<Bytes, FetchError> {
    let HttpUrl { host, port, authority, .. } = url;
    let found = tokio::net::lookup_host((host.as_str(), *port))
        .await
        .map_err(|source| FetchError::Lookup { host: host.clone(), source })?;
    let address =
        allowed(found, &terms.allow_private).ok_or_else(|| FetchError::Forbidden { host: host.clone() })?;
    let connect = |source| FetchError::Connect { authority: authority.clone(), source };
    let socket = TcpStream::connect(address).await.map_err(connect)?;
    if !url.secure {
        return ask(socket, url, terms).await;
    }
    let connector = TlsConnector::from(Arc::new(client_config(terms.authorities.as_deref())?));
    let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other).map_err(connect)?;
    ask(connector.connect(name, socket).await.map_err(connect)?, url, terms).await
}

async fn ask<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    io: Io,
    url: &HttpUrl,
    terms: &Terms,
) -> Result<Bytes, FetchError> {
    let authority = &url.authority;
    let http = |source| FetchError::Http { authority: authority.clone(), source };
    let (mut sender, connection) =
        http1::Builder::new().max_headers(100).handshake(TokioIo::new(io)).await.map_err(http)?;
    let request = Request::get(&*url.target)
        .header(HOST, authority)
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .expect("path and host were parsed as such");
    let answer = async {
        let response = sender.send_request(request).await.map_err(http)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(FetchError::Status { authority: authority.clone(), status });
        }
        let bytes_max = terms.bytes_max;
        let body = Limited::new(response.into_body(), bytes_max).collect().await;
        Ok(body.map_err(|_| FetchError::Body { authority: authority.clone(), bytes_max })?.to_bytes())
    };
    // The connection is driven here, so that nothing of it outlives the answer.
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(source) => Err(http(source)),
        },
    }
}

fn client_config(authorities: Option<&Path>) -> Result<ClientConfig, FetchError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let wrong = |reason: String| FetchError::Authorities { path: path.to_owned(), reason };
            let read = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| wrong(error.to_string()))?;
            if roots.add_parsable_certificates(read).0 == 0 {
                return Err(wrong("there is no certificate in it".to_owned()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider speaks the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth())
}
