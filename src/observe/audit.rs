//! Who ordered what, and what came of it: the newest orders in memory, and one line of the log for each.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// An order as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its number, from 1 on; gapless while the process lives.
    pub n: u64,
    /// When, milliseconds since 1970.
    pub at: u64,
    /// Whose it was: `key ID` or `user ID`.
    pub by: Box<str>,
    /// What was ordered, such as `ban` or `retract`.
    pub action: &'static str,
    /// For which room.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub room: Box<str>,
    /// Against whom or what.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub target: Box<str>,
    /// Why.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Box<str>,
    /// What came of it: `done`, or the code of the refusal.
    pub outcome: Box<str>,
}

/// The newest records. Behind a lock, which nobody takes but who orders or reads: never a worker for a comment.
#[derive(Debug, Default)]
pub struct Audit(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Record>,
    newest: u64,
}

impl Audit {
    /// Remembers an order, in place of the oldest where there are `max`, and logs it. The number is given here.
    pub fn add(&self, mut record: Record, max: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.newest += 1;
        record.n = kept.newest;
        // Quoted: what strangers chose may not break a line.
        tracing::info!(
            n = record.n,
            by = ?record.by,
            action = record.action,
            room = ?record.room,
            target = ?record.target,
            reason = ?record.reason,
            outcome = ?record.outcome,
            "audit"
        );
        while kept.records.len() >= max.max(1) {
            kept.records.pop_front();
        }
        kept.records.push_back(record);
    }

    /// At most `limit` records from behind `after` on, oldest first.
    pub fn after(&self, after: u64, limit: usize) -> Vec<Record> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = kept.records.partition_point(|record| record.n <= after);
        kept.records.range(from..).take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Audit::add` and `after`: the newest are kept, in order, by numbers that tell what is missing.
    #[test]
    fn the_newest_orders_are_kept_under_their_numbers() {
        let audit = Audit::default();
        let (room, target, reason) = ("r1".into(), "u1".into(), "".into());
        let (by, outcome) = ("key k1".into(), "done".into());
        let record = Record { n: 0, at: 1, by, action: "ban", room, target, reason, outcome };
        for _ in 0..5 {
            audit.add(record.clone(), 3);
        }
        let numbers = |after, limit| audit.after(after, limit).iter().map(|r| r.n).collect::<Vec<_>>();
        assert_eq!(numbers(0, 10), [3, 4, 5]);
        assert_eq!(numbers(3, 1), [4]);
        assert_eq!(numbers(5, 10), Vec::<u64>::new());
    }
}
