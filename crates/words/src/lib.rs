//! The word filter: what a text says once its disguise is off, and whether a list forbids it.
//!
//! In come texts, and lists compiled from lines that moderators write; out comes a [`Verdict`]: pass,
//! mask these bytes, hold for review, show to its author alone, drop, and the line that said so. One
//! normaliser serves words, texts and names, so that both sides of a comparison are folded alike. Nothing
//! here reads a file or a clock, starts a thread or runs a pattern that a user wrote; a text that matches
//! nothing costs no allocation once the buffers of a [`Screen`] have been used.
//!
//! ```
//! use danmaku_words::{Action, ListOptions, Screen, Verdict, WordList, Watch};
//!
//! let options = ListOptions { name: "global", action: Action::Mask, ..ListOptions::default() };
//! let list = WordList::compile(&options, "# insults\nscum\n轮功 drop\n!link hold\n")?;
//! let mut screen = Screen::default();
//! let verdict = screen.screen("you s.c.u.m!", &[Watch::enforce(&list)])?;
//! assert_eq!(verdict, Verdict::Mask(&[4..11]));
//! assert_eq!(danmaku_words::mask("you s.c.u.m!", &[4..11], '*'), "you *******!");
//! assert_eq!(screen.screen("Scummy pools", &[Watch::enforce(&list)])?, Verdict::Pass);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod character;
mod chinese;
mod contact;
mod fit;
mod gap;
mod letters;
mod lexicon;
mod line;
mod list;
mod lookalike;
mod mask;
mod normaliser;
mod phone;
mod screen;
mod settle;

pub use character::Profile;
pub use letters::{GROWTH_MAX, NORMALISER_VERSION, TEXT_BYTES_MAX, TooMuch};
pub use line::{Action, Pattern, word_of};
pub use list::{
    LIST_BYTES_MAX, ListError, ListOptions, Reason, Rule, RuleId, WORD_LETTERS_MAX, WORDS_MAX, WordList,
};
pub use mask::mask;
pub use normaliser::Normaliser;
pub use screen::{HITS_MAX, Hit, Screen, Verdict, Watch};
