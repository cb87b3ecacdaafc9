//! How a room is set and where it is in its life, on the wire: every setting refuses by its rule at once, members are told, and what is
//! undone is as the configuration has it.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use exchange::{Answer, Exchange, post};
use raw_socket::{End, RawSocket};
use serde_json::{Value, json};
use support::{Server, until};

const KEYS: (&str, &str) =
    ("DANMAKU__AUTH__KEYS", r#"[{id="k1", secret="a secret of at least thirty-two bytes"}]"#);
const SETTINGS: &str = "/api/v1/rooms/r1/settings";

fn start(workers: &str, settings: &[(&str, &str)]) -> Server {
    Server::start_with(&["--workers", workers], &environment(settings))
}

fn environment<'a>(settings: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut env = vec![KEYS, ("DANMAKU__AUTH__ANONYMOUS", "true"), ("DANMAKU__LIMITS__USER_MODE", "off")];
    env.extend_from_slice(settings);
    env
}

fn bearer(name: &str, role: &str) -> String {
    let args = ["token", "--user", name, "--role", role, "--global"];
    let made = Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).envs([KEYS]).output();
    let token = String::from_utf8(made.expect("it runs").stdout).expect("text");
    format!("Authorization: Bearer {}\r\n", token.trim())
}

fn joins(server: &Server, headers: &str) -> (RawSocket, Value) {
    let mut socket = RawSocket::join(server.address, "r1", headers);
    let snapshot = serde_json::from_str(&socket.hears("\"snapshot\"")).expect("JSON");
    (socket, snapshot)
}

fn ask(server: &Server, method: &str, headers: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = post(SETTINGS, headers, &body).replacen("POST", method, 1);
    Exchange::new(server.address).send(request).answer()
}

fn key(server: &Server) -> String {
    format!("Authorization: Bearer {}\r\n", server.staff_key())
}

/// A change that is made; what the API shows then.
fn set(server: &Server, patch: &Value) -> Value {
    let answer = ask(server, "PATCH", &key(server), patch);
    assert_eq!(answer.status, 200, "{patch}: {answer:?}");
    answer.json()
}

/// Says something: the error, or null.
fn sends(socket: &mut RawSocket, mut send: Value) -> Value {
    static IDS: AtomicU32 = AtomicU32::new(0);
    let id = format!("n-{}-", IDS.fetch_add(1, Ordering::Relaxed));
    send["id"] = id.as_str().into();
    socket.say(&json!({ "send": send }).to_string());
    let answer: Value = serde_json::from_str(&socket.hears(&format!("\"id\":\"{id}\""))).expect("JSON");
    answer["error"].clone()
}

