//! Every limit is met on the wire: with its own answer, by its own name, and counted. And the table of limits is true:
//! no limit without a key, a counter and a test.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::path::Path;

use danmaku::config::raw::Raw;
use danmaku::observe::limits::Limit;
use exchange::{Exchange, post};
use raw_socket::{End, FIN, PING, RSV1, RawSocket, TEXT, frame};
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Server, until};

const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover\r\n";

fn start(settings: &[(&str, &str)]) -> Server {
    let settings: Vec<_> = settings.iter().map(|(key, value)| (format!("DANMAKU__{key}"), *value)).collect();
    let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    Server::start_with(&["--workers", "1"], &settings)
}

/// A compressed text message (RFC 7692, section 7.2.1).
fn deflated(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(4_096);
    let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
    deflate.compress_vec(text.as_bytes(), &mut out, flate2::FlushCompress::Sync).expect("compressed");
    assert_eq!(out.split_off(out.len() - 4), [0, 0, 0xff, 0xff]);
    frame(FIN | RSV1 | TEXT, &out)
}

/// The table: every row's key is in the configuration, its counter in the metrics, its test under `tests/`, where it
/// names the limit.
#[test]
fn every_limit_has_a_key_a_counter_and_a_test_that_meets_it() {
    let keys: Vec<_> = Raw::default().keys().iter().map(|key| key.path()).collect();
    let (_, metrics) = start(&[]).get("/metrics");
    for limit in Limit::ALL {
        let row = limit.row();
        assert!(keys.iter().any(|key| key == row.key), "{}: there is no key {}", row.name, row.key);
        let counter = format!("danmaku_limit_met_total{{limit=\"{}\"}} 0", row.name);
        assert!(metrics.contains(&counter), "{}: there is no {counter}", row.name);
        let (file, test) = row.test;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file).with_extension("rs");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let body = text.split(&format!("fn {test}()")).nth(1);
        let body = body.unwrap_or_else(|| panic!("{}: {file}.rs has no test {test}", row.name));
        let body = body.split("\n}\n").next().unwrap_or_default();
        assert!(body.contains(&format!("\"{}\"", row.name)), "{}: {test} does not count it", row.name);
    }
}

#[test]
fn what_is_too_big_closes_with_1009() {
    let server = start(&[("WEBSOCKET__FRAGMENTS_MAX", "4"), ("WEBSOCKET__MESSAGE_BYTES_MAX", "96KiB")]);
    let half = vec![b'x'; 60 << 10];
    let pieces: Vec<u8> = [frame(TEXT, &half), frame(FIN, &half)].concat();
    let claims = [&[FIN | TEXT, 0xff][..], &(1u64 << 62).to_be_bytes(), &[0; 4]].concat();
    let many: Vec<u8> = [frame(TEXT, b"x"), frame(0, b"").repeat(4)].concat();
    for (limit, bytes, count) in [
        ("frame_bytes", frame(FIN | TEXT, &vec![b'x'; (64 << 10) + 1]), 1),
        ("frame_bytes", claims, 2),
        ("message_bytes", pieces, 1),
        ("message_bytes", deflated(&"x".repeat(200_000)), 2),
        ("fragments", many, 1),
    ] {
        let mut socket = RawSocket::join(server.address, "r1", DEFLATE);
        socket.send(&bytes);
        assert_eq!(socket.end(), End::Code(1009), "{limit}");
        assert_eq!(server.met(limit), count, "{limit}");
    }
    assert_eq!(server.metric("danmaku_closed_total{code=\"1009\"}"), 5);
}

