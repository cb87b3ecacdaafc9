//! Tickets: what opens one stream of one room, once and soon, so that a long-lived token need not stand in an address.
//!
//! A ticket says nothing: who it is for is kept here until it is used or too old.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use danmaku_wire::id::{RoomId, UserId};

use super::user::Identity;

/// Random bytes of a ticket.
const BYTES: usize = 16;
/// Tickets of one user that are not used yet: one for each tab that comes back at once, and no way to fill the table.
pub const PER_USER_MAX: u16 = 16;

/// How many there may be, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Tickets that are not used yet.
    pub max: usize,
    /// How long one counts, milliseconds.
    pub life_ms: u64,
}

/// Why there is no ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTicket {
    /// The table is full.
    Full {
        /// How long until it is not, milliseconds.
        wait_ms: u64,
    },
    /// The user has too many.
    TooMany {
        /// How long until one of all ends, milliseconds.
        wait_ms: u64,
    },
}

#[derive(Debug)]
struct Ticket {
    room: RoomId,
    identity: Arc<Identity>,
    ends_ms: u64,
}

/// Tickets that are not used yet.
#[derive(Debug, Default)]
pub struct Tickets {
    open: HashMap<[u8; BYTES], Ticket>,
    /// The same in the order in which they end, with some that were used already.
    by_end: VecDeque<(u64, [u8; BYTES])>,
    per_user: HashMap<UserId, u16>,
}

impl Tickets {
    /// Makes a ticket of random bytes.
    ///
    /// # Errors
    /// When there are too many already.
    pub fn make(
        &mut self,
        identity: Arc<Identity>,
        room: RoomId,
        random: [u8; BYTES],
        now_ms: u64,
        bounds: Bounds,
    ) -> Result<String, NoTicket> {
        self.forget_ended(now_ms);
        let wait_ms = self.by_end.front().map_or(1_000, |(ends_ms, _)| ends_ms.saturating_sub(now_ms).max(1));
        if self.open.len() >= bounds.max {
            return Err(NoTicket::Full { wait_ms });
        }
        // Those that were used lie there until they would have ended; so many of them are worth a sweep.
        if self.by_end.len() >= bounds.max.saturating_mul(2) {
            self.by_end.retain(|(_, ticket)| self.open.contains_key(ticket));
        }
        let count = self.per_user.entry(identity.id.clone()).or_default();
        if *count >= PER_USER_MAX {
            return Err(NoTicket::TooMany { wait_ms });
        }
        *count += 1;
        let ends_ms = now_ms + bounds.life_ms;
        self.by_end.push_back((ends_ms, random));
        self.open.insert(random, Ticket { room, identity, ends_ms });
        Ok(URL_SAFE_NO_PAD.encode(random))
    }

    /// Uses a ticket up: whose it is, if it is one, of this room, and in time. One that is shown for another room is used
    /// up as well.
    pub fn take(&mut self, ticket: &str, room: &RoomId, now_ms: u64) -> Option<Arc<Identity>> {
        self.forget_ended(now_ms);
        let mut bytes = [0; BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(ticket, &mut bytes).ok()?;
        let taken = (length == BYTES).then(|| self.open.remove(&bytes)).flatten()?;
        self.count_out(&taken.identity.id);
        (taken.room == *room && taken.ends_ms > now_ms).then_some(taken.identity)
    }

    fn forget_ended(&mut self, now_ms: u64) {
        while let Some((ends_ms, ticket)) = self.by_end.front()
            && (*ends_ms <= now_ms || !self.open.contains_key(ticket))
        {
            if let Some(ended) = self.open.remove(ticket) {
                let user = ended.identity.id.clone();
                self.count_out(&user);
            }
            self.by_end.pop_front();
        }
    }

    fn count_out(&mut self, user: &UserId) {
        if let Some(count) = self.per_user.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.per_user.remove(user);
            }
        }
    }

    /// Tickets that are not used yet.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { max: 20, life_ms: 60_000 };

    fn identity(id: &str) -> Arc<Identity> {
        Arc::new(Identity {
            id: UserId::parse(id).expect("an id"),
            name: "".into(),
            issued_s: None,
            ends_s: 0,
            everywhere: Default::default(),
            rooms: Box::default(),
        })
    }

    fn room(name: &str) -> RoomId {
        RoomId::parse(name).expect("a room")
    }

    /// `Tickets`: once, in time, in its room.
    #[test]
    fn a_ticket_opens_its_room_once_and_in_time() {
        let mut tickets = Tickets::default();
        let make = |tickets: &mut Tickets, n: u8| {
            tickets.make(identity("u1"), room("r1"), [n; BYTES], 0, BOUNDS).expect("a ticket")
        };
        let ticket = make(&mut tickets, 1);
        let taken = tickets.take(&ticket, &room("r1"), 59_999).expect("counts");
        assert_eq!(taken.id.as_str(), "u1");
        assert_eq!(tickets.take(&ticket, &room("r1"), 59_999), None, "used");
        let ticket = make(&mut tickets, 2);
        assert_eq!(tickets.take(&ticket, &room("r1"), 60_000), None, "late");
        let ticket = make(&mut tickets, 3);
        assert_eq!(tickets.take(&ticket, &room("r2"), 0), None, "another room");
        assert_eq!(tickets.take(&ticket, &room("r1"), 0), None, "used in vain");
        for none in ["", "x", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", "💩"] {
            assert_eq!(tickets.take(none, &room("r1"), 0), None, "{none}");
        }
        assert!(tickets.is_empty() && tickets.per_user.is_empty());
    }

    /// `Tickets::make`: so many of a user, so many of all, and room again when they end.
    #[test]
    fn tickets_are_bounded_by_user_and_in_all() {
        let mut tickets = Tickets::default();
        let mut n = 0;
        let mut make = |tickets: &mut Tickets, user: &str, now_ms| {
            n += 1;
            tickets.make(identity(user), room("r1"), [n; BYTES], now_ms, BOUNDS)
        };
        for _ in 0..PER_USER_MAX {
            make(&mut tickets, "greedy", 1_000).expect("a ticket");
        }
        assert_eq!(make(&mut tickets, "greedy", 2_000), Err(NoTicket::TooMany { wait_ms: 59_000 }));
        for user in ["a", "b", "c", "d"] {
            make(&mut tickets, user, 2_000).expect("a ticket");
        }
        assert_eq!(make(&mut tickets, "e", 3_000), Err(NoTicket::Full { wait_ms: 58_000 }));
        make(&mut tickets, "greedy", 61_000).expect("the first have ended");
        assert_eq!(tickets.len(), 5);
        assert!(make(&mut tickets, "e", 62_000).is_ok());
        assert_eq!(tickets.per_user.len(), 2);
        // Those that are used as soon as they are made leave nothing behind.
        for n in 0..1_000_u16 {
            let mut random = [0xff; BYTES];
            random[..2].copy_from_slice(&n.to_le_bytes());
            let ticket =
                tickets.make(identity("quick"), room("r1"), random, 62_000, BOUNDS).expect("a ticket");
            assert!(tickets.take(&ticket, &room("r1"), 62_000).is_some());
            assert!(tickets.by_end.len() <= 2 * BOUNDS.max, "{n}");
        }
    }
}
