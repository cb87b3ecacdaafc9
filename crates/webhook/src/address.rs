//! Which addresses a call may go to (server-side request forgery).
//!
//! In comes an address that is about to be connected to, out comes whether that is allowed. Whatever is
//! not part of the public internet is denied unless the operator names its network. An address is judged
//! as it is written: IPv4 that is wrapped into IPv6 (mapped, compatible, 6to4, NAT64, Teredo) is denied
//! whatever is inside, since no honest name resolves to it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

/// A network: a first address and how many leading bits all its addresses share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    bits: u8,
}

/// Why an address and a number of bits are no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// More bits than the family's addresses have.
    #[error("{base}/{bits} has more than {max} bits")]
    Bits {
        /// The address.
        base: IpAddr,
        /// The bits that were asked for.
        bits: u8,
        /// The most there may be.
        max: u8,
    },
    /// The address has bits set beyond the network's own.
    #[error("{base}/{bits} is not the first address of its network")]
    Inside {
        /// The address.
        base: IpAddr,
        /// The bits that were asked for.
        bits: u8,
    },
}

impl Network {
    /// A network by its first address and its number of bits (0–32 for IPv4, 0–128 for IPv6).
    ///
    /// # Errors
    /// When there are too many bits, or the address is not the first one.
    pub fn new(base: IpAddr, bits: u8) -> Result<Self, NetworkError> {
        let max = if base.is_ipv4() { 32 } else { 128 };
        if bits > max {
            return Err(NetworkError::Bits { base, bits, max });
        }
        let first = match base {
            IpAddr::V4(v4) => u32::from(v4) & mask_v4(bits) == u32::from(v4),
            IpAddr::V6(v6) => u128::from(v6) & mask_v6(bits) == u128::from(v6),
        };
        if first { Ok(Self { base, bits }) } else { Err(NetworkError::Inside { base, bits }) }
    }

    /// Whether an address of the same family lies in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(v4)) => within_v4(v4, base, self.bits),
            (IpAddr::V6(base), IpAddr::V6(v6)) => within_v6(v6, base, self.bits),
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

/// What an address is, where it is not one of the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `0.0.0.0/8`, `::`: on many systems another way to say loopback.
    Unspecified,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// RFC 1918, and the deprecated site-local `fec0::/10`.
    Private,
    /// `100.64.0.0/10`, the inside of a carrier's NAT (RFC 6598).
    CarrierNat,
    /// `169.254.0.0/16` (with the metadata services of clouds), `fe80::/10`.
    LinkLocal,
    /// `fc00::/7` (RFC 4193).
    UniqueLocal,
    /// `224.0.0.0/4`, `ff00::/8`.
    Multicast,
    /// `255.255.255.255`.
    Broadcast,
    /// IPv4 inside IPv6: mapped, compatible, 6to4, NAT64, Teredo.
    Embedded,
    /// For documentation, benchmarks, protocols, or for nothing yet (RFC 6890).
    Reserved,
}

impl Kind {
    /// Its name in error texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::CarrierNat => "carrier NAT",
            Self::LinkLocal => "link-local",
            Self::UniqueLocal => "unique local",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Embedded => "IPv4 inside IPv6",
            Self::Reserved => "reserved",
        }
    }

    /// Whether no list of networks may allow it: no single host answers there.
    fn is_no_host(self) -> bool {
        matches!(self, Self::Unspecified | Self::Multicast | Self::Broadcast)
    }
}

/// An address that a call may not go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is denied: it is {}, and no network of allow_private has it", .kind.name())]
pub struct Denied {
    /// The address.
    pub address: IpAddr,
    /// What it is.
    pub kind: Kind,
}

/// The rule: the public internet, and the networks that the operator named.
#[derive(Debug, Clone, Default)]
pub struct AddressLaw {
    allow_private: Vec<Network>,
}

impl AddressLaw {
    /// The rule with what the operator allows beside the public internet.
    #[must_use]
    pub fn new(allow_private: Vec<Network>) -> Self {
        Self { allow_private }
    }

    /// Whether a call may go to an address.
    ///
    /// # Errors
    /// When it may not, with what the address is.
    pub fn judge(&self, address: IpAddr) -> Result<(), Denied> {
        let Some(kind) = kind_of(address) else { return Ok(()) };
        let allowed =
            !kind.is_no_host() && self.allow_private.iter().any(|network| network.contains(address));
        if allowed { Ok(()) } else { Err(Denied { address, kind }) }
    }
}

