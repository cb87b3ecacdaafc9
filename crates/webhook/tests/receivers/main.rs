//! A client against receivers that do what receivers do.
//!
//! Method: a real socket each; what the receiver answers is a closure, and what is waited for is an event
//! with a bound.

mod receiver;
mod tls;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use danmaku_webhook::{
    Batching, BreakerSettings, BreakerState, Client, ConnectQuestion, ConnectVerdict, Failure, Network,
    REPLY_BYTES_MAX, Secret, Settings, SettingsError, TraceContext, Verdict,
};

use receiver::{BOUND, Receiver, Reply, SECRET, pass, question, wait};

#[test]
fn a_thousand_questions_go_over_one_connection() {
    let receiver = Receiver::start(|_| pass());
    let client = receiver.client();
    for n in 0..1_000 {
        assert_eq!(wait(client.ask(question(&n.to_string()))), Ok(Verdict::Pass));
    }
    let figures = client.figures();
    assert_eq!((figures.asked, figures.answered, figures.calls), (1_000, 1_000, 1_000));
    assert_eq!(receiver.connections() as u64, figures.connections);
    assert!(figures.reuse() >= 0.997, "{figures:?}");
}

#[test]
fn many_at_a_time_share_as_many_connections_as_there_may_be() {
    let receiver = Receiver::start(|_| pass());
    let mut settings = receiver.settings();
    settings.concurrency_max = 3;
    let client = Client::new(settings).expect("settings");
    let (answered, answers) = mpsc::sync_channel(1_000);
    for n in 0..1_000 {
        let answered = answered.clone();
        client.ask_then(question(&n.to_string()), move |answer| answered.send(answer).expect("room"));
    }
    for _ in 0..1_000 {
        assert_eq!(answers.recv_timeout(BOUND).expect("an answer"), Ok(Verdict::Pass));
    }
    assert!(receiver.connections() <= 3, "{} connections", receiver.connections());
    assert!(client.figures().reuse() >= 0.997, "{:?}", client.figures());
}

#[test]
fn every_question_is_signed_and_says_what_the_document_shows() {
    let receiver = Receiver::start(|_| pass());
    let mut settings = receiver.settings();
    settings.unix_seconds = || 1_700_000_000;
    let client = Client::new(settings).expect("settings");
    let mut traced = question("m1");
    let trace = TraceContext::new(7, 8, false).expect("ids");
    traced.traceparent = Some(trace);
    assert_eq!(wait(client.ask(traced)), Ok(Verdict::Pass));
    let got = receiver.all().remove(0);
    assert_eq!(got.request_line, "POST /danmaku?v=1 HTTP/1.1");
    assert_eq!(got.header("host"), receiver.address.to_string());
    assert_eq!(got.header("content-type"), "application/json");
    assert_eq!(got.header("traceparent"), trace.to_string());
    assert_eq!(got.header("x-danmaku-timestamp"), "1700000000");
    let secret = Secret::new(SECRET).expect("long enough");
    let expected = secret.sign("POST", "/danmaku?v=1", 1_700_000_000, got.body.as_bytes());
    assert_eq!(got.header("x-danmaku-signature"), expected);
    let body = format!(
        r#"{{"type":"message","id":"m1","room":"lobby","user":"u7","role":"viewer","text":"你好","traceparent":"{trace}"}}"#
    );
    assert_eq!(got.body, body);
}

