//! The whole admission of one comment in a room that knows 100,000 users, beside one `send()` of 115 bytes and beside
//! the `governor` crate on the same keyed workload.
//!
//! `cargo bench -p danmaku-room --bench admission` prints criterion's figures, then the ratios. Users come in a mixed
//! order, so that their records are not in the caches of the core; the "warm" figure is for a hundred of them.

use std::hint::black_box;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use criterion::Criterion;
use danmaku_room::Now;
use danmaku_room::admission::gate::{Ask, Gate};
use danmaku_room::admission::rule::{Mode as Acts, Modes, Rule};
use danmaku_room::admission::sliding_window::Window;
use danmaku_room::admission::token_bucket::Rate;
use danmaku_room::admission::worker_gate::{self, WorkerGate};
use danmaku_room::admission::{Limits, Standing};
use danmaku_wire::entry::{Author, COLOR_DEFAULT, Mode, Role, SIZE_DEFAULT};
use danmaku_wire::id::UserId;
use danmaku_wire::native::Send;
use governor::clock::FakeRelativeClock;
use governor::{Quota, RateLimiter};

/// Users whom the room knows.
const USERS: usize = 100_000;
/// Comments in each pass for the ratios.
const COMMENTS: usize = 1_000_000;
/// What a comment of 40 characters has as a batch, bytes.
const SENT: [u8; 115] = [b'x'; 115];
const TEXT: &str = "前方高能非战斗人员请迅速撤离哈哈哈这个主播太厉害了吧";

fn author(n: usize) -> Author {
    let id = UserId::parse(&format!("user-{n}")).expect("valid");
    Author { id, name: "".into(), role: Role::Viewer, level: 3, badges: Vec::new() }
}

/// A room in which everybody may write all the time: every comment goes the whole way.
fn gate() -> (Gate, WorkerGate) {
    let mut modes = Modes::default();
    modes.set(Rule::NodeRate, Acts::Enforce);
    let limits = Limits {
        modes,
        user: Some(Rate { burst: 1_000, per_s: 1_000.0 }),
        users_max: 2 * USERS,
        room: Some(Window { window_us: 10_000_000, count_max: 1_000_000_000 }),
        ..Limits::default()
    };
    let worker = worker_gate::Bounds { node: limits.room, ..worker_gate::Bounds::default() };
    (Gate::new(limits, [7; 16]), WorkerGate::new(worker))
}

/// One comment, whose text nobody has said yet.
fn admit((gate, worker): &mut (Gate, WorkerGate), user: &Author, n: usize, text: &mut String) -> bool {
    use std::fmt::Write;
    text.truncate(TEXT.len());
    let _ = write!(text, "{n:08}");
    let send = Send {
        id: "",
        text,
        mode: Mode::Scroll,
        color: COLOR_DEFAULT,
        size: SIZE_DEFAULT,
        stream_ms: None,
        traceparent: "",
    };
    // Ten thousand comments a second.
    let now = Now { us: 1_000_000 + n as u64 * 100, wall_ms: 1_700_000_000_000 };
    let ask = Ask { user, standing: Standing::default(), client: "", send: &send, text };
    gate.examine(worker, now, &ask).map(|permit| gate.charge(worker, now, &permit)).is_ok()
}

/// A room that has the bucket of users and no other rule, as a limiter has that knows nothing else.
fn bucket_alone() -> (Gate, WorkerGate) {
    let mut modes = Modes::of(Acts::Off);
    modes.set(Rule::UserRate, Acts::Enforce);
    let user = Some(Rate { burst: 1_000, per_s: 1_000.0 });
    let limits = Limits { modes, user, users_max: 2 * USERS, room: None, ..Limits::default() };
    (Gate::new(limits, [7; 16]), WorkerGate::default())
}

/// One comment that is always the same.
fn take_token((gate, worker): &mut (Gate, WorkerGate), user: &Author, n: usize) -> bool {
    let (mode, color, size) = (Mode::Scroll, COLOR_DEFAULT, SIZE_DEFAULT);
    let send = Send { id: "", text: "x", mode, color, size, stream_ms: None, traceparent: "" };
    let now = Now { us: 1_000_000 + n as u64 * 100, wall_ms: 1_700_000_000_000 };
    let ask = Ask { user, standing: Standing::default(), client: "", send: &send, text: "x" };
    gate.examine(worker, now, &ask).map(|permit| gate.charge(worker, now, &permit)).is_ok()
}

/// A walk over `count` users in which none is near the one before.
fn mixed(n: usize, count: usize) -> usize {
    n.wrapping_mul(7_919) % count
}

fn nanoseconds(mut one: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..COMMENTS).for_each(&mut one);
    start.elapsed().as_nanos() as f64 / COMMENTS as f64
}

/// The least of five passes: what else the machine does only adds.
fn least(mut pass: impl FnMut() -> f64) -> f64 {
    (0..5).map(|_| pass()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let users: Vec<Author> = (0..USERS).map(author).collect();
    let mut text = TEXT.to_owned();
    let mut gate = gate();
    let mut said = 0;
    let mut next = |gate: &mut (Gate, WorkerGate), among: usize, text: &mut String| {
        said += 1;
        assert!(admit(gate, &users[mixed(said, among)], said, text), "everybody may write");
    };
    (0..USERS).for_each(|_| next(&mut gate, USERS, &mut text));

    let (mut here, mut there) = UnixStream::pair().expect("a pair");
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while there.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });

    let quota = Quota::per_second(NonZeroU32::new(1_000).expect("not 0"));
    let clock = FakeRelativeClock::default();
    let limiter = RateLimiter::dashmap_with_clock(quota, clock.clone());
    let ids: Vec<&str> = users.iter().map(|user| user.id.as_str()).collect();
    let ask = |n: usize, among: usize| {
        clock.advance(std::time::Duration::from_micros(100));
        assert!(limiter.check_key(black_box(&ids[mixed(n, among)])).is_ok());
    };

    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("admission, 100,000 users", |b| b.iter(|| next(&mut gate, USERS, &mut text)));
    criterion.bench_function("send of 115 bytes", |b| b.iter(|| here.write_all(black_box(&SENT))));

    let cold = least(|| nanoseconds(|_| next(&mut gate, USERS, &mut text)));
    let warm = least(|| nanoseconds(|_| next(&mut gate, 100, &mut text)));
    let send = least(|| nanoseconds(|_| here.write_all(black_box(&SENT)).expect("sent")));
    let governor = least(|| nanoseconds(|n| ask(n, USERS)));
    let governor_warm = least(|| nanoseconds(|n| ask(n, 100)));
    println!("admission {warm:.0} ns warm, {cold:.0} ns over {USERS} users; send {send:.0} ns");
    println!("ratio to send: {:.2} warm, {:.2} cold (aim: 0.40 warm)", warm / send, cold / send);
    let mut bucket = bucket_alone();
    let mut taken = 0;
    let mut take = |among: usize| {
        taken += 1;
        assert!(take_token(&mut bucket, black_box(&users[mixed(taken, among)]), taken), "there are tokens");
    };
    let own = least(|| nanoseconds(|_| take(USERS)));
    let own_warm = least(|| nanoseconds(|_| take(100)));
    println!("the bucket alone: {own_warm:.0} ns warm, {own:.0} ns over {USERS} users");
    println!("governor, the bucket alone: {governor_warm:.0} ns warm, {governor:.0} ns over {USERS} users");
    drop(here);
    let _ = reader.join();
}
