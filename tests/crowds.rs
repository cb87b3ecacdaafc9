//! How many connections an address has, how fast it creates rooms, and what it meets beyond that. A trusted proxy on
//! loopback brings callers from wherever the test says.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::process::Command;

use exchange::{Answer, Exchange, post};
use raw_socket::{End, RawSocket};
use serde_json::Value;
use support::{Scratch, Server, until};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const PROXIES: (&str, &str) = ("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]");
const REQUIRED: (&str, &str) = ("SERVER__PROXY_PROTOCOL", "required");

fn start(args: &[&str], settings: &[(&str, &str)]) -> Server {
    let settings: Vec<_> = settings.iter().map(|(key, value)| (format!("DANMAKU__{key}"), *value)).collect();
    let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    Server::start_with(args, &settings)
}

fn from(address: &str) -> String {
    format!("X-Forwarded-For: {address}\r\n")
}

fn handshake(room: &str, headers: &str) -> String {
    format!("GET /ws?room={room} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}{headers}\r\n")
}

/// A connection behind a PROXY line of this address, before its first request.
fn announced(server: &Server, address: &str) -> Exchange {
    let family = if address.contains(':') { "TCP6" } else { "TCP4" };
    let mine = if address.contains(':') { "::1" } else { "127.0.0.1" };
    let mut exchange = Exchange::new(server.address);
    exchange.send(format!("PROXY {family} {address} {mine} 4711 80\r\n"));
    exchange
}

/// Opens a stream from an address; the connection with the answer, which is none where it was closed at once.
fn open(server: &Server, address: &str, headers: &str) -> (Exchange, Option<Answer>) {
    let mut exchange = announced(server, address);
    let answer = exchange.send(handshake("r1", headers)).answer_to("GET");
    (exchange, answer)
}

/// Waits until nobody is counted any more: whoever went was counted out, whichever way it went.
fn empties(server: &Server) {
    until("everybody is counted out", || {
        server.metric("danmaku_addresses") == 0
            && server.metric("danmaku_addresses_overflow") == 0
            && server.metric("danmaku_handshakes") == 0
    });
}