#[test]
fn a_receiver_that_closes_after_each_answer_loses_no_question() {
    let receiver = Receiver::start(|_| Reply::ThenHangup(r#"{"verdict":"pass"}"#.to_owned()));
    let client = receiver.client();
    for n in 0..50 {
        assert_eq!(wait(client.ask(question(&n.to_string()))), Ok(Verdict::Pass));
    }
    assert_eq!(receiver.all().len(), 50, "each arrived once");
}

#[test]
fn a_receiver_that_closes_a_waiting_connection_without_a_word_loses_no_question() {
    let receiver = Receiver::start(|request| {
        // Without a word about its time, like most.
        if request.body.contains("first") {
            Reply::ThenHangup(r#"{"verdict":"pass"}"#.to_owned())
        } else {
            pass()
        }
    });
    let client = receiver.client();
    assert_eq!(wait(client.ask(question("first"))), Ok(Verdict::Pass));
    receiver.wait_for_close();
    assert_eq!(wait(client.ask(question("second"))), Ok(Verdict::Pass));
    assert_eq!(wait(client.ask(question("third"))), Ok(Verdict::Pass));
    assert_eq!(receiver.connections(), 2);
    assert_eq!(client.figures().failed.iter().sum::<u64>(), 0);
}

#[test]
fn a_connection_is_closed_before_the_time_that_the_receiver_says() {
    // A second less a fifth: the client closes first, and the receiver sees it as an event.
    let receiver =
        Receiver::start(|_| Reply::With("keep-alive: timeout=1\r\n", r#"{"verdict":"pass"}"#.to_owned()));
    let client = receiver.client();
    assert_eq!(wait(client.ask(question("first"))), Ok(Verdict::Pass));
    receiver.wait_for_close();
    assert_eq!(wait(client.ask(question("second"))), Ok(Verdict::Pass));
    let connections: Vec<usize> = receiver.all().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 1], "nothing was sent on the closed one");
}

#[test]
fn connection_close_is_heeded() {
    let receiver =
        Receiver::start(|_| Reply::With("connection: close\r\n", r#"{"verdict":"pass"}"#.to_owned()));
    let client = receiver.client();
    for _ in 0..3 {
        assert_eq!(wait(client.ask(question("m1"))), Ok(Verdict::Pass));
    }
    let connections: Vec<usize> = receiver.all().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 1, 2]);
}

fn never_opens() -> BreakerSettings {
    BreakerSettings { failures_in_row: 1_000, calls_min: 1_000, ..BreakerSettings::default() }
}

/// Asks, and every question ends at its deadline, until one has come as far as `far_enough` says: on a
/// machine that is busy the first may end before it is connected.
fn ask_until(client: &Client, far_enough: impl Fn() -> bool) {
    let begun = Instant::now();
    loop {
        assert_eq!(wait(client.ask(question("m1"))), Err(Failure::Deadline));
        if far_enough() {
            return;
        }
        assert!(begun.elapsed() < BOUND, "no question ever arrives");
    }
}

#[test]
fn a_silent_receiver_costs_the_deadline_and_no_connection_is_left() {
    let receiver = Receiver::start(|_| Reply::Silence);
    let mut settings = receiver.settings();
    settings.deadline = Duration::from_millis(200);
    settings.breaker = never_opens();
    let client = Client::new(settings).expect("settings");
    ask_until(&client, || !receiver.all().is_empty());
    assert_eq!(receiver.wait_for_close(), 0);
    assert_eq!(client.figures().idle, 0);
}

#[test]
fn a_reply_that_never_ends_costs_the_deadline() {
    let started = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&started);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{\"verdict\"");
            seen.store(true, Ordering::SeqCst);
            // Until the client closes.
            while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {}
        }
    });
    let mut settings = Settings::new(format!("http://{address}/"), SECRET);
    settings.allow_private = vec![Network::new([127, 0, 0, 1].into(), 32).expect("a network")];
    settings.ports = vec![address.port()];
    settings.deadline = Duration::from_millis(200);
    settings.breaker = never_opens();
    let client = Client::new(settings).expect("settings");
    ask_until(&client, || started.load(Ordering::SeqCst));
}

#[test]
fn questions_in_the_queue_are_told_at_their_deadline_too() {
    let receiver = Receiver::start(|_| Reply::Silence);
    let mut settings = receiver.settings();
    settings.deadline = Duration::from_millis(200);
    settings.concurrency_max = 1;
    settings.breaker = never_opens();
    let client = Client::new(settings).expect("settings");
    let pending: Vec<_> = (0..20).map(|n| client.ask(question(&n.to_string()))).collect();
    for answer in pending {
        assert_eq!(wait(answer), Err(Failure::Deadline));
    }
    assert!(receiver.all().len() < 20, "those that were too late are not asked");
}

