//! Connections that are no sessions: in their handshake, or asking over HTTP.
//!
//! There are so many and no more. The oldest gives way, which is one that takes its time or rests between two requests: to
//! let newcomers wait instead would let a few slow callers shut out everybody.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::task::AbortHandle;

/// Those of one worker, by the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    newest: Cell<u64>,
    tasks: RefCell<BTreeMap<u64, AbortHandle>>,
}

/// A connection's place among them, given up when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    waiting: Rc<Waiting>,
    number: u64,
}

impl Waiting {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// A place for one more. Whether another had to go for it.
    pub(super) fn seat(self: &Rc<Self>, max: usize) -> (Seat, bool) {
        let oldest = (self.len() >= max).then(|| self.tasks.borrow_mut().pop_first()).flatten();
        if let Some((_, task)) = &oldest {
            // It is dropped in its own turn, with its socket and all that it held.
            task.abort();
        }
        let number = self.newest.get() + 1;
        self.newest.set(number);
        (Seat { waiting: Rc::clone(self), number }, oldest.is_some())
    }

    /// The task that serves whoever sits there.
    pub(super) fn serves(&self, number: u64, task: AbortHandle) {
        self.tasks.borrow_mut().insert(number, task);
    }
}

impl Seat {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.waiting.tasks.borrow_mut().remove(&self.number);
    }
}