#[test]
fn what_is_too_much_in_a_second_closes_with_1008() {
    let server = start(&[
        ("WEBSOCKET__FRAMES_PER_S", "50"),
        ("WEBSOCKET__BYTES_PER_S", "16KiB"),
        ("WEBSOCKET__INFLATED_BYTES_PER_S", "64KiB"),
    ]);
    let dance = format!("{{\"dance\":\"{}\"}}", "x".repeat(60_000));
    for (limit, bytes) in [
        // Twice what a second allows: the server's second may turn in the middle.
        ("frames_per_s", frame(FIN | PING, b"").repeat(102)),
        ("bytes_per_s", frame(FIN | TEXT, &vec![b' '; 20 << 10])),
        ("inflated_bytes_per_s", deflated(&dance).repeat(4)),
    ] {
        let mut socket = RawSocket::join(server.address, "r1", DEFLATE);
        socket.hears("\"joined\"");
        socket.send(&bytes);
        assert_eq!(socket.end(), End::Code(1008), "{limit}");
        assert_eq!(server.met(limit), 1, "{limit}");
    }
    assert_eq!(server.metric("danmaku_floods_total"), 3);
}

/// A peer that neither sends nor answers is gone with its ping's time, from the room's count too; one that answers
/// stays.
#[test]
fn a_peer_that_is_no_longer_there_is_no_longer_counted() {
    let server = start(&[("WEBSOCKET__PING_AFTER", "2s"), ("WEBSOCKET__PONG_WITHIN", "1s")]);
    let mut there = RawSocket::join(server.address, "r1", "");
    let mut half_open = RawSocket::join(server.address, "r1", "");
    let mut count = 0;
    let (mut pings, mut left) = (0, false);
    while !left {
        let frame = there.next().expect("who answers stays");
        let text = String::from_utf8_lossy(&frame.payload).into_owned();
        match frame.opcode {
            9 => {
                pings += 1;
                there.send(&raw_socket::frame(FIN | 10, &frame.payload));
            }
            _ => {
                if let Ok(message) = serde_json::from_str::<Value>(&text)
                    && let Some(online) = message["room"]["online"].as_u64()
                {
                    left = count == 2 && online == 1;
                    count = online;
                }
            }
        }
    }
    assert_eq!(pings, 1, "it took one ping and its time, and not until the next");
    assert_eq!(server.met("silence"), 1);
    assert_eq!(half_open.end(), End::Cut, "nobody is there to be told a code");
    assert_eq!(server.metric("danmaku_connections"), 1);
}

/// Commands whose answers fill the outbox wait, and every one is answered.
#[test]
fn a_session_that_is_owed_too_much_is_not_read_until_it_has_it() {
    let server = start(&[("WEBSOCKET__OUTBOX_BYTES_MAX", "1KiB"), ("WEBSOCKET__FRAMES_PER_S", "100000")]);
    let mut socket = RawSocket::join(server.address, "r1", "");
    socket.hears("\"joined\"");
    let pings: Vec<u8> =
        (0..500).flat_map(|t| frame(FIN | TEXT, format!("{{\"ping\":{{\"t\":{t}}}}}").as_bytes())).collect();
    socket.send(&pings);
    for t in 0..500 {
        assert_eq!(socket.hears("\"pong\""), format!("{{\"pong\":{{\"t\":{t}}}}}"));
    }
    assert!(server.met("outbox_bytes") >= 1);
}

/// Somebody who says a lot and reads all of it.
struct Talker {
    socket: RawSocket,
    name: char,
    said: usize,
}

impl Talker {
    fn new(server: &Server, name: char) -> Self {
        Self { socket: RawSocket::join(server.address, "r1", ""), name, said: 0 }
    }

    /// A comment of 300 bytes like no other.
    fn newest(&self) -> String {
        format!("{}{:0>99}", self.name, self.said).replace('0', "弹")
    }

    /// Sends so many comments in one go.
    fn talk(&mut self, count: usize) {
        let mut frames = Vec::new();
        for _ in 0..count {
            self.said += 1;
            let send = json!({"send": {"text": self.newest()}});
            frames.extend_from_slice(&frame(FIN | TEXT, send.to_string().as_bytes()));
        }
        self.socket.send(&frames);
    }

    /// Reads on until all that was said has come back.
    fn hear(&mut self) {
        let newest = self.newest();
        self.socket.hears(&newest);
    }
}

/// Settings under which one may talk without end.
const TALKATIVE: [(&str, &str); 4] = [
    ("LIMITS__USER_MODE", "off"),
    ("LIMITS__ROOM_MODE", "off"),
    ("WEBSOCKET__FRAMES_PER_S", "100000000"),
    ("WEBSOCKET__BYTES_PER_S", "1GiB"),
];

