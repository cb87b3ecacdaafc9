//! The arena decoder against prost's owned types, and the JSON decoder beside them, on one fixed mix.
//!
//! `cargo bench -p danmaku-wire --bench decode` prints criterion's figures, then the ratios. All three
//! run in one process under one allocator; prost pays for the strings it owns and for dropping them,
//! which is the difference that is measured.

use std::hint::black_box;
use std::time::Instant;

use bumpalo::Bump;
use criterion::{Criterion, Throughput};
use danmaku_wire::native::proto::client_message::Command as Wire;
use danmaku_wire::native::{arena, json, proto};
use prost::Message;

/// Publishes in the mix.
const MESSAGES: usize = 1_000;
/// Passes over the mix by each decoder, for the ratio.
const PASSES: usize = 2_000;

/// A small generator with a fixed seed: the mix is the same on every machine.
struct Draw(u64);

impl Draw {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// 92 % of the texts up to 128 bytes, 7 % up to 512, 1 % up to 4,096; Chinese and English in halves.
fn mix() -> Vec<proto::Send> {
    const CHINESE: &str = "前方高能非战斗人员请迅速撤离哈哈哈这个主播太厉害了吧完全没想到";
    const ENGLISH: &str = "this is what a viewer types when something happens on the stream ";
    let chinese: Vec<char> = CHINESE.chars().collect();
    let mut draw = Draw(42);
    (0..MESSAGES)
        .map(|n| {
            let (least, most) = match draw.below(100) {
                0..92 => (3, 128),
                92..99 => (129, 512),
                _ => (513, 4_096),
            };
            let bytes = least + draw.below(most - least + 1);
            let mut text = String::new();
            while text.len() + 3 <= bytes.max(3) {
                match n % 2 {
                    0 => text.push(chinese[draw.below(chinese.len())]),
                    _ => text.push(char::from(ENGLISH.as_bytes()[text.len() % ENGLISH.len()])),
                }
            }
            proto::Send {
                id: format!("k7x2-{n}"),
                text,
                mode: i32::from(draw.below(10) == 0),
                color: (draw.below(4) == 0).then(|| draw.below(1 << 24) as u32),
                size: 0,
                stream_ms: (draw.below(2) == 0).then(|| draw.below(7_200_000) as u64),
                traceparent: String::new(),
            }
        })
        .collect()
}

fn to_json(send: &proto::Send) -> String {
    let mut fields = serde_json::json!({ "id": send.id, "text": send.text });
    if send.mode != 0 {
        fields["mode"] = "top".into();
    }
    if let Some(color) = send.color {
        fields["color"] = color.into();
    }
    if let Some(stream_ms) = send.stream_ms {
        fields["streamMs"] = stream_ms.into();
    }
    serde_json::json!({ "send": fields }).to_string()
}

fn decode_arena(messages: &[Vec<u8>], arena: &mut Bump) {
    for message in messages {
        black_box(arena::decode(black_box(message), arena)).expect("valid");
        arena.reset();
    }
}

fn decode_prost(messages: &[Vec<u8>]) {
    for message in messages {
        drop(black_box(proto::ClientMessage::decode(black_box(message.as_slice())).expect("valid")));
    }
}

fn decode_json(messages: &[String], arena: &mut Bump) {
    for message in messages {
        black_box(json::decode(black_box(message), arena)).expect("valid");
        arena.reset();
    }
}

/// Nanoseconds a message of one pass over the mix.
fn pass(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e9 / MESSAGES as f64
}

/// The fastest pass, the median and the slowest but for one in twenty.
fn spread(mut passes: Vec<f64>) -> [f64; 3] {
    passes.sort_by(f64::total_cmp);
    [0, 50, 95].map(|percent| passes[(passes.len() - 1) * percent / 100])
}

fn main() {
    let sends = mix();
    let texts: Vec<String> = sends.iter().map(to_json).collect();
    let messages: Vec<Vec<u8>> = sends
        .into_iter()
        .map(|send| proto::ClientMessage { command: Some(Wire::Send(send)) }.encode_to_vec())
        .collect();
    let mut arena = Bump::with_capacity(64 << 10);

    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(MESSAGES as u64));
    group.bench_function("arena", |b| b.iter(|| decode_arena(&messages, &mut arena)));
    group.bench_function("prost", |b| b.iter(|| decode_prost(&messages)));
    group.bench_function("json", |b| b.iter(|| decode_json(&texts, &mut arena)));
    group.finish();
    criterion.final_summary();

    // Short alternating passes: the fastest of many fits between two interruptions, however busy the
    // machine is, and whatever slows one side down meets the other as well.
    let mut passes = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..PASSES {
        passes[0].push(pass(|| decode_arena(&messages, &mut arena)));
        passes[1].push(pass(|| decode_prost(&messages)));
        passes[2].push(pass(|| decode_json(&texts, &mut arena)));
    }
    let [in_arena, owned, in_json] = passes.map(spread);
    for (name, [fastest, median, slow]) in [("arena", in_arena), ("prost", owned), ("json", in_json)] {
        println!("{name:6} ns a message: fastest {fastest:.1}, median {median:.1}, 95 % {slow:.1}");
    }
    println!("prost / arena: fastest {:.2}, median {:.2}", owned[0] / in_arena[0], owned[1] / in_arena[1]);
}
