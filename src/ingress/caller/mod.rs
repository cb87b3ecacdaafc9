//! Who is calling, when proxies may stand in between.
//!
//! Whoever connects is the caller, unless it is a proxy that the configuration names: then the caller is whom the
//! proxy speaks for, as its PROXY header or the fields of a request say. From nobody else are such words taken.

pub mod announced;
mod forwarded;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Once;

use hyper::header::HeaderMap;
use serde::Deserialize;

use crate::config::value::Setting;
use crate::ingress::network::Network;
use announced::Announced;

/// Whether connections to a listener begin with a PROXY header. There is nothing in between: a server that looks
/// whether there is one lets every caller write one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocol {
    /// None does; one that comes is no request.
    Off,
    /// Every one does, and comes from a trusted proxy; others are closed.
    Required,
}

impl Setting for ProxyProtocol {
    fn written(&self) -> Option<String> {
        Some(match self {
            Self::Off => "\"off\"".to_owned(),
            Self::Required => "\"required\"".to_owned(),
        })
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The address that limits are kept by: IPv4 where it is carried inside IPv6.
    pub address: IpAddr,
    /// Whether the caller speaks TLS with the proxy in front; `None` where no trusted proxy says.
    pub secure: Option<bool>,
    /// A program on this machine that speaks for itself, as far as can be told.
    pub nearby: bool,
    /// Limits of addresses do not count: this machine itself, or a proxy that speaks for itself.
    pub exempt: bool,
}

impl Asker {
    /// Makes out who sent a request. `peer` is the socket's other end, `announced` what came before the request.
    pub fn of(peer: IpAddr, announced: Announced, headers: &HeaderMap, trusted: &[Network]) -> Self {
        let connected = match announced {
            Announced::Source(address) => address,
            Announced::Unspoken | Announced::Itself => peer,
        }
        .to_canonical();
        let listed = is_trusted(connected, trusted);
        let passed = forwarded::trace(headers);
        if listed && passed.is_some() {
            let told = forwarded::read(headers, trusted);
            // Whom a proxy hides shares one address with all others that it hides: its own.
            let address = canonical(told.address.unwrap_or(connected));
            return Self { address, secure: told.secure, nearby: false, exempt: false };
        }
        let own = announced == Announced::Unspoken && connected.is_loopback();
        if let (true, Some(field)) = (own, passed) {
            tell_of_unlisted_proxy(connected, field);
        }
        Self {
            address: canonical(connected),
            secure: None,
            nearby: own && passed.is_none(),
            exempt: own || listed,
        }
    }
}

/// Whether an address is one of the trusted proxies'.
pub fn is_trusted(address: IpAddr, trusted: &[Network]) -> bool {
    trusted.iter().any(|network| network.contains(address))
}

/// Says once what a proxy on this machine looks like that nobody has listed: all its callers are taken for one.
fn tell_of_unlisted_proxy(peer: IpAddr, field: &str) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        tracing::warn!(
            %peer,
            field,
            "a proxy passes requests on and is not listed, so that all its callers count as {peer}: \
             put {peer} into `server.trusted_proxies`"
        );
    });
}

/// The address that stands for a caller in limits: the IPv4 address where an IPv6 one only carries it (v4-mapped, RFC
/// 4291; 6to4, RFC 3056; NAT64, RFC 6052). Otherwise whoever has one IPv4 address would have several.
pub fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    match v6.segments() {
        [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        _ => v6.into(),
    }
}

