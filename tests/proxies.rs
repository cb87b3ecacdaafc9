//! Who is calling when proxies stand in between: whose word counts, and what comes of it.

#[path = "support/exchange.rs"]
mod exchange;
mod support;

use std::net::{SocketAddr, TcpStream};

use exchange::Exchange;
use support::Server;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const REFUSED: &str = "danmaku_proxy_headers_refused_total";

/// A handshake with more header lines.
fn handshake(query: &str, headers: &str) -> String {
    format!("GET /ws?room=r1{query} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}{headers}\r\n")
}

/// The status of the answer to these bytes; 0 where there is none.
fn status(address: SocketAddr, bytes: impl AsRef<[u8]>) -> u16 {
    let mut exchange = Exchange::new(address);
    exchange.send(bytes);
    exchange.answer_to("GET").map_or(0, |answer| answer.status)
}

/// A header of version 2: the command, and an IPv4 address that it speaks for.
fn v2(command: u8, source: [u8; 4]) -> Vec<u8> {
    let addresses = [&source[..], &[127, 0, 0, 1], &[0x12, 0x34], &[0, 80]].concat();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, 0x11, 0, 12][..], &addresses].concat()
}

/// `server.proxy_protocol = "required"`: a request is answered behind a header, and behind nothing else.
#[test]
fn a_connection_without_its_proxy_header_is_closed() {
    let env = [
        ("DANMAKU__SERVER__PROXY_PROTOCOL", "required"),
        ("DANMAKU__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]"),
    ];
    let server = Server::start_with(&["--workers", "1"], &env);
    let ask = handshake("", "").into_bytes();
    let line = |text: &str| [text.as_bytes(), &ask].concat();
    for (bytes, expected) in [
        (line("PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n"), 101),
        (line("PROXY TCP6 2001:db8::7 ::1 4711 80\r\n"), 101),
        (line("PROXY UNKNOWN\r\n"), 101),
        ([v2(0x21, [192, 0, 2, 7]), ask.clone()].concat(), 101),
        ([v2(0x20, [0; 4]), ask.clone()].concat(), 101),
    ] {
        assert_eq!(status(server.address, &bytes), expected, "{:?}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(server.metric(REFUSED), 0);
    let mut wrong = v2(0x21, [192, 0, 2, 7]);
    wrong[13] = 0x12;
    let refused = [
        ask.clone(),
        line("PROXY TCP4 192.0.2.7 127.0.0.1 4711\r\n"),
        line(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(100))),
        [wrong, ask.clone()].concat(),
        b"\x16\x03\x01\x02\x00\x01".to_vec(),
    ];
    for (count, bytes) in (1..).zip(&refused) {
        let mut exchange = Exchange::new(server.address);
        exchange.send(bytes).closed();
        assert_eq!(server.metric(REFUSED), count, "{:?}", String::from_utf8_lossy(bytes));
    }
    // A header in pieces is a header; one that never ends, or breaks off, is none.
    let mut exchange = Exchange::new(server.address);
    for byte in line("PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n") {
        exchange.send([byte]);
    }
    assert_eq!(exchange.answer().status, 101);
    let cut = TcpStream::connect(server.address).expect("connected");
    cut.shutdown(std::net::Shutdown::Write).expect("shut");
    support::until("a connection that says nothing is counted", || {
        server.metric(REFUSED) == refused.len() as u64 + 1
    });
}

/// `server.proxy_header_within`: a header that does not come ends the connection.
#[test]
fn a_proxy_header_that_is_late_ends_the_connection() {
    let env = [
        ("DANMAKU__SERVER__PROXY_PROTOCOL", "required"),
        ("DANMAKU__SERVER__TRUSTED_PROXIES", "[\"127.0.0.0/8\"]"),
        ("DANMAKU__SERVER__PROXY_HEADER_WITHIN", "100ms"),
    ];
    let server = Server::start_with(&["--workers", "1"], &env);
    Exchange::new(server.address).closed();
    Exchange::new(server.address).send("PROXY TCP4 192.0.2.7 ").closed();
    assert_eq!((server.metric(REFUSED), server.met("proxy_header")), (2, 2));
}

/// A header from somebody who is no trusted proxy is nobody's; where none is spoken, one is no request.
#[test]
fn a_proxy_header_of_a_stranger_is_not_taken() {
    let line = format!("PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n{}", handshake("", ""));
    let env = [
        ("DANMAKU__SERVER__PROXY_PROTOCOL", "required"),
        ("DANMAKU__SERVER__TRUSTED_PROXIES", "[\"10.0.0.0/8\"]"),
    ];
    let server = Server::start_with(&["--workers", "1"], &env);
    Exchange::new(server.address).send(&line).closed();
    assert_eq!(server.metric(REFUSED), 1);
    let off = Server::start(&["--workers", "1"]);
    assert_eq!(status(off.address, &line), 400);
    assert_eq!(off.metric(REFUSED), 0);
}

/// The full stream is for this machine: nobody gets it through a proxy, listed or not, header or not.
#[test]
fn a_proxy_on_this_machine_makes_nobody_local() {
    let full = |headers: &str| handshake("&tier=full", headers);
    let plain = Server::start(&["--workers", "1"]);
    let listed = [("DANMAKU__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\", \"::1\"]")];
    let trusting = Server::start_with(&["--workers", "1"], &listed);
    for server in [&plain, &trusting] {
        assert_eq!(status(server.address, full("")), 101);
        for field in ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Proto"] {
            for value in ["for=127.0.0.1", "127.0.0.1", "unknown", ""] {
                let headers = format!("{field}: {value}\r\n");
                let mut exchange = Exchange::new(server.address);
                let answer = exchange.send(full(&headers)).answer();
                assert_eq!((answer.status, &*answer.code()), (403, "forbidden"), "{headers}");
                assert_eq!(status(server.address, handshake("", &headers)), 101, "{headers}");
            }
        }
    }
    // Who put the proxy there is told once what to set.
    let told = |server: &Server| server.log().matches("server.trusted_proxies").count();
    assert_eq!((told(&plain), told(&trusting)), (1, 0), "{}", plain.log());
    let env = [listed[0], ("DANMAKU__SERVER__PROXY_PROTOCOL", "required")];
    let announced = Server::start_with(&["--workers", "1"], &env);
    for line in ["PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", "PROXY UNKNOWN\r\n"] {
        assert_eq!(status(announced.address, format!("{line}{}", full(""))), 403, "{line}");
        assert_eq!(status(announced.address, format!("{line}{}", handshake("", ""))), 101, "{line}");
    }
}

