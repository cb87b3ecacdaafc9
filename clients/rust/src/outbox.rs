//! Comments whose fate is not known yet.
//!
//! In come comments, the server's answers, and the news that a connection has ended; out go messages to
//! send and fates. The same id and the same text go out again until there is an answer, so that the
//! server can tell a second try from a second comment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::code::Refusal;
use crate::item::Mode;
use crate::message::{ClientMessage, SendFields};
use crate::position::Epoch;

/// What a comment is beside its text. The default is a white one that scrolls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Where it flies.
    pub mode: Mode,
    /// 0xRRGGBB; `None` is white.
    pub color: Option<u32>,
    /// Its size; `None` is 25.
    pub size: Option<u32>,
    /// Where in the stream the viewer was, milliseconds.
    pub stream_ms: Option<u64>,
    /// An id of one's own, 1 to 64 bytes, for instance to try again after a restart of the program. `None`
    /// makes one.
    pub id: Option<String>,
    /// A W3C trace context.
    pub traceparent: Option<String>,
}

/// What the server did with a comment that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckState {
    /// It has its number.
    Accepted,
    /// It waits for its delay or for a moderator.
    Held,
    /// It was counted into the comment with this number.
    Folded,
}

/// A comment was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ack {
    /// The comment's id.
    pub id: String,
    /// What became of it.
    pub state: AckState,
    /// Its number, or that of the comment it was counted into.
    pub seq: Option<u64>,
    /// The epoch of the number.
    pub epoch: Option<Epoch>,
}

/// A comment was not taken, or nobody can say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many comments wait for their answer.
    #[error("{max} comments wait for their answer: send no more until some have it")]
    Full {
        /// How many may.
        max: usize,
    },
    /// A comment with this id waits for its answer.
    #[error("a comment with the id {id:?} waits for its answer: take another id")]
    InUse {
        /// The id.
        id: String,
    },
    /// There was no answer in time; the comment may have been taken all the same.
    #[error("no answer within {after:?}")]
    Expired {
        /// The time.
        after: Duration,
    },
    /// The session moved to another room before there was an answer; the comment may have been taken all the
    /// same if it had been sent.
    #[error("the session moved to another room before there was an answer")]
    Moved,
    /// The session is over; the comment may have been taken all the same if it had been sent.
    #[error("the session is closed")]
    Closed,
}

/// What names a comment between [`crate::Session::send`] and its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// What became of a comment.
pub(crate) type Fate = (Ticket, Result<Ack, PublishError>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// To be sent as soon as there is a joined room.
    Queued,
    /// Sent on the present connection.
    InFlight,
    /// Refused for the moment; to be sent again.
    Resting { until: Instant },
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    id: String,
    /// The whole message.
    message: String,
    room: Arc<str>,
    deadline: Instant,
    progress: Progress,
    /// Refusals for the moment so far.
    refusals: u32,
}

/// The comments whose fate is not known.
#[derive(Debug)]
pub(crate) struct Outbox {
    waiting: Vec<Waiting>,
    max: usize,
    resend_for: Duration,
    prefix: String,
    count: u64,
}

impl Outbox {
    pub(crate) fn new(max: usize, resend_for: Duration, random: u64) -> Self {
        /// Bits of the prefix: two clients of one user choose the same one never in practice.
        const PREFIX_BITS: u32 = 50;
        let prefix = base36(random >> (u64::BITS - PREFIX_BITS));
        Self { waiting: Vec::new(), max, resend_for, prefix, count: 0 }
    }