/// Whoever takes nothing for the whole grace is closed with 4008, or cut off if not even that finds room.
#[test]
fn a_reader_that_does_not_read_is_let_go() {
    let server = start(&[&TALKATIVE[..], &[("SLOW_CONSUMER__GRACE", "300ms")]].concat());
    let mut asleep = RawSocket::join_narrow(server.address, "r1");
    let mut talker = Talker::new(&server, 'a');
    until("the reader is let go", || {
        talker.talk(100);
        talker.hear();
        server.met("slow_consumer") == 1
    });
    assert_eq!(server.metric("danmaku_closed_total{code=\"4008\"}"), 1);
    assert!(matches!(asleep.end(), End::Code(4008) | End::Cut));
    assert_eq!(server.metric("danmaku_slow_consumers_total"), 1);
}

/// A ping is answered by a socket that was full as well, as soon as it takes anything: the newest of those that waited.
#[test]
fn a_full_socket_owes_the_newest_pong() {
    // Whatever is said until the reader is known to be blocked, it does not miss.
    let settings = [("SLOW_CONSUMER__GRACE", "1h"), ("ROOM__BACKLOG_BYTES", "256MiB")];
    let server = start(&[&TALKATIVE[..], &settings].concat());
    let mut asleep = RawSocket::join_narrow(server.address, "r1");
    let mut talker = Talker::new(&server, 'a');
    until("the reader's socket is full", || {
        talker.talk(100);
        talker.hear();
        server.metric("danmaku_blocked_now") >= 1
    });
    until("nobody else's is", || server.metric("danmaku_blocked_now") == 1);
    let before = server.metric("danmaku_bytes_received_total");
    let pings: Vec<u8> = (0..20).flat_map(|n| frame(FIN | PING, format!("ping {n}").as_bytes())).collect();
    asleep.send(&pings);
    until("the pings have arrived", || {
        server.metric("danmaku_bytes_received_total") >= before + pings.len() as u64
    });
    // The frame that is half-written goes first, and may be the last one.
    let (mut pongs, mut heard) = (Vec::new(), false);
    while pongs.last().is_none_or(|pong| pong != "ping 19") {
        let frame = asleep.next().expect("open");
        heard |= String::from_utf8_lossy(&frame.payload).contains(&talker.newest());
        if frame.opcode == 10 {
            pongs.push(String::from_utf8(frame.payload).expect("text"));
        }
    }
    assert_eq!(pongs, ["ping 19"]);
    if !heard {
        asleep.hears(&talker.newest());
    }
    // A socket that is not full answers each.
    asleep.send(&pings);
    for n in 0..20 {
        let pong = std::iter::from_fn(|| asleep.next()).find(|frame| frame.opcode == 10).expect("open");
        assert_eq!(pong.payload, format!("ping {n}").as_bytes());
    }
}

/// Readers that stop in the middle of a frame which then leaves the ring: what is kept for them has a bound.
#[test]
fn half_written_frames_of_slow_readers_have_a_bound() {
    let settings = [
        ("SLOW_CONSUMER__GRACE", "1h"),
        ("SLOW_CONSUMER__TAIL_BYTES_MAX", "1MiB"),
        ("ROOM__BACKLOG_BYTES", "64KiB"),
        ("FLUSH__SEAL_BYTES", "1MiB"),
    ];
    let server = start(&[&TALKATIVE[..], &settings].concat());
    let asleep: Vec<_> = (0..40).map(|_| RawSocket::join_narrow(server.address, "r1")).collect();
    let mut talkers: Vec<_> = ('a'..='d').map(|name| Talker::new(&server, name)).collect();
    until("half-written frames have reached their bound", || {
        // What arrives while the process stands still is one batch, and one frame far larger than a socket takes.
        server.signal(Signal::STOP);
        talkers.iter_mut().for_each(|talker| talker.talk(150));
        server.signal(Signal::CONT);
        talkers.iter_mut().for_each(Talker::hear);
        assert!(server.metric("danmaku_tail_bytes") <= 1 << 20);
        server.met("tail_bytes") >= 1
    });
    assert!(server.metric("danmaku_connections") >= 4, "whoever reads stays");
    drop(asleep);
}

