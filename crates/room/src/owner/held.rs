//! Comments that were taken and have no number yet: for a moderator to look at, or until their delay is over.
//!
//! They live in memory alone, with the owner: what comes after it knows nothing of them.

use std::collections::VecDeque;
use std::sync::Arc;

use danmaku_wire::entry::{Body, Comment, Visibility};
use danmaku_wire::native::ErrorCode;
use danmaku_wire::position::Epoch;

use super::Owner;
use crate::Now;
use crate::admission::Refusal;
use crate::admission::idempotency::Key;
use crate::store::StoredId;

/// How much may be held, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How long the crowd's comments wait before they are shown, microseconds; 0: not at all.
    pub delay_us: u64,
    /// Comments that wait for their delay at the same time.
    pub delayed_max: usize,
    /// How long a comment waits for a moderator, microseconds; then it is dropped.
    pub review_us: u64,
    /// Comments that wait for a moderator at the same time.
    pub review_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { delay_us: 0, delayed_max: 4_096, review_us: 600_000_000, review_max: 200 }
    }
}

/// Why a comment is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// All of the crowd's are, for the room's delay.
    Delay,
    /// A word list asks for a moderator.
    Words,
    /// The platform's receiver asks for one.
    Webhook,
    /// Its author says the same in many rooms.
    Spread,
}

impl Reason {
    /// As `pending` names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Words => "words",
            Self::Webhook => "webhook",
            Self::Spread => "spread",
        }
    }
}

/// A held comment, as staff sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldComment {
    /// By which it is called until it has a number in the log; no other comment of any owner of the room has it.
    pub number: u64,
    /// The comment, its author's name as it is.
    pub comment: Comment,
    /// When it was published, milliseconds since 1970.
    pub at_ms: u64,
    /// Why it is held.
    pub reason: Reason,
    /// After how long it goes out by itself, milliseconds from its publish on; `None`: only a moderator lets it out.
    pub release_in_ms: Option<u64>,
}

/// A comment that is to be held.
pub(super) struct ToHold {
    pub(super) comment: Comment,
    pub(super) visibility: Visibility,
    pub(super) ids: Option<(Key, u64)>,
    pub(super) reason: Reason,
}

#[derive(Debug)]
struct Held {
    shown: Arc<HeldComment>,
    visibility: Visibility,
    ids: Option<(Key, u64)>,
    /// When it is released, or dropped.
    due_us: u64,
}

/// What became of held comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldTally {
    /// Held for a moderator.
    pub held: u64,
    /// Held for the delay.
    pub delayed: u64,
    /// Let out by a moderator.
    pub released: u64,
    /// Refused by a moderator.
    pub rejected: u64,
    /// Dropped because no moderator looked at them in time.
    pub expired: u64,
    /// Refused because as many wait for a moderator as may.
    pub review_full: u64,
    /// Refused because as many wait for their delay as may.
    pub delayed_full: u64,
    /// Refused because as many wait for the platform's ruling as may.
    pub asked_full: u64,
}

/// The held comments of one room.
#[derive(Debug)]
pub(super) struct Holding {
    /// By the time at which they are dropped.
    review: VecDeque<Held>,
    /// By the time at which they are released.
    delayed: VecDeque<Held>,
    /// Staff has not been told of them.
    news: Vec<Arc<HeldComment>>,
    next: u64,
    tally: HeldTally,
}

