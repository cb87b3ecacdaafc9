//! `GET …/snapshot`: what a newcomer is shown first, as a document for caches.

#[path = "support/exchange.rs"]
mod exchange;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use exchange::{Exchange, post};
use serde_json::{Value, json};
use support::Server;

/// A whole answer, its body as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The codes and texts of a problem that nobody may keep.
    fn code(&self) -> String {
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

fn ask(address: SocketAddr, line: &str, headers: &str) -> Answer {
    let mut socket = TcpStream::connect(address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).expect("written");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..end].to_vec()).expect("ASCII");
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head, body: answer[end + 4..].to_vec() }
}

fn say(address: SocketAddr, room: &str, id: &str, text: &str) -> u64 {
    let body = json!({"id": id, "text": text}).to_string();
    let answer =
        Exchange::new(address).send(post(&format!("/api/v1/rooms/{room}/danmaku"), "", &body)).answer();
    answer.json()["ack"]["seq"].as_u64().unwrap_or_else(|| panic!("{answer:?}"))
}

fn texts(snapshot: &Value) -> Vec<String> {
    let items = snapshot["snapshot"]["items"].as_array();
    items.into_iter().flatten().map(|item| item["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Rooms that this worker owns, that another one does, with the owner there and gone.
#[test]
fn a_newcomer_gets_the_newest_comments_and_the_place_to_go_on_from() {
    let server = Server::start_with(&["--workers", "3"], &[("DANMAKU__ROOM__SNAPSHOT_ENTRIES", "2")]);
    for n in 0..6 {
        let path = format!("GET /api/v1/rooms/room-{n}/snapshot");
        let nothing = ask(server.address, &path, "");
        assert_eq!((nothing.status, nothing.code()), (404, "room_not_found".to_owned()));
        for (id, text) in [("a", "one"), ("b", "two"), ("c", "three")] {
            say(server.address, &format!("room-{n}"), id, text);
        }
        let found = ask(server.address, &path, "");
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(found.header("content-type"), Some("application/json"));
        assert_eq!(found.header("content-encoding"), None);
        assert_eq!(found.header("x-content-type-options"), Some("nosniff"));
        let snapshot = found.json();
        assert_eq!(texts(&snapshot), ["two", "three"]);
        let position = &snapshot["snapshot"];
        assert_eq!(position["seq"], 3);
        // From there the live stream goes on, with nothing between.
        let since = format!("{}:{}", position["epoch"].as_str().expect("an epoch"), position["seq"]);
        let mut events = Exchange::new(server.address);
        events.send(format!(
            "GET /api/v1/rooms/room-{n}/events?since={since} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        let joined = events.reads("joined");
        assert!(joined.contains("\"recovered\":true"), "{joined}");
        assert_eq!(say(server.address, &format!("room-{n}"), "d", "four"), 4);
        let told = events.reads("four");
        assert!(!told.contains("three"), "{told}");
    }
}

/// Codings are chosen by the client and made once; each has its own strong tag.
#[test]
fn codings_are_negotiated_and_tagged() {
    let server = Server::start(&["--workers", "2"]);
    for n in 0..5 {
        say(
            server.address,
            "r",
            &format!("a{n}"),
            &format!("主播加油 come on, much the same words {n} times"),
        );
    }
    let path = "GET /api/v1/rooms/r/snapshot";
    let plain = ask(server.address, path, "");
    let gzip = ask(server.address, path, "Accept-Encoding: gzip\r\n");
    let brotli = ask(server.address, path, "Accept-Encoding: gzip, deflate, br\r\n");
    for (answer, coding) in [(&plain, None), (&gzip, Some("gzip")), (&brotli, Some("br"))] {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-encoding"), coding);
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
        let kept = "public, max-age=1, stale-while-revalidate=5";
        assert_eq!(answer.header("cache-control"), Some(kept));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
    let mut inflated = Vec::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_end(&mut inflated).expect("gzip");
    assert_eq!(inflated, plain.body);
    inflated.clear();
    brotli::Decompressor::new(&brotli.body[..], 4096).read_to_end(&mut inflated).expect("Brotli");
    assert_eq!(inflated, plain.body);
    assert!(brotli.body.len() < gzip.body.len() && gzip.body.len() < plain.body.len());

    let tags = [&plain, &gzip, &brotli].map(|answer| answer.header("etag").expect("a tag").to_owned());
    assert!(tags.iter().all(|tag| tag.starts_with('"')) && tags[0] != tags[1] && tags[1] != tags[2]);
    let known = format!("Accept-Encoding: br\r\nIf-None-Match: {}\r\n", tags[2]);
    let unchanged = ask(server.address, path, &known);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0), "{unchanged:?}");
    assert_eq!(unchanged.header("etag"), Some(&*tags[2]));
    assert_eq!(unchanged.header("cache-control"), brotli.header("cache-control"));
    let other =
        ask(server.address, path, &format!("Accept-Encoding: gzip\r\nIf-None-Match: {}\r\n", tags[2]));
    assert_eq!(other.status, 200, "the tag is of another coding");
    let head = ask(server.address, &path.replace("GET", "HEAD"), "Accept-Encoding: br\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(&*brotli.body.len().to_string()));

    let refused = ask(server.address, path, "Accept-Encoding: identity;q=0\r\n");
    assert_eq!((refused.status, refused.code()), (406, "not_acceptable".to_owned()));

    let proto = ask(server.address, "GET /api/v1/rooms/r/snapshot/proto", "");
    assert_eq!(proto.header("content-type"), Some("application/x-protobuf"));
    assert!(proto.body.len() < plain.body.len() && proto.header("etag") != plain.header("etag"));
    // However many asked: what did not change was written down and compressed once.
    support::until("counted", || server.metric("danmaku_snapshots_compressed_total") == 2);
    assert_eq!(server.metric("danmaku_snapshots_made_total"), 1);
    assert_eq!(server.metric("danmaku_snapshots_not_modified_total"), 1);
}

/// A cache takes the path for its key: there is one path, and nothing that is refused is kept.
#[test]
fn a_room_has_one_address_and_errors_are_not_kept() {
    let server = Server::start(&["--workers", "1"]);
    say(server.address, "r", "a", "hello");
    for (line, headers, status, code) in [
        ("GET /api/v1/rooms/r/snapshot?", "", 400, "bad_request"),
        ("GET /api/v1/rooms/r/snapshot?limit=5", "", 400, "bad_request"),
        ("GET /api/v1/rooms/%72/snapshot", "", 404, "room_invalid"),
        ("GET /api/v1/rooms/r;x/snapshot", "", 404, "room_invalid"),
        ("GET /api/v1/rooms/r/snapshot;x.css", "", 404, "not_found"),
        ("GET /api/v1/rooms/r/snapshot/", "", 404, "not_found"),
        ("GET /api/v1/rooms/r/snapshot/x.js", "", 404, "not_found"),
        ("GET /api/v1/rooms//snapshot", "", 404, "room_invalid"),
        ("DELETE /api/v1/rooms/r/snapshot", "", 405, "method_not_allowed"),
        ("GET /api/v1/rooms/unheard-of/snapshot", "", 404, "room_not_found"),
    ] {
        let answer = ask(server.address, line, headers);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{line}");
    }
    // Whoever asks, the same bytes: no header of the request comes back.
    let page = "Origin: https://elsewhere.example\r\nCookie: a=b\r\nAuthorization: Bearer nonsense\r\n";
    let elsewhere = ask(server.address, "GET /api/v1/rooms/r/snapshot", page);
    let plain = ask(server.address, "GET /api/v1/rooms/r/snapshot", "");
    assert_eq!((elsewhere.status, &elsewhere.body), (200, &plain.body));
    assert_eq!(elsewhere.header("access-control-allow-origin"), Some("*"));
    let first = ask(server.address, "OPTIONS /api/v1/rooms/r/snapshot", page);
    assert_eq!((first.status, first.header("access-control-allow-origin")), (204, Some("*")));
}

/// Where guests may not read, a snapshot is for those who show a token, and for no cache.
#[test]
fn where_guests_may_not_read_a_snapshot_is_private() {
    let secret = "0123456789abcdef0123456789abcdef";
    let keys = format!("[{{id = \"k\", algorithm = \"HS256\", secret = \"{secret}\"}}]");
    let server = Server::start_with(
        &["--workers", "1"],
        &[("DANMAKU__AUTH__KEYS", &keys), ("DANMAKU__AUTH__ANONYMOUS", "\"refused\"")],
    );
    let path = "GET /api/v1/rooms/r/snapshot";
    let nobody = ask(server.address, path, "");
    assert_eq!((nobody.status, nobody.code()), (401, "unauthorized".to_owned()));
    assert_eq!(nobody.header("access-control-allow-origin"), None);
    let page = ask(server.address, path, "Origin: https://elsewhere.example\r\n");
    assert_eq!((page.status, page.code()), (403, "origin_not_allowed".to_owned()));
}
