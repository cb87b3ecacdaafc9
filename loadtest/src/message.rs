//! The native protocol's JSON messages, read only as far as a load tester must: the kind, the numbers of
//! ranges, and the due times in the texts.
//!
//! This is no JSON parser. It knows that the server writes one object on one line with the keys in the
//! order of the schema; a message that does not look like that is [`Kind::Other`], and the ledger, which
//! misses it, says so. Within strings every quote is escaped, so `{"seq":` can only begin an item.

use memchr::memmem::Finder;

/// Digits of a due time: nanoseconds since 1970.
const DUE_DIGITS: usize = 19;
/// Bytes of the token around a due time: `T<19 digits>T`.
pub const TOKEN_BYTES: usize = DUE_DIGITS + 2;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// `joined`: [`Digest::to`] is the position joined at.
    Joined,
    /// `batch`: a covered range and its items.
    Batch,
    /// `gap`: a range that will not come.
    Gap,
    /// `ack`: [`Digest::to`] is the sequence given, 0 for none.
    Ack,
    /// `error`.
    Error,
    /// `epoch`: the room changed its owner.
    Epoch,
    /// `room`, `snapshot`, and whatever else there will be.
    #[default]
    Other,
}

/// What is worth knowing of a message. One is used again and again, so that nothing is allocated per
/// message once the list of due times has grown to its usual size.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// What it is.
    pub kind: Kind,
    /// The first sequence of the range.
    pub from: u64,
    /// The last sequence of the range, or the only one.
    pub to: u64,
    /// Items within the range.
    pub items: u64,
    /// Whether the items rise strictly within the range.
    pub in_order: bool,
    /// Due times of the items that carry one, nanoseconds since 1970.
    pub dues: Vec<u64>,
}

/// Finds the parts of messages; searchers are made once.
#[derive(Debug)]
pub struct Reader {
    item: Finder<'static>,
    seq: Finder<'static>,
    from: Finder<'static>,
    to: Finder<'static>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            item: Finder::new(b"{\"seq\":"),
            seq: Finder::new(b"\"seq\":"),
            from: Finder::new(b"\"from\":"),
            to: Finder::new(b"\"to\":"),
        }
    }
}

impl Reader {
    /// Reads a message into `digest`.
    pub fn read(&self, message: &[u8], digest: &mut Digest) {
        digest.dues.clear();
        (digest.kind, digest.from, digest.to, digest.items, digest.in_order) = (Kind::Other, 0, 0, 0, true);
        let Some((key, body)) = key_and_body(message) else { return };
        let kind = match key {
            b"batch" => self.batch(body, digest).map(|()| Kind::Batch),
            b"gap" => self.range(body, digest).map(|()| Kind::Gap),
            b"joined" => self.number(&self.seq, body).map(|seq| {
                digest.to = seq;
                Kind::Joined
            }),
            b"ack" => {
                digest.to = self.number(&self.seq, body).unwrap_or_default();
                Some(Kind::Ack)
            }
            b"error" => Some(Kind::Error),
            b"epoch" => Some(Kind::Epoch),
            _ => None,
        };
        digest.kind = kind.unwrap_or_default();
    }

    fn batch(&self, body: &[u8], digest: &mut Digest) -> Option<()> {
        self.range(body, digest)?;
        let mut last = None;
        let mut at = self.item.find(body);
        while let Some(start) = at {
            let item = &body[start..];
            let (seq, digits) = number(&item[self.item.needle().len()..])?;
            let rest = &item[self.item.needle().len() + digits..];
            let length = self.item.find(rest).unwrap_or(rest.len());
            digest.items += 1;
            digest.in_order &=
                (digest.from..=digest.to).contains(&seq) && last.is_none_or(|before| before < seq);
            last = Some(seq);
            digest.dues.extend(due(&rest[..length]));
            at = (length < rest.len()).then_some(body.len() - rest.len() + length);
        }
        Some(())
    }

    fn range(&self, body: &[u8], digest: &mut Digest) -> Option<()> {
        digest.from = self.number(&self.from, body)?;
        digest.to = self.number(&self.to, body)?;
        Some(())
    }

    fn number(&self, key: &Finder<'_>, body: &[u8]) -> Option<u64> {
        let at = key.find(body)? + key.needle().len();
        number(&body[at..]).map(|(value, _)| value)
    }
}

/// The code of an `error` message, `?` when it has none.
pub fn error_code(message: &[u8]) -> &str {
    let key = b"\"code\":\"";
    let code = memchr::memmem::find(message, key).map(|at| &message[at + key.len()..]);
    let code = code.and_then(|rest| Some(&rest[..memchr::memchr(b'"', rest)?]));
    code.and_then(|code| std::str::from_utf8(code).ok()).unwrap_or("?")
}

