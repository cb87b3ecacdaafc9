//! Who is calling, on the wire: tokens of every kind and disorder, tickets, guests, and what back ends decide.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
#[path = "support/signer.rs"]
mod signer;
mod support;

use exchange::{Answer, Exchange, post};
use jsonwebtoken::Algorithm;
use raw_socket::{End, RawSocket};
use serde_json::{Value, json};
use signer::{Signer, now_s};
use support::{Scratch, Server, until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const ROOMS: &str = "/api/v1/rooms/r1/danmaku";

/// A server with a key `hs` and more settings.
fn start(scratch: &Scratch, auth: &str) -> Server {
    let keys = format!("[[auth.keys]]\nid = \"hs\"\nsecret = \"{SECRET}\"\n");
    let config = scratch.file("live.toml", &format!("[auth]\n{auth}\n{keys}")).to_string_lossy().into_owned();
    Server::start_with(&["--workers", "2", "--config", &config], &[("DANMAKU_LOG", "trace")])
}

fn hs() -> Signer {
    Signer::secret("hs", SECRET)
}

fn claims(user: &str) -> Value {
    json!({ "sub": user, "exp": now_s() + 600, "iat": now_s(), "name": "Ann" })
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn ask(server: &Server, request: &str) -> Answer {
    Exchange::new(server.address).send(request).answer()
}

/// The status and code of a comment that shows a token.
fn comment(server: &Server, token: &str) -> (u16, String) {
    let answer = ask(server, &post(ROOMS, &bearer(token), r#"{"id":"a","text":"hello"}"#));
    let code = if answer.status == 200 { String::new() } else { answer.code() };
    (answer.status, code)
}

/// The request of a stream.
fn stream(query: &str, headers: &str) -> String {
    format!(
        "GET /ws?{query} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{headers}\r\n"
    )
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    post(path, headers, body).replacen("POST", method, 1)
}

fn auth(socket: &mut RawSocket, token: &str) {
    socket.say(&json!({ "auth": { "token": token } }).to_string());
}

/// One answer for each way in which a token can be wrong, the same by header, by subprotocol and by `auth`; and nothing
/// of any token in any answer or log.
#[test]
fn each_disorder_of_a_token_has_one_fixed_code() {
    let scratch = Scratch::new();
    let (rs, es, ed) = (
        Signer::pair("rs", Algorithm::RS256),
        Signer::pair("es", Algorithm::ES256),
        Signer::pair("ed", Algorithm::EdDSA),
    );
    let mut auth_table =
        "anonymous = true\nquery_token = false\naudience = \"chat\"\nissuer = \"me\"\n".to_owned();
    let files = [&rs, &es, &ed].map(|key| (key, scratch.file(&format!("{}.pem", key.kid), &key.public)));
    let mut keys = vec![format!("{{ id = \"hs\", secret = \"{SECRET}\" }}")];
    for (key, file) in &files {
        let (kid, algorithm) = (&key.kid, key.algorithm);
        keys.push(format!(
            "{{ id = {kid:?}, algorithm = \"{algorithm:?}\", public_key = {:?} }}",
            file.display().to_string()
        ));
    }
    auth_table.push_str(&format!("keys = [{}]\n", keys.join(", ")));
    let config = scratch.file("live.toml", &format!("[auth]\n{auth_table}")).to_string_lossy().into_owned();
    let server = Server::start_with(
        &["--workers", "2", "--config", &config],
        &[
            ("DANMAKU_LOG", "trace"),
            ("DANMAKU__LIMITS__JOINS_BURST", "1000"),
            ("DANMAKU__WEBSOCKET__ERRORS_PER_S", "1000"),
        ],
    );
    let good = json!({ "sub": "u1", "exp": now_s() + 600, "aud": "chat", "iss": "me" });
    let with = |key: &str, value: Value| {
        let mut claims = good.clone();
        claims[key] = value;
        claims
    };
    let head = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
    let hs = hs();
    // The public key as a secret: what a server falls for that lets the token choose the algorithm.
    let confused = Signer::secret("rs", &rs.public);
    let unsigned = |header: &Value, claims: &Value| {
        let whole = hs.token_with(header, claims);
        whole.rsplit_once('.').map(|(signed, _)| format!("{signed}.")).unwrap_or_default()
    };
    let with_jku = json!({ "alg": "HS256", "kid": "hs", "jku": "https://evil.example/keys" });
    let with_jwk = json!({ "alg": "ES256", "kid": "es", "jwk": Signer::pair("es", Algorithm::ES256).jwk() });
    let with_crit = json!({ "alg": "HS256", "kid": "hs", "crit": ["exp"] });
    let (now, invalid, expired) = (now_s(), "token_invalid", "token_expired");
    let table = [
        (hs.token(&good), ""),
        (rs.token(&good), ""),
        (es.token(&good), ""),
        (ed.token(&good), ""),
        (unsigned(&head("none", "hs"), &good), invalid),
        (unsigned(&json!({ "alg": "none" }), &good), invalid),
        (hs.token_with(&head("nOnE", "hs"), &good), invalid),
        (confused.token_with(&head("HS256", "rs"), &good), invalid),
        (confused.token_with(&head("RS256", "rs"), &good), invalid),
        (hs.token_with(&head("HS256", "es"), &good), invalid),
        (rs.token_with(&head("RS256", "hs"), &good), invalid),
        (Signer::pair("es", Algorithm::ES256).token(&good), invalid),
        (hs.token_with(&head("HS256", "unheard"), &good), invalid),
        (hs.token_with(&json!({ "alg": "HS256" }), &good), invalid),
        (hs.token_with(&with_jku, &good), invalid),
        (hs.token_with(&with_crit, &good), invalid),
        (es.token_with(&with_jwk, &good), invalid),
        (hs.token(&with("aud", json!("other"))), invalid),
        (hs.token(&with("aud", Value::Null)), invalid),
        (hs.token(&with("iss", json!("you"))), invalid),
        (hs.token(&with("exp", Value::Null)), invalid),
        (hs.token(&with("exp", json!((now + 600).to_string()))), invalid),
        (hs.token(&with("exp", json!(now - 31))), expired),
        (hs.token(&with("exp", json!(now + 86_400 + 60))), invalid),
        (hs.token(&with("nbf", json!("0"))), invalid),
        (hs.token(&with("nbf", json!(now + 120))), invalid),
        (hs.token(&with("sub", json!("~guest"))), invalid),
        (hs.token(&with("role", json!("system"))), invalid),
        (hs.token(&with("role", json!("staff"))), invalid),
        (hs.token(&with("rooms", json!({ "r1": { "role": "staff" } }))), invalid),
        (hs.token(&with("name", json!("n".repeat(4 << 10)))), invalid),
        ("eyJhbGciOiJIUzI1NiJ9".into(), invalid),
    ];
    let mut said = String::new();
    for (token, expected) in &table {
        // A token of its own number goes the three ways.
        let (status, code) = comment(&server, token);
        let wanted = if expected.is_empty() { 200 } else { 401 };
        assert_eq!((status, &*code), (wanted, *expected), "{token}");
        let offered = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, token);
        let protocol = format!("Sec-WebSocket-Protocol: danmaku.v1.json, danmaku.auth.{offered}\r\n");
        let answer = ask(&server, &stream("room=r1", &protocol));
        // One that is too long is no subprotocol either.
        let wanted = if expected.is_empty() {
            101
        } else if token.len() > 4 << 10 {
            400
        } else {
            401
        };
        assert_eq!(answer.status, wanted, "{token}");
        assert_eq!(answer.header("sec-websocket-protocol"), (wanted == 101).then_some("danmaku.v1.json"));
        said.push_str(&format!("{answer:?}"));
        let mut socket = RawSocket::join(server.address, "r1", "");
        auth(&mut socket, token);
        let word = if expected.is_empty() { "\"auth\"".to_owned() } else { format!("\"{expected}\"") };
        said.push_str(&socket.hears(&word));
    }
    // Far beyond any length, each where it comes from.
    let huge = "x".repeat(1 << 20);
    let answer = ask(&server, &post(ROOMS, &bearer(&huge), "{}"));
    assert_eq!(answer.status, 431, "{answer:?}");
    let mut socket = RawSocket::join(server.address, "r1", "");
    auth(&mut socket, &huge);
    assert_eq!(socket.end(), End::Code(1009));
    assert_eq!(ask(&server, &stream(&format!("room=r1&token={}", "x".repeat(9 << 10)), "")).status, 414);
    assert_eq!(
        ask(&server, &stream(&format!("room=r1&token={}", hs.token(&good)), "")).code(),
        "bad_request"
    );
    // The canaries: any part of any token is one.
    said.push_str(&server.log());
    said.push_str(&server.get("/metrics").1);
    for (token, _) in &table {
        for part in token.split('.').filter(|part| part.len() > 40) {
            assert!(!said.contains(&part[..40]), "{part} was told");
        }
    }
    assert!(!said.contains(SECRET) && !said.contains("xxxxxxxxxxxxxxxx"), "a secret was told");
    // Each was taken three times, and verified once.
    let (taken, again) =
        (server.metric("danmaku_tokens_taken_total"), server.metric("danmaku_tokens_taken_again_total"));
    assert_eq!((taken, again), (12, 8));
    assert_eq!(server.metric("danmaku_tokens_refused_total"), 28 * 3 - 1);
}

/// A token of a few seconds: its session is told in time, lives on with the user's next one, and is closed with 4001 without.
#[test]
fn a_session_ends_with_its_token_unless_it_shows_the_next() {
    let scratch = Scratch::new();
    let server = start(&scratch, "anonymous = true\nleeway = \"1s\"\nremind_before = \"1s\"\n");
    let brief = |user: &str, lives_s: u64| hs().token(&json!({ "sub": user, "exp": now_s() + lives_s }));
    let mut keeps = RawSocket::join(server.address, "r1", &bearer(&brief("keeps", 2)));
    let mut leaves = RawSocket::join(server.address, "r1", &bearer(&brief("leaves", 2)));
    let mut listens = Exchange::new(server.address);
    let listen = format!(
        "GET /api/v1/rooms/r1/events HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        bearer(&brief("listens", 2))
    );
    listens.send(listen).reads("joined");
    for socket in [&mut keeps, &mut leaves] {
        let told: Value = serde_json::from_str(&socket.hears("\"auth\"")).expect("JSON");
        let left = told["auth"]["expiresInMs"].as_u64().unwrap_or(0);
        assert!(left <= 1_000 && told["auth"]["you"].is_null(), "{told}");
    }
    // Another user's does not do.
    auth(&mut keeps, &brief("other", 60));
    assert!(keeps.hears("\"error\"").contains("token_invalid"));
    auth(&mut keeps, &brief("keeps", 60));
    let told: Value = serde_json::from_str(&keeps.hears("\"auth\"")).expect("JSON");
    let left = told["auth"]["expiresInMs"].as_u64().unwrap_or(0);
    assert!((50_000..=60_000).contains(&left) && told["auth"]["you"].is_null(), "{told}");
    assert_eq!(leaves.end(), End::Code(4001));
    until("the event stream is closed too", || server.metric("danmaku_closed_total{code=\"4001\"}") == 2);
    keeps.say(r#"{"send":{"id":"a","text":"still here"}}"#);
    assert!(keeps.hears("\"ack\"").contains("\"a\""));
    // What has ended does not come back.
    assert_eq!(
        comment(&server, &hs().token(&json!({ "sub": "u", "exp": now_s() - 2 }))),
        (401, "token_expired".into())
    );
}

/// A guest becomes a user without another connection, and never the reverse; a known guest becomes itself.
#[test]
fn a_guest_becomes_a_user_and_stays_one() {
    let scratch = Scratch::new();
    let server = start(&scratch, "anonymous = \"read_only\"\nbadges = [\"fan\"]\n");
    let mut socket = RawSocket::join(server.address, "r1", "");
    let joined: Value = serde_json::from_str(&socket.hears("joined")).expect("JSON");
    let guest = joined["joined"]["you"]["guest"].as_str().unwrap_or_default().to_owned();
    socket.say(r#"{"send":{"id":"a","text":"may I"}}"#);
    assert!(socket.hears("\"error\"").contains("unauthorized"));
    let anonymous = ask(&server, &post(ROOMS, "", r#"{"id":"a","text":"may I"}"#));
    assert_eq!((anonymous.status, anonymous.code()), (401, "unauthorized".into()));
    let mut other = RawSocket::join(server.address, "r1", "");
    auth(&mut other, &guest);
    let told: Value = serde_json::from_str(&other.hears("\"auth\"")).expect("JSON");
    assert_eq!(told["auth"]["you"]["guest"], guest, "{told}");
    let mut who = claims("u1");
    who["rooms"] = json!({ "r1": { "role": "vip", "level": 7, "badges": ["fan", "forged"] }, "r2": { "role": "moderator" } });
    auth(&mut socket, &hs().token(&who));
    let told: Value = serde_json::from_str(&socket.hears("\"auth\"")).expect("JSON");
    assert_eq!(told["auth"]["you"], json!({ "id": "u1", "name": "Ann", "role": "vip" }), "{told}");
    socket.say(r#"{"send":{"id":"b","text":"I may"}}"#);
    socket.hears("\"ack\"");
    let batch: Value = serde_json::from_str(&other.hears("I may")).expect("JSON");
    let user = json!({ "id": "u1", "name": "Ann", "role": "vip", "level": 7, "badges": ["fan"] });
    assert_eq!(batch["batch"]["items"][0]["user"], user, "{batch}");
    // Another room, another role.
    socket.say(r#"{"join":{"room":"r2"}}"#);
    let joined: Value = serde_json::from_str(&socket.hears("joined")).expect("JSON");
    assert_eq!(joined["joined"]["you"]["role"], "moderator", "{joined}");
    auth(&mut socket, &guest);
    assert!(socket.hears("\"error\"").contains("token_invalid"));
}

/// A ticket opens one stream of its room, once and soon; a publish is no stream.
#[test]
fn a_ticket_opens_its_room_once() {
    let scratch = Scratch::new();
    let server = start(&scratch, "ticket_life = \"2s\"\n");
    let key = bearer(&server.staff_key());
    let ticket = |headers: &str, body: &str| ask(&server, &post("/api/v1/tickets", headers, body));
    let made = ticket(&bearer(&hs().token(&claims("u1"))), r#"{"room":"r1"}"#);
    assert_eq!((made.status, made.header("cache-control")), (201, Some("no-store")), "{made:?}");
    assert_eq!(made.json()["expiresInMs"], 2_000);
    let of = |answer: &Answer| answer.json()["ticket"].as_str().unwrap_or_default().to_owned();
    let query = |ticket: &str| format!("room=r1&ticket={ticket}");
    assert_eq!(ask(&server, &stream(&query(&of(&made)), "")).status, 101);
    assert_eq!(ask(&server, &stream(&query(&of(&made)), "")).code(), "token_invalid");
    // For another room it is used up in vain.
    let made = ticket(&bearer(&hs().token(&claims("u1"))), r#"{"room":"r2"}"#);
    assert_eq!(ask(&server, &stream(&query(&of(&made)), "")).status, 401);
    // A back end vouches for whom it likes; as an event stream.
    let body = r#"{"room":"r1","user":{"id":"u2","name":"Bea","role":"moderator","level":3}}"#;
    let made = ticket(&key, body);
    let listen =
        format!("GET /api/v1/rooms/r1/events?ticket={} HTTP/1.1\r\nHost: localhost\r\n\r\n", of(&made));
    let mut events = Exchange::new(server.address);
    let joined = events.send(listen).reads("\"you\"");
    assert!(joined.contains(r#""you":{"id":"u2","name":"Bea","role":"moderator"}"#), "{joined}");
    for (headers, body, status, code) in [
        ("", r#"{"room":"r1"}"#, 401, "unauthorized"),
        (&*bearer("dk_x_y"), r#"{"room":"r1"}"#, 401, "token_invalid"),
        (&bearer("~guest.x"), r#"{"room":"r1"}"#, 401, "token_invalid"),
        (&key, r#"{"room":"r1"}"#, 400, "bad_request"),
        (&key, r#"{"room":"r 1","user":{"id":"u"}}"#, 400, "room_invalid"),
        (&key, r#"{"room":"r1","user":{"id":"~u"}}"#, 400, "bad_request"),
        (&bearer(&hs().token(&claims("u1"))), body, 403, "forbidden"),
    ] {
        let answer = ticket(headers, body);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{body}");
    }
    let made = of(&ticket(&bearer(&hs().token(&claims("u1"))), r#"{"room":"r1"}"#));
    let publish = post(&format!("{ROOMS}?ticket={made}"), "", r#"{"id":"a","text":"hello"}"#);
    assert_eq!(ask(&server, &publish).code(), "bad_request");
    // Too old: its time is over when the server has forgotten it, which it does when any ticket is shown.
    until("it is there", || server.metric("danmaku_tickets_open") == 1);
    until("it is forgotten", || {
        assert_eq!(ask(&server, &stream("room=r1&ticket=AAAAAAAAAAAAAAAAAAAAAA", "")).status, 401);
        server.metric("danmaku_tickets_open") == 0
    });
    assert_eq!(ask(&server, &stream(&query(&made), "")).status, 401);
    let browser = "OPTIONS /api/v1/tickets HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(ask(&server, browser).header("access-control-allow-methods"), Some("POST"));
    assert!(!server.log().contains(&made));
}

#[test]
fn tickets_are_bounded_in_all_and_by_user() {
    let scratch = Scratch::new();
    let server = start(&scratch, "tickets_max = 20\n");
    let ticket = |user: &str| {
        ask(&server, &post("/api/v1/tickets", &bearer(&hs().token(&claims(user))), r#"{"room":"r1"}"#))
    };
    for _ in 0..16 {
        assert_eq!(ticket("greedy").status, 201);
    }
    let refused = ticket("greedy");
    assert_eq!((refused.status, refused.code()), (429, "rate_limited".into()));
    assert!(refused.json()["retryAfterMs"].as_u64().is_some_and(|ms| ms > 0 && ms <= 60_000), "{refused:?}");
    assert_eq!(server.met("user_tickets"), 1);
    for user in ["a", "b", "c", "d"] {
        assert_eq!(ticket(user).status, 201);
    }
    let refused = ticket("e");
    assert_eq!((refused.status, refused.code()), (503, "overloaded".into()));
    assert_eq!(server.met("tickets"), 1);
}

/// Revoked, disconnected and changed users: their sessions everywhere hear of it, and tokens of before count as decided.
#[test]
fn what_is_decided_about_a_user_holds_for_its_sessions_and_its_older_tokens() {
    let scratch = Scratch::new();
    let server = start(&scratch, "");
    let key = bearer(&server.staff_key());
    let api = |method: &str, path: &str, headers: &str, body: &str| {
        ask(&server, &request(method, &format!("/api/v1/users/{path}"), headers, body))
    };
    let token = |user: &str, ago_s: u64| {
        hs().token(&json!({ "sub": user, "exp": now_s() + 600, "iat": now_s() - ago_s, "name": "Ann" }))
    };
    let old = token("u 1", 10);
    // Rooms of both workers.
    let mut sessions: Vec<_> =
        (0..8).map(|n| RawSocket::join(server.address, &format!("r{n}"), &bearer(&old))).collect();
    let mut neighbour = RawSocket::join(server.address, "r1", &bearer(&token("u2", 10)));
    sessions.iter_mut().chain([&mut neighbour]).for_each(|socket| drop(socket.hears("joined")));
    let patch = r#"{"name":"Bea","level":4,"rooms":{"r3":{"role":"moderator"}}}"#;
    let changed = api("PATCH", "u%201", &key, patch);
    assert_eq!(changed.status, 204, "{changed:?}");
    for (n, socket) in sessions.iter_mut().enumerate() {
        let told: Value = serde_json::from_str(&socket.hears("\"auth\"")).expect("JSON");
        let mut you = json!({ "id": "u 1", "name": "Bea" });
        if n == 3 {
            you["role"] = json!("moderator");
        }
        assert_eq!(told["auth"]["you"], you, "{n}: {told}");
    }
    sessions[1].say(r#"{"send":{"id":"a","text":"as Bea"}}"#);
    let heard = neighbour.hears("as Bea");
    assert!(heard.contains(r#""user":{"id":"u 1","name":"Bea","level":4}"#), "{heard}");
    // Who comes back with the old token is changed too; a newer token knows better.
    let mut back = RawSocket::join(server.address, "r3", &bearer(&old));
    let joined = back.hears("joined");
    assert!(joined.contains(r#""name":"Bea","role":"moderator""#), "{joined}");
    // Disconnected: away, and free to come back.
    assert_eq!(api("POST", "u%201/disconnect", &key, "").status, 204);
    for socket in &mut sessions {
        assert_eq!(socket.end(), End::Code(1008));
    }
    assert_eq!(back.end(), End::Code(1008));
    let mut back = RawSocket::join(server.address, "r1", &bearer(&old));
    back.hears("joined");
    assert_eq!(api("POST", "u%201/revoke", &key, "{}").status, 204);
    assert_eq!(back.end(), End::Code(4001));
    assert_eq!(comment(&server, &old), (401, "token_expired".into()));
    let newer = hs().token(&json!({ "sub": "u 1", "exp": now_s() + 600, "iat": now_s() + 1 }));
    let newer = ask(&server, &post(ROOMS, &bearer(&newer), r#"{"id":"newer","text":"hello"}"#));
    assert_eq!(newer.status, 200, "{newer:?}");
    neighbour.say(r#"{"ping":{"t":1}}"#);
    neighbour.hears("pong");
    // Who may: keys for it, and staff.
    let staff = hs().token(&json!({ "sub": "s", "exp": now_s() + 600, "role": "staff", "global": true }));
    assert_eq!(api("POST", "u3/revoke", &bearer(&staff), "").status, 204);
    let narrow = |scope: &str, rooms: &[&str]| {
        let key = bearer(&server.new_key(scope, rooms));
        until("the server knows the new key", || {
            ask(&server, &post("/api/v1/tickets", &key, "{}")).status != 401
        });
        key
    };
    for (headers, path, method, body, status, code) in [
        ("", "u1", "PATCH", patch, 401, "unauthorized"),
        (&*bearer(&token("u1", 0)), "u1", "PATCH", patch, 403, "forbidden"),
        (&narrow("tickets", &[]), "u1", "PATCH", patch, 403, "forbidden"),
        (&narrow("users", &["r3"]), "u1", "PATCH", patch, 403, "forbidden"),
        (&narrow("users", &["r3"]), "u1/revoke", "POST", "{}", 403, "forbidden"),
        (&key, "u1", "PATCH", r#"{"level":10000}"#, 400, "bad_request"),
        (&key, "u1", "PATCH", r#"{"nick":"x"}"#, 400, "bad_request"),
        (&key, "%ff", "PATCH", patch, 400, "bad_request"),
        (&key, "u1", "GET", "", 405, "method_not_allowed"),
        (&key, "u1/other", "POST", "", 404, "not_found"),
    ] {
        let answer = api(method, path, headers, body);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{method} {path} {body}");
    }
    let room_key = narrow("users", &["r3"]);
    assert_eq!(api("PATCH", "u1", &room_key, r#"{"rooms":{"r3":{"level":2}}}"#).status, 204);
    assert_eq!(server.metric("danmaku_users_decided_total"), 5);
}

#[test]
fn decisions_about_users_are_bounded() {
    let scratch = Scratch::new();
    let server = start(&scratch, "users_changed_max = 2\n");
    let key = bearer(&server.staff_key());
    let revoke = |user: &str| ask(&server, &post(&format!("/api/v1/users/{user}/revoke"), &key, "{}"));
    for user in ["a", "b", "a"] {
        assert_eq!(revoke(user).status, 204);
    }
    let refused = revoke("c");
    assert_eq!((refused.status, refused.code()), (503, "overloaded".into()));
    assert_eq!(server.met("users_changed"), 1);
}
