//! A receiver that shares no code with the client: `receiver.py`, written from docs/webhook.md.
//!
//! Method: the real program on a real port; it refuses whatever is not signed as the document says.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use danmaku_webhook::{
    Batching, Client, ConnectQuestion, ConnectVerdict, Failure, Network, Question, Settings, Verdict,
};

const BOUND: Duration = Duration::from_secs(60);
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

struct Python {
    child: Child,
    port: u16,
    /// What it prints after its port.
    lines: mpsc::Receiver<String>,
}

impl Python {
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/receiver.py");
        let mut child = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3, which the clients' tests need too");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (said, lines) = mpsc::sync_channel(4_096);
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let port = lines.recv_timeout(BOUND).expect("a line").parse().expect("the port");
        Self { child, port, lines }
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(format!("http://127.0.0.1:{}/hook?a=b", self.port), SECRET);
        settings.allow_private = vec![Network::new([127, 0, 0, 1].into(), 32).expect("a network")];
        settings.ports = vec![self.port];
        settings.deadline = BOUND;
        settings.idle_timeout = Duration::from_millis(800);
        settings
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn question(id: usize, text: &str) -> Question {
    Question {
        id: id.to_string(),
        room: "lobby".to_owned(),
        user: "u7".to_owned(),
        role: "viewer".to_owned(),
        text: text.to_owned(),
        traceparent: None,
    }
}

/// Asks `count` questions, 8 under way at a time, and holds each answer against what the receiver is for.
fn ask_all(client: &Client, count: usize) {
    let (answered, answers) = mpsc::sync_channel(count);
    let mut asked = 0;
    for finished in 0..count {
        while asked < count && asked < finished + 8 {
            let spam = asked % 3 == 0;
            let answered = answered.clone();
            let text = if spam { "buy \"spam\" 🎉\n" } else { "弹幕 ü \\ \u{2028}" };
            client
                .ask_then(question(asked, text), move |answer| answered.send((spam, answer)).expect("room"));
            asked += 1;
        }
        let (spam, answer) = answers.recv_timeout(BOUND).expect("an answer");
        assert_eq!(answer, Ok(if spam { Verdict::Drop { reason: None } } else { Verdict::Pass }));
    }
}

#[test]
fn a_receiver_written_from_the_document_understands_every_question() {
    let python = Python::start();
    let mut settings = python.settings();
    settings.concurrency_max = 2;
    let client = Client::new(settings).expect("settings");
    ask_all(&client, 3_000);
    assert!(client.figures().reuse() >= 0.997, "{:?}", client.figures());

    let mut settings = python.settings();
    settings.batching = Batching { questions_max: 8, wait: Duration::from_millis(2) };
    let client = Client::new(settings).expect("settings");
    ask_all(&client, 200);
    assert!(client.figures().calls < 200, "{:?}", client.figures());

    let caller = ConnectQuestion {
        id: "c1".to_owned(),
        address: [203, 0, 113, 9].into(),
        room: None,
        user: None,
        origin: None,
        headers: [("x-user".to_owned(), "u7".to_owned())].into(),
        traceparent: None,
    };
    let (answered, answers) = mpsc::sync_channel(1);
    client.ask_connect_then(caller, move |answer| answered.send(answer).expect("room"));
    let allowed = ConnectVerdict::Allow { claims: Some(r#"{"sub": "u7"}"#.to_owned()) };
    assert_eq!(answers.recv_timeout(BOUND).expect("an answer"), Ok(allowed));
}

#[test]
fn a_receiver_that_closes_idle_connections_after_a_second_loses_no_question() {
    let python = Python::start();
    let mut settings = python.settings();
    // Longer than the receiver keeps a connection: the mistake that operators make.
    settings.idle_timeout = BOUND;
    settings.concurrency_max = 1;
    let client = Client::new(settings).expect("settings");
    for round in 1..=2 {
        ask_all(&client, 10);
        assert_eq!(client.figures().connections, round);
        assert_eq!(python.lines.recv_timeout(BOUND).as_deref(), Ok("closed"));
    }
}

#[test]
fn another_secret_is_refused_by_the_receiver() {
    let python = Python::start();
    let mut settings = python.settings();
    settings.secret[0] ^= 1;
    let client = Client::new(settings).expect("settings");
    let (answered, answers) = mpsc::sync_channel(1);
    client.ask_then(question(1, "hello"), move |answer| answered.send(answer).expect("room"));
    assert_eq!(answers.recv_timeout(BOUND).expect("an answer"), Err(Failure::Status(403)));
}
