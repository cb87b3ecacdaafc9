//! Method: one table of addresses, each with what it is.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn network(text: &str) -> Network {
    let (base, bits) = text.split_once('/').expect("a slash");
    Network::new(ip(base), bits.parse().expect("bits")).expect("a network")
}

const TABLE: &[(&str, Option<Kind>)] = &[
    ("0.0.0.0", Some(Kind::Unspecified)),
    ("0.1.2.3", Some(Kind::Unspecified)),
    ("9.255.255.255", None),
    ("10.0.0.0", Some(Kind::Private)),
    ("10.255.255.255", Some(Kind::Private)),
    ("11.0.0.0", None),
    ("100.63.255.255", None),
    ("100.64.0.0", Some(Kind::CarrierNat)),
    ("100.127.255.255", Some(Kind::CarrierNat)),
    ("100.128.0.0", None),
    ("127.0.0.1", Some(Kind::Loopback)),
    ("127.255.255.254", Some(Kind::Loopback)),
    ("128.0.0.1", None),
    ("169.253.255.255", None),
    ("169.254.169.254", Some(Kind::LinkLocal)),
    ("172.15.255.255", None),
    ("172.16.0.1", Some(Kind::Private)),
    ("172.31.255.255", Some(Kind::Private)),
    ("172.32.0.0", None),
    ("192.0.0.8", Some(Kind::Reserved)),
    ("192.0.1.1", None),
    ("192.0.2.1", Some(Kind::Reserved)),
    ("192.88.99.1", Some(Kind::Reserved)),
    ("192.167.255.255", None),
    ("192.168.1.1", Some(Kind::Private)),
    ("192.169.0.0", None),
    ("198.17.255.255", None),
    ("198.18.0.1", Some(Kind::Reserved)),
    ("198.19.255.255", Some(Kind::Reserved)),
    ("198.51.100.7", Some(Kind::Reserved)),
    ("203.0.113.7", Some(Kind::Reserved)),
    ("223.255.255.255", None),
    ("224.0.0.1", Some(Kind::Multicast)),
    ("239.255.255.255", Some(Kind::Multicast)),
    ("240.0.0.1", Some(Kind::Reserved)),
    ("255.255.255.255", Some(Kind::Broadcast)),
    ("1.1.1.1", None),
    ("93.184.216.34", None),
    ("::", Some(Kind::Unspecified)),
    ("::1", Some(Kind::Loopback)),
    ("::2", Some(Kind::Embedded)),
    ("::127.0.0.1", Some(Kind::Embedded)),
    ("::ffff:127.0.0.1", Some(Kind::Embedded)),
    ("::ffff:10.0.0.1", Some(Kind::Embedded)),
    ("::ffff:1.1.1.1", Some(Kind::Embedded)),
    ("64:ff9b::1.1.1.1", Some(Kind::Embedded)),
    ("64:ff9b::7f00:1", Some(Kind::Embedded)),
    ("64:ff9b:1::7f00:1", Some(Kind::Embedded)),
    ("64:ff9b:2::1", Some(Kind::Reserved)),
    ("100::1", Some(Kind::Reserved)),
    ("2001::1", Some(Kind::Embedded)),
    ("2001:0:7f00:1::", Some(Kind::Embedded)),
    ("2001:2::1", Some(Kind::Reserved)),
    ("2001:1ff:ffff::1", Some(Kind::Reserved)),
    ("2001:200::1", None),
    ("2001:db8::1", Some(Kind::Reserved)),
    ("2001:4860:4860::8888", None),
    ("2002:7f00:1::", Some(Kind::Embedded)),
    ("2002:101:101::1", Some(Kind::Embedded)),
    ("2606:4700:4700::1111", None),
    ("3fff::1", Some(Kind::Reserved)),
    ("3fff:1000::1", None),
    ("4000::1", Some(Kind::Reserved)),
    ("5f00::1", Some(Kind::Reserved)),
    ("fbff::1", Some(Kind::Reserved)),
    ("fc00::1", Some(Kind::UniqueLocal)),
    ("fd00:ec2::254", Some(Kind::UniqueLocal)),
    ("fe7f::1", Some(Kind::Reserved)),
    ("fe80::1", Some(Kind::LinkLocal)),
    ("febf::1", Some(Kind::LinkLocal)),
    ("fec0::1", Some(Kind::Private)),
    ("ff02::1", Some(Kind::Multicast)),
];

#[test]
fn only_the_public_internet_is_allowed_without_a_list() {
    let law = AddressLaw::default();
    for (text, kind) in TABLE {
        assert_eq!(law.judge(ip(text)).err().map(|denied| denied.kind), *kind, "{text}");
    }
}

#[test]
fn a_named_network_is_allowed_and_nothing_beside_it() {
    let law = AddressLaw::new(vec![network("10.1.0.0/16"), network("127.0.0.1/32"), network("fd00::/8")]);
    for allowed in ["10.1.0.0", "10.1.255.255", "127.0.0.1", "fd12::1", "1.1.1.1"] {
        assert_eq!(law.judge(ip(allowed)), Ok(()), "{allowed}");
    }
    for denied in ["10.0.255.255", "10.2.0.0", "127.0.0.2", "fc00::1", "::1", "::ffff:10.1.0.1"] {
        assert!(law.judge(ip(denied)).is_err(), "{denied}");
    }
}

#[test]
fn no_list_allows_what_is_no_host() {
    let law = AddressLaw::new(vec![network("0.0.0.0/0"), network("::/0")]);
    for (text, kind) in TABLE {
        let no_host = kind.is_some_and(Kind::is_no_host);
        assert_eq!(law.judge(ip(text)).is_err(), no_host, "{text}");
    }
}

#[test]
fn a_network_begins_at_its_first_address() {
    let error = |base: &str, bits| Network::new(ip(base), bits).expect_err("no network").to_string();
    assert_eq!(error("10.0.0.1", 8), "10.0.0.1/8 is not the first address of its network");
    assert_eq!(error("10.0.0.0", 33), "10.0.0.0/33 has more than 32 bits");
    assert_eq!(error("::1", 64), "::1/64 is not the first address of its network");
    assert_eq!(network("0.0.0.0/0").to_string(), "0.0.0.0/0");
}

#[test]
fn a_denial_names_the_address_and_what_it_is() {
    let denied = AddressLaw::default().judge(ip("169.254.169.254")).expect_err("denied");
    let expected = "169.254.169.254 is denied: it is link-local, and no network of allow_private has it";
    assert_eq!(denied.to_string(), expected);
}
