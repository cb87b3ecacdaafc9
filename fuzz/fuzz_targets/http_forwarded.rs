//! Who asks, behind proxies: whatever a caller writes, a listed proxy's word about him decides, and nobody else's
//! counts at all.
//!
//! Input: the setup, what the proxies write, and then what the caller wrote before them.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use danmaku::ingress::caller::announced::Announced;
use danmaku::ingress::caller::{Asker, canonical};
use danmaku::ingress::network::Network;
use danmaku_fuzz::draw::Draw;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;

const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FIELDS: [HeaderName; 3] = [FORWARDED, X_FORWARDED_FOR, X_FORWARDED_PROTO];
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
/// Lines that a caller writes.
const LINES_MAX: usize = 4;

fuzz_target!(|data: &[u8]| {
    let mut draw = Draw::new(data);
    let trusted = ["10.0.0.0/8", "2001:db8:aaaa::/48"].map(|text| Network::parse(text).expect("a network"));
    let standard = draw.coin();
    let (caller, secure) = (caller(&mut draw), draw.coin());
    let proxies: Vec<IpAddr> = (0..draw.size(0, 3)).map(|_| proxy(&mut draw)).collect();
    let (mut element, own_line) = (hop(&mut draw, standard, caller, secure), draw.coin());
    for proxy in proxies {
        element = format!("{element}, {}", hop(&mut draw, standard, proxy, !secure));
    }
    let written = written(&mut draw);
    let (ours, line) = match standard {
        true => (FORWARDED, element.as_bytes()),
        false => (X_FORWARDED_FOR, element.as_bytes()),
    };

    let mut headers = written.clone();
    match headers.get_all(&ours).iter().last().cloned() {
        Some(before) if !own_line => {
            // The proxy adds to the caller's line, as most do, without a look at it.
            let mut lines: Vec<HeaderValue> = headers.get_all(&ours).iter().cloned().collect();
            lines.pop();
            headers.remove(&ours);
            lines.push(value(&[before.as_bytes(), b", ", line].concat()));
            for line in lines {
                headers.append(&ours, line);
            }
        }
        _ => {
            headers.append(&ours, value(line));
        }
    }

    let asker = Asker::of(PROXY, Announced::Unspoken, &headers, &trusted);
    let known = canonical(caller);
    assert!([known, PROXY].contains(&asker.address), "{known} asks as {} by {headers:?}", asker.address);
    assert!(!asker.nearby && !asker.exempt, "who is spoken for is under the limits");
    // A caller hides at most, by breaking a line, or by a word of his own in the other field.
    let lines = written.get_all(&ours).iter().all(|line| !line.as_bytes().contains(&b'"'));
    let other = if standard { X_FORWARDED_FOR } else { FORWARDED };
    if (lines || !standard) && !written.contains_key(&other) {
        assert_eq!(asker.address, known, "{headers:?}");
        if standard {
            assert_eq!(asker.secure, Some(secure), "{headers:?}");
        }
    }

    let asker = Asker::of(STRANGER, Announced::Unspoken, &headers, &trusted);
    assert_eq!(asker, Asker { address: STRANGER, secure: None, nearby: false, exempt: false });
});

/// Nobody's proxy; often in one of the ways to write IPv4 inside IPv6.
fn caller(draw: &mut Draw<'_>) -> IpAddr {
    let [kind, high, low] = [0; 3].map(|_: u8| draw.byte());
    let v4 = Ipv4Addr::new(203, 0, high, low);
    let [a, b] = [0xcb00, u16::from(high) << 8 | u16::from(low)];
    match kind % 5 {
        0 => v4.into(),
        1 => v4.to_ipv6_mapped().into(),
        2 => Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 7).into(),
        3 => Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b).into(),
        _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, a, b).into(),
    }
}

fn proxy(draw: &mut Draw<'_>) -> IpAddr {
    match draw.byte() {
        byte @ 0..0x80 => Ipv4Addr::new(10, 1, 2, byte).into(),
        byte => Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, byte.into()).into(),
    }
}

/// What a proxy writes of whom it heard.
fn hop(draw: &mut Draw<'_>, standard: bool, address: IpAddr, secure: bool) -> String {
    let form = draw.byte();
    let port = ["", ":4711", ":_made-up"][usize::from(form) % 3];
    let bracketed = if address.is_ipv6() { format!("[{address}]{port}") } else { format!("{address}{port}") };
    if !standard {
        return if port.is_empty() && form & 0x40 != 0 { address.to_string() } else { bracketed };
    }
    // A colon is not for tokens.
    let quoted = bracketed.contains(':') || form & 0x40 != 0;
    let node = if quoted { format!("\"{bracketed}\"") } else { bracketed };
    let proto = if secure { "https" } else { "http" };
    match form >> 4 & 3 {
        0 => format!("for={node};proto={proto}"),
        1 => format!("by=\"_a,b\\\";\";For={node} ; Proto=\"{proto}\""),
        2 => format!("proto={proto};for={node};host=\"a;b,c\""),
        _ => format!("host=live.example;proto={proto};for={node}"),
    }
}

/// What the caller wrote: any values of any of the fields.
fn written(draw: &mut Draw<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for _ in 0..LINES_MAX {
        if draw.is_empty() {
            break;
        }
        let field = &FIELDS[draw.size(0, FIELDS.len() - 1)];
        headers.append(field, value(draw.bytes(120)));
    }
    headers
}

/// A field's value; what can be in none is a blank.
fn value(bytes: &[u8]) -> HeaderValue {
    let fits = |byte: &u8| if HeaderValue::from_bytes(&[*byte]).is_ok() { *byte } else { b' ' };
    HeaderValue::from_bytes(&bytes.iter().map(fits).collect::<Vec<u8>>()).expect("all bytes fit")
}
