//! One bucket per user of a room, bounded however many users there are.

use std::collections::{HashMap, VecDeque};

/// What may be missing of a token: rounding, when the wait that was promised is over.
const TOKEN_ROUNDING: f64 = 1e-9;

/// How fast a user may publish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens of a full bucket.
    pub burst: u32,
    /// Tokens that come back in a second.
    pub per_s: f64,
}

/// A bucket: how full it was when it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    tokens: f64,
    at_us: u64,
}

impl Rate {
    fn level(&self, bucket: Bucket, now_us: u64) -> f64 {
        let refill = now_us.saturating_sub(bucket.at_us) as f64 / 1e6 * self.per_s;
        (bucket.tokens + refill).min(f64::from(self.burst))
    }

    /// How long an empty bucket takes to be full, microseconds: after that it need not be remembered.
    fn full_after_us(&self) -> u64 {
        (f64::from(self.burst) / self.per_s * 1e6) as u64
    }
}

/// The buckets of a room's users, keyed by a keyed hash of the user.
#[derive(Debug)]
pub struct Buckets {
    rate: Rate,
    users_max: usize,
    buckets: HashMap<u64, Bucket>,
    /// Users in the order in which they were last charged, with the time; stale pairs are skipped.
    order: VecDeque<(u64, u64)>,
    /// Users forgotten with a bucket that was not full, for want of room.
    forgotten: u64,
}

impl Buckets {
    /// Buckets for at most `users_max` users.
    pub fn new(rate: Rate, users_max: usize) -> Self {
        Self {
            rate,
            users_max: users_max.max(1),
            buckets: HashMap::new(),
            order: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Another rate and bound from now on; what users have spent stays spent.
    pub fn set_rate(&mut self, rate: Rate, users_max: usize) {
        (self.rate, self.users_max) = (rate, users_max.max(1));
    }

    /// Takes a token of `user`.
    ///
    /// # Errors
    /// How many microseconds until there is one.
    pub fn take(&mut self, user: u64, now_us: u64) -> Result<(), u64> {
        self.forget(now_us);
        let full = Bucket { tokens: f64::from(self.rate.burst), at_us: now_us };
        let level = self.rate.level(self.buckets.get(&user).copied().unwrap_or(full), now_us);
        if level < 1.0 - TOKEN_ROUNDING {
            return Err(((1.0 - level) / self.rate.per_s * 1e6).ceil() as u64);
        }
        self.buckets.insert(user, Bucket { tokens: (level - 1.0).max(0.0), at_us: now_us });
        self.order.push_back((user, now_us));
        Ok(())
    }

    /// Forgets full buckets; over the bound also the one charged longest ago, which gives that user
    /// at most one burst more than its due.
    fn forget(&mut self, now_us: u64) {
        let full_after = self.rate.full_after_us();
        while let Some(&(user, at)) = self.order.front() {
            let stale = self.buckets.get(&user).is_none_or(|b| b.at_us != at);
            let full = now_us.saturating_sub(at) >= full_after;
            let over = self.buckets.len() > self.users_max || self.order.len() > 4 * self.users_max;
            if !(stale || full || over) {
                return;
            }
            self.order.pop_front();
            if !stale {
                self.buckets.remove(&user);
                self.forgotten += u64::from(!full);
            }
        }
    }

    /// Users who were forgotten for want of room since this was last asked.
    pub fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }

    /// Users remembered.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether no user is remembered.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `take`: over any window a user never gets more than burst + rate × window, a user who keeps
        /// to the rate is never refused, and the promised wait is true.
        #[test]
        fn a_bucket_never_gives_more_than_its_bound(gaps in prop::collection::vec(0u64..2_000_000, 1..200)) {
            let rate = Rate { burst: 3, per_s: 2.0 };
            let mut buckets = Buckets::new(rate, 16);
            let (mut now, mut taken) = (0u64, Vec::new());
            for gap in gaps {
                now += gap;
                match buckets.take(7, now) {
                    Ok(()) => taken.push(now),
                    Err(wait) => {
                        prop_assert!(buckets.take(7, now + wait - 2).is_err(), "refused before the promise");
                        prop_assert!(wait <= 500_001);
                        now += wait;
                        prop_assert!(buckets.take(7, now).is_ok(), "kept at the promise");
                        taken.push(now);
                    }
                }
            }
            for (i, from) in taken.iter().enumerate() {
                for (j, to) in taken.iter().enumerate().skip(i) {
                    let bound = 3.0 + (to - from) as f64 / 1e6 * 2.0;
                    prop_assert!((j - i + 1) as f64 <= bound + 1e-3);
                }
            }
        }
    }

    /// `Buckets`: a million one-shot users cost no more than the bound.
    #[test]
    fn one_shot_users_do_not_grow_the_table() {
        let mut buckets = Buckets::new(Rate { burst: 10, per_s: 2.0 }, 1_000);
        for user in 0..1_000_000u64 {
            buckets.take(user, user).expect("a new user has a full bucket");
        }
        assert!(buckets.len() <= 1_001 && buckets.order.len() <= 4_001, "{}", buckets.len());
    }
}
