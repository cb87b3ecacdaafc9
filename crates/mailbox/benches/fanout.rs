//! `fanout_channels`: a ring with cursors against one channel per connection, in process, without a
//! socket: what the shape of the fan-out alone costs.
//!
//! 1,000 subscribers, batches of 32 messages of 120 bytes. *Channels*: a bounded `tokio::sync::mpsc` per
//! subscriber; the publisher clones an `Arc` of each message into every one, and each subscriber drains
//! its own. *Ring*: one deque of messages and a cursor per subscriber; a pass walks the cursors. Both run
//! on one thread, deliver the same messages in the same order to every subscriber and come to the same
//! checksum. Not included, and the same for both: writing to sockets. Not included, and to the channels'
//! favour: a task per connection and its wake-ups.
#![cfg(not(loom))]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;

const SUBSCRIBERS: usize = 1_000;
const BATCH_MESSAGES: usize = 32;
const MESSAGE_BYTES: usize = 120;
const DELIVERIES: u64 = (SUBSCRIBERS * BATCH_MESSAGES) as u64;
/// Channels hold what the ring does: a batch that is published is delivered before the next.
const CAPACITY: usize = 2 * BATCH_MESSAGES;
/// Messages made before the measurement; a batch takes the next ones round and round.
const MESSAGES: usize = 1_024;
/// Batches of the comparison that is printed.
const ROUNDS: usize = 2_000;

type Message = Arc<[u8]>;

/// Delivers a batch to all subscribers; calls `delivered` after each subscriber has got all of it.
trait Fanout {
    fn publish(&mut self, batch: &[Message], delivered: impl FnMut());
    /// The sum over all subscribers of what they got.
    fn checksum(&self) -> u64;
}

/// What a delivery does with a message in place of a write: looks where it begins and how long it is.
fn deliver(sum: &mut u64, message: &[u8]) {
    let bytes = black_box(message);
    *sum = sum.rotate_left(1) ^ (u64::from(bytes[0]) << 32) ^ bytes.len() as u64;
}

struct Channels {
    senders: Vec<mpsc::Sender<Message>>,
    receivers: Vec<(mpsc::Receiver<Message>, u64)>,
}

impl Channels {
    fn new() -> Self {
        let pairs = (0..SUBSCRIBERS).map(|_| mpsc::channel(CAPACITY));
        let (senders, receivers) = pairs.map(|(sender, receiver)| (sender, (receiver, 0))).unzip();
        Self { senders, receivers }
    }
}

impl Fanout for Channels {
    fn publish(&mut self, batch: &[Message], mut delivered: impl FnMut()) {
        for message in batch {
            for sender in &self.senders {
                sender.try_send(Arc::clone(message)).expect("twice a batch fits");
            }
        }
        for (receiver, sum) in &mut self.receivers {
            while let Ok(message) = receiver.try_recv() {
                deliver(sum, &message);
            }
            delivered();
        }
    }

    fn checksum(&self) -> u64 {
        self.receivers.iter().fold(0, |all, (_, sum)| all.rotate_left(7) ^ sum)
    }
}

/// One copy of what is on its way, and a number per subscriber.
struct Ring {
    ring: VecDeque<Message>,
    /// The number of the message at the front of the ring.
    base: u64,
    /// The number of the next message of each subscriber, and its sum.
    cursors: Vec<(u64, u64)>,
}

impl Ring {
    fn new() -> Self {
        Self { ring: VecDeque::with_capacity(CAPACITY), base: 0, cursors: vec![(0, 0); SUBSCRIBERS] }
    }
}

impl Fanout for Ring {
    fn publish(&mut self, batch: &[Message], mut delivered: impl FnMut()) {
        self.ring.extend(batch.iter().cloned());
        let end = self.base + self.ring.len() as u64;
        for (cursor, sum) in &mut self.cursors {
            // The cursor is never below the base: a batch leaves the ring when all have it.
            for message in self.ring.range((*cursor - self.base) as usize..) {
                deliver(sum, message);
            }
            *cursor = end;
            delivered();
        }
        self.ring.clear();
        self.base = end;
    }

