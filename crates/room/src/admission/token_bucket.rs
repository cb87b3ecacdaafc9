//! A bucket of tokens: how fast one user may publish, with how much at once.

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
pub struct Bucket {
    tokens: f64,
    at_us: u64,
}

impl Default for Bucket {
    /// A full bucket, whatever the rate.
    fn default() -> Self {
        Self { tokens: f64::INFINITY, at_us: 0 }
    }
}

impl Rate {
    /// Tokens in the bucket now.
    pub fn level(&self, bucket: &Bucket, now_us: u64) -> f64 {
        let refill = now_us.saturating_sub(bucket.at_us) as f64 / 1e6 * self.per_s;
        (bucket.tokens + refill).min(f64::from(self.burst))
    }

    /// Whether there is a token; takes none.
    ///
    /// # Errors
    /// How many microseconds until there is one.
    pub fn check(&self, bucket: &Bucket, now_us: u64) -> Result<(), u64> {
        let level = self.level(bucket, now_us);
        if level < 1.0 - TOKEN_ROUNDING {
            return Err(((1.0 - level) / self.per_s * 1e6).ceil() as u64);
        }
        Ok(())
    }

    /// Takes a token, or what there is of one.
    pub fn charge(&self, bucket: &mut Bucket, now_us: u64) {
        let tokens = (self.level(bucket, now_us) - 1.0).max(0.0);
        *bucket = Bucket { tokens, at_us: now_us };
    }

    /// Tokens that are missing until the bucket is full: nothing is lost when a full one is forgotten.
    pub fn missing(&self, bucket: &Bucket, now_us: u64) -> f64 {
        f64::from(self.burst) - self.level(bucket, now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `check` and `charge`: over any window a user never gets more than burst + rate × window, a user who keeps
        /// to the rate is never refused, and the promised wait is true.
        #[test]
        fn a_bucket_never_gives_more_than_its_bound(gaps in prop::collection::vec(0u64..2_000_000, 1..200)) {
            let rate = Rate { burst: 3, per_s: 2.0 };
            let mut bucket = Bucket::default();
            let (mut now, mut taken) = (0u64, Vec::new());
            for gap in gaps {
                now += gap;
                if let Err(wait) = rate.check(&bucket, now) {
                    prop_assert!(rate.check(&bucket, now + wait - 2).is_err(), "refused before the promise");
                    prop_assert!(wait <= 500_001);
                    now += wait;
                    prop_assert!(rate.check(&bucket, now).is_ok(), "kept at the promise");
                }
                rate.charge(&mut bucket, now);
                taken.push(now);
            }
            for (i, from) in taken.iter().enumerate() {
                for (j, to) in taken.iter().enumerate().skip(i) {
                    let bound = 3.0 + (to - from) as f64 / 1e6 * 2.0;
                    prop_assert!((j - i + 1) as f64 <= bound + 1e-3);
                }
            }
        }

        /// `check`: who never sends faster than the rate is never refused, whatever happened before at rest.
        #[test]
        fn who_keeps_to_the_rate_is_never_refused(
            gaps in prop::collection::vec(200_000u64..3_000_000, 1..200),
            start in any::<u32>(),
        ) {
            let rate = Rate { burst: 1, per_s: 5.0 };
            let (mut bucket, mut now) = (Bucket::default(), u64::from(start));
            for gap in gaps {
                now += gap;
                prop_assert_eq!(rate.check(&bucket, now), Ok(()));
                rate.charge(&mut bucket, now);
            }
        }
    }

    /// `missing`: a bucket is as good as forgotten exactly when it is full.
    #[test]
    fn a_bucket_is_missing_what_was_taken_until_it_came_back() {
        let rate = Rate { burst: 10, per_s: 2.0 };
        let mut bucket = Bucket::default();
        assert_eq!(rate.missing(&bucket, 0), 0.0);
        for _ in 0..4 {
            rate.charge(&mut bucket, 1_000_000);
        }
        assert_eq!(rate.missing(&bucket, 1_000_000), 4.0);
        assert_eq!(rate.missing(&bucket, 2_000_000), 2.0);
        assert_eq!(rate.missing(&bucket, 3_000_000), 0.0);
        assert_eq!(rate.missing(&bucket, 90_000_000), 0.0);
    }
}
