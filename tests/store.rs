//! What is acked is kept: over a restart, and over `kill -9` at any moment.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;
#[path = "store/witness.rs"]
mod witness;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use exchange::{Exchange, post};
use raw_socket::{End, RawSocket};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::{Value, json};
use support::{Scratch, Server, until};
use witness::Witness;

/// No limit of a user, a room or a connection, whose comments the tests send in a row.
const UNLIMITED: [(&str, &str); 5] = [
    ("DANMAKU__LIMITS__ROOM_MODE", "off"),
    ("DANMAKU__LIMITS__USER_MODE", "off"),
    ("DANMAKU__LIMITS__BREAKER_MODE", "off"),
    ("DANMAKU__LIMITS__DUPLICATE_MODE", "off"),
    ("DANMAKU__WEBSOCKET__FRAMES_PER_S", "1000000"),
];

fn publish(address: SocketAddr, room: &str, id: &str, text: &str) -> Value {
    let body = json!({"id": id, "text": text}).to_string();
    let path = format!("/api/v1/rooms/{room}/danmaku");
    Exchange::new(address).send(post(&path, "", &body)).answer().json()
}

fn seq(answer: &Value) -> u64 {
    answer["ack"]["seq"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

/// A server that ended in good order and starts again: comments, ids and guests are known, a viewer goes on where it was,
/// and rooms that promise nothing have kept nothing.
#[test]
fn a_restart_keeps_what_was_said() {
    let scratch = Scratch::new();
    let config = scratch.file(
        "danmaku.toml",
        "[[rooms]]\nmatch = \"lost\"\ndurability = \"memory\"\n[[rooms]]\nmatch = \"soon\"\ndurability = \"relaxed\"\n",
    );
    let args = ["--workers", "2", "--config", config.to_str().expect("plain")];
    let server = Server::start(&args);
    let mut guest = RawSocket::join(server.address, "r1", "");
    let joined: Value = serde_json::from_str(&guest.hears("\"joined\"")).expect("JSON");
    let mut witness = Witness::join(server.address, "r1");
    let first = seq(&publish(server.address, "r1", "a", "one"));
    let second = seq(&publish(server.address, "r1", "b", "two"));
    seq(&publish(server.address, "lost", "a", "not kept"));
    let soon = seq(&publish(server.address, "soon", "a", "kept in a moment"));
    witness.hear("two");

    let server = server.start_again(Signal::TERM, &args, &[]);
    witness.come_back(server.address);
    assert_eq!(witness.texts(), ["one", "two"], "nothing is taken back, nothing comes twice");
    assert_eq!(seq(&publish(server.address, "r1", "a", "one")), first, "the id is known");
    let third = seq(&publish(server.address, "r1", "c", "three"));
    assert!(third > second + 1, "another epoch has numbers of its own");
    witness.hear("three");
    assert_eq!(seq(&publish(server.address, "soon", "a", "kept in a moment")), soon);
    let shown = |room: &str| {
        let (status, text) = snapshot(server.address, room);
        (status, text.contains("kept"))
    };
    assert_eq!(shown("lost"), (404, false));
    assert_eq!(shown("soon"), (200, true));
    let guest = joined["joined"]["you"]["guest"].as_str().expect("a guest");
    let headers = format!("Authorization: Bearer {guest}\r\n");
    let mut again = RawSocket::join(server.address, "r1", &headers);
    let rejoined: Value = serde_json::from_str(&again.hears("\"joined\"")).expect("JSON");
    assert_eq!(rejoined["joined"]["you"]["id"], joined["joined"]["you"]["id"]);
    for name in ["danmaku_store_up", "danmaku_store_loads_total", "danmaku_store_entries_total"] {
        assert!(server.metric(name) >= 1, "{name}");
    }
}

/// What staff decided in a room holds after a restart, whatever its comments are worth: who is banned is sent away though
/// he is the first to come, the pin stands, and slow mode is on.
#[test]
fn a_restart_keeps_what_staff_decided() {
    for durability in ["stored", "memory"] {
        let env = [("DANMAKU__STORE__DURABILITY", durability)];
        let server = Server::start_with(&["--workers", "2"], &env);
        let key = server.staff_key();
        let order = |server: &Server, method: &str, path: &str, body: Value| {
            let headers = format!("Authorization: Bearer {key}\r\n");
            let request = post(&format!("/api/v1/rooms/r1/{path}"), &headers, &body.to_string());
            let answer = Exchange::new(server.address).send(request.replacen("POST", method, 1)).answer();
            assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        };
        let mut guest = RawSocket::join(server.address, "r1", "");
        let joined: Value = serde_json::from_str(&guest.hears("\"joined\"")).expect("JSON");
        let you = &joined["joined"]["you"];
        let pinned = seq(&publish(server.address, "r1", "a", "pinned"));
        order(&server, "POST", "pin", json!({"seq": pinned}));
        order(&server, "PATCH", "settings", json!({"slowModeMs": 60_000}));
        order(&server, "POST", "bans", json!({"user": you["id"], "ttlMs": 3_600_000, "reason": "spam"}));
        assert_eq!(guest.end(), End::Code(4003));

        let server = server.start_again(Signal::TERM, &["--workers", "2"], &env);
        let headers = format!("Authorization: Bearer {}\r\n", you["guest"].as_str().expect("a guest"));
        let mut again = RawSocket::join(server.address, "r1", &headers);
        assert_eq!(again.end(), End::Code(4003), "{durability}");
        let mut other = RawSocket::join(server.address, "r1", "");
        let shown = other.hears("\"snapshot\"");
        let kept = durability == "stored";
        assert_eq!(shown.contains("\"type\":\"pin\""), kept, "{durability}: {shown}");
        let said = |id| publish(server.address, "r1", id, id);
        seq(&said("b"));
        assert_eq!(said("c")["code"], "slow_mode", "{durability}");
    }
}

fn snapshot(address: SocketAddr, room: &str) -> (u16, String) {
    let mut exchange = Exchange::new(address);
    let answer = exchange
        .send(format!("GET /api/v1/rooms/{room}/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .answer();
    (answer.status, answer.body)
}

/// How often the process is killed; `tests/kill_rounds.sh` does it more often.
fn rounds() -> u64 {
    std::env::var("DANMAKU_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20)
}

/// Killed at any moment under load: every ack is in the history once and under its number, nobody who was there misses
/// anything, and who was shown what was not kept is told.
#[test]
fn a_killed_server_has_kept_every_ack() {
    const ROOMS: [&str; 3] = ["r1", "r2", "r3"];
    let mut server = Server::start_with(&["--workers", "2"], &UNLIMITED);
    let mut witnesses = ROOMS.map(|room| Witness::join(server.address, room));
    let mut acked: [BTreeMap<String, u64>; 3] = Default::default();
    for round in 0..rounds() {
        let address = server.address;
        let heard = AtomicU64::new(0);
        thread::scope(|scope| {
            let publishers: Vec<_> = (0..6)
                .map(|n| {
                    let heard = &heard;
                    let run = move || load(address, ROOMS[n % 3], &format!("{round}-{n}"), heard);
                    (n % 3, scope.spawn(run))
                })
                .collect();
            let listeners: Vec<_> =
                witnesses.iter_mut().map(|witness| scope.spawn(|| witness.hear_out())).collect();
            // The moments lie all over the commits, whose interval is ten milliseconds.
            until("comments are acked", || heard.load(Ordering::Relaxed) > 40);
            thread::sleep(Duration::from_micros(round * 7_919 % 30_000));
            server.signal(Signal::KILL);
            for (room, publisher) in publishers {
                for (id, seq) in publisher.join().expect("it heard acks") {
                    assert_eq!(acked[room].insert(id.clone(), seq), None, "{id} is acked once");
                }
            }
            listeners.into_iter().for_each(|listener| listener.join().expect("it listened"));
        });
        server = server.start_again(Signal::KILL, &["--workers", "2"], &UNLIMITED);
        for (witness, acked) in witnesses.iter_mut().zip(&acked) {
            witness.come_back(server.address);
            witness.check(acked);
        }
    }
    let told: usize = witnesses.iter().map(Witness::taken_back).sum();
    println!(
        "{} acks over {} kills; {told} comments were taken back",
        acked.iter().map(BTreeMap::len).sum::<usize>(),
        rounds()
    );
}

/// Publishes until the connection ends, a few at a time; what was acked.
fn load(address: SocketAddr, room: &str, name: &str, heard: &AtomicU64) -> BTreeMap<String, u64> {
    let mut socket = RawSocket::join(address, &format!("{room}&snapshot=none"), "");
    let mut acked = BTreeMap::new();
    let send = |socket: &mut RawSocket, n: u64| {
        let id = format!("{name}-{n}");
        socket.say(&json!({"send": {"id": id, "text": id}}).to_string());
    };
    (0..8).for_each(|n| send(&mut socket, n));
    let mut n = 8;
    while let Some(frame) = socket.next() {
        let Ok(told) = serde_json::from_slice::<Value>(&frame.payload) else { continue };
        assert!(told.get("error").is_none(), "{told}");
        let Some(ack) = told.get("ack") else { continue };
        let (id, seq) = (ack["id"].as_str().expect("an id"), ack["seq"].as_u64().expect("a number"));
        acked.insert(id.to_owned(), seq);
        heard.fetch_add(1, Ordering::Relaxed);
        send(&mut socket, n);
        n += 1;
    }
    acked
}

/// A disk that takes nothing more, done to a real process by a limit on the size of its files: it says so, refuses what it
/// cannot keep, lives, and goes on by itself when there is room again.
#[test]
fn a_full_disk_is_said_and_got_over() {
    let server = Server::start_with(&["--workers", "1"], &UNLIMITED);
    let mut witness = Witness::join(server.address, "r1");
    let kept = seq(&publish(server.address, "r1", "a", "kept"));
    witness.hear("kept");
    let limit = |bytes: Option<u64>| {
        let limit = Rlimit { current: bytes, maximum: getrlimit(Resource::Fsize).maximum };
        prlimit(Some(server.pid()), Resource::Fsize, limit).expect("one's own children can be limited");
    };
    // Less than the first frame of a write-ahead log.
    limit(Some(4_096));
    let lost = publish(server.address, "r1", "b", "lost");
    assert_eq!(lost["code"], "not_stored", "{lost}");
    until("the server is not ready", || server.get("/readyz").0 == 503);
    assert!(server.get("/readyz").1.contains("store_unavailable"));
    assert_eq!(
        (server.metric("danmaku_store_up"), server.metric("danmaku_store_commit_failures_total")),
        (0, 1)
    );
    assert_eq!(server.metric("danmaku_store_given_up_total"), 1);
    let told = server.log().lines().filter(|line| line.contains("a commit failed")).count();
    assert_eq!(told, 1, "{}", server.log());

    limit(getrlimit(Resource::Fsize).current);
    until("it goes on by itself", || server.get("/readyz").0 == 200);
    assert!(server.log().contains("the store works again"));
    assert!(seq(&publish(server.address, "r1", "b", "lost")) > kept + 1, "a number of another epoch");
    witness.hear("lost");
    let server = server.start_again(Signal::KILL, &["--workers", "1"], &UNLIMITED);
    witness.come_back(server.address);
    assert_eq!(witness.texts(), ["kept", "lost"]);
}

/// A store that cannot be opened: the server says which file and why, and does not start.
#[test]
fn a_store_that_cannot_be_opened_is_named() {
    let scratch = Scratch::new();
    let said = |path: &std::path::Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_danmaku"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(scratch.0.join("data"))
            .env("DANMAKU__STORE__PATH", path)
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = scratch.file("file", "");
    let words = said(&file);
    assert!(words.contains("store") && words.contains(file.to_str().expect("plain")), "{words}");
    let dir = scratch.0.join("store");
    std::fs::create_dir(&dir).expect("made");
    std::fs::write(dir.join("secret"), "short").expect("written");
    let words = said(&dir);
    assert!(words.contains("secret") && words.contains("backup"), "{words}");
}
