//! A handshake's header values: no panic, and an answer that keeps to what was offered.
//!
//! Input: three header values, separated by line feeds: extensions, subprotocols, user agent.

#![no_main]

use danmaku_wire::websocket::handshake::{Policy, accept};
use libfuzzer_sys::fuzz_target;

const POLICY: Policy = Policy { deflate: true, subprotocols: &["danmaku.v1.json", "danmaku.v1.proto"] };

fuzz_target!(|data: &[u8]| {
    let mut values = data.split(|byte| *byte == b'\n');
    let mut value = || values.next().unwrap_or_default();
    let (extensions, subprotocols, agent) = (value(), value(), value());
    let headers = [
        ("host", b"a".as_slice()),
        ("upgrade", b"websocket"),
        ("connection", b"upgrade"),
        ("sec-websocket-version", b"13"),
        ("sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-extensions", extensions),
        ("sec-websocket-protocol", subprotocols),
        ("user-agent", agent),
    ];
    let Ok(accepted) = accept("GET", true, headers.into_iter(), &POLICY) else { return };
    let mut head = Vec::new();
    accepted.write_response(&mut head);
    let head = str::from_utf8(&head).expect("the head is ASCII");
    assert!(head.ends_with("\r\n\r\n") && head.matches("\r\n\r\n").count() == 1);
    // No more lines than the parts that were agreed: nothing of the request gets into the answer.
    let agreed = usize::from(accepted.subprotocol.is_some()) + usize::from(accepted.deflate.is_some());
    assert_eq!(head.lines().count(), 5 + agreed);
    let contains = |haystack: &[u8], needle: &[u8]| haystack.windows(needle.len()).any(|w| w == needle);
    if let Some(subprotocol) = accepted.subprotocol {
        assert!(contains(subprotocols, subprotocol.as_bytes()));
    }
    if let Some(deflate) = accepted.deflate {
        assert!(contains(extensions, b"permessage-deflate"));
        assert!(!deflate.repeats_window_bits || contains(extensions, b"server_max_window_bits"));
    }
});
