//! The word lists of a room, and what they made of a text.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use danmaku_words::{Screen, TooMuch, Verdict, Watch, WordList, mask};

/// The most lists that one room is held against.
pub const LISTS_MAX: usize = 10;
/// What covers a character that is not to be seen.
const COVER: char = '*';

thread_local! {
    // Buffers alone: they know nothing of a room, and one set for each thread is less than one for each room.
    static SCREEN: RefCell<Screen> = RefCell::default();
}

/// Compiled lists, in the order in which they were named; shared by all rooms of a class.
#[derive(Clone, Default)]
pub struct Words(Arc<[Arc<WordList>]>);

impl Words {
    /// The first [`LISTS_MAX`] lists.
    pub fn new(lists: impl IntoIterator<Item = Arc<WordList>>) -> Self {
        Self(lists.into_iter().take(LISTS_MAX).collect())
    }

    /// The lists.
    pub fn lists(&self) -> &[Arc<WordList>] {
        &self.0
    }

    /// Holds a text against every list.
    pub(super) fn look(&self, text: &str) -> Found {
        let Some(first) = self.0.first() else { return Found::Nothing };
        let mut watches = [Watch::enforce(first); LISTS_MAX];
        for (watch, list) in watches.iter_mut().zip(&*self.0) {
            *watch = Watch::enforce(list);
        }
        SCREEN.with_borrow_mut(|screen| match screen.screen(text, &watches[..self.0.len()]) {
            Ok(Verdict::Pass) => Found::Nothing,
            Ok(Verdict::Mask(ranges)) => Found::Masked(mask(text, ranges, COVER).into()),
            Ok(Verdict::Hold(_)) => Found::Held,
            Ok(Verdict::Shadow(_)) => Found::Shadowed,
            // What cannot be looked at cannot be let pass.
            Ok(Verdict::Drop(_)) | Err(TooMuch { .. }) => Found::Dropped,
        })
    }
}

/// By identity: lists that were read anew are others.
impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&*other.0).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|list| list.name())).finish()
    }
}

/// What the lists found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// Words that are covered here.
    Masked(Box<str>),
    /// A word for which a moderator is to look at the text.
    Held,
    /// A word for which only its author sees the text.
    Shadowed,
    /// A word for which the text is refused.
    Dropped,
}

/// What becomes of a text that the lists do not refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Screened {
    /// It is shown as it is.
    Shown,
    /// This is shown in its place.
    Masked(Box<str>),
    /// A moderator decides.
    Held,
    /// Its author alone sees it.
    Shadowed,
}

/// How often lists did something else than refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WordTally {
    /// Texts of which parts were covered.
    pub masked: u64,
    /// Texts that were held.
    pub held: u64,
    /// Texts that only their authors see.
    pub shadowed: u64,
    /// Names that were covered or left out, each as often as it was looked up.
    pub names: u64,
}
