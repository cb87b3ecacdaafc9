//! What goes wrong around a server, done to a real process: it loses what was touched and nothing else, and goes on by
//! itself when the fault is over.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use danmaku::config::{Config, Flags};
use danmaku::store::memory::{Bounds, MemoryStore};
use danmaku_room::store::{Append, Durability, Loaded, Progress, Promise, Store};
use danmaku_wire::id::RoomId;
use exchange::{Exchange, post};
use raw_socket::{End, FIN, PING, RawSocket, frame};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use support::{Server, until};

const PONG: u8 = 10;

/// CPU time that a server's only worker has used, in ticks of the kernel (proc_pid_stat(5), fields 14 and 15).
fn worker_ticks(server: &Server) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid().as_raw_nonzero()));
    let mut stats = tasks
        .expect("the process is there")
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let stat = stats.find(|stat| stat.contains("(worker-0) ")).expect("a worker");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// Leaves a process the descriptors that it has: no number is free below that of its newest connection. (Numbers that
/// nobody sees are not free: a thread that waits in accept(2) has its own set aside.)
fn limit_descriptors(server: &Server) {
    let path = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let numbers = std::fs::read_dir(path).expect("the process is there").filter_map(|fd| {
        let fd = fd.expect("listed");
        let socket =
            std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        socket.then(|| fd.file_name().to_str()?.parse::<u64>().ok()).flatten()
    });
    let newest = numbers.max().expect("it has connections");
    let limit = Rlimit { current: Some(newest + 1), ..getrlimit(Resource::Nofile) };
    prlimit(Some(server.pid()), Resource::Nofile, limit).expect("one's own children can be limited");
}

