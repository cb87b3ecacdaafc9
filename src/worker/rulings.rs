//! Comments about which the platform is asked: questions go to the client's thread, rulings come back to the worker
//! that owns the room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, SyncSender};

use danmaku_mailbox::Wake;
use danmaku_room::owner::asked::{Decided, Ruling};
use danmaku_webhook::{Failure, Question, Verdict};
use danmaku_wire::id::RoomId;

use super::Worker;
use super::rooms::OwnerState;

/// A ruling on its way.
#[derive(Debug)]
struct Ruled {
    room: RoomId,
    number: u64,
    ruling: Ruling,
}

/// Rulings that wait for a worker; beyond that the client waits until it has taken some.
const RULINGS_MAX: usize = 4_096;

/// Where rulings come in. As many are on their way as the client lets wait or run.
#[derive(Debug)]
pub(super) struct Rulings {
    to: SyncSender<Ruled>,
    from: Receiver<Ruled>,
}

impl Default for Rulings {
    fn default() -> Self {
        let (to, from) = mpsc::sync_channel(RULINGS_MAX);
        Self { to, from }
    }
}

fn ruling_of(answer: Result<Verdict, Failure>) -> Ruling {
    match answer {
        Ok(Verdict::Pass) => Ruling::Pass,
        Ok(Verdict::Drop { .. }) => Ruling::Refuse,
        Ok(Verdict::Hold { .. }) => Ruling::Hold,
        Ok(Verdict::Mask { text: None, .. }) => Ruling::Cover,
        Ok(Verdict::Mask { text: Some(text), .. } | Verdict::Replace { text, .. }) => {
            Ruling::Text(text.into())
        }
        Err(_) => Ruling::Unanswered,
    }
}

impl Worker {
    /// Asks what the owner of a room has to ask.
    pub(super) fn put_questions(&mut self, room: u32) {
        let local = self.rooms.get(room);
        let Some(OwnerState::Active(active)) = &mut local.owner else { return };
        let (shared, to, index) = (&self.shared, &self.rulings.to, self.index);
        active.owner.put_questions(|asked| {
            let (room, number) = (local.id.clone(), asked.number);
            let (to, bell) = (to.clone(), shared.bells[usize::from(index)].clone());
            let then = move |answer| {
                // A worker that has ended needs no rulings.
                let _ = to.send(Ruled { room, number, ruling: ruling_of(answer) });
                bell.wake();
            };
            let Some(hook) = &shared.hook else { return then(Err(Failure::Stopped)) };
            let question = Question {
                id: format!("{}-{number}", local.id.as_str()),
                room: local.id.as_str().to_owned(),
                user: asked.user.id.as_str().to_owned(),
                role: asked.user.role.as_str().to_owned(),
                text: asked.text.to_owned(),
                traceparent: asked.trace,
            };
            hook.client.ask_then(question, then);
        });
    }

    /// Takes the rulings that have come.
    pub(super) fn take_rulings(&mut self) {
        while let Ok(Ruled { room, number, ruling }) = self.rulings.from.try_recv() {
            let now = self.now;
            let Some(index) = self.rooms.find(room.as_str()) else { continue };
            let Some(OwnerState::Active(active)) = &mut self.rooms.get(index).owner else { continue };
            let mut decided = Vec::new();
            let rule = || active.owner.rule_on(now, number, ruling, &mut decided);
            if catch_unwind(AssertUnwindSafe(rule)).is_err() {
                self.reload(index);
                continue;
            }
            self.touch(index);
            for Decided { reply, id, fate } in decided {
                if let Some(outcome) = self.outcome_of(index, fate) {
                    self.reply(reply, id, outcome);
                }
            }
        }
    }
}
