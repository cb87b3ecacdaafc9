//! The other end of a session: reads what it is told, and holds each word against what must come.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use danmaku_wire::websocket::Inflater;
use serde_json::Value;

use crate::model::{Close, Direct, Fate, Outcome, Since};

/// The largest message a server sends here, inflated.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Client {
    socket: UnixStream,
    unread: Vec<u8>,
    inflater: Inflater,
    pub(crate) told: Told,
}

/// What was told so far.
#[derive(Default)]
pub(crate) struct Told {
    direct: usize,
    fates: Vec<(String, Fate)>,
    /// The numbers of what was accepted, by the publish's id.
    numbers: HashMap<String, Vec<u64>>,
    room: String,
    /// Up to where it was told of each room, and in which epoch.
    pub(crate) positions: HashMap<String, Since>,
    /// Comments of this stay.
    comments: HashMap<u64, String>,
    stay: usize,
    close: Option<Close>,
    ended: bool,
}

impl Client {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, unread: Vec::new(), inflater: Inflater::new(), told: Told::default() }
    }

    /// Writes; a session that is over need not read.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.socket.write_all(bytes) {
            let gone = matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
            assert!(gone, "the session does not read: {error}");
        }
    }

    pub(crate) fn write_nothing_more(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Reads until all that must come has come.
    pub(crate) fn hear_all(&mut self, must: &Outcome) {
        while !self.told.ended && !self.told.has_all(must) {
            self.hear(must);
        }
        assert!(self.told.has_all(must) || must.end.is_some(), "the session ended early");
    }

    /// Reads to the end of the connection, which must come.
    pub(crate) fn hear_out(&mut self, must: &Outcome) {
        while !self.told.ended {
            self.hear(must);
        }
        assert_eq!(self.told.close, must.end, "how it ended");
        assert_eq!(self.told.direct, must.direct.len(), "some was not answered: {:?}", must.direct);
    }

    fn hear(&mut self, must: &Outcome) {
        let mut buffer = [0; 16 << 10];
        let taken = loop {
            match self.socket.read(&mut buffer) {
                Ok(taken) => break taken,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break 0,
                Err(error) => panic!(
                    "no answer ({error}); so far {} of {:?}, and {:?} of {:?}",
                    self.told.direct, must.direct, self.told.fates, must.fates
                ),
            }
        };
        self.told.ended = taken == 0;
        self.unread.extend_from_slice(&buffer[..taken]);
        while let Some((first, payload, bytes)) = frame(&self.unread) {
            let payload = match first & 0x40 {
                0 => payload.to_vec(),
                _ => self.inflater.inflate(payload, MESSAGE_BYTES_MAX).expect("it deflates well").to_vec(),
            };
            self.unread.drain(..bytes);
            self.told.frame(first, &payload, must);
        }
        assert!(!self.told.ended || self.unread.is_empty(), "half a frame is left");
    }
}

/// The first frame, if it is whole: its first byte, its payload, and how many bytes it takes.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let [first, short, rest @ ..] = bytes else { return None };
    let (length, at) = match short {
        0..=125 => (usize::from(*short), 2),
        126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        127 => (u64::from_be_bytes(*rest.first_chunk()?) as usize, 10),
        _ => panic!("a server does not mask"),
    };
    Some((*first, bytes.get(at..at + length)?, at + length))
}

impl Told {
    fn frame(&mut self, first: u8, payload: &[u8], must: &Outcome) {
        assert!(self.close.is_none(), "something comes behind the close");
        match first {
            0x81 | 0xc1 => {
                let message: Value = serde_json::from_slice(payload).expect("JSON");
                self.message(&message, must);
            }
            0x8a => self.direct(Direct::Echo(payload.to_vec()), must),
            0x88 => self.close = Some(payload.first_chunk().map(|code| u16::from_be_bytes(*code))),
            first => panic!("a frame that begins with {first:#x}"),
        }
    }

    fn direct(&mut self, direct: Direct, must: &Outcome) {
        assert_eq!(Some(&direct), must.direct.get(self.direct), "answer {}", self.direct);
        self.direct += 1;
    }

