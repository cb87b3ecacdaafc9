//! What is asked, and what may be answered.
//!
//! Questions go out as JSON, answers are read into types that cannot be wrong. An answer that is not
//! exactly one of the documented ones is a failure, never a pass: a receiver that meant "drop" and
//! misspelled it must not let everything through. (The format for receivers: docs/webhook.md.)

use core::net::IpAddr;
use std::collections::BTreeMap;

use hyper::body::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::failure::Failure;
use danmaku_wire::trace::TraceContext;

/// Longest question or batch of questions, bytes of JSON.
pub const QUESTION_BYTES_MAX: usize = 64 * 1024;
/// Longest reason, bytes: it is for logs and for the person who is refused.
pub const REASON_BYTES_MAX: usize = 256;
/// Most bytes of claims: what a token may have.
pub const CLAIMS_BYTES_MAX: usize = 4 * 1024;

/// What is to be done with a comment?
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The comment's own id, for the receiver's log; comes back in the answer to a batch.
    pub id: String,
    /// Where it was said.
    pub room: String,
    /// Who said it.
    pub user: String,
    /// The user's role in the room.
    pub role: String,
    /// What was said.
    pub text: String,
    /// The span it belongs to, where it has one; one of ours, never as the viewer sent it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_header")]
    pub traceparent: Option<TraceContext>,
}

/// As the header's value.
fn as_header<S: Serializer>(trace: &Option<TraceContext>, to: S) -> Result<S::Ok, S::Error> {
    match trace {
        Some(trace) => to.collect_str(trace),
        None => to.serialize_none(),
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may be shown.
    Pass,
    /// It is refused.
    Drop {
        /// Why, as the receiver said it.
        reason: Option<String>,
    },
    /// A person decides.
    Hold {
        /// Why, as the receiver said it.
        reason: Option<String>,
    },
    /// It is shown with parts hidden.
    Mask {
        /// The text with the parts hidden; none: all of it is. Not yet checked by anybody here.
        text: Option<String>,
        /// Why, as the receiver said it.
        reason: Option<String>,
    },
    /// Another text is shown in its place.
    Replace {
        /// The text, not yet checked by anybody here: it goes through lengths and filter again.
        text: String,
        /// Why, as the receiver said it.
        reason: Option<String>,
    },
}

/// May somebody connect?
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectQuestion {
    /// The connection's id, for the receiver's log.
    pub id: String,
    /// Where the caller is.
    pub address: IpAddr,
    /// The room that is asked for, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// The user, where a token or a ticket already says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The page the caller comes from, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// What [`Forwarding`](crate::Forwarding) selected.
    pub headers: BTreeMap<String, String>,
    /// The span it belongs to, where it has one; one of ours, never as the viewer sent it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_header")]
    pub traceparent: Option<TraceContext>,
}

/// The answer to a [`ConnectQuestion`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectVerdict {
    /// The connection may be used.
    Allow {
        /// A JSON object of at most [`CLAIMS_BYTES_MAX`] bytes, as it came: what a token's claims would
        /// say. Not yet checked by anybody here.
        claims: Option<String>,
    },
    /// It may not.
    Deny {
        /// Why, as the receiver said it.
        reason: Option<String>,
    },
}

/// A question as a JSON object, without saying of which type it is.
///
/// # Errors
/// When it has more than [`QUESTION_BYTES_MAX`] bytes.
pub(crate) fn written(question: &impl Serialize) -> Result<Vec<u8>, Failure> {
    // Strings, addresses and maps of strings: writing them as JSON cannot fail.
    let object = serde_json::to_vec(question).map_err(|_| Failure::QuestionTooLarge)?;
    if object.len() > QUESTION_BYTES_MAX { Err(Failure::QuestionTooLarge) } else { Ok(object) }
}

/// The body that asks one question: its object with a type in front of its fields.
pub(crate) fn single(kind: &str, object: &[u8]) -> Bytes {
    let head = format!("{{\"type\":\"{kind}\",");
    [head.as_bytes(), &object[1..]].concat().into()
}

/// The body that asks several questions about comments.
pub(crate) fn batch<'o>(objects: impl Iterator<Item = &'o [u8]>) -> Bytes {
    let mut body = br#"{"type":"messages","questions":["#.to_vec();
    for (at, object) in objects.enumerate() {
        if at > 0 {
            body.push(b',');
        }
        body.extend_from_slice(object);
    }
    body.extend_from_slice(b"]}");
    body.into()
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Pass,
    Drop,
    Hold,
    Mask,
    Replace,
}

