//! Where the server is. Only this machine unless it is said otherwise: the tool opens thousands of
//! connections, and a mistyped address should not hit a stranger.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::LoadError;

/// A server's endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub address: SocketAddr,
    /// The name that its certificate has to be of; `None` where it speaks no TLS.
    pub certified: Option<String>,
    /// The path.
    pub path: String,
}

/// Reads `ws://HOST:PORT/PATH` or `wss://HOST:PORT/PATH`.
///
/// # Errors
/// When it is none, or when it lies elsewhere and `allow_remote` is not set.
pub fn websocket(url: &str, allow_remote: bool) -> Result<Endpoint, LoadError> {
    let (tls, rest) = match (url.strip_prefix("ws://"), url.strip_prefix("wss://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err(LoadError::Address(url.into())),
    };
    let (host, path) = rest.split_once('/').map_or((rest, "ws"), |(host, path)| (host, path));
    let path = if path.is_empty() { "/ws".to_owned() } else { format!("/{path}") };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let certified = tls.then(|| name.to_owned());
    Ok(Endpoint { address: address(url, host, allow_remote)?, certified, path })
}

/// Reads `http://HOST:PORT` into an address.
///
/// # Errors
/// As [`websocket`].
pub fn http(url: &str, allow_remote: bool) -> Result<SocketAddr, LoadError> {
    let rest = url.strip_prefix("http://").ok_or_else(|| LoadError::Address(url.into()))?;
    address(url, rest.split('/').next().unwrap_or_default(), allow_remote)
}

fn address(url: &str, host: &str, allow_remote: bool) -> Result<SocketAddr, LoadError> {
    let mut found = host.to_socket_addrs().map_err(|_| LoadError::Address(url.into()))?;
    let address = found.next().ok_or_else(|| LoadError::Address(url.into()))?;
    if !allow_remote && !address.ip().is_loopback() {
        return Err(LoadError::NotLoopback(address));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `websocket`, `http`: only this machine, unless asked.
    #[test]
    fn only_this_machine_is_loaded_unless_asked() {
        let check = |url: &str, remote, expected: Option<(&str, &str)>| {
            let got = websocket(url, remote).ok().map(|e| (e.address, e.path, e.certified.is_some()));
            let tls = url.starts_with("wss");
            let expected = expected.map(|(a, p)| (a.parse().expect("an address"), p.to_owned(), tls));
            assert_eq!(got, expected, "{url}");
        };
        check("ws://127.0.0.1:80", false, Some(("127.0.0.1:80", "/ws")));
        check("wss://127.0.0.1:80", false, Some(("127.0.0.1:80", "/ws")));
        check("ws://127.0.0.1:80/", false, Some(("127.0.0.1:80", "/ws")));
        check("ws://[::1]:80/a/b", false, Some(("[::1]:80", "/a/b")));
        check("ws://192.0.2.1:80/ws", false, None);
        check("ws://192.0.2.1:80/ws", true, Some(("192.0.2.1:80", "/ws")));
        check("http://127.0.0.1:80", true, None);
        check("ws://127.0.0.1", true, None);
        assert!(matches!(http("http://192.0.2.1:80/metrics", false), Err(LoadError::NotLoopback(_))));
        assert_eq!(http("http://127.0.0.1:90/metrics", false).ok(), "127.0.0.1:90".parse().ok());
    }
}
