//! What a disk can do to a commit, made to happen by tests. In a server there is nothing in here.

#[cfg(test)]
use std::collections::VecDeque;
#[cfg(test)]
use std::sync::{Arc, Mutex, PoisonError};

/// Faults to come.
#[derive(Debug, Clone, Default)]
pub struct Faults(#[cfg(test)] Arc<Mutex<VecDeque<Fault>>>);

/// What happens to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not done.
    #[cfg(test)]
    NotDone,
    /// It is done, and said not to be: what a failed `fsync` may leave.
    #[cfg(test)]
    DoneInSecret,
}

impl Faults {
    /// What is to happen to the commit that comes next.
    pub(super) fn of_commit(&self) -> Option<Fault> {
        #[cfg(test)]
        return self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        #[cfg(not(test))]
        None
    }

    /// Makes commits fail, one after the other.
    #[cfg(test)]
    pub(super) fn to_come(&self, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }
}
