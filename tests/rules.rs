//! Every rule of admission is met on the wire: by its own code and name, with a wait that is true, counted, and nothing of
//! what it refuses is seen by anybody else.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
#[path = "support/signer.rs"]
mod signer;
mod support;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use danmaku::config::raw::Raw;
use danmaku_room::admission::rule::Rule;
use exchange::{Exchange, post};
use raw_socket::RawSocket;
use serde_json::{Value, json};
use signer::{Signer, now_s};
use support::{Server, until};

const KEYS: (&str, &str) =
    ("DANMAKU__AUTH__KEYS", r#"[{id="k1", secret="a secret of at least thirty-two bytes"}]"#);
const SECRET: &str = "a secret of at least thirty-two bytes";
const LONG: &str = "a text that is longer than the short ones";

fn start(settings: &[(&str, &str)]) -> Server {
    let mut env: Vec<_> =
        settings.iter().map(|(key, value)| (format!("DANMAKU__{key}"), (*value).to_owned())).collect();
    env.push((KEYS.0.to_owned(), KEYS.1.to_owned()));
    env.push(("DANMAKU__AUTH__ANONYMOUS".to_owned(), "true".to_owned()));
    let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Server::start_with(&["--workers", "1"], &env)
}

/// Somebody in a room.
struct Person {
    socket: RawSocket,
}

impl Person {
    /// A guest.
    fn guest(server: &Server) -> Self {
        Self::with(server, "")
    }

    /// A user by a token.
    fn user(server: &Server, name: &str, role: &str) -> Self {
        let args = ["token", "--user", name, "--role", role];
        let made = Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).envs([KEYS]).output();
        let token = String::from_utf8(made.expect("it runs").stdout).expect("text");
        assert!(!token.trim().is_empty(), "a token for {name}");
        Self::with(server, &format!("Authorization: Bearer {}\r\n", token.trim()))
    }

    /// A user by a token that says what it is in some rooms.
    fn granted(server: &Server, user: &str, rooms: &Value) -> Self {
        Self::with(server, &format!("Authorization: Bearer {}\r\n", token(user, rooms)))
    }

    fn with(server: &Server, headers: &str) -> Self {
        let mut socket = RawSocket::join(server.address, "r1", headers);
        socket.hears("\"joined\"");
        Self { socket }
    }

    /// Says something and hears what became of it: `Null` where it was taken, the error where it was not.
    fn says(&mut self, text: &str) -> Value {
        self.sends(json!({ "text": text }))
    }

    fn sends(&mut self, mut send: Value) -> Value {
        // The same id by the same user would be the same comment.
        static IDS: AtomicU32 = AtomicU32::new(0);
        let id = format!("n-{}-", IDS.fetch_add(1, Ordering::Relaxed));
        send["id"] = id.as_str().into();
        self.socket.say(&json!({ "send": send }).to_string());
        let answer = self.socket.hears(&format!("\"id\":\"{id}\""));
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["error"].clone()
    }
}

fn token(user: &str, rooms: &Value) -> String {
    let claims = json!({ "sub": user, "exp": now_s() + 600, "iat": now_s(), "rooms": rooms });
    Signer::secret("k1", SECRET).token(&claims)
}

fn wait_of(refused: &Value) -> Duration {
    Duration::from_millis(refused["retryAfterMs"].as_u64().unwrap_or_else(|| panic!("no wait in {refused}")))
}

