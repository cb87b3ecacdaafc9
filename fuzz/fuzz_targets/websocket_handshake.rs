//! A hostile upgrade request: no panic, an answer that another implementation takes, agreement with
//! tungstenite on what a handshake is, and no refusal that names no reason of RFC 6455.
//!
//! Input: a byte of flags (bit 0: deflate is willing, bit 1: HTTP/1.0), a method's line and header lines as
//! they stand in a request, without its end.

#![no_main]

use danmaku_wire::websocket::handshake::{Accepted, HandshakeError, Policy, accept};
use libfuzzer_sys::fuzz_target;
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::server::create_response;
use tungstenite::http;

const SUBPROTOCOLS: &[&str] = &["danmaku.v1.json", "danmaku.v1.proto"];
const HEADERS_MAX: usize = 100;

fuzz_target!(|data: &[u8]| {
    let [flags, data @ ..] = data else { return };
    let line_end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (method, lines) = data.split_at(line_end);
    let version = if flags & 2 == 0 { "1.1" } else { "1.0" };
    let head = [method, b" /ws HTTP/", version.as_bytes(), b"\r\n", lines.trim_ascii(), b"\r\n\r\n"].concat();
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    // What is no HTTP does not come as far as the handshake.
    let Ok(httparse::Status::Complete(_)) = request.parse(&head) else { return };
    let Some(method) = request.method else { return };
    let policy = Policy { deflate: flags & 1 != 0, subprotocols: SUBPROTOCOLS };
    let fields = request.headers.iter().map(|header| (header.name, header.value));
    let accepted = accept(method, flags & 2 == 0, fields, &policy);
    let other = other_opinion(method, flags & 2 == 0, request.headers);
    match &accepted {
        Ok(accepted) => {
            check_answer(accepted, request.headers, &policy);
            if let Some(Ok(key)) = other {
                assert_eq!(key.as_bytes(), accepted.key);
            }
        }
        Err(why) => check_refusal(*why, other.is_some_and(|other| other.is_ok()), request.headers),
    }
});

fn values<'h>(headers: &'h [httparse::Header<'_>], name: &str) -> Vec<&'h [u8]> {
    headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.trim_ascii()).collect()
}

/// What tungstenite makes of the request: the answer's key, or that it is no handshake. `None` where it
/// cannot be asked.
fn other_opinion(
    method: &str,
    http11: bool,
    headers: &[httparse::Header<'_>],
) -> Option<Result<String, String>> {
    let version = if http11 { http::Version::HTTP_11 } else { http::Version::HTTP_10 };
    let mut request = http::Request::builder().method(method).uri("/ws").version(version);
    for header in headers {
        request = request.header(header.name, header.value);
    }
    let request = request.body(()).ok()?;
    let answer = create_response(&request).map_err(|why| why.to_string());
    Some(
        answer
            .map(|response| response.headers()["sec-websocket-accept"].to_str().expect("base64").to_owned()),
    )
}

fn check_answer(accepted: &Accepted, headers: &[httparse::Header<'_>], policy: &Policy) {
    let one = |name| match values(headers, name)[..] {
        [value] => value,
        ref values => panic!("one {name}, not {values:?}"),
    };
    one("host");
    assert_eq!(one("sec-websocket-version"), b"13");
    assert_eq!(derive_accept_key(one("sec-websocket-key")).as_bytes(), accepted.key);

    let mut answer = Vec::new();
    accepted.write_response(&mut answer);
    let mut fields = [httparse::EMPTY_HEADER; 8];
    let mut response = httparse::Response::new(&mut fields);
    assert_eq!(response.parse(&answer), Ok(httparse::Status::Complete(answer.len())));
    assert_eq!(response.code, Some(101));
    let agreed = usize::from(accepted.subprotocol.is_some()) + usize::from(accepted.deflate.is_some());
    assert_eq!(response.headers.len(), 3 + agreed, "nothing of the request gets into the answer");
    let field = |name| match values(response.headers, name)[..] {
        [value] => Some(value),
        [] => None,
        ref values => panic!("{name} stands {} times in the answer", values.len()),
    };
    assert_eq!(field("upgrade"), Some(b"websocket".as_slice()));
    assert_eq!(field("connection"), Some(b"Upgrade".as_slice()));
    assert_eq!(field("sec-websocket-accept"), Some(accepted.key.as_slice()));
    assert_eq!(field("sec-websocket-protocol"), accepted.subprotocol.map(str::as_bytes));
    check_subprotocol(accepted, headers);

    let extensions = field("sec-websocket-extensions");
    assert_eq!(extensions.is_some(), accepted.deflate.is_some());
    assert!(policy.deflate || accepted.deflate.is_none());
    if let Some(deflate) = accepted.deflate {
        let offered = values(headers, "sec-websocket-extensions").join(&b","[..]);
        let contains = |needle: &[u8]| offered.windows(needle.len()).any(|w| w == needle);
        assert!(contains(b"permessage-deflate"));
        assert!(!deflate.repeats_window_bits || contains(b"server_max_window_bits"));
    }
    let printed = format!("{accepted:?}");
    assert!(accepted.auth_token.as_ref().is_none_or(|token| token.len() < 16 || !printed.contains(token)));
}

/// The first of the client's that is spoken here; a token beside it.
fn check_subprotocol(accepted: &Accepted, headers: &[httparse::Header<'_>]) {
    let offered = values(headers, "sec-websocket-protocol").join(&b","[..]);
    let offered = offered.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let spoken =
        offered.clone().find_map(|name| SUBPROTOCOLS.iter().find(|spoken| spoken.as_bytes() == name));
    assert_eq!(accepted.subprotocol, spoken.copied());
    let tokens = offered.filter(|name| name.starts_with(b"danmaku.auth.")).count();
    assert_eq!(tokens, usize::from(accepted.auth_token.is_some()));
}

/// A refusal has its reason in the request, also where tungstenite, which looks at less, would go on.
fn check_refusal(why: HandshakeError, other_accepts: bool, headers: &[httparse::Header<'_>]) {
    let count = |name| values(headers, name).len();
    match why {
        HandshakeError::Method | HandshakeError::HttpVersion | HandshakeError::Upgrade => {
            assert!(!other_accepts, "{why}")
        }
        // To tungstenite a space parts two options too; by RFC 9110, section 5.6.1, a comma alone does.
        HandshakeError::Connection => {
            let spaced = |value: &[u8]| value.split(|b| *b == b',').any(|o| o.trim_ascii().contains(&b' '));
            let excused = values(headers, "connection").into_iter().any(spaced);
            assert!(!other_accepts || excused, "{why}");
        }
        HandshakeError::Host => assert_ne!(count("host"), 1),
        HandshakeError::Version => assert!(!other_accepts || count("sec-websocket-version") > 1, "{why}"),
        HandshakeError::Key => assert!(!other_accepts || count("sec-websocket-key") > 1, "{why}"),
        HandshakeError::Subprotocols | HandshakeError::AuthToken => {
            assert_ne!(count("sec-websocket-protocol"), 0);
        }
        HandshakeError::Extensions => assert_ne!(count("sec-websocket-extensions"), 0),
    }
    assert!(matches!(why.status(), 400 | 405 | 426));
}
