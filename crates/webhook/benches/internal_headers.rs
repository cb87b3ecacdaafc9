//! Taking internal headers out of a request: the set of this crate against a loop that removes each name,
//! and against a trie and hash sets that are asked once for each header. 119 internal names; requests of
//! 10, 20 and 30 headers with 0, 1 or 3 internal ones among them.
//!
//! `strip` is the whole step on a `HeaderMap` (made anew for each turn, outside the time); `find` only asks.
//! The tables show medians in nanoseconds, and how many times as fast each is as the loop and as the fastest of
//! the hash sets.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion};
use danmaku_webhook::Names;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use trie_hard::TrieHard;

/// Two lists: what a front proxy adds for itself, and what services behind it say to each other.
const AREAS: [&str; 7] = ["x-internal", "x-edge", "x-danmaku", "x-auth", "x-upstream", "x-debug", "proxy"];
const THINGS: [&str; 17] = [
    "user",
    "user-id",
    "role",
    "scopes",
    "token",
    "session",
    "tenant",
    "region",
    "colo",
    "trace",
    "request-id",
    "ray",
    "cache-status",
    "features",
    "experiment",
    "client-cert",
    "bypass",
];

/// The same names for the set that is made while compiling.
static PERFECT: phf::Set<&'static str> = phf::phf_set! {
   "x-internal-user", "x-internal-user-id", "x-internal-role", "x-internal-scopes", "x-internal-token", "x-internal-session", "x-internal-tenant", "x-internal-region", "x-internal-colo", "x-internal-trace", "x-internal-request-id", "x-internal-ray", "x-internal-cache-status", "x-internal-features", "x-internal-experiment", "x-internal-client-cert", "x-internal-bypass",
   "x-edge-user", "x-edge-user-id", "x-edge-role", "x-edge-scopes", "x-edge-token", "x-edge-session", "x-edge-tenant", "x-edge-region", "x-edge-colo", "x-edge-trace", "x-edge-request-id", "x-edge-ray", "x-edge-cache-status", "x-edge-features", "x-edge-experiment", "x-edge-client-cert", "x-edge-bypass",
   "x-danmaku-user", "x-danmaku-user-id", "x-danmaku-role", "x-danmaku-scopes", "x-danmaku-token", "x-danmaku-session", "x-danmaku-tenant", "x-danmaku-region", "x-danmaku-colo", "x-danmaku-trace", "x-danmaku-request-id", "x-danmaku-ray", "x-danmaku-cache-status", "x-danmaku-features", "x-danmaku-experiment", "x-danmaku-client-cert", "x-danmaku-bypass",
   "x-auth-user", "x-auth-user-id", "x-auth-role", "x-auth-scopes", "x-auth-token", "x-auth-session", "x-auth-tenant", "x-auth-region", "x-auth-colo", "x-auth-trace", "x-auth-request-id", "x-auth-ray", "x-auth-cache-status", "x-auth-features", "x-auth-experiment", "x-auth-client-cert", "x-auth-bypass",
   "x-upstream-user", "x-upstream-user-id", "x-upstream-role", "x-upstream-scopes", "x-upstream-token", "x-upstream-session", "x-upstream-tenant", "x-upstream-region", "x-upstream-colo", "x-upstream-trace", "x-upstream-request-id", "x-upstream-ray", "x-upstream-cache-status", "x-upstream-features", "x-upstream-experiment", "x-upstream-client-cert", "x-upstream-bypass",
   "x-debug-user", "x-debug-user-id", "x-debug-role", "x-debug-scopes", "x-debug-token", "x-debug-session", "x-debug-tenant", "x-debug-region", "x-debug-colo", "x-debug-trace", "x-debug-request-id", "x-debug-ray", "x-debug-cache-status", "x-debug-features", "x-debug-experiment", "x-debug-client-cert", "x-debug-bypass",
   "proxy-user", "proxy-user-id", "proxy-role", "proxy-scopes", "proxy-token", "proxy-session", "proxy-tenant", "proxy-region", "proxy-colo", "proxy-trace", "proxy-request-id", "proxy-ray", "proxy-cache-status", "proxy-features", "proxy-experiment", "proxy-client-cert", "proxy-bypass",
};

/// As browsers and proxies in front of the server send them.
const REQUEST: [&str; 30] = [
    "host",
    "connection",
    "upgrade",
    "user-agent",
    "accept",
    "accept-encoding",
    "accept-language",
    "cookie",
    "origin",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
    "sec-websocket-protocol",
    "cache-control",
    "pragma",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-real-ip",
    "authorization",
    "referer",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-dest",
    "x-request-id",
    "dnt",
    "traceparent",
    "tracestate",
    "x-device-id",
    "x-app-version",
    "x-client-locale",
];
const PLANTED: [&str; 3] = ["x-internal-user-id", "x-auth-scopes", "x-debug-bypass"];

fn request(headers: usize, planted: usize) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(2 * headers);
    for name in REQUEST[..headers - planted].iter().chain(&PLANTED[..planted]) {
        map.insert(HeaderName::from_static(name), HeaderValue::from_static("some value of a usual length"));
    }
    map
}

/// One way to know the internal names.
trait Matcher {
    fn has(&self, name: &str) -> bool;

    fn strip(&self, headers: &mut HeaderMap) -> usize {
        let found: Vec<HeaderName> = headers.keys().filter(|name| self.has(name.as_str())).cloned().collect();
        for name in &found {
            headers.remove(name);
        }
        found.len()
    }
}

struct Loop(Vec<HeaderName>);

impl Matcher for Loop {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    fn strip(&self, headers: &mut HeaderMap) -> usize {
        self.0.iter().filter(|name| headers.remove(*name).is_some()).count()
    }
}

