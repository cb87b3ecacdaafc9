//! Reports of comments by viewers, on their way to the room's owner.

use std::sync::Arc;

use danmaku_room::admission::Refusal;
use danmaku_wire::entry::Author;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{ErrorCode, Report};

use super::Worker;
use super::message::{Outcome, Publisher, Reply, ReplyTo, Request};
use super::rooms::OwnerState;
use super::session::{Flags, NOWHERE};

/// A report for a room that is owned elsewhere.
#[derive(Debug)]
pub struct ReportCall {
    room: RoomId,
    reply: ReplyTo,
    user: Arc<Author>,
    seq: u64,
    reason: Box<str>,
}

impl Worker {
    /// The `report` command: answered only where it is refused.
    pub(super) fn report(&mut self, slot: u32, report: Report<'_>) {
        let room = self.slab.hot(slot).room;
        if room == NOWHERE || self.slab.hot(slot).flags.any(Flags::ATTACHING) {
            return self.refuse(slot, None, ErrorCode::NotJoined);
        }
        let reports = self.config.room(&self.rooms.get(room).id).owner.reports;
        if reports.comments_max == 0 {
            // Nobody need ask the owner.
            return self.refuse(slot, None, ErrorCode::NotSupported);
        }
        if !self.may_write(slot) {
            return self.refuse(slot, None, ErrorCode::Unauthorized);
        }
        let user = self.author(slot);
        let unanswered = &mut self.slab.cold(slot).unanswered;
        if *unanswered == u16::MAX {
            return self.refuse(slot, None, ErrorCode::Overloaded);
        }
        *unanswered += 1;
        let publisher = Publisher::Session(self.slab.reference(slot));
        let reply = ReplyTo { worker: self.index, publisher };
        let local = self.rooms.get(room);
        if local.owner.is_some() {
            let outcome = self.report_here(room, &user, report);
            return self.tell_fate(&Reply { publisher, id: "".into(), outcome });
        }
        let (room, reason) = (local.id.clone(), report.reason.into());
        let owner = self.shared.owner(&room);
        let call = Box::new(ReportCall { room, reply, user, seq: report.seq, reason });
        let bytes = 256 + report.reason.len();
        if owner == self.index || self.post(owner).normal(Request::Report(call), bytes, self.now.us).is_err()
        {
            self.cells.mailbox_refused.add(1);
            let outcome = Outcome::Refused(Refusal::until(ErrorCode::Overloaded, 500_000));
            self.tell_fate(&Reply { publisher, id: "".into(), outcome });
        }
    }

    /// A report that came through another worker.
    pub(super) fn take_report(&mut self, call: ReportCall) {
        let ReportCall { room, reply, user, seq, reason } = call;
        let report = Report { seq, reason: &reason };
        let outcome = match self.rooms.find(room.as_str()) {
            Some(index) => self.report_here(index, &user, report),
            None => Outcome::Refused(Refusal::until(ErrorCode::Unavailable, 500_000)),
        };
        self.reply(reply, "".into(), outcome);
    }

    fn report_here(&mut self, room: u32, user: &Author, report: Report<'_>) -> Outcome {
        let now = self.now;
        let Some(OwnerState::Active(active)) = &mut self.rooms.get(room).owner else {
            return Outcome::Refused(Refusal::until(ErrorCode::Unavailable, 500_000));
        };
        let reported = active.owner.report(now, user, report);
        // Its staff is told when the owner is looked at, in this turn.
        self.touch(room);
        reported.map_or_else(Outcome::Refused, |()| Outcome::Noted)
    }
}
