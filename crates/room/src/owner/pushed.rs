//! Events of the platform: gifts, superchats, polls, notices and kinds that only it knows. They are numbered, kept and
//! resumed like comments, and pass none of the crowd's rules: whoever pushes them was let in by a key.

use std::hash::Hasher;

use danmaku_wire::entry::{Body, Event, Tier, Visibility};
use danmaku_wire::id::CLIENT_ID_BYTES_MAX;
use danmaku_wire::native::ErrorCode;
use siphasher::sip::SipHasher13;

use super::{Fate, Owner};
use crate::Now;
use crate::admission::Refusal;
use crate::admission::idempotency::{Key, Known};

/// In whose name the ids of pushed events are kept: no user's, whose id has no control character. All back ends share it,
/// since an event's id is the platform's.
const PUSHER: &str = "\u{1}platform";

/// How an event fares where not everything can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Priority {
    /// What was paid for: shown to everybody.
    High,
    /// Shown to everybody.
    #[default]
    Normal,
    /// Likes and entries: not for the `lite` tier, and the first to go where the room cannot keep up.
    Low,
}

impl Priority {
    const fn tier(self) -> Tier {
        match self {
            Self::High | Self::Normal => Tier::Lite,
            Self::Low => Tier::Standard,
        }
    }
}

impl<R> Owner<R> {
    /// The platform's event: to a number, or refused. Pushed again under the same `id` it has the number that it had;
    /// without an id it is another event each time. `reply` is asked for only where the answer comes later.
    pub fn push(
        &mut self,
        now: Now,
        id: &str,
        event: Event,
        priority: Priority,
        reply: impl FnOnce() -> R,
    ) -> Fate {
        self.active_us = now.us;
        if id.len() > CLIENT_ID_BYTES_MAX || id.chars().any(char::is_control) {
            return Fate::Refused(Refusal::of(ErrorCode::IdInvalid));
        }
        if !event.is_of_a_kind() {
            return Fate::Refused(Refusal::of(ErrorCode::BadRequest));
        }
        if event.is_too_long() {
            return Fate::Refused(Refusal::of(ErrorCode::DataTooLong));
        }
        let ids = (!id.is_empty()).then(|| {
            let key = Key::new(&self.config.secret, PUSHER, id);
            (key, hash_of(&self.config.secret, &event, priority))
        });
        if let Some((key, payload)) = ids {
            match self.ids.look_up(key, payload, now.us) {
                Known::Acked(seq) => return Fate::Accepted { seq },
                Known::Pending(_) if self.pending.len() as u64 >= 2 * self.config.unstored_max => {
                    return Fate::Refused(Refusal::until(ErrorCode::StoreUnavailable, 500_000));
                }
                Known::Pending(seq) => {
                    self.wait(seq, Some(key), reply(), id);
                    return Fate::Pending;
                }
                Known::Reused => return Fate::Refused(Refusal::of(ErrorCode::IdReused)),
                Known::Full(us) => return Fate::Refused(Refusal::until(ErrorCode::IdsFull, us)),
                // Events are neither held nor asked about.
                Known::New | Known::Held | Known::Asked => {}
            }
        }
        let allowed = self.may_release(now).and_then(|()| match priority {
            Priority::Low => self.gate.spare(now),
            Priority::High | Priority::Normal => Ok(()),
        });
        if let Err(refusal) = allowed {
            return Fate::Refused(refusal);
        }
        let user = event.user.map(|user| self.shown_author(now, &user));
        let body = Body::Event(Event { user, ..event });
        let seq = self.release(now, Visibility::Tier(priority.tier()), body);
        self.promise(now, seq, ids, reply, id)
    }
}

/// A hash of all that an event says, so that the same id with something else in it is noticed.
fn hash_of(secret: &[u8; 16], event: &Event, priority: Priority) -> u64 {
    let mut hasher = SipHasher13::new_with_key(secret);
    let user = event.user.as_deref();
    for part in [&*event.kind, user.map_or("", |user| user.id.as_str()), &event.data] {
        hasher.write_usize(part.len());
        hasher.write(part.as_bytes());
    }
    hasher.write_u8(priority as u8);
    hasher.finish()
}
