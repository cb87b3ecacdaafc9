//! Guests: users without a token, known by a number that the server gives them.
//!
//! The id that everybody sees is made from the number. With a signature behind it a guest presents it again, like a
//! token, and keeps it, and with it its limits and its idempotency. A guest that publishes over HTTP and presents
//! nothing is known by its address: ids that can be had for nothing would be limits that bound nobody.

use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use danmaku_wire::entry::{Author, Role};
use danmaku_wire::id::UserId;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::wiring::base36;

/// What a guest's id begins with: never that of a user, whose ids a token gives and which may not begin so.
pub const MARK: char = '~';
/// Bits of a guest's number: short ids on the wire, and a collision among a million guests of a room
/// is still improbable (10^12 / 2^61).
const NUMBER_BITS: u32 = 60;
/// Bits of an IPv6 address that count: a subscriber has a whole /64 to choose from.
const IPV6_PREFIX: u32 = 64;

/// A number for a guest, of random bits.
pub const fn number(random: u64) -> u64 {
    random & ((1 << NUMBER_BITS) - 1)
}

/// The number of whoever calls from an address and shows nothing else. It says nothing of the address to those who do
/// not have the server's secret.
pub fn number_of(address: IpAddr, secret: &[u8; 16]) -> u64 {
    let bits = match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()) | 0xffff << 32,
        IpAddr::V6(address) => address.to_bits() & !(u128::MAX >> IPV6_PREFIX),
    };
    number(mac(secret, "address", &bits.to_be_bytes()) as u64)
}

/// The id of a number: `~` and base 36.
pub fn id(number: u64) -> String {
    format!("{MARK}{}", base36(number))
}

/// A guest as the author of comments.
pub fn author(number: u64) -> Arc<Author> {
    let id = UserId::parse(&id(number)).expect("a guest's id is short and plain");
    Arc::new(Author { id, name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() })
}

/// Whether an author is a guest, presented or not.
pub fn is_guest(author: &Author) -> bool {
    author.id.as_str().starts_with(MARK)
}

/// What a sanction by address goes by where this author calls from: the address for guests; 0, none, for users, who can be
/// named and may share theirs with thousands.
pub fn measured_by(author: &Author, address: u64) -> u64 {
    if is_guest(author) { address } else { 0 }
}

/// A guest's id with its signature: what it presents like a token.
pub fn signed(id: &str, secret: &[u8; 16]) -> String {
    let signature = URL_SAFE_NO_PAD.encode(mac(secret, "guest", id.as_bytes()).to_be_bytes());
    format!("{id}.{signature}")
}

/// The number of a signed id; `None` where it is not one that was signed with `secret`.
pub fn verify(signed_id: &str, secret: &[u8; 16]) -> Option<u64> {
    let (id, _) = signed_id.split_once('.')?;
    let number = u64::from_str_radix(id.strip_prefix(MARK)?, 36).ok()?;
    // Written anew, so that one guest has one spelling; the hash of both hides how much of them is the same.
    let signed = signed(&self::id(number), secret);
    let same = mac(secret, "equal", signed.as_bytes()) == mac(secret, "equal", signed_id.as_bytes());
    (same && number == self::number(number)).then_some(number)
}

/// A keyed hash of 128 bits, one function for each purpose.
fn mac(secret: &[u8; 16], purpose: &str, bytes: &[u8]) -> u128 {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(purpose.as_bytes());
    hasher.write(&[0]);
    hasher.write(bytes);
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 16] = *b"0123456789abcdef";

    /// `verify`: what was signed, and nothing else, gives its number back.
    #[test]
    fn only_what_was_signed_here_is_a_guest_again() {
        for number in [0, 1, 35, 36, self::number(u64::MAX)] {
            let signed = signed(&id(number), &SECRET);
            assert_eq!(verify(&signed, &SECRET), Some(number), "{signed}");
            assert_eq!(verify(&signed, b"another secret!!"), None);
            for at in 0..signed.len() {
                let mut bent = signed.clone().into_bytes();
                bent[at] = if bent[at] == b'x' { b'y' } else { b'x' };
                assert_eq!(verify(&String::from_utf8_lossy(&bent), &SECRET), None, "{at} of {signed}");
                assert_eq!(verify(&signed[..at], &SECRET), None, "{at} of {signed}");
            }
            assert_eq!(verify(&signed.to_uppercase(), &SECRET), None);
            assert_eq!(verify(&signed.replace('~', "~0"), &SECRET), None, "another spelling");
        }
        assert_eq!(verify("", &SECRET), None);
        assert_eq!(verify("~.", &SECRET), None);
    }

    /// `number_of`: one subscriber is one guest, whichever way its address is written.
    #[test]
    fn an_address_is_one_guest_and_its_neighbour_another() {
        let of = |address: &str| number_of(address.parse().expect("an address"), &SECRET);
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_ne!(of("192.0.2.1"), number_of("192.0.2.1".parse().expect("an address"), b"another secret!!"));
        assert!(is_guest(&author(of("192.0.2.1"))));
    }
}
