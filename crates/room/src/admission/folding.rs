//! A crowd that says the same is one comment with a count.
//!
//! The first is shown; each further one within the window raises its count. What is told of a count, and when, is for
//! the caller to say.

use super::recent::Recent;

/// Bounds of folding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How long after a comment others are folded into it, microseconds.
    pub window_us: u64,
    /// Texts remembered; where there are more, the oldest begins anew.
    pub texts_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { window_us: 10_000_000, texts_max: 4_096 }
    }
}

/// What a text is to those who said it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Nobody has, lately.
    New,
    /// Somebody has.
    Fold {
        /// The comment that stands for all of them.
        of: u64,
        /// How many it stands for now, this one included.
        count: u64,
    },
}

#[derive(Debug)]
struct Shown {
    seq: u64,
    count: u64,
}

/// Texts of one room that were lately shown, by a keyed hash.
#[derive(Debug, Default)]
pub struct Folding {
    shown: Recent<Shown>,
}

impl Folding {
    /// Whether a text is to be shown, or raises the count of one that was; it is counted there.
    pub fn say(&mut self, text: u64, bounds: &Bounds, now_us: u64) -> Said {
        self.shown.forget(bounds.window_us, now_us);
        match self.shown.find(text) {
            None => Said::New,
            Some((_, shown)) => {
                shown.count += 1;
                Said::Fold { of: shown.seq, count: shown.count }
            }
        }
    }

    /// A text that was [`Said::New`] is shown under this number.
    pub fn show(&mut self, text: u64, seq: u64, bounds: &Bounds, now_us: u64) {
        self.shown.remember(text, Shown { seq, count: 1 }, bounds.texts_max, now_us);
    }

    /// Forgets what is over, and gives memory back; called about once a second.
    pub fn age(&mut self, bounds: &Bounds, now_us: u64) {
        self.shown.forget(bounds.window_us, now_us);
        self.shown.shrink();
    }

    /// Texts remembered.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `say` and `show` beside the list of all that was shown: a text is new exactly if none like it was shown within
        /// the window among the last so many, and counts are whole.
        #[test]
        fn a_text_is_folded_into_the_one_that_stands_for_it(
            texts_max in 1usize..8,
            said in prop::collection::vec((0u64..40, 0u64..12), 1..200),
        ) {
            let bounds = Bounds { window_us: 300, texts_max };
            let mut folding = Folding::default();
            // Text, number, time, count.
            let mut shown: Vec<(u64, u64, u64, u64)> = Vec::new();
            let mut now = 0;
            for (gap, text) in said {
                now += gap;
                let kept = shown.len().saturating_sub(texts_max);
                let own = shown[kept..].iter_mut().rev().find(|s| s.0 == text && now - s.2 < 300);
                let want = match own {
                    None => Said::New,
                    Some(own) => {
                        own.3 += 1;
                        Said::Fold { of: own.1, count: own.3 }
                    }
                };
                prop_assert_eq!(folding.say(text, &bounds, now), want);
                if want == Said::New {
                    let seq = shown.len() as u64 + 100;
                    folding.show(text, seq, &bounds, now);
                    shown.push((text, seq, now, 1));
                }
                prop_assert!(folding.len() <= texts_max);
            }
        }
    }

    /// `age`: what is over is forgotten, and its memory given back.
    #[test]
    fn a_crowd_that_fell_silent_keeps_no_memory() {
        let bounds = Bounds::default();
        let mut folding = Folding::default();
        for text in 0..1_000_000 {
            assert_eq!(folding.say(text, &bounds, 0), Said::New);
            folding.show(text, text, &bounds, 0);
        }
        assert_eq!(folding.len(), bounds.texts_max);
        folding.age(&bounds, bounds.window_us);
        assert!(folding.is_empty());
    }
}
