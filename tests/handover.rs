//! `serve --take-over`: a process gives its place to another one, and nobody who is connected notices.

#[path = "support/dying_taker.rs"]
mod dying_taker;
#[path = "support/exchange.rs"]
mod exchange;
#[path = "handover/member.rs"]
mod member;
#[path = "support/raw_socket.rs"]
mod raw_socket;
#[path = "support/signer.rs"]
mod signer;
mod support;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use dying_taker::{STEPS, ask_and_die};
use exchange::{Exchange, post};
use member::{Kind, Member};
use raw_socket::{End, FIN, RawSocket, TEXT, frame};
use serde_json::{Value, json};
use signer::{Signer, now_s};
use support::{Scratch, Server, until};

/// No limit of a user, a room or a connection, whose comments the tests send in a row; and all that was said is kept for
/// those who do not read for long.
const UNLIMITED: [(&str, &str); 7] = [
    ("DANMAKU__LIMITS__ROOM_MODE", "off"),
    ("DANMAKU__ROOM__BACKLOG_BYTES", "256MiB"),
    ("DANMAKU__ROOM__BACKLOG_AGE", "1h"),
    ("DANMAKU__SLOW_CONSUMER__GRACE", "1m"),
    ("DANMAKU__LIMITS__USER_BURST", "1000000"),
    ("DANMAKU__LIMITS__USER_PER_S", "1000000.0"),
    ("DANMAKU__WEBSOCKET__FRAMES_PER_S", "1000000"),
];

/// Puts another process in a server's place and waits for the old one's end.
fn replace(mut old: Server, args: &[&str]) -> Server {
    let new = old.replace(args, &UNLIMITED);
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    assert_eq!((new.address, new.admin), (old.address, old.admin));
    new
}

fn ack(socket: &mut RawSocket, id: &str) -> Value {
    let text = socket.hears(&format!("\"ack\":{{\"id\":\"{id}\""));
    serde_json::from_str::<Value>(&text).expect("JSON")["ack"].take()
}

fn send(id: &str, text: &str) -> String {
    json!({"send": {"id": id, "text": text}}).to_string()
}

/// Publishes without a pause until told to stop; the number that each id was acked with.
fn publish(address: SocketAddr, room: &str, stop: &AtomicBool) -> (RawSocket, BTreeMap<String, u64>) {
    let mut socket = RawSocket::join(address, room, "");
    let mut acked = BTreeMap::new();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        // A few are always under way.
        let ids: Vec<String> = (n..n + 4).map(|n| format!("p{n}")).collect();
        n += 4;
        for id in &ids {
            socket.say(&send(id, &format!("comment {id}")));
        }
        for id in ids {
            let ack = ack(&mut socket, &id);
            let seq = ack["seq"].as_u64().unwrap_or_else(|| panic!("{ack}"));
            assert!(acked.insert(id, seq).is_none(), "acked once");
        }
    }
    (socket, acked)
}

/// Sessions of all kinds keep their sockets over two take-overs, from one worker to three and back, and are given
/// every comment once and in order; a publisher that never pauses has every ack once, and an old id is known.
#[test]
fn everybody_stays_and_hears_every_comment_once() {
    let one = Server::start_with(&["--workers", "1"], &UNLIMITED);
    let address = one.address;
    let mut members: Vec<Member> =
        Kind::ALL.into_iter().map(|kind| Member::join(address, kind, "r1")).collect();
    let mut halfway = RawSocket::join(address, "r1", "");
    let whole = frame(FIN | TEXT, send("half", "sent in two halves").as_bytes());
    halfway.send(&whole[..20]);
    let mut paused = Member::join(address, Kind::Json, "r1");
    paused.say(r#"{"view":{"paused":true}}"#);
    paused.hears_nothing();
    let stop = Arc::new(AtomicBool::new(false));
    let publisher = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || publish(address, "r1", &stop))
    };
    for member in &mut members {
        member.hear("comment p40");
    }
    let three = replace(one, &["--workers", "3"]);
    let so_far = three.metric("danmaku_published_total");
    until("the publisher goes on", || three.metric("danmaku_published_total") > so_far + 40);
    let again = replace(three, &["--workers", "1"]);
    let so_far = again.metric("danmaku_published_total");
    until("the publisher goes on", || again.metric("danmaku_published_total") > so_far + 40);
    stop.store(true, Ordering::Relaxed);
    let (mut publisher, acked) = publisher.join().expect("every ack came");

    // What was asked before is known after.
    let (id, seq) = acked.first_key_value().expect("something was published");
    publisher.say(&send(id, &format!("comment {id}")));
    let repeated = ack(&mut publisher, id);
    assert_eq!(repeated["seq"], *seq, "{repeated}");
    halfway.send(&whole[20..]);
    let last = ack(&mut halfway, "half")["seq"].as_u64().expect("a number");
    paused.hears_nothing();
    paused.say(r#"{"view":{"paused":false}}"#);
    members.push(paused);

    let comments = acked.iter().map(|(id, seq)| (*seq, format!("comment {id}")));
    let wanted: BTreeMap<u64, String> = comments.chain([(last, "sent in two halves".to_owned())]).collect();
    assert_eq!(wanted.len(), acked.len() + 1, "every number once");
    assert_eq!(again.metric("danmaku_connections"), members.len() as u64 + 2, "nobody has left");
    for mut member in members {
        member.hear_out("sent in two halves");
        assert_eq!(member.epochs(), 2, "{:?}", member.kind);
        let kind = member.kind;
        assert!(member.into_heard() == wanted, "{kind:?} has not heard the same as was acked");
    }
    assert_eq!(again.metric("danmaku_taken_over_total"), 1);
    assert!(again.metric("danmaku_taken_over_pause_us_max") > 0, "the pause is measured");
}

