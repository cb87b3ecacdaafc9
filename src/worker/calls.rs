//! Publishes over HTTP: a request waits on the worker that took it until the room's owner has said what became
//! of its comment.

use std::collections::HashMap;
use std::sync::Arc;

use danmaku_room::admission::{Refusal, Standing};
use danmaku_wire::entry::Author;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use tokio::sync::oneshot;

use super::Worker;
use super::message::{Outcome, OwnedSend, Publish, Publisher, ReplyTo, Request};
use super::orders::Told;

/// A comment that came over HTTP.
#[derive(Debug)]
pub struct Call {
    /// The room.
    pub room: RoomId,
    /// Who wrote it.
    pub user: Arc<Author>,
    /// What is known of them beside.
    pub standing: Standing,
    /// What was written.
    pub send: OwnedSend,
    /// Where the request waits.
    pub answer: oneshot::Sender<Outcome>,
}

/// Requests that wait. Each is a connection of its own, so that what bounds connections bounds them too.
#[derive(Debug, Default)]
pub(super) struct Calls {
    waiting: HashMap<u64, Waiter>,
    newest: u64,
}

/// Where a request waits.
#[derive(Debug)]
pub(super) enum Waiter {
    /// For the fate of a viewer's comment.
    Comment(oneshot::Sender<Outcome>),
    /// For that of a back end's event.
    Event(oneshot::Sender<Told>),
}

impl Waiter {
    fn is_gone(&self) -> bool {
        match self {
            Self::Comment(answer) => answer.is_closed(),
            Self::Event(answer) => answer.is_closed(),
        }
    }

    fn tell(self, outcome: Outcome) {
        // Who waited may be gone, or have waited too long.
        match self {
            Self::Comment(answer) => drop(answer.send(outcome)),
            Self::Event(answer) => drop(answer.send(Told::Fate(outcome))),
        }
    }
}

impl Calls {
    /// The number of a request that waits from now on.
    pub(super) fn wait(&mut self, answer: Waiter) -> u64 {
        let number = self.next();
        self.waiting.insert(number, answer);
        number
    }

    /// A number under which nobody waits.
    pub(super) fn next(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Lets a request wait under a number that [`Self::next`] gave.
    pub(super) fn wait_under(&mut self, number: u64, waiter: Waiter) {
        self.waiting.insert(number, waiter);
    }

    /// Forgets those who have gone away or wait no longer.
    pub(super) fn forget_gone(&mut self) {
        self.waiting.retain(|_, waiter| !waiter.is_gone());
    }
}

impl Worker {
    /// A comment over HTTP, on its way to the room's owner.
    pub(super) fn publish_call(&mut self, call: Call) {
        let Call { room, user, standing, send, answer } = call;
        let number = self.calls.wait(Waiter::Comment(answer));
        let reply = ReplyTo { worker: self.index, publisher: Publisher::Call(number) };
        let owner = self.shared.owner(&room);
        let bytes = 256 + send.as_send().text.len();
        let publish = Publish { room, reply, user, standing, send };
        if owner == self.index {
            return self.publish_from_afar(publish);
        }
        if self.post(owner).normal(Request::Publish(Box::new(publish)), bytes, self.now.us).is_err() {
            self.cells.mailbox_refused.add(1);
            let refusal = Refusal::until(ErrorCode::Overloaded, 500_000);
            self.answer_call(number, &Outcome::Refused(refusal));
        }
    }

    /// What became of a comment that came over HTTP.
    pub(super) fn answer_call(&mut self, number: u64, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted { .. } | Outcome::Held | Outcome::Noted => {}
            Outcome::Refused(refusal) => self.cells.refuse(refusal.code),
            Outcome::NotStored { .. } => self.cells.refuse(ErrorCode::NotStored),
        }
        if let Some(waiter) = self.calls.waiting.remove(&number) {
            waiter.tell(outcome.clone());
        }
    }
}
