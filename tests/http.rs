//! What the port answers over HTTP: to whom it opens, and what it refuses and how.

#[path = "support/exchange.rs"]
mod exchange;
mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use exchange::Exchange;
use support::Server;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Sends bytes as they are and reads until the server closes or has answered with a head that opens a stream.
fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(server.address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    // The server may answer and close before it has read everything.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match socket.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(n) => answer.extend_from_slice(&chunk[..n]),
        }
        let text = String::from_utf8_lossy(&answer);
        let opens = text.starts_with("HTTP/1.1 101") || text.contains("text/event-stream");
        if opens && text.contains("\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A request with these header lines, its Host left to them.
fn request(line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\n{headers}\r\n")
}

/// The gate: by which name the server may be called, and which pages may connect.
#[test]
fn only_own_pages_connect_and_only_to_a_name_of_loopback() {
    let plain = Server::start(&["--workers", "1"]);
    let listed = Server::start_with(
        &["--workers", "1"],
        &[
            ("DANMAKU__HTTP__ORIGINS", "[\"https://live.example\"]"),
            ("DANMAKU__HTTP__HOSTS", "[\"chat.example\"]"),
        ],
    );
    let port = plain.address.port();
    let own = format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n");
    let events = "GET /api/v1/rooms/r1/events";
    for (server, line, headers, expected, code) in [
        (&plain, "GET /ws?room=r1", format!("Host: localhost\r\n{UPGRADE}"), 101, ""),
        (&plain, "GET /ws?room=r1", format!("Host: [::1]:80\r\n{UPGRADE}"), 101, ""),
        (&plain, "GET /ws?room=r1", format!("{own}{UPGRADE}"), 101, ""),
        (&plain, events, own.clone(), 200, "text/event-stream"),
        // A name that was made to point here.
        (&plain, "GET /ws?room=r1", format!("Host: evil.example\r\n{UPGRADE}"), 403, "host_not_allowed"),
        (&plain, "GET /", "Host: evil.example\r\n".into(), 403, "host_not_allowed"),
        (&plain, events, "Host: evil.example\r\n".into(), 403, "host_not_allowed"),
        // A page of somebody else.
        (
            &plain,
            "GET /ws?room=r1",
            format!("Host: localhost\r\nOrigin: https://evil.example\r\n{UPGRADE}"),
            403,
            "origin_not_allowed",
        ),
        (&plain, events, "Host: localhost\r\nOrigin: null\r\n".into(), 403, "origin_not_allowed"),
        (
            &plain,
            "OPTIONS /api/v1/rooms/r1/events",
            "Host: localhost\r\nOrigin: null\r\n".into(),
            403,
            "origin_not",
        ),
        // What is on the lists.
        (
            &listed,
            "GET /ws?room=r1",
            format!("Host: chat.example\r\nOrigin: https://live.example\r\n{UPGRADE}"),
            101,
            "",
        ),
        (
            &listed,
            events,
            "Host: chat.example:443\r\nOrigin: https://live.example\r\n".into(),
            200,
            "Access-Control-Allow-Origin: https://live.example\r\n",
        ),
        (
            &listed,
            "OPTIONS /api/v1/rooms/r1/events",
            "Host: chat.example\r\nOrigin: https://live.example\r\n".into(),
            204,
            "access-control-allow-headers: authorization, content-type, idempotency-key, last-event-id",
        ),
        (
            &listed,
            "GET /ws?room=r1",
            format!("Host: chat.example\r\nOrigin: http://live.example\r\n{UPGRADE}"),
            403,
            "origin_not_allowed",
        ),
    ] {
        let answer = exchange(server, request(line, &headers).as_bytes());
        assert_eq!(status(&answer), expected, "{line} {headers}: {answer}");
        assert!(answer.contains(code), "{line} {headers}: {answer}");
        if expected >= 400 {
            assert!(answer.contains("application/problem+json") && answer.contains("no-store"), "{answer}");
        }
    }
}

/// What is refused, and with which status; a problem document where the request could be read at all.
#[test]
fn what_cannot_be_served_is_refused_with_its_own_status() {
    let server = Server::start(&["--workers", "1"]);
    let host = "Host: localhost\r\n";
    let long = "x".repeat(20_000);
    for (line, headers, expected) in [
        ("GET /nothing", host.to_owned(), 404),
        ("GET /..%2fetc", host.to_owned(), 404),
        ("GET /api/v1/rooms/r1//ws?room=r1", format!("{host}{UPGRADE}"), 404),
        ("GET /api/v1/rooms/r1//route?room=r1", host.to_owned(), 404),
        ("GET /api/v1/rooms/r1/events/", host.to_owned(), 404),
        ("POST /api/v1/rooms/r1/other", host.to_owned(), 404),
        ("DELETE /", host.to_owned(), 405),
        ("DELETE /api/v1/rooms/r1/events", host.to_owned(), 405),
        ("GET /api/v1/rooms/a%20b/events", host.to_owned(), 400),
        ("GET /ws?room=r1", host.to_owned(), 426),
        ("GET /ws?room=r1", format!("{host}{}", UPGRADE.replace("13", "12")), 426),
        ("POST /ws?room=r1", format!("{host}{UPGRADE}"), 405),
        ("GET /ws", format!("{host}{UPGRADE}"), 400),
        ("GET /ws?room=a.b", format!("{host}{UPGRADE}"), 400),
        ("GET /ws?room=r1&tier=huge", format!("{host}{UPGRADE}"), 400),
        ("GET /ws?room=r1&snapshot=br", format!("{host}{UPGRADE}"), 400),
        ("GET /", String::new(), 400),
        ("GET /", format!("{host}{host}"), 400),
        ("GET /", format!("{host}X-Long: {long}\r\n"), 431),
        (&format!("GET /{}", &long[..9_000]), host.to_owned(), 414),
        (&format!("GET /{long}"), host.to_owned(), 431),
        ("GET /", format!("{host}{}", "X: y\r\n".repeat(100)), 431),
        // Where two readers could see two requests (RFC 9112, 6.3 and 11.2).
        ("POST /", format!("{host}Content-Length: 1\r\nContent-Length: 2\r\n"), 400),
        ("GET /", format!("{host}X-Fold: a\r\n b\r\n"), 400),
        ("GET /", format!("{host}X Y: a\r\n"), 400),
        ("GET /", format!("{host}Transfer-Encoding: nonsense\r\n"), 400),
    ] {
        let answer = exchange(&server, request(line, &headers).as_bytes());
        let shown: String = line.chars().take(60).collect();
        assert_eq!(
            status(&answer),
            expected,
            "{shown} {}: {answer}",
            headers.chars().take(200).collect::<String>()
        );
    }
    for (limit, count) in [("head_bytes", 2), ("headers", 1), ("target_bytes", 1)] {
        assert_eq!(server.met(limit), count, "{limit}");
    }
    for nonsense in [&b"\x16\x03\x01\x02\x00"[..], b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n"] {
        let answer = exchange(&server, nonsense);
        assert!(matches!(status(&answer), 0 | 400 | 505), "{nonsense:?}: {answer}");
    }
    assert_eq!(server.get("/healthz").0, 200);
}

/// A length beside chunks is read by nobody here as two requests: the second is never answered.
#[test]
fn a_smuggled_request_is_not_answered() {
    let server = Server::start(&["--workers", "1"]);
    let smuggled = "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for framing in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", 5 + smuggled.len()),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n0\r\n\r\n{smuggled}");
        let answer = exchange(&server, text.as_bytes());
        assert!(!answer.contains("404"), "{framing}: {answer}");
    }
}

