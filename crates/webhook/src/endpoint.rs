//! The receiver's address, read once from the configuration.
//!
//! In comes the text of a URL, out comes a type that can be called. Nothing a viewer says ever becomes
//! part of it. Numbers that only some resolvers take for an address (`0x7f.1`, `2130706433`, `0177.0.0.1`)
//! are refused, so that what is judged here and what is connected to cannot differ.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;
use hyper::header::HeaderValue;

use crate::address::{AddressLaw, Denied};

/// Longest URL, bytes.
const URL_BYTES_MAX: usize = 2_048;
/// Longest host name (RFC 1035 2.3.4).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Is looked up before each connection.
    Name(String),
    /// Is connected to as it is.
    Address(IpAddr),
}

/// A receiver that can be called.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Whether it is called through TLS.
    pub tls: bool,
    /// Who answers.
    pub host: Host,
    /// On which port.
    pub port: u16,
    /// What is asked for: the path and, behind `?`, the query.
    pub path: String,
    /// The value of the `Host` header.
    pub authority: HeaderValue,
}

/// Why a URL cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No URL at all, or one that is too long.
    #[error("{0:?} is no URL; write one as \"https://moderation.example/danmaku\"")]
    Url(String),
    /// Neither `http` nor `https`.
    #[error("{0:?} is called by neither http:// nor https://")]
    Scheme(String),
    /// A name or password before the host.
    #[error("the URL has a user name or password before its host: leave them out, calls are signed")]
    User,
    /// Something behind `#`.
    #[error("the URL has a part behind #, which is never sent: leave it out")]
    Fragment,
    /// No name and no address.
    #[error("{0:?} is neither a host name nor an address; write names in ASCII and without a dot at the end")]
    Host(String),
    /// A number that some systems read as an address.
    #[error("{0:?} is an address in an odd notation: write four decimal numbers without leading zeros")]
    OddAddress(String),
    /// A port that is not on the list.
    #[error("port {port} is not among the allowed ones ({allowed:?})")]
    Port {
        /// The port.
        port: u16,
        /// The ports that are.
        allowed: Vec<u16>,
    },
    /// An address that may not be called.
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl Endpoint {
    /// Reads a URL. An address in it is judged at once, a name each time it is looked up.
    ///
    /// # Errors
    /// When it cannot or may not be called.
    pub fn parse(url: &str, ports: &[u16], law: &AddressLaw) -> Result<Self, EndpointError> {
        let no_url = || EndpointError::Url(url.to_owned());
        // The parser below drops it silently.
        if url.contains('#') {
            return Err(EndpointError::Fragment);
        }
        let uri: Uri = url.parse().map_err(|_| no_url())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(no_url());
        };
        if url.len() > URL_BYTES_MAX {
            return Err(no_url());
        }
        let tls = match scheme {
            "https" => true,
            "http" => false,
            other => return Err(EndpointError::Scheme(other.to_owned())),
        };
        if authority.as_str().contains('@') {
            return Err(EndpointError::User);
        }
        let host = Host::parse(authority.host())?;
        if let Host::Address(address) = host {
            law.judge(address)?;
        }
        let default = if tls { 443 } else { 80 };
        // "host:" without a number has no port for the parser either; a number too large is an error.
        let said = authority.as_str().len() > authority.host().len();
        let port = if said { authority.port_u16().ok_or_else(no_url)? } else { default };
        if !ports.contains(&port) {
            return Err(EndpointError::Port { port, allowed: ports.to_vec() });
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let shown = if port == default { authority.host() } else { authority.as_str() };
        let authority = HeaderValue::from_str(shown).map_err(|_| no_url())?;
        Ok(Self { tls, host, port, path, authority })
    }

    /// The host as it is looked up, or the address as text.
    #[must_use]
    pub fn host_text(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        }
    }
}

