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

fn get(server: &Server, path: &str, shown: &str) -> Answer {
    ask(server, "GET", path, shown, &Value::Null)
}

/// Rooms are listed a page at a time and each once, a key for some sees those alone, and nothing is opened by asking.
#[test]
fn rooms_are_listed_and_described() {
    let server = start("3");
    let staff = server.staff_key();
    let mut members: Vec<_> =
        ["a", "b", "b", "c", "d"].map(|room| RawSocket::join(server.address, room, "")).into();
    members.iter_mut().for_each(|member| {
        member.hears("\"snapshot\"");
    });
    members[1].say(r#"{"send":{"id":"x","text":"hello"}}"#);
    members[1].hears("\"ack\"");
    let mut shown = Vec::new();
    let mut next = String::new();
    loop {
        let page = get(&server, &format!("/api/v1/rooms?limit=2{next}"), &staff).json();
        let items = page["items"].as_array().expect("items");
        assert!(items.len() <= 2);
        shown.extend(items.iter().map(|item| {
            (item["room"].as_str().expect("a name").to_owned(), item["online"].as_u64().expect("a count"))
        }));
        let Some(after) = page["next"].as_str() else { break };
        next = format!("&after={after}");
    }
    let expected = [("a", 1), ("b", 2), ("c", 1), ("d", 1)].map(|(room, n)| (room.to_owned(), n));
    assert_eq!(shown, expected);
    let some = key(&server, &["--scope", "rooms", "--room", "d", "--room", "b", "--room", "z"]);
    until("the key is known", || get(&server, "/api/v1/rooms", &some).status == 200);
    let page = get(&server, "/api/v1/rooms?limit=1", &some).json();
    assert_eq!(page, json!({ "items": [{ "room": "b", "online": 2 }], "next": "b" }));
    let page = get(&server, "/api/v1/rooms?after=b", &some).json();
    assert_eq!(page, json!({ "items": [{ "room": "d", "online": 1 }] }));
    assert_eq!(get(&server, "/api/v1/rooms/a", &some).code(), "forbidden");
    assert_eq!(get(&server, "/api/v1/stats", &some).code(), "forbidden");

    let room = get(&server, "/api/v1/rooms/b", &staff).json();
    assert_eq!((&room["room"], &room["online"], &room["seq"]), (&json!("b"), &json!(2), &json!(1)), "{room}");
    assert_eq!(get(&server, "/api/v1/rooms/z", &staff).code(), "room_not_found");
    assert_eq!(get(&server, "/api/v1/rooms/a%20b", &staff).code(), "room_invalid");
    for query in ["limit=0", "limit=501", "limit=x", "page=1"] {
        assert_eq!(get(&server, &format!("/api/v1/rooms?{query}"), &staff).code(), "bad_request", "{query}");
    }
    let stats = get(&server, "/api/v1/stats", &staff).json();
    assert_eq!(
        (&stats["rooms"], &stats["workers"], &stats["leaving"]),
        (&json!(4), &json!(3), &json!(false))
    );
    assert_eq!(stats["numbers"]["published"], 1, "{stats}");
    drop(members);
    until("rooms that nobody is in are not listed for ever", || {
        get(&server, "/api/v1/stats", &staff).json()["numbers"]["connections"] == 0
    });
}

/// What a user has spent is seen, and not spent by looking; sanctions against the user are told with it.
#[test]
fn what_limiters_know_of_a_user_is_told() {
    let rate = [("DANMAKU__LIMITS__USER_BURST", "5"), ("DANMAKU__LIMITS__USER_PER_S", "0.001")];
    let env: Vec<_> = [KEYS, ("DANMAKU__AUTH__ANONYMOUS", "true")].into_iter().chain(rate).collect();
    let server = Server::start_with(&["--workers", "2"], &env);
    let staff = server.staff_key();
    let path = "/api/v1/rooms/r1/users/u1/limits";
    assert_eq!(get(&server, path, &staff).code(), "room_not_found");
    let shown = format!("Authorization: Bearer {}\r\n", token("u1", "viewer"));
    let mut member = RawSocket::join(server.address, "r1", &shown);
    member.hears("\"snapshot\"");
    let tokens = || {
        let seen = get(&server, path, &staff).json();
        (seen["rate"]["tokens"].as_f64().expect("a rate").round(), seen["saidMsAgo"].is_u64())
    };
    assert_eq!(tokens(), (5.0, false));
    for id in ["a", "b"] {
        member.say(&json!({ "send": { "id": id, "text": "hello" } }).to_string());
        member.hears("\"ack\"");
    }
    for _ in 0..3 {
        assert_eq!(tokens(), (3.0, true));
    }
    let mute = json!({ "user": "u1", "ttlMs": 60_000 });
    assert_eq!(ask(&server, "POST", "/api/v1/rooms/r1/mutes", &staff, &mute).status, 201);
    let seen = get(&server, path, &staff).json();
    assert_eq!(seen["sanctions"][0]["measure"], "mute", "{seen}");
    assert_eq!(get(&server, "/api/v1/rooms/r1/users/u2/limits", &staff).json()["sanctions"], json!([]));
}

/// Keys are made by keys that can do as much, count at once, are listed without their secrets, and count no more when they
/// are revoked; who did it is in the audit.
#[test]
fn keys_are_made_listed_and_revoked() {
    let server = start("2");
    let staff = server.staff_key();
    let keys = "/api/v1/keys";
    let make = |shown: &str, body: &Value| ask(&server, "POST", keys, shown, body);
    let narrow = json!({ "name": "shop", "scopes": ["keys", "events"], "rooms": ["r1", "r2"] });
    let made = make(&staff, &narrow);
    assert_eq!(made.status, 201, "{made:?}");
    let shop = made.json()["key"].as_str().expect("a key").to_owned();
    for (body, status, code) in [
        (json!({ "name": "x", "scopes": ["events"], "rooms": ["r1"] }), 201, ""),
        (json!({ "name": "x", "scopes": ["events"] }), 403, "forbidden"),
        (json!({ "name": "x", "rooms": ["r1"] }), 403, "forbidden"),
        (json!({ "name": "x", "scopes": ["users"], "rooms": ["r1"] }), 403, "forbidden"),
        (json!({ "name": "x", "scopes": ["events"], "rooms": ["r3"] }), 403, "forbidden"),
        (json!({ "name": "", "scopes": ["events"], "rooms": ["r1"] }), 400, "bad_request"),
        (json!({ "scopes": ["events"], "rooms": ["r1"] }), 400, "bad_request"),
        (json!({ "name": "x", "scopes": ["events"], "rooms": ["r1"], "expiresInMs": 1 }), 400, "bad_request"),
    ] {
        let answer = make(&shop, &body);
        assert_eq!(answer.status, status, "{body} {answer:?}");
        assert!(status == 201 || answer.code() == code, "{body} {answer:?}");
    }
    assert_eq!(make(&staff, &json!({ "name": "x", "scopes": ["evnts"] })).code(), "bad_request");
    assert_eq!(make(&staff, &json!({ "name": "x", "rooms": ["a b"] })).code(), "bad_request");
    let listed = get(&server, keys, &shop);
    let items = listed.json()["items"].as_array().expect("items").clone();
    assert_eq!(items.len(), 2, "its own and the one that it made: {listed:?}");
    let everything = get(&server, keys, &staff);
    for secret in [&shop, &staff] {
        let secret = secret.rsplit('_').next().expect("a secret");
        assert!(!everything.body.contains(secret) && !everything.body.contains("sha256"), "{everything:?}");
    }
    assert_eq!(
        ask(&server, "POST", EVENTS, &shop, &json!({ "type": "gift" })).status,
        200,
        "it counts at once"
    );
    let id = |key: &str| key.split('_').nth(1).expect("an id").to_owned();
    let revoke = |shown: &str, id: &str| ask(&server, "DELETE", &format!("{keys}/{id}"), shown, &Value::Null);
    assert_eq!(revoke(&shop, &id(&staff)).code(), "forbidden");
    assert_eq!(revoke(&shop, "nobody").code(), "not_found");
    assert_eq!(revoke(&staff, &id(&shop)).status, 204);
    assert_eq!(ask(&server, "POST", EVENTS, &shop, &json!({ "type": "gift" })).status, 401, "not any more");
    let audit = get(&server, "/api/v1/audit", &staff).json();
    let done: Vec<_> = audit["items"].as_array().expect("items").iter().map(|item| &item["action"]).collect();
    assert_eq!(done, ["add_key", "add_key", "revoke_key"], "{audit}");
    assert!(!audit.to_string().contains(shop.rsplit('_').next().expect("a secret")));
}

/// A broadcast is in every room once, a few rooms at a time, and tells how far it has come; only so many are under way.
#[test]
fn a_broadcast_reaches_every_room_a_few_at_a_time() {
    let slow = [("DANMAKU__API__BROADCASTS_MAX", "1"), ("DANMAKU__API__BROADCAST_ROOMS_PER_S", "20")];
    let env: Vec<_> = [KEYS, ("DANMAKU__AUTH__ANONYMOUS", "true")].into_iter().chain(slow).collect();
    let server = Server::start_with(&["--workers", "3"], &env);
    let staff = server.staff_key();
    let mut members: Vec<_> = (0..8).map(|n| RawSocket::join(server.address, &format!("r{n}"), "")).collect();
    for member in &mut members {
        member.hears("\"snapshot\"");
    }
    let notice = json!({ "type": "system", "id": "n-1", "data": { "text": "back in a minute" } });
    let begin = || ask(&server, "POST", "/api/v1/broadcast", &staff, &notice);
    let begun = begin();
    assert_eq!((begun.status, &begun.json()["state"]), (202, &json!("running")), "{begun:?}");
    let busy = begin();
    assert_eq!((busy.status, busy.code()), (429, "rate_limited".to_owned()));
    assert!(busy.header("retry-after").is_some());
    for member in &mut members {
        let told: Value = serde_json::from_str(&member.hears("\"system\"")).expect("JSON");
        assert_eq!(told["batch"]["items"][0]["data"], notice["data"]);
    }
    let progress = |id: &str| get(&server, &format!("/api/v1/broadcasts/{id}"), &staff);
    until("it is done", || progress("b1").json()["state"] == "done");
    assert_eq!(progress("b1").json()["reached"], 8);
    // Asked again it is the same event everywhere.
    assert_eq!(begin().status, 202);
    until("it is done again", || progress("b2").json()["state"] == "done");
    assert_eq!(get(&server, "/api/v1/rooms/r3", &staff).json()["seq"], 1);
    assert_eq!(progress("b9").code(), "not_found");
    until("the limit is counted", || server.met("broadcasts") == 1);
    let some = key(&server, &["--scope", "events", "--room", "r1"]);
    until("the key is known", || get(&server, "/api/v1/broadcasts/b1", &some).status == 403);
    assert_eq!(ask(&server, "POST", "/api/v1/broadcast", &some, &notice).code(), "forbidden");
}