/// A request without more than its Host.
fn bare(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Requests that are sent at once are answered one after the other, over one connection.
#[test]
fn a_connection_is_kept_for_the_next_request() {
    let server = Server::start(&["--workers", "1"]);
    let mut kept = Exchange::new(server.address);
    kept.send(
        bare("GET", "/nothing")
            + &bare("GET", "/")
            + &bare("HEAD", "/app.css")
            + &bare("GET", "/route?room=r1"),
    );
    assert_eq!(kept.answer().code(), "not_found");
    assert!(kept.answer().body.contains("<html"));
    assert_eq!(kept.answer_to("HEAD").expect("open").header("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(kept.answer().status, 307);
    // A stream may follow, too.
    kept.send(format!("GET /ws?room=r1 HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n"));
    assert_eq!(kept.answer().status, 101);
    kept.reads("\"joined\"");
}

/// The last request that a connection may send is told so, and what is sent behind it is not answered.
#[test]
fn a_connection_asks_only_so_often() {
    let server = Server::start_with(&["--workers", "1"], &[("DANMAKU__HTTP__REQUESTS_MAX", "3")]);
    let mut kept = Exchange::new(server.address);
    kept.send(bare("GET", "/nothing").repeat(4));
    for close in [None, None, Some("close")] {
        let answer = kept.answer();
        assert_eq!((answer.status, answer.header("connection")), (404, close));
    }
    kept.closed();
    assert_eq!(server.met("requests"), 1);
}

/// A connection that does not begin to ask, does not end to, or rests for too long is closed, without a word.
#[test]
fn a_connection_that_does_not_ask_in_time_is_closed() {
    let times = [("DANMAKU__WEBSOCKET__HANDSHAKE", "300ms"), ("DANMAKU__HTTP__KEEP_ALIVE", "500ms")];
    let server = Server::start_with(&["--workers", "1"], &times);
    Exchange::new(server.address).closed();
    Exchange::new(server.address).send("GET / HTT").closed();
    let mut rests = Exchange::new(server.address);
    assert_eq!(rests.send(bare("GET", "/nothing")).answer().status, 404);
    assert_eq!(rests.send(bare("GET", "/nothing")).answer().status, 404);
    rests.closed();
    let mut halts = Exchange::new(server.address);
    assert_eq!(halts.send(bare("GET", "/nothing")).answer().status, 404);
    halts.send("GET / HTTP/1.1\r\nHost: local").closed();
    // Who trickles is no better than who is silent: each byte buys nothing.
    let mut trickles = Exchange::new(server.address);
    let start = std::time::Instant::now();
    while !trickles.answers_within(Duration::from_millis(50)) && !trickles.is_closed() {
        trickles.send("X");
        assert!(start.elapsed() < Duration::from_secs(30), "still open");
    }
    for (limit, count) in [("first_request", 3), ("keep_alive", 1), ("later_request", 1)] {
        assert_eq!(server.met(limit), count, "{limit}");
    }
}

/// What is read with GET is told about with HEAD, and has the same head.
#[test]
fn every_path_that_is_read_answers_to_head() {
    let server = Server::start(&["--workers", "1"]);
    for path in ["/", "/app.js", "/route?room=r1", "/nothing", "/route", "/api/v1/rooms/a.b/events"] {
        let get = Exchange::new(server.address).send(bare("GET", path)).answer();
        let mut asks = Exchange::new(server.address);
        asks.send(bare("HEAD", path) + &bare("GET", "/nothing"));
        let head = asks.answer_to("HEAD").expect("an answer");
        assert_eq!(head.status, get.status, "{path}");
        for name in ["content-type", "content-length", "location", "cache-control", "referrer-policy"] {
            assert_eq!(head.header(name), get.header(name), "{path} {name}");
        }
        // Nothing of a body stands before the next answer.
        assert_eq!(asks.answer().status, 404, "{path}");
    }
    let mut events = Exchange::new(server.address);
    events.send(bare("HEAD", "/api/v1/rooms/r1/events"));
    let head = events.answer_to("HEAD").expect("an answer");
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(server.metric("danmaku_connections"), 0, "nobody has joined");
    for (path, allow) in
        [("/api/v1/rooms/r1/events", "GET, HEAD, POST, OPTIONS"), ("/route?room=r1", "GET, HEAD, OPTIONS")]
    {
        let options = Exchange::new(server.address).send(bare("OPTIONS", path)).answer();
        assert_eq!((options.status, options.header("allow")), (204, Some(allow)), "{path}");
        let refused = Exchange::new(server.address).send(bare("DELETE", path)).answer();
        assert_eq!((refused.status, refused.header("allow")), (405, Some(allow)), "{path}");
        assert_eq!(refused.code(), "method_not_allowed");
    }
}

/// `/route`: where a room is, by the configured address alone.
#[test]
fn a_room_is_found_at_the_advertised_address() {
    let plain = Server::start(&["--workers", "1"]);
    let told = Server::start_with(
        &["--workers", "1"],
        &[
            ("DANMAKU__SERVER__ADVERTISED_URL", "wss://live.example/"),
            ("DANMAKU__HTTP__HOSTS", "[\"chat.example\"]"),
        ],
    );
    for (server, host, query, url) in [
        (&plain, "localhost", "room=r1", "/ws?room=r1"),
        (&told, "localhost", "room=r1", "wss://live.example/ws?room=r1"),
        // Neither a Host nor a token finds its way into it.
        (&told, "chat.example", "token=abc&room=r-2&ticket=x&since=a:1", "wss://live.example/ws?room=r-2"),
    ] {
        let asked = format!("GET /route?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = Exchange::new(server.address).send(asked).answer();
        assert_eq!((answer.status, answer.header("location")), (307, Some(url)));
        assert_eq!(answer.json(), serde_json::json!({"url": url}));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for query in ["", "?room=", "?room=a.b", "?room=..%2fx", "?rooms=a"] {
        let answer = Exchange::new(told.address).send(bare("GET", &format!("/route{query}"))).answer();
        assert_eq!((answer.status, answer.code().as_str()), (400, "room_invalid"), "{query}");
    }
    let page = "GET /route?room=r1 HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n";
    assert_eq!(Exchange::new(told.address).send(page).answer().code(), "origin_not_allowed");
}
