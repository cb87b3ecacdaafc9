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
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
    newest: u64,
}

impl Calls {
    /// The number of a request that waits from now on.
    pub(super) fn wait(&mut self, answer: oneshot::Sender<Outcome>) -> u64 {
        self.newest += 1;
        self.waiting.insert(self.newest, answer);
        self.newest
    }

    /// Forgets those who have gone away or wait no longer.
    pub(super) fn forget_gone(&mut self) {
        self.waiting.retain(|_, answer| !answer.is_closed());
    }
}

impl Worker {
    /// A comment over HTTP, on its way to the room's owner.
    pub(super) fn publish_call(&mut self, call: Call) {
        let Call { room, user, standing, send, answer } = call;
        let number = self.calls.wait(answer);
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
            Outcome::Accepted { .. } | Outcome::Held => {}
            Outcome::Refused(refusal) => self.cells.refuse(refusal.code),
            Outcome::NotStored { .. } => self.cells.refuse(ErrorCode::NotStored),
        }
        // Who waited may be gone, or have waited too long.
        if let Some(answer) = self.calls.waiting.remove(&number) {
            let _ = answer.send(outcome.clone());
        }
    }
}
