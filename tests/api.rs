//! The back-end API on the wire: events in rooms, who may push them, and what it says of itself.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::process::Command;

use danmaku_wire::entry::EVENT_DATA_BYTES_MAX;
use exchange::{Answer, Exchange, post};
use raw_socket::RawSocket;
use serde_json::{Value, json};
use support::{Server, until};

const EVENTS: &str = "/api/v1/rooms/r1/events";
const KEYS: (&str, &str) =
    ("DANMAKU__AUTH__KEYS", r#"[{id="k1", secret="a secret of at least thirty-two bytes"}]"#);

fn start(workers: &str) -> Server {
    Server::start_with(&["--workers", workers], &[KEYS, ("DANMAKU__AUTH__ANONYMOUS", "true")])
}

fn ask(server: &Server, method: &str, path: &str, shown: &str, body: &Value) -> Answer {
    ask_with(server, method, path, shown, "", body)
}

fn ask_with(server: &Server, method: &str, path: &str, shown: &str, headers: &str, body: &Value) -> Answer {
    let shown = if shown.is_empty() { String::new() } else { format!("Authorization: Bearer {shown}\r\n") };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = post(path, &format!("{shown}{headers}"), &body);
    Exchange::new(server.address).send(request.replacen("POST", method, 1)).answer()
}

fn push(server: &Server, body: &Value) -> Answer {
    ask(server, "POST", EVENTS, &server.staff_key(), body)
}

/// A key that is made while the server runs.
fn key(server: &Server, args: &[&str]) -> String {
    let data = server.data_dir();
    let data = data.to_str().expect("a path");
    let args = [&["key", "add", "--data-dir", data, "test"], args].concat();
    let made = Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).output().expect("it runs");
    String::from_utf8(made.stdout).expect("text").trim().to_owned()
}

fn token(name: &str, role: &str) -> String {
    let args = ["token", "--user", name, "--role", role, "--global"];
    let made = Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).envs([KEYS]).output();
    String::from_utf8(made.expect("it runs").stdout).expect("text").trim().to_owned()
}