/// What asks over HTTP while the process changes: each gets its answer, whether on a connection of its own or on one
/// that is kept; whoever publishes so gets an ack.
#[test]
fn no_request_fails_while_the_process_changes() {
    let old = Server::start_with(&["--workers", "2"], &UNLIMITED);
    let address = old.address;
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let askers: Vec<_> = (0..4)
        .map(|asker| {
            let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
            thread::spawn(move || {
                let mut kept = None;
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let mut exchange = kept.take().unwrap_or_else(|| Exchange::new(address));
                    let body = json!({"id": format!("{asker}-{n}"), "text": format!("{asker} says {n}")})
                        .to_string();
                    let request = match asker % 2 {
                        0 => post("/api/v1/rooms/r1/danmaku", "", &body),
                        _ => "GET /route?room=r1 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
                    };
                    let answer = exchange.send(request).answer();
                    let expected = if asker % 2 == 0 { 200 } else { 307 };
                    assert_eq!(answer.status, expected, "{answer:?}");
                    asked.fetch_add(1, Ordering::Relaxed);
                    if asker < 2 && answer.header("connection") != Some("close") {
                        kept = Some(exchange);
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            })
        })
        .collect();
    let more = |n: usize| {
        let so_far = asked.load(Ordering::Relaxed);
        until("requests are answered", || asked.load(Ordering::Relaxed) > so_far + n);
    };
    more(100);
    let new = replace(old, &["--workers", "2"]);
    more(100);
    stop.store(true, Ordering::Relaxed);
    for asker in askers {
        asker.join().expect("every request was answered");
    }
    drop(new);
}

/// A request and a handshake that were half sent when the place was taken: the old process still answers, with what
/// the new one says of the comment, and the session is the new one's.
#[test]
fn what_was_half_asked_is_answered_by_both_processes() {
    let mut old = Server::start_with(&["--workers", "2"], &UNLIMITED);
    let whole = post("/api/v1/rooms/r1/danmaku", "", r#"{"id":"a","text":"late"}"#);
    let mut request = Exchange::new(old.address);
    request.send(&whole[..whole.len() - 5]);
    let mut handshake = Exchange::new(old.address);
    handshake.send("GET /ws?room=r1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n");
    until("both are there", || old.metric("danmaku_handshakes") == 2);
    let new = old.replace(&["--workers", "2"], &UNLIMITED);
    let answer = request.send(&whole[whole.len() - 5..]).answer();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{answer:?}");
    assert_eq!(answer.json()["ack"]["seq"], 1, "{answer:?}");
    handshake.send(
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    );
    assert_eq!(handshake.answer().status, 101);
    handshake.reads("joined");
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    assert_eq!(new.metric("danmaku_connections"), 1);
    handshake.send(frame(FIN | TEXT, send("b", "and on").as_bytes()));
    handshake.reads("\"ack\":{\"id\":\"b\"");
}

/// Whoever asks for the place and dies, however far it has come, leaves a server that goes on: the sessions are there,
/// and what they publish is acked and heard by all.
#[test]
fn one_that_dies_on_the_way_leaves_the_old_one_serving() {
    let server = Server::start_with(&["--workers", "2"], &UNLIMITED);
    let mut speaker = RawSocket::join(server.address, "r1", "");
    let mut members: Vec<Member> =
        Kind::ALL.into_iter().map(|kind| Member::join(server.address, kind, "r1")).collect();
    for steps in 0..=STEPS {
        ask_and_die(&server.data_dir(), steps);
        until("it is called off", || server.metric("danmaku_handovers_called_off_total") > steps as u64);
        let text = format!("after {steps} steps");
        speaker.say(&send(&format!("s{steps}"), &text));
        ack(&mut speaker, &format!("s{steps}"));
        for member in &mut members {
            member.hear_out(&text);
        }
        let answer = Exchange::new(server.address).send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").answer();
        assert_eq!(answer.status, 200);
    }
    assert_eq!(server.metric("danmaku_connections"), members.len() as u64 + 1);
    assert!(server.log().contains("called off"), "{}", server.log());
    // And the place can still be taken.
    let new = replace(server, &["--workers", "1"]);
    speaker.say(&send("last", "after all"));
    ack(&mut speaker, "last");
    for member in &mut members {
        member.hear_out("after all");
    }
    assert_eq!(new.metric("danmaku_connections"), members.len() as u64 + 1);
}

/// A process that speaks another version of the hand-over is told so, and nothing else happens.
#[test]
fn another_version_is_refused_by_both_sides() {
    use std::io::{Read, Write};
    let server = Server::start(&["--workers", "1"]);
    let path = server.data_dir().join("handover.sock");
    let mut stranger = std::os::unix::net::UnixStream::connect(&path).expect("the server listens");
    stranger.write_all(b"danmaku\0\xff\0\0\0").expect("sent");
    let mut answer = [0; 12];
    stranger.read_exact(&mut answer).expect("its own version");
    assert_eq!(&answer[..8], b"danmaku\0");
    until("it is called off", || server.metric("danmaku_handovers_called_off_total") == 1);
    assert!(server.log().contains("version 255"), "{}", server.log());

    // The other way round: a directory that somebody else serves from.
    let scratch = Scratch::new();
    let listener = std::os::unix::net::UnixListener::bind(scratch.0.join("handover.sock")).expect("bound");
    let other = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut greeting = [0; 12];
        socket.read_exact(&mut greeting).expect("a greeting");
        socket.write_all(b"danmaku\0\xff\0\0\0").expect("sent");
        socket.read(&mut [0; 64]).map(drop)
    });
    let refused = danmaku::handover::taker::Taker::ask(&scratch.0).expect_err("another version");
    assert!(refused.to_string().contains("version 255"), "{refused}");
    let _ = other.join();
}

