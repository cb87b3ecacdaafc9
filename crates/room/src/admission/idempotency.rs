//! A publish that is sent twice happens once.
//!
//! Key = (user or signed guest id, the client's id); the room is the owner's. Same id and same payload:
//! the same ack, or the one that is still pending. Same id and another payload: `id_reused`. Ids live
//! their whole window: where the table is full new ids are refused, nothing younger is evicted.

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::Now;
use crate::store::StoredId;

/// Bounds of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Ids kept; about 100 bytes each.
    pub ids_max: usize,
    /// How long an id is kept, microseconds.
    pub window_us: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { ids_max: 65_536, window_us: 60_000_000 }
    }
}

/// What an id stands for: a 128-bit keyed hash of user and id. Strangers choose both, so the key is the
/// owner's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u128);

impl Key {
    /// The key of `id` as used by `user`.
    pub fn new(secret: &[u8; 16], user: &str, id: &str) -> Self {
        let mut hasher = SipHasher13::new_with_key(secret);
        hasher.write_usize(user.len());
        hasher.write(user.as_bytes());
        hasher.write(id.as_bytes());
        Self(hasher.finish128().as_u128())
    }

    /// The key as a number, to be kept elsewhere; it means something only under the same secret.
    pub const fn to_bits(self) -> u128 {
        self.0
    }

    /// The key that [`Self::to_bits`] gave out.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

/// What the table knows of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Never seen, or long ago.
    New,
    /// Sequenced, waiting for the store: the caller attaches to the pending ack.
    Pending(u64),
    /// Sequenced and acked.
    Acked(u64),
    /// The platform is asked about it: the caller attaches to the one that waits.
    Asked,
    /// Taken without a number: it waits for its delay or a moderator, or did.
    Held,
    /// Used for another payload.
    Reused,
    /// The table is full; the oldest id leaves in so many microseconds.
    Full(u64),
}

/// How far a publish has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Asked,
    Pending,
    Acked,
    Held,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    payload: u64,
    seq: u64,
    stands: Stands,
    at_us: u64,
}

/// The table of one room.
#[derive(Debug)]
pub struct Idempotency {
    bounds: Bounds,
    records: HashMap<Key, Record>,
    /// Keys by the time they were remembered. What was released since, or remembered anew, is skipped
    /// when it comes to the front; until then it counts against the bound.
    order: VecDeque<(u64, Key)>,
}