#[test]
fn a_full_worker_opens_no_further_room() {
    let server = start(&[("SERVER__ROOMS_MAX", "1")]);
    let mut first = RawSocket::join(server.address, "r1", "");
    first.hears("\"joined\"");
    let mut second = RawSocket::join(server.address, "r2", "");
    assert!(second.hears("\"error\"").contains("too_many_rooms"));
    assert_eq!(second.end(), End::Code(1013));
    let comment = post("/api/v1/rooms/r3/danmaku", "", r#"{"id":"a","text":"hello"}"#);
    let refused = Exchange::new(server.address).send(comment).answer();
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_rooms"));
    assert_eq!(server.met("rooms"), 2);
    // Moving there is no way around it; whoever tries stays where it is.
    first.say(r#"{"join":{"room":"r2"}}"#);
    first.hears("\"too_many_rooms\"");
    first.say(r#"{"send":{"id":"b","text":"still here"}}"#);
    first.hears("\"ack\"");
    assert_eq!(server.met("rooms"), 3);
}

/// The rate of a user who wrote long ago is forgotten where others need the place.
#[test]
fn a_room_remembers_only_so_many_users() {
    let settings = [("LIMITS__USERS_MAX", "1"), ("LIMITS__USER_BURST", "1"), ("LIMITS__USER_PER_S", "0.001")];
    let server = start(&settings);
    let mut users: Vec<_> = (0..3).map(|_| RawSocket::join(server.address, "r1", "")).collect();
    let mut say = |user: usize, id: &str| {
        users[user].say(&json!({"send": {"id": id, "text": "hello"}}).to_string());
        users[user].hears(&format!("\"id\":\"{id}\"")).contains("\"ack\"")
    };
    assert!(say(0, "a") && !say(0, "b"), "a bucket of one");
    assert!(say(1, "c") && say(2, "d"), "others have their own");
    assert!(say(0, "e"), "the first was forgotten");
    until("it was counted", || server.met("users") >= 1);
}

/// Everything that a room holds against a comment, each by its code, with a time where waiting helps.
#[test]
fn a_comment_over_a_limit_is_refused_by_name() {
    let many = "a".repeat(11);
    for (limit, settings, texts, code, waits) in [
        ("text_chars", &[("LIMITS__TEXT_CHARS_MAX", "10")][..], vec![&*many], "text_too_long", false),
        ("text_bytes", &[("LIMITS__TEXT_BYTES_MAX", "10")], vec!["弹弹弹弹"], "text_too_long", false),
        (
            "user_rate",
            &[("LIMITS__USER_BURST", "1")],
            vec!["a", "b", "c", "d", "e", "f"],
            "rate_limited",
            true,
        ),
        (
            "room_rate",
            &[("LIMITS__ROOM_COUNT_MAX", "1"), ("LIMITS__ROOM_WINDOW", "1h")],
            vec!["a", "b"],
            "overloaded",
            true,
        ),
        ("ids", &[("IDEMPOTENCY__IDS_MAX", "1")], vec!["a", "b"], "ids_full", true),
    ] {
        let server = start(settings);
        let mut socket = RawSocket::join(server.address, "r1", "");
        let mut refused = Value::Null;
        for (text, id) in texts.iter().zip(["1", "2", "3", "4", "5", "6"]) {
            socket.say(&json!({"send": {"id": id, "text": text}}).to_string());
            let answer: Value =
                serde_json::from_str(&socket.hears(&format!("\"id\":\"{id}\""))).expect("JSON");
            refused = answer["error"].clone();
            if !refused.is_null() {
                break;
            }
        }
        assert_eq!(refused["code"], code, "{limit}");
        assert_eq!(refused["retryAfterMs"].as_u64().is_some_and(|ms| ms > 0), waits, "{limit}: {refused}");
        assert_eq!(server.met(limit), 1, "{limit}");
        assert_eq!(server.metric(&format!("danmaku_refused_total{{reason=\"{code}\"}}")), 1, "{limit}");
    }
}
