//! The display budget on the wire: what each tier is shown of a busy room, what its author sees of what is hidden, and that
//! nobody can tell a budget from a shadow ban.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/person.rs"]
mod person;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::collections::BTreeSet;

use exchange::{Exchange, post};
use person::{Person, start, token};
use raw_socket::{RawSocket, TEXT};
use serde_json::{Value, json};
use support::{Server, until};

const BUDGET: [(&str, &str); 6] = [
    // Tests try again until a second is over.
    ("WEBSOCKET__FRAMES_PER_S", "1000000"),
    ("LIMITS__DISPLAY_MODE", "enforce"),
    ("LIMITS__DISPLAY_STANDARD_PER_S", "4"),
    ("LIMITS__DISPLAY_LITE_PER_S", "2"),
    ("ROOM__SPREAD_MEMBERS", "0"),
    ("ROOM__SNAPSHOT_ENTRIES", "1000"),
];
const PROTO: &str = "Sec-WebSocket-Protocol: danmaku.v1.proto\r\n";
const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
const SAID: usize = 40;

/// The numbers of comments whose text begins with a word, out of batches and snapshots.
fn seqs(heard: &[String], word: &str) -> Vec<u64> {
    let messages = heard.iter().map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
    let items = messages.flat_map(|message| {
        ["batch", "snapshot"].into_iter().flat_map(move |kind| message[kind]["items"].as_array().cloned())
    });
    let said = |item: &Value| item["text"].as_str().is_some_and(|text| text.starts_with(word));
    items.flatten().filter(said).map(|item| item["seq"].as_u64().expect("a number")).collect()
}

fn is_sorted_once(seqs: &[u64]) -> BTreeSet<u64> {
    let set: BTreeSet<u64> = seqs.iter().copied().collect();
    assert_eq!(set.len(), seqs.len(), "each once: {seqs:?}");
    set
}

