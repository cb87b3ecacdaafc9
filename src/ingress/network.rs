//! Networks of addresses, as the list of trusted proxies names them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Deserializer, de};

use crate::config::value::Setting;

/// A network: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Its first address.
    base: IpAddr,
    /// How many leading bits are the network's own.
    bits: u8,
}

/// Why a text is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// No address before the slash.
    #[error(
        "{0:?} is no IP address; write a network as \"10.0.0.0/8\" or \"2001:db8::/32\", or one address as \"::1\""
    )]
    Address(String),
    /// No number of bits behind it.
    #[error("{bits:?} behind the slash is no number from 0 to {max}")]
    Bits {
        /// What stands there.
        bits: String,
        /// Bits of the family's addresses.
        max: u8,
    },
    /// Bits beyond the network's own.
    #[error(
        "{given} lies inside the network {meant}: write \"{meant}\" for the network, or \"{address}\" for the one address"
    )]
    Inside {
        /// The text.
        given: String,
        /// The network that it lies in.
        meant: String,
        /// Its address alone.
        address: IpAddr,
    },
}

impl Network {
    /// Reads a network or one address. IPv4 inside IPv6 (`::ffff:10.0.0.1`) is IPv4.
    ///
    /// # Errors
    /// When the text is neither.
    pub fn parse(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let base: IpAddr = address.parse().map_err(|_| NetworkError::Address(address.to_owned()))?;
        let max = bits_of(base);
        let Some(text_bits) = bits else {
            let base = base.to_canonical();
            return Ok(Self { base, bits: bits_of(base) });
        };
        let plain = text_bits.bytes().all(|b| b.is_ascii_digit());
        let bits = plain.then(|| text_bits.parse::<u8>().ok()).flatten().filter(|bits| *bits <= max);
        let bits = bits.ok_or_else(|| NetworkError::Bits { bits: text_bits.to_owned(), max })?;
        let meant = Self { base: first_of(base, bits), bits };
        if meant.base != base {
            return Err(NetworkError::Inside {
                given: text.to_owned(),
                meant: meant.to_string(),
                address: base,
            });
        }
        Ok(match (base.to_canonical(), bits) {
            // A network of addresses that are IPv4 inside IPv6.
            (IpAddr::V4(v4), 96..) if base.is_ipv6() => Self { base: v4.into(), bits: bits - 96 },
            _ => meant,
        })
    }

    /// Its first address.
    pub const fn base(&self) -> IpAddr {
        self.base
    }

    /// How many leading bits are the network's own.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether an address lies in it; IPv4 inside IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.base.is_ipv4() && first_of(address, self.bits) == self.base
    }
}

const fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first address that shares `bits` leading bits.
fn first_of(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

impl Setting for Vec<Network> {
    fn written(&self) -> Option<String> {
        let quoted: Vec<_> = self.iter().map(|network| format!("\"{network}\"")).collect();
        Some(format!("[{}]", quoted.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Network::contains`: by leading bits, within a family; IPv4 inside IPv6 is IPv4.
    #[test]
    fn an_address_lies_in_a_network_by_its_leading_bits() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("192.0.2.6/31", "192.0.2.7", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.9", false),
            ("::1/128", "::1", true),
            ("::1", "::2", false),
            ("::1", "127.0.0.1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ] {
            let network = Network::parse(network).expect(network);
            assert_eq!(network.contains(address.parse().expect(address)), expected, "{network} {address}");
            // What is shown is read back.
            assert_eq!(Network::parse(&network.to_string()), Ok(network));
        }
    }

    /// `Network::parse`: what is no network is told with what would be right.
    #[test]
    fn what_is_no_network_is_refused_with_what_would_be_right() {
        for (text, words) in [
            ("", "\"\" is no IP address"),
            ("localhost", "\"localhost\" is no IP address"),
            ("10.0.0/8", "\"10.0.0\" is no IP address"),
            ("10.0.0.0/33", "\"33\" behind the slash is no number from 0 to 32"),
            ("10.0.0.0/", "\"\" behind the slash"),
            ("10.0.0.0/+8", "\"+8\" behind the slash"),
            ("::/129", "from 0 to 128"),
            ("10.0.0.1/8", "write \"10.0.0.0/8\" for the network, or \"10.0.0.1\""),
            ("[::1]", "no IP address"),
        ] {
            let error = Network::parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
