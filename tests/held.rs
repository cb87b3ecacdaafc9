//! Held comments on the wire: told to staff alone, decided by those who may, shown once.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/person.rs"]
mod person;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::time::{Duration, Instant};

use exchange::{Answer, Exchange, post};
use person::{Person, start, token};
use serde_json::{Value, json};
use support::{Scratch, Server, until};

const MODERATOR: [&str; 3] = ["--role", "moderator", "--global"];

fn get(server: &Server, path: &str, key: &str) -> Answer {
    let request = format!(
        "GET /api/v1/rooms/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
    );
    Exchange::new(server.address).send(request).answer()
}

fn decide(server: &Server, path: &str, key: &str) -> Answer {
    let request = format!(
        "POST /api/v1/rooms/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 0\r\n\r\n"
    );
    Exchange::new(server.address).send(request).answer()
}

fn is_held(ack: &Value) {
    assert_eq!((ack["state"].as_str(), ack["seq"].is_null()), (Some("held"), true), "{ack}");
}

/// A held comment: its author is told so, staff sees it wherever it is connected, nobody else does. Let out it has the
/// next number; refused it never comes. Each is decided once, by those who may.
#[test]
fn a_held_comment_is_seen_by_staff_and_decided_once() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", "bet hold\n");
    let server = start(&[("WORDS__LISTS", &format!("[{list:?}]")), ("ROOM__SPREAD_MEMBERS", "0")]);
    // On whichever worker took them: both have staff, as a rule.
    let mut staff: Vec<_> =
        (0..4).map(|n| Person::user(&server, "r1", &format!("m{n}"), &MODERATOR)).collect();
    let mut witness = Person::user(&server, "r1", "w", &[]);
    let mut author = Person::user(&server, "r1", "u1", &["--name", "Ann"]);
    let id = author.sends("place a bet");
    is_held(&author.fate(&id));
    author.repeats(&id, "place a bet");
    is_held(&author.fate(&id));
    let mut names = Vec::new();
    for moderator in &mut staff {
        let pending = moderator.hears("\"pending\"")["pending"].clone();
        assert_eq!((&pending["text"], &pending["reason"]), (&json!("place a bet"), &json!("words")));
        assert_eq!((&pending["user"]["id"], &pending["user"]["name"]), (&json!("u1"), &json!("Ann")));
        assert!(pending["releaseInMs"].is_null() && pending["at"].as_u64().is_some(), "{pending}");
        names.push(pending["id"].as_str().expect("a name").to_owned());
    }
    names.dedup();
    let [first] = &names[..] else { panic!("{names:?}") };
    is_held(&author.says("another bet"));
    let second = staff[0].hears("another bet")["pending"]["id"].as_str().expect("a name").to_owned();

    let key = server.new_key("moderation", &["r1"]);
    until("the key is known", || get(&server, "r1/review", &key).status == 200);
    let listed = get(&server, "r1/review", &key).json();
    let texts: Vec<_> =
        listed["items"].as_array().expect("a list").iter().map(|item| &item["text"]).collect();
    assert_eq!(texts, ["place a bet", "another bet"]);
    assert!(
        (590_000..=600_000).contains(&listed["items"][0]["endsInMs"].as_u64().expect("a time")),
        "{listed}"
    );
    let out = decide(&server, &format!("r1/review/{first}/release"), &key);
    assert_eq!((out.status, out.json()), (200, json!({"seq": 1})));
    let refused = decide(&server, &format!("r1/review/{second}/reject"), &token("m9", &MODERATOR));
    assert_eq!((refused.status, refused.json()), (200, json!({})));
    for (name, verb) in
        [(first, "release"), (first, "reject"), (&second, "release"), (&"p7".to_owned(), "reject")]
    {
        let late = decide(&server, &format!("r1/review/{name}/{verb}"), &key);
        assert_eq!((late.status, late.code().as_str()), (404, "not_held"), "{name} {verb}");
    }
    assert_eq!(get(&server, "r1/review", &key).json(), json!({"items": []}));
    author.says_well("the end");
    for person in [&mut witness, &mut staff[1]] {
        person.hears("the end");
        let batches =
            person.heard.iter().filter(|text| text.contains("\"batch\"")).cloned().collect::<String>();
        assert_eq!(batches.matches("place a bet").count(), 1, "{batches}");
        assert!(!batches.contains("another bet"), "{batches}");
    }
    assert!(!witness.has_heard("\"pending\"") && !author.has_heard("\"pending\""));
    until("it is counted", || {
        let done = |what| server.metric(&format!("danmaku_{what}_total"));
        (done("comments_held"), done("held_released"), done("held_rejected")) == (2, 1, 1)
    });
    assert_eq!(server.metric("danmaku_held_now"), 0);
}

