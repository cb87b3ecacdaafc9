//! What was lately said, by keyed hashes: bounded in number and in time.

use std::collections::VecDeque;

use super::users::HashedMap;

/// Values by key, each forgotten when its time is over, the oldest before it where there are too many.
#[derive(Debug)]
pub struct Recent<V> {
    values: HashedMap<(u64, V)>,
    /// Keys by the time at which they were remembered.
    order: VecDeque<(u64, u64)>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { values: HashedMap::default(), order: VecDeque::new() }
    }
}

impl<V> Recent<V> {
    /// Drops what is as old as the window, microseconds.
    pub fn forget(&mut self, window_us: u64, now_us: u64) {
        while let Some(&(at_us, key)) = self.order.front() {
            if now_us.saturating_sub(at_us) < window_us {
                return;
            }
            self.order.pop_front();
            self.values.remove(&key);
        }
    }

    /// The value of a key, with the time at which it was remembered; see [`Self::forget`].
    pub fn find(&mut self, key: u64) -> Option<(u64, &mut V)> {
        self.values.get_mut(&key).map(|(at_us, value)| (*at_us, value))
    }

    /// Remembers a key that is not there. Where there are `max` already, the oldest is forgotten.
    pub fn remember(&mut self, key: u64, value: V, max: usize, now_us: u64) {
        while self.order.len() >= max.max(1) {
            let Some((_, oldest)) = self.order.pop_front() else { break };
            self.values.remove(&oldest);
        }
        let before = self.values.insert(key, (now_us, value));
        assert!(before.is_none(), "a key is remembered once at a time");
        self.order.push_back((now_us, key));
    }

    /// Gives memory back that a crowd has left.
    pub fn shrink(&mut self) {
        if self.order.capacity() > 64 && self.order.len() < self.order.capacity() / 4 {
            self.order.shrink_to(self.order.len() * 2);
            self.values.shrink_to(self.order.len() * 2);
        }
    }

    /// Keys remembered.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
