//! The opening handshake, request by request.

use crate::websocket::handshake::{Accepted, HandshakeError, Policy, accept};

const POLICY: Policy = Policy { deflate: true, subprotocols: &["danmaku.v1.json", "danmaku.v1.proto"] };

/// The request of RFC 6455 §1.3.
const GOOD: [(&str, &str); 5] = [
    ("host", "server.example.com"),
    ("upgrade", "websocket"),
    ("connection", "Upgrade"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-version", "13"),
];

/// The good request without the fields that `with` names, and with `with`; an empty value only removes.
fn answer(with: &[(&str, &str)]) -> Result<Accepted, HandshakeError> {
    let kept =
        GOOD.iter().filter(|(name, _)| with.iter().all(|(other, _)| !name.eq_ignore_ascii_case(other)));
    let added = with.iter().filter(|(_, value)| !value.is_empty());
    let headers: Vec<(&str, &[u8])> =
        kept.chain(added).map(|(name, value)| (*name, value.as_bytes())).collect();
    accept("GET", true, headers.iter().copied(), &POLICY)
}

fn head(accepted: &Accepted) -> String {
    let mut out = Vec::new();
    accepted.write_response(&mut out);
    String::from_utf8(out).expect("an HTTP head is ASCII")
}

/// `accept` and `write_response`: the RFC's own example, byte for byte.
#[test]
fn the_example_of_the_rfc_is_answered_as_there() {
    let accepted = answer(&[]).expect("the RFC's request is right");
    assert_eq!(accepted.key, *b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(
        head(&accepted),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    );
    let full = answer(&[
        ("sec-websocket-protocol", "danmaku.v1.proto"),
        ("sec-websocket-extensions", "permessage-deflate; server_max_window_bits=15"),
    ])
    .expect("both offers can be met");
    assert!(head(&full).ends_with(
        "=\r\nSec-WebSocket-Protocol: danmaku.v1.proto\r\nSec-WebSocket-Extensions: permessage-deflate; \
         server_no_context_takeover; client_no_context_takeover; server_max_window_bits=15\r\n\r\n"
    ));
}

/// `accept`: spellings that real clients and proxies use.
#[test]
fn other_spellings_of_a_good_request_are_accepted() {
    for with in [
        [("Upgrade", "WebSocket")].as_slice(),
        &[("UPGRADE", "h2c, websocket")],
        &[("connection", "keep-alive, Upgrade")],
        &[("connection", "keep-alive"), ("connection", "upgrade")],
        &[("Sec-WebSocket-Version", " 13 ")],
        &[("sec-websocket-key", " dGhlIHNhbXBsZSBub25jZQ== ")],
        &[("sec-websocket-key", "//////////////////////==")],
        &[("origin", "https://anywhere.example")],
    ] {
        assert!(answer(with).is_ok(), "{with:?}");
    }
}

/// `accept`: each missing or wrong part has its own error and status.
#[test]
fn requests_that_are_no_handshake_are_refused() {
    let too_long = format!("danmaku.auth.{}", "YWFh".repeat(1400));
    for (with, error, status) in [
        ([("host", "")].as_slice(), HandshakeError::Host, 400),
        (&[("host", "a"), ("host", "b")], HandshakeError::Host, 400),
        (&[("upgrade", "")], HandshakeError::Upgrade, 426),
        (&[("upgrade", "h2c")], HandshakeError::Upgrade, 426),
        (&[("upgrade", "websockets")], HandshakeError::Upgrade, 426),
        (&[("connection", "")], HandshakeError::Connection, 400),
        (&[("connection", "keep-alive")], HandshakeError::Connection, 400),
        (&[("sec-websocket-version", "")], HandshakeError::Version, 426),
        (&[("sec-websocket-version", "8")], HandshakeError::Version, 426),
        (&[("sec-websocket-version", "13, 8")], HandshakeError::Version, 426),
        (&[("sec-websocket-version", "13"), ("sec-websocket-version", "8")], HandshakeError::Version, 426),
        (&[("sec-websocket-key", "")], HandshakeError::Key, 400),
        (&[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ")], HandshakeError::Key, 400),
        (&[("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZTEy")], HandshakeError::Key, 400),
        (&[("sec-websocket-key", "dGhlIHNhbXBsZSBub25j*Q==")], HandshakeError::Key, 400),
        (&[("sec-websocket-protocol", "a b")], HandshakeError::Subprotocols, 400),
        (&[("sec-websocket-protocol", "danmaku.auth.")], HandshakeError::AuthToken, 400),
        (&[("sec-websocket-protocol", "danmaku.auth.a+b")], HandshakeError::AuthToken, 400),
        (&[("sec-websocket-protocol", "danmaku.auth._w")], HandshakeError::AuthToken, 400),
        (&[("sec-websocket-protocol", "danmaku.auth.YQ, danmaku.auth.Yg")], HandshakeError::AuthToken, 400),
        (&[("sec-websocket-protocol", too_long.as_str())], HandshakeError::AuthToken, 400),
        (&[("sec-websocket-extensions", "permessage-deflate;")], HandshakeError::Extensions, 400),
    ] {
        assert_eq!(answer(with), Err(error), "{with:?}");
        assert_eq!(error.status(), status, "{error}");
    }
    let headers = || GOOD.iter().map(|(name, value)| (*name, value.as_bytes()));
    assert_eq!(accept("POST", true, headers(), &POLICY), Err(HandshakeError::Method));
    assert_eq!(accept("get", true, headers(), &POLICY), Err(HandshakeError::Method));
    assert_eq!(accept("GET", false, headers(), &POLICY), Err(HandshakeError::HttpVersion));
}

/// `HandshakeError::headers`: RFC 6455 §4.4 and RFC 9110 §15.5.6, §15.5.22.
#[test]
fn refusals_say_in_their_headers_what_would_be_right() {
    let names = |error: HandshakeError| error.headers().to_vec();
    assert_eq!(names(HandshakeError::Method), [("Allow", "GET")]);
    for error in [HandshakeError::Version, HandshakeError::Upgrade] {
        assert!(names(error).contains(&("Sec-WebSocket-Version", "13")));
        assert!(names(error).contains(&("Upgrade", "websocket")));
    }
    assert_eq!(names(HandshakeError::Key), []);
}

/// `accept`: the client's first choice that is spoken here; a token is handed on and never shown.
#[test]
fn subprotocols_are_chosen_and_tokens_kept_secret() {
    for (offers, subprotocol, token) in [
        ([].as_slice(), None, None),
        (&["chat"], None, None),
        (&["danmaku.v1.json"], Some("danmaku.v1.json"), None),
        (&["danmaku.v1.proto, danmaku.v1.json"], Some("danmaku.v1.proto"), None),
        (&["chat", "danmaku.v1.json"], Some("danmaku.v1.json"), None),
        (&["Danmaku.v1.json"], None, None),
        (&[" , danmaku.v1.json,"], Some("danmaku.v1.json"), None),
        (&["danmaku.auth.YS5iLmM"], None, Some("a.b.c")),
        (&["danmaku.v1.json, danmaku.auth.YS5iLmM"], Some("danmaku.v1.json"), Some("a.b.c")),
        (&["danmaku.auth.8J-YgD8_", "danmaku.v1.proto"], Some("danmaku.v1.proto"), Some("😀??")),
    ] {
        let with: Vec<(&str, &str)> = offers.iter().map(|offer| ("sec-websocket-protocol", *offer)).collect();
        let accepted = answer(&with).expect("an offer that cannot be met is no error");
        assert_eq!(accepted.subprotocol, subprotocol, "{offers:?}");
        assert_eq!(accepted.auth_token.as_deref(), token, "{offers:?}");
        assert!(!head(&accepted).contains("auth"), "{offers:?}");
        assert!(token.is_none_or(|token| !format!("{accepted:?}").contains(token)), "{offers:?}");
    }
}

/// `accept`: deflate is left out for the Safaris that cannot do it, and where the policy says so.
#[test]
fn deflate_is_declined_where_it_does_harm() {
    let apple = "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko)";
    for (agent, agreed) in [
        (format!("{apple} Version/15.0 Safari/605.1.15"), false),
        (format!("{apple} Version/15.2 Mobile/15E148 Safari/604.1"), false),
        (format!("{apple} Version/15.3.1 Safari/605.1.15"), false),
        (format!("{apple} Version/15.4 Safari/605.1.15"), true),
        (format!("{apple} Version/15.10 Safari/605.1.15"), true),
        (format!("{apple} Version/14.1 Safari/605.1.15"), true),
        (format!("{apple} Version/15.1 Chrome/99.0.4844.51 Safari/537.36"), true),
        (format!("{apple} Chrome/120.0.0.0 Safari/537.36"), true),
        ("Version/15.1".to_owned(), true),
        ("Version/15.".to_owned(), true),
        ("python-websockets".to_owned(), true),
    ] {
        let offer = ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits");
        let accepted = answer(&[offer, ("user-agent", &agent)]).expect("a user agent is no fault");
        assert_eq!(accepted.deflate.is_some(), agreed, "{agent}");
    }
    let offer = ("sec-websocket-extensions", b"permessage-deflate".as_slice());
    let headers = GOOD.iter().map(|(name, value)| (*name, value.as_bytes())).chain([offer]);
    let unwilling = Policy { deflate: false, ..POLICY };
    let accepted = accept("GET", true, headers, &unwilling).expect("declining is no fault");
    assert_eq!(accepted.deflate, None);
}
