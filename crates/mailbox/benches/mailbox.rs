//! The mailbox against a tokio channel, a crossbeam channel and a locked deque, in one run: 1, 2 and 4
//! producers push messages of 48 bytes to one consumer.
//!
//! Everyone plays by the same rules: room for 65,536 messages; a producer that finds none yields its
//! core and tries again; a consumer that finds nothing sleeps until a push wakes it. The time runs from
//! the start of the producers to the last message taken. The table at the end shows medians.
#![cfg(not(loom))]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use danmaku_mailbox::{Bounds, Message, Receiver, Sender, Wake, mailbox};

const SLOTS: usize = 65_536;
const PRODUCERS: [usize; 3] = [1, 2, 4];
/// Per iteration, over all producers: several times round the ring.
const MESSAGES: u64 = 400_000;

/// 48 bytes.
type Item = [u64; 6];

/// One way to hand items from many threads to one.
trait Channel {
    const NAME: &'static str;
    type Sender: Clone + Send;
    type Receiver;

    /// Made on the thread that receives.
    fn open() -> (Self::Sender, Self::Receiver);
    /// False when there is no room.
    fn try_send(sender: &Self::Sender, item: Item) -> bool;
    /// Waits for the next item.
    fn receive(receiver: &mut Self::Receiver) -> Item;
}

struct Ours;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(&self) {
        self.0.unpark();
    }
}

impl Channel for Ours {
    const NAME: &'static str = "danmaku-mailbox";
    type Sender = Sender<Item, Item, Unpark>;
    type Receiver = Receiver<Item, Item, Unpark>;

    fn open() -> (Self::Sender, Self::Receiver) {
        let few = Bounds { slots: 1024, bytes_max: 1 << 20, age_max_us: 1_000_000 };
        let many = Bounds { slots: SLOTS, bytes_max: 64 << 20, age_max_us: 1_000_000 };
        mailbox(few, few, many, Unpark(thread::current()))
    }

    fn try_send(sender: &Self::Sender, item: Item) -> bool {
        sender.normal(item, size_of::<Item>(), 1).is_ok()
    }

    fn receive(receiver: &mut Self::Receiver) -> Item {
        loop {
            match receiver.pop() {
                Some(Message::Control(item) | Message::Vip(item) | Message::Normal(item)) => return item,
                None if receiver.prepare_sleep() => {
                    thread::park();
                    receiver.awake();
                }
                None => {}
            }
        }
    }
}

struct Tokio;

impl Channel for Tokio {
    const NAME: &'static str = "tokio mpsc";
    type Sender = tokio::sync::mpsc::Sender<Item>;
    type Receiver = tokio::sync::mpsc::Receiver<Item>;

    fn open() -> (Self::Sender, Self::Receiver) {
        tokio::sync::mpsc::channel(SLOTS)
    }

    fn try_send(sender: &Self::Sender, item: Item) -> bool {
        sender.try_send(item).is_ok()
    }

    fn receive(receiver: &mut Self::Receiver) -> Item {
        receiver.blocking_recv().expect("a sender is alive")
    }
}

struct Crossbeam;

impl Channel for Crossbeam {
    const NAME: &'static str = "crossbeam-channel";
    type Sender = crossbeam_channel::Sender<Item>;
    type Receiver = crossbeam_channel::Receiver<Item>;

    fn open() -> (Self::Sender, Self::Receiver) {
        crossbeam_channel::bounded(SLOTS)
    }

    fn try_send(sender: &Self::Sender, item: Item) -> bool {
        sender.try_send(item).is_ok()
    }

    fn receive(receiver: &mut Self::Receiver) -> Item {
        receiver.recv().expect("a sender is alive")
    }
}

struct Locked;

type LockedDeque = Arc<(Mutex<VecDeque<Item>>, Condvar)>;

impl Channel for Locked {
    const NAME: &'static str = "Mutex<VecDeque> + Condvar";
    type Sender = LockedDeque;
    type Receiver = LockedDeque;

    fn open() -> (Self::Sender, Self::Receiver) {
        let deque = LockedDeque::new((Mutex::new(VecDeque::with_capacity(SLOTS)), Condvar::new()));
        (Arc::clone(&deque), deque)
    }

    fn try_send(sender: &Self::Sender, item: Item) -> bool {
        let mut items = sender.0.lock().expect("nobody panics while holding it");
        let fits = items.len() < SLOTS;
        if fits {
            items.push_back(item);
            // std's condition variable makes no system call when nobody waits.
            sender.1.notify_one();
        }
        fits
    }

    fn receive(receiver: &mut Self::Receiver) -> Item {
        let mut items = receiver.0.lock().expect("nobody panics while holding it");
        loop {
            match items.pop_front() {
                Some(item) => return item,
                None => items = receiver.1.wait(items).expect("nobody panics while holding it"),
            }
        }
    }
}

/// Hands over `MESSAGES` and returns how long it took.
fn run<C: Channel>(producers: usize) -> Duration {
    let (sender, mut receiver) = C::open();
    let share = MESSAGES / producers as u64;
    let start = Barrier::new(producers + 1);
    thread::scope(|scope| {
        for _ in 0..producers {
            let (sender, start) = (sender.clone(), &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..share {
                    while !C::try_send(&sender, [number; 6]) {
                        thread::yield_now();
                    }
                }
            });
        }
        start.wait();
        let began = Instant::now();
        let mut sum = 0;
        for _ in 0..share * producers as u64 {
            sum += C::receive(&mut receiver)[5];
        }
        let took = began.elapsed();
        assert_eq!(sum, producers as u64 * (share * (share - 1) / 2), "every message once");
        took
    })
}

/// Nanoseconds per message of each sample.
type Samples = RefCell<Vec<(&'static str, usize, Vec<f64>)>>;

fn measure<C: Channel>(criterion: &mut Criterion, samples: &Samples) {
    for producers in PRODUCERS {
        let mut took_ns = Vec::new();
        let mut group = criterion.benchmark_group("mailbox");
        group.throughput(Throughput::Elements(MESSAGES));
        group.bench_function(BenchmarkId::new(C::NAME, producers), |bencher| {
            bencher.iter_custom(|iterations| {
                let rounds = (0..iterations).map(|_| run::<C>(producers));
                rounds.inspect(|took| took_ns.push(took.as_nanos() as f64 / MESSAGES as f64)).sum()
            });
        });
        group.finish();
        samples.borrow_mut().push((C::NAME, producers, took_ns));
    }
}

fn print_table(samples: &Samples) {
    println!("\nns per message: median (best .. worst)");
    println!("{:<26} {:>9} {:>9} {:>22}", "", "producers", "median", "best .. worst");
    for (name, producers, took_ns) in samples.borrow_mut().iter_mut() {
        took_ns.sort_by(f64::total_cmp);
        let (Some(best), Some(worst)) = (took_ns.first(), took_ns.last()) else { continue };
        let median = took_ns[took_ns.len() / 2];
        println!("{name:<26} {producers:>9} {median:>9.1} {:>22}", format!("{best:.1} .. {worst:.1}"));
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let samples = Samples::default();
    measure::<Ours>(&mut criterion, &samples);
    measure::<Tokio>(&mut criterion, &samples);
    measure::<Crossbeam>(&mut criterion, &samples);
    measure::<Locked>(&mut criterion, &samples);
    print_table(&samples);
    criterion.final_summary();
}