impl Matcher for Names {
    /// Reads `_` as `-` too, which none of the others does.
    fn has(&self, name: &str) -> bool {
        self.has_in_any_spelling(name)
    }

    fn strip(&self, headers: &mut HeaderMap) -> usize {
        Names::strip(self, headers)
    }
}

impl Matcher for TrieHard<'static, &'static str> {
    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

impl<S: BuildHasher> Matcher for HashSet<&'static str, S> {
    fn has(&self, name: &str) -> bool {
        self.contains(name)
    }
}

impl Matcher for &'static phf::Set<&'static str> {
    fn has(&self, name: &str) -> bool {
        self.contains(name)
    }
}

fn main() {
    let names: Vec<&'static str> = PERFECT.iter().copied().collect();
    let own: HashSet<String> =
        AREAS.iter().flat_map(|area| THINGS.map(|thing| format!("{area}-{thing}"))).collect();
    assert!(names.len() == own.len() && names.iter().all(|name| own.contains(*name)));
    let trie: TrieHard<'static, &'static str> = names.iter().copied().collect();
    let set = names.iter().copied();
    let matchers: [(&'static str, Box<dyn Measured>); 7] = [
        (
            "remove-each loop",
            Box::new(Loop(names.iter().map(|name| HeaderName::from_static(name)).collect())),
        ),
        ("SipHash (std) set", Box::new(set.clone().collect::<HashSet<&'static str>>())),
        ("ahash set", Box::new(set.clone().collect::<HashSet<&'static str, ahash::RandomState>>())),
        (
            "foldhash set",
            Box::new(set.clone().collect::<HashSet<&'static str, foldhash::fast::RandomState>>()),
        ),
        ("phf set", Box::new(&PERFECT)),
        ("trie-hard", Box::new(trie)),
        ("danmaku Names", Box::new(Names::new(set).expect("names"))),
    ];
    let mut criterion = Criterion::default()
        .configure_from_args()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    println!("| work | headers | internal among them | matcher | ns | of the loop | of the fastest hash |");
    println!("| --- | ---: | ---: | --- | ---: | ---: | ---: |");
    for shape in [(10, 0), (20, 0), (20, 1), (30, 0), (30, 3)] {
        for (name, matcher) in &matchers {
            matcher.criterion(&mut criterion, name, shape);
        }
        print_table(shape, &matchers);
    }
    criterion.final_summary();
}

/// A matcher behind a pointer that is followed once for many turns.
trait Measured {
    fn criterion(&self, criterion: &mut Criterion, name: &str, shape: (usize, usize));
    /// Nanoseconds of one turn with removing.
    fn strip_round(&self, request: &HeaderMap) -> f64;
    /// Nanoseconds of one turn without.
    fn find_round(&self, request: &HeaderMap) -> f64;
}

impl<M: Matcher> Measured for M {
    fn criterion(&self, criterion: &mut Criterion, name: &str, (headers, planted): (usize, usize)) {
        let request = request(headers, planted);
        assert_eq!(self.strip(&mut request.clone()), planted, "{name}");
        assert_eq!(request.keys().filter(|header| self.has(header.as_str())).count(), planted, "{name}");
        let mut group = criterion.benchmark_group("strip");
        group.bench_function(BenchmarkId::new(name, format!("{headers} with {planted}")), |bencher| {
            bencher.iter_batched_ref(
                || request.clone(),
                |map| self.strip(black_box(map)),
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }

    fn strip_round(&self, request: &HeaderMap) -> f64 {
        let mut maps: Vec<HeaderMap> = (0..64).map(|_| request.clone()).collect();
        let started = Instant::now();
        for map in &mut maps {
            black_box(self.strip(black_box(map)));
        }
        started.elapsed().as_nanos() as f64 / maps.len() as f64
    }

    fn find_round(&self, request: &HeaderMap) -> f64 {
        let started = Instant::now();
        for _ in 0..256 {
            let found = black_box(request).keys().filter(|name| self.has(name.as_str())).count();
            black_box(found);
        }
        started.elapsed().as_nanos() as f64 / 256.0
    }
}

/// One turn of a matcher, in nanoseconds.
type Round = fn(&dyn Measured, &HeaderMap) -> f64;

/// Criterion keeps its medians to itself and measures one after the other; these rounds alternate, so that
/// a busy machine is busy for all.
fn print_table((headers, planted): (usize, usize), matchers: &[(&str, Box<dyn Measured>)]) {
    let request = request(headers, planted);
    let works: [(&str, Round); 2] = [
        ("strip", |matcher, request| matcher.strip_round(request)),
        ("find", |matcher, request| matcher.find_round(request)),
    ];
    for (work, round) in works {
        let mut rounds = vec![Vec::new(); matchers.len()];
        for _ in 0..301 {
            for ((_, matcher), rounds) in matchers.iter().zip(&mut rounds) {
                rounds.push(round(&**matcher, &request));
            }
        }
        let medians: Vec<f64> = rounds.into_iter().map(median).collect();
        let fastest_hash = matchers.iter().zip(&medians).filter(|((name, _), _)| name.ends_with("set"));
        let fastest_hash = fastest_hash.map(|(_, median)| *median).fold(f64::INFINITY, f64::min);
        for ((name, _), median) in matchers.iter().zip(&medians) {
            let (of_loop, of_hash) = (medians[0] / median, fastest_hash / median);
            println!(
                "| {work} | {headers} | {planted} | {name} | {median:.0} | {of_loop:.1} × | {of_hash:.2} × |"
            );
        }
    }
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
