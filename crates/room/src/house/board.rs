//! What stands in a room however old it is: the pin in force with its comment, and the newest state. A log and its replicas
//! let go of what is old; whoever joins is still to see this.

use std::sync::Arc;

use danmaku_wire::entry::{Body, Entry};

use super::settings::State;

/// What stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Board {
    /// The pin in force.
    pub pin: Option<Arc<Entry>>,
    /// The comment that it pins, where it was in memory at the time.
    pub pinned: Option<Arc<Entry>>,
    /// The newest state of the room.
    pub state: Option<Arc<Entry>>,
}

impl Board {
    /// Whether an entry can change a board: what comes as a crowd cannot.
    pub const fn heeds(body: &Body) -> bool {
        matches!(body, Body::Pin { .. } | Body::Retract { .. } | Body::Clear { .. } | Body::State { .. })
    }

    /// Takes the next entry of the log in; `find` looks for a comment by its number.
    pub fn note(&mut self, entry: &Arc<Entry>, find: impl FnOnce(u64) -> Option<Arc<Entry>>) {
        match &entry.body {
            Body::Pin { of: 0 } => self.unpin(),
            Body::Pin { of } => {
                let again = self.pinned.take().filter(|pinned| pinned.seq == *of);
                self.pinned = find(*of).or(again);
                self.pin = Some(Arc::clone(entry));
            }
            Body::Retract { seqs, .. } if self.pins().is_some_and(|of| seqs.contains(&of)) => self.unpin(),
            Body::Clear { up_to } if self.pins().is_some_and(|of| of <= *up_to) => self.unpin(),
            Body::State { .. } => self.state = Some(Arc::clone(entry)),
            _ => {}
        }
    }

    /// The number of the comment that is pinned.
    pub fn pins(&self) -> Option<u64> {
        match self.pin.as_deref() {
            Some(Entry { body: Body::Pin { of }, .. }) => Some(*of),
            _ => None,
        }
    }

    /// The state that members were told last.
    pub fn told_state(&self) -> Option<State> {
        match self.state.as_deref() {
            Some(Entry { body: Body::State { data }, .. }) => Some(State::told(data)),
            _ => None,
        }
    }

    fn unpin(&mut self) {
        (self.pin, self.pinned) = (None, None);
    }

    /// Whether nothing stands.
    pub const fn is_empty(&self) -> bool {
        self.pin.is_none() && self.state.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use danmaku_wire::entry::{Event, Tier, Visibility};

    fn entry(seq: u64, body: Body) -> Arc<Entry> {
        Arc::new(Entry { seq, at_ms: 0, visibility: Visibility::Tier(Tier::Lite), body })
    }

    /// `Board::note`: the newest pin and state stand, until the pin's comment goes.
    #[test]
    fn a_pin_stands_until_its_comment_goes_or_another_comes() {
        let comment = entry(3, Body::Event(Event { kind: "x".into(), user: None, data: "".into() }));
        let mut board = Board::default();
        let mut note = |seq, body| {
            board.note(&entry(seq, body), |of| (of == 3).then(|| Arc::clone(&comment)));
            (board.pins(), board.pinned.as_ref().map(|pinned| pinned.seq))
        };
        assert_eq!(note(4, Body::Pin { of: 3 }), (Some(3), Some(3)));
        assert_eq!(note(5, Body::Retract { epoch: None, seqs: vec![1, 2] }), (Some(3), Some(3)));
        assert_eq!(note(6, Body::Clear { up_to: 2 }), (Some(3), Some(3)));
        assert_eq!(note(7, Body::Retract { epoch: None, seqs: vec![2, 3] }), (None, None));
        assert_eq!(note(8, Body::Pin { of: 2 }), (Some(2), None), "its comment is not in memory");
        assert_eq!(note(9, Body::Clear { up_to: 8 }), (None, None));
        assert_eq!(note(10, Body::Pin { of: 3 }), (Some(3), Some(3)));
        assert_eq!(note(11, Body::State { data: "{}".into() }), (Some(3), Some(3)));
        assert_eq!(note(12, Body::Pin { of: 0 }), (None, None));
        assert_eq!(board.state.map(|state| state.seq), Some(11));
    }
}