/// A refusal is by this rule: its code and its name.
fn is_by(refused: &Value, rule: &str) {
    let row = Rule::ALL.into_iter().map(Rule::row).find(|row| row.name == rule).expect("a rule");
    assert_eq!(refused["code"], row.code.as_str(), "{rule}: {refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.ends_with(&format!("Rule: {rule}.")), "{rule}: {message}");
}

fn refused_by(server: &Server, rule: &str) -> u64 {
    server.metric(&format!("danmaku_rule_refused_total{{rule=\"{rule}\"}}"))
}

fn observed_by(server: &Server, rule: &str) -> u64 {
    server.metric(&format!("danmaku_rule_observed_total{{rule=\"{rule}\"}}"))
}

/// The table: every rule's key is in the configuration with its default, its counters in the metrics, and a test under
/// `tests/` names it.
#[test]
fn every_rule_has_a_key_a_counter_and_a_test_that_meets_it() {
    let keys = Raw::default().keys();
    let (_, metrics) = start(&[]).get("/metrics");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let tests = [
        "rules.rs",
        "breakers.rs",
        "everywhere.rs",
        "publish.rs",
        "words.rs",
        "moderation.rs",
        "webhook.rs",
        "room_state.rs",
    ]
    .map(|file| std::fs::read_to_string(folder.join(file)).expect("a file"));
    for rule in Rule::ALL {
        let row = rule.row();
        let key = keys.iter().find(|key| key.path() == row.key);
        let default = format!("{:?}", format!("{:?}", row.default).to_lowercase());
        let written = key.unwrap_or_else(|| panic!("{rule:?}: no key {}", row.key)).value.clone();
        assert_eq!(written, Some(default), "{}", row.key);
        for family in ["refused", "observed"] {
            let counter = format!("danmaku_rule_{family}_total{{rule=\"{}\"}} 0", row.name);
            assert!(metrics.contains(&counter), "there is no {counter}");
        }
        assert!(tests.iter().any(|text| text.contains(&format!("\"{}\"", row.name))), "{rule:?} has no test");
    }
}

/// The modes of a room, enforced, observed and off: refused by name and seen by nobody, counted and seen by everybody, or
/// not there.
#[test]
fn the_modes_of_a_room_refuse_by_name_what_nobody_sees_then() {
    let plain = json!({"text": "hello"});
    let styled = json!({"text": "hello", "mode": "top"});
    let long = json!({"text": "hello, said in more than forty characters by a guest"});
    for (rule, setting, more, send) in [
        ("read_only", "POLICY__READ_ONLY_MODE", None, &plain),
        ("muted", "POLICY__MUTED_MODE", None, &plain),
        ("level", "POLICY__LEVEL_MODE", None, &plain),
        ("members", "POLICY__MEMBERS_MODE", None, &plain),
        ("followers", "POLICY__FOLLOWERS_MODE", None, &plain),
        ("vips", "POLICY__VIPS_MODE", None, &plain),
        ("style", "POLICY__STYLE_MODE", None, &styled),
        ("length", "POLICY__LENGTH_MODE", None, &long),
        ("filtered", "LIMITS__FILTERED_MODE", Some(("LIMITS__FILTERED_USERS", r#"["~*"]"#)), &plain),
    ] {
        for (mode, passes, refused, observed) in
            [("enforce", false, 1, 0), ("observe", true, 0, 1), ("off", true, 0, 0)]
        {
            let settings: Vec<_> = [(setting, mode)].into_iter().chain(more).collect();
            let server = start(&settings);
            let (mut guest, mut witness) = (Person::guest(&server), Person::guest(&server));
            let answer = guest.sends(send.clone());
            if passes {
                assert_eq!(answer, Value::Null, "{rule} {mode}");
                witness.socket.hears("hello");
            } else {
                is_by(&answer, rule);
            }
            assert_eq!(server.metric("danmaku_published_total"), u64::from(passes), "{rule} {mode}");
            until("it is counted", || refused_by(&server, rule) == refused);
            until("it is counted", || observed_by(&server, rule) == observed);
        }
    }
}

/// Rules that ask who somebody is in the room: members, followers of some time, VIPs and levels are let in by what their
/// tokens say of this room, and nobody by what they say of another one; over a socket and over HTTP alike.
#[test]
fn rules_ask_what_a_token_says_of_the_room() {
    let hour_ago = now_s() - 3_600;
    for (rule, settings, yes, no) in [
        ("members", &[("POLICY__MEMBERS_MODE", "enforce")][..], json!({"member": true}), json!({"level": 9})),
        (
            "followers",
            &[("POLICY__FOLLOWERS_MODE", "enforce"), ("POLICY__FOLLOWED_FOR", "30m")],
            json!({"followedAt": hour_ago}),
            json!({"member": true}),
        ),
        ("vips", &[("POLICY__VIPS_MODE", "enforce")], json!({"role": "vip"}), json!({"member": true})),
        (
            "level",
            &[("POLICY__LEVEL_MODE", "enforce"), ("POLICY__LEVEL_MIN", "5")],
            json!({"level": 5}),
            json!({"level": 4}),
        ),
    ] {
        let server = start(settings);
        let elsewhere = Person::granted(&server, "u1", &json!({"r2": yes, "r1": no})).says("no");
        is_by(&elsewhere, rule);
        assert_eq!(elsewhere["retryAfterMs"], Value::Null, "{rule}: waiting does not help");
        let mut witness = Person::guest(&server);
        let mut here = Person::granted(&server, "u2", &json!({"r1": yes}));
        assert_eq!(here.says("hello"), Value::Null, "{rule}");
        witness.socket.hears("\"hello\"");
        assert_eq!(Person::granted(&server, "u3", &json!({"*": yes})).says("me too"), Value::Null, "{rule}");
        // Whoever keeps order is not held to it.
        let moderator = json!({"r1": {"role": "moderator"}});
        assert_eq!(Person::granted(&server, "u4", &moderator).says("welcome"), Value::Null, "{rule}");
        let by_http = |user: &str, rooms: Value| {
            let head = format!("Authorization: Bearer {}\r\n", token(user, &rooms));
            let body = json!({"id": format!("h-{user}"), "text": "hello"}).to_string();
            Exchange::new(server.address).send(post("/api/v1/rooms/r1/danmaku", &head, &body)).answer()
        };
        assert_eq!(by_http("u5", json!({"r1": yes})).status, 200, "{rule}");
        assert_eq!(by_http("u6", json!({"r1": no})).json()["rule"], rule);
        until("both are counted", || refused_by(&server, rule) == 2);
    }
}

/// Followers who are too new: they are told how long it takes, and that is true.
#[test]
fn a_new_follower_is_told_when_it_may_write() {
    let server = start(&[("POLICY__FOLLOWERS_MODE", "enforce"), ("POLICY__FOLLOWED_FOR", "60s")]);
    let followed_at = now_s() - 58;
    let mut new = Person::granted(&server, "u1", &json!({"r1": {"followedAt": followed_at}}));
    let refused = new.says("hello");
    is_by(&refused, "followers");
    assert!(wait_of(&refused) <= Duration::from_secs(2), "{refused}");
    // What a client does with the number.
    std::thread::sleep(wait_of(&refused));
    assert_eq!(new.says("hello"), Value::Null);
}

/// Membership that the platform takes and gives while somebody is there.
#[test]
fn a_member_may_write_as_soon_as_the_platform_says_so() {
    let server = start(&[("POLICY__MEMBERS_MODE", "enforce")]);
    let mut user = Person::granted(&server, "u1", &json!({}));
    is_by(&user.says("hello"), "members");
    let next = token("u1", &json!({"r1": {"member": true}}));
    user.socket.say(&json!({ "auth": { "token": next } }).to_string());
    user.socket.hears("\"auth\"");
    assert_eq!(user.says("hello"), Value::Null);
}

/// What roles may do with how a comment looks, and how long it is, by the class of the room.
#[test]
fn looks_and_lengths_are_for_the_roles_that_a_rooms_class_names() {
    let class = r#"[{match="r1", style_mode="enforce", motion_role="vip", color_role="viewer", size_role="staff", length_mode="enforce", length_role="vip", length_chars_max=5}]"#;
    let server = start(&[("ROOMS", class)]);
    let (mut viewer, mut vip) = (Person::guest(&server), Person::user(&server, "v1", "vip"));
    for (send, rule, vips) in [
        (json!({"text": "top", "mode": "top"}), Some("style"), None),
        (json!({"text": "red", "color": 0xFF_0000}), None, None),
        (json!({"text": "big", "size": 36}), Some("style"), Some("style")),
        (json!({"text": "four "}), None, None),
        (json!({"text": "longer"}), Some("length"), None),
    ] {
        for (who, rule) in [(&mut viewer, rule), (&mut vip, vips)] {
            let answer = who.sends(send.clone());
            match rule {
                Some(rule) => is_by(&answer, rule),
                None => assert_eq!(answer, Value::Null, "{send}"),
            }
        }
    }
}

/// Slow mode: the next comment waits as long as it is told, and no longer. Whoever keeps order does not wait.
#[test]
fn slow_mode_tells_how_long_to_wait() {
    let server = start(&[("POLICY__SLOW_MODE", "enforce"), ("POLICY__SLOW_INTERVAL", "700ms")]);
    let mut guest = Person::guest(&server);
    assert_eq!(guest.says("one"), Value::Null);
    let refused = guest.says("two");
    is_by(&refused, "slow_mode");
    let wait = wait_of(&refused);
    assert!(wait <= Duration::from_millis(700), "{wait:?}");
    // What a client does with the number.
    std::thread::sleep(wait);
    assert_eq!(guest.says("two"), Value::Null);
    assert_eq!(server.metric("danmaku_published_total"), 2);
}

/// A user's rate: by name, with a wait that is true; somebody else is not concerned.
#[test]
fn a_users_rate_tells_how_long_to_wait() {
    let server = start(&[("LIMITS__USER_BURST", "1"), ("LIMITS__USER_PER_S", "2")]);
    let (mut one, mut other) = (Person::guest(&server), Person::guest(&server));
    assert_eq!(one.says("one"), Value::Null);
    let refused = one.says("two");
    is_by(&refused, "user_rate");
    assert!(wait_of(&refused) <= Duration::from_millis(500), "{refused}");
    assert_eq!(other.says("three"), Value::Null);
    std::thread::sleep(wait_of(&refused));
    assert_eq!(one.says("four"), Value::Null);
    until("it is counted", || refused_by(&server, "user_rate") == 1);
}

/// Guests from elsewhere have a rate of their own, over a socket and over HTTP; guests from this machine write as users do.
#[test]
fn guests_from_elsewhere_have_a_rate_of_their_own() {
    let server = start(&[("SERVER__TRUSTED_PROXIES", r#"["127.0.0.1"]"#), ("LIMITS__GUEST_PER_S", "0.001")]);
    let mut here = Person::guest(&server);
    let mut there = Person::with(&server, "X-Forwarded-For: 203.0.113.7\r\n");
    for n in 0..10 {
        assert_eq!(here.says("hello"), Value::Null, "{n}");
    }
    for n in 0..3 {
        assert_eq!(there.says("hello"), Value::Null, "{n}");
    }
    is_by(&there.says("hello"), "user_rate");
    let by_http = |n: u32| {
        let body = json!({"id": format!("h-{n}"), "text": "hello"}).to_string();
        let head = "X-Forwarded-For: 203.0.113.8\r\n";
        Exchange::new(server.address).send(post("/api/v1/rooms/r1/danmaku", head, &body)).answer()
    };
    assert!((0..3).all(|n| by_http(n).status == 200));
    let refused = by_http(3);
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"));
    assert_eq!(refused.json()["rule"], "user_rate");
}

/// The room's window: whoever fills it is refused, with a wait; whoever has nothing in it comes in, until it is full.
#[test]
fn a_full_window_lets_those_in_who_have_nothing_in_it() {
    let settings =
        [("LIMITS__USER_MODE", "off"), ("LIMITS__ROOM_COUNT_MAX", "32"), ("LIMITS__ROOM_WINDOW", "1h")];
    let server = start(&settings);
    let mut talker = Person::guest(&server);
    let mut accepted = 0;
    let refused = loop {
        match talker.says("hello") {
            Value::Null => accepted += 1,
            refused => break refused,
        }
    };
    is_by(&refused, "room_rate");
    assert!(wait_of(&refused) <= Duration::from_secs(3_600), "{refused}");
    assert!((1..=30).contains(&accepted), "{accepted} of 32");
    for _ in accepted..32 {
        assert_eq!(Person::guest(&server).says("and me"), Value::Null);
    }
    is_by(&Person::guest(&server).says("too late"), "room_rate");
    assert_eq!(server.metric("danmaku_published_total"), 32);
}

/// VIPs pass what holds the crowd, up to their ceiling; above it they are the crowd.
#[test]
fn vips_have_priority_up_to_a_ceiling() {
    let settings = [
        ("LIMITS__VIP_PER_S", "3"),
        ("LIMITS__USER_BURST", "1"),
        ("LIMITS__USER_PER_S", "0.001"),
        ("LIMITS__ROOM_COUNT_MAX", "1"),
        ("LIMITS__ROOM_WINDOW", "1h"),
    ];
    let server = start(&settings);
    let (mut guest, mut vip) = (Person::guest(&server), Person::user(&server, "v1", "vip"));
    assert_eq!(guest.says("one"), Value::Null);
    is_by(&guest.says("two"), "user_rate");
    for n in 0..3 {
        assert_eq!(vip.says("hello"), Value::Null, "{n}");
    }
    let mut accepted = 3;
    // Places come back three times a second, while it asks far more often.
    let refused = loop {
        match vip.says("hello") {
            Value::Null => accepted += 1,
            refused => break refused,
        }
    };
    is_by(&refused, "room_rate");
    until("it is counted", || refused_by(&server, "vip_ceiling") == 1);
    assert_eq!(server.metric("danmaku_published_total"), accepted + 1);
}

/// The same long text by the same user, over two of its connections: refused once it was said.
#[test]
fn the_same_long_text_is_said_once() {
    let server = start(&[]);
    let (mut here, mut there) =
        (Person::user(&server, "u1", "viewer"), Person::user(&server, "u1", "viewer"));
    let mut other = Person::user(&server, "u2", "viewer");
    assert_eq!(here.says(LONG), Value::Null);
    is_by(&there.says(LONG), "duplicate");
    assert_eq!(other.says(LONG), Value::Null);
    assert_eq!((here.says("short"), here.says("short")), (Value::Null, Value::Null));
    until("it is counted", || refused_by(&server, "duplicate") == 1);
}
