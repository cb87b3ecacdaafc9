//! Comments about which the platform is asked: they wait here for its ruling, and nobody else's comment waits for them.
//!
//! What one user says keeps its order: a comment that was ruled on waits for those that its author said before.

use std::collections::VecDeque;
use std::sync::Arc;

use danmaku_wire::entry::{Author, Body, Comment, Visibility};
use danmaku_wire::native::ErrorCode;
use danmaku_wire::trace::TraceContext;
use danmaku_words::mask;

use super::held::{Reason, ToHold};
use super::{Fate, Owner};
use crate::Now;
use crate::admission::breaker::Load;
use crate::admission::idempotency::Key;
use crate::admission::rule::{Mode, Rule};
use crate::admission::words::Screened;
use crate::admission::{Refusal, text};
use crate::store::{Durability, StoredId};

/// Retries of one comment that wait with it.
const RETRIES_MAX: usize = 16;
/// When a comment whose ruling did not come may be tried again, microseconds.
const UNANSWERED_US: u64 = 1_000_000;

/// How a room asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Whether a comment is refused about which nobody answered.
    pub closed: bool,
    /// Comments that wait for a ruling at the same time.
    pub waiting_max: usize,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question<'a> {
    /// By which the ruling names the comment; see [`super::held::HeldComment::number`].
    pub number: u64,
    /// Who wrote it.
    pub user: &'a Author,
    /// What was written, as far as word lists let it be seen.
    pub text: &'a str,
    /// The server's span in the trace that the author's client began.
    pub trace: Option<TraceContext>,
}

/// A question that is not put yet.
#[derive(Debug)]
pub(super) struct Unasked {
    number: u64,
    user: Arc<Author>,
    text: Box<str>,
    trace: Option<TraceContext>,
}

/// What the platform says of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// It may be shown.
    Pass,
    /// It may not.
    Refuse,
    /// A moderator decides.
    Hold,
    /// It is shown with everything covered.
    Cover,
    /// This is shown in its place, if the room's own rules let it pass.
    Text(Box<str>),
    /// Nobody answered in time.
    Unanswered,
}

#[derive(Debug)]
struct Asked<R> {
    number: u64,
    /// A keyed hash of its author.
    by: u64,
    comment: Comment,
    visibility: Visibility,
    ids: Option<(Key, u64)>,
    /// Whether it waits for the room's delay as well.
    delayed: bool,
    /// Who waits for its fate.
    waits: Vec<(R, Box<str>)>,
    ruling: Option<Ruling>,
}

/// A comment to be asked about.
pub(super) struct ToAsk<R> {
    pub(super) by: u64,
    pub(super) comment: Comment,
    pub(super) visibility: Visibility,
    pub(super) ids: Option<(Key, u64)>,
    pub(super) delayed: bool,
    pub(super) reply: R,
    pub(super) id: Box<str>,
}

/// The fate of a comment that was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided<R> {
    /// Who waits for it.
    pub reply: R,
    /// The client's id.
    pub id: Box<str>,
    /// What became of it; never [`Fate::Pending`].
    pub fate: Fate,
}

/// The comments of one room that wait for a ruling, in the order in which they came.
#[derive(Debug)]
pub(super) struct Asking<R> {
    queue: VecDeque<Asked<R>>,
    unasked: Vec<Unasked>,
    /// Questions without an answer, one after the other.
    unanswered: u32,
}

impl<R> Default for Asking<R> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), unasked: Vec::new(), unanswered: 0 }
    }
}

impl<R> Asking<R> {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether as many wait as may.
    pub(super) fn is_full(&self, bounds: &Bounds) -> bool {
        self.queue.len() >= bounds.waiting_max
    }

    /// Takes a question up without anybody waiting for its answer.
    pub(super) fn mention(&mut self, number: u64, comment: &Comment, trace: Option<TraceContext>) {
        let (user, text) = (Arc::clone(&comment.user), comment.text.clone());
        self.unasked.push(Unasked { number, user, text, trace });
    }

    /// Lets a comment wait for its ruling.
    pub(super) fn wait(&mut self, number: u64, ask: ToAsk<R>) {
        let ToAsk { by, comment, visibility, ids, delayed, reply, id } = ask;
        let waits = vec![(reply, id)];
        self.queue.push_back(Asked { number, by, comment, visibility, ids, delayed, waits, ruling: None });
    }

    /// Whether a retry of the comment behind `key` may wait with it.
    pub(super) fn may_attach(&self, key: Key) -> bool {
        self.find(key).is_some_and(|asked| asked.waits.len() < RETRIES_MAX)
    }

    fn find(&self, key: Key) -> Option<&Asked<R>> {
        self.queue.iter().find(|asked| asked.ids.is_some_and(|(other, _)| other == key))
    }

    /// Lets a retry wait with the comment behind `key`.
    pub(super) fn attach(&mut self, key: Key, reply: R, id: &str) {
        let mut asked = self.queue.iter_mut();
        if let Some(asked) = asked.find(|asked| asked.ids.is_some_and(|(other, _)| other == key)) {
            asked.waits.push((reply, id.into()));
        }
    }

    /// Everybody who waits.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = (R, Box<str>)> + use<R> {
        std::mem::take(&mut self.queue).into_iter().flat_map(|asked| asked.waits)
    }
}

