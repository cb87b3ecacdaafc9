//! What the configuration says of breakers, and of what all rooms of a worker are held to.

use danmaku_room::admission::{breaker, sliding_window, worker_gate};

use super::raw;
use super::value::Mode;

/// When breakers open.
pub(super) fn bounds(limits: &raw::Limits) -> breaker::Bounds {
    breaker::Bounds {
        load: breaker::Load {
            mailbox_percent: u8::try_from(limits.breaker_mailbox_percent).unwrap_or(100),
            mailbox_age_us: limits.breaker_mailbox_age.us(),
            pass_lag_us: limits.breaker_pass_lag.us(),
            stall_us: limits.breaker_stall.us(),
            hook_failures: limits.breaker_webhook_failures,
        },
        open_us: limits.breaker_open.us(),
        half_open_us: limits.breaker_half_open.us(),
        probes: limits.breaker_probes,
    }
}

/// What all rooms of a worker are held to.
pub(super) fn worker_gate(limits: &raw::Limits) -> worker_gate::Bounds {
    let window =
        sliding_window::Window { window_us: limits.node_window.us(), count_max: limits.node_count_max };
    let node = (limits.node_mode != Mode::Off).then_some(window);
    worker_gate::Bounds { breaker: bounds(limits), node }
}
