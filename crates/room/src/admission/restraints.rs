//! What was found out about users over all rooms, as far as rooms are to heed it: each restraint for a time.

use super::recent::Recent;

/// Restraints of a kind that are kept; above it the oldest is forgotten.
pub const KEPT_MAX: usize = 16_384;
/// The longest that any is kept, microseconds.
const LONGEST_US: u64 = 3_600_000_000;

/// What is restrained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A user's comments, by its keyed hash.
    Comments,
    /// A user's moves between rooms, by its keyed hash.
    Moves,
    /// A text of a user, by a keyed hash of both: somebody is to look at it.
    Text,
}

/// Restraints of users.
#[derive(Debug, Default)]
pub struct Restraints {
    until_us: [Recent<u64>; 3],
}

impl Restraints {
    /// Restrains until a time.
    pub fn put(&mut self, kind: Kind, key: u64, until_us: u64, now_us: u64) {
        let table = &mut self.until_us[kind as usize];
        table.forget(LONGEST_US, now_us);
        match table.find(key) {
            Some((_, until)) => *until = until_us.max(*until),
            None => table.remember(key, until_us, KEPT_MAX, now_us),
        }
    }

    /// Whether there is any of a kind.
    pub fn has(&self, kind: Kind) -> bool {
        !self.until_us[kind as usize].is_empty()
    }

    /// For how long something is restrained, microseconds; `None` where it is not.
    pub fn wait_us(&mut self, kind: Kind, key: u64, now_us: u64) -> Option<u64> {
        let (_, until_us) = self.until_us[kind as usize].find(key)?;
        until_us.checked_sub(now_us).filter(|wait| *wait > 0)
    }

    /// Forgets what is over, and gives memory back; called about once a second.
    pub fn age(&mut self, now_us: u64) {
        for table in &mut self.until_us {
            table.forget(LONGEST_US, now_us);
            table.shrink();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind by itself, to the end of its time and no longer; a later word extends it and never shortens it.
    #[test]
    fn a_restraint_lasts_as_long_as_was_said() {
        let mut restraints = Restraints::default();
        assert!(!restraints.has(Kind::Comments));
        restraints.put(Kind::Comments, 1, 100, 10);
        restraints.put(Kind::Comments, 1, 50, 20);
        assert_eq!(restraints.wait_us(Kind::Comments, 1, 20), Some(80));
        assert_eq!(restraints.wait_us(Kind::Comments, 1, 100), None);
        assert_eq!(restraints.wait_us(Kind::Moves, 1, 20), None);
        assert_eq!(restraints.wait_us(Kind::Comments, 2, 20), None);
        restraints.put(Kind::Comments, 1, 200, 120);
        assert_eq!(restraints.wait_us(Kind::Comments, 1, 120), Some(80));
    }

    /// However many are put, the table stays within its bound, and the newest are in it.
    #[test]
    fn the_oldest_makes_room() {
        let mut restraints = Restraints::default();
        for key in 0..2 * KEPT_MAX as u64 {
            restraints.put(Kind::Text, key, u64::MAX, key);
        }
        assert_eq!(restraints.until_us[Kind::Text as usize].len(), KEPT_MAX);
        assert_eq!(restraints.wait_us(Kind::Text, 0, 0), None);
        assert!(restraints.wait_us(Kind::Text, 2 * KEPT_MAX as u64 - 1, 0).is_some());
        restraints.age(2 * LONGEST_US);
        assert!(!restraints.has(Kind::Text));
    }
}