fn refused(answer: Option<Answer>) {
    let answer = answer.expect("it is told");
    assert_eq!((answer.status, &*answer.code()), (429, "too_many_connections"), "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("5"), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
}

/// An address has so many connections, half-open ones included; a token is under no such limit, and far beyond it
/// nobody is heard.
#[test]
fn an_address_has_so_many_connections_and_a_token_one_more() {
    let scratch = Scratch::new();
    let config = "[auth]\nanonymous = true\n[[auth.keys]]\nid = \"k1\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n";
    let config = scratch.file("live.toml", config).to_string_lossy().into_owned();
    let token = Command::new(env!("CARGO_BIN_EXE_danmaku"))
        .args(["token", "--config", &config, "--user", "u1"])
        .output()
        .expect("it runs");
    let token = String::from_utf8(token.stdout).expect("text").trim().to_owned();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let args = ["--workers", "1", "--config", &config];
    let server = start(&args, &[PROXIES, REQUIRED, ("CONNECTIONS__PER_IPV4", "3")]);
    let per_ipv4 = "per_address";
    let here = "192.0.2.7";
    let (_first, answer) = open(&server, here, "");
    assert_eq!(answer.map(|answer| answer.status), Some(101));
    // One that has not asked yet, and one that has its page and rests.
    let silent = announced(&server, here);
    until("it is counted", || server.metric("danmaku_handshakes") == 1);
    let mut resting = announced(&server, here);
    assert_eq!(resting.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").answer().status, 200);
    for count in 1..=3 {
        refused(open(&server, here, "").1);
        assert_eq!(server.met(per_ipv4), count);
    }
    // Whatever it asks for; a guest's comment too.
    refused(announced(&server, here).send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").answer_to("GET"));
    let comment = post("/api/v1/rooms/r1/danmaku", "", r#"{"id":"a","text":"hello"}"#);
    refused(announced(&server, here).send(&comment).answer_to("POST"));
    assert_eq!(server.met(per_ipv4), 5);
    // IPv4 in IPv6 is the same address; a neighbour is another.
    for same in ["::ffff:192.0.2.7", "2002:c000:207::1", "64:ff9b::192.0.2.7"] {
        refused(open(&server, same, "").1);
    }
    let (_neighbour, answer) = open(&server, "192.0.2.8", "");
    assert_eq!(answer.map(|answer| answer.status), Some(101));
    // A token opens what a guest does not get, and takes nobody's place.
    let users: Vec<_> = (0..8).map(|_| open(&server, here, &bearer)).collect();
    for (_, answer) in &users {
        assert_eq!(answer.as_ref().map(|answer| answer.status), Some(101), "{answer:?}");
    }
    let comment = post("/api/v1/rooms/r1/danmaku", &bearer, r#"{"id":"b","text":"hello"}"#);
    assert_eq!(announced(&server, here).send(&comment).answer().status, 200);
    // Who says nothing is heard a little beyond the limit, and no further.
    let met = server.met(per_ipv4);
    let pending: Vec<_> = (0..4).map(|_| announced(&server, here)).collect();
    until("they are counted", || server.metric("danmaku_handshakes") == 6);
    announced(&server, here).send(handshake("r1", &bearer)).closed();
    assert_eq!(server.met(per_ipv4), met + 1);
    // A place that is given up is there for another.
    drop((silent, pending));
    until("they are gone", || server.metric("danmaku_handshakes") == 1);
    let (_again, answer) = open(&server, here, "");
    assert_eq!(answer.map(|answer| answer.status), Some(101));
    drop((_first, _neighbour, _again, resting, users));
    empties(&server);
}

/// IPv6 counts by /64, and its /64s by the /48 around them.
#[test]
fn a_network_counts_as_a_whole() {
    let settings = [PROXIES, REQUIRED, ("CONNECTIONS__PER_IPV6_64", "2"), ("CONNECTIONS__PER_IPV6_48", "3")];
    let server = start(&["--workers", "1"], &settings);
    let mut held = Vec::new();
    for (address, limit) in [
        ("2001:db8:1:1::1", ""),
        ("2001:db8:1:1:ffff::2", ""),
        ("2001:db8:1:1::3", "per_network"),
        ("2001:db8:1:2::1", ""),
        ("2001:db8:1:3::1", "per_site"),
        ("2001:db8:2:1::1", ""),
    ] {
        let met: u64 = ["per_network", "per_site"].map(|limit| server.met(limit)).iter().sum();
        let (exchange, answer) = open(&server, address, "");
        if limit.is_empty() {
            assert_eq!(answer.map(|answer| answer.status), Some(101), "{address}");
            held.push(exchange);
            continue;
        }
        refused(answer);
        assert_eq!(server.met(limit), 1, "{address}");
        assert_eq!(["per_network", "per_site"].map(|limit| server.met(limit)).iter().sum::<u64>(), met + 1);
    }
    drop(held);
    empties(&server);
}

/// A full table neither lets everybody in nor shuts everybody out: further addresses share one bound.
#[test]
fn addresses_beyond_the_table_share_one_bound() {
    let settings =
        [PROXIES, REQUIRED, ("CONNECTIONS__ADDRESSES_MAX", "2"), ("CONNECTIONS__OVERFLOW_MAX", "3")];
    let server = start(&["--workers", "1"], &settings);
    let mut held = Vec::new();
    for n in 1..=5 {
        let (exchange, answer) = open(&server, &format!("192.0.2.{n}"), "");
        assert_eq!(answer.map(|answer| answer.status), Some(101), "{n}");
        held.push(exchange);
    }
    assert_eq!(server.met("addresses"), 3);
    refused(open(&server, "192.0.2.6", "").1);
    assert_eq!(server.met("address_overflow"), 1);
    // Those that have a place of their own are as before.
    let (_more, answer) = open(&server, "192.0.2.1", "");
    assert_eq!(answer.map(|answer| answer.status), Some(101));
    until("the gauges tell", || {
        (server.metric("danmaku_addresses"), server.metric("danmaku_addresses_overflow")) == (2, 3)
    });
    drop((held, _more));
    empties(&server);
}

/// Callers of an HTTP proxy are counted one by one, by what the proxy says and not by what they say.
#[test]
fn callers_of_a_proxy_are_counted_by_what_the_proxy_says() {
    let server = start(&["--workers", "2"], &[PROXIES, ("CONNECTIONS__PER_IPV4", "2")]);
    let ask = |headers: &str| {
        let mut exchange = Exchange::new(server.address);
        let answer = exchange.send(handshake("r1", headers)).answer();
        (exchange, answer)
    };
    let held: Vec<_> = (0..2).map(|_| ask(&from("127.0.0.2"))).collect();
    assert!(held.iter().all(|(_, answer)| answer.status == 101));
    // Left of what the proxy wrote stands what the caller wrote.
    for told in ["127.0.0.2", "203.0.113.1, 127.0.0.2", "unknown, 127.0.0.2", "127.0.0.2, 127.0.0.1"] {
        refused(Some(ask(&from(told)).1));
    }
    let (_other, answer) = ask(&from("127.0.0.3"));
    assert_eq!(answer.status, 101);
    let hidden: Vec<_> = (0..2).map(|_| ask("Forwarded: for=unknown\r\n")).collect();
    assert!(hidden.iter().all(|(_, answer)| answer.status == 101));
    refused(Some(ask("Forwarded: for=_x\r\n").1));
    // The machine itself is under no limit.
    let own: Vec<_> = (0..5).map(|_| ask("")).collect();
    assert!(own.iter().all(|(_, answer)| answer.status == 101));
    assert_eq!(server.met("per_address"), 5);
    drop((held, _other, hidden, own));
    empties(&server);
}

/// Every way in which a session ends counts it out: closed, reset, broken off, handed to another worker, thrown out.
#[test]
fn whoever_is_gone_is_counted_out() {
    let settings = [PROXIES, ("LIMITS__JOINS_BURST", "1000"), ("ROOM__CREATE_PER_MIN", "1000")];
    let server = start(&["--workers", "3"], &settings);
    let join = |n: usize| RawSocket::join(server.address, &format!("room-{n}"), &from("192.0.2.7"));
    let mut sessions: Vec<_> = (0..40).map(join).collect();
    until("they are counted", || server.metric("danmaku_addresses") == 1);
    for (n, session) in sessions.iter_mut().enumerate() {
        session.hears("\"joined\"");
        session.say(&format!("{{\"join\":{{\"room\":\"room-{}\"}}}}", (n + 1) % 40));
        session.hears("\"joined\"");
    }
    assert_eq!(server.metric("danmaku_connections"), 40);
    for (n, session) in sessions.iter_mut().enumerate() {
        match n % 4 {
            // A close frame, a message of the wrong kind, garbage; the rest just goes.
            0 => session.send(&raw_socket::frame(0x88, &1_000_u16.to_be_bytes())),
            1 => session.send(&raw_socket::frame(0x82, b"x")),
            2 => session.send(&[0xff; 40]),
            _ => {}
        }
        if n % 4 < 3 {
            assert_ne!(session.end(), End::Cut, "{n}");
        }
    }
    drop(sessions);
    let mut stream = Exchange::new(server.address);
    let ask = format!("GET /api/v1/rooms/r1/events HTTP/1.1\r\nHost: localhost\r\n{}\r\n", from("192.0.2.7"));
    assert_eq!(stream.send(ask).answer().status, 200);
    drop(stream);
    empties(&server);
}

/// Too many connections that are no sessions: the oldest of them goes, sessions stay, newcomers are served.
#[test]
fn the_oldest_of_too_many_handshakes_gives_way() {
    let server = start(&["--workers", "1"], &[("CONNECTIONS__HANDSHAKES_MAX", "4")]);
    let mut session = RawSocket::join(server.address, "r1", "");
    session.hears("\"joined\"");
    let mut waiting: Vec<_> = (0..4).map(|_| Exchange::new(server.address)).collect();
    until("they wait", || server.metric("danmaku_handshakes") == 4);
    assert_eq!(server.met("handshakes"), 0);
    let mut late = Exchange::new(server.address);
    assert_eq!(late.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").answer().status, 200);
    waiting[0].closed();
    assert_eq!(server.met("handshakes"), 1);
    for exchange in &mut waiting[1..] {
        assert_eq!(exchange.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").answer().status, 200);
    }
    session.say(r#"{"ping":{"t":7}}"#);
    session.hears("\"pong\"");
}

/// An address creates so many rooms in a minute, whichever way; rooms that are there are open to it.
#[test]
fn an_address_creates_rooms_at_a_pace() {
    let settings = [PROXIES, ("ROOM__CREATE_PER_MIN", "3")];
    let server = start(&["--workers", "2"], &settings);
    let mut own = RawSocket::join(server.address, "there", "");
    own.hears("\"joined\"");
    let here = from("192.0.2.7");
    let mut first = RawSocket::join(server.address, "a", &here);
    first.hears("\"joined\"");
    first.say(r#"{"join":{"room":"b"}}"#);
    first.hears("\"joined\"");
    let comment = post("/api/v1/rooms/c/danmaku", &here, r#"{"id":"a","text":"hello"}"#);
    assert_eq!(Exchange::new(server.address).send(comment).answer().status, 200);
    assert_eq!(server.met("rooms_created"), 0);
    // A session that asks for a fourth stays where it is.
    first.say(r#"{"join":{"room":"d"}}"#);
    let told: Value = serde_json::from_str(&first.hears("\"error\"")).expect("JSON");
    assert_eq!(told["error"]["code"], "too_many_rooms");
    let wait_ms = told["error"]["retryAfterMs"].as_u64().expect("when to try again");
    assert!((1..=20_000).contains(&wait_ms), "{told}");
    first.say(r#"{"send":{"id":"s","text":"still here"}}"#);
    first.hears("\"ack\"");
    // Whoever comes for it is sent away, to come back later.
    let mut second = RawSocket::join(server.address, "d", &here);
    assert!(second.hears("\"error\"").contains("too_many_rooms"));
    assert_eq!(second.end(), End::Code(1013));
    let comment = post("/api/v1/rooms/d/danmaku", &here, r#"{"id":"b","text":"hello"}"#);
    let answer = Exchange::new(server.address).send(comment).answer();
    assert_eq!((answer.status, &*answer.code()), (429, "too_many_rooms"));
    assert_eq!(server.met("rooms_created"), 3);
    first.say(r#"{"join":{"room":"there"}}"#);
    first.hears("\"joined\"");
    let mut other = RawSocket::join(server.address, "d", &from("192.0.2.8"));
    other.hears("\"joined\"");
    drop((first, second, other));
    own.say(r#"{"ping":{"t":7}}"#);
    own.hears("\"pong\"");
}

/// A connection changes rooms so often and no more, wherever its rooms are owned; it is told when to try again.
#[test]
fn a_connection_changes_rooms_at_a_pace() {
    let server = start(&["--workers", "3"], &[("LIMITS__JOINS_BURST", "4"), ("LIMITS__JOINS_PER_S", "1")]);
    let mut session = RawSocket::join(server.address, "room-0", "");
    session.hears("\"joined\"");
    let (mut joined, mut refused) = (0, 0);
    for n in 1..=20 {
        session.say(&format!("{{\"join\":{{\"room\":\"room-{n}\"}}}}"));
    }
    while joined + refused < 20 {
        let text = session.hears("\"");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        match told["error"]["code"].as_str() {
            Some("rate_limited") => {
                assert_eq!(told["error"]["retryAfterMs"], 1_000);
                refused += 1;
            }
            Some("too_many_errors") => refused += told["error"]["count"].as_u64().expect("a count"),
            Some(code) => panic!("{code}"),
            None => joined += u64::from(told.get("joined").is_some()),
        }
    }
    // The clock's second may turn while they arrive.
    assert!((4..=8).contains(&joined), "{joined}");
    assert_eq!(server.met("joins"), refused);
}