    /// Takes a comment for a room.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        room: &Arc<str>,
        text: &str,
        options: &SendOptions,
    ) -> Result<Ticket, PublishError> {
        if self.waiting.len() >= self.max {
            return Err(PublishError::Full { max: self.max });
        }
        self.count += 1;
        let id = options.id.clone().unwrap_or_else(|| format!("{}-{}", self.prefix, base36(self.count)));
        if self.waiting.iter().any(|waiting| waiting.id == id) {
            return Err(PublishError::InUse { id });
        }
        let message = ClientMessage::Send(SendFields {
            id: &id,
            text,
            mode: (options.mode != Mode::Scroll).then(|| options.mode.as_str()),
            color: options.color,
            size: options.size,
            stream_ms: options.stream_ms,
            traceparent: options.traceparent.as_deref(),
        })
        .write();
        let (ticket, room, deadline) = (Ticket(self.count), Arc::clone(room), now + self.resend_for);
        let progress = Progress::Queued;
        self.waiting.push(Waiting { ticket, id, message, room, deadline, progress, refusals: 0 });
        Ok(ticket)
    }

    /// The next message to be sent now, in the order of sending.
    pub(crate) fn next_message(&mut self, now: Instant) -> Option<String> {
        let due = self.waiting.iter_mut().find(|waiting| match waiting.progress {
            Progress::Queued => true,
            Progress::InFlight => false,
            Progress::Resting { until } => until <= now,
        })?;
        due.progress = Progress::InFlight;
        Some(due.message.clone())
    }

    /// An `ack`.
    pub(crate) fn acked(&mut self, ack: Ack) -> Option<Fate> {
        let waiting = self.take(&ack.id)?;
        Some((waiting.ticket, Ok(ack)))
    }

    /// An `error` with an id. What says nothing about the comment is tried again after `rest`, which is asked
    /// with the number of earlier refusals; not if the session has left the comment's room for `room`.
    pub(crate) fn refused(
        &mut self,
        now: Instant,
        room: &str,
        id: &str,
        refusal: Refusal,
        rest: impl FnOnce(u32) -> Duration,
    ) -> Option<Fate> {
        let waiting = self.waiting.iter_mut().find(|waiting| waiting.id == id)?;
        if refusal.is_of_the_moment() && waiting.room.as_ref() == room {
            let pause = refusal.retry_after.unwrap_or_else(|| rest(waiting.refusals));
            let until = now + pause;
            if until < waiting.deadline {
                waiting.refusals += 1;
                waiting.progress = Progress::Resting { until };
                return None;
            }
        }
        let waiting = self.take(id)?;
        Some((waiting.ticket, Err(refusal.into())))
    }

    /// Some answers were summed up, perhaps of what is in flight: it is asked about again then, if the session
    /// is still in its room.
    pub(crate) fn unsure(&mut self, room: &str, until: Instant) {
        for waiting in &mut self.waiting {
            if waiting.progress == Progress::InFlight && waiting.room.as_ref() == room {
                waiting.progress = Progress::Resting { until };
            }
        }
    }

    /// The connection is over: what was in flight goes out again on the next one, if that is in the same room.
    pub(crate) fn disconnected(&mut self, room: &str) -> Vec<Fate> {
        for waiting in &mut self.waiting {
            if waiting.progress == Progress::InFlight {
                waiting.progress = Progress::Queued;
            }
        }
        self.moved(room)
    }

    /// The session goes to a room. What is in flight is answered all the same; the rest belongs to a room that
    /// it could only be sent to from inside.
    pub(crate) fn moved(&mut self, room: &str) -> Vec<Fate> {
        let stranded =
            |waiting: &mut Waiting| waiting.progress != Progress::InFlight && waiting.room.as_ref() != room;
        let fates = self.waiting.extract_if(.., stranded);
        fates.map(|waiting| (waiting.ticket, Err(PublishError::Moved))).collect()
    }

    /// Gives up what has waited too long.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Fate> {
        let after = self.resend_for;
        let late = self.waiting.extract_if(.., |waiting| waiting.deadline <= now);
        late.map(|waiting| (waiting.ticket, Err(PublishError::Expired { after }))).collect()
    }

    /// Gives up everything.
    pub(crate) fn closed(&mut self) -> Vec<Fate> {
        self.waiting.drain(..).map(|waiting| (waiting.ticket, Err(PublishError::Closed))).collect()
    }

    /// When there is something to do that no message starts; `sending` says whether anything can be sent.
    pub(crate) fn next_time(&self, sending: bool) -> Option<Instant> {
        let times = self.waiting.iter().map(|waiting| match waiting.progress {
            Progress::Resting { until } if sending => until.min(waiting.deadline),
            _ => waiting.deadline,
        });
        times.min()
    }

    fn take(&mut self, id: &str) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.id == id)?;
        Some(self.waiting.remove(at))
    }
}

/// A number in the shortest form that an id may have.
fn base36(mut number: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}
