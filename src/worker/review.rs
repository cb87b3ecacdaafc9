//! Held comments: staff of a room is told of them at once, wherever its sessions are; and the API asks the room's
//! owner about them.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::Refusal;
use danmaku_room::admission::policy::keeps_order;
use danmaku_room::owner::held::HeldComment;
use danmaku_room::owner::reports::Reported;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{ErrorCode, Pending, ServerMessage};
use tokio::sync::oneshot;

use super::Worker;
use super::message::{Control, Request};
use super::rooms::OwnerState;
use super::session::NOWHERE;
use crate::wiring::Shared;

/// What `pending` and the API call a held comment.
pub fn name_of(number: u64) -> String {
    format!("p{number}")
}

/// The number behind [`name_of`].
pub fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('p')?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// What the owner of a room is asked about held comments.
#[derive(Debug)]
pub struct ReviewCall {
    /// The room.
    pub room: RoomId,
    /// What.
    pub ask: ReviewAsk,
    /// Where the answer goes.
    pub answer: oneshot::Sender<ReviewAnswer>,
}

/// A question about held comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewAsk {
    /// Which there are.
    List,
    /// This one is to be let out.
    LetOut(u64),
    /// This one is refused for good.
    Reject(u64),
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq)]
pub enum ReviewAnswer {
    /// Those that wait for a moderator, the oldest first, each with the milliseconds that are left for it.
    List(Vec<(Arc<HeldComment>, u64)>),
    /// It is out, under this number.
    Out(u64),
    /// It is refused.
    Rejected,
    /// There is none of this name, or not any more.
    Unknown,
    /// It cannot be let out at the moment, and waits on.
    Not(Refusal),
}

/// News of held comments on their way to a worker with members.
#[derive(Debug)]
pub struct PendingNews {
    /// The room's index at the follower.
    room: u32,
    /// The attachment meant.
    generation: u32,
    /// What was held, or reported.
    news: Arc<[News]>,
}

/// What staff is told at once.
#[derive(Debug, Clone)]
pub enum News {
    /// A comment was held.
    Held(Arc<HeldComment>),
    /// A comment that everybody sees was reported, for the first time.
    Reported(Arc<Reported>),
}

impl Shared {
    /// Asks the owner of a room about held comments, from any thread.
    ///
    /// # Errors
    /// When its worker takes no more requests at the moment.
    pub fn ask_review(
        &self,
        room: RoomId,
        ask: ReviewAsk,
    ) -> Result<oneshot::Receiver<ReviewAnswer>, Refusal> {
        let (answer, waiting) = oneshot::channel();
        let post = &self.post[usize::from(self.owner(&room))];
        let call = Request::Review(Box::new(ReviewCall { room, ask, answer }));
        // Of no age: it is the worker that has a clock.
        match post.normal(call, 128, u64::MAX) {
            Ok(()) => Ok(waiting),
            Err(_) => Err(Refusal::until(ErrorCode::Overloaded, 500_000)),
        }
    }
}

impl Worker {
    /// Answers a question about held comments.
    pub(super) fn answer_review(&mut self, call: ReviewCall) {
        let ReviewCall { room, ask, answer } = call;
        let now = self.now;
        let index = self.rooms.find(room.as_str());
        let owner = index.and_then(|index| match &mut self.rooms.get(index).owner {
            Some(OwnerState::Active(active)) => Some(&mut active.owner),
            _ => None,
        });
        let told = match (owner, ask) {
            (None, ReviewAsk::List) => ReviewAnswer::List(Vec::new()),
            (None, _) => ReviewAnswer::Unknown,
            (Some(owner), ReviewAsk::List) => ReviewAnswer::List(owner.held(now).collect()),
            (Some(owner), ReviewAsk::LetOut(number)) => match owner.let_out(now, number) {
                Ok(Some(seq)) => ReviewAnswer::Out(seq),
                Ok(None) => ReviewAnswer::Unknown,
                Err(refusal) => ReviewAnswer::Not(refusal),
            },
            (Some(owner), ReviewAsk::Reject(number)) => match owner.reject(now, number) {
                true => ReviewAnswer::Rejected,
                false => ReviewAnswer::Unknown,
            },
        };
        if let (ReviewAnswer::Out(_), Some(index)) = (&told, index) {
            self.touch(index);
        }
        // Who asked may wait no longer.
        let _ = answer.send(told);
    }

