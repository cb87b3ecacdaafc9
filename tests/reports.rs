//! Reports of comments on the wire: staff hears of them at once, lists them and leaves them.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::process::Command;

use exchange::{Answer, Exchange, post};
use raw_socket::RawSocket;
use serde_json::{Value, json};
use support::{Server, until};

const KEYS: (&str, &str) =
    ("DANMAKU__AUTH__KEYS", r#"[{id="k1", secret="a secret of at least thirty-two bytes"}]"#);

fn start(workers: &str, settings: &[(&str, &str)]) -> Server {
    let mut env = vec![KEYS, ("DANMAKU__AUTH__ANONYMOUS", "true"), ("DANMAKU__ROOM__SPREAD_MEMBERS", "0")];
    env.extend_from_slice(settings);
    Server::start_with(&["--workers", workers], &env)
}

fn bearer(name: &str, role: &str) -> String {
    let args = ["token", "--user", name, "--role", role, "--global"];
    let made = Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).envs([KEYS]).output();
    let token = String::from_utf8(made.expect("it runs").stdout).expect("text");
    format!("Authorization: Bearer {}\r\n", token.trim())
}

fn joins(server: &Server, headers: &str) -> RawSocket {
    let mut socket = RawSocket::join(server.address, "r1", headers);
    socket.hears("\"snapshot\"");
    socket
}

/// Says something; its number.
fn says(socket: &mut RawSocket, id: &str) -> u64 {
    socket.say(&json!({ "send": { "id": id, "text": format!("words of {id}") } }).to_string());
    let ack: Value = serde_json::from_str(&socket.hears(&format!("\"id\":\"{id}\""))).expect("JSON");
    ack["ack"]["seq"].as_u64().expect("a number")
}

fn reports(socket: &mut RawSocket, seq: u64, reason: &str) {
    socket.say(&json!({ "report": { "seq": seq, "reason": reason } }).to_string());
}

/// The error that a report is answered with.
fn refused(socket: &mut RawSocket) -> Value {
    serde_json::from_str::<Value>(&socket.hears("\"error\"")).expect("JSON")["error"].take()
}

fn ask(server: &Server, method: &str, query: &str, headers: &str) -> Answer {
    let request = post(&format!("/api/v1/rooms/r1/reports{query}"), headers, "");
    Exchange::new(server.address).send(request.replacen("POST", method, 1)).answer()
}

/// A report is told to staff wherever it is, listed with its reasons, and over when a moderator leaves it; who reports hears
/// nothing, and nobody else does. What cannot be reported is refused.
#[test]
fn a_report_reaches_staff_at_once_and_ends_with_a_decision() {
    let server = start("2", &[]);
    let key = format!("Authorization: Bearer {}\r\n", server.staff_key());
    let mut keepers: Vec<_> =
        (0..4).map(|n| joins(&server, &bearer(&format!("m{n}"), "moderator"))).collect();
    let mut author = joins(&server, &bearer("u1", "viewer"));
    let mut viewers: Vec<_> = (2..6).map(|n| joins(&server, &bearer(&format!("u{n}"), "viewer"))).collect();
    let seq = says(&mut author, "c1");
    for (n, viewer) in viewers.iter_mut().enumerate() {
        viewer.hears("words of c1");
        reports(viewer, seq, if n == 0 { "spam" } else { "" });
    }
    for keeper in &mut keepers {
        let told: Value = serde_json::from_str(&keeper.hears("\"pending\"")).expect("JSON");
        let told = &told["pending"];
        assert_eq!(
            (&told["id"], &told["reason"], &told["text"]),
            (&json!(format!("r{seq}")), &json!("report"), &json!("words of c1"))
        );
    }
    until("all are counted", || ask(&server, "GET", "", &key).json()["items"][0]["count"] == 4);
    let item = ask(&server, "GET", "", &key).json()["items"][0].take();
    assert_eq!(
        (&item["seq"], &item["user"]["id"], &item["reasons"]),
        (&json!(seq), &json!("u1"), &json!(["spam"]))
    );
    until("it is counted", || server.metric("danmaku_reports_total") == 4);
    reports(&mut author, seq, "");
    assert_eq!(refused(&mut author)["code"], "bad_request");
    assert_eq!(ask(&server, "DELETE", &format!("?seq={seq}"), &key).json(), json!({"dismissed": true}));
    assert_eq!(ask(&server, "DELETE", &format!("?seq={seq}"), &key).json(), json!({"dismissed": false}));
    assert_eq!(ask(&server, "GET", "", &key).json(), json!({"items": []}));
    assert_eq!(ask(&server, "DELETE", "?seq=x", &key).code(), "bad_request");
    assert_eq!(ask(&server, "GET", "", &bearer("u1", "vip")).status, 403);
    let audit = post("/api/v1/audit", &key, "").replacen("POST", "GET", 1);
    let audit = Exchange::new(server.address).send(audit).answer();
    assert!(audit.body.contains("dismiss_report"), "{audit:?}");
    // Who reported was told nothing of it, and viewers nothing at all.
    let mark = says(&mut author, "c2");
    for viewer in &mut viewers {
        let mut heard = String::new();
        while !heard.contains("words of c2") {
            heard = String::from_utf8_lossy(&viewer.next().expect("the room goes on").payload).into_owned();
            assert!(!heard.contains("pending") && !heard.contains("error"), "{heard}");
        }
    }
    assert!(mark > seq);
}

/// A user reports so fast, and a room has so many reported comments; both are refused with a wait and counted.
#[test]
fn reports_are_bounded_in_a_room_and_by_user() {
    let server =
        start("1", &[("DANMAKU__MODERATION__REPORTS_MAX", "1"), ("DANMAKU__MODERATION__REPORT_BURST", "1")]);
    let mut author = joins(&server, &bearer("u1", "viewer"));
    let (one, two) = (says(&mut author, "c1"), says(&mut author, "c2"));
    let (mut first, mut second) =
        (joins(&server, &bearer("u2", "viewer")), joins(&server, &bearer("u3", "viewer")));
    reports(&mut first, one, "");
    reports(&mut first, two, "");
    let error = refused(&mut first);
    assert_eq!(error["code"], "rate_limited");
    assert!((1..=10_000).contains(&error["retryAfterMs"].as_u64().expect("a wait")), "{error}");
    reports(&mut second, two, "");
    let error = refused(&mut second);
    assert_eq!((&error["code"], error["retryAfterMs"].is_u64()), (&json!("overloaded"), true));
    until("both are counted", || server.met("report_rate") == 1 && server.met("reports") == 1);
    let server = start("1", &[("DANMAKU__MODERATION__REPORTS_MAX", "0")]);
    let mut viewer = joins(&server, "");
    reports(&mut viewer, 1, "");
    assert_eq!(refused(&mut viewer)["code"], "not_supported");
}