/// One author says more than the budgets have: `full` shows everything, `standard` a part, `lite` a part of that, its author
/// all of it in any tier and on another device as well, live, in snapshots and after resuming; VIPs are shown to everybody;
/// and what is hidden is counted.
#[test]
fn each_tier_shows_its_part_and_the_author_sees_its_own() {
    let server = start(&BUDGET);
    let join = |tier: &str| Person::guest(&server, &format!("r1&tier={tier}"));
    let mut tiers = ["full", "standard", "lite"].map(join);
    let mut stream = RawStream::open(&server, "r1", "");
    stream.until("snapshot");
    let mut author = Person::user(&server, "r1", "u1", &[]);
    let mut device = Person::user(&server, "r1&tier=lite", "u1", &[]);
    let ids: Vec<_> = (0..SAID).map(|n| author.sends(&format!("said {n}"))).collect();
    for id in &ids {
        let ack = author.fate(id);
        assert!(ack["seq"].is_u64() && ack["state"].is_null(), "like any other: {ack}");
    }
    let mut vip = Person::user(&server, "r1", "v1", &["--role", "vip"]);
    // A tier that has used its tokens up has one again in half a second: what VIPs have that the crowd has not is that they
    // take it before anybody.
    until("a VIP is shown", || {
        vip.says_well("by a vip");
        let fresh = Person::guest(&server, "r1&tier=lite");
        fresh.has_heard("by a vip")
    });
    vip.says_well("the end of it");
    tiers[0].hears("the end of it");
    let all = is_sorted_once(&seqs(&tiers[0].heard, "said"));
    assert_eq!(all.len(), SAID);
    // Until the mark of the last batch is covered; who is not shown it sees a batch that covers it.
    let last = seqs(&tiers[0].heard, "the end").pop().expect("shown");
    for tier in &mut tiers[1..] {
        while !covered(&tier.heard, last) {
            tier.hears("\"batch\"");
        }
    }
    let shown = tiers.each_ref().map(|tier| is_sorted_once(&seqs(&tier.heard, "said")));
    let [_, standard, lite] = &shown;
    assert!(standard.is_subset(&all) && lite.is_subset(standard), "{shown:?}");
    assert!(
        (1..SAID / 2).contains(&standard.len()) && (1..=standard.len()).contains(&lite.len()),
        "{shown:?}"
    );
    for own in [&mut author, &mut device] {
        while !covered(&own.heard, last) || seqs(&own.heard, "said").len() < SAID {
            own.hears("\"batch\"");
        }
        assert_eq!(is_sorted_once(&seqs(&own.heard, "said")), all);
    }
    let streamed = is_sorted_once(&seqs(&stream.messages_until(last), "said"));
    assert_eq!(&streamed, standard, "an event stream is of the same tier");
    // Those who come later.
    for (tier, want) in [("full", &all), ("standard", standard), ("lite", lite)] {
        let late = join(tier);
        let got = is_sorted_once(&seqs(&late.heard, "said"));
        assert_eq!(&got, want, "{tier}");
    }
    let back = Person::user(&server, "r1", "u1", &[]);
    assert_eq!(is_sorted_once(&seqs(&back.heard, "said")), all, "its own snapshot");
    // Who changes to another tier gets that from there on.
    let mut changing = join("lite");
    changing.socket.say(r#"{"view":{"tier":"full"}}"#);
    let ids: Vec<_> = (0..SAID).map(|n| author.sends(&format!("more {n}"))).collect();
    ids.iter().for_each(|id| assert!(author.fate(id)["seq"].is_u64()));
    while seqs(&changing.heard, "more").len() < SAID {
        changing.hears("\"batch\"");
    }
    let hidden = |tier: &str| server.metric(&format!("danmaku_hidden_{tier}_total"));
    until("it is counted", || hidden("standard") >= (all.len() - standard.len()) as u64);
    assert!(hidden("lite") >= hidden("standard"));
    assert_eq!(server.metric("danmaku_hidden_standard_observed_total"), 0);
}

fn covered(heard: &[String], seq: u64) -> bool {
    heard.iter().any(|text| {
        let message: Value = serde_json::from_str(text).expect("JSON");
        message["batch"]["to"].as_u64().is_some_and(|to| to >= seq)
    })
}

/// A budget that observes hides nothing, and counts what it would hide; without one nothing is counted.
#[test]
fn a_budget_that_observes_hides_nothing() {
    for (mode, counts) in [("observe", true), ("off", false)] {
        let settings = [BUDGET[2], BUDGET[3], ("LIMITS__DISPLAY_MODE", mode)];
        let server = start(&settings);
        let mut viewer = Person::guest(&server, "r1&tier=lite");
        let mut author = Person::guest(&server, "r1");
        let ids: Vec<_> = (0..SAID).map(|n| author.sends(&format!("said {n}"))).collect();
        ids.iter().for_each(|id| assert!(author.fate(id)["seq"].is_u64()));
        while seqs(&viewer.heard, "said").len() < SAID {
            viewer.hears("\"batch\"");
        }
        let observed = || server.metric("danmaku_hidden_lite_observed_total") > 0;
        if counts {
            until("it is counted", observed);
        } else {
            assert!(!observed());
        }
        assert_eq!(server.metric("danmaku_hidden_lite_total"), 0);
    }
}

/// All of a busy room is for those on this machine and for staff, at the beginning and later.
#[test]
fn all_of_a_room_is_for_staff_and_this_machine() {
    let server = start(&[("SERVER__TRUSTED_PROXIES", r#"["127.0.0.1"]"#)]);
    let far = "X-Forwarded-For: 203.0.113.7\r\n";
    let mut stranger = Person::with(&server, "r1", far);
    stranger.socket.say(r#"{"view":{"tier":"full"}}"#);
    assert_eq!(stranger.hears("\"error\"")["error"]["code"], "forbidden");
    stranger.socket.say(r#"{"view":{"tier":"lite"}}"#);
    let staff = token("s1", &["--role", "staff", "--global"]);
    let mut staff = Person::with(&server, "r1", &format!("{far}Authorization: Bearer {staff}\r\n"));
    let mut near = Person::guest(&server, "r1");
    for person in [&mut staff, &mut near, &mut stranger] {
        person.socket.say(r#"{"view":{"tier":"full"}}"#);
        person.socket.say(r#"{"ping":{"t":1}}"#);
        person.hears("\"pong\"");
    }
    assert!(!staff.has_heard("forbidden") && !near.has_heard("forbidden"));
    let told = |heard: &[String]| heard.iter().filter(|text| text.contains("forbidden")).count();
    assert_eq!(told(&stranger.heard), 2);
}

/// Whoever is shadow-banned and whoever the budget hides are told the same in the same form, byte for byte but for numbers
/// and times; and neither is found on any surface of anybody else: both encodings, compressed or not, event streams,
/// snapshots in the socket and over HTTP, and what is resumed.
#[test]
fn a_budget_and_a_shadow_ban_cannot_be_told_apart() {
    let server = start(&[
        BUDGET[0],
        BUDGET[1],
        BUDGET[4],
        ("LIMITS__DISPLAY_STANDARD_PER_S", "1"),
        ("LIMITS__DISPLAY_LITE_PER_S", "1"),
    ]);
    let key = server.new_key("moderation", &["r1"]);
    let order = post(
        "/api/v1/rooms/r1/shadow-bans",
        &format!("Authorization: Bearer {key}\r\n"),
        &json!({"user": "u1"}).to_string(),
    );
    until("it is ordered", || Exchange::new(server.address).send(&order).answer().status < 300);
    let mut others: Vec<_> =
        ["", PROTO, DEFLATE].map(|kind| RawSocket::join(server.address, "r1", kind)).into();
    let mut stream = RawStream::open(&server, "r1", "");
    stream.until("snapshot");
    let first = Person::guest(&server, "r1");
    let epoch = serde_json::from_str::<Value>(&first.heard[0]).expect("JSON")["joined"]["epoch"].take();
    let since = format!("r1&since={}:0", epoch.as_str().expect("an epoch"));

    let (mut banned, mut crowd) =
        (Person::user(&server, "r1", "u1", &[]), Person::user(&server, "r1", "u2", &[]));
    banned.says_well("unseen one");
    // The crowd's first ones may be shown; what comes right behind them is not.
    let mut standard = Person::guest(&server, "r1");
    let mut tried = 0..20;
    let unseen = tried.find_map(|n| {
        let text = format!("perhaps {n}");
        let seq = crowd.says_well(&text);
        while !covered(&standard.heard, seq) {
            standard.hears("\"batch\"");
        }
        (!standard.has_heard(&text)).then_some(text)
    });
    let unseen = unseen.expect("a budget of one in a second hides one of twenty");

    for word in ["unseen one", unseen.as_str()] {
        let quoted = format!("\"{word}\"");
        assert!(!standard.has_heard(&quoted));
    }
    let shape = |person: &mut Person, text: &str| {
        let quoted = format!("\"text\":\"{text}\"");
        while !person.has_heard(&quoted) {
            person.hears("\"batch\"");
        }
        let batch = person.heard.iter().find(|heard| heard.contains(&quoted)).expect("heard").clone();
        let mut value: Value = serde_json::from_str(&batch).expect("JSON");
        let seq = value["batch"]["from"].clone();
        assert_eq!((&value["batch"]["to"], &value["batch"]["items"][0]["seq"]), (&seq, &seq), "{batch}");
        for field in ["seq", "at", "text"] {
            value["batch"]["items"][0][field] = Value::Null;
        }
        value["batch"]["items"][0]["user"]["id"] = Value::Null;
        for field in ["from", "to"] {
            value["batch"][field] = Value::Null;
        }
        value
    };
    assert_eq!(shape(&mut banned, "unseen one"), shape(&mut crowd, &unseen));

    let mut vip = Person::user(&server, "r1", "v1", &["--role", "vip"]);
    until("a VIP is shown", || {
        vip.says_well("the mark");
        Person::guest(&server, "r1").has_heard("the mark")
    });
    let mut surfaces: Vec<Vec<u8>> =
        others.iter_mut().map(|socket| bytes_until(socket, "the mark")).collect();
    surfaces.push(stream.until("the mark"));
    for kind in ["", PROTO, DEFLATE] {
        for room in ["r1", &since] {
            surfaces.push(bytes_until(&mut RawSocket::join(server.address, room, kind), "the mark"));
        }
    }
    let snapshot = "GET /api/v1/rooms/r1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n";
    until("the snapshot is as new", || {
        let body = Exchange::new(server.address).send(snapshot).answer().body;
        surfaces.push(body.clone().into_bytes());
        body.contains("the mark")
    });
    for surface in surfaces {
        for word in ["unseen one".to_owned(), format!("{unseen}\"")] {
            let found = surface.windows(word.len()).any(|part| part == word.as_bytes());
            assert!(!found, "{word} in {}", String::from_utf8_lossy(&surface));
        }
    }
}

/// What a socket gets until a word has come, inflated.
fn bytes_until(socket: &mut RawSocket, word: &str) -> Vec<u8> {
    let mut heard = Vec::new();
    let mut inflate = flate2::Decompress::new(false);
    while !heard.windows(word.len()).any(|part| part == word.as_bytes()) {
        let frame = socket.next().expect("open");
        if frame.opcode > TEXT + 1 {
            continue;
        }
        if frame.deflated {
            let mut whole = frame.payload.clone();
            whole.extend_from_slice(&[0, 0, 0xFF, 0xFF]);
            let mut plain = Vec::with_capacity(1 << 20);
            inflate.reset(false);
            inflate.decompress_vec(&whole, &mut plain, flate2::FlushDecompress::Sync).expect("deflate");
            heard.extend_from_slice(&plain);
        } else {
            heard.extend_from_slice(&frame.payload);
        }
    }
    heard
}

/// An event stream.
struct RawStream(std::net::TcpStream, Vec<u8>);

impl RawStream {
    fn open(server: &Server, room: &str, headers: &str) -> Self {
        use std::io::Write;
        let mut socket = std::net::TcpStream::connect(server.address).expect("connected");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("set");
        let head = format!("GET /api/v1/rooms/{room}/events HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        socket.write_all(head.as_bytes()).expect("sent");
        Self(socket, Vec::new())
    }

    fn read(&mut self) {
        use std::io::Read;
        let mut chunk = [0; 4096];
        let n = self.0.read(&mut chunk).expect("within 30 s");
        assert!(n > 0, "open");
        self.1.extend_from_slice(&chunk[..n]);
    }

    /// Everything so far, once a word has come.
    fn until(&mut self, word: &str) -> Vec<u8> {
        while !self.1.windows(word.len()).any(|part| part == word.as_bytes()) {
            self.read();
        }
        self.1.clone()
    }

    /// The messages so far, once a number is covered.
    fn messages_until(&mut self, seq: u64) -> Vec<String> {
        loop {
            let whole = self.1.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let text = String::from_utf8_lossy(&self.1[..whole]).into_owned();
            let messages: Vec<_> =
                text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect();
            if covered(&messages, seq) {
                return messages;
            }
            self.read();
        }
    }
}