/// What an address is; `None`: one of the public internet.
#[must_use]
pub fn kind_of(address: IpAddr) -> Option<Kind> {
    match address {
        IpAddr::V4(v4) => V4.iter().find(|(base, bits, _)| within_v4(v4, *base, *bits)).map(|row| row.2),
        IpAddr::V6(v6) => {
            let special = V6.iter().find(|(base, bits, _)| within_v6(v6, *base, *bits)).map(|row| row.2);
            // Only 2000::/3 has been given out as global unicast; the rest is nobody's yet.
            special.or_else(|| (!within_v6(v6, v6_of(0x2000, 0, 0), 3)).then_some(Kind::Reserved))
        }
    }
}

const fn v4_of(a: u8, b: u8, c: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, 0)
}

const fn v6_of(a: u16, b: u16, c: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)
}

/// The first row that has the address counts. From the IANA special-purpose registry (RFC 6890).
const V4: [(Ipv4Addr, u8, Kind); 16] = [
    (v4_of(0, 0, 0), 8, Kind::Unspecified),
    (v4_of(10, 0, 0), 8, Kind::Private),
    (v4_of(100, 64, 0), 10, Kind::CarrierNat),
    (v4_of(127, 0, 0), 8, Kind::Loopback),
    (v4_of(169, 254, 0), 16, Kind::LinkLocal),
    (v4_of(172, 16, 0), 12, Kind::Private),
    (v4_of(192, 0, 0), 24, Kind::Reserved),
    (v4_of(192, 0, 2), 24, Kind::Reserved),
    // Relays of 6to4, deprecated (RFC 7526).
    (v4_of(192, 88, 99), 24, Kind::Reserved),
    (v4_of(192, 168, 0), 16, Kind::Private),
    (v4_of(198, 18, 0), 15, Kind::Reserved),
    (v4_of(198, 51, 100), 24, Kind::Reserved),
    (v4_of(203, 0, 113), 24, Kind::Reserved),
    (v4_of(224, 0, 0), 4, Kind::Multicast),
    (Ipv4Addr::BROADCAST, 32, Kind::Broadcast),
    (v4_of(240, 0, 0), 4, Kind::Reserved),
];

const V6: [(Ipv6Addr, u8, Kind); 16] = [
    (Ipv6Addr::UNSPECIFIED, 128, Kind::Unspecified),
    (Ipv6Addr::LOCALHOST, 128, Kind::Loopback),
    // Mapped (RFC 4291 2.5.5.2), and "compatible", deprecated (2.5.5.1).
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, Kind::Embedded),
    (Ipv6Addr::UNSPECIFIED, 96, Kind::Embedded),
    // NAT64: the well-known prefix (RFC 6052) and the local one (RFC 8215).
    (v6_of(0x64, 0xff9b, 0), 96, Kind::Embedded),
    (v6_of(0x64, 0xff9b, 1), 48, Kind::Embedded),
    // Teredo (RFC 4380), then the rest of the protocol assignments around it.
    (v6_of(0x2001, 0, 0), 32, Kind::Embedded),
    (v6_of(0x2001, 0, 0), 23, Kind::Reserved),
    (v6_of(0x2001, 0xdb8, 0), 32, Kind::Reserved),
    // 6to4 (RFC 3056).
    (v6_of(0x2002, 0, 0), 16, Kind::Embedded),
    (v6_of(0x3fff, 0, 0), 20, Kind::Reserved),
    (v6_of(0xfc00, 0, 0), 7, Kind::UniqueLocal),
    (v6_of(0xfe80, 0, 0), 10, Kind::LinkLocal),
    (v6_of(0xfec0, 0, 0), 10, Kind::Private),
    (v6_of(0xff00, 0, 0), 8, Kind::Multicast),
    // Discard-only (RFC 6666).
    (v6_of(0x100, 0, 0), 64, Kind::Reserved),
];

fn within_v4(address: Ipv4Addr, base: Ipv4Addr, bits: u8) -> bool {
    u32::from(address) & mask_v4(bits) == u32::from(base)
}

fn within_v6(address: Ipv6Addr, base: Ipv6Addr, bits: u8) -> bool {
    u128::from(address) & mask_v6(bits) == u128::from(base)
}

fn mask_v4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

fn mask_v6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