/// The Origin check behind a proxy that ends TLS: an own page is one of the scheme that the caller speaks.
#[test]
fn a_page_of_the_own_address_is_one_of_the_forwarded_scheme() {
    let hosts = ("DANMAKU__HTTP__HOSTS", "[\"live.example\"]");
    let trusting = [hosts, ("DANMAKU__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")];
    let trusting = Server::start_with(&["--workers", "1"], &trusting);
    let plain = Server::start_with(&["--workers", "1"], &[hosts]);
    for (server, origin, headers, expected) in [
        (&trusting, "https://live.example", "X-Forwarded-Proto: https\r\n", 101),
        (&trusting, "https://live.example", "Forwarded: for=192.0.2.7;proto=https\r\n", 101),
        (&trusting, "http://live.example", "X-Forwarded-Proto: https\r\n", 403),
        (&trusting, "https://live.example", "X-Forwarded-Proto: http\r\n", 403),
        (&trusting, "http://live.example", "X-Forwarded-Proto: http\r\n", 101),
        (&trusting, "https://live.example", "X-Forwarded-For: 192.0.2.7\r\n", 101),
        (
            &trusting,
            "https://evil.example",
            "X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\n",
            403,
        ),
        // Nobody's word: either scheme, as before.
        (&plain, "http://live.example", "X-Forwarded-Proto: https\r\n", 101),
        (&plain, "https://live.example", "", 101),
    ] {
        let ask = format!(
            "GET /ws?room=r1 HTTP/1.1\r\nHost: live.example\r\nOrigin: {origin}\r\n{UPGRADE}{headers}\r\n"
        );
        assert_eq!(status(server.address, &ask), expected, "{origin} {headers}");
    }
}

/// `server.proxy_protocol = "required"` without a proxy to trust would shut everybody out: it is refused at the start.
#[test]
fn a_required_header_that_nobody_may_send_is_refused_at_the_start() {
    for (proxies, words) in [
        ("[]", "server.trusted_proxies"),
        ("[\"10.0.0.1/8\"]", "10.0.0.0/8"),
        ("[\"proxy.example\"]", "is no IP address"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_danmaku"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .env("DANMAKU__SERVER__PROXY_PROTOCOL", "required")
            .env("DANMAKU__SERVER__TRUSTED_PROXIES", proxies)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{proxies}: {said}");
        assert!(said.contains(words), "{proxies}: {said}");
    }
}
