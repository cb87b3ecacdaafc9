//! One comment against 100,000 words, and the automaton against the one that was not taken.
//!
//! Comments have 40 characters, half of them Chinese, half English, none with a word of the list in it;
//! the list is as mixed. Words and comments are drawn from the same common characters and syllables, so
//! that the automaton walks deep before it turns back. Every 64th comment is the same again: caches are
//! warm for the list's common letters and cold for the rest, as on a busy server.

use std::hint::black_box;
use std::time::Instant;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use criterion::{Criterion, Throughput};
use daachorse::CharwiseDoubleArrayAhoCorasick;
use danmaku_words::{ListOptions, Normaliser, Profile, Screen, Verdict, Watch, WordList};

const WORDS: usize = 100_000;
const COMMENTS: usize = 64;
const CHARACTERS: usize = 40;

/// A linear congruential generator (Knuth's constants): the same list in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// A common character: low numbers are drawn more often, as they are in a language.
    fn han(&mut self) -> char {
        let rank = self.below(3_000) * self.below(3_000) / 3_000;
        // Spread over the block as common characters are.
        char::from_u32(0x4e00 + (rank * 6) as u32).expect("in the block")
    }

    fn latin(&mut self, letters: usize) -> String {
        const SYLLABLES: [&str; 32] = [
            "th", "er", "on", "an", "re", "he", "in", "ed", "nd", "ha", "at", "en", "es", "of", "or", "nt",
            "ea", "ti", "to", "it", "st", "io", "le", "is", "ou", "ar", "as", "de", "rt", "ve", "co", "me",
        ];
        let mut word = String::new();
        while word.len() < letters {
            word.push_str(SYLLABLES[self.below(SYLLABLES.len())]);
        }
        word.truncate(letters);
        word
    }
}

fn words(draw: &mut Draw) -> Vec<String> {
    let mut words = std::collections::BTreeSet::new();
    while words.len() < WORDS {
        let word = if words.len() % 2 == 0 {
            let letters = 3 + draw.below(4);
            (0..letters).map(|_| draw.han()).collect()
        } else {
            let letters = 7 + draw.below(7);
            draw.latin(letters)
        };
        words.insert(word);
    }
    words.into_iter().collect()
}

fn chinese(draw: &mut Draw) -> String {
    (0..CHARACTERS).map(|at| if at % 13 == 12 { '，' } else { draw.han() }).collect()
}

fn english(draw: &mut Draw) -> String {
    let mut text = String::new();
    while text.len() < CHARACTERS {
        let letters = 2 + draw.below(7);
        text += &draw.latin(letters);
        text.push(' ');
    }
    text.truncate(CHARACTERS);
    text
}

/// Comments in which the list finds nothing.
fn comments(draw: &mut Draw, list: &WordList, make: fn(&mut Draw) -> String) -> Vec<String> {
    let mut screen = Screen::default();
    let mut made = Vec::new();
    while made.len() < COMMENTS {
        let comment = make(draw);
        if screen.screen(&comment, &[Watch::enforce(list)]) == Ok(Verdict::Pass) {
            made.push(comment);
        }
    }
    made
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let made = work();
    println!("{what}: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    made
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut draw = Draw(7);
    let words = words(&mut draw);
    let lines = words.join("\n");
    timed("tables, once a process", || {
        Normaliser::default().normalise("a", Profile::Strict).map(str::len).ok()
    });
    let options = ListOptions::default();
    let list = timed("list compiled", || WordList::compile(&options, &lines).expect("a list"));
    let with_patterns =
        WordList::compile(&options, &format!("{lines}\n!link\n!email\n!phone\n!contact")).expect("a list");
    let room = WordList::compile(&options, &words[..200].join("\n")).expect("a list");
    println!("list: {} words, {:.1} MB", list.len(), list.heap_bytes() as f64 / 1e6);

    let sets =
        [("chinese", comments(&mut draw, &list, chinese)), ("english", comments(&mut draw, &list, english))];
    let mut group = criterion.benchmark_group("screen");
    group.throughput(Throughput::Elements(COMMENTS as u64));
    for (name, set) in &sets {
        let cases: [(&str, Vec<Watch<'_>>); 3] = [
            ("words", vec![Watch::enforce(&list)]),
            ("words+room", vec![Watch::enforce(&list), Watch::enforce(&room)]),
            ("words+patterns", vec![Watch::enforce(&with_patterns)]),
        ];
        for (lists, watches) in cases {
            let mut screen = Screen::default();
            group.bench_function(format!("{name}/{lists}"), |bench| {
                bench.iter(|| {
                    for comment in set {
                        black_box(screen.screen(black_box(comment), &watches)).expect("short");
                    }
                });
            });
        }
        let mut normaliser = Normaliser::default();
        group.bench_function(format!("{name}/normal form alone"), |bench| {
            bench.iter(|| {
                for comment in set {
                    black_box(normaliser.normalise(black_box(comment), Profile::Strict)).expect("short");
                }
            });
        });
    }
    group.finish();
    automata(&mut criterion, &words, &sets);
    criterion.final_summary();
}

/// The scan alone, over what the normaliser leaves.
fn automata(criterion: &mut Criterion, words: &[String], sets: &[(&str, Vec<String>)]) {
    let daachorse =
        timed("daachorse built", || CharwiseDoubleArrayAhoCorasick::<u32>::new(words).expect("fits"));
    println!("daachorse: {:.1} MB", daachorse.heap_bytes() as f64 / 1e6);
    let contiguous = timed("aho-corasick contiguous NFA built", || {
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::Standard).kind(Some(AhoCorasickKind::ContiguousNFA));
        builder.build(words).expect("fits")
    });
    println!("aho-corasick: {:.1} MB", contiguous.memory_usage() as f64 / 1e6);
    let mut group = criterion.benchmark_group("scan");
    group.throughput(Throughput::Elements(COMMENTS as u64));
    for (name, set) in sets {
        let bare: Vec<String> =
            set.iter().map(|comment| comment.chars().filter(|c| c.is_alphanumeric()).collect()).collect();
        group.bench_function(format!("{name}/daachorse"), |bench| {
            bench.iter(|| {
                bare.iter()
                    .map(|text| daachorse.find_overlapping_iter(black_box(text)).count())
                    .sum::<usize>()
            });
        });
        group.bench_function(format!("{name}/aho-corasick"), |bench| {
            bench.iter(|| {
                bare.iter()
                    .map(|text| contiguous.find_overlapping_iter(black_box(text)).count())
                    .sum::<usize>()
            });
        });
    }
    group.finish();
}