    fn message(&mut self, message: &Value, must: &Outcome) {
        let (kind, body) = message.as_object().and_then(|object| object.iter().next()).expect("one message");
        let number = |key: &str| body[key].as_u64().unwrap_or_else(|| panic!("{key} of {message}"));
        let text = |key: &str| body[key].as_str().unwrap_or_else(|| panic!("{key} of {message}")).to_owned();
        match kind.as_str() {
            "joined" => {
                self.joined(text("room"), (text("epoch"), number("seq")), body["recovered"] == true, must)
            }
            "pong" => self.direct(Direct::Pong(number("t")), must),
            "error" => self.error(body, must),
            "ack" => {
                assert!(body["state"].is_null(), "{message}");
                let id = body["id"].as_str().unwrap_or_default().to_owned();
                self.numbers.entry(id.clone()).or_default().push(number("seq"));
                self.fates.push((id, Fate::Accepted));
            }
            "batch" => self.batch(number("from"), number("to"), &body["items"]),
            "gap" => self.advance(number("from"), number("to")),
            "epoch" => {
                let position = (text("epoch"), number("seq"));
                self.positions.insert(self.room.clone(), position);
            }
            "room" => {}
            _ => panic!("not asked for: {message}"),
        }
    }

    fn joined(&mut self, room: String, head: Since, recovered: bool, must: &Outcome) {
        let since = match must.direct.get(self.direct) {
            Some(Direct::Joined { since, .. }) => since.clone(),
            _ => None,
        };
        assert!(!recovered || since.is_some(), "recovered from nothing");
        self.direct(Direct::Joined { room: room.clone(), since: since.clone() }, must);
        let position = since.filter(|_| recovered).unwrap_or(head);
        self.positions.insert(room.clone(), position);
        self.room = room;
        self.stay += 1;
        self.comments.clear();
    }

    /// What is refused at once stands in its order; what is refused by the room comes some time.
    fn error(&mut self, body: &Value, must: &Outcome) {
        let (id, code) = (body["id"].as_str(), body["code"].as_str().expect("a code"));
        const AT_ONCE: [&str; 5] =
            ["bad_request", "unknown_command", "not_supported", "room_invalid", "token_invalid"];
        match AT_ONCE.into_iter().find(|at_once| *at_once == code) {
            Some(code) => self.direct(Direct::Error { id: id.map(str::to_owned), code }, must),
            None => self.fates.push((id.unwrap_or_default().to_owned(), Fate::Refused(code.to_owned()))),
        }
    }

    fn batch(&mut self, from: u64, to: u64, items: &Value) {
        self.advance(from, to);
        let mut before = from.saturating_sub(1);
        for item in items.as_array().expect("items") {
            let seq = item["seq"].as_u64().expect("a number");
            assert!(before < seq && seq <= to, "{seq} behind {before} in {from} to {to}");
            before = seq;
            if let Some(text) = item["text"].as_str() {
                self.comments.insert(seq, text.to_owned());
            }
        }
    }

    /// Ranges follow each other; a jump was told before.
    fn advance(&mut self, from: u64, to: u64) {
        let (_, seq) = self.positions.get_mut(&self.room).expect("joined before");
        assert!(from == *seq + 1 && from <= to, "{from} to {to} behind {seq}");
        *seq = to;
    }

    /// Whether there is nothing more to come before something else is asked.
    fn has_all(&self, must: &Outcome) -> bool {
        self.direct == must.direct.len()
            && self.fates.len() == must.fates.len()
            && (must.paused_in_stay || must.taken.iter().all(|taken| self.has_seen(taken, must)))
    }

    /// What was said in this stay is shown in it. Where an id was used for several comments, or none was given,
    /// which of them got which number is not told.
    fn has_seen(&self, taken: &crate::model::Taken, must: &Outcome) -> bool {
        let alone = must.taken.iter().filter(|other| other.id == taken.id).count() == 1;
        if taken.id.is_empty() || !alone || taken.stay != must.stay {
            return true;
        }
        let Some(seq) = self.numbers.get(&taken.id).and_then(|numbers| numbers.first()) else { return false };
        let shown = self.comments.get(seq);
        assert!(shown.is_none_or(|text| *text == taken.text), "{shown:?} is shown for {taken:?}");
        shown.is_some()
    }

    /// What became of everything that was published: exactly what must, as far as it was told before the end.
    pub(crate) fn check_fates(&self, must: &Outcome) {
        let sorted = |fates: &[(String, Fate)]| {
            let mut fates = fates.to_vec();
            fates.sort();
            fates
        };
        let (told, mut left) = (sorted(&self.fates), sorted(&must.fates));
        for fate in &told {
            let at = left.binary_search(fate).unwrap_or_else(|_| panic!("{fate:?} is not among {left:?}"));
            left.remove(at);
        }
        for (id, numbers) in &self.numbers {
            let mut distinct = numbers.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let taken = must.taken.iter().filter(|taken| taken.id == *id).count();
            assert!(distinct.len() <= taken, "{id:?} has the numbers {distinct:?} for {taken} comments");
        }
    }
}
