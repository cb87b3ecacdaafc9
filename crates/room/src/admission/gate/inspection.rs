//! What a room's limiters know of a user, for whoever asks why somebody was refused. Looking changes nothing.

use danmaku_wire::id::UserId;

use super::Gate;
use crate::Now;
use crate::house::sanction::{Sanction, Target};

/// What is known of a user in a room.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inspection {
    /// Comments that the user may say at once; absent where the room has no such rule.
    pub tokens: Option<f64>,
    /// The most of them.
    pub burst: u32,
    /// How many come back in a second.
    pub per_s: f64,
    /// Whether the rate of guests applies.
    pub guest: bool,
    /// How long ago the user's last comment was, microseconds; absent where that is forgotten or never was.
    pub said_ago_us: Option<u64>,
    /// What was decided against the user and is in force; what concerns an address or everybody is not among it.
    pub sanctions: Vec<Sanction>,
}

impl Gate {
    /// What is known of a user. One that is forgotten is like one that has said nothing.
    pub fn inspect(&self, now: Now, user: &UserId) -> Inspection {
        let record = self.users.find(self.hash(&[user.as_str()])).copied().unwrap_or_default();
        let rate = self.rate(record.guest);
        let is_theirs = |sanction: &&Sanction| matches!(&sanction.target, Target::User(of) if of == user);
        Inspection {
            tokens: rate.map(|rate| rate.level(&record.bucket, now.us).max(0.0)),
            burst: rate.map_or(0, |rate| rate.burst),
            per_s: rate.map_or(0.0, |rate| rate.per_s),
            guest: record.guest,
            said_ago_us: record.said_us.map(|said| now.us.saturating_sub(said)),
            sanctions: self.sanctions.in_force(now.wall_ms).filter(is_theirs).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use danmaku_wire::entry::{Author, Mode, Role};
    use danmaku_wire::native::Send;

    use super::*;
    use crate::admission::token_bucket::Rate;
    use crate::admission::worker_gate::WorkerGate;
    use crate::admission::{Limits, Standing, gate::Ask};

    /// `Gate::inspect`: what was charged is missing until it came back, and looking takes nothing.
    #[test]
    fn what_was_spent_is_seen_and_not_spent_by_looking() {
        let limits = Limits { user: Some(Rate { burst: 3, per_s: 1.0 }), ..Limits::default() };
        let mut gate = Gate::new(limits, [7; 16]);
        let id = UserId::parse("u1").expect("valid");
        let at = |us| Now { us, wall_ms: us / 1_000 };
        assert_eq!(gate.inspect(at(1), &id).tokens, Some(3.0));
        let user =
            Author { id: id.clone(), name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() };
        let (mode, text) = (Mode::default(), "x");
        let send = Send { id: "", text, mode, color: 0, size: 25, stream_ms: None, traceparent: "" };
        let mut worker = WorkerGate::default();
        for _ in 0..2 {
            let ask = Ask { user: &user, standing: Standing::default(), client: "", send: &send, text };
            let permit = gate.examine(&mut worker, at(1_000_000), &ask).expect("passes");
            gate.charge(&mut worker, at(1_000_000), &permit);
        }
        for _ in 0..3 {
            let seen = gate.inspect(at(1_500_000), &id);
            assert_eq!((seen.tokens, seen.burst, seen.per_s), (Some(1.5), 3, 1.0));
            assert_eq!((seen.said_ago_us, seen.guest), (Some(500_000), false));
        }
        assert_eq!(gate.inspect(at(9_000_000), &id).tokens, Some(3.0));
        let other = UserId::parse("u2").expect("valid");
        assert_eq!(gate.inspect(at(1_500_000), &other).said_ago_us, None);
    }
}
