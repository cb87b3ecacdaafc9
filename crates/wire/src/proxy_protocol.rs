//! The header by which a proxy says for whom it speaks: PROXY protocol, versions 1 and 2 (HAProxy,
//! doc/proxy-protocol.txt).
//!
//! In come the first bytes of a connection, as many as have arrived; out comes the header with its length, the wish
//! for more bytes, or what is wrong. What follows the header is never looked at.

// Of the core library, which has addresses and no sockets.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest line of version 1, its CRLF included (section 2.1).
pub const V1_BYTES_MAX: usize = 107;
/// The longest header of version 2 that is read: 16 bytes, two addresses of the longest kind, and 304 bytes of
/// extensions (section 2.2 asks for 536 in one piece).
pub const V2_BYTES_MAX: usize = 536;
/// The longest header of either version.
pub const HEADER_BYTES_MAX: usize = if V1_BYTES_MAX > V2_BYTES_MAX { V1_BYTES_MAX } else { V2_BYTES_MAX };

const V1_PREFIX: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const V2_FIXED_BYTES: usize = 16;
/// The type of the extension that holds a checksum over the whole header (section 2.2.3).
const TLV_CRC32C: u8 = 0x03;

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Who connected to the proxy; IPv4 inside IPv6 is told as IPv4. `None` where the proxy speaks for itself (a
    /// health check) or does not know.
    pub source: Option<SocketAddr>,
}

/// Why the first bytes of a connection are no header. The connection is of no use after it: whatever follows cannot
/// be told from the rest of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither of the two beginnings.
    #[error("the connection does not begin with a PROXY header")]
    NotAHeader,
    /// A line without an end.
    #[error("a PROXY line is at most {V1_BYTES_MAX} bytes long")]
    LineTooLong,
    /// A line that is not of the form `PROXY TCP4 SOURCE DESTINATION PORT PORT`.
    #[error("a PROXY line names a family, two addresses of it and two ports")]
    Line,
    /// Another version than 2, or another command than LOCAL and PROXY.
    #[error("a PROXY header of version 2 is a LOCAL or a PROXY command; this one says {0:#04x}")]
    Command(u8),
    /// A family or transport that no connection here can have.
    #[error("a PROXY header is about TCP over IPv4 or IPv6; this one says {0:#04x}")]
    Family(u8),
    /// More bytes than are read.
    #[error("a PROXY header is at most {V2_BYTES_MAX} bytes long; this one says {0}")]
    TooLong(usize),
    /// Fewer bytes than the addresses take.
    #[error("the addresses of a PROXY header do not fit into its {0} bytes")]
    TooShort(usize),
    /// An extension that goes beyond the header's end.
    #[error("an extension of a PROXY header goes beyond its end")]
    Extension,
    /// The checksum is another one.
    #[error("the checksum of a PROXY header is wrong")]
    Checksum,
}

/// Reads a header at the beginning of `bytes`: what it says, and how many bytes it has. `None` while more bytes are
/// needed; all that were given belong to the header then.
///
/// # Errors
/// As soon as the bytes cannot become a header any more.
pub fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    if begins(bytes, V1_PREFIX) {
        return parse_v1(bytes);
    }
    if begins(bytes, V2_SIGNATURE) {
        return parse_v2(bytes);
    }
    Err(Error::NotAHeader)
}

/// Whether `bytes` begin with `prefix`, as far as there are any.
fn begins(bytes: &[u8], prefix: &[u8]) -> bool {
    let n = bytes.len().min(prefix.len());
    bytes[..n] == prefix[..n]
}