/// Fields that are not known are left alone, so that receivers can be newer than the server.
#[derive(Deserialize)]
struct Answer {
    id: Option<String>,
    verdict: Word,
    text: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Answers {
    answers: Vec<Answer>,
}

impl Answer {
    fn verdict(self) -> Result<Verdict, Failure> {
        let reason = short(self.reason)?;
        match (self.verdict, self.text) {
            (Word::Pass, None) => Ok(Verdict::Pass),
            (Word::Drop, None) => Ok(Verdict::Drop { reason }),
            (Word::Hold, None) => Ok(Verdict::Hold { reason }),
            (Word::Mask, text) => Ok(Verdict::Mask { text, reason }),
            (Word::Replace, Some(text)) => Ok(Verdict::Replace { text, reason }),
            // A text that nobody would show: the receiver meant something else than it said.
            (Word::Pass | Word::Drop | Word::Hold, Some(_)) | (Word::Replace, None) => {
                Err(Failure::Malformed)
            }
        }
    }
}

fn short(reason: Option<String>) -> Result<Option<String>, Failure> {
    match reason {
        Some(reason) if reason.len() > REASON_BYTES_MAX => Err(Failure::Malformed),
        reason => Ok(reason),
    }
}

fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|_| Failure::Malformed)
}

/// The answer to one question.
pub(crate) fn read_verdict(body: &[u8], id: &str) -> Result<Verdict, Failure> {
    let answer: Answer = read(body)?;
    if answer.id.as_ref().is_some_and(|said| said != id) {
        return Err(Failure::Malformed);
    }
    answer.verdict()
}

/// The answers to a batch: one for each question, in its order and with its id. One that is wrong makes
/// all of them wrong, for nobody knows whose answers the others are.
pub(crate) fn read_verdicts(body: &[u8], asked: &[&str]) -> Result<Vec<Verdict>, Failure> {
    let Answers { answers } = read(body)?;
    let ids = answers.iter().map(|answer| answer.id.as_deref());
    if !ids.eq(asked.iter().copied().map(Some)) {
        return Err(Failure::Malformed);
    }
    answers.into_iter().map(Answer::verdict).collect()
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ConnectWord {
    Allow,
    Deny,
}

#[derive(Deserialize)]
struct ConnectAnswer<'b> {
    verdict: ConnectWord,
    #[serde(borrow)]
    claims: Option<&'b RawValue>,
    reason: Option<String>,
}

/// The answer to a question about a connection.
pub(crate) fn read_connect_verdict(body: &[u8]) -> Result<ConnectVerdict, Failure> {
    let answer: ConnectAnswer<'_> = read(body)?;
    let reason = short(answer.reason)?;
    match (answer.verdict, answer.claims.map(RawValue::get)) {
        (ConnectWord::Allow, None) => Ok(ConnectVerdict::Allow { claims: None }),
        (ConnectWord::Allow, Some(claims)) if claims.starts_with('{') && claims.len() <= CLAIMS_BYTES_MAX => {
            Ok(ConnectVerdict::Allow { claims: Some(claims.to_owned()) })
        }
        (ConnectWord::Deny, None) => Ok(ConnectVerdict::Deny { reason }),
        (ConnectWord::Allow | ConnectWord::Deny, Some(_)) => Err(Failure::Malformed),
    }
}

/// What happens when nobody answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailMode {
    /// As if the receiver had let it pass.
    #[default]
    Open,
    /// As if the receiver had refused it.
    Closed,
}

/// The reason of what [`FailMode::Closed`] refuses.
pub const UNANSWERED: &str = "webhook_failed";

impl FailMode {
    /// The verdict that counts: the receiver's, or this mode's where there is none.
    #[must_use]
    pub fn settle(self, answer: Result<Verdict, Failure>) -> Verdict {
        answer.unwrap_or_else(|_| match self {
            Self::Open => Verdict::Pass,
            Self::Closed => Verdict::Drop { reason: Some(UNANSWERED.to_owned()) },
        })
    }

    /// The same for a connection.
    #[must_use]
    pub fn settle_connect(self, answer: Result<ConnectVerdict, Failure>) -> ConnectVerdict {
        answer.unwrap_or_else(|_| match self {
            Self::Open => ConnectVerdict::Allow { claims: None },
            Self::Closed => ConnectVerdict::Deny { reason: Some(UNANSWERED.to_owned()) },
        })
    }
}

#[cfg(test)]
mod tests;
