//! Tokens that were verified already, by their hashes: a user who comes back with the same token costs a hash.
//!
//! The table has two generations. What is looked up moves to the young one; when that is full, it becomes the old one,
//! and what nobody asked for since goes. Nothing is ever searched for the oldest.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::user::Identity;

/// A token's hash: all that is kept of the token itself. Half of SHA-256 does: what is looked for is another token with
/// the hash of a given one, and who finds two of his own gains nothing.
pub type TokenHash = [u8; 16];

/// The hash of a token.
pub fn hash(token: &str) -> TokenHash {
    let whole = Sha256::digest(token.as_bytes());
    let mut half = [0; 16];
    half.copy_from_slice(&whole[..16]);
    half
}

/// The table.
#[derive(Debug, Default)]
pub struct Verified {
    /// The key set that the tokens were verified with.
    generation: u64,
    young: HashMap<TokenHash, Arc<Identity>>,
    old: HashMap<TokenHash, Arc<Identity>>,
}

impl Verified {
    /// Who showed a token before, if it was verified with this key set and has not ended since.
    pub fn find(
        &mut self,
        token: &TokenHash,
        generation: u64,
        now_s: u64,
        leeway_s: u64,
    ) -> Option<Arc<Identity>> {
        if generation != self.generation {
            return None;
        }
        let found = match self.young.get(token) {
            Some(found) => Arc::clone(found),
            None => {
                let found = self.old.remove(token)?;
                self.young.insert(*token, Arc::clone(&found));
                found
            }
        };
        if found.ends_s.saturating_add(leeway_s) <= now_s {
            self.young.remove(token);
            return None;
        }
        Some(found)
    }

    /// Keeps what a token says. Tokens that were verified with another key set than the present one are not kept.
    pub fn keep(&mut self, token: TokenHash, identity: Arc<Identity>, generation: u64, max: usize) {
        if generation != self.generation {
            return;
        }
        if self.young.len() >= (max / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token, identity);
    }

    /// Forgets all: from now on only what this key set has verified counts.
    pub fn restart(&mut self, generation: u64) {
        *self = Self { generation, ..Self::default() };
    }

    /// Tokens in it.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use danmaku_wire::id::UserId;

    fn identity(ends_s: u64) -> Arc<Identity> {
        let id = UserId::parse("u1").expect("an id");
        Arc::new(Identity {
            id,
            name: "".into(),
            issued_s: None,
            ends_s,
            everywhere: Default::default(),
            rooms: Box::default(),
        })
    }

    /// `Verified`: a token counts until it ends, and not under other keys.
    #[test]
    fn a_verified_token_counts_until_it_ends_or_the_keys_change() {
        let (mut table, token) = (Verified::default(), hash("token"));
        table.keep(token, identity(100), 0, 8);
        assert!(table.find(&token, 0, 129, 30).is_some());
        assert!(table.find(&hash("other"), 0, 0, 30).is_none());
        assert!(table.find(&token, 1, 0, 30).is_none(), "other keys");
        assert!(table.find(&token, 0, 130, 30).is_none());
        assert!(table.is_empty(), "what has ended is not kept");
        table.keep(token, identity(100), 0, 8);
        table.restart(1);
        assert!(table.find(&token, 1, 0, 30).is_none());
        table.keep(token, identity(100), 0, 8);
        assert!(table.is_empty(), "verified with keys that count no more");
    }

    /// `Verified::keep`: a million tokens shown once take no more room than was given, and push nobody out who comes back.
    #[test]
    fn tokens_shown_once_do_not_push_out_those_that_come_back() {
        let mut table = Verified::default();
        let regular = hash("regular");
        table.keep(regular, identity(100), 0, 64);
        for n in 0..10_000 {
            table.keep(hash(&n.to_string()), identity(100), 0, 64);
            assert!(table.len() <= 64, "{}", table.len());
            assert!(n % 16 != 0 || table.find(&regular, 0, 0, 0).is_some(), "{n}");
        }
    }
}