/// Splits `{"key":body` at the first colon.
fn key_and_body(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = message.strip_prefix(b"{\"")?;
    let quote = memchr::memchr(b'"', rest)?;
    let body = rest[quote + 1..].strip_prefix(b":")?;
    Some((&rest[..quote], body))
}

/// The number that `bytes` begin with, and its digits.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()?;
    Some((value, digits))
}

/// The due time in an item, if it has one.
fn due(item: &[u8]) -> Option<u64> {
    memchr::memchr_iter(b'T', item).find_map(|at| {
        let token = item.get(at + 1..at + TOKEN_BYTES)?;
        let (value, digits) = number(token)?;
        (digits == DUE_DIGITS && token[DUE_DIGITS] == b'T').then_some(value)
    })
}

/// Appends the token of a due time.
pub fn write_due(out: &mut Vec<u8>, due_ns: u64) {
    use std::io::Write;
    // A vector takes everything.
    let _ = write!(out, "T{due_ns:019}T");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Digest {
        let mut digest = Digest { items: 7, dues: vec![1], ..Digest::default() };
        Reader::default().read(message.as_bytes(), &mut digest);
        digest
    }

    /// `Reader::read`: each kind of message, and what is left of the one before.
    #[test]
    fn the_numbers_of_every_kind_are_read() {
        let check = |message: &str, kind, from, to, items| {
            let digest = read(message);
            let got = (digest.kind, digest.from, digest.to, digest.items);
            assert_eq!(got, (kind, from, to, items), "{message}");
            assert!(digest.in_order && digest.dues.is_empty(), "{message}");
        };
        check(r#"{"joined":{"room":"r","epoch":"7-k","seq":41,"you":{}}}"#, Kind::Joined, 0, 41, 0);
        check(r#"{"batch":{"from":42,"to":47,"items":[]}}"#, Kind::Batch, 42, 47, 0);
        check(r#"{"gap":{"epoch":"6-k","from":48,"to":97,"reason":"paused"}}"#, Kind::Gap, 48, 97, 0);
        check(r#"{"ack":{"id":"k7-1","seq":42}}"#, Kind::Ack, 0, 42, 0);
        check(r#"{"ack":{"id":"k7-1","state":"held"}}"#, Kind::Ack, 0, 0, 0);
        check(r#"{"error":{"id":"k","code":"overloaded"}}"#, Kind::Error, 0, 0, 0);
        check(r#"{"epoch":{"epoch":"8-k","seq":4}}"#, Kind::Epoch, 0, 0, 0);
        for other in [r#"{"room":{}}"#, "", "{", "[]", r#"{"batch":{"to":1,"items":[]}}"#, r#"{"joined":{}}"#]
        {
            check(other, Kind::Other, 0, 0, 0);
        }
    }

    /// `Reader::read`: items of a batch with and without due times, and texts that look like items.
    #[test]
    fn items_and_due_times_are_counted_once_each() {
        let digest = read(
            r#"{"batch":{"from":42,"to":45,"items":[{"seq":42,"user":{"id":"T1T"},"text":"hi T1700000000000000001T","at":1},{"seq":43,"type":"gift"},{"seq":45,"user":{"id":"u"},"text":"{\"seq\":9 T17T TT1700000000000000002T T1700000000000000003T"}]}}"#,
        );
        assert_eq!((digest.kind, digest.from, digest.to, digest.items), (Kind::Batch, 42, 45, 3));
        assert_eq!(digest.dues, [1_700_000_000_000_000_001, 1_700_000_000_000_000_002]);
        assert!(digest.in_order);
    }

    /// `Reader::read`: an item outside its range, twice or backwards is out of order.
    #[test]
    fn items_out_of_order_are_noticed() {
        for items in
            [r#"{"seq":41}"#, r#"{"seq":44}"#, r#"{"seq":42},{"seq":42}"#, r#"{"seq":43},{"seq":42}"#]
        {
            let digest = read(&format!(r#"{{"batch":{{"from":42,"to":43,"items":[{items}]}}}}"#));
            assert!(!digest.in_order, "{items}");
        }
    }

    /// `write_due` writes what `due` reads; `error_code` reads the code.
    #[test]
    fn tokens_and_codes_round_trip() {
        let mut out = Vec::new();
        write_due(&mut out, 1_700_000_000_123_456_789);
        assert_eq!((due(&out), out.len()), (Some(1_700_000_000_123_456_789), TOKEN_BYTES));
        assert_eq!(error_code(br#"{"error":{"id":"k","code":"ids_full","message":"x"}}"#), "ids_full");
        assert_eq!(error_code(br#"{"error":{}}"#), "?");
    }
}