fn embedded(high: u16, low: u16) -> IpAddr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(peer: &str, announced: Announced, fields: &[(&'static str, &str)]) -> Asker {
        let trusted = ["10.0.0.0/8", "127.0.0.1"].map(|text| Network::parse(text).expect(text));
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a field value"));
        }
        Asker::of(peer.parse().expect(peer), announced, &headers, &trusted)
    }

    /// `Asker::of`: whose word counts, who is on this machine, and who is under no limit.
    #[test]
    fn only_a_listed_proxy_speaks_for_others() {
        use Announced::{Itself, Source, Unspoken};
        const XFF: &str = "x-forwarded-for";
        let source = |text: &str| Source(text.parse().expect(text));
        for (peer, announced, fields, address, nearby, exempt) in [
            ("192.0.2.7", Unspoken, &[][..], "192.0.2.7", false, false),
            ("::ffff:192.0.2.7", Unspoken, &[], "192.0.2.7", false, false),
            // A stranger's words about himself.
            ("192.0.2.7", Unspoken, &[(XFF, "203.0.113.1")], "192.0.2.7", false, false),
            ("192.0.2.7", Unspoken, &[(XFF, "127.0.0.1")], "192.0.2.7", false, false),
            ("192.0.2.7", Unspoken, &[("forwarded", "for=127.0.0.1")], "192.0.2.7", false, false),
            // A listed proxy, for others, for itself, and for somebody it hides.
            ("10.0.0.1", Unspoken, &[(XFF, "203.0.113.1")], "203.0.113.1", false, false),
            ("10.0.0.1", Unspoken, &[(XFF, "127.0.0.1")], "127.0.0.1", false, false),
            ("10.0.0.1", Unspoken, &[], "10.0.0.1", false, true),
            ("10.0.0.1", Unspoken, &[(XFF, "unknown")], "10.0.0.1", false, false),
            ("10.0.0.1", Unspoken, &[("x-forwarded-proto", "https")], "10.0.0.1", false, false),
            ("10.0.0.1", Unspoken, &[(XFF, "2002:cb00:7101::9")], "203.0.113.1", false, false),
            // This machine: listed, and not.
            ("127.0.0.1", Unspoken, &[], "127.0.0.1", true, true),
            ("127.0.0.1", Unspoken, &[(XFF, "203.0.113.1")], "203.0.113.1", false, false),
            ("127.0.0.2", Unspoken, &[], "127.0.0.2", true, true),
            ("::1", Unspoken, &[], "::1", true, true),
            ("127.0.0.2", Unspoken, &[(XFF, "203.0.113.1")], "127.0.0.2", false, true),
            ("127.0.0.2", Unspoken, &[("via", "1.1 proxy")], "127.0.0.2", false, true),
            // By PROXY header nobody is on this machine, whatever it says.
            ("127.0.0.1", source("203.0.113.1"), &[], "203.0.113.1", false, false),
            ("127.0.0.1", source("127.0.0.2"), &[], "127.0.0.2", false, false),
            ("127.0.0.1", source("127.0.0.1"), &[], "127.0.0.1", false, true),
            ("127.0.0.1", Itself, &[], "127.0.0.1", false, true),
            // Behind the header's sender another listed proxy, which speaks for others in turn.
            ("127.0.0.1", source("10.0.0.9"), &[(XFF, "192.0.2.7")], "192.0.2.7", false, false),
            ("127.0.0.1", source("203.0.113.1"), &[(XFF, "192.0.2.7")], "203.0.113.1", false, false),
        ] {
            let got = asker(peer, announced, fields);
            let address = address.parse().expect(address);
            assert_eq!(
                (got.address, got.nearby, got.exempt),
                (address, nearby, exempt),
                "{peer} {announced:?} {fields:?}"
            );
        }
    }

    /// `canonical`: IPv4 inside IPv6 is IPv4, whichever way it is carried.
    #[test]
    fn an_embedded_address_is_its_own() {
        for (text, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2002:c000:207::1", "192.0.2.7"),
            ("2002:c000:207:ffff::", "192.0.2.7"),
            ("64:ff9b::192.0.2.7", "192.0.2.7"),
            ("64:ff9b:1::192.0.2.7", "64:ff9b:1::c000:207"),
            ("64:ff9b::1:192.0.2.7", "64:ff9b::1:c000:207"),
            ("2001:db8::c000:207", "2001:db8::c000:207"),
            ("::192.0.2.7", "::192.0.2.7"),
        ] {
            let expected: IpAddr = expected.parse().expect(expected);
            assert_eq!(canonical(text.parse().expect(text)), expected, "{text}");
        }
    }
}