impl Host {
    fn parse(text: &str) -> Result<Self, EndpointError> {
        let no_host = || EndpointError::Host(text.to_owned());
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(no_host)?;
            return inner.parse::<Ipv6Addr>().map(|v6| Self::Address(v6.into())).map_err(|_| no_host());
        }
        if let Ok(v4) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(v4.into()));
        }
        let labels: Vec<&str> = text.split('.').collect();
        let fits = |label: &&str| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if text.len() > NAME_BYTES_MAX || !labels.iter().all(fits) {
            return Err(no_host());
        }
        // A name whose last label is a number is taken for an address by some resolvers (WHATWG URL,
        // "ends in a number"); no top-level domain is one.
        let last = labels.last().copied().unwrap_or_default().to_ascii_lowercase();
        let hexadecimal =
            last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(EndpointError::OddAddress(text.to_owned()));
        }
        Ok(Self::Name(text.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    //! Method: URLs through one `check` function, each with what they are or why they are none.

    use super::*;

    const PORTS: [u16; 3] = [80, 443, 8080];

    fn parse(url: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::parse(url, &PORTS, &AddressLaw::default())
    }

    fn check(url: &str, tls: bool, host: &str, port: u16, path: &str, authority: &str) {
        let endpoint = parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(
            (endpoint.tls, endpoint.host_text().as_str(), endpoint.port, endpoint.path.as_str()),
            (tls, host, port, path),
            "{url}"
        );
        assert_eq!(endpoint.authority, authority, "{url}");
    }

    #[test]
    fn urls_are_read_into_what_is_called() {
        check("https://hook.example/a/b?c=d", true, "hook.example", 443, "/a/b?c=d", "hook.example");
        check("http://Hook.example", false, "hook.example", 80, "/", "Hook.example");
        check("https://hook.example:443/", true, "hook.example", 443, "/", "hook.example");
        check("http://hook.example:8080?x", false, "hook.example", 8080, "/?x", "hook.example:8080");
        check("https://1.1.1.1/x", true, "1.1.1.1", 443, "/x", "1.1.1.1");
        check("https://[2606:4700::1111]/", true, "2606:4700::1111", 443, "/", "[2606:4700::1111]");
        check("https://a_b.example/", true, "a_b.example", 443, "/", "a_b.example");
    }

    #[test]
    fn odd_notations_of_addresses_are_refused() {
        for host in [
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "127.0.1",
            "0x7f.0x0.0x0.0x1",
            "010.0.0.1",
            "1.2.3.4.5",
            "127.0.0.0x1",
            "a.0x7f",
            "a.1",
            "0x",
            "00000177.0.0.1",
        ] {
            let error = parse(&format!("http://{host}/")).expect_err(host);
            assert_eq!(error, EndpointError::OddAddress(host.to_owned()), "{host}");
        }
    }

    #[test]
    fn what_cannot_be_called_is_refused_with_its_reason() {
        let fails = |url: &str| parse(url).expect_err(url);
        for url in [
            "",
            "hook.example",
            "/path",
            "https://",
            "http://hook.example:0x50/",
            "http://hook.example:99999/",
            "http://hook.example:/",
            "http://hook example/",
        ] {
            assert_eq!(fails(url), EndpointError::Url(url.to_owned()), "{url}");
        }
        let long = format!("https://hook.example/{}", "a".repeat(URL_BYTES_MAX));
        assert_eq!(fails(&long), EndpointError::Url(long.clone()));
        for url in ["ftp://hook.example/", "gopher://hook.example/", "unix://run/x"] {
            assert!(matches!(fails(url), EndpointError::Scheme(_)), "{url}");
        }
        for url in
            ["https://user@hook.example/", "https://user:pass@hook.example/", "https://1.1.1.1@10.0.0.1/"]
        {
            assert_eq!(fails(url), EndpointError::User, "{url}");
        }
        assert_eq!(fails("https://hook.example/#x"), EndpointError::Fragment);
        for host in ["hook.example.", "-..example", "a..b", "[::1%eth0]", "[fe80::1%25eth0]", "[]"] {
            let error = fails(&format!("https://{host}/"));
            assert!(matches!(error, EndpointError::Host(_) | EndpointError::Url(_)), "{host}: {error}");
        }
        let port = fails("https://hook.example:22/");
        assert_eq!(port.to_string(), "port 22 is not among the allowed ones ([80, 443, 8080])");
    }

    #[test]
    fn an_address_in_a_url_is_judged_at_once() {
        for host in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[fd00::1]"] {
            let error = parse(&format!("http://{host}/")).expect_err(host);
            assert!(matches!(error, EndpointError::Denied(_)), "{host}: {error}");
        }
    }
}
