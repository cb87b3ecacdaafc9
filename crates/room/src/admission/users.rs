//! What a room remembers of its users: one record each, bounded however many users there are.
//!
//! Where the table is full, the record goes that is worth least among those that are looked at. So a crowd of new
//! users, who have spent little, pushes out its own kind: it neither makes the room forget a spammer who has spent
//! much, nor is anyone refused for want of a place.

use std::collections::HashMap;
use std::hash::Hasher;

/// Records looked at for one that may go, where the table is full.
const LOOKED_AT: usize = 16;
/// Records that a new one looks at, to drop those that are worth nothing any more: two would hold the table at twice
/// what is worth something.
const SWEPT_PER_NEW: usize = 4;

/// Passes a key through that is a keyed hash already.
#[derive(Debug, Default, Clone, Copy)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `u64` is hashed in this crate; anything else would still be spread by its first bytes.
        for (place, byte) in bytes.iter().take(8).enumerate() {
            self.0 ^= u64::from(*byte) << (8 * place);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A map whose keys are keyed hashes of what strangers chose.
#[allow(clippy::disallowed_types, reason = "nobody chooses these keys: they come out of a keyed SipHash")]
pub type HashedMap<V> = HashMap<u64, V, std::hash::BuildHasherDefault<Hashed>>;

/// Records by a keyed hash of the user.
#[derive(Debug)]
pub struct Users<T> {
    users_max: usize,
    places: HashedMap<u32>,
    records: Vec<(u64, T)>,
    /// Where to look next for a record that may go.
    hand: usize,
    forgotten: u64,
}

impl<T: Default> Users<T> {
    /// A table of at most `users_max` records, at least one.
    pub fn new(users_max: usize) -> Self {
        let users_max = users_max.clamp(1, u32::MAX as usize);
        Self { users_max, places: HashedMap::default(), records: Vec::new(), hand: 0, forgotten: 0 }
    }

    /// Another bound from now on; what is above it goes as new users come.
    pub fn set_max(&mut self, users_max: usize) {
        self.users_max = users_max.clamp(1, u32::MAX as usize);
    }

    /// The record of `user`, if there is one.
    pub fn find(&self, user: u64) -> Option<&T> {
        self.places.get(&user).map(|place| &self.records[*place as usize].1)
    }

    /// The record of `user`, made if there is none. `worth` says what would be lost with a record; one that is worth 0
    /// is as good as none.
    pub fn record(&mut self, user: u64, worth: impl Fn(&T) -> u64) -> &mut T {
        let place = match self.places.get(&user) {
            Some(place) => *place as usize,
            None => {
                self.sweep(SWEPT_PER_NEW, &worth);
                // Twice, so that a table whose bound was lowered shrinks.
                for _ in 0..2 {
                    if self.records.len() >= self.users_max {
                        self.forget_one(&worth);
                    }
                }
                self.places.insert(user, self.records.len() as u32);
                self.records.push((user, T::default()));
                self.records.len() - 1
            }
        };
        &mut self.records[place].1
    }

    /// Looks at so many records and drops those that are worth nothing. Gives memory back when few are left.
    pub fn sweep(&mut self, count: usize, worth: &impl Fn(&T) -> u64) {
        for _ in 0..count.min(self.records.len()) {
            if self.hand >= self.records.len() {
                self.hand = 0;
            }
            match worth(&self.records[self.hand].1) {
                0 => self.remove(self.hand),
                _ => self.hand += 1,
            }
        }
    }

    /// Gives memory back that a crowd has left.
    pub fn shrink(&mut self) {
        if self.records.capacity() > 64 && self.records.len() < self.records.capacity() / 4 {
            self.records.shrink_to(self.records.len() * 2);
            self.places.shrink_to(self.records.len() * 2);
        }
    }

    fn forget_one(&mut self, worth: &impl Fn(&T) -> u64) {
        let len = self.records.len();
        let looked_at = (0..LOOKED_AT.min(len)).map(|k| (self.hand + k) % len);
        let least = looked_at.map(|place| (worth(&self.records[place].1), place)).min();
        let Some((worth, place)) = least else { return };
        self.forgotten += u64::from(worth > 0);
        self.remove(place);
        self.hand = (self.hand + LOOKED_AT) % len;
    }

    fn remove(&mut self, place: usize) {
        let (user, _) = self.records.swap_remove(place);
        self.places.remove(&user);
        if let Some((moved, _)) = self.records.get(place) {
            self.places.insert(*moved, place as u32);
        }
    }

    /// Users who were forgotten for want of room since this was last asked.
    pub fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    /// Users remembered.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no user is remembered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// `record`, `sweep` and `find` beside a plain map, below the bound: what is worth something is found as it
        /// was left, and nothing that is worth nothing outlives a whole sweep.
        #[test]
        fn below_its_bound_the_table_is_a_map(ops in prop::collection::vec((0u64..40, 0u64..4), 1..300)) {
            let mut users = Users::<u64>::new(40);
            let mut model = BTreeMap::new();
            for (user, worth) in ops {
                *users.record(user, |worth| *worth) = worth;
                model.insert(user, worth);
                for (user, worth) in &model {
                    match worth {
                        0 => prop_assert!(users.find(*user).is_none_or(|worth| *worth == 0)),
                        _ => prop_assert_eq!(users.find(*user), Some(worth)),
                    }
                }
            }
            // Once from where the hand is, and once more for what that has moved behind it.
            users.sweep(40, &|worth| *worth);
            users.sweep(40, &|worth| *worth);
            users.shrink();
            model.retain(|_, worth| *worth > 0);
            prop_assert_eq!(users.len(), model.len());
            prop_assert!(model.iter().all(|(user, worth)| users.find(*user) == Some(worth)));
            prop_assert_eq!(users.take_forgotten(), 0);
        }

        /// `record` at the bound: never more than the bound, always a place for who comes, and who is worth more than
        /// all who come stays.
        #[test]
        fn at_its_bound_what_is_worth_most_stays(
            max in 17usize..200,
            dear in prop::collection::btree_set(0u64..1_000, 1..16),
            crowd in 200u64..2_000,
        ) {
            let mut users = Users::<u64>::new(max);
            let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let step = crowd / dear.len() as u64;
            let mut to_come = dear.iter();
            for n in 0..crowd {
                if n % step == 0 && let Some(user) = to_come.next() {
                    *users.record(spread(*user), |worth| *worth) = 10;
                }
                *users.record(spread(10_000 + n), |worth| *worth) = 1;
                prop_assert!(users.find(spread(10_000 + n)).is_some());
                prop_assert!(users.len() <= max);
            }
            let lost = dear.iter().filter(|user| users.find(spread(**user)).is_none()).count();
            prop_assert_eq!(lost, to_come.count(), "only those are missing that never came");
        }
    }

    /// `set_max`: a table whose bound was lowered comes down to it as users come, the cheapest first.
    #[test]
    fn a_lower_bound_is_reached_as_users_come() {
        let mut users = Users::<u64>::new(100);
        for user in 0..100 {
            *users.record(user, |worth| *worth) = user + 1;
        }
        users.set_max(20);
        for user in 100..200 {
            *users.record(user, |worth| *worth) = 1_000;
        }
        assert_eq!(users.len(), 20);
        assert!(
            (100..200).filter(|user| users.find(*user).is_some()).count() == 20,
            "what was worth less went"
        );
    }

    /// `shrink`: what a crowd took is given back when it is gone.
    #[test]
    fn a_crowd_that_left_keeps_no_memory() {
        let mut users = Users::<u64>::new(100_000);
        for user in 0..100_000 {
            *users.record(user, |_| 1) = 1;
        }
        users.sweep(100_000, &|_| 0);
        users.shrink();
        assert!(users.is_empty() && users.records.capacity() < 100 && users.places.capacity() < 100);
    }
}
