//! Who may say what, how fast: the gate in front of a room's log.
//!
//! The order matters, the cheap before the dear: text, idempotency, the user's bucket, the room's
//! window. All state belongs to the room's owner; a clock comes in with every call.

pub mod idempotency;
pub mod sliding_window;
pub mod text;
pub mod token_bucket;

use danmaku_wire::native::ErrorCode;

/// Why a publish was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What the sender is told.
    pub code: ErrorCode,
    /// When it is worth trying again, milliseconds; `None` where it never is.
    pub retry_after_ms: Option<u64>,
}

impl Refusal {
    /// A refusal that trying again does not change.
    pub const fn of(code: ErrorCode) -> Self {
        Self { code, retry_after_ms: None }
    }

    /// A refusal that lifts after `us` microseconds, rounded up so that the promise is kept.
    pub const fn until(code: ErrorCode, us: u64) -> Self {
        Self { code, retry_after_ms: Some(us.div_ceil(1_000)) }
    }
}

/// The limits of a room. `None` lifts a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The bucket of one user in this room.
    pub user: Option<token_bucket::Rate>,
    /// Users whose buckets are kept; above it new users share the longest-idle one's place.
    pub users_max: usize,
    /// The window over all comments of the room.
    pub room: Option<sliding_window::Window>,
    /// Characters and bytes of a text.
    pub text: text::Limits,
    /// Ids kept for idempotency, and for how long.
    pub ids: idempotency::Bounds,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            user: Some(token_bucket::Rate { burst: 10, per_s: 2.0 }),
            users_max: 65_536,
            room: Some(sliding_window::Window { window_us: 10_000_000, count_max: 5_000 }),
            text: text::Limits::default(),
            ids: idempotency::Bounds::default(),
        }
    }
}