impl Holding {
    /// Nothing is held. Numbers begin anywhere, so that those of one owner mean nothing to the next.
    pub(super) fn new(secret: &[u8; 16], epoch: &Epoch) -> Self {
        use std::hash::Hasher;
        let mut hasher = siphasher::sip::SipHasher13::new_with_key(secret);
        hasher.write(epoch.as_str().as_bytes());
        Self {
            review: VecDeque::new(),
            delayed: VecDeque::new(),
            news: Vec::new(),
            // Below 2^53 for as long as anybody counts.
            next: hasher.finish() >> 16,
            tally: HeldTally::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.review.is_empty() && self.delayed.is_empty()
    }

    /// Whether one more may be held.
    pub(super) fn check(&mut self, bounds: &Bounds, reason: Reason, now_us: u64) -> Result<(), Refusal> {
        self.age(now_us);
        let (queue, max, full) = match reason {
            Reason::Delay => (&self.delayed, bounds.delayed_max, &mut self.tally.delayed_full),
            Reason::Words | Reason::Webhook | Reason::Spread => {
                (&self.review, bounds.review_max, &mut self.tally.review_full)
            }
        };
        match queue.front() {
            Some(first) if queue.len() >= max => {
                *full += 1;
                Err(Refusal::until(ErrorCode::Overloaded, first.due_us.saturating_sub(now_us).max(1)))
            }
            _ => Ok(()),
        }
    }

    /// A number that no other comment has.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Counts a comment that was refused because as many are asked about as may.
    pub(super) fn count_asked_full(&mut self) {
        self.tally.asked_full += 1;
    }

    pub(super) fn hold(&mut self, bounds: &Bounds, held: ToHold, now: Now) {
        let ToHold { comment, visibility, ids, reason } = held;
        let number = self.take_number();
        let release_in_ms = (reason == Reason::Delay).then_some(bounds.delay_us / 1_000);
        let shown = Arc::new(HeldComment { number, comment, at_ms: now.wall_ms, reason, release_in_ms });
        self.news.push(Arc::clone(&shown));
        let (queue, wait_us) = match reason {
            Reason::Delay => {
                self.tally.delayed += 1;
                (&mut self.delayed, bounds.delay_us)
            }
            Reason::Words | Reason::Webhook | Reason::Spread => {
                self.tally.held += 1;
                (&mut self.review, bounds.review_us)
            }
        };
        // Those that came before a wait was shortened go out no later than those behind them.
        let due_us = now.us.saturating_add(wait_us);
        for before in queue.iter_mut().rev().take_while(|before| before.due_us > due_us) {
            before.due_us = due_us;
        }
        queue.push_back(Held { shown, visibility, ids, due_us });
    }

    /// Drops those that nobody looked at in time, and gives memory back.
    pub(super) fn age(&mut self, now_us: u64) {
        while self.review.front().is_some_and(|first| first.due_us <= now_us) {
            self.review.pop_front();
            self.tally.expired += 1;
        }
        for queue in [&mut self.review, &mut self.delayed] {
            if queue.capacity() > 64 && queue.len() < queue.capacity() / 4 {
                queue.shrink_to(queue.len() * 2);
            }
        }
    }
}

impl<R> Owner<R> {
    /// Releases comments whose delay is over; all of them where this owner is about to end (`at_once`). They wait on
    /// while nothing may be released.
    pub fn release_due(&mut self, now: Now, at_once: bool) {
        while self.holding.delayed.front().is_some_and(|first| at_once || first.due_us <= now.us) {
            if self.may_release(now).is_err() {
                return;
            }
            let Some(held) = self.holding.delayed.pop_front() else { return };
            self.release_held(now, held);
        }
    }

    /// When the next delay is over, microseconds.
    pub fn release_due_us(&self) -> Option<u64> {
        self.holding.delayed.front().map(|first| first.due_us)
    }

    /// Comments that were held since this was last asked: for the room's staff.
    pub fn take_held_news(&mut self) -> Vec<Arc<HeldComment>> {
        std::mem::take(&mut self.holding.news)
    }

    /// Comments that wait for a moderator, the oldest first, each with the milliseconds that are left for it.
    pub fn held(&self, now: Now) -> impl Iterator<Item = (Arc<HeldComment>, u64)> + '_ {
        let left_ms = move |held: &Held| held.due_us.saturating_sub(now.us) / 1_000;
        self.holding.review.iter().map(move |held| (Arc::clone(&held.shown), left_ms(held)))
    }

    /// Lets a held comment out: its number in the log, or `None` where there is none of this name (any more).
    ///
    /// # Errors
    /// When nothing may be released at the moment; it stays held.
    pub fn let_out(&mut self, now: Now, number: u64) -> Result<Option<u64>, Refusal> {
        let Some(at) = self.find_held(now, number) else { return Ok(None) };
        self.may_release(now)?;
        let Some(held) = self.holding.review.remove(at) else { return Ok(None) };
        self.holding.tally.released += 1;
        Ok(Some(self.release_held(now, held)))
    }

    /// Refuses a held comment for good. Whether there was one of this name.
    pub fn reject(&mut self, now: Now, number: u64) -> bool {
        let Some(at) = self.find_held(now, number) else { return false };
        self.holding.tally.rejected += 1;
        self.holding.review.remove(at).is_some()
    }

    fn find_held(&mut self, now: Now, number: u64) -> Option<usize> {
        self.holding.age(now.us);
        self.holding.review.iter().position(|held| held.shown.number == number)
    }

    fn release_held(&mut self, now: Now, held: Held) -> u64 {
        let mut comment = held.shown.comment.clone();
        comment.user = self.shown_author(now, &comment.user);
        let seq = self.release(now, held.visibility, Body::Comment(comment));
        if let Some((key, payload)) = held.ids {
            self.ids_to_append.push(StoredId { key, payload, seq, at_ms: held.shown.at_ms });
        }
        seq
    }

    /// Comments that wait for a moderator, and those that wait for their delay.
    pub fn held_count(&self) -> (usize, usize) {
        (self.holding.review.len(), self.holding.delayed.len())
    }

    /// What became of held comments since this was last asked.
    pub fn take_held_tally(&mut self) -> HeldTally {
        std::mem::take(&mut self.holding.tally)
    }
}
