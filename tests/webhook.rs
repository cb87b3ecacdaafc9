//! The platform's receiver, a real one in Python, is asked about comments and connections.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/person.rs"]
mod person;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use exchange::Exchange;
use person::{Person, start};
use serde_json::{Value, json};
use support::{Scratch, Server, until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A receiver, ended when dropped.
struct Receiver {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl Receiver {
    fn new() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/hook_receiver.py");
        let mut command = Command::new("python3");
        let mut child =
            command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines.next().expect("a line").expect("text").parse().expect("a port");
        Self { child, lines, port }
    }

    /// A server that asks it, with further settings.
    fn server(&self, more: &[(&str, &str)]) -> Server {
        let (url, ports) =
            (format!("http://127.0.0.1:{}/danmaku?v=1", self.port), format!("[{}]", self.port));
        let mut settings = vec![
            ("WEBHOOK__URL", &*url),
            ("WEBHOOK__SECRET", SECRET),
            ("WEBHOOK__PORTS", &*ports),
            ("WEBHOOK__ALLOW_PRIVATE", r#"["127.0.0.1"]"#),
        ];
        if !more.iter().any(|(key, _)| *key == "WEBHOOK__WITHIN") {
            // A busy machine may take longer than the default to answer at all.
            settings.push(("WEBHOOK__WITHIN", "10s"));
        }
        settings.extend_from_slice(more);
        start(&settings)
    }

    /// The next post that it got.
    fn asked(&mut self) -> Value {
        let line = self.lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn counted(server: &Server, family: &str) -> u64 {
    let rule = "webhook";
    server.metric(&format!("danmaku_rule_{family}_total{{rule=\"{rule}\"}}"))
}

/// Every verdict: shown, refused by name, held, covered, replaced; what it replaces goes through the word lists again. It
/// is asked in the documented form, signed.
#[test]
fn what_the_receiver_says_happens() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", "scum\nspoiler mask\n");
    let mut receiver = Receiver::new();
    let server = receiver.server(&[("WORDS__LISTS", &format!("[{list:?}]"))]);
    let mut guest = Person::user(&server, "r1", "u1", &["--role", "vip"]);
    let mut witness = Person::guest(&server, "r1");
    assert_eq!(guest.says_well("fine, with a spoiler"), 1);
    let asked = receiver.asked();
    let fields =
        ["type", "room", "user", "role", "text"].map(|field| asked[field].as_str().unwrap_or_default());
    assert_eq!(fields, ["message", "r1", "u1", "vip", "fine, with a *******"]);
    assert!(asked["id"].as_str().expect("an id").starts_with("r1-"), "{asked}");
    let refused = guest.says("refuse this");
    assert_eq!(refused["code"], "rejected", "{refused}");
    assert!(refused["message"].as_str().unwrap_or_default().ends_with("Rule: webhook."), "{refused}");
    assert_eq!(guest.says("review this")["state"], "held");
    guest.says_well("cover this");
    guest.says_well("change one spoiler");
    assert_eq!(guest.says("change scchange um")["code"], "filtered_word");
    // A word list refuses before anybody is asked.
    assert_eq!(guest.says("scum refuse")["code"], "filtered_word");
    // A verdict that there is not is no verdict.
    guest.says_well("nonsense");
    witness.hears("nonsense");
    for shown in ["\"**********\"", "\"one *******\""] {
        assert!(witness.has_heard(shown), "{shown}: {:?}", witness.heard);
    }
    for hidden in ["refuse this", "review this", "cover this", "spoiler", "scum"] {
        assert!(!witness.has_heard(hidden), "{hidden}: {:?}", witness.heard);
    }
    until("it is counted", || {
        let figures =
            (server.metric("danmaku_webhook_asked_total"), server.metric("danmaku_webhook_failed_total"));
        (counted(&server, "refused"), figures) == (1, (7, 1))
    });
    assert_eq!(server.metric("danmaku_webhook_connections_total"), 1, "one connection for all of them");
    assert_eq!(server.metric("danmaku_published_total"), 4);
}

/// A trace that a client begins goes on through the question and, for VIPs, to everybody who sees the comment, each time by
/// a span of the server's own; what is marked to be recorded is the server's decision.
#[test]
fn a_clients_trace_goes_on_to_the_platform_and_with_vips_to_everybody() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (share, flags) in [("0.0", "00"), ("1.0", "01")] {
        let mut receiver = Receiver::new();
        let server = receiver.server(&[("TRACE__SAMPLED", share), ("WEBHOOK__CONNECT", "true")]);
        let theirs = |span: &str| format!("00-{TRACE}-{span}-01");
        let ours = |asked: &Value, span: &str| {
            let told = asked["traceparent"].as_str().unwrap_or_else(|| panic!("a trace: {asked}")).to_owned();
            let parts: Vec<_> = told.split('-').collect();
            assert_eq!((parts[0], parts[1], parts[3]), ("00", TRACE, flags), "{asked}");
            assert_ne!(parts[2], span, "{asked}");
            told
        };
        let mut watcher = Person::guest(&server, "r1");
        assert_eq!(receiver.asked()["traceparent"], Value::Null);
        let header = format!("traceparent: {}\r\n", theirs("00f067aa0ba902b7"));
        let _traced = Person::with(&server, "r1", &header);
        ours(&receiver.asked(), "00f067aa0ba902b7");
        for (n, role) in ["viewer", "vip"].into_iter().enumerate() {
            let mut author = Person::user(&server, "r1", role, &["--role", role]);
            receiver.asked();
            let (id, span) = (format!("t{n}"), "00f067aa0ba902b8");
            let send = json!({ "id": id, "text": format!("by a {role}"), "traceparent": theirs(span) });
            author.socket.say(&json!({ "send": send }).to_string());
            let told = ours(&receiver.asked(), span);
            author.fate(&id);
            let item = watcher.hears(&format!("by a {role}"))["batch"]["items"][0].clone();
            let shown = if role == "vip" { json!(told) } else { Value::Null };
            assert_eq!(item["traceparent"], shown, "{item}");
        }
        let mut author = Person::user(&server, "r1", "u3", &["--role", "vip"]);
        receiver.asked();
        let send = json!({ "id": "t9", "text": "by nobody's trace", "traceparent": "00-nonsense" });
        author.socket.say(&json!({ "send": send }).to_string());
        assert_eq!(receiver.asked()["traceparent"], Value::Null);
        assert_eq!(watcher.hears("by nobody's trace")["batch"]["items"][0]["traceparent"], Value::Null);
    }
}

/// A comment that waits holds up its author's next ones and nobody else's; a retry hears the same as the first.
#[test]
fn a_comment_waits_without_others_waiting_for_it() {
    let mut receiver = Receiver::new();
    let server = receiver.server(&[]);
    let (mut slow, mut other) = (Person::guest(&server, "r1"), Person::guest(&server, "r1"));
    let mut witness = Person::guest(&server, "r1");
    let first = slow.sends("slow0.7 first");
    receiver.asked();
    slow.repeats(&first, "slow0.7 first");
    let second = slow.sends("second of the same");
    other.says_well("from somebody else");
    let (a, again) = (slow.fate(&first), slow.fate(&first));
    let b = slow.fate(&second);
    assert_eq!((&a["seq"], &again["seq"], &b["seq"]), (&json!(2), &json!(2), &json!(3)), "{a} {again} {b}");
    witness.hears("second of the same");
    let all = witness.heard.concat();
    let place = |word: &str| all.find(word).unwrap_or_else(|| panic!("{word} in {all}"));
    assert!(place("from somebody else") < place("first") && place("first") < place("second of"), "{all}");
    assert_eq!(all.matches("slow0.7 first").count(), 1, "{all}");
}

/// No answer in time: the room's setting counts, and after some of them nobody waits any more.
#[test]
fn an_unanswered_question_means_what_the_room_says() {
    let receiver = Receiver::new();
    let rooms = r#"[{match = "closed-*", webhook_fail = "closed"}, {match = "off-*", webhook_mode = "off"}]"#;
    let settings = [("WEBHOOK__WITHIN", "200ms"), ("ROOMS", rooms), ("WEBSOCKET__ERRORS_PER_S", "100")];
    let server = receiver.server(&settings);
    let (mut open, mut closed) = (Person::guest(&server, "open"), Person::guest(&server, "closed-1"));
    let mut off = Person::guest(&server, "off-1");
    let begun = Instant::now();
    open.says_well("slow20 but shown");
    let waited = begun.elapsed();
    assert!((Duration::from_millis(190)..Duration::from_secs(5)).contains(&waited), "{waited:?}");
    let refused = closed.says("slow20 and refused");
    assert_eq!((refused["code"].as_str(), &refused["retryAfterMs"]), (Some("unavailable"), &json!(1000)));
    assert!(refused["message"].as_str().unwrap_or_default().ends_with("Rule: webhook."), "{refused}");
    off.says_well("slow20 is not asked about");
    // Ten failures in a row open the breaker.
    let ids: Vec<_> = (0..10).map(|n| closed.sends(&format!("slow20 number {n}"))).collect();
    for id in ids {
        assert_eq!(closed.fate(&id)["code"], "unavailable");
    }
    until("the breaker opened", || server.metric("danmaku_webhook_breaker_opened_total") == 1);
    assert_eq!(closed.says("while it is open")["code"], "unavailable");
    until("it is counted", || counted(&server, "refused") == 12);
}

/// A rule that observes: comments do not wait, and what would have been refused is counted.
#[test]
fn an_observing_webhook_is_asked_and_changes_nothing() {
    let mut receiver = Receiver::new();
    let server = receiver.server(&[("WEBHOOK__WEBHOOK_MODE", "observe")]);
    let mut guest = Person::guest(&server, "r1");
    guest.says_well("refuse this");
    guest.says_well("fine");
    assert_eq!(receiver.asked()["text"], "refuse this");
    until("it is counted", || (counted(&server, "observed"), counted(&server, "refused")) == (1, 0));
}

/// Batches: several questions in one post, each with its own answer.
#[test]
fn questions_go_together_where_they_may() {
    let mut receiver = Receiver::new();
    let server = receiver.server(&[("WEBHOOK__BATCH_MAX", "3"), ("WEBHOOK__BATCH_WAIT", "5s")]);
    let mut people: Vec<_> = (0..3).map(|_| Person::guest(&server, "r1")).collect();
    let ids: Vec<_> =
        people.iter_mut().zip(["one", "refuse two", "three"]).map(|(p, text)| p.sends(text)).collect();
    let asked = receiver.asked();
    assert_eq!(
        (asked["type"].as_str(), asked["questions"].as_array().map(Vec::len)),
        (Some("messages"), Some(3))
    );
    let codes: Vec<_> =
        people.iter_mut().zip(&ids).map(|(p, id)| p.fate(id)["code"].as_str().map(str::to_owned)).collect();
    assert_eq!(codes, [None, Some("rejected".to_owned()), None]);
}

/// The bound of what waits.
#[test]
fn a_room_asks_about_so_many_comments_at_a_time() {
    let mut receiver = Receiver::new();
    let server = receiver.server(&[("WEBHOOK__WAITING_MAX", "1")]);
    let (mut one, mut other) = (Person::guest(&server, "r1"), Person::guest(&server, "r1"));
    let id = one.sends("slow0.5 text");
    receiver.asked();
    let refused = other.says("me too");
    assert_eq!((refused["code"].as_str(), &refused["retryAfterMs"]), (Some("overloaded"), &json!(200)));
    assert_eq!(one.fate(&id)["seq"], 1);
    other.says_well("me too");
    until("it is counted", || server.met("asked") == 1);
}

/// Connections: let in, kept out, known by what the platform says of them. The receiver gets the headers that are listed
/// and not the internal ones.
#[test]
fn connections_are_asked_about_before_they_are_sessions() {
    let mut receiver = Receiver::new();
    let server = receiver.server(&[
        ("WEBHOOK__CONNECT", "true"),
        ("WEBHOOK__HEADERS", r#"["x-user", "x-stay-out", "x-inner"]"#),
        ("WEBHOOK__INTERNAL_HEADERS", r#"["x_inner"]"#),
    ]);
    let mut witness = Person::guest(&server, "r1");
    let asked = receiver.asked();
    let fields = ["type", "address", "room"].map(|field| asked[field].as_str().unwrap_or_default());
    assert_eq!((fields, &asked["headers"]), (["connect", "127.0.0.1", "r1"], &json!({})), "{asked}");
    let mut vouched = Person::with(&server, "r1", "X-User: ann\r\nX-Inner: root\r\nCookie: a=b\r\n");
    assert_eq!(receiver.asked()["headers"], json!({"x-user": "ann"}));
    vouched.says_well("hello");
    let batch = witness.hears("hello");
    let author = &batch["batch"]["items"][0]["user"];
    assert_eq!((&author["id"], &author["role"]), (&json!("ann"), &json!("vip")), "{batch}");
    let knock = "GET /ws?room=r1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-Stay-Out: 1\r\n\r\n";
    let answer = Exchange::new(server.address).send(knock).answer();
    assert_eq!((answer.status, answer.code().as_str()), (403, "rejected"));
    assert_eq!(server.metric("danmaku_webhook_denied_total"), 1);
    drop(receiver);
    let mut after = Person::guest(&server, "r1");
    after.says_well("an open door");
}

/// Where a receiver may not be, and what else of it makes no sense: the server does not start, and one line says why.
#[test]
fn a_receiver_that_may_not_be_called_is_refused_at_the_start() {
    let scratch = Scratch::new();
    let log = scratch.0.join("log");
    let short = "too short";
    for (url, secret, more, words) in [
        ("http://127.0.0.1/", SECRET, None, &["127.0.0.1"][..]),
        ("http://169.254.169.254/latest/meta-data", SECRET, None, &["169.254.169.254"]),
        ("http://10.1.2.3/", SECRET, None, &["10.1.2.3"]),
        ("http://192.168.0.1/", SECRET, None, &["192.168.0.1"]),
        ("http://100.64.0.1/", SECRET, None, &["100.64.0.1"]),
        ("http://[::1]/", SECRET, None, &["::1"]),
        ("http://[fd00::1]/", SECRET, None, &["fd00::1"]),
        ("http://[::ffff:127.0.0.1]/", SECRET, None, &["127.0.0.1"]),
        ("http://[64:ff9b::7f00:1]/", SECRET, None, &["webhook"]),
        ("http://0x7f.1/", SECRET, None, &["webhook"]),
        ("http://2130706433/", SECRET, None, &["webhook"]),
        ("http://hook.example:8080/", SECRET, None, &["8080"]),
        ("ftp://hook.example/", SECRET, None, &["webhook"]),
        ("https://me:secret@hook.example/", SECRET, None, &["webhook.url", "no password"]),
        ("https://hook.example/", short, None, &["webhook.secret", "9 bytes"]),
        ("https://hook.example/", "", None, &["webhook"]),
        (
            "https://hook.example/",
            SECRET,
            Some(("CA", "no-such-file.pem")),
            &["webhook.ca", "no-such-file.pem"],
        ),
        ("https://hook.example/", SECRET, Some(("HEADERS", r#"["a b"]"#)), &["webhook.headers"]),
        (
            "https://hook.example/",
            SECRET,
            Some(("WEBHOOK_FAIL", "shut")),
            &["webhook.webhook_fail", "closed"],
        ),
        ("https://hook.example/", SECRET, Some(("BATCH_WAIT", "1s")), &["batching.wait", "shorter"]),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_danmaku"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(scratch.0.join("data")).env("DANMAKU__WEBHOOK__URL", url);
        command.env("DANMAKU__WEBHOOK__SECRET", secret);
        if let Some((key, value)) = more {
            command.env(format!("DANMAKU__WEBHOOK__{key}"), value);
        }
        let out = File::create(scratch.0.join("out")).expect("a file");
        let status = command.stdout(out).stderr(File::create(&log).expect("a file")).status();
        assert!(!status.expect("it runs").success(), "{url}");
        let told = std::fs::read_to_string(&log).expect("readable");
        let line = told.lines().find(|line| words.iter().all(|word| line.contains(word)));
        assert!(line.is_some(), "{url} {more:?}: {told}");
        assert!(!told.contains(SECRET) && !told.contains("me:secret"), "{told}");
    }
}
