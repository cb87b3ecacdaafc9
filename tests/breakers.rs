//! What refuses the crowd when a worker or what a room waits for cannot keep up: the breakers of rooms and of workers, and
//! the window over all rooms.

#[path = "support/person.rs"]
mod person;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use person::{Person, start};
use raw_socket::{FIN, RawSocket, TEXT, frame};
use serde_json::Value;
use support::{Server, until};

const MODERATOR: [&str; 3] = ["--role", "moderator", "--global"];

fn refused_by(server: &Server, rule: &str) -> u64 {
    server.metric(&format!("danmaku_rule_refused_total{{rule=\"{rule}\"}}"))
}

fn is_by(refused: &Value, rule: &str) {
    assert_eq!(refused["code"], "overloaded", "{refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.ends_with(&format!("Rule: {rule}.")), "{refused}");
}

fn wait_of(refused: &Value) -> Duration {
    Duration::from_millis(refused["retryAfterMs"].as_u64().unwrap_or_else(|| panic!("no wait in {refused}")))
}

/// A receiver that takes no calls: questions to it have no answer.
fn nobody() -> (TcpListener, [(&'static str, String); 6]) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let settings = [
        ("WEBHOOK__URL", format!("http://127.0.0.1:{port}/")),
        ("WEBHOOK__SECRET", "0123456789abcdef0123456789abcdef".to_owned()),
        ("WEBHOOK__PORTS", format!("[{port}]")),
        ("WEBHOOK__ALLOW_PRIVATE", r#"["127.0.0.1"]"#.to_owned()),
        ("WEBHOOK__WITHIN", "20ms".to_owned()),
        ("WEBHOOK__WEBHOOK_FAIL", "closed".to_owned()),
    ];
    (taken, settings)
}

/// A room that shows nothing unless its webhook has answered, and whose webhook does not: after a few comments its breaker
/// opens, and the crowd is told so at once, with a time. When that is over a few probes pass; as they find the webhook as it
/// was, the breaker opens for longer. VIPs are asked about all the time, and a room that shows what nobody answered about is
/// not concerned.
#[test]
fn a_webhook_that_does_not_answer_opens_the_breaker_of_rooms_that_wait_for_it() {
    let (_taken, hook) = nobody();
    let mut settings: Vec<_> = hook.iter().map(|(key, value)| (*key, value.as_str())).collect();
    settings.extend([
        ("LIMITS__BREAKER_WEBHOOK_FAILURES", "3"),
        ("LIMITS__BREAKER_PROBES", "3"),
        ("LIMITS__BREAKER_OPEN", "2s"),
        ("LIMITS__BREAKER_HALF_OPEN", "1m"),
        ("WEBSOCKET__ERRORS_PER_S", "1000"),
        ("ROOMS", r#"[{match = "open", webhook_fail = "open"}]"#),
    ]);
    let server = start(&settings);
    let mut guest = Person::guest(&server, "r1");
    for n in 0..3 {
        assert_eq!(guest.says("hello?")["code"], "unavailable", "{n}");
    }
    let asked = Instant::now();
    let shed = guest.says("and now?");
    is_by(&shed, "breaker");
    assert!(wait_of(&shed) <= Duration::from_secs(2), "{shed}");
    let mut vip = Person::user(&server, "r1", "v1", &["--role", "vip"]);
    assert_eq!(vip.says("asked about")["code"], "unavailable");
    let mut open = Person::guest(&server, "open");
    for _ in 0..4 {
        open.says_well("shown");
    }
    until("the metric says so", || server.metric("danmaku_breakers_open") == 1);
    assert_eq!(server.metric("danmaku_breakers_opened_total"), 1);
    // What a client does with the number.
    std::thread::sleep(wait_of(&shed).saturating_sub(asked.elapsed()));
    // The VIP's comment was the first of three without an answer.
    for n in 0..2 {
        assert_eq!(guest.says("a probe")["code"], "unavailable", "probe {n}");
    }
    let again = guest.says("after the probes");
    is_by(&again, "breaker");
    let wait = wait_of(&again);
    assert!((Duration::from_secs(2)..=Duration::from_secs(4)).contains(&wait), "twice as long: {again}");
    until("it is counted", || refused_by(&server, "breaker") == 2);
    until("it is counted", || server.metric("danmaku_breakers_opened_total") == 2);
    assert_eq!(server.metric("danmaku_worker_breakers_opened_total"), 0);
}

/// A full mailbox opens the breaker of its worker. It is half-open once the mailbox is empty: a few probes pass, whoever comes
/// after them is told how long it takes, and whoever keeps order is not asked.
#[test]
fn a_worker_that_cannot_keep_up_sheds_the_crowd_of_all_its_rooms_until_it_can() {
    let settings = [
        ("LIMITS__USER_MODE", "off"),
        ("LIMITS__ROOM_MODE", "off"),
        ("LIMITS__BREAKER_MAILBOX_PERCENT", "1"),
        ("LIMITS__BREAKER_OPEN", "300ms"),
        ("LIMITS__BREAKER_HALF_OPEN", "1m"),
        ("LIMITS__BREAKER_PROBES", "2"),
        ("ROOM__SPREAD_MEMBERS", "0"),
        ("WEBSOCKET__FRAMES_PER_S", "1000000"),
        ("WEBSOCKET__BYTES_PER_S", "1GiB"),
        ("WEBSOCKET__ERRORS_PER_S", "10000"),
        ("LIMITS__DUPLICATE_MODE", "off"),
    ];
    let server = start(&settings);
    // On whichever worker took them; those that are not the owner's send through its mailbox.
    let hello = frame(FIN | TEXT, br#"{"send":{"text":"hello"}}"#).repeat(2_000);
    let mut flood = Vec::new();
    until("the breaker opens", || {
        for _ in 0..6 {
            let mut socket = RawSocket::join(server.address, "r1", "");
            socket.send(&hello);
            flood.push(socket);
        }
        server.metric("danmaku_worker_breakers_opened_total") > 0
    });
    drop(flood);
    until("it is half-open", || server.metric("danmaku_worker_breakers_half_open") == 1);
    let mut guest = Person::guest(&server, "r1");
    let mut passed = 0;
    let shed = loop {
        let answer = guest.says("a probe");
        match answer["code"].as_str() {
            None => passed += 1,
            Some(_) => break answer,
        }
    };
    is_by(&shed, "worker_breaker");
    assert!(passed <= 2, "{passed} probes");
    assert!(wait_of(&shed) <= Duration::from_secs(60), "{shed}");
    Person::user(&server, "r1", "m1", &MODERATOR).says_well("calm down");
    until("it is counted", || refused_by(&server, "worker_breaker") > 0);
}

/// The window over the whole process: what any room took leaves less for all of them, on whichever worker; VIPs go ahead.
#[test]
fn the_window_of_the_process_counts_all_its_rooms() {
    let settings = [
        ("LIMITS__NODE_MODE", "enforce"),
        ("LIMITS__NODE_COUNT_MAX", "8"),
        ("LIMITS__NODE_WINDOW", "1h"),
        ("WEBSOCKET__ERRORS_PER_S", "1000"),
    ];
    let server = start(&settings);
    let mut witness = Person::guest(&server, "r0");
    for n in 0..8 {
        Person::guest(&server, &format!("r{n}")).says_well("hello");
    }
    witness.hears("hello");
    for n in 0..8 {
        let refused = Person::guest(&server, &format!("r{n}")).says("one too many");
        is_by(&refused, "node_rate");
        assert!(wait_of(&refused) <= Duration::from_secs(2 * 3_600), "{refused}");
    }
    Person::user(&server, "r0", "v1", &["--role", "vip"]).says_well("goes ahead");
    witness.hears("goes ahead");
    assert!(!witness.has_heard("one too many"));
    assert_eq!(server.metric("danmaku_published_total"), 9);
    until("it is counted", || refused_by(&server, "node_rate") == 8 && server.met("node_rate") == 8);
    until("the window tells", || server.metric("danmaku_node_window") == 8);
}
