//! Which rows of the picture are free when, so that comments do not cover each other.
//!
//! Every kind of comment has rows of its own, each as high as an ordinary line; a larger comment takes
//! several that follow each other. Searching costs a walk over the rows, of which there are at most 256.

/// Rows of comments that stand still.
#[derive(Debug)]
pub(super) struct FixedLanes {
    /// From when on each row is free.
    free_ms: Vec<u64>,
    shown_ms: u64,
}

impl FixedLanes {
    pub(super) fn new(lanes: usize, shown_ms: u64) -> Self {
        Self { free_ms: vec![0; lanes], shown_ms }
    }

    /// Takes `lanes` rows from `start_ms` on; the first of them, or none where all are taken and
    /// `overlap` is not allowed.
    pub(super) fn take(&mut self, start_ms: u64, lanes: usize, overlap: bool) -> Option<usize> {
        let lanes = lanes.clamp(1, self.free_ms.len());
        let row = best(&self.free_ms, lanes, |free| free.saturating_sub(start_ms), overlap)?;
        self.free_ms[row..row + lanes].fill(start_ms.saturating_add(self.shown_ms));
        Some(row)
    }
}

/// The last comment of a row that scrolls.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    /// When its end has come into the picture, so that another one may follow.
    inside_ms: u64,
    /// When its end has left the picture: no follower may be at the far edge before.
    gone_ms: u64,
}

/// Rows of comments that move from right to left, each over the whole picture in the same time, so that
/// a longer one is faster.
#[derive(Debug)]
pub(super) struct ScrollLanes {
    last: Vec<Last>,
    width: u64,
    shown_ms: u64,
}

impl ScrollLanes {
    pub(super) fn new(lanes: usize, width: u64, shown_ms: u64) -> Self {
        Self { last: vec![Last::default(); lanes], width, shown_ms }
    }

    /// Takes `lanes` rows for a text of `text_px` from `start_ms` on, `gap_px` behind whoever is there.
    pub(super) fn take(
        &mut self,
        start_ms: u64,
        text_px: u64,
        gap_px: u64,
        lanes: usize,
        overlap: bool,
    ) -> Option<usize> {
        let lanes = lanes.clamp(1, self.last.len());
        let way = self.width + text_px;
        // Its beginning is at the far edge, rounded towards too early.
        let arrives_ms = start_ms.saturating_add(self.shown_ms * self.width / way);
        let late = |last: &Last| {
            last.inside_ms.saturating_sub(start_ms).max(last.gone_ms.saturating_sub(arrives_ms))
        };
        let row = best(&self.last, lanes, late, overlap)?;
        // Rounded towards too late.
        let inside_ms = (self.shown_ms * text_px.saturating_add(gap_px)).div_ceil(way);
        let last = Last {
            inside_ms: start_ms.saturating_add(inside_ms),
            gone_ms: start_ms.saturating_add(self.shown_ms),
        };
        self.last[row..row + lanes].fill(last);
        Some(row)
    }
}

/// The first of `lanes` rows in a run that are free; else, with `overlap`, the run that is soonest free.
/// `late` is for how long a row is still taken.
fn best<R>(rows: &[R], lanes: usize, late: impl Fn(&R) -> u64, overlap: bool) -> Option<usize> {
    let waits = rows.windows(lanes).map(|run| run.iter().map(&late).max().unwrap_or(0)).enumerate();
    let mut soonest: Option<(usize, u64)> = None;
    for (row, wait) in waits {
        if wait == 0 {
            return Some(row);
        }
        if soonest.is_none_or(|(_, least)| wait < least) {
            soonest = Some((row, wait));
        }
    }
    soonest.filter(|_| overlap).map(|(row, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FixedLanes`: rows fill from the edge, and come free when their comment has gone.
    #[test]
    fn fixed_rows_fill_from_the_edge_and_come_free() {
        let mut lanes = FixedLanes::new(3, 5_000);
        assert_eq!(lanes.take(0, 1, false), Some(0));
        assert_eq!(lanes.take(1_000, 2, false), Some(1));
        assert_eq!(lanes.take(2_000, 1, false), None);
        assert_eq!(lanes.take(2_000, 1, true), Some(0));
        assert_eq!(lanes.take(6_000, 2, false), Some(1));
        // Higher than the picture: it takes what there is.
        assert_eq!(lanes.take(20_000, 99, false), Some(0));
    }

    /// `ScrollLanes`: a faster comment waits until it cannot catch up.
    #[test]
    fn a_longer_comment_waits_until_it_cannot_catch_up() {
        let mut lanes = ScrollLanes::new(1, 1_000, 8_000);
        assert_eq!(lanes.take(0, 100, 0, 1, false), Some(0));
        // As long as the first: as soon as that one is inside, at 8000 · 100 / 1100.
        assert_eq!(lanes.take(720, 100, 0, 1, false), None);
        assert_eq!(lanes.take(730, 100, 0, 1, false), Some(0));
        // Ten times as long takes half the time to the far edge: the other is gone at 8730.
        assert_eq!(lanes.take(4_720, 1_000, 0, 1, false), None);
        assert_eq!(lanes.take(4_730, 1_000, 0, 1, false), Some(0));
    }
}