fn parse_v1(bytes: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    let seen = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', seen) else {
        return if seen.len() == V1_BYTES_MAX { Err(Error::LineTooLong) } else { Ok(None) };
    };
    let line = seen[..end].strip_suffix(b"\r").ok_or(Error::Line)?;
    let line = std::str::from_utf8(line).map_err(|_| Error::Line)?;
    let rest = line.strip_prefix("PROXY ").ok_or(Error::Line)?;
    let source = match rest.split_once(' ') {
        Some(("TCP4", rest)) => Some(v1_addresses::<Ipv4Addr>(rest)?),
        Some(("TCP6", rest)) => Some(v1_addresses::<Ipv6Addr>(rest)?),
        // Whatever follows is to be ignored.
        Some(("UNKNOWN", _)) => None,
        None if rest == "UNKNOWN" => None,
        _ => return Err(Error::Line),
    };
    Ok(Some((Header { source }, end + 1)))
}

/// `SOURCE DESTINATION PORT PORT`, one space between each.
fn v1_addresses<A: FromStr + Into<IpAddr>>(text: &str) -> Result<SocketAddr, Error> {
    let mut words = text.split(' ');
    let mut word = || words.next().ok_or(Error::Line);
    let source: A = word()?.parse().map_err(|_| Error::Line)?;
    let _destination: A = word()?.parse().map_err(|_| Error::Line)?;
    let port = v1_port(word()?)?;
    v1_port(word()?)?;
    if words.next().is_some() {
        return Err(Error::Line);
    }
    Ok(canonical(source.into(), port))
}

/// A number without sign and leading zeros.
fn v1_port(text: &str) -> Result<u16, Error> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().map_err(|_| Error::Line) } else { Err(Error::Line) }
}

fn canonical(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address.to_canonical(), port)
}

fn parse_v2(bytes: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    let Some(&command) = bytes.get(12) else { return Ok(None) };
    if !matches!(command, 0x20 | 0x21) {
        return Err(Error::Command(command));
    }
    let Some(&family) = bytes.get(13) else { return Ok(None) };
    // Of what a proxy says for itself, and of what it does not know, nothing else is looked at (section 2.2).
    let address_bytes = match (command, family) {
        (0x20, _) | (_, 0x00) => None,
        (_, 0x11) => Some(4),
        (_, 0x21) => Some(16),
        _ => return Err(Error::Family(family)),
    };
    let Some(fixed) = bytes.get(..V2_FIXED_BYTES) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let whole = V2_FIXED_BYTES + length;
    if whole > V2_BYTES_MAX {
        return Err(Error::TooLong(whole));
    }
    if address_bytes.is_some_and(|n| length < 2 * n + 4) {
        return Err(Error::TooShort(length));
    }
    let Some(header) = bytes.get(..whole) else { return Ok(None) };
    let Some(n) = address_bytes else { return Ok(Some((Header { source: None }, whole))) };
    let (addresses, extensions) = header[V2_FIXED_BYTES..].split_at(2 * n + 4);
    let port = u16::from_be_bytes([addresses[2 * n], addresses[2 * n + 1]]);
    let source = match addresses[..n].first_chunk::<16>() {
        Some(v6) => canonical(Ipv6Addr::from(*v6).into(), port),
        None => canonical(Ipv4Addr::new(addresses[0], addresses[1], addresses[2], addresses[3]).into(), port),
    };
    check_extensions(header, whole - extensions.len())?;
    Ok(Some((Header { source: Some(source) }, whole)))
}

/// Walks the extensions (type, length in two bytes, value), and compares the checksum if there is one.
fn check_extensions(header: &[u8], mut at: usize) -> Result<(), Error> {
    while at < header.len() {
        let Some(&[kind, high, low]) = header[at..].first_chunk() else { return Err(Error::Extension) };
        let value_at = at + 3;
        let end = value_at + usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(value_at..end).ok_or(Error::Extension)?;
        if kind == TLV_CRC32C {
            let told: [u8; 4] = value.try_into().map_err(|_| Error::Checksum)?;
            let mut blank = [0; V2_BYTES_MAX];
            blank[..header.len()].copy_from_slice(header);
            blank[value_at..end].fill(0);
            if crc32c(&blank[..header.len()]) != u32::from_be_bytes(told) {
                return Err(Error::Checksum);
            }
        }
        at = end;
    }
    Ok(())
}

