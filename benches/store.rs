//! What the embedded store does on this disk: entries a second and how long commits take, beside the disk's own limit
//! and beside a commit per entry; and what an ack waits for in each mode.
//!
//! ```sh
//! cargo bench --bench store                 # five seconds each, in target/tmp
//! STORE_BENCH_DIR=/var/tmp cargo bench --bench store
//! ```

#[path = "../tests/support/raw_socket.rs"]
mod raw_socket;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use danmaku::config::{Config, Flags};
use danmaku::store::sqlite::{Settings, SqliteStore};
use danmaku::store::tally::{COMMIT_BUCKETS_US, StoreTally};
use danmaku_room::admission::idempotency::Key;
use danmaku_room::store::{Append, Durability, Progress, Store, StoredId};
use danmaku_wire::entry::{Author, Body, Comment, Entry, Mode, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::position::Epoch;
use raw_socket::RawSocket;

const SECONDS: Duration = Duration::from_secs(5);
const ROOMS: usize = 200;
/// Entries of an append, and appends of a room under way: what a few hundred busy rooms offer together.
const ENTRIES: u64 = 10;
const APPENDS: usize = 10;
const USERS: u64 = 5_000;
const PUBLISHERS: usize = 8;
const PUBLISHES: usize = 500;

fn main() {
    let parent = std::env::var_os("STORE_BENCH_DIR");
    let parent = parent.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let dir = parent.join(format!("store-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    println!("in {}", dir.display());
    let synced = raw(&dir);
    let grouped = boundary("in groups, 10 ms", &dir.join("grouped"), |_| {}, ENTRIES, APPENDS);
    let single = boundary(
        "a commit per entry",
        &dir.join("single"),
        |settings| (settings.commit_entries, settings.commit_interval) = (1, Duration::ZERO),
        1,
        1,
    );
    println!(
        "groups over single commits: {:.1}; raw syncs over single commits: {:.2}",
        grouped / single,
        synced / single
    );
    for mode in ["memory", "relaxed", "stored"] {
        acks(mode, &dir.join(mode));
    }
    std::fs::remove_dir_all(&dir).expect("removed");
}

/// The disk alone: a page and a sync, again and again.
fn raw(dir: &Path) -> f64 {
    let mut file = File::create(dir.join("raw")).expect("a file");
    let (start, mut took) = (Instant::now(), Vec::new());
    while start.elapsed() < SECONDS {
        let before = Instant::now();
        file.write_all(&[7; 4_096]).expect("written");
        file.sync_data().expect("synced");
        took.push(before.elapsed());
    }
    let per_s = took.len() as f64 / start.elapsed().as_secs_f64();
    println!("raw: {per_s:.0} writes of 4 KiB with fdatasync a second; {}", percentiles(&mut took));
    per_s
}

fn boundary(name: &str, dir: &Path, alter: impl FnOnce(&mut Settings), entries: u64, appends: usize) -> f64 {
    let config = Config::load(None, [], &Flags::default()).expect("the defaults");
    let mut settings = Settings { dir: dir.to_owned(), ..config.store };
    alter(&mut settings);
    let tally = Arc::new(StoreTally::default());
    let store = SqliteStore::open(settings, Arc::clone(&tally)).expect("opened");
    let mut rooms: Vec<Writing> = (0..ROOMS).map(Writing::new).collect();
    let authors: Vec<Arc<Author>> = (0..USERS).map(author).collect();
    let (start, mut took) = (Instant::now(), Vec::new());
    let (mut said, mut done) = (0, 0);
    loop {
        let over = start.elapsed() >= SECONDS;
        let mut idle = true;
        for room in &mut rooms {
            if !over && room.under_way.len() < appends {
                room.append(&store, &authors, entries, &mut said);
                idle = false;
            }
            let stored = room.progress.stored();
            while room.under_way.front().is_some_and(|(last, _)| *last <= stored) {
                let Some((_, at)) = room.under_way.pop_front() else { break };
                took.push(at.elapsed());
                done += entries;
                idle = false;
            }
        }
        if over && rooms.iter().all(|room| room.under_way.is_empty()) {
            break;
        }
        if idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
    let per_s = done as f64 / start.elapsed().as_secs_f64();
    println!(
        "{name}: {per_s:.0} entries a second; append to answer {}; commits {}",
        percentiles(&mut took),
        commits(&tally)
    );
    store.close();
    per_s
}

/// A room and what it waits for.
struct Writing {
    room: RoomId,
    epoch: Epoch,
    last: u64,
    progress: Arc<Progress>,
    under_way: VecDeque<(u64, Instant)>,
}

impl Writing {
    fn new(n: usize) -> Self {
        let room = RoomId::parse(&format!("room-{n}")).expect("a name");
        let epoch = Epoch::parse("bench").expect("an epoch");
        Self { room, epoch, last: 0, progress: Progress::new(Arc::new(|| {})), under_way: VecDeque::new() }
    }

    fn append(&mut self, store: &SqliteStore, authors: &[Arc<Author>], count: u64, said: &mut u64) {
        let at_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
        let at_ms = u64::try_from(at_ms).expect("not so late");
        let expected = self.last;
        let (mut entries, mut ids) = (Vec::new(), Vec::new());
        for seq in expected + 1..=expected + count {
            *said += 1;
            let user = &authors[(*said * 7_919 % USERS) as usize];
            let text = format!("弹幕来了 what a goal {said}").into();
            let (mode, stream_ms) = (Mode::Scroll, Some(*said / 50));
            let comment = Comment {
                user: Arc::clone(user),
                text,
                mode,
                color: 0xff_ffff,
                size: 25,
                stream_ms,
                trace: None,
            };
            let visibility = Visibility::Tier(Tier::Lite);
            entries.push(Arc::new(Entry { seq, at_ms, visibility, body: Body::Comment(comment) }));
            let key =
                Key::from_bits(u128::from(*said).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            ids.push(StoredId { key, payload: *said, seq, at_ms });
        }
        self.last += count;
        self.under_way.push_back((self.last, Instant::now()));
        let (room, epoch) = (self.room.clone(), self.epoch.clone());
        let append = Append { room, epoch, durability: Durability::Stored, expected, entries, ids };
        store.append(append, &self.progress);
    }
}

fn author(n: u64) -> Arc<Author> {
    let id = UserId::parse(&format!("user-{n}")).expect("an id");
    Arc::new(Author {
        id, name: format!("观众{n}").into(), role: Role::Viewer, level: 3, badges: Vec::new()
    })
}

fn commits(tally: &StoreTally) -> String {
    let counts = tally.commits();
    let all: u64 = counts.iter().sum();
    let within = |share: f64| {
        let mut sum = 0;
        let at = counts.iter().position(|count| {
            sum += count;
            sum as f64 >= all as f64 * share
        });
        at.and_then(|at| COMMIT_BUCKETS_US.get(at))
            .map_or("more".to_owned(), |us| format!("{} ms", *us as f64 / 1e3))
    };
    format!("{all}, p50 within {}, p99 within {}", within(0.5), within(0.99))
}

/// What an ack waits for: a few publishers, each with one comment under way.
fn acks(mode: &str, dir: &Path) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_danmaku"))
        .args([
            "serve",
            "--workers",
            "1",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
            "--data-dir",
        ])
        .arg(dir)
        .env("DANMAKU__STORE__DURABILITY", mode)
        .envs([("DANMAKU__LIMITS__USER_MODE", "off"), ("DANMAKU__LIMITS__ROOM_MODE", "off")])
        .envs([("DANMAKU__LIMITS__DUPLICATE_MODE", "off"), ("DANMAKU__LIMITS__BREAKER_MODE", "off")])
        .env("DANMAKU__WEBSOCKET__FRAMES_PER_S", "1000000")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let address: SocketAddr = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening on http://").and_then(|address| address.parse().ok()))
        .expect("an address");
    let start = Instant::now();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            thread::spawn(move || {
                let mut socket = RawSocket::join(address, &format!("room-{publisher}&snapshot=none"), "");
                let publish = |n| {
                    let before = Instant::now();
                    socket.say(&format!(r#"{{"send":{{"id":"p{n}","text":"what a goal {n}"}}}}"#));
                    socket.hears("\"ack\"");
                    before.elapsed()
                };
                (0..PUBLISHES).map(publish).collect::<Vec<Duration>>()
            })
        })
        .collect();
    let mut took: Vec<_> =
        publishers.into_iter().flat_map(|publisher| publisher.join().expect("it was acked")).collect();
    let per_s = took.len() as f64 / start.elapsed().as_secs_f64();
    println!(
        "{mode}: publish to ack {}; {per_s:.0} acks a second of {PUBLISHERS} publishers",
        percentiles(&mut took)
    );
    server.kill().expect("it is there");
    server.wait().expect("it ends");
}

fn percentiles(took: &mut [Duration]) -> String {
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).map_or(0.0, |took| took.as_secs_f64() * 1e3);
    format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}