/// Two servers do not share a data directory, and the second says what to do.
#[test]
fn a_second_server_in_the_same_directory_is_refused() {
    let server = Server::start(&["--workers", "1"]);
    let output = Command::new(env!("CARGO_BIN_EXE_danmaku"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
        .arg(server.data_dir())
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let dir = server.data_dir().display().to_string();
    let pid = format!("process {}", server.pid().as_raw_nonzero());
    for word in [&*dir, &*pid, "--take-over", "--data-dir"] {
        assert!(told.contains(word), "no {word:?} in {told}");
    }
}

/// `--take-over` where nobody serves just serves.
#[test]
fn a_place_that_nobody_has_is_taken_by_serving() {
    let server = Server::start(&["--workers", "1", "--take-over"]);
    assert_eq!(server.get("/readyz").0, 200);
    assert_eq!(server.metric("danmaku_taken_over_total"), 0);
}

/// Sockets that somebody else opened (sd_listen_fds(3)): clients' and the admin port's, shared by more workers than
/// there are sockets.
#[test]
fn sockets_of_a_service_manager_are_served() {
    let scratch = Scratch::new();
    let (client, admin) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (client, admin) = (client.expect("bound"), admin.expect("bound"));
    let (address, admin_address) = (client.local_addr().expect("known"), admin.local_addr().expect("known"));
    let fd = |listener: TcpListener| Stdio::from(OwnedFd::from(listener));
    let script = "exec 3<&0 4<&2 </dev/null 2>/dev/null; \
                  LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=http:admin exec \"$0\" \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_danmaku"), "serve", "--workers", "3", "--data-dir"])
        .arg(scratch.0.join("data"))
        .stdin(fd(client))
        .stderr(fd(admin))
        .stdout(Stdio::null())
        .spawn()
        .expect("sh runs");
    for room in ["a", "b", "c", "d"] {
        let mut socket = RawSocket::join(address, room, "");
        socket.say(&send("1", "hello"));
        ack(&mut socket, "1");
    }
    let ready = Exchange::new(admin_address).send("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").answer();
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(ready.status, 200, "{ready:?}");
}

