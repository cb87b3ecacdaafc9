//! Comments that the old process has taken over HTTP and no longer has rooms for: the new one gives them to the
//! rooms' owners, and the old one answers.

use std::sync::Arc;

use danmaku_room::admission::{Refusal, Standing};
use danmaku_wire::entry::{Author, Mode};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{ErrorCode, Send};

use super::codec::{Malformed, Reader, Writer};
use super::state::{read_author, read_epoch, read_mode, read_room_id, read_seq, write_author};
use crate::worker::message::{Outcome, OwnedSend};

/// A comment on its way, and where its request waits.
#[derive(Debug)]
pub struct Forwarded {
    /// The worker at the old process.
    pub worker: u16,
    /// The request there.
    pub call: u64,
    /// The room.
    pub room: RoomId,
    /// Who wrote it.
    pub user: Arc<Author>,
    /// What is known of them beside.
    pub standing: Standing,
    /// What was written.
    pub send: OwnedSend,
}

/// What became of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The worker at the old process.
    pub worker: u16,
    /// The request there.
    pub call: u64,
    /// What became of it.
    pub outcome: Outcome,
}

pub(super) fn write_forwarded(out: &mut Writer, forwarded: &Forwarded) {
    let Forwarded { worker, call, room, user, standing, send } = forwarded;
    out.u32((*worker).into());
    out.u64(*call);
    out.text(room.as_str());
    write_author(out, user);
    let Standing { guest, member, followed_at_ms, breaks_rate, address } = *standing;
    [guest, member, breaks_rate].into_iter().for_each(|is| out.u8(u8::from(is)));
    out.option(followed_at_ms, Writer::u64);
    out.u64(address);
    let Send { id, text, mode, color, size, stream_ms, traceparent } = send.as_send();
    out.text(id);
    out.text(text);
    out.u8(mode as u8);
    out.u32(color);
    out.u8(size);
    out.option(stream_ms, Writer::u64);
    out.text(traceparent);
}

pub(super) fn read_forwarded(from: &mut Reader<'_>) -> Result<Forwarded, Malformed> {
    let (worker, call) = (read_worker(from)?, from.u64()?);
    let (room, user) = (read_room_id(from)?, Arc::new(read_author(from)?));
    let (guest, member, breaks_rate) = (from.flag()?, from.flag()?, from.flag()?);
    let (followed_at_ms, address) = (from.option(Reader::u64)?, from.u64()?);
    let standing = Standing { guest, member, followed_at_ms, breaks_rate, address };
    let (id, text) = (from.text()?, from.text()?);
    let mode: Mode = read_mode(from)?;
    let (color, size, stream_ms) = (from.u32()?, from.u8()?, from.option(Reader::u64)?);
    let send = Send { id, text, mode, color, size, stream_ms, traceparent: from.text()? };
    Ok(Forwarded { worker, call, room, user, standing, send: OwnedSend::from(&send) })
}

pub(super) fn write_answer(out: &mut Writer, answer: &Answer) {
    let Answer { worker, call, outcome } = answer;
    out.u32((*worker).into());
    out.u64(*call);
    match outcome {
        Outcome::Accepted { seq, epoch } => {
            out.u8(0);
            out.u64(*seq);
            out.option(epoch.as_ref(), |out, epoch| out.text(epoch.as_str()));
        }
        // The rule is told to whoever asks this process; the other one tells the code.
        Outcome::Refused(Refusal { code, retry_after_ms, rule: _ }) => {
            out.u8(1);
            out.text(code.as_str());
            out.option(*retry_after_ms, Writer::u64);
        }
        Outcome::NotStored { seq } => {
            out.u8(2);
            out.u64(*seq);
        }
        Outcome::Held => out.u8(3),
        Outcome::Noted => out.u8(4),
    }
}

pub(super) fn read_answer(from: &mut Reader<'_>) -> Result<Answer, Malformed> {
    let (worker, call) = (read_worker(from)?, from.u64()?);
    let outcome = match from.u8()? {
        0 => Outcome::Accepted { seq: read_seq(from)?, epoch: from.option(read_epoch)? },
        1 => {
            let code = ErrorCode::parse(from.text()?).ok_or(Malformed("a reason that there is not"))?;
            Outcome::Refused(Refusal { code, rule: None, retry_after_ms: from.option(Reader::u64)? })
        }
        2 => Outcome::NotStored { seq: read_seq(from)? },
        3 => Outcome::Held,
        4 => Outcome::Noted,
        _ => return Err(Malformed("an outcome that there is not")),
    };
    Ok(Answer { worker, call, outcome })
}

fn read_worker(from: &mut Reader<'_>) -> Result<u16, Malformed> {
    u16::try_from(from.u32()?).map_err(|_| Malformed("a worker that there is not"))
}