#[test]
fn a_full_queue_refuses_at_once() {
    let receiver = Receiver::start(|_| Reply::Silence);
    let mut settings = receiver.settings();
    (settings.concurrency_max, settings.queue_max) = (1, 2);
    let client = Client::new(settings).expect("settings");
    let (answered, answers) = mpsc::sync_channel(16);
    // One is asked and two wait; whatever the thread has taken by then, the fifth finds no room.
    for n in 0..5 {
        let answered = answered.clone();
        client.ask_then(question(&n.to_string()), move |answer| drop(answered.try_send(answer)));
    }
    assert_eq!(answers.recv_timeout(BOUND).expect("an answer"), Err(Failure::QueueFull));
    assert!(client.figures().failed_by(Failure::QueueFull) >= 1);
}

/// One receiver, one question, one failure.
fn check_failure(reply: Reply, expected: Failure) {
    let receiver = Receiver::start(move |_| reply.clone());
    let client = receiver.client();
    assert_eq!(wait(client.ask(question("m1"))), Err(expected));
    assert_eq!(client.figures().failed_by(expected), 1);
    assert_eq!(receiver.all().len(), 1, "nothing is tried again or followed");
}

fn raw(text: &str) -> Reply {
    Reply::Raw(text.as_bytes().to_vec())
}

#[test]
fn replies_that_are_no_verdict_are_failures() {
    check_failure(Reply::Json(String::new()), Failure::Malformed);
    check_failure(Reply::Json("<html>pass</html>".to_owned()), Failure::Malformed);
    check_failure(Reply::Json(r#"{"verdict":"allow"}"#.to_owned()), Failure::Malformed);
    check_failure(raw("HTTP/1.1 204 No Content\r\n\r\n"), Failure::Status(204));
    check_failure(
        raw("HTTP/1.1 503 No\r\ncontent-length: 18\r\n\r\n{\"verdict\":\"pass\"}"),
        Failure::Status(503),
    );
    check_failure(
        raw("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
        Failure::Status(101),
    );
}

#[test]
fn redirects_are_not_followed() {
    let target = Receiver::start(|_| pass());
    for status in [301, 302, 303, 307, 308] {
        let location = target.url();
        let reply = format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        check_failure(raw(&reply), Failure::Redirect(status));
    }
    assert_eq!(target.connections(), 0);
}

#[test]
fn what_is_no_http_is_a_failure() {
    check_failure(raw("SSH-2.0-OpenSSH_9.2\r\n"), Failure::Broken);
    check_failure(raw("{\"verdict\":\"pass\"}"), Failure::Broken);
    check_failure(Reply::Raw(vec![0xff; 9_000]), Failure::Broken);
    check_failure(
        raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"verdict\":\"pass\"}"),
        Failure::Broken,
    );
    check_failure(raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), Failure::Broken);
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(64 * 1024));
    check_failure(raw(&long), Failure::Broken);
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: 1\r\n".repeat(200));
    check_failure(raw(&many), Failure::Broken);
    check_failure(Reply::Hangup, Failure::Broken);
}

