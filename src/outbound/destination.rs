//! Where the server may connect to, and where it may not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::Uri;

use crate::ingress::network::Network;

/// An `https://` or `http://` address from the configuration, without user and password, which would end up in logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// Whether it is asked over TLS.
    pub secure: bool,
    /// The host's name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// As the request's `Host` has it.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

impl HttpUrl {
    /// Reads an address.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let secure = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority()?.as_str();
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
        if authority.contains('@') || host.is_empty() || text.contains('#') {
            return None;
        }
        // A port that is none is left out by the parser.
        let port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => port.parse().ok().filter(|port| *port > 0)?,
            _ => {
                if secure {
                    443
                } else {
                    80
                }
            }
        };
        Some(Self {
            secure,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            target: uri.path_and_query().map_or("/", |target| target.as_str()).to_owned(),
        })
    }

    /// Whether it names this machine: there alone nobody is between who asks and who answers.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// The first of a name's addresses that may be connected to.
pub fn allowed(found: impl IntoIterator<Item = SocketAddr>, allow_private: &[Network]) -> Option<SocketAddr> {
    found.into_iter().find(|address| {
        is_public(address.ip()) || allow_private.iter().any(|network| network.contains(address.ip()))
    })
}

/// Whether an address is anybody's on the internet: none of this machine, of a private network, of a provider's inside,
/// and none that stands for such a one (RFC 6890 and its registries).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b));
    !(reserved
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(v4) = address.to_ipv4_mapped() {
        return is_public_v4(v4);
    }
    match address.segments() {
        // 6to4 carries its IPv4 address (RFC 3056).
        [0x2002, high, low, ..] => is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))),
        // Special purposes and Teredo, and documentation.
        [0x2001, 0..0x200 | 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // Global unicast: neither loopback, translations (64:ff9b::), unique local, link-local nor multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `is_public`: the table of what is asked for nobody's sake.
    #[test]
    fn only_public_addresses_are_public() {
        for address in
            ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "2002:101:101::"]
        {
            assert!(is_public(address.parse().expect("an address")), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "192.88.99.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::1.1.1.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "3fff::1",
            "100::1",
        ] {
            assert!(!is_public(address.parse().expect("an address")), "{address}");
        }
    }

    /// `allowed`: a name that has a forbidden address beside others is connected to at one of the others.
    #[test]
    fn a_private_address_is_connected_to_only_where_its_network_is_named() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let here = [Network::parse("127.0.0.0/8").expect("a network")];
        assert_eq!(allowed([at("127.0.0.1:80")], &[]), None);
        assert_eq!(allowed([at("127.0.0.1:80")], &here), Some(at("127.0.0.1:80")));
        assert_eq!(allowed([at("[::ffff:127.0.0.1]:80")], &here), Some(at("[::ffff:127.0.0.1]:80")));
        assert_eq!(allowed([at("10.0.0.1:80"), at("[::1]:80")], &here), None);
        assert_eq!(allowed([at("10.0.0.1:80"), at("1.1.1.1:80")], &[]), Some(at("1.1.1.1:80")));
        assert_eq!(allowed([], &here), None);
    }

    /// `HttpUrl::parse`: an address that can be asked, whole, and nothing else.
    #[test]
    fn an_address_to_ask_has_a_scheme_a_host_and_no_password() {
        let url = HttpUrl::parse("https://id.example/keys?v=2").expect("an address");
        assert_eq!((url.secure, &*url.host, url.port, &*url.target), (true, "id.example", 443, "/keys?v=2"));
        let url = HttpUrl::parse("http://[::1]:8080").expect("an address");
        assert_eq!((url.secure, &*url.host, url.port, &*url.authority), (false, "::1", 8080, "[::1]:8080"));
        assert_eq!((&*url.target, url.is_loopback()), ("/", true));
        for wrong in [
            "",
            "id.example/keys",
            "ftp://id.example/",
            "https://",
            "https://user:pass@id.example/",
            "https://id.example:0/",
            "https://id.example:99999/",
            "https://id.example:/",
            "https://id.example/\r\nX: y",
            "https://id.example/#x",
        ] {
            assert_eq!(HttpUrl::parse(wrong), None, "{wrong:?}");
        }
    }
}