/// Each setting: refuses by its rule what it is to refuse, spares whom it spares, is told by an entry and in `room`, and
/// lets everything pass again when it is given back.
#[test]
fn every_setting_holds_at_once_and_is_told() {
    let server = start("1", &[]);
    let (mut keeper, _) = joins(&server, &bearer("m1", "moderator"));
    let plain = json!({"text": "hello"});
    let (top, red, big) = (
        json!({"text": "hello", "mode": "top"}),
        json!({"text": "hello", "color": 0xff_00_00}),
        json!({"text": "hello", "size": 40}),
    );
    for (patch, send, rule, code) in [
        (json!({"readOnly": true}), &plain, "read_only", "read_only"),
        (json!({"muted": true}), &plain, "muted", "muted"),
        (json!({"minLevel": 2}), &plain, "level", "level_too_low"),
        (json!({"membersOnly": true}), &plain, "members", "members_only"),
        (json!({"followersOnly": true, "followedForMs": 60_000}), &plain, "followers", "followers_only"),
        (json!({"vipOnly": true}), &plain, "vips", "forbidden"),
        (json!({"motionRole": "vip"}), &top, "style", "forbidden"),
        (json!({"colorRole": "vip"}), &red, "style", "forbidden"),
        (json!({"sizeRole": "moderator"}), &big, "style", "forbidden"),
        (json!({"textCharsMax": 4, "lengthRole": "streamer"}), &plain, "length", "text_too_long"),
    ] {
        // More than five errors a second are not told one by one.
        let (mut guest, _) = joins(&server, "");
        let shown = set(&server, &patch);
        assert_eq!((&shown["settings"], &shown["inForce"]), (&patch, &patch));
        let data = patch.as_object().expect("an object").keys().next().expect("a key").clone();
        let entry = keeper.hears("\"type\":\"state\"");
        assert!(entry.contains(&format!("\"{data}\":")), "{patch}: {entry}");
        let update = keeper.hears("\"room\"");
        assert!(update.contains(&format!("\"{data}\":")), "{patch}: {update}");
        let error = sends(&mut guest, send.clone());
        assert_eq!(error["code"], code, "{patch}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(&format!("Rule: {rule}.")), "{patch}: {message}");
        let spared = sends(&mut keeper, send.clone());
        assert_eq!(spared.is_null(), rule != "read_only", "{patch}: {spared}");
        let nothing: Value =
            patch.as_object().expect("an object").keys().map(|key| (key.clone(), Value::Null)).collect();
        let shown = set(&server, &nothing);
        assert_eq!(shown, json!({"settings": {}, "inForce": {}}));
        keeper.hears("\"type\":\"state\"");
        assert_eq!(sends(&mut guest, send.clone()), Value::Null, "{patch} undone");
    }
}

/// Slow mode and delay: the wait is told to everybody and is true; a delayed comment is held.
#[test]
fn slow_mode_and_delay_are_set_while_the_room_goes_on() {
    let server = start("1", &[]);
    let (mut guest, _) = joins(&server, "");
    set(&server, &json!({"slowModeMs": 60_000}));
    let update: Value =
        serde_json::from_str(&guest.hears("\"room\":{\"online\":1,\"viewers\":1,\"slowModeMs\""))
            .expect("JSON");
    assert_eq!(update["room"]["slowModeMs"], 60_000);
    assert_eq!(sends(&mut guest, json!({"text": "one"})), Value::Null);
    let error = sends(&mut guest, json!({"text": "two"}));
    assert_eq!(error["code"], "slow_mode");
    let wait = error["retryAfterMs"].as_u64().expect("a wait");
    assert!((50_000..=60_000).contains(&wait), "{error}");
    set(&server, &json!({"slowModeMs": 0, "delayMs": 6_000}));
    guest.say(&json!({"send": {"id": "d1", "text": "later"}}).to_string());
    assert!(guest.hears("\"id\":\"d1\"").contains("held"));
    set(&server, &json!({"delayMs": null}));
    guest.say(&json!({"send": {"id": "d2", "text": "now"}}).to_string());
    assert!(!guest.hears("\"id\":\"d2\"").contains("held"));
}

/// Slow mode from the configuration: who joins is told in the snapshot, members on every worker are told of a change, and who
/// takes no snapshot is told after `joined`.
#[test]
fn what_the_configuration_sets_is_told_to_who_comes_and_who_is_there() {
    let server = start(
        "2",
        &[
            ("DANMAKU__ROOM__SPREAD_MEMBERS", "0"),
            ("DANMAKU__POLICY__SLOW_MODE", "enforce"),
            ("DANMAKU__POLICY__SLOW_INTERVAL", "7s"),
        ],
    );
    let mut members = Vec::new();
    for _ in 0..6 {
        let (member, snapshot) = joins(&server, "");
        let room = &snapshot["snapshot"]["room"];
        assert_eq!((&room["slowModeMs"], &room["data"]), (&json!(7_000), &json!({"slowModeMs": 7_000})));
        members.push(member);
    }
    set(&server, &json!({"membersOnly": true}));
    for member in &mut members {
        member.hears(r#""data":{"membersOnly":true,"slowModeMs":7000}"#);
    }
    let (_, snapshot) = joins(&server, "");
    assert_eq!(snapshot["snapshot"]["room"]["data"], json!({"membersOnly": true, "slowModeMs": 7_000}));
    let mut without = RawSocket::join(server.address, "r1&snapshot=none", "");
    without.hears("\"joined\"");
    assert!(without.hears("\"room\"").contains("membersOnly"));
}

/// Brings the room to a stage; what the API shows then.
fn stage(server: &Server, body: &Value) -> Value {
    let request = post("/api/v1/rooms/r1/state", &key(server), &body.to_string());
    let answer = Exchange::new(server.address).send(request.replacen("POST", "PUT", 1)).answer();
    assert_eq!(answer.status, 200, "{body}: {answer:?}");
    answer.json()
}

/// Open, live, ended, closed and open again: members are told each, a comment stands near the clock of the stream, nobody
/// writes when it has ended, and nobody is in a room that is closed, on any worker, nor comes in, nor writes over HTTP.
#[test]
fn a_room_goes_through_its_life() {
    let server = start("2", &[("DANMAKU__ROOM__SPREAD_MEMBERS", "0")]);
    let mut members: Vec<_> = (0..6).map(|_| joins(&server, "").0).collect();
    let (mut keeper, _) = joins(&server, &bearer("s1", "staff"));
    let live = stage(&server, &json!({"stage": "live", "mediaId": "m:1"}));
    let since = live["since"].as_u64().expect("a time");
    assert_eq!(live, json!({"stage": "live", "mediaId": "m:1", "since": since}));
    for member in &mut members {
        member.hears(&format!(r#""data":{{"stage":"live","mediaId":"m:1","liveSince":{since}}}"#));
    }
    for (said, stands) in [(0, 0..=60_000), (9_000_000, 1_000..=60_000)] {
        assert_eq!(sends(&mut members[0], json!({"text": "hello", "streamMs": said})), Value::Null);
        let batch: Value = serde_json::from_str(&members[1].hears("\"hello\"")).expect("JSON");
        let items = batch["batch"]["items"].as_array().expect("items");
        let comment = items.iter().find(|item| item["text"] == "hello").expect("the comment");
        let at = comment["streamMs"].as_u64().unwrap_or(0);
        assert!(stands.contains(&at), "{said} stands at {at}");
    }
    assert_eq!(stage(&server, &json!({"stage": "live", "mediaId": "m:1"})), live, "its clock runs on");
    assert_eq!(stage(&server, &json!({"stage": "ended", "reason": "good night"})), json!({"stage": "ended"}));
    for person in [&mut members[0], &mut keeper] {
        person.hears(r#""data":{"stage":"ended"}"#);
        let error = sends(person, json!({"text": "too late"}));
        assert_eq!(error["code"], "room_ended");
        assert!(error["message"].as_str().unwrap_or_default().ends_with("Rule: ended."), "{error}");
    }
    let (member, snapshot) = joins(&server, "");
    assert_eq!(snapshot["snapshot"]["room"]["data"], json!({"stage": "ended"}));
    members.push(member);
    let path = "GET /api/v1/rooms/r1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let document = Exchange::new(server.address).send(path).answer().json();
    assert_eq!(document["snapshot"]["room"]["data"], json!({"stage": "ended"}), "{document}");
    stage(&server, &json!({"stage": "closed"}));
    for mut socket in members.into_iter().chain([keeper]) {
        assert_eq!(socket.end(), End::Code(4004));
    }
    assert_eq!(RawSocket::join(server.address, "r1", "").end(), End::Code(4004));
    let comment = post("/api/v1/rooms/r1/danmaku", &bearer("u1", "vip"), r#"{"id":"h1","text":"hello"}"#);
    let answer = Exchange::new(server.address).send(comment).answer();
    assert_eq!((answer.status, answer.code()), (410, "room_closed".to_owned()));
    assert_eq!(answer.json()["rule"], "closed");
    for (rule, count) in [("closed", 1), ("ended", 2)] {
        let counter = format!("danmaku_rule_refused_total{{rule=\"{rule}\"}}");
        until("the rule is counted", || server.metric(&counter) == count);
    }
    assert_eq!(stage(&server, &json!({"stage": "open"})), json!({"stage": "open"}));
    let (mut member, _) = joins(&server, "");
    assert_eq!(sends(&mut member, json!({"text": "hello again"})), Value::Null);
}

/// What is no stage is refused by name, and a closed room is closed at the process that takes over.
#[test]
fn a_room_is_brought_to_stages_alone_and_stays_there() {
    let mut old = start("1", &[]);
    for (body, named) in [
        (json!({"stage": "gone"}), "`stage`"),
        (json!({"stage": "live"}), "mediaId"),
        (json!({"stage": "live", "mediaId": "two words"}), "mediaId"),
        (json!({"stage": "ended", "mediaId": "m1"}), "mediaId"),
        (json!({"mediaId": "m1"}), "stage"),
    ] {
        let request = post("/api/v1/rooms/r1/state", &key(&old), &body.to_string());
        let answer = Exchange::new(old.address).send(request.replacen("POST", "PUT", 1)).answer();
        assert_eq!((answer.status, answer.code()), (400, "bad_request".to_owned()), "{body}");
        assert!(answer.body.contains(named), "{body}: {answer:?}");
    }
    joins(&old, "");
    stage(&old, &json!({"stage": "closed"}));
    let new = old.replace(&["--workers", "2"], &environment(&[]));
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    let request = post("/api/v1/rooms/r1/state", &key(&new), "").replacen("POST", "GET", 1);
    assert_eq!(Exchange::new(new.address).send(request).answer().json(), json!({"stage": "closed"}));
    assert_eq!(RawSocket::join(new.address, "r1", "").end(), End::Code(4004));
}

/// `ETag` and `If-Match`: a change that is bound to what its author saw is not made over another one, and the document shows
/// what is in force beside what is set.
#[test]
fn a_change_can_be_bound_to_what_was_seen() {
    let server = start("1", &[("DANMAKU__POLICY__MUTED_MODE", "enforce")]);
    let seen = ask(&server, "GET", &key(&server), &Value::Null);
    assert_eq!((seen.status, seen.json()), (200, json!({"settings": {}, "inForce": {"muted": true}})));
    let tag = seen.header("etag").expect("a tag").to_owned();
    let bound = |tag: &str| format!("{}If-Match: {tag}\r\n", key(&server));
    let first = ask(&server, "PATCH", &bound(&format!("\"x\", {tag}")), &json!({"minLevel": 4}));
    assert_eq!(first.status, 200, "{first:?}");
    assert_ne!(first.header("etag"), Some(&*tag));
    let second = ask(&server, "PATCH", &bound(&tag), &json!({"minLevel": 9}));
    assert_eq!((second.status, second.code()), (412, "changed_since".to_owned()));
    let third = ask(&server, "PATCH", &bound("*"), &json!({"muted": false}));
    assert_eq!(
        third.json(),
        json!({"settings": {"muted": false, "minLevel": 4}, "inForce": {"minLevel": 4}})
    );
    let again = ask(&server, "GET", &key(&server), &Value::Null);
    assert_eq!((again.header("etag"), again.json()), (third.header("etag"), third.json()));
}

/// Who may set a room, and what it may be set to: everything else is refused, by name, and changes nothing.
#[test]
fn what_is_no_setting_is_refused_by_name() {
    let server = start("1", &[]);
    for (headers, status) in [("", 401), (&*bearer("u1", "vip"), 403), (&*bearer("m1", "moderator"), 200)] {
        assert_eq!(ask(&server, "PATCH", headers, &json!({})).status, status, "{headers}");
    }
    for (patch, named) in [
        (json!({"slowMode": 1}), "slowMode"),
        (json!({"slowModeMs": 5}), "slowModeMs"),
        (json!({"slowModeMs": 86_400_001}), "slowModeMs"),
        (json!({"slowModeMs": -1}), "-1"),
        (json!({"minLevel": 1_000_001}), "minLevel"),
        (json!({"followedForMs": 40_000_000_000_u64}), "followedForMs"),
        (json!({"delayMs": 6_001}), "delayMs"),
        (json!({"textCharsMax": 10_001}), "textCharsMax"),
        (json!({"colorRole": "king"}), "king"),
        (json!({"muted": "yes"}), "yes"),
        (json!([]), "the body is an object"),
    ] {
        let answer = ask(&server, "PATCH", &key(&server), &patch);
        assert_eq!((answer.status, answer.code()), (400, "bad_request".to_owned()), "{patch}");
        assert!(answer.body.contains(named), "{patch}: {answer:?}");
    }
    assert_eq!(ask(&server, "DELETE", &key(&server), &Value::Null).status, 405);
    assert_eq!(ask(&server, "GET", &key(&server), &Value::Null).json()["settings"], json!({}));
    let log = Exchange::new(server.address)
        .send(post("/api/v1/audit", &key(&server), "").replacen("POST", "GET", 1))
        .answer()
        .json();
    let actions: Vec<_> =
        log["items"].as_array().expect("a list").iter().map(|item| &item["action"]).collect();
    assert!(actions.contains(&&json!("settings")), "{log}");
}

/// What is set is known to the process that takes over.
#[test]
fn what_is_set_is_known_to_the_process_that_takes_over() {
    let mut old = start("1", &[]);
    let (mut guest, _) = joins(&old, "");
    set(&old, &json!({"muted": true, "minLevel": 3}));
    let shown = ask(&old, "GET", &key(&old), &Value::Null);
    let new = old.replace(&["--workers", "2"], &environment(&[]));
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    let kept = ask(&new, "GET", &key(&new), &Value::Null);
    assert_eq!((kept.status, kept.header("etag"), kept.json()), (200, shown.header("etag"), shown.json()));
    assert_eq!(sends(&mut guest, json!({"text": "hello"}))["code"], "muted");
    let (_, snapshot) = joins(&new, "");
    assert_eq!(snapshot["snapshot"]["room"]["data"], json!({"muted": true, "minLevel": 3}));
}