/// Callers are counted at the new process by the addresses they came from, and guests keep their ids.
#[test]
fn addresses_are_counted_and_guests_known_again() {
    let env =
        [("DANMAKU__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]"), ("DANMAKU__CONNECTIONS__PER_IPV4", "2")];
    let mut old = Server::start_with(&["--workers", "2"], &env);
    let mut callers: Vec<RawSocket> = ["192.0.2.1", "192.0.2.1", "2001:db8::1"]
        .map(|address| RawSocket::join(old.address, "r1", &format!("X-Forwarded-For: {address}\r\n")))
        .into();
    let joined = callers[0].hears("joined");
    let you = serde_json::from_str::<Value>(&joined).expect("JSON")["joined"]["you"].take();
    let new = old.replace(&["--workers", "1"], &env);
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    let knock = |address: &str| {
        let head = format!("GET /ws?room=r1 HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {address}\r\n");
        let more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
        Exchange::new(new.address).send(head + more).answer().status
    };
    until("the new process has counted them", || knock("192.0.2.1") == 429);
    assert_eq!(knock("192.0.2.2"), 101, "a neighbour");
    let signed = you["guest"].as_str().expect("signed");
    let mut again = RawSocket::join(new.address, "r1", &format!("Authorization: Bearer {signed}\r\n"));
    assert!(again.hears("joined").contains(you["id"].as_str().expect("an id")), "{you}");
    drop((callers, again));
    until("who left is counted out", || knock("192.0.2.1") == 101);
}

/// Users with tokens stay who they are and end when their tokens end; what back ends have decided stays decided.
#[test]
fn tokens_and_what_was_decided_about_users_hold_in_the_new_process() {
    let secret = "0123456789abcdef0123456789abcdef";
    let keys = format!("[{{id = \"hs\", secret = \"{secret}\"}}]");
    let env = [
        ("DANMAKU__AUTH__KEYS", &*keys),
        ("DANMAKU__AUTH__LEEWAY", "1s"),
        ("DANMAKU__AUTH__REMIND_BEFORE", "0s"),
    ];
    let mut old = Server::start_with(&["--workers", "2"], &env);
    let key = format!("Authorization: Bearer {}\r\n", old.staff_key());
    let token = |user: &str, lives_s: u64| {
        let claims = json!({
            "sub": user, "iat": now_s() - 10, "exp": now_s() + lives_s, "name": "Ann",
            "rooms": { "r1": { "level": 3 }, "r2": { "role": "vip" } },
        });
        format!("Authorization: Bearer {}\r\n", Signer::secret("hs", secret).token(&claims))
    };
    let (revoked, changed) = (token("revoked", 600), token("changed", 600));
    let mut stays = RawSocket::join(old.address, "r1", &token("stays", 600));
    let mut brief = RawSocket::join(old.address, "r1", &token("brief", 3));
    let mut renamed = RawSocket::join(old.address, "r1", &changed);
    let decide = |server: &Server, path: &str, method: &str, body: &str| {
        let request = post(&format!("/api/v1/users/{path}"), &key, body).replacen("POST", method, 1);
        Exchange::new(server.address).send(request).answer().status
    };
    assert_eq!(decide(&old, "revoked/revoke", "POST", "{}"), 204);
    assert_eq!(decide(&old, "changed", "PATCH", r#"{"name":"Bea"}"#), 204);
    renamed.hears("Bea");
    let new = old.replace(&["--workers", "1"], &env);
    assert_eq!(old.ends(), Some(0), "{}", old.log());
    renamed.say(&send("a", "who am I"));
    stays.hears(r#""user":{"id":"changed","name":"Bea","level":3},"text":"who am I""#);
    stays.say(&send("a", "and I"));
    renamed.hears(r#""user":{"id":"stays","name":"Ann","level":3},"text":"and I""#);
    stays.say(r#"{"join":{"room":"r2"}}"#);
    assert!(stays.hears("joined").contains(r#""name":"Ann","role":"vip""#));
    assert_eq!(brief.end(), End::Code(4001));
    let comment = post("/api/v1/rooms/r1/danmaku", &revoked, r#"{"id":"b","text":"me too"}"#);
    assert_eq!(Exchange::new(new.address).send(comment).answer().code(), "token_expired");
    let mut again = RawSocket::join(new.address, "r1", &changed);
    assert!(again.hears("joined").contains("Bea"));
    assert_eq!(decide(&new, "changed/revoke", "POST", "{}"), 204);
    assert_eq!((again.end(), renamed.end()), (End::Code(4001), End::Code(4001)));
}
