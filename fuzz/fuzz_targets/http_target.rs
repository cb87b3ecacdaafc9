//! The target of a request for a stream: any bytes that HTTP takes for one, against the query by the book.
//!
//! Input: the target, as it stands in a request's first line.

#![no_main]

use danmaku::ingress::http::query::Query;
use danmaku_wire::entry::Tier;
use hyper::Uri;
use libfuzzer_sys::fuzz_target;

const SEQ_MAX: u64 = (1 << 53) - 1;
const NAME_BYTES_MAX: usize = 64;

fuzz_target!(|data: &[u8]| {
    // What the HTTP library refuses comes no further; what it leaves of the rest is the query.
    let Ok(target) = Uri::try_from(data) else { return };
    let query = target.query().unwrap_or_default();
    match (Query::parse(query), by_the_book(query)) {
        (Ok(read), Some(book)) => {
            assert_eq!(read.room.map(|room| room.as_str().to_owned()), book.room);
            assert_eq!(read.since.map(|since| (since.epoch.as_str().to_owned(), since.seq)), book.since);
            assert_eq!((read.tier, read.snapshot, read.token), (book.tier, book.snapshot, book.token));
        }
        (Err(refusal), None) => {
            assert_eq!(refusal.status(), 400);
            // Nothing of the request gets into a field of the answer.
            assert_eq!(refusal.headers().len(), 3);
        }
        (read, book) => panic!("{query:?} is {:?}, but by the book {book:?}", read.is_ok()),
    }
});

#[derive(Debug)]
struct Book {
    room: Option<String>,
    since: Option<(String, u64)>,
    tier: Tier,
    snapshot: bool,
    token: Option<String>,
}

/// `None` where it is refused. Of what stands twice the last counts, and each must be right.
fn by_the_book(query: &str) -> Option<Book> {
    let mut book = Book { room: None, since: None, tier: Tier::Standard, snapshot: true, token: None };
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let value = decoded(value);
        match decoded(name).as_str() {
            "room" if is_name(&value) => book.room = Some(value),
            "since" => book.since = position(&value),
            "token" => book.token = Some(value),
            "tier" => {
                let tiers = [("lite", Tier::Lite), ("standard", Tier::Standard), ("full", Tier::Full)];
                book.tier = tiers.into_iter().find(|(name, _)| *name == value)?.1;
            }
            "snapshot" if value == "none" || value == "json" => book.snapshot = value == "json",
            "room" | "snapshot" => return None,
            _ => {}
        }
    }
    Some(book)
}

/// <https://url.spec.whatwg.org/#urlencoded-parsing>: a plus is a blank, `%` with two digits is a byte, anything
/// else is itself; what is not UTF-8 is replaced.
fn decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let (meant, taken) = match (byte, digits) {
            (b'+', _) => (b' ', 1),
            (b'%', Some(digits)) => {
                let digits = str::from_utf8(digits).expect("ASCII");
                (u8::from_str_radix(digits, 16).expect("digits"), 3)
            }
            _ => (*byte, 1),
        };
        out.push(meant);
        at += taken;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Names of rooms and epochs.
fn is_name(text: &str) -> bool {
    let known = |c: char| matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_');
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.chars().all(known)
}

fn position(text: &str) -> Option<(String, u64)> {
    let (epoch, digits) = text.rsplit_once(':')?;
    if !is_name(epoch) || digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    // As many digits as the largest number has, so that what is parsed is sure to fit.
    let significant = digits.trim_start_matches('0');
    let seq = match significant.len() {
        0 => 0,
        1..=16 => significant.parse().ok()?,
        _ => return None,
    };
    (seq <= SEQ_MAX).then_some((epoch.to_owned(), seq))
}
