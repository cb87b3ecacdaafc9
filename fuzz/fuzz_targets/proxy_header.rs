//! The PROXY header: any bytes in any cut, against the protocol's text by the book.
//!
//! Input: a byte (bit 0: begins with the signature of version 2; bit 1: checksums are made right), and the first
//! bytes of a connection.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use danmaku_wire::proxy_protocol::{self, HEADER_BYTES_MAX, V1_BYTES_MAX, V2_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_BYTES: usize = 16;
const CHECKSUM: u8 = 3;

fuzz_target!(|data: &[u8]| {
    let [flags, data @ ..] = data else { return };
    let mut bytes = if flags & 1 == 0 { Vec::new() } else { SIGNATURE.to_vec() };
    bytes.extend_from_slice(data);
    if flags & 2 != 0 {
        make_checksums_right(&mut bytes);
    }
    let whole = proxy_protocol::parse(&bytes);
    match whole {
        Ok(None) => assert!(bytes.len() < HEADER_BYTES_MAX && by_the_book(&bytes).is_none()),
        Ok(Some((header, length))) => assert_eq!(by_the_book(&bytes), Some((header.source, length))),
        Err(why) => assert_eq!(by_the_book(&bytes), None, "{why}"),
    }
    // The verdict comes with the byte that decides it, and stays whatever follows.
    let decides = match whole {
        Ok(Some((_, length))) => length,
        _ => (0..bytes.len().min(HEADER_BYTES_MAX))
            .find(|cut| proxy_protocol::parse(&bytes[..*cut]) != Ok(None))
            .unwrap_or(bytes.len()),
    };
    for cut in 0..=bytes.len().min(HEADER_BYTES_MAX + 2) {
        let seen = proxy_protocol::parse(&bytes[..cut]);
        assert_eq!(seen, if cut < decides { Ok(None) } else { whole }, "cut at {cut}");
    }
});

/// What `bytes` begin with if it is a whole header, and how long that is.
fn by_the_book(bytes: &[u8]) -> Option<(Option<SocketAddr>, usize)> {
    if bytes.starts_with(SIGNATURE) { version_2(bytes) } else { version_1(bytes) }
}

fn version_1(bytes: &[u8]) -> Option<(Option<SocketAddr>, usize)> {
    let length = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let line = str::from_utf8(&bytes[..length]).ok()?.strip_suffix("\r\n")?;
    if length > V1_BYTES_MAX {
        return None;
    }
    let words: Vec<&str> = line.split(' ').collect();
    let port = |word: &str| word.parse::<u16>().ok().filter(|port| port.to_string() == word);
    let source = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family, source, destination, source_port, destination_port] => {
            let read = |word: &str| match family {
                "TCP4" => word.parse().ok().map(IpAddr::V4),
                "TCP6" => word.parse().ok().map(IpAddr::V6),
                _ => None,
            };
            read(destination).and(port(destination_port))?;
            Some(SocketAddr::new(read(source)?.to_canonical(), port(source_port)?))
        }
        _ => return None,
    };
    Some((source, length))
}

fn version_2(bytes: &[u8]) -> Option<(Option<SocketAddr>, usize)> {
    let (length, body) = frame(bytes)?;
    let (address, port_at): (IpAddr, usize) = match (bytes[12], bytes[13]) {
        (0x20, _) | (0x21, 0) => return Some((None, length)),
        (0x21, 0x11) => (Ipv4Addr::from(*bytes[FIXED_BYTES..length].first_chunk::<4>()?).into(), 8),
        (0x21, 0x21) => (Ipv6Addr::from(*bytes[FIXED_BYTES..length].first_chunk::<16>()?).into(), 32),
        _ => return None,
    };
    let port = u16::from_be_bytes(*bytes[body.clone()].get(port_at..)?.first_chunk()?);
    // The other port stands behind it, and then the extensions.
    let extensions = extensions(bytes, body.start + port_at + 4..body.end)?;
    for value in extensions {
        let told = u32::from_be_bytes(*bytes[value.clone()].as_array()?);
        let mut blank = bytes[..length].to_vec();
        blank[value].fill(0);
        if crc32c::crc32c(&blank) != told {
            return None;
        }
    }
    Some((Some(SocketAddr::new(address.to_canonical(), port)), length))
}

/// The whole header's length, and where what is not fixed lies.
fn frame(bytes: &[u8]) -> Option<(usize, Range<usize>)> {
    let fixed = bytes.get(..FIXED_BYTES)?;
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    (length <= V2_BYTES_MAX.min(bytes.len())).then_some((length, FIXED_BYTES..length))
}

/// Where the values of checksums lie; `None` where an extension goes beyond the end.
fn extensions(bytes: &[u8], within: Range<usize>) -> Option<Vec<Range<usize>>> {
    let (mut at, mut checksums) = (within.start, Vec::new());
    if at > within.end {
        return None;
    }
    while at < within.end {
        let &[kind, high, low] = bytes[at..within.end].first_chunk()?;
        let value = at + 3..at + 3 + usize::from(u16::from_be_bytes([high, low]));
        if value.end > within.end {
            return None;
        }
        at = value.end;
        if kind == CHECKSUM {
            checksums.push(value);
        }
    }
    Some(checksums)
}

/// Puts in the last checksum, where there is one: no fuzzer finds it by itself.
fn make_checksums_right(bytes: &mut [u8]) {
    if !bytes.starts_with(SIGNATURE) {
        return;
    }
    let Some((length, body)) = frame(bytes) else { return };
    let addresses = if bytes[13] == 0x11 { 12 } else { 36 };
    let Some(values) = extensions(bytes, body.start + addresses..body.end) else { return };
    if let Some(value) = values.into_iter().next_back().filter(|value| value.len() == 4) {
        bytes[value.clone()].fill(0);
        let sum = crc32c::crc32c(&bytes[..length]);
        bytes[value].copy_from_slice(&sum.to_be_bytes());
    }
}
