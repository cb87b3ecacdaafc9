//! What staff decides about a room, on the wire: who is sent out, not heard or not seen, what is taken back, and who may
//! order it. Nothing of what somebody is shadow-banned for is found on any surface but its own.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use danmaku_room::admission::rule::Rule;
use exchange::{Answer, Exchange, post};
use raw_socket::{End, RawSocket};
use serde_json::{Value, json};
use support::{Server, until};

const KEYS: (&str, &str) =
    ("DANMAKU__AUTH__KEYS", r#"[{id="k1", secret="a secret of at least thirty-two bytes"}]"#);
const PROTO: &str = "Sec-WebSocket-Protocol: danmaku.v1.proto\r\n";
const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

fn start(settings: &[(&str, &str)]) -> Server {
    start_on("1", settings)
}

fn start_on(workers: &str, settings: &[(&str, &str)]) -> Server {
    let env = environment(settings);
    let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Server::start_with(&["--workers", workers], &env)
}

fn environment(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let known = [
        (KEYS.0, KEYS.1),
        ("DANMAKU__AUTH__ANONYMOUS", "true"),
        ("DANMAKU__LIMITS__USER_MODE", "off"),
        ("DANMAKU__LIMITS__JOINS_BURST", "1000"),
        ("DANMAKU_LOG", "info"),
    ];
    let known = known.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    known
        .chain(settings.iter().map(|(key, value)| (format!("DANMAKU__{key}"), (*value).to_owned())))
        .collect()
}

fn token(name: &str, role: &str) -> String {
    let args = ["token", "--user", name, "--role", role, "--global"];
    let made = Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).envs([KEYS]).output();
    let token = String::from_utf8(made.expect("it runs").stdout).expect("text").trim().to_owned();
    assert!(!token.is_empty(), "a token for {name}");
    token
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn user(server: &Server, name: &str) -> RawSocket {
    joined(RawSocket::join(server.address, "r1", &bearer(&token(name, "viewer"))))
}

fn guest(server: &Server) -> RawSocket {
    joined(RawSocket::join(server.address, "r1", ""))
}

fn joined(mut socket: RawSocket) -> RawSocket {
    socket.hears("\"snapshot\"");
    socket
}

/// Says something; the ack or the error.
fn says(socket: &mut RawSocket, id: &str, text: &str) -> Value {
    socket.say(&json!({ "send": { "id": id, "text": text } }).to_string());
    serde_json::from_str(&socket.hears(&format!("\"id\":\"{id}\""))).expect("JSON")
}

fn seq_of(answer: &Value) -> u64 {
    answer["ack"]["seq"].as_u64().unwrap_or_else(|| panic!("no number in {answer}"))
}

fn ask(server: &Server, method: &str, path: &str, key: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = post(path, &if key.is_empty() { String::new() } else { bearer(key) }, &body);
    Exchange::new(server.address).send(request.replacen("POST", method, 1)).answer()
}

/// An order by the key of the first start, which is to be carried out.
fn order(server: &Server, method: &str, action: &str, body: &Value) -> Value {
    let answer = ask(server, method, &format!("/api/v1/rooms/r1/{action}"), &server.staff_key(), body);
    assert!(matches!(answer.status, 200 | 201), "{method} {action} {body}: {answer:?}");
    answer.json()
}

fn ban(server: &Server, body: &Value) {
    order(server, "POST", "bans", body);
}

fn http_comment(server: &Server, token: &str) -> Answer {
    // The same id by the same user would be the same comment.
    static IDS: AtomicU32 = AtomicU32::new(0);
    let id = format!("h-{}", IDS.fetch_add(1, Ordering::Relaxed));
    ask(server, "POST", "/api/v1/rooms/r1/danmaku", token, &json!({ "id": id, "text": "by http" }))
}

/// One comment met a rule, which is counted within a second.
fn refused_by(server: &Server, rule: Rule) {
    let counter = format!("danmaku_rule_refused_total{{rule=\"{}\"}}", rule.name());
    until("the rule is counted", || server.metric(&counter) == 1);
}

/// A ban sends the user's connections out of the room with 4003, on every worker, and lets none in again; it holds for
/// HTTP and for whoever turns out to be the user later. Others stay. Lifted, it is as if it had never been.
#[test]
fn a_banned_user_is_sent_out_with_4003_and_not_let_in_again() {
    let server = start_on("3", &[("ROOM__SPREAD_MEMBERS", "0")]);
    let mut theirs: Vec<_> = (0..4).map(|_| user(&server, "u1")).collect();
    let mut witness = user(&server, "u2");
    ban(&server, &json!({ "user": "u1", "reason": "spam" }));
    for socket in &mut theirs {
        assert_eq!(socket.end(), End::Code(4003));
    }
    let u1 = token("u1", "viewer");
    assert_eq!(RawSocket::join(server.address, "r1", &bearer(&u1)).end(), End::Code(4003));
    let mut elsewhere = joined(RawSocket::join(server.address, "r2", &bearer(&u1)));
    elsewhere.say(r#"{"join":{"room":"r1"}}"#);
    assert_eq!(elsewhere.end(), End::Code(4003));
    let answer = http_comment(&server, &u1);
    assert_eq!((answer.status, answer.code()), (403, "banned".to_owned()));
    assert_eq!(answer.json()["rule"], "banned");
    refused_by(&server, Rule::Banned);
    let mut nobody = guest(&server);
    nobody.say(&json!({ "auth": { "token": u1 } }).to_string());
    assert_eq!(nobody.end(), End::Code(4003));
    assert_eq!(seq_of(&says(&mut witness, "w1", "still here")), 1, "nothing of the banned was numbered");
    assert_eq!(server.metric("danmaku_closed_total{code=\"4003\"}"), 7);

    let listed = order(&server, "GET", "bans", &Value::Null);
    assert_eq!(listed["items"][0]["user"], "u1", "{listed}");
    assert_eq!(listed["items"][0]["reason"], "spam", "{listed}");
    assert_eq!(order(&server, "DELETE", "bans?user=u1", &Value::Null)["lifted"], true);
    assert_eq!(order(&server, "DELETE", "bans?user=u1", &Value::Null)["lifted"], false);
    assert_eq!(seq_of(&says(&mut user(&server, "u1"), "a1", "back")), 2);
}

/// A ban ends when its time is over: the wait that is told is true, and the door is open again.
#[test]
fn a_ban_ends_by_itself() {
    let server = start(&[]);
    let began = Instant::now();
    ban(&server, &json!({ "user": "u1", "ttlMs": 700 }));
    let u1 = token("u1", "viewer");
    let answer = http_comment(&server, &u1);
    assert_eq!(answer.code(), "banned");
    let wait = Duration::from_millis(answer.json()["retryAfterMs"].as_u64().expect("a wait"));
    let lifts = Instant::now() + wait;
    assert_eq!(RawSocket::join(server.address, "r1", &bearer(&u1)).end(), End::Code(4003));
    until("the ban is over", || http_comment(&server, &u1).status == 200);
    assert!(began.elapsed() >= Duration::from_millis(690), "not before its time");
    assert!(Instant::now() < lifts + Duration::from_millis(500), "not long after the time that was told");
    joined(RawSocket::join(server.address, "r1", &bearer(&u1)));
    until("it is forgotten", || server.metric("danmaku_sanctions") == 0);
}

/// A ban of an address is one of the guests who call from there: users have a name to be banned by. One of the whole room
/// leaves those who keep order in it.
#[test]
fn a_ban_of_an_address_or_of_everyone_is_one_of_those() {
    let server = start(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")]);
    let from = |address: &str, more: &str| {
        RawSocket::join(server.address, "r1", &format!("X-Forwarded-For: {address}\r\n{more}"))
    };
    let u1 = bearer(&token("u1", "viewer"));
    let mut theirs = [joined(from("192.0.2.1", "")), joined(from("192.0.2.1", ""))];
    let mut others = [joined(from("192.0.2.2", "")), joined(from("192.0.2.1", &u1))];
    let moderator = bearer(&token("m1", "moderator"));
    let mut moderator = joined(from("192.0.2.4", &moderator));
    ban(&server, &json!({ "address": "192.0.2.1" }));
    for socket in &mut theirs {
        assert_eq!(socket.end(), End::Code(4003));
    }
    // 6to4 and v4-mapped addresses are the one that they carry.
    for same in ["192.0.2.1", "::ffff:192.0.2.1", "2002:c000:201::1"] {
        assert_eq!(from(same, "").end(), End::Code(4003), "{same}");
    }
    assert!(seq_of(&says(&mut others[1], "o1", "by name")) > 0);
    assert_eq!(order(&server, "DELETE", "bans?address=192.0.2.1", &Value::Null)["lifted"], true);
    joined(from("192.0.2.1", ""));
    ban(&server, &json!({ "everyone": true }));
    for socket in &mut others {
        assert_eq!(socket.end(), End::Code(4003));
    }
    assert!(seq_of(&says(&mut moderator, "empty", "an empty room")) > 0);
    assert_eq!(order(&server, "DELETE", "bans?everyone=true", &Value::Null)["lifted"], true);
}

/// A muted user is told so with a true wait, nobody hears it, and it hears the others.
#[test]
fn a_muted_user_hears_and_is_not_heard() {
    let server = start(&[]);
    let (mut muted, mut witness) = (user(&server, "u1"), user(&server, "u2"));
    order(&server, "POST", "mutes", &json!({ "user": "u1", "ttlMs": 800, "reason": "calm down" }));
    let refused = says(&mut muted, "a1", "unheard")["error"].take();
    assert_eq!(refused["code"], "muted", "{refused}");
    assert!(refused["message"].as_str().is_some_and(|text| text.ends_with("Rule: muted_user.")), "{refused}");
    let wait = Duration::from_millis(refused["retryAfterMs"].as_u64().expect("a wait"));
    let told = Instant::now();
    assert_eq!(seq_of(&says(&mut witness, "w1", "heard")), 1);
    muted.hears("\"heard\"");
    std::thread::sleep(wait.saturating_sub(told.elapsed()).saturating_add(Duration::from_millis(2)));
    assert_eq!(seq_of(&says(&mut muted, "a2", "heard again")), 2, "the wait was true");
    assert!(!witness.hears("heard again").contains("unheard"));
    refused_by(&server, Rule::MutedUser);
    order(&server, "POST", "mutes", &json!({ "everyone": true }));
    assert_eq!(says(&mut witness, "w2", "all quiet")["error"]["code"], "muted");
    order(&server, "DELETE", "mutes?everyone=true", &Value::Null);
    assert!(seq_of(&says(&mut witness, "w2", "all quiet")) > 0);
}

/// Rules that only observe, or are off, let pass what they would refuse.
#[test]
fn sanctions_that_observe_count_and_refuse_nothing() {
    for (mode, observed) in [("observe", 1), ("off", 0)] {
        let server = start(&[
            ("MODERATION__BANS_MODE", mode),
            ("MODERATION__MUTES_MODE", mode),
            ("MODERATION__SHADOW_BANS_MODE", mode),
        ]);
        for measure in ["bans", "mutes", "shadow-bans"] {
            order(&server, "POST", measure, &json!({ "user": "u1" }));
        }
        let mut witness = user(&server, "u2");
        assert_eq!(http_comment(&server, &token("u1", "viewer")).status, 200, "{mode}");
        witness.hears("by http");
        for rule in ["banned", "muted_user", "shadow_banned"] {
            let counter = format!("danmaku_rule_observed_total{{rule=\"{rule}\"}}");
            until("the rules are counted", || server.metric(&counter) == observed);
        }
    }
}

/// Reads a WebSocket to a message that holds `mark`, inflating what is compressed; all payloads until there.
fn heard_until(socket: &mut RawSocket, mark: &str) -> Vec<u8> {
    let mut heard = Vec::new();
    loop {
        let frame = socket.next().expect("the room goes on");
        let payload = if frame.deflated { inflated(&frame.payload) } else { frame.payload };
        heard.extend_from_slice(&payload);
        heard.push(b'\n');
        if holds(&payload, mark) {
            return heard;
        }
    }
}

fn inflated(payload: &[u8]) -> Vec<u8> {
    let mut whole = payload.to_vec();
    whole.extend_from_slice(&[0, 0, 0xff, 0xff]);
    let mut out = Vec::with_capacity(64 << 10);
    let mut inflate = flate2::Decompress::new(false);
    inflate.decompress_vec(&whole, &mut out, flate2::FlushDecompress::Sync).expect("inflated");
    out
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}

/// An event stream up to a mark.
fn events_until(socket: &mut TcpStream, mark: &str) -> Vec<u8> {
    let (mut heard, mut chunk) = (Vec::new(), [0; 16 << 10]);
    while !holds(&heard, mark) {
        let n = socket.read(&mut chunk).expect("the stream goes on");
        assert!(n > 0, "ended before {mark}");
        heard.extend_from_slice(&chunk[..n]);
    }
    heard
}

fn events(server: &Server, query: &str, headers: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let head = format!("GET /api/v1/rooms/r1/events{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    socket.write_all(head.as_bytes()).expect("sent");
    socket
}

/// What a shadow-banned user says is numbered, acked and echoed to all of its own sessions, in every encoding, live, in
/// snapshots and after resuming; and it is on no surface of anybody else.
#[test]
fn what_a_shadow_banned_user_says_is_seen_by_itself_alone() {
    const SECRET: &str = "unseen-words";
    let server = start_on("2", &[("ROOM__SPREAD_MEMBERS", "0")]);
    let own = bearer(&token("u1", "viewer"));
    let mut author = user(&server, "u1");
    let mut talker = user(&server, "u3");
    let first = seq_of(&says(&mut author, "before", "seen by all"));
    order(&server, "POST", "shadow-bans", &json!({ "user": "u1" }));

    let kinds = ["", PROTO, DEFLATE];
    let ear = |who: &str| -> Vec<RawSocket> {
        kinds.map(|kind| RawSocket::join(server.address, "r1", &format!("{kind}{who}"))).into()
    };
    let (mut others, mut mine) = (ear(&bearer(&token("u2", "viewer"))), ear(&own));
    let mut guests = ear("");
    let (mut their_events, mut my_events) = (events(&server, "", ""), events(&server, "", &own));
    events_until(&mut their_events, "snapshot");
    events_until(&mut my_events, "snapshot");
    until("all are in", || {
        Exchange::new(server.admin)
            .send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            .answer()
            .body
            .contains("danmaku_connections 13")
    });

    let ack = says(&mut author, "s1", SECRET);
    assert_eq!(ack, json!({ "ack": { "id": "s1", "seq": first + 1 } }), "as for everybody");
    assert_eq!(says(&mut author, "s1", SECRET), ack, "and again");
    assert_eq!(seq_of(&says(&mut talker, "t1", "the-mark-one")), first + 2);

    // Those who are there.
    // (The talker heard its own before the ack, which waits for the disk.)
    for socket in others.iter_mut().chain(&mut guests) {
        let heard = heard_until(socket, "the-mark-one");
        assert!(!holds(&heard, SECRET), "{}", String::from_utf8_lossy(&heard));
    }
    assert!(!holds(&events_until(&mut their_events, "the-mark-one"), SECRET));
    for socket in &mut mine {
        heard_until(socket, SECRET);
    }
    let heard = String::from_utf8(events_until(&mut my_events, SECRET)).expect("text");
    // It moves no cursor: no event id is its own.
    let lines: Vec<_> = heard.lines().collect();
    let at = lines.iter().position(|line| line.contains(SECRET)).expect("the line");
    assert!(!lines[at - 1].starts_with("id:"), "{heard}");
    assert!(lines[at].contains(&format!("\"from\":{0},\"to\":{0}", first + 1)), "{heard}");

    // Those who come, and those who come back.
    let epoch = serde_json::from_str::<Value>(&RawSocket::join(server.address, "r1", "").hears("joined"))
        .expect("JSON")["joined"]["epoch"]
        .take();
    let since = format!("since={}:{first}", epoch.as_str().expect("an epoch"));
    for (room, wants) in [("r1".to_owned(), "snapshot"), (format!("r1&{since}"), "the-mark-one")] {
        for (who, sees) in
            [(own.clone(), true), (bearer(&token("u2", "viewer")), false), (String::new(), false)]
        {
            for kind in kinds {
                let mut socket = RawSocket::join(server.address, &room, &format!("{kind}{who}"));
                seq_of(&says(&mut talker, &format!("t-{room}-{sees}-{}", kind.len()), "the-mark-two"));
                let mut heard = heard_until(&mut socket, "the-mark-two");
                if sees && !holds(&heard, SECRET) {
                    // It comes right behind the range that covers it, which may reach further.
                    heard.extend(heard_until(&mut socket, SECRET));
                }
                let text = String::from_utf8_lossy(&heard).into_owned();
                assert!(holds(&heard, "the-mark-one"), "{text}");
                assert_eq!(holds(&heard, SECRET), sees, "{wants} {who}: {text}");
            }
        }
    }
    let mut back = events(&server, &format!("?{since}"), "");
    assert!(!holds(&events_until(&mut back, "the-mark-two"), SECRET));
    let mut back = events(&server, &format!("?{since}"), &own);
    events_until(&mut back, SECRET);
    refused_by(&server, Rule::ShadowBanned);

    // Taken back, it is taken back before its author alone.
    order(&server, "POST", "retract", &json!({ "user": "u1" }));
    seq_of(&says(&mut talker, "last", "the-mark-three"));
    let heard = heard_until(&mut others[0], "the-mark-three");
    let told = format!("\"seqs\":[{}]", first + 1);
    assert!(!holds(&heard, &told), "{}", String::from_utf8_lossy(&heard));
    assert!(holds(&heard, &format!("\"seqs\":[{first}]")), "what all saw is taken back before all");
    author.hears(&told);
}

/// Retractions, pins and clears are entries in order: live, after resuming, and in what a newcomer is shown.
#[test]
fn what_is_taken_back_pinned_or_cleared_is_so_for_who_is_there_and_who_comes() {
    let server = start(&[("ROOM__BACKLOG_AGE", "1s")]);
    let (mut witness, mut author) = (guest(&server), user(&server, "u1"));
    let mut other = user(&server, "u2");
    let seqs: Vec<u64> =
        (0..3).map(|n| seq_of(&says(&mut author, &format!("a{n}"), &format!("comment-{n}")))).collect();
    let kept = seq_of(&says(&mut other, "o1", "comment-kept"));
    let done = order(&server, "POST", "retract", &json!({ "seqs": [seqs[0]], "reason": "off topic" }));
    assert_eq!((&done["seq"], &done["count"]), (&json!(kept + 1), &json!(1)), "{done}");
    let told = witness.hears("\"retract\"");
    assert!(told.contains(&format!("\"seq\":{}", kept + 1)), "{told}");
    assert!(told.contains(&format!("\"seqs\":[{}]", seqs[0])), "{told}");
    let snapshot = |word: &str| {
        let mut socket = RawSocket::join(server.address, "r1", "");
        let text = socket.hears("\"snapshot\"");
        (text.contains(word), text)
    };
    for (word, there) in [("comment-0", false), ("comment-1", true), ("comment-kept", true)] {
        let (found, text) = snapshot(word);
        assert_eq!(found, there, "{word}: {text}");
    }
    let done = order(&server, "POST", "retract", &json!({ "user": "u1" }));
    assert_eq!(done["count"], 3, "{done}");
    assert!(!snapshot("comment-1").0 && snapshot("comment-kept").0);
    let epoch = done["epoch"].as_str().expect("an epoch");
    let mut back = RawSocket::join(server.address, &format!("r1&since={epoch}:{kept}"), "");
    back.hears("\"recovered\":true");
    let missed = back.hears("\"batch\"");
    assert!(missed.contains(&format!("\"seqs\":[{}]", seqs[0])), "{missed}");

    let pin = |seq: u64| {
        ask(&server, "POST", "/api/v1/rooms/r1/pin", &server.staff_key(), &json!({ "seq": seq })).status
    };
    assert_eq!(pin(seqs[1]), 400, "what was taken back is not pinned");

    // A pin is shown with its comment to whoever comes, however old both are.
    order(&server, "POST", "pin", &json!({ "seq": kept }));
    witness.hears("\"pin\"");
    until("nothing of it is in the backlog", || {
        let mut socket = RawSocket::join(server.address, &format!("r1&since={epoch}:{kept}"), "");
        !socket.hears("joined").contains("\"recovered\":true")
    });
    let (found, text) = snapshot("comment-kept");
    assert!(found && text.contains("\"pin\"") && text.contains(&format!("\"of\":{kept}")), "{text}");
    order(&server, "DELETE", "pin", &Value::Null);
    witness.hears("\"pin\"");
    assert!(!snapshot("comment-kept").0);

    seq_of(&says(&mut other, "o2", "comment-cleared"));
    let done = order(&server, "POST", "clear", &Value::Null);
    witness.hears("\"clear\"");
    let seq = done["seq"].as_u64().expect("a number");
    assert_eq!(seq_of(&says(&mut other, "o3", "comment-after")), seq + 1);
    assert!(!snapshot("comment-cleared").0 && snapshot("comment-after").0);
}

/// A table of sanctions has a bound: above it, further ones are refused, those of the same target not, and one whose time
/// is over makes room.
#[test]
fn a_room_has_so_many_sanctions_and_no_more() {
    let server = start(&[("MODERATION__SANCTIONS_MAX", "2")]);
    let post = |user: &str, ttl: Value| {
        let body = json!({ "user": user, "ttlMs": ttl });
        ask(&server, "POST", "/api/v1/rooms/r1/mutes", &server.staff_key(), &body)
    };
    assert_eq!(post("u1", Value::Null).status, 201);
    assert_eq!(post("u2", json!(400)).status, 201);
    let full = post("u3", Value::Null);
    assert_eq!((full.status, full.code()), (409, "sanctions_full".to_owned()));
    assert_eq!(post("u1", json!(60_000)).status, 201, "in place of the one that there was");
    assert_eq!(server.met("sanctions"), 1);
    until("one has ended", || post("u3", Value::Null).status == 201);
    assert_eq!(order(&server, "GET", "mutes", &Value::Null)["items"].as_array().map(Vec::len), Some(2));
}

/// Who may order what: keys by scope and room, staff, and those who keep order, whose word binds those below them.
#[test]
fn orders_are_for_keys_staff_and_those_who_keep_order() {
    let server = start(&[]);
    let key = server.new_key("moderation", &[]);
    let (narrow, wrong) = (server.new_key("moderation", &["r2"]), server.new_key("tickets", &[]));
    let [viewer, vip, moderator, streamer, staff] =
        ["viewer", "vip", "moderator", "streamer", "staff"].map(|role| token(role, role));
    let reload = |key: &str| ask(&server, "GET", "/api/v1/rooms/r2/bans", key, &Value::Null).status != 401;
    until("the keys are known", || reload(&narrow));
    let bans = "/api/v1/rooms/r1/bans";
    let u1 = json!({ "user": "u1" });
    for (who, method, path, body, status, code) in [
        ("", "POST", bans, &u1, 401, "unauthorized"),
        ("dk_no_such", "POST", bans, &u1, 401, "token_invalid"),
        (&*narrow, "POST", bans, &u1, 403, "forbidden"),
        (&*wrong, "POST", bans, &u1, 403, "forbidden"),
        (&*viewer, "POST", bans, &u1, 403, "forbidden"),
        (&*vip, "GET", bans, &Value::Null, 403, "forbidden"),
        (&*key, "POST", bans, &u1, 201, ""),
        (&*staff, "POST", bans, &u1, 201, ""),
        (&*moderator, "POST", bans, &u1, 201, ""),
        (&*narrow, "POST", "/api/v1/rooms/r2/bans", &u1, 201, ""),
        (&*key, "PUT", bans, &u1, 405, "method_not_allowed"),
        (&*key, "POST", "/api/v1/rooms/a%20b/bans", &u1, 400, "room_invalid"),
        (&*key, "POST", bans, &json!({}), 400, "bad_request"),
        (&*key, "POST", bans, &json!({ "user": "u1", "everyone": true }), 400, "bad_request"),
        (&*key, "POST", bans, &json!({ "user": "" }), 400, "bad_request"),
        (&*key, "POST", bans, &json!({ "address": "here" }), 400, "bad_request"),
        (&*key, "POST", bans, &json!({ "user": "u1", "ttlMs": 0 }), 400, "bad_request"),
        (&*key, "POST", bans, &json!({ "user": "u1", "reason": "x".repeat(257) }), 400, "bad_request"),
        (&*key, "POST", bans, &json!({ "user": "u1", "more": 1 }), 400, "bad_request"),
        (&*key, "DELETE", "/api/v1/rooms/r1/bans?name=u1", &Value::Null, 400, "bad_request"),
        (&*key, "DELETE", "/api/v1/rooms/r1/bans?user=%2", &Value::Null, 400, "bad_request"),
        (&*key, "POST", "/api/v1/rooms/r1/retract", &json!({ "seqs": [] }), 400, "bad_request"),
        (&*key, "POST", "/api/v1/rooms/r1/retract", &json!({ "seqs": [99] }), 400, "bad_request"),
        (&*key, "POST", "/api/v1/rooms/r1/retract", &json!({ "seqs": [1], "user": "u" }), 400, "bad_request"),
        (&*key, "POST", "/api/v1/rooms/r1/pin", &json!({ "seq": 99 }), 400, "bad_request"),
        (&*key, "POST", "/api/v1/rooms/r1/pin", &json!({ "seq": 0 }), 400, "bad_request"),
        (&*key, "GET", "/api/v1/rooms/r1/clear", &Value::Null, 405, "method_not_allowed"),
        (&*key, "GET", "/api/v1/audit", &Value::Null, 403, "forbidden"),
        (&*moderator, "GET", "/api/v1/audit", &Value::Null, 403, "forbidden"),
        (&*staff, "GET", "/api/v1/audit?limit=0", &Value::Null, 400, "bad_request"),
    ] {
        let answer = ask(&server, method, path, who, body);
        let told = if answer.status < 300 { String::new() } else { answer.code() };
        assert_eq!((answer.status, told.as_str()), (status, code), "{method} {path} {body} {answer:?}");
    }
    // A moderator's word binds viewers, not the streamer; the streamer's binds moderators.
    let say = |token: &str| http_comment(&server, token).status;
    for target in ["vip", "moderator", "streamer", "staff"] {
        assert_eq!(ask(&server, "POST", bans, &moderator, &json!({ "user": target })).status, 201);
    }
    assert_eq!([&vip, &moderator, &streamer, &staff].map(|token| say(token)), [403, 200, 200, 200]);
    for target in ["moderator", "streamer"] {
        assert_eq!(ask(&server, "POST", bans, &streamer, &json!({ "user": target })).status, 201);
    }
    assert_eq!([&moderator, &streamer].map(|token| say(token)), [403, 200]);
}

/// Every order is written down: who, what, for which room, why and what came of it; in the log as one line, whatever was
/// written into it. The newest are remembered.
#[test]
fn every_order_is_written_down() {
    let server = start(&[("MODERATION__AUDIT_MAX", "3")]);
    let line = "two lines";
    ban(&server, &json!({ "user": "u\u{202e}1", "reason": line }));
    order(&server, "DELETE", "bans?user=u%E2%80%AE1", &Value::Null);
    order(&server, "POST", "clear", &Value::Null);
    ask(&server, "POST", "/api/v1/rooms/r1/pin", &server.staff_key(), &json!({ "seq": 99 }));
    let audit = |query: &str| {
        let path = format!("/api/v1/audit{query}");
        ask(&server, "GET", &path, &server.staff_key(), &Value::Null).json()
    };
    let all = audit("");
    let told: Vec<_> = all["items"]
        .as_array()
        .expect("records")
        .iter()
        .map(|record| {
            let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
            (record["n"].as_u64().expect("a number"), text("action"), text("target"), text("outcome"))
        })
        .collect();
    let record = |n, action: &str, target: &str, outcome: &str| {
        (n, action.to_owned(), target.to_owned(), outcome.to_owned())
    };
    let want = [
        record(2, "unban", "u\u{202e}1", "done"),
        record(3, "clear", "", "done"),
        record(4, "pin", "99", "400"),
    ];
    assert_eq!(told, want, "{all}");
    assert!(all["items"][0]["by"].as_str().is_some_and(|by| by.starts_with("key ")), "{all}");
    assert_eq!(all["next"], 4);
    assert_eq!(audit("?after=3&limit=1")["items"][0]["n"], 4);
    let log = server.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("audit")).collect();
    assert_eq!(lines.len(), 4, "{log}");
    assert!(lines[0].contains("two lines") && !log.contains('\u{202e}'), "{log}");
}

/// A process that takes another one's place keeps out who was banned, and still shows what is pinned.
#[test]
fn what_was_decided_is_known_to_the_process_that_takes_over() {
    let settings = [("MODERATION__BANS_MODE", "enforce")];
    let mut old = start(&settings);
    let pinned = seq_of(&says(&mut user(&old, "u2"), "p1", "pinned words"));
    ban(&old, &json!({ "user": "u1", "reason": "spam" }));
    order(&old, "POST", "shadow-bans", &json!({ "address": "192.0.2.1" }));
    order(&old, "POST", "pin", &json!({ "seq": pinned }));
    let mut staying = user(&old, "u3");
    let env = environment(&settings);
    let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let new = old.replace(&["--workers", "2"], &env);
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    let listed = order(&new, "GET", "bans", &Value::Null);
    assert_eq!((&listed["items"][0]["user"], &listed["items"][0]["reason"]), (&json!("u1"), &json!("spam")));
    assert_eq!(order(&new, "GET", "shadow-bans", &Value::Null)["items"][0]["address"], "192.0.2.1");
    assert_eq!(http_comment(&new, &token("u1", "viewer")).code(), "banned");
    assert_eq!(RawSocket::join(new.address, "r1", &bearer(&token("u1", "viewer"))).end(), End::Code(4003));
    let shown = RawSocket::join(new.address, "r1", "").hears("\"snapshot\"");
    assert!(shown.contains("pinned words") && shown.contains("\"pin\""), "{shown}");
    assert!(seq_of(&says(&mut staying, "s1", "still here")) > pinned);
}

/// The same where nobody stays: whoever reads meanwhile takes nothing of it away.
#[test]
fn reading_a_room_that_nobody_is_in_lifts_nothing() {
    let mut old = start(&[]);
    let pinned = seq_of(&says(&mut user(&old, "u2"), "p1", "pinned words"));
    ban(&old, &json!({ "user": "u1", "reason": "spam" }));
    order(&old, "POST", "pin", &json!({ "seq": pinned }));
    let env = environment(&[]);
    let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let new = old.replace(&["--workers", "2"], &env);
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    for _ in 0..2 {
        let path = "/api/v1/rooms/r1/snapshot";
        let read = Exchange::new(new.address)
            .send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .answer();
        assert!(read.status == 200 && read.body.contains("\"pin\""), "{read:?}");
    }
    assert_eq!(http_comment(&new, &token("u1", "viewer")).code(), "banned");
    assert_eq!(RawSocket::join(new.address, "r1", &bearer(&token("u1", "viewer"))).end(), End::Code(4003));
    let shown = RawSocket::join(new.address, "r1", "").hears("\"snapshot\"");
    assert!(shown.contains("pinned words") && shown.contains("\"pin\""), "{shown}");
}
