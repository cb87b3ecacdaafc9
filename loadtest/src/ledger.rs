//! What one connection was told, checked against the protocol's promise: from the position joined at,
//! ranges and gaps follow one another without hole or overlap, and every item comes exactly once.

use crate::message::Digest;

/// How the promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Entries before the answer to the join.
    #[error("a batch or gap came before `joined`")]
    NotJoined,
    /// A range that begins later than the one before ended.
    #[error("nothing told of {expected}..{from}: the next range began at {from}")]
    Hole {
        /// Where the next range had to begin.
        expected: u64,
        /// Where it began.
        from: u64,
    },
    /// A range that was told already, in whole or in part.
    #[error("the range {from}..={to} came again: everything before {expected} was told already")]
    Again {
        /// Where the next range had to begin.
        expected: u64,
        /// Where it began.
        from: u64,
        /// Where it ended.
        to: u64,
    },
    /// A range that ends before it begins.
    #[error("the range {from}..={to} ends before it begins")]
    Backwards {
        /// Where it began.
        from: u64,
        /// Where it ended.
        to: u64,
    },
    /// Items outside their batch's range, twice, or not rising.
    #[error("items of the batch {from}..={to} lie outside it, twice or out of order")]
    Order {
        /// Where it began.
        from: u64,
        /// Where it ended.
        to: u64,
    },
    /// Fewer items than the range has, though this viewer was to see all of them.
    #[error("the batch {from}..={to} held {items} items though nothing may be hidden")]
    Absent {
        /// Where it began.
        from: u64,
        /// Where it ended.
        to: u64,
        /// Items it held.
        items: u64,
    },
}

/// The account of one connection.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// The position joined at, and the one up to which everything was told.
    cursor: Option<(u64, u64)>,
    /// Items received.
    pub items: u64,
    /// Sequences covered by batches.
    pub covered: u64,
    /// Sequences told as lost.
    pub lost: u64,
    /// Gaps told.
    pub gaps: u64,
    /// Broken promises.
    pub faults: u64,
}

impl Ledger {
    /// The answer to the join.
    pub fn joined(&mut self, seq: u64) {
        self.cursor = Some((seq, seq));
    }

    /// A batch; `all` if this viewer sees every entry. The range is accounted for even where it is at fault.
    ///
    /// # Errors
    /// When the batch does not follow from what came before.
    pub fn batch(&mut self, batch: &Digest, all: bool) -> Result<(), Fault> {
        let (from, to, items) = (batch.from, batch.to, batch.items);
        let follows = self.advance(from, to);
        self.covered += (to + 1).saturating_sub(from);
        self.items += items;
        self.judge(follows.and_then(|()| {
            if !batch.in_order {
                Err(Fault::Order { from, to })
            } else if all && items != to + 1 - from {
                Err(Fault::Absent { from, to, items })
            } else {
                Ok(())
            }
        }))
    }

    /// A gap.
    ///
    /// # Errors
    /// When it does not follow from what came before.
    pub fn gap(&mut self, from: u64, to: u64) -> Result<(), Fault> {
        let follows = self.advance(from, to);
        self.lost += (to + 1).saturating_sub(from);
        self.gaps += 1;
        self.judge(follows)
    }

    /// Sequences up to `last` that this connection was to be told of; 0 before it joined.
    pub fn owed(&self, last: u64) -> u64 {
        self.cursor.map_or(0, |(joined, _)| last.saturating_sub(joined))
    }

    /// Whether everything up to `last` was told.
    pub fn is_told(&self, last: u64) -> bool {
        self.cursor.is_some_and(|(_, told)| told >= last)
    }

    /// Whether what was covered and what was told as lost add up to everything from the join to `last`,
    /// and no promise was broken on the way: a repeat would make up for a hole in the sum.
    pub fn adds_up(&self, last: u64) -> bool {
        self.faults == 0 && self.is_told(last) && self.covered + self.lost == self.owed(last)
    }

    fn judge(&mut self, verdict: Result<(), Fault>) -> Result<(), Fault> {
        self.faults += u64::from(verdict.is_err());
        verdict
    }

    fn advance(&mut self, from: u64, to: u64) -> Result<(), Fault> {
        let Some((_, told)) = &mut self.cursor else { return Err(Fault::NotJoined) };
        let expected = *told + 1;
        if to < from {
            return Err(Fault::Backwards { from, to });
        }
        *told = to.max(*told);
        match from.cmp(&expected) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Fault::Hole { expected, from }),
            std::cmp::Ordering::Less => Err(Fault::Again { expected, from, to }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Kind;

    fn batch(from: u64, to: u64, items: u64) -> Digest {
        Digest { kind: Kind::Batch, from, to, items, in_order: true, dues: Vec::new() }
    }

    fn joined(seq: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.joined(seq);
        ledger
    }

    /// Batches and gaps that follow one another add up to the published range, and to no other.
    #[test]
    fn delivered_and_lost_add_up_to_what_was_published() {
        let mut ledger = joined(41);
        assert_eq!(ledger.batch(&batch(42, 47, 6), true), Ok(()));
        assert_eq!(ledger.gap(48, 97), Ok(()));
        assert_eq!(ledger.batch(&batch(98, 98, 1), true), Ok(()));
        assert_eq!((ledger.covered, ledger.lost, ledger.gaps, ledger.items), (7, 50, 1, 7));
        assert!(ledger.adds_up(98) && !ledger.adds_up(99) && !ledger.adds_up(97));
    }

    /// Each way of breaking the promise is told as what it is.
    #[test]
    fn every_broken_promise_has_its_name() {
        let check = |from, to, items, all, expected: Result<(), Fault>| {
            let mut ledger = joined(10);
            assert_eq!(ledger.batch(&batch(from, to, items), all), expected, "{from}..={to}");
        };
        check(11, 12, 2, true, Ok(()));
        check(11, 12, 0, false, Ok(()));
        check(11, 12, 1, true, Err(Fault::Absent { from: 11, to: 12, items: 1 }));
        check(12, 12, 1, true, Err(Fault::Hole { expected: 11, from: 12 }));
        check(10, 12, 3, true, Err(Fault::Again { expected: 11, from: 10, to: 12 }));
        check(12, 11, 0, true, Err(Fault::Backwards { from: 12, to: 11 }));
        let unordered = Digest { in_order: false, ..batch(11, 12, 2) };
        assert_eq!(joined(10).batch(&unordered, true), Err(Fault::Order { from: 11, to: 12 }));
        assert_eq!(Ledger::default().gap(1, 2), Err(Fault::NotJoined));
        assert_eq!(joined(10).gap(12, 13), Err(Fault::Hole { expected: 11, from: 12 }));
    }

    /// A range told twice never adds up, even if as many are missing elsewhere.
    #[test]
    fn a_repeat_does_not_make_up_for_a_hole() {
        let mut ledger = joined(0);
        for (from, to) in [(1, 2), (1, 2), (5, 6)] {
            let _ = ledger.batch(&batch(from, to, 2), true);
        }
        assert_eq!((ledger.covered, ledger.owed(6)), (6, 6), "the sum alone cannot tell");
        assert!(ledger.is_told(6) && !ledger.adds_up(6));
    }
}
