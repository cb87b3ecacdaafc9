//! What may be said, and how fast, in the order in which it is checked. Pure: limits and the time come
//! in with every call.

pub mod breaker;
pub mod display;
pub mod everywhere;
pub mod folding;
pub mod gate;
pub mod idempotency;
pub mod policy;
pub mod priority;
pub mod recent;
pub mod restraints;
pub mod rule;
pub mod sliding_window;
pub mod text;
pub mod token_bucket;
pub mod users;
pub mod words;
pub mod worker_gate;

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use danmaku_wire::native::ErrorCode;
use siphasher::sip::SipHasher13;

use rule::{Modes, Rule};

/// A keyed hash of what strangers chose; the lengths of the parts keep them apart.
pub fn keyed_hash(secret: &[u8; 16], parts: &[&str]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(secret);
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part.as_bytes());
    }
    hasher.finish()
}

/// Why a publish was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What the sender is told.
    pub code: ErrorCode,
    /// The rule that refused it; `None` where it was no rule of admission.
    pub rule: Option<Rule>,
    /// When it is worth trying again, milliseconds; `None` where it never is.
    pub retry_after_ms: Option<u64>,
}

impl Refusal {
    /// A refusal that trying again does not change.
    pub const fn of(code: ErrorCode) -> Self {
        Self { code, rule: None, retry_after_ms: None }
    }

    /// A refusal that lifts after `us` microseconds, rounded up so that the promise is kept.
    pub const fn until(code: ErrorCode, us: u64) -> Self {
        Self { code, rule: None, retry_after_ms: Some(us.div_ceil(1_000)) }
    }

    /// The refusal of a rule, that lifts after so many microseconds, if it does.
    pub fn by(rule: Rule, us: Option<u64>) -> Self {
        let retry_after_ms = us.map(|us| us.div_ceil(1_000));
        Self { code: rule.row().code, rule: Some(rule), retry_after_ms }
    }
}

impl fmt::Display for Refusal {
    /// What the code means, and which rule it was.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.meaning())?;
        match self.rule {
            Some(rule) => write!(f, " Rule: {}.", rule.name()),
            None => Ok(()),
        }
    }
}

/// What is known of a publisher beside what others see of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// A guest, to whom the guests' rate applies: one without a token, from elsewhere than this machine.
    pub guest: bool,
    /// A member of the room.
    pub member: bool,
    /// Since when it follows the room, milliseconds since 1970.
    pub followed_at_ms: Option<u64>,
    /// Its connection sends faster than it may.
    pub breaks_rate: bool,
    /// What its address is told by; 0 where it is not known.
    pub address: u64,
}

/// The limits of a room. `None` lifts a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// How each rule acts.
    pub modes: Modes,
    /// The bucket of one user in this room.
    pub user: Option<token_bucket::Rate>,
    /// The same for a guest.
    pub guest: token_bucket::Rate,
    /// Users who are remembered; above it the one goes with whom least is lost.
    pub users_max: usize,
    /// The window over all comments of the room.
    pub room: Option<sliding_window::Window>,
    /// How much all VIPs of the room together have priority for.
    pub vip: token_bucket::Rate,
    /// Who goes first, and who is not heard at all.
    pub classes: Arc<priority::Classes>,
    /// What the room asks of whoever writes.
    pub policy: policy::Policy,
    /// Which words texts and names are held against.
    pub words: words::Words,
    /// When the room sheds load.
    pub breaker: breaker::Bounds,
    /// Which texts count as said already.
    pub duplicates: gate::Duplicates,
    /// How much of the room tiers show; `None`: each shows everything.
    pub display: Option<display::Bounds>,
    /// Characters and bytes of a text.
    pub text: text::Limits,
    /// Ids kept for idempotency, and for how long.
    pub ids: idempotency::Bounds,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            modes: Modes::default(),
            user: Some(token_bucket::Rate { burst: 10, per_s: 2.0 }),
            guest: token_bucket::Rate { burst: 3, per_s: 0.2 },
            users_max: 65_536,
            room: Some(sliding_window::Window { window_us: 10_000_000, count_max: 5_000 }),
            vip: token_bucket::Rate { burst: 50, per_s: 50.0 },
            classes: Arc::default(),
            policy: policy::Policy::default(),
            words: words::Words::default(),
            breaker: breaker::Bounds::default(),
            duplicates: gate::Duplicates::default(),
            display: None,
            text: text::Limits::default(),
            ids: idempotency::Bounds::default(),
        }
    }
}