/// Out of descriptors: nobody new comes in, whoever is here stays, nothing spins or floods the log, and those who waited
/// are let in as soon as somebody goes.
#[test]
fn a_server_out_of_descriptors_waits_for_one() {
    let server = Server::start(&["--workers", "1"]);
    let mut here = RawSocket::join(server.address, "r1", "");
    here.hears("\"joined\"");
    // The admin port needs descriptors, too: this connection has its own from before.
    let mut admin = Exchange::new(server.admin);
    let mut metric = |name: &str| {
        admin.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let text = admin.answer().body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no metric {name}")).parse::<u64>().expect("a number")
    };
    metric("danmaku_connections");
    limit_descriptors(&server);

    let (ticks, start) = (worker_ticks(&server), Instant::now());
    let mut waiting: Vec<_> = (0..3).map(|_| Exchange::new(server.address)).collect();
    for one in &mut waiting {
        one.send("GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    }
    until("the listener has failed again and again", || metric("danmaku_accept_errors_total") >= 10);
    let (used, passed) = (worker_ticks(&server) - ticks, start.elapsed());
    // A hundred ticks are a second (times(2)): a listener that spins uses all of it.
    assert!(u128::from(used) * 10 < passed.as_millis() / 2, "{used} ticks in {passed:?}");
    assert!(!waiting[0].is_closed() && !waiting[0].answers_within(Duration::from_millis(1)), "it waits");
    here.say(r#"{"send":{"id":"a","text":"hello"}}"#);
    here.hears("\"ack\"");
    let told = server.log().lines().filter(|line| line.contains("cannot accept")).count();
    assert_eq!(told, 1, "{}", server.log());

    drop(here);
    for one in &mut waiting {
        assert_eq!(one.answer().status, 404);
    }
    let mut next = RawSocket::join(server.address, "r1", "");
    next.hears("\"hello\"");
}

/// Stopped for longer than any peer may be silent: nobody is dropped for what the server did not read.
#[test]
fn a_process_that_was_stopped_drops_nobody_for_it() {
    const CROWD: usize = 1_000;
    let env = [("DANMAKU__WEBSOCKET__PING_AFTER", "1s"), ("DANMAKU__WEBSOCKET__PONG_WITHIN", "3s")];
    let server = Server::start_with(&["--workers", "1"], &env);
    let mut crowd: Vec<_> =
        (0..CROWD).map(|n| RawSocket::join(server.address, &format!("r{}", n % 10), "")).collect();
    // Everybody is asked. Some answer a server that is not there to read it, the others only when it is back.
    for socket in &mut crowd {
        while socket.next().expect("open").opcode != PING {}
    }
    let dropped = server.met("silence");
    server.signal(Signal::STOP);
    let stopped = Instant::now();
    let (late, early) = crowd.split_at_mut(CROWD / 2);
    let answer = |sockets: &mut [RawSocket]| {
        for socket in sockets {
            socket.send(&frame(FIN | PONG, b""));
        }
    };
    answer(early);
    // Nothing but time passes for a process that is stopped.
    std::thread::sleep(Duration::from_secs(4).saturating_sub(stopped.elapsed()));
    server.signal(Signal::CONT);
    until("the pause was noticed", || server.metric("danmaku_pauses_total") >= 1);
    answer(late);
    let asked = server.metric("danmaku_pings_sent_total");
    // Nobody is asked again before all have been looked at.
    until("somebody is asked again", || server.metric("danmaku_pings_sent_total") > asked);
    assert_eq!((dropped, server.met("silence")), (0, 0));
    assert_eq!(server.metric("danmaku_connections"), CROWD as u64);
    // The clock runs against them again, from here on.
    until("who does not answer now is dropped", || server.met("silence") == CROWD as u64);
}

/// A reader that was blocked before its server stood still has its whole grace, not counting that.
#[test]
fn a_pause_takes_nothing_from_a_slow_readers_grace() {
    let env = [
        ("DANMAKU__LIMITS__USER_MODE", "off"),
        ("DANMAKU__LIMITS__ROOM_MODE", "off"),
        ("DANMAKU__WEBSOCKET__FRAMES_PER_S", "1000000"),
        ("DANMAKU__SLOW_CONSUMER__GRACE", "3s"),
        ("DANMAKU__ROOM__BACKLOG_BYTES", "256MiB"),
    ];
    let server = Server::start_with(&["--workers", "1"], &env);
    let mut asleep = RawSocket::join_narrow(server.address, "r1");
    let mut talker = RawSocket::join(server.address, "r1", "");
    let mut said = 0;
    until("a reader is blocked", || {
        let comments = (0..50).flat_map(|_| {
            said += 1;
            let text = format!("{:0>99}", said).replace('0', "弹");
            frame(FIN | raw_socket::TEXT, format!("{{\"send\":{{\"text\":\"{text}\"}}}}").as_bytes())
        });
        talker.send(&comments.collect::<Vec<_>>());
        talker.hears(&format!("{:0>99}", said).replace('0', "弹"));
        server.metric("danmaku_blocked_now") >= 1
    });
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(4));
    server.signal(Signal::CONT);
    until("the pause was noticed", || server.metric("danmaku_pauses_total") >= 1);
    assert_eq!(server.metric("danmaku_slow_consumers_total"), 0);
    // It reads now, and has missed nothing.
    asleep.hears(&format!("{:0>99}", said).replace('0', "弹"));
}

/// A log that takes nothing: the disk is full, and the server does what it does.
#[test]
fn a_full_disk_for_the_log_harms_nobody() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut server = Server::start_logging_to(full, &[("DANMAKU_LOG", "trace")]);
    let mut socket = RawSocket::join(server.address, "r1", "");
    socket.say(r#"{"send":{"id":"a","text":"hello"}}"#);
    socket.hears("\"ack\"");
    let comment = post("/api/v1/rooms/r1/danmaku", "", r#"{"id":"b","text":"hello"}"#);
    assert_eq!(Exchange::new(server.address).send(comment).answer().status, 200);
    assert_eq!(server.get("/healthz").0, 200);
    server.signal(Signal::INT);
    assert_eq!(socket.end(), End::Code(1012));
    assert_eq!(server.wait(), Some(0));
}

/// A store that panics when it is asked for one room.
struct Panicking(MemoryStore);

impl Store for Panicking {
    fn load(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        assert!(room.as_str() != "panic", "the test asked for it");
        self.0.load(room, durability, answer);
    }

    fn look(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        self.0.look(room, durability, answer);
    }

    fn append(&self, append: Append, progress: &Arc<Progress>) {
        self.0.append(append, progress);
    }
}

/// A panic in the handling of a session's input closes that session with 1011; its neighbours notice nothing. (Of a
/// panic in a room's owner tells `room_reload`.)
#[test]
fn a_panic_over_a_sessions_input_ends_that_session_alone() {
    let any = Some("127.0.0.1:0".parse().expect("an address"));
    let flags = Flags { listen: any, admin_listen: any, workers: Some(1), data_dir: None };
    let config = Config::load(None, [], &flags).expect("a good configuration");
    let bounds = Bounds { rooms_max: 100, entries_max: 100, ids_max: 100, ids_ms: 60_000, epochs_max: 16 };
    let store = Arc::new(Panicking(MemoryStore::new(bounds)));
    let server = danmaku::serve::Server::start_with(config, store).expect("started");
    let mut neighbour = RawSocket::join(server.listen, "r1", "");
    let mut unlucky = RawSocket::join(server.listen, "r1", "");
    unlucky.hears("\"joined\"");
    unlucky.say(r#"{"join":{"room":"panic"}}"#);
    assert_eq!(unlucky.end(), End::Code(1011));
    neighbour.say(r#"{"send":{"id":"a","text":"hello"}}"#);
    neighbour.hears("\"ack\"");
    RawSocket::join(server.listen, "r1", "").hears("hello");
    server.stop();
    server.join();
}