/// An event is seen by members on every worker in every encoding, is in the snapshot of whoever comes later, and takes its
/// place among the comments.
#[test]
fn an_event_reaches_the_room_like_a_comment() {
    let server = start("3");
    let mut members: Vec<_> = (0..4).map(|_| RawSocket::join(server.address, "r1", "")).collect();
    for member in &mut members {
        member.hears("\"snapshot\"");
    }
    let gift = json!({
        "type": "gift", "id": "g-1", "priority": "high",
        "user": { "id": "u1", "name": "Ann", "role": "vip", "level": 7 },
        "data": { "gift": "rocket", "count": 3, "note": "line\nbreak" },
    });
    let answer = push(&server, &gift);
    assert_eq!((answer.status, answer.json()), (200, json!({ "seq": 1 })), "{answer:?}");
    for member in &mut members {
        let told: Value = serde_json::from_str(&member.hears("\"gift\"")).expect("JSON");
        let item = &told["batch"]["items"][0];
        assert_eq!(item["type"], "gift");
        assert_eq!(item["data"], gift["data"]);
        assert_eq!(item["user"], gift["user"]);
    }
    members[0].say(r#"{"send":{"id":"a","text":"wow"}}"#);
    assert!(members[0].hears("\"ack\"").contains("\"seq\":2"));
    let mut late = RawSocket::join(server.address, "r1", "");
    let shown: Value = serde_json::from_str(&late.hears("\"snapshot\"")).expect("JSON");
    let items = shown["snapshot"]["items"].as_array().expect("items");
    assert_eq!(
        (items[0]["type"].as_str(), items[1]["text"].as_str()),
        (Some("gift"), Some("wow")),
        "{shown}"
    );
    // What has no line of its own cannot end one in an event stream.
    let mut stream = Exchange::new(server.address);
    stream.send(format!("GET {EVENTS} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let told = stream.reads("rocket");
    assert!(told.contains("\"note\":\"line\\nbreak\""), "{told}");
    assert_eq!(server.metric("danmaku_events_pushed_total"), 1);
}

/// Pushed again under its id it is the same event; another one under it is refused. `Idempotency-Key` and `id` are the
/// same thing.
#[test]
fn an_event_happens_once_under_its_id() {
    let server = start("2");
    let staff = server.staff_key();
    let gift = |count: u32| json!({ "type": "gift", "data": { "count": count } });
    let under = |key: &str, body: &Value| {
        ask_with(&server, "POST", EVENTS, &staff, &format!("Idempotency-Key: {key}\r\n"), body)
    };
    assert_eq!(under("g-1", &gift(1)).json()["seq"], 1);
    assert_eq!(under("\"g-1\"", &gift(1)).json()["seq"], 1);
    let mut same = gift(1);
    same["id"] = "g-1".into();
    assert_eq!(push(&server, &same).json()["seq"], 1);
    let other = under("g-1", &gift(2));
    assert_eq!((other.status, other.code()), (409, "id_reused".to_owned()));
    assert_eq!(under("g-2", &gift(1)).json()["seq"], 2);
    assert_eq!(push(&server, &gift(1)).json()["seq"], 3);
    assert_eq!(push(&server, &gift(1)).json()["seq"], 4, "without an id it is new each time");
    assert_eq!(under("g-3", &same).code(), "bad_request", "two ids");
}

/// Whoever may not push is told so before anything is read of what they push.
#[test]
fn events_are_pushed_by_keys_for_them_and_by_staff() {
    let server = start("1");
    let body = json!({ "type": "gift" });
    let narrow = key(&server, &["--scope", "events", "--room", "r1"]);
    let elsewhere = key(&server, &["--scope", "events", "--room", "r2"]);
    let tickets = key(&server, &["--scope", "tickets"]);
    for (who, shown, status) in [
        ("nobody", String::new(), 401),
        ("no key", "dk_no_key".to_owned(), 401),
        ("no token", "a.b.c".to_owned(), 401),
        ("a viewer", token("u1", "viewer"), 403),
        ("a moderator", token("u2", "moderator"), 403),
        ("a key for tickets", tickets, 403),
        ("a key for another room", elsewhere, 403),
        ("a key for it", narrow, 200),
        ("staff", token("u3", "staff"), 200),
    ] {
        // Keys that were just made are read within a second.
        until(who, || ask(&server, "POST", EVENTS, &shown, &body).status == status);
        if status != 200 {
            let answer = ask(&server, "POST", EVENTS, &shown, &json!("no event"));
            assert_eq!(answer.status, status, "{who}: {answer:?}");
            assert_eq!(answer.header("www-authenticate").is_some(), status == 401, "{who}");
        }
    }
}

/// What is no event is refused by name, and a connection goes on after a refusal.
#[test]
fn what_is_no_event_is_refused() {
    let server = start("1");
    let long = "x".repeat(EVENT_DATA_BYTES_MAX);
    for (body, status, code) in [
        (json!({}), 400, "bad_request"),
        (json!({ "type": "Gift" }), 400, "bad_request"),
        (json!({ "type": "retract" }), 400, "bad_request"),
        (json!({ "type": "gift", "seq": 1 }), 400, "bad_request"),
        (json!({ "type": "gift", "priority": "highest" }), 400, "bad_request"),
        (json!({ "type": "gift", "user": { "id": "" } }), 400, "bad_request"),
        (json!({ "type": "gift", "user": { "id": "u1", "role": "system" } }), 400, "bad_request"),
        (json!({ "type": "gift", "id": "x".repeat(65) }), 400, "id_invalid"),
        (json!({ "type": "gift", "data": long }), 400, "data_too_long"),
        (json!({ "type": "gift", "data": long.repeat(9) }), 413, "body_too_long"),
    ] {
        let answer = push(&server, &body);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{body}");
    }
    let staff = server.staff_key();
    let answer = ask(&server, "POST", "/api/v1/rooms/r%201/events", &staff, &json!({ "type": "gift" }));
    assert_eq!(answer.code(), "room_invalid");
    let shown = format!("Authorization: Bearer {staff}\r\n");
    let mut exchange = Exchange::new(server.address);
    for (kind, seq) in [("GIFT", None), ("gift", Some(1)), ("gift", Some(2))] {
        let body = json!({ "type": kind }).to_string();
        let answer = exchange.send(post(EVENTS, &shown, &body)).answer();
        assert_eq!(answer.json()["seq"].as_u64(), seq, "{answer:?}");
    }
}

/// The description is there for everybody, names what it describes, and is read only.
#[test]
fn the_description_is_read_by_everybody() {
    let server = start("1");
    let answer = ask(&server, "GET", "/api/v1/openapi.json", "", &Value::Null);
    assert_eq!(answer.status, 200);
    let described = answer.json();
    assert!(described["openapi"].as_str().is_some_and(|version| version.starts_with("3.")), "{described}");
    assert_eq!(
        described["paths"]["/api/v1/rooms/{room}/events"]["post"]["security"][0],
        json!({ "bearer": [] })
    );
    assert!(described.get("servers").is_none(), "no address that somebody else chose: {described}");
    let answer = ask(&server, "DELETE", "/api/v1/openapi.json", "", &Value::Null);
    assert_eq!((answer.status, answer.code()), (405, "method_not_allowed".to_owned()));
    assert!(answer.header("allow").is_some_and(|allow| allow.contains("GET")), "{answer:?}");
}
