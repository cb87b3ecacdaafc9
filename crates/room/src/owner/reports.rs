//! Comments that viewers have reported to the room's moderators, one place for each comment however many report it.
//!
//! They live in memory alone, with the owner: what comes after it knows nothing of them.

use std::collections::VecDeque;
use std::sync::Arc;

use danmaku_wire::entry::{Author, Body, Comment, Visibility};
use danmaku_wire::native::{ErrorCode, Report};

use super::Owner;
use crate::Now;
use crate::admission::Refusal;
use crate::admission::token_bucket::{Bucket, Rate};
use crate::admission::users::Users;
use crate::house::sanction::REASON_BYTES_MAX;

/// Reporters of one comment who are told apart; further ones change nothing.
const REPORTERS_MAX: usize = 64;
/// Reasons that are kept of one comment, the first ones.
const REASONS_MAX: usize = 4;
/// Users whose rate is remembered; where there are more, it is forgotten of whom least is lost.
const USERS_MAX: usize = 4_096;

/// How much may be reported, and for how long it is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Reported comments that wait for a moderator at the same time; 0: nothing can be reported.
    pub comments_max: usize,
    /// How long a report waits, microseconds; then it is dropped.
    pub ttl_us: u64,
    /// How much one user may report.
    pub rate: Rate,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { comments_max: 200, ttl_us: 86_400_000_000, rate: Rate { burst: 5, per_s: 0.1 } }
    }
}

/// A reported comment, as staff sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// The comment's number.
    pub seq: u64,
    /// The comment.
    pub comment: Comment,
    /// How many users reported it; counted to 64.
    pub count: usize,
    /// Why, in the words of the first who gave any.
    pub reasons: Vec<Box<str>>,
    /// When it was reported first, milliseconds since 1970.
    pub at_ms: u64,
}

#[derive(Debug)]
struct Kept {
    shown: Reported,
    by: Vec<u64>,
    since_us: u64,
    dismissed: bool,
}

/// What became of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportTally {
    /// Taken.
    pub taken: u64,
    /// Refused because their user reports too fast.
    pub too_fast: u64,
    /// Refused because as many comments wait as may.
    pub full: u64,
}

/// The reports of one room.
#[derive(Debug)]
pub(super) struct Reports {
    kept: VecDeque<Kept>,
    users: Users<Bucket>,
    /// Staff has not been told of them.
    news: Vec<Arc<Reported>>,
    tally: ReportTally,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            users: Users::new(USERS_MAX),
            news: Vec::new(),
            tally: ReportTally::default(),
        }
    }
}

impl Reports {
    fn waiting(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter().filter(|kept| !kept.dismissed)
    }

    /// Whether nobody waits for a moderator.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting().next().is_none()
    }

    /// Drops what nobody has looked at in time.
    pub(super) fn age(&mut self, bounds: &Bounds, now_us: u64) {
        self.kept.retain(|kept| now_us.saturating_sub(kept.since_us) < bounds.ttl_us);
        self.kept.shrink_to(self.kept.len() * 2);
        let rate = bounds.rate;
        self.users.sweep(64, &|bucket| worth(&rate, bucket, now_us));
        self.users.shrink();
    }

    /// Forgets the reports of comments that were taken back.
    pub(super) fn settle(&mut self, seqs: &[u64]) {
        self.kept.retain(|kept| !seqs.contains(&kept.shown.seq));
    }
}

fn worth(rate: &Rate, bucket: &Bucket, now_us: u64) -> u64 {
    (rate.missing(bucket, now_us) * 1_000.0).ceil() as u64
}

impl<R> Owner<R> {
    /// A viewer reports a comment of somebody else that is in memory and that everybody sees.
    ///
    /// A second report of the same comment by the same user changes nothing, nor does one of a comment about which a moderator
    /// has decided.
    ///
    /// # Errors
    /// `not_supported` where nothing can be reported, `bad_request` where there is no such comment or the reason is too long,
    /// `rate_limited` and `overloaded` where waiting helps.
    pub fn report(&mut self, now: Now, user: &Author, report: Report<'_>) -> Result<(), Refusal> {
        let bounds = self.config.reports;
        let Report { seq, reason } = report;
        if bounds.comments_max == 0 {
            return Err(Refusal::of(ErrorCode::NotSupported));
        }
        if reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
            return Err(Refusal::of(ErrorCode::BadRequest));
        }
        let by = self.gate.hash_of(user);
        let bucket = self.reports.users.find(by).copied().unwrap_or_default();
        if let Err(wait_us) = bounds.rate.check(&bucket, now.us) {
            self.reports.tally.too_fast += 1;
            return Err(Refusal::until(ErrorCode::RateLimited, wait_us));
        }
        let seen = self.entry(seq).and_then(|entry| match (&entry.visibility, &entry.body) {
            (Visibility::Tier(_), Body::Comment(comment)) => Some(comment.clone()),
            _ => None,
        });
        // One's own is refused whoever sees it, so that nobody learns by it that nobody else does.
        let seen = seen.filter(|comment| comment.user.id != user.id && !self.is_taken_back(seq));
        let Some(comment) = seen else { return Err(Refusal::of(ErrorCode::BadRequest)) };
        let reports = &mut self.reports;
        let record = reports.users.record(by, |bucket| worth(&bounds.rate, bucket, now.us));
        bounds.rate.charge(record, now.us);
        self.active_us = now.us;
        if let Some(kept) = reports.kept.iter_mut().find(|kept| kept.shown.seq == seq) {
            if kept.by.len() < REPORTERS_MAX && !kept.by.contains(&by) {
                kept.by.push(by);
                kept.shown.count = kept.by.len();
                if !reason.is_empty() && kept.shown.reasons.len() < REASONS_MAX {
                    kept.shown.reasons.push(reason.into());
                }
            }
            reports.tally.taken += 1;
            return Ok(());
        }
        if reports.kept.len() >= bounds.comments_max {
            // What was decided makes room first.
            let Some(decided) = reports.kept.iter().position(|kept| kept.dismissed) else {
                reports.tally.full += 1;
                return Err(Refusal::until(ErrorCode::Overloaded, 60_000_000));
            };
            reports.kept.remove(decided);
        }
        let reasons = if reason.is_empty() { Vec::new() } else { vec![reason.into()] };
        let shown = Reported { seq, comment, count: 1, reasons, at_ms: now.wall_ms };
        reports.news.push(Arc::new(shown.clone()));
        reports.kept.push_back(Kept { shown, by: vec![by], since_us: now.us, dismissed: false });
        reports.tally.taken += 1;
        Ok(())
    }

    /// Reported comments that wait for a moderator, the oldest report first.
    pub fn reported(&self) -> impl Iterator<Item = &Reported> {
        self.reports.waiting().map(|kept| &kept.shown)
    }

    /// A moderator has looked at a reported comment and leaves it. Whether it was waiting.
    pub fn dismiss(&mut self, seq: u64) -> bool {
        let kept = self.reports.kept.iter_mut().find(|kept| kept.shown.seq == seq && !kept.dismissed);
        kept.map(|kept| kept.dismissed = true).is_some()
    }

    /// Comments that were reported for the first time since this was last asked: for the room's staff.
    pub fn take_report_news(&mut self) -> Vec<Arc<Reported>> {
        std::mem::take(&mut self.reports.news)
    }

    /// What became of reports since this was last asked.
    pub fn take_report_tally(&mut self) -> ReportTally {
        std::mem::take(&mut self.reports.tally)
    }
}
