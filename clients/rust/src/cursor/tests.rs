//! The cursor against a log that is a plain list.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Entries of the log; every third is not for this viewer.
const ENTRIES: u64 = 60;

fn is_visible(seq: u64) -> bool {
    !seq.is_multiple_of(3)
}

/// What a server does.
#[derive(Debug, Clone)]
enum Step {
    /// The next batch, so many entries long, beginning so many earlier than it has to.
    Batch { more: u64, overlap: u64 },
    /// A batch that begins later than it may, as if one was lost.
    Skip { by: u64 },
    /// A range again, so many entries back.
    Repeat { back: u64 },
    /// Told as lost.
    Gap { more: u64 },
    /// The connection ends; the next one resumes.
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u64, 0..4u64).prop_map(|(more, overlap)| Step::Batch { more, overlap }),
        1 => (1..4u64).prop_map(|by| Step::Skip { by }),
        2 => (0..10u64).prop_map(|back| Step::Repeat { back }),
        1 => (0..4u64).prop_map(|more| Step::Gap { more }),
        1 => Just(Step::Reconnect),
    ]
}

/// What a viewer of the log should have: kept as plainly as can be.
#[derive(Debug, Default)]
struct Model {
    /// Up to where the viewer was told.
    told: u64,
    /// What was told as lost.
    lost: BTreeSet<u64>,
}

/// Hands a batch to the cursor; gives what is new.
fn receive(cursor: &mut Cursor, from: u64, to: u64) -> (Coverage, Vec<u64>) {
    let coverage = cursor.batch(from, to);
    let fresh = |seq: &u64| coverage == Coverage::Known && is_visible(*seq) && cursor.is_new(*seq);
    let fresh = (from..=to).filter(fresh).collect();
    (coverage, fresh)
}

proptest! {
    /// Whatever a server does: every visible entry up to the position is shown once unless it was told as lost,
    /// nothing beyond it is, and a loss that was not told is noticed.
    #[test]
    fn every_entry_is_shown_once_or_told_as_lost(steps in vec(step(), 1..60)) {
        let mut cursor = Cursor::default();
        cursor.placed(Position::new("e", 0));
        let (mut model, mut shown) = (Model::default(), Vec::new());
        for step in steps {
            match step {
                Step::Batch { more, overlap } => {
                    let from = (model.told + 1).saturating_sub(overlap).max(1);
                    let to = (model.told + more).min(ENTRIES);
                    if to >= from {
                        let (coverage, fresh) = receive(&mut cursor, from, to);
                        prop_assert_eq!(coverage, Coverage::Known);
                        // What a range brings that was told as lost is lost no longer.
                        model.lost.retain(|seq| !fresh.contains(seq));
                        shown.extend(fresh);
                        model.told = model.told.max(to);
                    }
                }
                Step::Skip { by } => {
                    let from = model.told + 1 + by;
                    let (coverage, fresh) = receive(&mut cursor, from, from);
                    prop_assert_eq!((coverage, fresh), (Coverage::Hole, vec![]));
                }
                Step::Repeat { back } => {
                    let (from, to) = (model.told.saturating_sub(back).max(1), model.told);
                    if to >= from {
                        let (coverage, fresh) = receive(&mut cursor, from, to);
                        prop_assert_eq!(coverage, Coverage::Known);
                        model.lost.retain(|seq| !fresh.contains(seq));
                        shown.extend(fresh);
                    }
                }
                Step::Gap { more } => {
                    let to = (model.told + more).min(ENTRIES);
                    cursor.gap(None, to);
                    model.lost.extend((model.told + 1..=to).filter(|seq| is_visible(*seq)));
                    model.told = model.told.max(to);
                }
                Step::Reconnect => cursor.resumed("e".into()),
            }
            let position = Position::new("e", model.told);
            prop_assert_eq!(cursor.position(), Some(&position));
        }
        let once: BTreeSet<u64> = shown.iter().copied().collect();
        prop_assert_eq!(once.len(), shown.len(), "shown twice");
        let owed = (1..=model.told).filter(|seq| is_visible(*seq) && !model.lost.contains(seq));
        prop_assert_eq!(once, owed.collect::<BTreeSet<_>>());
    }

    /// The memory of what came has a bound, and what falls out of it counts as seen.
    #[test]
    fn what_is_forgotten_is_not_shown_again(first in 1..1_000_000u64, again in 0..SEEN_MAX as u64 + 10) {
        let mut seen = Seen::default();
        let numbers = first..first + SEEN_MAX as u64 + 10;
        for seq in numbers {
            prop_assert!(seen.insert(seq));
        }
        prop_assert!(seen.numbers.len() <= SEEN_MAX);
        prop_assert!(!seen.insert(first + again));
    }
}

/// Before the snapshot nothing can be said of a batch.
#[test]
fn a_batch_before_the_snapshot_has_no_place() {
    let mut cursor = Cursor::default();
    cursor.awaits_snapshot("e".into());
    assert_eq!(cursor.batch(1, 2), Coverage::Unplaced);
    cursor.placed(Position::new("e", 5));
    assert_eq!(cursor.batch(7, 7), Coverage::Hole);
    assert_eq!(cursor.batch(6, 7), Coverage::Known);
}
