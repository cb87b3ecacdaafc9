//! What the staff of a room orders: sanctions, and entries that take comments back, pin one or clear the screen. They are
//! sequenced like everything else, so that everybody sees them at the same place.

use std::collections::BTreeMap;
use std::sync::Arc;

use danmaku_wire::entry::{Body, Entry, Tier, Visibility};
use danmaku_wire::id::UserId;
use danmaku_wire::native::ErrorCode;
use danmaku_wire::position::Epoch;

use super::Owner;
use crate::Now;
use crate::admission::Refusal;
use crate::house::sanction::{Full, Measure, Sanction, Sanctions, Target};
use crate::house::{House, board::Board};

/// Numbers in one retraction, at most: a batch with it stays far below what clients take.
const RETRACTED_PER_ENTRY: usize = 256;

/// What came of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// The number of the last entry that it made; `None` where it made none.
    pub seq: Option<u64>,
    /// How many comments it is about.
    pub count: u64,
}

impl<R> Owner<R> {
    /// Decides something against somebody.
    ///
    /// # Errors
    /// When the room has as many sanctions as it may.
    pub fn sanction(&mut self, now: Now, sanction: Sanction) -> Result<(), Full> {
        self.active_us = now.us;
        let max = self.config.sanctions_max;
        self.gate.sanctions_mut().put(sanction, now.wall_ms, max)
    }

    /// Takes a sanction back; what it was, if it was in force.
    pub fn lift(&mut self, now: Now, measure: Measure, target: &Target) -> Option<Sanction> {
        self.active_us = now.us;
        let lifted = self.gate.sanctions_mut().lift(measure, target);
        lifted.filter(|sanction| sanction.is_in_force(now.wall_ms))
    }

    /// Who may not do what.
    pub fn sanctions(&self) -> &Sanctions {
        self.gate.sanctions()
    }

    /// What stands in the room, however old.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// What the next owner has to know beside the log.
    pub fn house(&self) -> House {
        House {
            sanctions: self.gate.sanctions().in_force(0).cloned().collect(),
            board: self.board.clone(),
            settings: self.settings.clone(),
            stage: self.stage.clone(),
        }
    }

    /// Takes comments back, by their numbers. Those that are no longer in memory are taken back too.
    ///
    /// # Errors
    /// Where a number was never given, or nothing may be released at the moment.
    pub fn retract(&mut self, now: Now, seqs: &[u64]) -> Result<Done, Refusal> {
        if seqs.iter().any(|seq| *seq == 0 || *seq >= self.next_seq) {
            return Err(Refusal::of(ErrorCode::BadRequest));
        }
        self.may_release(now)?;
        self.reports.settle(seqs);
        // What only its author sees is taken back before nobody else.
        let mut runs: BTreeMap<(Option<UserId>, u64), Vec<u64>> = BTreeMap::new();
        for seq in seqs {
            let author = self.entry(*seq).and_then(|entry| match &entry.visibility {
                Visibility::Author(user) => Some(user.clone()),
                _ => None,
            });
            let of_epoch = self.past.partition_point(|(_, last)| last < seq) as u64;
            runs.entry((author, of_epoch)).or_default().push(*seq);
        }
        let mut done = Done::default();
        for ((author, epoch), mut seqs) in runs {
            seqs.sort_unstable();
            seqs.dedup();
            done.count += seqs.len() as u64;
            let epoch: Option<Epoch> = self.past.get(epoch as usize).map(|(epoch, _)| epoch.clone());
            for seqs in seqs.chunks(RETRACTED_PER_ENTRY) {
                let visibility = author.clone().map_or(Visibility::Tier(Tier::Lite), Visibility::Author);
                let body = Body::Retract { epoch: epoch.clone(), seqs: seqs.to_vec() };
                done.seq = Some(self.release(now, visibility, body));
            }
        }
        Ok(done)
    }

    /// Takes back all comments of a user that are in memory.
    ///
    /// # Errors
    /// Where nothing may be released at the moment.
    pub fn retract_user(&mut self, now: Now, user: &UserId) -> Result<Done, Refusal> {
        let is_theirs = |entry: &&Arc<Entry>| match &entry.body {
            Body::Comment(comment) => comment.user.id == *user,
            Body::Event(event) => event.user.as_ref().is_some_and(|author| author.id == *user),
            _ => false,
        };
        let logged = self.log.batches().flat_map(|batch| batch.entries.iter());
        let seqs: Vec<u64> = logged.chain(&self.open).filter(is_theirs).map(|entry| entry.seq).collect();
        self.retract(now, &seqs)
    }

    /// Pins a comment that everybody sees; 0 takes the pin away.
    ///
    /// # Errors
    /// Where there is no such comment in memory that still stands, or nothing may be released at the moment.
    pub fn pin(&mut self, now: Now, of: u64) -> Result<Done, Refusal> {
        let stands = self.entry(of).is_some_and(|entry| {
            let public = matches!(entry.visibility, Visibility::Tier(_));
            public && matches!(entry.body, Body::Comment(_) | Body::Event(_)) && !self.is_taken_back(of)
        });
        if of != 0 && !stands {
            return Err(Refusal::of(ErrorCode::BadRequest));
        }
        self.may_release(now)?;
        let seq = self.release(now, Visibility::Tier(Tier::Lite), Body::Pin { of });
        Ok(Done { seq: Some(seq), count: 1 })
    }

    /// Clears the screen of everything that was said until now.
    ///
    /// # Errors
    /// Where nothing may be released at the moment.
    pub fn clear(&mut self, now: Now) -> Result<Done, Refusal> {
        self.may_release(now)?;
        let up_to = self.next_seq - 1;
        let seq = self.release(now, Visibility::Tier(Tier::Lite), Body::Clear { up_to });
        Ok(Done { seq: Some(seq), count: 0 })
    }

    /// Whether a comment that is in memory was taken back or cleared since.
    pub(super) fn is_taken_back(&self, of: u64) -> bool {
        let later = self.log.batches().rev().take_while(|batch| batch.to >= of).filter(|batch| batch.orders);
        later.flat_map(|batch| batch.entries.iter()).chain(&self.open).any(|entry| match &entry.body {
            Body::Retract { seqs, .. } => seqs.contains(&of),
            Body::Clear { up_to } => *up_to >= of,
            _ => false,
        })
    }

    /// The entry of a number, where it is in memory.
    pub fn entry(&self, seq: u64) -> Option<&Arc<Entry>> {
        let open = self.open.first().map_or(self.next_seq, |first| first.seq);
        if seq >= open {
            return self.open.get((seq - open) as usize);
        }
        self.log.entry(seq)
    }
}
