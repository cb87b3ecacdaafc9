//! `POST …/danmaku`: a comment over HTTP goes the way of one over a socket, and is refused for the same reasons.

#[path = "support/exchange.rs"]
mod exchange;
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use danmaku::config::{Config, Flags};
use danmaku::identity::claims::{Claims, Rules};
use danmaku::identity::token;
use danmaku::store::memory::{Bounds, MemoryStore};
use danmaku_room::store::{Append, Durability, Loaded, Progress, Promise, Store};
use danmaku_wire::entry::Body;
use danmaku_wire::id::RoomId;
use exchange::{Answer, Exchange, post};
use serde_json::json;
use support::Server;

const PATH: &str = "/api/v1/rooms/r1/danmaku";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn say(address: SocketAddr, room: &str, headers: &str, id: &str, text: &str) -> Answer {
    let body = json!({"id": id, "text": text}).to_string();
    Exchange::new(address).send(post(&format!("/api/v1/rooms/{room}/danmaku"), headers, &body)).answer()
}

/// An event stream of a room; what it told first.
fn listen(address: SocketAddr, room: &str) -> (Exchange, serde_json::Value) {
    let mut events = Exchange::new(address);
    events.send(format!("GET /api/v1/rooms/{room}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let told = events.reads("\"snapshot\"");
    let joined =
        told.lines().find_map(|line| line.strip_prefix("data: ").filter(|l| l.contains("\"joined\"")));
    let joined = serde_json::from_str(joined.expect("joined")).expect("JSON");
    (events, joined)
}

/// Rooms with and without anybody in them, owned by the worker that is asked and by others.
#[test]
fn a_comment_over_http_gets_its_number_and_is_seen() {
    let server = Server::start(&["--workers", "3"]);
    for n in 0..9 {
        let room = format!("room-{n}");
        let first = say(server.address, &room, "", "a", "nobody is here");
        assert_eq!((first.status, first.json()), (200, json!({"ack": {"id": "a", "seq": 1}})), "{first:?}");
        assert_eq!(first.header("content-type"), Some("application/json"));
        assert_eq!(first.header("cache-control"), Some("no-store"));
        let (mut events, joined) = listen(server.address, &room);
        assert_eq!(joined["joined"]["seq"], 1);
        let second = say(server.address, &room, "", "b", "somebody is");
        assert_eq!(second.json()["ack"]["seq"], 2);
        let told = events.reads("somebody is");
        assert!(told.contains("nobody is here"), "the snapshot has it: {told}");
        // Over a socket it would be the same: the same id has the same answer, and another text is refused.
        assert_eq!(say(server.address, &room, "", "b", "somebody is").json()["ack"]["seq"], 2);
        let reused = say(server.address, &room, "", "b", "something else");
        assert_eq!((reused.status, reused.code().as_str()), (409, "id_reused"));
        assert_eq!(reused.header("retry-after"), None);
    }
}

/// What a head may be refused for, before any body is read.
#[test]
fn what_cannot_be_a_comment_is_refused_with_its_own_status() {
    let server = Server::start(&["--workers", "1"]);
    let good = r#"{"id":"a","text":"hello"}"#;
    let long = json!({"id": "a", "text": "x".repeat(17 << 10)}).to_string();
    let chunked = |body: &str| {
        format!(
            "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        )
    };
    let plain = |kind: &str| {
        format!(
            "POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {}\r\n\r\n{good}",
            good.len()
        )
    };
    for (request, status, code) in [
        (format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405, "method_not_allowed"),
        (
            format!("PUT {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"),
            405,
            "method_not_allowed",
        ),
        (post("/api/v1/rooms/a.b/danmaku", "", good), 400, "room_invalid"),
        (post("/api/v1/rooms//danmaku", "", good), 400, "room_invalid"),
        (plain(""), 415, "unsupported_media_type"),
        (plain("Content-Type: text/plain\r\n"), 415, "unsupported_media_type"),
        (plain("Content-Type: application/jsonp\r\n"), 415, "unsupported_media_type"),
        (post(PATH, "Content-Encoding: gzip\r\n", good), 415, "unsupported_media_type"),
        (post(PATH, "Expect: a-miracle\r\n", good), 417, "expectation_failed"),
        (post(PATH, "", &long), 413, "body_too_long"),
        (chunked(&long), 413, "body_too_long"),
        (
            format!(
                "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
            ),
            400,
            "bad_request",
        ),
        (post(PATH, "Authorization: Basic abc\r\n", good), 401, "token_invalid"),
        (post(PATH, "Authorization: Bearer abc\r\n", good), 401, "token_invalid"),
        (post(PATH, "Origin: https://evil.example\r\n", good), 403, "origin_not_allowed"),
        (post(PATH, "", ""), 400, "bad_request"),
        (post(PATH, "", "{"), 400, "bad_request"),
        (post(PATH, "", "[]"), 400, "bad_request"),
        (post(PATH, "", r#"{"send":{"id":"a","text":"hello"}}"#), 400, "text_empty"),
        (post(PATH, "", r#"{"id":"a","text":"hello"},"join":{"room":"r2"}"#), 400, "bad_request"),
        (post(PATH, "", r#"{"id":"a","text":1}"#), 400, "bad_request"),
        (post(PATH, "", r#"{"id":"a","text":"hello","mode":"spin"}"#), 400, "bad_request"),
        (post(PATH, "", r#"{"id":"a","text":"a","text":"b"}"#), 400, "bad_request"),
        (post(PATH, "", r#"{"id":"a","text":"\u0007"}"#), 400, "text_invalid"),
        (post(PATH, "", &json!({"id": "a", "text": "x".repeat(101)}).to_string()), 400, "text_too_long"),
        (post(PATH, "", &json!({"id": "x".repeat(65), "text": "a"}).to_string()), 400, "id_invalid"),
    ] {
        let answer = Exchange::new(server.address).send(&request).answer();
        let shown: String = request.chars().take(300).collect();
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{shown}: {answer:?}");
    }
    // None of them was taken, and all that a comment may be is.
    for request in [
        plain("Content-Type: application/json; charset=utf-8\r\n"),
        chunked(r#"{"id":"b","text":"hello","mode":"top","color":255,"size":30,"streamMs":5,"later":{}}"#),
        post(PATH, "Content-Encoding: identity\r\n", r#"{"text":"without an id"}"#),
    ]
    .iter()
    .zip(1..)
    .map(|(request, seq)| (request.clone(), seq))
    {
        let answer = Exchange::new(server.address).send(&request.0).answer();
        assert_eq!(answer.json()["ack"]["seq"], request.1, "{answer:?}");
    }
}

/// `Expect: 100-continue`: whoever asks is told to go on, and is not where it would be in vain.
#[test]
fn who_asks_before_sending_a_body_is_answered_first() {
    let server = Server::start(&["--workers", "1"]);
    let body = r#"{"id":"a","text":"hello"}"#;
    let head = |path: &str| {
        let whole = post(path, "Expect: 100-continue\r\n", body);
        whole[..whole.len() - body.len()].to_owned()
    };
    let mut good = Exchange::new(server.address);
    assert_eq!(good.send(head(PATH)).answer().status, 100);
    assert_eq!(good.send(body).answer().json()["ack"]["seq"], 1);
    let mut bad = Exchange::new(server.address);
    let refused = bad.send(head("/api/v1/rooms/a.b/danmaku")).answer();
    assert_eq!((refused.status, refused.code().as_str()), (400, "room_invalid"));
    assert_eq!(refused.header("connection"), Some("close"), "what comes next could be the body");
    bad.closed();
}

/// A body that comes too slowly is given up; one that is far too long hears why before the connection ends.
#[test]
fn a_body_that_does_not_come_or_does_not_end_is_given_up() {
    let server = Server::start_with(&["--workers", "1"], &[("DANMAKU__WEBSOCKET__HANDSHAKE", "300ms")]);
    let whole = post(PATH, "", r#"{"id":"a","text":"hello"}"#);
    let mut slow = Exchange::new(server.address);
    let late = slow.send(&whole[..whole.len() - 3]).answer();
    assert_eq!((late.status, late.code().as_str()), (408, "request_timeout"));
    slow.closed();
    let mut endless = Exchange::new(server.address);
    endless.send(format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
    ));
    let refused = endless.send("x".repeat(900_000)).answer();
    assert_eq!((refused.status, refused.code().as_str()), (413, "body_too_long"));
    endless.closed();
    assert_eq!((server.met("body_time"), server.met("body_bytes")), (1, 1));
}

/// A guest who shows nothing is its address; one who shows its signed id is who it was; a user is who the token says.
#[test]
fn a_guest_is_limited_as_one_whatever_connections_it_uses() {
    let secret = format!("[{{id = \"k\", secret = \"{SECRET}\"}}]");
    let env = [
        ("DANMAKU__LIMITS__USER_BURST", "3"),
        ("DANMAKU__LIMITS__USER_PER_S", "0.001"),
        ("DANMAKU__AUTH__KEYS", &*secret),
        ("DANMAKU__AUTH__ANONYMOUS", "true"),
    ];
    let server = Server::start_with(&["--workers", "2"], &env);
    let (mut events, joined) = listen(server.address, "r1");
    for n in 0..3 {
        assert_eq!(say(server.address, "r1", "", &n.to_string(), "by address").status, 200);
    }
    let limited = say(server.address, "r1", "", "3", "by address");
    assert_eq!((limited.status, limited.code().as_str()), (429, "rate_limited"));
    let ms = limited.json()["retryAfterMs"].as_u64().expect("when");
    assert!((1..=1_000_000).contains(&ms), "{ms}");
    assert_eq!(limited.header("retry-after"), Some(&*ms.div_ceil(1_000).to_string()));
    // An id that was not signed here is nobody's.
    let forged =
        say(server.address, "r1", "Authorization: Bearer ~1.AAAAAAAAAAAAAAAAAAAAAA\r\n", "4", "forged");
    assert_eq!(forged.status, 429, "it is the address's guest");

    let you = &joined["joined"]["you"];
    let (id, signed) = (you["id"].as_str().expect("an id"), you["guest"].as_str().expect("a signed id"));
    let mine = format!("Authorization: Bearer {signed}\r\n");
    assert_eq!(say(server.address, "r1", &mine, "5", "by the stream's guest").status, 200);
    assert!(events.reads("by the stream's guest").contains(&format!("\"user\":{{\"id\":\"{id}\"}}")));
    // Who comes back with it is welcomed by the same name, over a socket as well.
    let mut again = Exchange::new(server.address);
    again.send(format!("GET /api/v1/rooms/r1/events HTTP/1.1\r\nHost: localhost\r\n{mine}\r\n"));
    assert!(again.reads("\"joined\"").contains(&format!("{{\"id\":\"{id}\",\"guest\":\"{signed}\"}}")));

    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let key = serde_json::from_value(json!({"id": "k", "secret": SECRET})).expect("a key");
    let claims =
        Claims { sub: "u1".into(), exp: (now_s + 600) as f64, name: "Ann".into(), ..Claims::default() };
    let token = token::sign(&claims, &key, &Rules::default(), now_s).expect("signed");
    let user = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(say(server.address, "r1", &user, "6", "by a user").status, 200);
    assert!(events.reads("by a user").contains("\"user\":{\"id\":\"u1\",\"name\":\"Ann\"}"));
}

/// Where guests may not write, a comment needs a token.
#[test]
fn where_guests_are_not_let_in_a_comment_needs_a_token() {
    let keys = format!("[{{id = \"k\", secret = \"{SECRET}\"}}]");
    let server = Server::start_with(&["--workers", "1"], &[("DANMAKU__AUTH__KEYS", &keys)]);
    for headers in ["", "Authorization: Bearer ~1.AAAAAAAAAAAAAAAAAAAAAA\r\n"] {
        let refused = say(server.address, "r1", headers, "a", "hello");
        assert_eq!((refused.status, refused.code().as_str()), (401, "unauthorized"));
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
}

/// A page elsewhere may send where it is on the list, and may read the refusals too.
#[test]
fn a_page_on_the_list_may_send_and_read_what_comes_back() {
    let origins = [("DANMAKU__HTTP__ORIGINS", "[\"https://live.example\"]")];
    let server = Server::start_with(&["--workers", "1"], &origins);
    let page = "Origin: https://live.example\r\n";
    let asked = format!(
        "OPTIONS {PATH} HTTP/1.1\r\nHost: localhost\r\n{page}Access-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: content-type\r\n\r\n"
    );
    let preflight = Exchange::new(server.address).send(asked).answer();
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://live.example"));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("POST"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("authorization, content-type"));
    assert_eq!(preflight.header("allow"), Some("POST, OPTIONS"));
    for (id, text, status) in [("a", "hello", 200), ("a", "other", 409), ("b", "", 400)] {
        let answer = say(server.address, "r1", page, id, text);
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://live.example"), "{answer:?}");
        assert_eq!(answer.header("vary"), Some("Origin"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
}

/// Requests that are sent before the first is answered are answered in their order.
#[test]
fn pipelined_comments_are_answered_in_their_order() {
    let server = Server::start(&["--workers", "3"]);
    let mut pipe = Exchange::new(server.address);
    let mut all = String::new();
    for n in 0..9 {
        let body = json!({"id": n.to_string(), "text": "one of many"}).to_string();
        all.push_str(&post(&format!("/api/v1/rooms/pipe-{}/danmaku", n % 3), "", &body));
    }
    pipe.send(all);
    for n in 0..9 {
        let answer = pipe.answer();
        assert_eq!(answer.json(), json!({"ack": {"id": n.to_string(), "seq": n / 3 + 1}}));
    }
}

/// A room that has all it may have sheds load, and says for how long.
#[test]
fn a_full_room_sheds_comments_over_http_too() {
    let env = [("DANMAKU__LIMITS__ROOM_COUNT_MAX", "2"), ("DANMAKU__LIMITS__ROOM_WINDOW", "1h")];
    let server = Server::start_with(&["--workers", "1"], &env);
    for n in 0..2 {
        assert_eq!(say(server.address, "r1", "", &n.to_string(), "hello").status, 200);
    }
    let shed = say(server.address, "r1", "", "2", "hello");
    assert_eq!((shed.status, shed.code().as_str()), (503, "overloaded"));
    assert!(shed.header("retry-after").is_some() && shed.json()["retryAfterMs"].is_u64(), "{shed:?}");
    assert_eq!(server.metric("danmaku_refused_total{reason=\"overloaded\"}"), 1);
}

/// A server that is told to go has answers for the requests that it has taken up, and says that they are the last.
#[test]
fn a_request_that_is_under_way_is_answered_before_the_server_goes() {
    let mut server = Server::start(&["--workers", "2"]);
    let whole = post(PATH, "", r#"{"id":"a","text":"hello"}"#);
    let (head, tail) = whole.split_at(whole.len() - 3);
    let mut before = Exchange::new(server.address);
    before.send(post(PATH, "", r#"{"id":"b","text":"before"}"#));
    assert_eq!(before.answer().header("connection"), None);
    let mut underway = Exchange::new(server.address);
    // What asks to go on has been taken up.
    underway.send(head.replacen("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1));
    assert_eq!(underway.answer().status, 100);
    server.terminate();
    support::until("nobody is let in", || std::net::TcpStream::connect(server.address).is_err());
    underway.send(tail);
    let answer = underway.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{answer:?}");
    assert_eq!(answer.json(), json!({"ack": {"id": "a", "seq": 2}}));
    underway.closed();
    assert_eq!(server.wait(), Some(0));
}

/// A store that does what a comment's text says.
struct Scripted(MemoryStore, AtomicBool);

impl Store for Scripted {
    fn load(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        self.0.load(room, durability, answer);
    }

    fn look(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        self.0.look(room, durability, answer);
    }

    fn append(&self, append: Append, progress: &Arc<Progress>) {
        let says = |word: &str| {
            append.entries.iter().any(|e| matches!(&e.body, Body::Comment(c) if &*c.text == word))
        };
        assert!(!says("panic"), "the test asked for it");
        self.1.fetch_or(says("stall"), Ordering::Relaxed);
        if says("fail") {
            progress.fail_to(append.entries.last().map_or(0, |e| e.seq));
        } else if !self.1.load(Ordering::Relaxed) {
            self.0.append(append, progress);
        }
    }
}

/// A server of this process, whose store does what comments say.
fn with_scripted_store(settings: &[(&str, &str)]) -> danmaku::serve::Server {
    let any = Some("127.0.0.1:0".parse().expect("an address"));
    let flags = Flags { listen: any, admin_listen: any, workers: Some(2), data_dir: None };
    let env = [("LIMITS__USER_MODE", "off"), ("LIMITS__ROOM_MODE", "off"), ("HTTP__ANSWER_WITHIN", "4s")];
    let env = env.iter().chain(settings).map(|(key, value)| (format!("DANMAKU__{key}"), (*value).to_owned()));
    let config = Config::load(None, env, &flags).expect("a good configuration");
    let bounds = Bounds { rooms_max: 100, entries_max: 100, ids_max: 100, ids_ms: 60_000, epochs_max: 16 };
    let store = Arc::new(Scripted(MemoryStore::new(bounds), AtomicBool::new(false)));
    danmaku::serve::Server::start_with(config, store).expect("started")
}

/// The breaker: a room whose store stands still sheds its crowd before the store is given up, and says for how long and
/// by which rule.
#[test]
fn a_room_whose_store_stands_still_sheds_its_crowd() {
    let server = with_scripted_store(&[]);
    let body = json!({"id": "d", "text": "stall"}).to_string();
    let mut waiting = Exchange::new(server.listen);
    waiting.send(post("/api/v1/rooms/r2/danmaku", "", &body));
    let mut asked = Vec::new();
    let shed = (0..150)
        .filter_map(|n| {
            let mut one = Exchange::new(server.listen);
            let body = json!({"id": format!("e{n}"), "text": "hello"}).to_string();
            one.send(post("/api/v1/rooms/r2/danmaku", "", &body));
            let answered = one.answers_within(std::time::Duration::from_millis(200));
            asked.push(one);
            answered.then(|| asked.pop().expect("just pushed").answer())
        })
        .find(|answer| answer.status != 200)
        .expect("a store that stands still is noticed");
    assert_eq!((shed.status, shed.code().as_str()), (503, "overloaded"));
    assert_eq!(shed.json()["rule"], "breaker");
    assert!(shed.json()["retryAfterMs"].as_u64().is_some_and(|ms| (1..=8_000).contains(&ms)), "{shed:?}");
    server.stop();
    server.join();
}

/// Whatever becomes of a comment, the request that brought it hears of it.
#[test]
fn a_request_hears_of_a_store_that_fails_or_stands_still() {
    // Otherwise the room's breaker would shed what this is about.
    let server = with_scripted_store(&[("LIMITS__BREAKER_MODE", "off")]);

    assert_eq!(say(server.listen, "r1", "", "a", "one").json()["ack"]["seq"], 1);
    let lost = say(server.listen, "r1", "", "b", "fail");
    assert_eq!((lost.status, lost.code().as_str()), (500, "not_stored"));
    assert_eq!((&lost.json()["seq"], &lost.json()["shown"]), (&json!(2), &json!(true)));
    let failed = say(server.listen, "r1", "", "c", "panic");
    assert_eq!((failed.status, failed.code().as_str()), (503, "unavailable"));
    assert_eq!(failed.header("retry-after"), Some("1"));
    assert_eq!(say(server.listen, "r1", "", "c", "again").status, 200, "the room goes on");

    // The first has no fate as long as the store stands still; once that is known, others are told so at once.
    let body = json!({"id": "d", "text": "stall"}).to_string();
    let mut waiting = Exchange::new(server.listen);
    waiting.send(post("/api/v1/rooms/r2/danmaku", "", &body));
    let mut asked = Vec::new();
    let refused = (0..150)
        .filter_map(|n| {
            let mut one = Exchange::new(server.listen);
            let body = json!({"id": format!("e{n}"), "text": "hello"}).to_string();
            one.send(post("/api/v1/rooms/r2/danmaku", "", &body));
            let answered = one.answers_within(std::time::Duration::from_millis(200));
            asked.push(one);
            answered.then(|| asked.pop().expect("just pushed").answer())
        })
        // The first may overtake the one that makes the store stand still: they are other connections.
        .find(|answer| answer.status != 200)
        .expect("a store that stands still is noticed");
    assert_eq!((refused.status, refused.code().as_str()), (503, "store_unavailable"));
    assert!(refused.header("retry-after").is_some());
    let given_up = waiting.answer();
    assert_eq!((given_up.status, given_up.code().as_str()), (503, "unavailable"));
    let metrics =
        Exchange::new(server.admin).send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").answer().body;
    let counter = format!("danmaku_limit_met_total{{limit={:?}}} ", "answer_time");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&counter));
    assert!(count.is_some_and(|count| count != "0"), "{count:?}");
    server.stop();
    server.join();
}