/// Who may not decide: nobody, viewers, keys of other scopes and rooms. And what is no question.
#[test]
fn held_comments_are_decided_by_those_who_may() {
    let server = start(&[]);
    let key = server.new_key("moderation", &["r1"]);
    let other = server.new_key("tickets", &[]);
    until("the keys are known", || get(&server, "r1/review", &other).status == 403);
    for (path, key, status, code) in [
        ("r1/review", "", 401, "token_invalid"),
        ("r1/review", &token("u1", &[]), 403, "forbidden"),
        ("r1/review", &other, 403, "forbidden"),
        ("r2/review", &key, 403, "forbidden"),
        ("r~1/review", &key, 400, "room_invalid"),
        ("r1/review/p1", &key, 404, "not_found"),
        ("r1/review/p1/release", &key, 405, "method_not_allowed"),
    ] {
        let answer = get(&server, path, key);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path} {key}");
    }
    let answer = decide(&server, "r1/review", &key);
    assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"));
    assert_eq!(get(&server, "r1/review", &key).json(), json!({"items": []}));
}

/// A delay: the crowd waits, and staff sees it at once; VIPs and staff do not wait. Over HTTP the same.
#[test]
fn a_delay_is_for_the_crowd() {
    let server = start(&[("HELD__DELAY", "600ms")]);
    let mut moderator = Person::user(&server, "r1", "m1", &MODERATOR);
    let mut vip = Person::user(&server, "r1", "v1", &["--role", "vip"]);
    let mut viewer = Person::user(&server, "r1", "u1", &[]);
    let begun = Instant::now();
    is_held(&viewer.says("from the crowd"));
    let pending = moderator.hears("\"pending\"");
    assert_eq!(
        (&pending["pending"]["reason"], &pending["pending"]["releaseInMs"]),
        (&json!("delay"), &json!(600))
    );
    assert!(begun.elapsed() < Duration::from_millis(600), "at once");
    assert_eq!((vip.says_well("from a vip"), moderator.says_well("from staff")), (1, 2));
    let body = json!({"id": "h-1", "text": "by HTTP"}).to_string();
    let answer = Exchange::new(server.address).send(post("/api/v1/rooms/r1/danmaku", "", &body)).answer();
    assert_eq!((answer.status, answer.json()), (200, json!({"ack": {"id": "h-1", "state": "held"}})));
    viewer.hears("from the crowd");
    assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
    // It may have come with the other one.
    if !viewer.has_heard("by HTTP") {
        viewer.hears("by HTTP");
    }
    until("it is counted", || server.metric("danmaku_comments_delayed_total") == 2);
    assert_eq!(server.metric("danmaku_published_total"), 4);
}

/// The bounds of both queues: a true wait, and room again when it is over; what nobody looked at is dropped.
#[test]
fn a_full_queue_refuses_until_there_is_room() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", "bet hold\n");
    let server = start(&[
        ("WORDS__LISTS", &format!("[{list:?}]")),
        ("HELD__REVIEW_MAX", "1"),
        ("HELD__REVIEW_TTL", "1s"),
        ("HELD__DELAYED_MAX", "1"),
        ("HELD__DELAY", "900ms"),
    ]);
    let mut viewer = Person::user(&server, "r1", "u1", &[]);
    for (text, limit) in [("a bet", "review"), ("fine", "delayed")] {
        is_held(&viewer.says(text));
        let refused = viewer.says(text);
        assert_eq!(refused["code"], "overloaded", "{refused}");
        let wait = Duration::from_millis(refused["retryAfterMs"].as_u64().expect("a wait"));
        assert!(wait <= Duration::from_secs(1), "{refused}");
        until("it is counted", || server.met(limit) == 1);
        // What a client does with the number.
        std::thread::sleep(wait);
        is_held(&viewer.says(text));
    }
    until("it is counted", || server.metric("danmaku_held_expired_total") >= 1);
}
