//! What a user does in all rooms together, on the wire: how fast it writes, whether it says the same everywhere, and how often
//! it moves. Rooms hear of it a moment late.

#[path = "support/person.rs"]
mod person;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::time::Duration;

use person::{KEYS, Person};
use serde_json::Value;
use support::{Server, until};

fn start(settings: &[(&str, &str)]) -> Server {
    let rooms = (r"DANMAKU__ROOMS", r#"[{match = "free-*", user_mode = "off"}]"#);
    let env = [KEYS, ("DANMAKU__AUTH__ANONYMOUS", "true"), rooms];
    let env: Vec<_> = env.iter().chain(settings).copied().collect();
    Server::start_with(&["--workers", "2"], &env)
}

fn refused_by(server: &Server, rule: &str) -> u64 {
    server.metric(&format!("danmaku_rule_refused_total{{rule=\"{rule}\"}}"))
}

/// A user of one room each: one connection for each room.
fn everywhere(server: &Server, user: &str, rooms: &str, count: usize, more: &[&str]) -> Vec<Person> {
    (0..count).map(|n| Person::user(server, &format!("{rooms}{n}"), user, more)).collect()
}

/// Says something in one room after the other until it is refused or held: the answer.
fn roams(people: &mut [Person], text: impl Fn(usize) -> String) -> Value {
    for n in 0..1_000 {
        let at = n % people.len();
        let answer = people[at].says(&text(n));
        if !answer["code"].is_null() || answer["state"] == "held" {
            return answer;
        }
    }
    panic!("nobody said that it is too much");
}

/// A user who writes in many rooms at once is refused in all of them by name, with a wait that is true; others are not, nor is
/// it in rooms that do not limit their users, nor a VIP.
#[test]
fn a_user_is_limited_over_all_rooms_together() {
    let server = start(&[
        ("DANMAKU__LIMITS__EVERYWHERE_BURST", "5"),
        ("DANMAKU__LIMITS__EVERYWHERE_PER_S", "0.5"),
        ("DANMAKU__LIMITS__EVERYWHERE_MODE", "enforce"),
    ]);
    let mut user = everywhere(&server, "u1", "r", 8, &[]);
    let refused = roams(&mut user, |n| format!("hello {n}"));
    assert_eq!(refused["code"], "rate_limited", "{refused}");
    assert!(refused["message"].as_str().unwrap_or_default().ends_with("Rule: everywhere."), "{refused}");
    let wait = refused["retryAfterMs"].as_u64().expect("a wait");
    assert!(wait <= 2_000, "{refused}");
    // What a client does with the number.
    std::thread::sleep(Duration::from_millis(wait));
    user[0].says_well("after the wait");
    Person::user(&server, "r0", "u2", &[]).says_well("somebody else");
    Person::user(&server, "r0", "v1", &["--role", "vip"]).says_well("a VIP");
    let mut free = everywhere(&server, "u3", "free-", 4, &[]);
    for n in 0..40 {
        free[n % 4].says_well(&format!("free {n}"));
    }
    until("it is counted", || refused_by(&server, "everywhere") > 0);
    until("it is known", || server.metric("danmaku_watched_users") >= 2);
}

/// The same text in more than three rooms waits for a moderator wherever it is said then; another text of the user does not,
/// nor the same one by somebody else.
#[test]
fn the_same_text_in_many_rooms_waits_for_a_moderator() {
    let server = start(&[("DANMAKU__LIMITS__SPREAD_MODE", "enforce")]);
    let mut staff: Vec<_> = (0..8)
        .map(|n| Person::user(&server, &format!("r{n}"), "m1", &["--role", "moderator", "--global"]))
        .collect();
    let mut user = everywhere(&server, "u1", "r", 8, &[]);
    let held = roams(&mut user, |_| "buy now".to_owned());
    assert_eq!((held["state"].as_str(), &held["seq"]), (Some("held"), &Value::Null), "{held}");
    user[7].says_well("something else");
    Person::user(&server, "r7", "u2", &[]).says_well("buy now");
    let last = user[0].says("buy now");
    assert_eq!(last["state"], "held", "{last}");
    let pending = staff[0].hears("\"pending\"")["pending"].clone();
    assert_eq!((&pending["text"], &pending["reason"]), (&"buy now".into(), &"spread".into()), "{pending}");
    until("it is counted", || refused_by(&server, "spread") >= 2);
    assert!(server.metric("danmaku_comments_held_total") >= 2);
}

/// Moves count for a user, over whichever of its connections; who is refused stays where it is.
#[test]
fn a_user_moves_only_so_often_over_all_its_connections() {
    let server = start(&[
        ("DANMAKU__LIMITS__MOVES_LIMITED", "true"),
        ("DANMAKU__LIMITS__MOVES_BURST", "6"),
        ("DANMAKU__LIMITS__MOVES_PER_MIN", "1"),
        ("DANMAKU__LIMITS__JOINS_BURST", "1000"),
        ("DANMAKU__ROOM__CREATE_PER_MIN", "1000"),
    ]);
    let mut user = everywhere(&server, "u1", "r", 2, &[]);
    let mut moved = 0;
    let refused = (0..1_000)
        .find_map(|n| {
            let person = &mut user[n % 2];
            person.socket.say(&format!("{{\"join\":{{\"room\":\"m{}\"}}}}", n % 10));
            let answer = person.hears("\"");
            let answer = if answer["joined"].is_object() || answer["error"].is_object() {
                answer
            } else {
                loop {
                    let next = person.hears("\"");
                    if next["joined"].is_object() || next["error"].is_object() {
                        break next;
                    }
                }
            };
            moved += usize::from(answer["joined"].is_object());
            answer["error"].is_object().then(|| answer["error"].clone())
        })
        .expect("somebody says that it is too much");
    assert_eq!(refused["code"], "rate_limited", "{refused}");
    assert!((1..=60_000).contains(&refused["retryAfterMs"].as_u64().expect("a wait")), "{refused}");
    assert!((6..100).contains(&moved), "{moved} moves");
    let mut other = Person::user(&server, "r0", "u2", &[]);
    other.socket.say(r#"{"join":{"room":"m1"}}"#);
    other.hears("\"joined\"");
    until("it is counted", || server.met("moves") > 0);
}