impl<R> Owner<R> {
    /// Puts the questions that have come up since this was last called.
    pub fn put_questions(&mut self, mut put: impl FnMut(Question<'_>)) {
        for Unasked { number, user, text, trace } in self.asking.unasked.drain(..) {
            put(Question { number, user: &user, text: &text, trace });
        }
    }

    /// Comments that wait for a ruling.
    pub fn asked_count(&self) -> usize {
        self.asking.queue.len()
    }

    /// A ruling on a comment; pushes the fates that follow from it. One of a number that does not wait is counted where the
    /// rule only observes, and is nothing otherwise.
    pub fn rule_on(&mut self, now: Now, number: u64, ruling: Ruling, decided: &mut Vec<Decided<R>>) {
        self.active_us = now.us;
        self.note_answer(now, &ruling);
        let Some(at) = self.asking.queue.iter().position(|asked| asked.number == number) else {
            if self.gate.mode(Rule::Webhook) == Mode::Observe && self.objects(&ruling) {
                let _ = self.gate.refuse(Rule::Webhook, None);
            }
            return;
        };
        let by = self.asking.queue[at].by;
        self.asking.queue[at].ruling = Some(ruling);
        while let Some(first) = self.asking.queue.iter().position(|asked| asked.by == by) {
            if self.asking.queue[first].ruling.is_none() {
                return;
            }
            let Some(asked) = self.asking.queue.remove(first) else { return };
            self.settle_asked(now, asked, decided);
        }
    }

    /// Where a comment is refused about which nobody answers, there is no use in a crowd that waits for that: enough
    /// questions without an answer, one after the other, open the room's breaker. They count anew then, so that it is the
    /// probes that say whether it opens again.
    fn note_answer(&mut self, now: Now, ruling: &Ruling) {
        let closed = self.config.asked.is_some_and(|bounds| bounds.closed);
        if *ruling != Ruling::Unanswered || !closed || self.gate.mode(Rule::Webhook) != Mode::Enforce {
            self.asking.unanswered = 0;
            return;
        }
        self.asking.unanswered += 1;
        let load = Load { hook_failures: self.asking.unanswered, ..Load::default() };
        if self.config.limits.breaker.saturated(&load) {
            self.asking.unanswered = 0;
            self.gate.observe(now, &load);
        }
    }

    fn objects(&self, ruling: &Ruling) -> bool {
        match ruling {
            Ruling::Pass => false,
            Ruling::Unanswered => self.config.asked.is_some_and(|bounds| bounds.closed),
            Ruling::Refuse | Ruling::Hold | Ruling::Cover | Ruling::Text(_) => true,
        }
    }

    fn settle_asked(&mut self, now: Now, asked: Asked<R>, decided: &mut Vec<Decided<R>>) {
        let Asked { mut comment, mut visibility, ids, delayed, waits, ruling, .. } = asked;
        let key = ids.map(|(key, _)| key);
        let held = self.apply(ruling.unwrap_or(Ruling::Unanswered), &mut comment, &mut visibility);
        let held = held.and_then(|held| {
            let held = held.or(delayed.then_some(Reason::Delay));
            match held {
                Some(reason) => self.holding.check(&self.config.held, reason, now.us)?,
                None => self.may_release(now)?,
            }
            Ok(held)
        });
        let fate = match held {
            Err(refusal) => {
                key.into_iter().for_each(|key| self.ids.release(key));
                Fate::Refused(refusal)
            }
            Ok(Some(reason)) => {
                key.into_iter().for_each(|key| self.ids.be_held(key));
                let to_hold = ToHold { comment, visibility, ids, reason };
                self.holding.hold(&self.config.held, to_hold, now);
                Fate::Held
            }
            Ok(None) => {
                comment.user = self.shown_author(now, &comment.user);
                let seq = self.release(now, visibility, Body::Comment(comment));
                let acked = self.config.durability != Durability::Stored;
                if let Some((key, payload)) = ids {
                    self.ids.number(key, seq, acked);
                    self.ids_to_append.push(StoredId { key, payload, seq, at_ms: now.wall_ms });
                }
                if !acked {
                    for (reply, id) in waits {
                        self.wait(seq, key, reply, &id);
                    }
                    return;
                }
                Fate::Accepted { seq }
            }
        };
        decided.extend(waits.into_iter().map(|(reply, id)| Decided { reply, id, fate }));
    }

    /// What a ruling makes of a comment: whether it is to be held, and for what.
    fn apply(
        &mut self,
        ruling: Ruling,
        comment: &mut Comment,
        visibility: &mut Visibility,
    ) -> Result<Option<Reason>, Refusal> {
        match ruling {
            Ruling::Unanswered if self.config.asked.is_some_and(|bounds| bounds.closed) => {
                let refusal = self.gate.refuse(Rule::Webhook, Some(UNANSWERED_US));
                // It may be taken when it is tried again.
                Err(Refusal { code: ErrorCode::Unavailable, ..refusal })
            }
            Ruling::Pass | Ruling::Unanswered => Ok(None),
            Ruling::Refuse => Err(self.gate.refuse(Rule::Webhook, None)),
            Ruling::Hold => Ok(Some(Reason::Webhook)),
            Ruling::Cover => {
                let whole = 0..comment.text.len();
                comment.text = mask(&comment.text, std::slice::from_ref(&whole), '*').into();
                Ok(None)
            }
            Ruling::Text(replaced) => {
                let Ok(replaced) = text::check(&replaced, &self.config.limits.text) else {
                    return Err(self.gate.refuse(Rule::Webhook, None));
                };
                match self.gate.screen(replaced)? {
                    Screened::Shown => comment.text = replaced.into(),
                    Screened::Masked(masked) => comment.text = masked,
                    Screened::Held => {
                        comment.text = replaced.into();
                        return Ok(Some(Reason::Words));
                    }
                    Screened::Shadowed => {
                        comment.text = replaced.into();
                        *visibility = Visibility::Author(comment.user.id.clone());
                    }
                }
                Ok(None)
            }
        }
    }
}