#[test]
fn a_reply_has_a_longest_length() {
    let padded = |bytes: usize| {
        let empty = r#"{"verdict":"pass","p":""}"#.len();
        format!(r#"{{"verdict":"pass","p":"{}"}}"#, "a".repeat(bytes - empty))
    };
    let longest = padded(REPLY_BYTES_MAX);
    let receiver = Receiver::start(move |_| Reply::Json(longest.clone()));
    assert_eq!(wait(receiver.client().ask(question("m1"))), Ok(Verdict::Pass));
    check_failure(Reply::Json(padded(REPLY_BYTES_MAX + 1)), Failure::ReplyTooLarge);
    check_failure(raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"), Failure::ReplyTooLarge);
    let chunk = format!("8000\r\n{}\r\n", "a".repeat(0x8000)).repeat(3);
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
    check_failure(raw(&chunked), Failure::ReplyTooLarge);
}

#[test]
fn nobody_listening_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut settings = Settings::new(format!("http://{address}/"), SECRET);
    settings.allow_private = vec![Network::new([127, 0, 0, 1].into(), 32).expect("a network")];
    settings.ports = vec![address.port()];
    settings.deadline = BOUND;
    let client = Client::new(settings).expect("settings");
    assert_eq!(wait(client.ask(question("m1"))), Err(Failure::Connect));
}

#[test]
fn a_name_that_leads_inside_is_not_called() {
    let receiver = Receiver::start(|_| pass());
    let mut settings = receiver.settings();
    settings.url = format!("http://localhost:{}/", receiver.address.port());
    settings.allow_private.clear();
    let client = Client::new(settings.clone()).expect("a name is judged when it is looked up");
    let answer = wait(client.ask(question("m1")));
    assert!(matches!(answer, Err(Failure::Denied(_))), "{answer:?}");
    assert_eq!(receiver.connections(), 0);
    settings.url = receiver.url();
    let refused = Client::new(settings).expect_err("an address is judged at once");
    assert!(matches!(refused, SettingsError::Endpoint(_)), "{refused}");
}

#[test]
fn a_batch_is_one_post_and_every_question_gets_its_own_answer() {
    let receiver = Receiver::start(|request| {
        let ids = request.body.split(r#""id":""#).skip(1).map(|rest| rest.split('"').next().unwrap_or(""));
        let answers: Vec<String> = ids
            .map(|id| match id {
                "1" => r#"{"id":"1","verdict":"replace","text":"other"}"#.to_owned(),
                id => format!(r#"{{"id":"{id}","verdict":"pass"}}"#),
            })
            .collect();
        Reply::Json(format!(r#"{{"answers":[{}]}}"#, answers.join(",")))
    });
    let mut settings = receiver.settings();
    // Longer than the test: what sends the batch is that it is full.
    settings.batching = Batching { questions_max: 3, wait: BOUND / 2 };
    let client = Client::new(settings).expect("settings");
    let pending: Vec<_> = (0..3).map(|n| client.ask(question(&n.to_string()))).collect();
    let answers: Vec<_> = pending.into_iter().map(wait).collect();
    let replaced = Verdict::Replace { text: "other".to_owned(), reason: None };
    assert_eq!(answers, [Ok(Verdict::Pass), Ok(replaced), Ok(Verdict::Pass)]);
    assert!(receiver.all()[0].body.starts_with(r#"{"type":"messages","questions":[{"id":"0","#));
    assert_eq!(receiver.all().len(), 1);
}

#[test]
fn a_batch_that_is_not_full_is_sent_when_its_time_has_come() {
    let receiver =
        Receiver::start(|_| Reply::Json(r#"{"answers":[{"id":"0","verdict":"hold"}]}"#.to_owned()));
    let mut settings = receiver.settings();
    settings.batching = Batching { questions_max: 100, wait: Duration::from_millis(5) };
    let client = Client::new(settings).expect("settings");
    assert_eq!(wait(client.ask(question("0"))), Ok(Verdict::Hold { reason: None }));
}

#[test]
fn a_batch_with_one_wrong_answer_is_wrong_as_a_whole() {
    let receiver = Receiver::start(|_| {
        Reply::Json(r#"{"answers":[{"id":"0","verdict":"pass"},{"id":"1","verdict":"maybe"}]}"#.to_owned())
    });
    let mut settings = receiver.settings();
    settings.batching = Batching { questions_max: 2, wait: BOUND / 2 };
    let client = Client::new(settings).expect("settings");
    let pending: Vec<_> = (0..2).map(|n| client.ask(question(&n.to_string()))).collect();
    for answer in pending {
        assert_eq!(wait(answer), Err(Failure::Malformed));
    }
}

#[test]
fn a_connection_is_asked_about_with_its_headers() {
    let receiver = Receiver::start(|request| {
        let claims = r#"{"verdict":"allow","claims":{"sub":"u7"}}"#;
        let known = request.body.contains(r#""headers":{"cookie":"session=1"}"#);
        Reply::Json(if known { claims } else { r#"{"verdict":"deny","reason":"who?"}"# }.to_owned())
    });
    let client = receiver.client();
    let mut caller = ConnectQuestion {
        id: "c1".to_owned(),
        address: [203, 0, 113, 9].into(),
        room: Some("lobby".to_owned()),
        user: None,
        origin: Some("https://page.example".to_owned()),
        headers: [("cookie".to_owned(), "session=1".to_owned())].into(),
        traceparent: None,
    };
    let allowed = ConnectVerdict::Allow { claims: Some(r#"{"sub":"u7"}"#.to_owned()) };
    assert_eq!(wait(client.ask_connect(caller.clone())), Ok(allowed));
    caller.headers.clear();
    let denied = ConnectVerdict::Deny { reason: Some("who?".to_owned()) };
    assert_eq!(wait(client.ask_connect(caller)), Ok(denied));
    assert!(receiver.all()[0].body.starts_with(r#"{"type":"connect","id":"c1","address":"203.0.113.9""#));
}

#[test]
fn the_breaker_opens_and_closes_again() {
    let well = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&well);
    let receiver =
        Receiver::start(
            move |_| {
                if seen.load(Ordering::SeqCst) { pass() } else { Reply::Json("garbage".to_owned()) }
            },
        );
    let mut settings = receiver.settings();
    settings.breaker = BreakerSettings {
        failures_in_row: 3,
        open_for: Duration::from_millis(50),
        open_for_max: Duration::from_millis(50),
        probes: 2,
        probe_within: BOUND,
        ..BreakerSettings::default()
    };
    let client = Client::new(settings).expect("settings");
    for n in 0..3 {
        assert_eq!(wait(client.ask(question(&n.to_string()))), Err(Failure::Malformed));
    }
    assert_eq!(client.figures().breaker_opened, 1);
    well.store(true, Ordering::SeqCst);
    // While it is open nothing is asked; afterwards probes come through. Both in one loop, since how many
    // questions the 50 ms are is the machine's business.
    let begun = Instant::now();
    let mut passed = 0;
    while passed < 2 {
        assert!(begun.elapsed() < BOUND, "it never closes: {:?}", client.figures());
        match wait(client.ask(question("probe"))) {
            Ok(verdict) => passed += usize::from(verdict == Verdict::Pass),
            Err(failure) => assert_eq!(failure, Failure::BreakerOpen),
        }
    }
    assert_eq!(wait(client.ask(question("last"))), Ok(Verdict::Pass));
    let figures = client.figures();
    assert_eq!((figures.breaker, figures.breaker_opened), (BreakerState::Closed, 1));
    assert_eq!(receiver.all().len() as u64, figures.calls, "what the breaker refused was never sent");
}

#[test]
fn a_question_that_is_too_long_is_not_asked() {
    let receiver = Receiver::start(|_| pass());
    let client = receiver.client();
    let mut long = question("m1");
    long.text = "a".repeat(70_000);
    assert_eq!(wait(client.ask(long)), Err(Failure::QuestionTooLarge));
    assert_eq!(receiver.connections(), 0);
}

#[test]
fn questions_are_answered_after_the_last_handle_is_gone() {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&asked);
    let receiver = Receiver::start(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        pass()
    });
    let client = receiver.client();
    let pending: Vec<_> = (0..10).map(|n| client.ask(question(&n.to_string()))).collect();
    drop(client);
    for answer in pending {
        assert_eq!(wait(answer), Ok(Verdict::Pass));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 10);
    // And the thread ends: its connections are closed.
    receiver.wait_for_close();
}

#[test]
fn a_callback_is_called_exactly_once() {
    let receiver = Receiver::start(|_| pass());
    let client = receiver.client();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (told, tells) = mpsc::sync_channel(1);
    let seen = Arc::clone(&calls);
    client.ask_then(question("m1"), move |answer| {
        seen.lock().expect("no panic").push(answer);
        told.send(()).expect("room");
    });
    tells.recv_timeout(BOUND).expect("called");
    drop(client);
    receiver.wait_for_close();
    assert_eq!(*calls.lock().expect("no panic"), [Ok(Verdict::Pass)]);
}
