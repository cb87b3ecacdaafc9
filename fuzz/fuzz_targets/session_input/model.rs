//! What a session must make of its input, told by a reader that has it all at once: no sockets, no workers, no
//! outbox, no store that answers later.

use std::collections::HashMap;

use bumpalo::Bump;
use danmaku_fuzz::connection::{LIMITS, Seen};
use danmaku_fuzz::frames;
use danmaku_wire::native::{Command, DecodeError, Malformed, Send, json};

const ROOM_BYTES_MAX: usize = 64;
const ID_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 400;
const TEXT_CHARS_MAX: usize = 100;

/// A position as a client names it.
pub(crate) type Since = (String, u64);

/// What comes at once, in the order of what was asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Direct {
    Joined {
        room: String,
        since: Option<Since>,
    },
    Error {
        id: Option<String>,
        code: &'static str,
    },
    Pong(u64),
    /// On the level of frames.
    Echo(Vec<u8>),
}

/// What becomes of a publish, some time later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Accepted,
    Refused(String),
}

/// A comment that was taken, not one that was told of again.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) id: String,
    pub(crate) text: String,
    /// Counts the joins: in which stay it was said.
    pub(crate) stay: usize,
}

/// How a connection ends, on the level of frames: a code, or none.
pub(crate) type Close = Option<u16>;

/// What comes of a whole input.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) direct: Vec<Direct>,
    /// By the publish's id, which is empty where it has none.
    pub(crate) fates: Vec<(String, Fate)>,
    pub(crate) taken: Vec<Taken>,
    pub(crate) stay: usize,
    /// Whether batches are held back now.
    pub(crate) paused: bool,
    /// Whether they were at any time of this stay.
    pub(crate) paused_in_stay: bool,
    /// The close frame that ends it; `None` as long as it goes on.
    pub(crate) end: Option<Close>,
}

/// What decides whether an id is used for the same again.
type Said = (String, u8, u32, u8);

#[derive(Default)]
struct Session {
    outcome: Outcome,
    room: String,
    ids: HashMap<(String, String), Said>,
}

/// What a session in `room` makes of `bytes`.
pub(crate) fn follow(room: &str, deflate: bool, bytes: &[u8]) -> Outcome {
    let mut session = Session::default();
    session.join(room, None);
    for seen in frames::read(bytes, deflate, &LIMITS) {
        let end = match seen {
            Seen::Text(text) => session.text(&text),
            Seen::Binary(_) => Some(Some(1003)),
            Seen::Ping(payload) => {
                session.outcome.direct.push(Direct::Echo(payload));
                None
            }
            Seen::Pong(_) => None,
            Seen::Close(close) => Some(close.map(|(code, _)| code)),
            Seen::End(violation) => Some(Some(violation.disconnect().code())),
        };
        if end.is_some() {
            session.outcome.end = end;
            break;
        }
    }
    session.outcome
}

impl Session {
    fn join(&mut self, room: &str, since: Option<Since>) {
        self.outcome.direct.push(Direct::Joined { room: room.to_owned(), since });
        self.outcome.stay += 1;
        self.outcome.paused_in_stay = self.outcome.paused;
        room.clone_into(&mut self.room);
    }

    fn error(&mut self, id: Option<&str>, code: &'static str) {
        self.outcome.direct.push(Direct::Error { id: id.map(str::to_owned), code });
    }

    /// That the decoder is right is the affair of a target of its own.
    fn text(&mut self, text: &str) -> Option<Close> {
        let arena = Bump::new();
        match json::decode(text, &arena) {
            Ok(command) => self.command(command),
            Err(DecodeError::Malformed(Malformed::Utf8)) => return Some(Some(1007)),
            Err(DecodeError::Malformed(_)) => return Some(Some(1002)),
            Err(DecodeError::NotOneCommand) => self.error(None, "bad_request"),
            Err(DecodeError::BadField { id, .. }) => self.error(id, "bad_request"),
        }
        None
    }

    fn command(&mut self, command: Command<'_>) {
        match command {
            Command::Send(send) => self.publish(&send),
            Command::Join(join) if !is_name(join.room) => self.error(None, "room_invalid"),
            Command::Join(join) => {
                let since = join.since.filter(|since| is_name(since.epoch));
                self.join(join.room, since.map(|since| (since.epoch.to_owned(), since.seq)));
            }
            Command::View(view) => {
                self.outcome.paused = view.paused;
                self.outcome.paused_in_stay |= view.paused;
            }
            Command::Ping(ping) => self.outcome.direct.push(Direct::Pong(ping.t)),
            // No key of this server's has signed anything that an input can hold.
            Command::Auth(_) => self.error(None, "token_invalid"),
            Command::React(_) | Command::Report(_) => self.error(None, "not_supported"),
            Command::Unknown => self.error(None, "unknown_command"),
        }
    }

    fn publish(&mut self, send: &Send<'_>) {
        let said = (send.text.to_owned(), send.mode as u8, send.color, send.size);
        let key = (self.room.clone(), send.id.to_owned());
        let code = match text_fault(send.text) {
            Some(code) => Some(code),
            None if send.id.len() > ID_BYTES_MAX || send.id.chars().any(char::is_control) => {
                Some("id_invalid")
            }
            None if self.ids.get(&key).is_some_and(|before| *before != said) => Some("id_reused"),
            None => None,
        };
        let fate = code.map_or(Fate::Accepted, |code| Fate::Refused(code.to_owned()));
        if fate == Fate::Accepted && (send.id.is_empty() || self.ids.insert(key, said).is_none()) {
            let (id, text) = (send.id.to_owned(), send.text.trim().to_owned());
            self.outcome.taken.push(Taken { id, text, stay: self.outcome.stay });
        }
        self.outcome.fates.push((send.id.to_owned(), fate));
    }
}

/// Names of rooms and epochs.
fn is_name(text: &str) -> bool {
    let known = |c: char| matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_');
    !text.is_empty() && text.len() <= ROOM_BYTES_MAX && text.chars().all(known)
}

fn text_fault(text: &str) -> Option<&'static str> {
    let invisible =
        |c: char| "\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2060}\u{feff}\u{3164}\u{2800}".contains(c);
    let text = text.trim();
    if text.chars().all(|c| c.is_whitespace() || invisible(c)) {
        Some("text_empty")
    } else if text.len() > TEXT_BYTES_MAX || text.chars().count() > TEXT_CHARS_MAX {
        Some("text_too_long")
    } else if text.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)) {
        Some("text_invalid")
    } else {
        None
    }
}