/// CRC-32 with Castagnoli's polynomial (RFC 4960, appendix B): a header is short and comes once per connection, so bit
/// by bit is fast enough.
fn crc32c(bytes: &[u8]) -> u32 {
    /// The polynomial, its bits reversed.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header of version 2 with these addresses and extensions.
    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).expect("short");
        [V2_SIGNATURE, &[command, family], &length.to_be_bytes(), body].concat()
    }

    const V4: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x34, 0x01, 0xbb];

    fn v6(source: &str) -> Vec<u8> {
        let source: Ipv6Addr = source.parse().expect("an address");
        [&source.octets()[..], &Ipv6Addr::LOCALHOST.octets(), &[0x12, 0x34, 0x01, 0xbb]].concat()
    }

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).expect("short");
        [&[kind][..], &length.to_be_bytes(), value].concat()
    }

    /// The same with a checksum at its end.
    fn summed(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut header = v2(command, family, &[body, &tlv(TLV_CRC32C, &[0; 4])].concat());
        let sum = crc32c(&header).to_be_bytes();
        let at = header.len() - 4;
        header[at..].copy_from_slice(&sum);
        header
    }

    /// Reads `input` cut at every byte: the answer must not depend on how it arrived, and what follows is not touched.
    fn check(input: &[u8], expected: Result<Option<&str>, Error>) {
        let told = expected.map(|source| source.map(|text| text.parse().expect("an address")));
        let mut first = None;
        for n in 0..=input.len() {
            match parse(&input[..n]) {
                Ok(None) => assert!(first.is_none(), "{input:?} at {n}: known, then unknown"),
                Ok(Some((header, consumed))) => {
                    first.get_or_insert((n, Ok(header.source)));
                    assert_eq!(consumed, first.map_or(0, |(n, _)| n), "{input:?} at {n}");
                }
                Err(error) => {
                    assert_eq!(first.get_or_insert((n, Err(error))).1, Err(error), "{input:?} at {n}");
                }
            }
        }
        assert_eq!(first.map(|(_, answer)| answer), Some(told), "{:?}", String::from_utf8_lossy(input));
        if let Some((n, Ok(source))) = first {
            let followed = [&input[..n], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(parse(&followed), Ok(Some((Header { source }, n))));
        }
    }

    /// `parse`, version 1: lines of the specification, and lines that are a letter off.
    #[test]
    fn a_line_names_the_source_or_is_refused() {
        let long = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        for (line, expected) in [
            ("PROXY TCP4 192.0.2.7 198.51.100.1 4660 443\r\n", Ok(Some("192.0.2.7:4660"))),
            ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", Ok(Some("255.255.255.255:65535"))),
            ("PROXY TCP6 2001:db8::7 ::1 1 0\r\n", Ok(Some("[2001:db8::7]:1"))),
            ("PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 1 2\r\n", Ok(Some("192.0.2.7:1"))),
            (&format!("PROXY TCP6 {long} {long} 65535 65535\r\n"), Ok(Some(&*format!("[{long}]:65535")))),
            ("PROXY UNKNOWN\r\n", Ok(None)),
            (&format!("PROXY UNKNOWN {long} {long} 65535 65535\r\n"), Ok(None)),
            ("PROXY UNKNOWN and whatever a proxy of the future says\r\n", Ok(None)),
            ("GET / HTTP/1.1\r\n", Err(Error::NotAHeader)),
            ("PROXI TCP4", Err(Error::NotAHeader)),
            ("proxy TCP4", Err(Error::NotAHeader)),
            ("\x16\x03\x01", Err(Error::NotAHeader)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 4660 443\n", Err(Error::Line)),
            ("PROXY UNKNOWN\n", Err(Error::Line)),
            ("PROXY UNKNOWNS\r\n", Err(Error::Line)),
            ("PROXY \r\n", Err(Error::Line)),
            ("PROXY TCP4\r\n", Err(Error::Line)),
            ("PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 1 2 \r\n", Err(Error::Line)),
            ("PROXY TCP4  192.0.2.7 198.51.100.1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7\t198.51.100.1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 2001:db8::7 ::1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP6 [::1] [::1] 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 1 65536\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 -1 2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1  2\r\n", Err(Error::Line)),
            ("PROXY TCP4 192.0.2.7 198.51.100.1 1 2\0\r\n", Err(Error::Line)),
            (&format!("PROXY UNKNOWN {}", "x".repeat(93)), Err(Error::LineTooLong)),
            (&format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)), Err(Error::LineTooLong)),
        ] {
            check(line.as_bytes(), expected);
        }
        check(format!("PROXY UNKNOWN {}\r\n", "x".repeat(91)).as_bytes(), Ok(None));
        check(b"PROXY UNKNOWN \xff\r\n", Err(Error::Line));
    }

    /// `parse`, version 2: commands, families, lengths, extensions and the checksum.
    #[test]
    fn a_binary_header_names_the_source_or_is_refused() {
        let padding = tlv(0x04, &[0; 304 - 3]);
        for (header, expected) in [
            (v2(0x21, 0x11, &V4), Ok(Some("192.0.2.7:4660"))),
            (v2(0x21, 0x21, &v6("2001:db8::7")), Ok(Some("[2001:db8::7]:4660"))),
            (v2(0x21, 0x21, &v6("::ffff:192.0.2.7")), Ok(Some("192.0.2.7:4660"))),
            (
                v2(0x21, 0x11, &[&V4[..], &tlv(0x04, b""), &tlv(0x02, b"live.example")].concat()),
                Ok(Some("192.0.2.7:4660")),
            ),
            (v2(0x21, 0x11, &[&V4[..], &padding].concat()), Ok(Some("192.0.2.7:4660"))),
            (summed(0x21, 0x11, &V4), Ok(Some("192.0.2.7:4660"))),
            (
                summed(0x21, 0x21, &[v6("2001:db8::7"), tlv(0x05, b"id")].concat()),
                Ok(Some("[2001:db8::7]:4660")),
            ),
            (v2(0x20, 0x00, b""), Ok(None)),
            (v2(0x20, 0x11, &V4), Ok(None)),
            (v2(0x20, 0x77, b"whatever"), Ok(None)),
            (v2(0x21, 0x00, b""), Ok(None)),
            (v2(0x21, 0x00, &[0xff; 520]), Ok(None)),
            (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), Err(Error::NotAHeader)),
            (b"\r\n\r\nGET".to_vec(), Err(Error::NotAHeader)),
            (v2(0x11, 0x11, &V4), Err(Error::Command(0x11))),
            (v2(0x22, 0x11, &V4), Err(Error::Command(0x22))),
            (v2(0x21, 0x12, &V4), Err(Error::Family(0x12))),
            (v2(0x21, 0x22, &v6("::1")), Err(Error::Family(0x22))),
            (v2(0x21, 0x31, &[0; 216]), Err(Error::Family(0x31))),
            (v2(0x21, 0x10, &V4), Err(Error::Family(0x10))),
            (v2(0x21, 0x41, &V4), Err(Error::Family(0x41))),
            (v2(0x21, 0x11, &V4[..11]), Err(Error::TooShort(11))),
            (v2(0x21, 0x21, &V4), Err(Error::TooShort(12))),
            (v2(0x21, 0x11, b""), Err(Error::TooShort(0))),
            (v2(0x21, 0x11, &[0; 521]), Err(Error::TooLong(537))),
            (v2(0x20, 0x00, &[0; 65_535]), Err(Error::TooLong(65_551))),
            (v2(0x21, 0x11, &[&V4[..], b"\x04"].concat()), Err(Error::Extension)),
            (v2(0x21, 0x11, &[&V4[..], b"\x04\0"].concat()), Err(Error::Extension)),
            (v2(0x21, 0x11, &[&V4[..], b"\x04\0\x02x"].concat()), Err(Error::Extension)),
            (v2(0x21, 0x11, &[&V4[..], b"\x04\xff\xff"].concat()), Err(Error::Extension)),
            (v2(0x21, 0x11, &[&V4[..], &tlv(TLV_CRC32C, b"abcd")].concat()), Err(Error::Checksum)),
            (v2(0x21, 0x11, &[&V4[..], &tlv(TLV_CRC32C, b"abc")].concat()), Err(Error::Checksum)),
            (v2(0x21, 0x11, &[&V4[..], &tlv(TLV_CRC32C, b"")].concat()), Err(Error::Checksum)),
        ] {
            check(&header, expected);
        }
        // The test vector of RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    /// A checksum guards every bit of the header.
    #[test]
    fn a_flipped_bit_under_a_checksum_is_found() {
        let whole = summed(0x21, 0x11, &[&V4[..], &tlv(0x02, b"a")].concat());
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Without its checksum, or as a word of the proxy for itself, nothing guards it.
            let unguarded = matches!(bit / 8, 12 | 13) || bit / 8 == whole.len() - 7;
            let read = parse(&flipped);
            assert!(unguarded || !matches!(read, Ok(Some(_))), "bit {bit}: {read:?}");
        }
    }

    proptest! {
        /// Whatever comes in: no panic, never a decision that more bytes would change, never more bytes than allowed.
        #[test]
        fn an_answer_stands_whatever_follows(
            start in prop_oneof![
                Just(Vec::new()), Just(V1_PREFIX.to_vec()), Just(b"PROXY TCP4 1.2.3.4 ".to_vec()),
                Just(V2_SIGNATURE.to_vec()), Just(v2(0x21, 0x11, b"")[..14].to_vec()),
                Just(v2(0x21, 0x11, &V4)), Just(v2(0x21, 0x21, &[0; 60])),
            ],
            rest in proptest::collection::vec(any::<u8>(), 0..600),
            cut in 0_usize..700,
        ) {
            let bytes = [start, rest].concat();
            let whole = parse(&bytes);
            match parse(&bytes[..cut.min(bytes.len())]) {
                Ok(None) => {}
                decided => prop_assert_eq!(decided, whole),
            }
            match whole {
                Ok(Some((_, consumed))) => {
                    prop_assert!(consumed <= bytes.len().min(HEADER_BYTES_MAX));
                    prop_assert_eq!(parse(&bytes[..consumed]), whole);
                    prop_assert_eq!(parse(&bytes[..consumed - 1]), Ok(None));
                }
                Ok(None) => prop_assert!(bytes.len() < HEADER_BYTES_MAX),
                Err(_) => {}
            }
        }

        /// What a proxy would write is read back.
        #[test]
        fn every_address_is_read_back(source: SocketAddr, other: [u8; 16], text: bool) {
            let port = source.port();
            let header = match (source.ip(), text) {
                (IpAddr::V4(ip), true) => format!("PROXY TCP4 {ip} 127.0.0.1 {port} 80\r\n").into_bytes(),
                (IpAddr::V6(ip), true) => format!("PROXY TCP6 {ip} ::1 {port} 80\r\n").into_bytes(),
                (IpAddr::V4(ip), false) => {
                    summed(0x21, 0x11, &[&ip.octets()[..], &other[..4], &port.to_be_bytes(), &[0, 80]].concat())
                }
                (IpAddr::V6(ip), false) => {
                    summed(0x21, 0x21, &[&ip.octets()[..], &other, &port.to_be_bytes(), &[0, 80]].concat())
                }
            };
            let source = Some(canonical(source.ip(), port));
            prop_assert_eq!(parse(&header), Ok(Some((Header { source }, header.len()))));
        }
    }
}
