//! Which pages may talk to this server (RFC 6454), and by which name it may be called.
//!
//! A browser says which page a request comes from; nothing else does, so a request without an origin is no
//! page's. A page of the server's own address is always let in, others by a list. A server that listens on
//! loopback answers to loopback's names only: a stranger's name that was made to point here (DNS rebinding)
//! would else turn any page into one of the server's own.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer, de};

use crate::config::value::Setting;

/// A page's origin, or a pattern of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    secure: bool,
    /// Lower case; an IPv6 address in brackets. In a pattern it may begin with `*.`.
    host: String,
    port: u16,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Every page.
    Any,
    /// Pages of this origin, or of all names below a domain.
    Of(Origin),
}

impl Origin {
    /// Reads `https://live.example`, `http://[::1]:8080`; `ws` counts as `http`, `wss` as `https`.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return None,
        };
        let (host, port) = authority(rest)?;
        Some(Self { secure, host, port: port.unwrap_or(default_port(secure)) })
    }

    /// Whether this page is served under the address that the request was sent to. `host` is the request's
    /// Host; without a port it is the page's own scheme's, since a proxy in front may speak TLS. `secure` tells
    /// whether it does, where that is known.
    fn is_of(&self, host: &str, secure: Option<bool>) -> bool {
        let scheme = secure.is_none_or(|secure| secure == self.secure);
        scheme
            && authority(host).is_some_and(|(name, port)| {
                name == self.host && port.unwrap_or(default_port(self.secure)) == self.port
            })
    }

    fn matches(&self, pattern: &Self) -> bool {
        let host = match pattern.host.strip_prefix('*') {
            Some(below) => self.host.len() > below.len() && self.host.ends_with(below),
            None => self.host == pattern.host,
        };
        host && self.secure == pattern.secure && self.port == pattern.port
    }
}

/// Whether a request that says it comes from `origin`, sent to `host`, is let in. `secure`: whether the caller speaks
/// TLS, with this server or a trusted proxy in front of it; `None` where nobody says.
pub fn allowed(origin: &str, host: Option<&str>, secure: Option<bool>, list: &[Pattern]) -> bool {
    if list.contains(&Pattern::Any) {
        return true;
    }
    // `null` (a sandbox, a file) and whatever else is no origin are nobody's pages.
    let Some(origin) = Origin::parse(origin) else { return false };
    host.is_some_and(|host| origin.is_of(host, secure))
        || list.iter().any(|pattern| matches!(pattern, Pattern::Of(of) if origin.matches(of)))
}

/// Whether a name is one of loopback's.
pub fn is_loopback_name(host: &str) -> bool {
    let Some((name, _)) = authority(host) else { return false };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// Whether a Host is this name, with whatever port.
pub fn is_name(host: &str, name: &str) -> bool {
    authority(host).is_some_and(|(host, _)| host.eq_ignore_ascii_case(name))
}

const fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// Splits `host:port`; the host in lower case, an IPv6 address in its shortest form.
fn authority(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            let address: std::net::Ipv6Addr = address.parse().ok()?;
            (
                format!("[{address}]"),
                rest.strip_prefix(':').map_or_else(|| rest.is_empty().then_some(None), |p| Some(Some(p)))?,
            )
        }
        None => {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'*');
            // One dot at the end is the root's; a name with an empty part names nothing.
            let name = host.strip_suffix('.').unwrap_or(host);
            if host.len() > 253 || !host.bytes().all(known) || name.split('.').any(str::is_empty) {
                return None;
            }
            (name.to_ascii_lowercase(), port)
        }
    };
    match port {
        None => Some((host, None)),
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some((host, Some(port.parse().ok()?))),
        Some(_) => None,
    }
}

impl Pattern {
    /// Reads a line of the list.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        let origin = Origin::parse(text)?;
        let stars = origin.host.matches('*').count();
        (stars == 0 || stars == 1 && origin.host.starts_with("*.") && origin.host.len() > 2)
            .then_some(Self::Of(origin))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"an origin such as \"https://live.example\", \"https://*.example\" for all names below it, or \"*\"",
            )
        })
    }
}