    fn checksum(&self) -> u64 {
        self.cursors.iter().fold(0, |all, (_, sum)| all.rotate_left(7) ^ sum)
    }
}

/// What a comparison run found.
struct Outcome {
    deliveries_per_s: f64,
    /// From the publish of a batch to its delivery to a subscriber.
    latency_ns: Histogram<u64>,
    checksum: u64,
}

fn messages() -> Vec<Message> {
    (0..MESSAGES).map(|n| vec![n as u8; MESSAGE_BYTES].into()).collect()
}

/// Latencies are taken in rounds of their own, since reading the clock costs more than a delivery.
fn compare(mut fanout: impl Fanout, messages: &[Message]) -> Outcome {
    let mut latency_ns = Histogram::new_with_max(10_000_000_000, 3).expect("a range that hdrhistogram has");
    let mut batches = messages.chunks_exact(BATCH_MESSAGES).cycle();
    let mut next = || batches.next().expect("a cycle has no end");
    let began = Instant::now();
    for _ in 0..ROUNDS {
        fanout.publish(next(), || {});
    }
    let took = began.elapsed();
    for _ in 0..ROUNDS / 4 {
        let published = Instant::now();
        fanout.publish(next(), || latency_ns.saturating_record(published.elapsed().as_nanos() as u64));
    }
    let deliveries_per_s = DELIVERIES as f64 * ROUNDS as f64 / took.as_secs_f64();
    Outcome { deliveries_per_s, latency_ns, checksum: fanout.checksum() }
}

fn print_comparison(messages: &[Message]) {
    // In turns, so that a machine that speeds up or slows down does not decide.
    let turns: [_; 2] =
        std::array::from_fn(|_| (compare(Channels::new(), messages), compare(Ring::new(), messages)));
    let [(first_channels, first_ring), (second_channels, second_ring)] = turns;
    let (channels, ring) = ([first_channels, second_channels], [first_ring, second_ring]);
    for outcome in channels.iter().chain(&ring) {
        assert_eq!(outcome.checksum, channels[0].checksum, "both deliver the same");
    }
    let rate = |outcomes: &[Outcome; 2]| outcomes.iter().map(|o| o.deliveries_per_s).sum::<f64>() / 2.0;
    println!("\n{SUBSCRIBERS} subscribers, batches of {BATCH_MESSAGES} × {MESSAGE_BYTES} bytes");
    println!("{:<24} {:>16} {:>12} {:>12}", "", "deliveries/s", "p50", "p99");
    for (name, outcomes) in [("channel per subscriber", &channels), ("ring and cursors", &ring)] {
        for outcome in outcomes {
            let at = |quantile| Duration::from_nanos(outcome.latency_ns.value_at_quantile(quantile));
            let (p50, p99) = (format!("{:.1?}", at(0.5)), format!("{:.1?}", at(0.99)));
            println!("{name:<24} {:>16.0} {p50:>12} {p99:>12}", outcome.deliveries_per_s);
        }
    }
    println!("ring and cursors: {:.1} times the deliveries", rate(&ring) / rate(&channels));
}

fn main() {
    let messages = messages();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let mut group = criterion.benchmark_group("fanout_channels");
    group.throughput(Throughput::Elements(DELIVERIES));
    let batch = &messages[..BATCH_MESSAGES];
    let (mut channels, mut ring) = (Channels::new(), Ring::new());
    group.bench_function("channel per subscriber", |b| b.iter(|| channels.publish(batch, || {})));
    group.bench_function("ring and cursors", |b| b.iter(|| ring.publish(batch, || {})));
    group.finish();
    print_comparison(&messages);
    criterion.final_summary();
}