impl Idempotency {
    /// An empty table.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, records: HashMap::new(), order: VecDeque::new() }
    }

    /// Other bounds from now on. Nothing that is remembered is dropped before its window, old or new, is over.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Looks an id up; `payload` is a hash of everything the publish says.
    pub fn look_up(&mut self, key: Key, payload: u64, now_us: u64) -> Known {
        self.forget(now_us);
        match self.records.get(&key) {
            Some(r) if r.payload != payload => Known::Reused,
            Some(r) => match r.stands {
                Stands::Acked => Known::Acked(r.seq),
                Stands::Held => Known::Held,
                Stands::Asked => Known::Asked,
                Stands::Pending => Known::Pending(r.seq),
            },
            None if self.order.len() < self.bounds.ids_max => Known::New,
            None => {
                let oldest = self.order.front().map_or(now_us, |(at, _)| *at);
                Known::Full((oldest + self.bounds.window_us).saturating_sub(now_us).max(1))
            }
        }
    }

    /// Remembers an id that has just been given `seq`.
    pub fn remember(&mut self, key: Key, payload: u64, seq: u64, acked: bool, now_us: u64) {
        let stands = if acked { Stands::Acked } else { Stands::Pending };
        self.records.insert(key, Record { payload, seq, stands, at_us: now_us });
        self.order.push_back((now_us, key));
    }

    /// Remembers an id whose publish is held. What becomes of it later changes nothing in its answer.
    pub fn hold(&mut self, key: Key, payload: u64, now_us: u64) {
        self.records.insert(key, Record { payload, seq: 0, stands: Stands::Held, at_us: now_us });
        self.order.push_back((now_us, key));
    }

    /// Remembers an id about whose publish the platform is asked.
    pub fn ask(&mut self, key: Key, payload: u64, now_us: u64) {
        self.records.insert(key, Record { payload, seq: 0, stands: Stands::Asked, at_us: now_us });
        self.order.push_back((now_us, key));
    }

    /// The publish behind `key` has got a number.
    pub fn number(&mut self, key: Key, seq: u64, acked: bool) {
        if let Some(record) = self.records.get_mut(&key) {
            record.seq = seq;
            record.stands = if acked { Stands::Acked } else { Stands::Pending };
        }
    }

    /// The publish behind `key` is held.
    pub fn be_held(&mut self, key: Key) {
        if let Some(record) = self.records.get_mut(&key) {
            record.stands = Stands::Held;
        }
    }

    /// The publish behind `key` is stored.
    pub fn acked(&mut self, key: Key) {
        if let Some(record) = self.records.get_mut(&key) {
            record.stands = Stands::Acked;
        }
    }

    /// The publish behind `key` could not be kept: its id is free again.
    pub fn release(&mut self, key: Key) {
        self.records.remove(&key);
    }

    /// Drops what is older than the window.
    pub fn forget(&mut self, now_us: u64) {
        while let Some((at, key)) = self.order.front().copied() {
            let record = self.records.get(&key).filter(|r| r.at_us == at);
            if let Some(record) = record {
                // An ack still pending keeps its id: the store decides, not the clock.
                if matches!(record.stands, Stands::Asked | Stands::Pending)
                    || now_us.saturating_sub(at) < self.bounds.window_us
                {
                    return;
                }
                self.records.remove(&key);
            }
            self.order.pop_front();
        }
    }

    /// The ids that were acked and are still within their window, oldest first, as a store keeps them.
    pub fn kept(&self, now: Now) -> Vec<StoredId> {
        let acked = |(at, key): &(u64, Key)| {
            let record = self.records.get(key).filter(|r| r.at_us == *at && r.stands == Stands::Acked)?;
            let at_ms = now.wall_ms.saturating_sub(now.us.saturating_sub(*at) / 1_000);
            Some(StoredId { key: *key, payload: record.payload, seq: record.seq, at_ms })
        };
        self.order.iter().filter_map(acked).collect()
    }

    /// Ids remembered.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> Key {
        Key::new(&[7; 16], "u1", id)
    }

    /// `look_up` through the life of an id.
    #[test]
    fn an_id_is_new_pending_acked_and_free_again_after_its_window() {
        let mut table = Idempotency::new(Bounds { ids_max: 2, window_us: 100 });
        assert_eq!(table.look_up(key("a"), 1, 0), Known::New);
        table.remember(key("a"), 1, 10, false, 0);
        assert_eq!(table.look_up(key("a"), 1, 1), Known::Pending(10));
        assert_eq!(table.look_up(key("a"), 2, 1), Known::Reused);
        assert_eq!(table.look_up(key("a"), 1, 500), Known::Pending(10), "pending outlives the window");
        table.acked(key("a"));
        table.remember(key("b"), 1, 11, true, 50);
        assert_eq!(table.look_up(key("a"), 1, 99), Known::Acked(10));
        assert_eq!(table.look_up(key("c"), 1, 99), Known::Full(1));
        assert_eq!(table.look_up(key("c"), 1, 100), Known::New);
        assert_eq!(table.look_up(key("a"), 2, 100), Known::New);
        assert_eq!(table.look_up(key("b"), 1, 149), Known::Acked(11));
    }

    /// `release`: an id that was freed and is used anew lives its own window, not the rest of the first.
    #[test]
    fn an_id_used_anew_after_a_failure_lives_a_whole_window() {
        let mut table = Idempotency::new(Bounds { ids_max: 8, window_us: 100 });
        table.remember(key("a"), 1, 10, false, 0);
        table.release(key("a"));
        assert_eq!(table.look_up(key("a"), 1, 60), Known::New);
        table.remember(key("a"), 1, 11, true, 60);
        assert_eq!(table.look_up(key("a"), 1, 120), Known::Acked(11));
        assert_eq!(table.look_up(key("a"), 1, 159), Known::Acked(11));
        assert_eq!(table.look_up(key("a"), 1, 160), Known::New);
    }

    /// `release` frees the id, not its place: a store that fails all the time cannot make the table grow.
    #[test]
    fn released_ids_count_against_the_bound_while_an_older_one_lives() {
        let mut table = Idempotency::new(Bounds { ids_max: 2, window_us: 100 });
        table.remember(key("a"), 1, 10, true, 0);
        table.remember(key("b"), 1, 11, false, 1);
        table.release(key("b"));
        assert_eq!(table.look_up(key("c"), 1, 2), Known::Full(98));
        assert_eq!(table.look_up(key("c"), 1, 100), Known::New);
        assert_eq!(table.order.len(), 0, "both places are free");
    }

    /// `Key::new`: another user's same id, and a shifted border between the two, are other keys.
    #[test]
    fn keys_do_not_run_into_each_other() {
        let k = |user, id| Key::new(&[7; 16], user, id);
        assert_ne!(k("u1", "a"), k("u2", "a"));
        assert_ne!(k("u1", "1a"), k("u11", "a"));
    }
}