impl Setting for Vec<Pattern> {
    fn written(&self) -> Option<String> {
        let lines: Vec<_> = self
            .iter()
            .map(|pattern| match pattern {
                Pattern::Any => "\"*\"".to_owned(),
                Pattern::Of(Origin { secure, host, port }) => {
                    let scheme = if *secure { "https" } else { "http" };
                    let port =
                        if *port == default_port(*secure) { String::new() } else { format!(":{port}") };
                    format!("\"{scheme}://{host}{port}\"")
                }
            })
            .collect();
        Some(format!("[{}]", lines.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `allowed`: a page of the server's own address, and those of the list, by scheme, host and port.
    #[test]
    fn pages_are_let_in_by_scheme_host_and_port() {
        let list =
            ["https://live.example", "http://dev.example:3000", "https://*.shop.example", "http://[::1]:80"];
        let list: Vec<_> = list.iter().map(|text| Pattern::parse(text).expect(text)).collect();
        for (origin, host, expected) in [
            ("https://live.example", "chat.example", true),
            ("https://live.example:443", "chat.example", true),
            ("https://LIVE.example", "chat.example", true),
            ("http://live.example", "chat.example", false),
            ("https://live.example:8443", "chat.example", false),
            ("https://live.example.evil", "chat.example", false),
            ("https://evil-live.example", "chat.example", false),
            ("http://dev.example:3000", "chat.example", true),
            ("http://dev.example", "chat.example", false),
            ("https://a.shop.example", "chat.example", true),
            ("https://a.b.shop.example", "chat.example", true),
            ("https://shop.example", "chat.example", false),
            ("https://ashop.example", "chat.example", false),
            ("http://[::1]", "chat.example", true),
            ("http://[0:0:0:0:0:0:0:1]", "chat.example", true),
            ("null", "chat.example", false),
            ("file://", "chat.example", false),
            ("", "chat.example", false),
            ("https://", "chat.example", false),
            ("https://.", ".", false),
            ("https://chat.example.", "chat.example", true),
            ("https://chat.example..", "chat.example..", false),
            ("https://chat..example", "chat..example", false),
            ("https://.shop.example", "chat.example", false),
            ("https://a..shop.example", "chat.example", false),
            // Its own pages.
            ("http://chat.example", "chat.example", true),
            ("https://chat.example", "chat.example", true),
            ("http://chat.example:8080", "chat.example:8080", true),
            ("http://chat.example:8081", "chat.example:8080", false),
            ("https://chat.example", "chat.example:443", true),
            ("http://chat.example", "chat.example:443", false),
            ("http://[::1]:8080", "[::1]:8080", true),
            ("http://127.0.0.1:8080", "localhost:8080", false),
            ("http://chat.example@evil.example", "chat.example", false),
        ] {
            assert_eq!(allowed(origin, Some(host), None, &list), expected, "{origin} at {host}");
        }
        assert!(allowed("https://anything.example", None, None, &[Pattern::Any]));
        assert!(!allowed("https://anything.example", None, None, &[]));
        // Where the scheme is known, an own page is one of this scheme; the list is as it was.
        for (origin, secure, expected) in [
            ("https://chat.example", true, true),
            ("https://chat.example", false, false),
            ("http://chat.example", true, false),
            ("http://chat.example", false, true),
            ("https://live.example", false, true),
        ] {
            assert_eq!(
                allowed(origin, Some("chat.example"), Some(secure), &list),
                expected,
                "{origin} {secure}"
            );
        }
    }

    /// `Pattern::parse`: what is no origin is refused, and what is shown is read back.
    #[test]
    fn patterns_are_origins() {
        for text in [
            "",
            "live.example",
            "https://",
            "https://*",
            "https://a*.example",
            "ftp://a",
            "https://a:b",
            "https://a/b",
            "https://.",
            "https://*..",
            "https://*.",
            "https://*..example",
            "https://.a",
            "https://a..",
        ] {
            assert_eq!(Pattern::parse(text), None, "{text}");
        }
        for text in
            ["*", "https://live.example", "http://a:81", "https://*.shop.example", "http://[::1]:8080"]
        {
            let list = vec![Pattern::parse(text).expect(text)];
            assert_eq!(list.written(), Some(format!("[\"{text}\"]")));
        }
    }

    /// `is_loopback_name`: loopback's names and addresses, with any port, and nothing that only looks like them.
    #[test]
    fn loopback_has_its_own_names() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("page.localhost", true),
            ("127.0.0.1:8080", true),
            ("127.1.2.3", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]", true),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("evil.example", false),
            ("10.0.0.1", false),
            ("[::2]", false),
            ("", false),
            ("localhost.", true),
            ("localhost..", false),
            (".localhost", false),
            (".", false),
            ("localhost:", false),
            ("localhost:80:80", false),
        ] {
            assert_eq!(is_loopback_name(host), expected, "{host}");
        }
    }
}
