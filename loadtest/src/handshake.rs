//! The client's side of the opening handshake (RFC 6455 §4.1), with or without an offer of
//! permessage-deflate (RFC 7692 §7.1).

use std::net::SocketAddr;

/// The key of RFC 6455 §1.3. One key for all: nothing here is secret, and its answer is known.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// The answer to [`KEY`] (RFC 6455 §1.3).
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// The longest response head taken.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another status than 101.
    #[error("the server answered the handshake with {0:?}")]
    Status(Box<str>),
    /// The accept header is missing or answers another key.
    #[error("the server's Sec-WebSocket-Accept is wrong or missing")]
    Accept,
    /// An extension that was not offered, or a compressor that keeps its context: then no frame could be
    /// shared between connections, and none could be inflated alone.
    #[error("the server chose the extension {0:?}")]
    Extension(Box<str>),
    /// No end of the head.
    #[error("the head of the server's response is longer than 16 KiB")]
    TooLong,
}

/// What the server agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Bytes of the response.
    pub used: usize,
    /// Whether messages may come compressed.
    pub deflate: bool,
}

/// The request for `path`.
pub fn request(host: SocketAddr, path: &str, deflate: bool) -> Vec<u8> {
    let offer = if deflate {
        "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"
    } else {
        ""
    };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: danmaku.v1.json\r\n\
         {offer}\r\n"
    )
    .into_bytes()
}

/// Reads the response; `None` while its head is incomplete.
///
/// # Errors
/// When the server did not upgrade, or to something that was not asked for.
pub fn response(bytes: &[u8], offered: bool) -> Result<Option<Agreed>, Refused> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(Refused::TooLong) } else { Ok(None) };
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("101") {
        return Err(Refused::Status(status.into()));
    }
    let (mut accepted, mut deflate) = (false, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("sec-websocket-accept") {
            accepted = value == ACCEPT;
        } else if name.eq_ignore_ascii_case("sec-websocket-extensions") {
            let mut parts = value.split(';').map(str::trim);
            deflate = parts.next() == Some("permessage-deflate");
            if !offered || !deflate || !parts.any(|part| part == "server_no_context_takeover") {
                return Err(Refused::Extension(value.into()));
            }
        }
    }
    if accepted { Ok(Some(Agreed { used: end + 4, deflate })) } else { Err(Refused::Accept) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPGRADED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                            sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    /// `response`: incomplete at every cut, then agreed, with what follows left alone.
    #[test]
    fn the_response_is_taken_whole_and_no_further() {
        let head = format!("{UPGRADED}\r\n");
        for cut in 0..head.len() {
            assert_eq!(response(&head.as_bytes()[..cut], true), Ok(None), "cut at {cut}");
        }
        let agreed = response(format!("{head}\x00\x01").as_bytes(), true);
        assert_eq!(agreed, Ok(Some(Agreed { used: head.len(), deflate: false })));
    }

    /// `response`: what was not asked for is refused.
    #[test]
    fn only_what_was_offered_is_taken() {
        let check = |head: &str, offered, expected: Result<bool, Refused>| {
            let got = response(head.as_bytes(), offered).map(|agreed| agreed.expect("complete").deflate);
            assert_eq!(got, expected, "{head}");
        };
        let with = |extension: &str| format!("{UPGRADED}Sec-WebSocket-Extensions: {extension}\r\n\r\n");
        let good = "permessage-deflate; server_no_context_takeover";
        check(&with(good), true, Ok(true));
        check(&with(good), false, Err(Refused::Extension(good.into())));
        check(&with("permessage-deflate"), true, Err(Refused::Extension("permessage-deflate".into())));
        check("HTTP/1.1 503 Busy\r\n\r\n", true, Err(Refused::Status("HTTP/1.1 503 Busy".into())));
        check("HTTP/1.1 101 Fine\r\n\r\n", true, Err(Refused::Accept));
    }
}