    /// Tells the staff of a room owned here, on all workers.
    pub(super) fn spread_news(&mut self, room: u32, news: Vec<News>) {
        if news.is_empty() {
            return;
        }
        let Some(OwnerState::Active(active)) = &self.rooms.get(room).owner else { return };
        let news: Arc<[News]> = news.into();
        let links: Vec<_> = active.links.iter().map(|l| (l.worker, l.room, l.generation)).collect();
        for (worker, room, generation) in links {
            let news = PendingNews { room, generation, news: Arc::clone(&news) };
            if worker == self.index {
                self.tell_staff(&news);
            } else {
                self.post_control(worker, Control::Pending(Box::new(news)));
            }
        }
    }

    /// Tells the staff of a room that is here.
    pub(super) fn tell_staff(&mut self, news: &PendingNews) {
        let Some(local) = self.rooms.get_if(news.room) else { return };
        if local.view.generation != news.generation {
            return;
        }
        let mut staff = std::mem::take(&mut local.view.staff);
        staff.retain(|session| {
            let Some(slot) = self.slab.live(*session) else { return false };
            let is_here = self.slab.hot(slot).room == news.room;
            let is_staff = is_here && self.user(slot).is_some_and(|user| keeps_order(user.author.role));
            if is_staff {
                for one in &*news.news {
                    self.tell_pending(slot, one);
                }
            }
            is_staff
        });
        if let Some(local) = self.rooms.get_if(news.room) {
            local.view.staff.append(&mut staff);
        }
    }

    fn tell_pending(&mut self, slot: u32, news: &News) {
        let owed = self.slab.cold(slot).outbox.as_ref().map_or(0, |outbox| outbox.pending());
        if owed > self.config.outbox_bytes_max {
            // It can still list them; what it reads too slowly is not kept for it.
            self.cells.pending_lost.add(1);
            return;
        }
        let (name, comment, reason, at_ms, release_in_ms) = match news {
            News::Held(held) => {
                let name = name_of(held.number);
                (name, &held.comment, held.reason.as_str(), held.at_ms, held.release_in_ms)
            }
            News::Reported(one) => (format!("r{}", one.seq), &one.comment, "report", one.at_ms, None),
        };
        let (user, text) = (&comment.user, &comment.text);
        let message = Pending { id: &name, user, text, reason, at_ms, release_in_ms };
        self.tell(slot, &ServerMessage::Pending(message));
    }

    /// Notes a session whose user keeps order in its room. Those who do so no longer are passed over later.
    pub(super) fn note_staff(&mut self, slot: u32) {
        let room = self.slab.hot(slot).room;
        if room == NOWHERE || !self.user(slot).is_some_and(|user| keeps_order(user.author.role)) {
            return;
        }
        let session = self.slab.reference(slot);
        let staff = &mut self.rooms.get(room).view.staff;
        if !staff.contains(&session) {
            staff.push(session);
        }
    }

    /// Releases what a room's delay holds no longer; all of it where another process is about to take over.
    pub(super) fn release_due(&mut self, room: u32, now: Now) {
        let at_once = self.is_frozen();
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(room).owner else { return };
        active.owner.release_due(now, at_once);
        let held = active.owner.take_held_news().into_iter().map(News::Held);
        let reported = active.owner.take_report_news().into_iter().map(News::Reported);
        self.spread_news(room, held.chain(reported).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `number_of`: what `name_of` made, and nothing else.
    #[test]
    fn names_of_held_comments_are_read_back() {
        assert_eq!(number_of(&name_of(7)), Some(7));
        for name in ["", "p", "7", "q7", "p-7", "p+7", "p7x", "p99999999999999999999999"] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
