//! Lists of hops as proxies and liars write them.

use super::*;

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().expect("a field value"));
    }
    headers
}

fn check(fields: &[(&'static str, &str)], address: Option<&str>, secure: Option<bool>) {
    let trusted = ["10.0.0.0/8", "2001:db8:aaaa::/48"].map(|text| Network::parse(text).expect(text));
    let told = read(&headers(fields), &trusted);
    let address = address.map(|text| text.parse().expect(text));
    assert_eq!(told, Told { address, secure }, "{fields:?}");
}

/// `read`: the right-most hop that is not trusted, whatever the caller wrote left of it.
#[test]
fn the_right_most_untrusted_hop_is_the_caller() {
    const XFF: &str = "x-forwarded-for";
    for (value, address) in [
        ("192.0.2.7", Some("192.0.2.7")),
        ("192.0.2.7, 10.0.0.1", Some("192.0.2.7")),
        ("203.0.113.1, 192.0.2.7, 10.0.0.1,10.1.1.1", Some("192.0.2.7")),
        ("127.0.0.1, 192.0.2.7", Some("192.0.2.7")),
        ("10.0.0.1, 192.0.2.7", Some("192.0.2.7")),
        ("192.0.2.7:4711", Some("192.0.2.7")),
        ("2001:db8::7", Some("2001:db8::7")),
        ("[2001:db8::7]", Some("2001:db8::7")),
        ("[2001:db8::7]:4711", Some("2001:db8::7")),
        ("2001:db8::7, 2001:db8:aaaa::1", Some("2001:db8::7")),
        ("::ffff:192.0.2.7, ::ffff:10.0.0.1", Some("::ffff:192.0.2.7")),
        // Proxies alone: the one that was first.
        ("10.0.0.2, 10.0.0.1", Some("10.0.0.2")),
        (" , 192.0.2.7 , ", Some("192.0.2.7")),
        ("\", 192.0.2.7", Some("192.0.2.7")),
        // Hidden, or nonsense: never what lies left of it.
        ("192.0.2.7, unknown", None),
        ("192.0.2.7, unknown, 10.0.0.1", None),
        ("192.0.2.7, _gazonk", None),
        ("192.0.2.7, 300.1.1.1", None),
        ("192.0.2.7, 192.0.2.8:", None),
        ("192.0.2.7, 192.0.2.8:123456", None),
        ("192.0.2.7, [2001:db8::7", None),
        ("192.0.2.7, [2001:db8::7]4711", None),
        ("192.0.2.7, localhost", None),
        ("", None),
        (",,,", None),
    ] {
        check(&[(XFF, value)], address, None);
    }
    check(&[(XFF, "203.0.113.1"), (XFF, "192.0.2.7"), (XFF, "10.0.0.1")], Some("192.0.2.7"), None);
    check(&[(XFF, "192.0.2.7"), (XFF, "unknown")], None, None);
    check(&[], None, None);
    // More hops than are looked at: the left-most that was, a proxy of ours.
    let long = format!("192.0.2.7{}", ", 10.0.0.1".repeat(HOPS_MAX));
    check(&[(XFF, &long)], Some("10.0.0.1"), None);
    let flood = format!("{}192.0.2.7", "203.0.113.1,".repeat(5_000));
    check(&[(XFF, &flood)], Some("192.0.2.7"), None);
}

/// `read`: `Forwarded` with quotes, ports, names made up, and the scheme of the same hop.
#[test]
fn the_standard_field_is_read_by_its_grammar() {
    const FORWARDED: &str = "forwarded";
    for (value, address, secure) in [
        ("for=192.0.2.7", Some("192.0.2.7"), None),
        ("For=192.0.2.7;Proto=HTTPS;by=10.0.0.1", Some("192.0.2.7"), Some(true)),
        ("for=\"192.0.2.7:4711\";proto=http", Some("192.0.2.7"), Some(false)),
        ("for=\"[2001:db8::7]\"", Some("2001:db8::7"), None),
        ("for=\"[2001:db8::7]:4711\" ; proto=wss", Some("2001:db8::7"), Some(true)),
        ("for=\"[2001:db8::7]:_port\"", Some("2001:db8::7"), None),
        ("for=\"192.0.2\\.7\"", Some("192.0.2.7"), None),
        (
            "for=203.0.113.1, for=192.0.2.7;proto=https, for=10.0.0.1;proto=http",
            Some("192.0.2.7"),
            Some(true),
        ),
        ("proto=https;host=\"a,for=203.0.113.1;b\";for=192.0.2.7", Some("192.0.2.7"), Some(true)),
        ("for=192.0.2.7;proto=gopher", Some("192.0.2.7"), None),
        ("for=192.0.2.7, for=unknown;proto=https", None, Some(true)),
        ("for=192.0.2.7, for=_hidden", None, None),
        ("for=192.0.2.7, for=\"_SEVKISEK\";proto=https", None, Some(true)),
        ("for=192.0.2.7, proto=https", None, Some(true)),
        ("for=192.0.2.7, for=\"192.0.2.8", None, None),
        // A quote of the caller's does not swallow what the proxy wrote.
        ("for=\"203.0.113.1, for=192.0.2.7;proto=https", Some("192.0.2.7"), Some(true)),
        ("\", for=\"[2001:db8::7]\"", None, None),
        // Nor does it make the caller's own words a part of it.
        ("for=203.0.113.1;x=\", for=\"[2001:db8::7]\"", None, None),
        ("for=203.0.113.1;proto=https;x=\", for=\"[2001:db8::7]\";proto=http", None, None),
        ("for=203.0.113.1;\", for=\"[2001:db8::7]:4711\"", None, None),
        ("for=203.0.113.1;x=\"\\, by=\"_a\";for=\"[2001:db8::7]\"", None, None),
        ("for=203.0.113.1;x=\"a\"b, for=192.0.2.7", Some("192.0.2.7"), None),
        ("for=192.0.2.7, nonsense", None, None),
        ("for=192.0.2.7;nonsense", None, None),
        ("for=192.0.2.7;;proto=https;", Some("192.0.2.7"), Some(true)),
        ("for=", None, None),
        ("", None, None),
    ] {
        check(&[(FORWARDED, value)], address, secure);
    }
    check(&[(FORWARDED, "for=203.0.113.1"), (FORWARDED, "for=192.0.2.7")], Some("192.0.2.7"), None);
}

/// `read`: the standard goes before the older fields; where they name two callers, neither is believed.
#[test]
fn fields_that_disagree_tell_nothing() {
    let older = [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")];
    check(&older, Some("192.0.2.7"), Some(true));
    check(&[older[0], older[1], ("forwarded", "for=192.0.2.7")], Some("192.0.2.7"), None);
    check(
        &[older[0], ("forwarded", "for=\"[::ffff:192.0.2.7]:80\";proto=http")],
        Some("::ffff:192.0.2.7"),
        Some(false),
    );
    check(&[older[1], ("forwarded", "for=192.0.2.7;proto=http")], Some("192.0.2.7"), Some(false));
    // A caller's own word beside the proxy's, in either field.
    check(&[older[0], older[1], ("forwarded", "for=203.0.113.1;proto=https")], None, None);
    check(&[("x-forwarded-for", "203.0.113.1"), ("forwarded", "for=192.0.2.7;proto=https")], None, None);
    check(&[older[0], ("forwarded", "for=unknown;proto=http")], None, None);
    check(&[("x-forwarded-proto", "http, https")], None, Some(true));
    check(&[("x-forwarded-proto", "https"), ("x-forwarded-proto", "http")], None, Some(false));
}

/// `trace`: any field that only proxies write gives one away.
#[test]
fn a_request_that_passed_a_proxy_shows_it() {
    assert_eq!(trace(&headers(&[("host", "localhost"), ("origin", "http://localhost")])), None);
    for (name, told) in [("forwarded", "Forwarded"), ("x-real-ip", "X-Real-IP"), ("via", "Via")] {
        assert_eq!(trace(&headers(&[(name, "")])), Some(told));
    }
}
