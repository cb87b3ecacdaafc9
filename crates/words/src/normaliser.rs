//! The normal form of a text as a text, for whoever compares or stores it.

use crate::character::Profile;
use crate::letters::{Letters, TooMuch};
use crate::settle::Settling;

/// Brings texts, words and names into the form in which the filter compares them.
///
/// NFKC, case, width, invisible characters, marks as the profile allows, traditional Chinese; a space
/// wherever anything stood between two letters. The form of a form is itself
/// ([`crate::NORMALISER_VERSION`] tells which rules made it).
#[derive(Default)]
pub struct Normaliser {
    letters: Letters,
    settling: Settling,
    text: String,
}

impl Normaliser {
    /// The normal form of `text`.
    ///
    /// # Errors
    /// [`TooMuch`] for a text of more than [`crate::TEXT_BYTES_MAX`] bytes, or one that NFKC blows up
    /// beyond that or [`crate::GROWTH_MAX`] times its length.
    pub fn normalise(&mut self, text: &str, profile: Profile) -> Result<&str, TooMuch> {
        self.letters.read(text, profile, &mut self.settling)?;
        self.text.clear();
        self.letters.write_to(&mut self.text);
        Ok(&self.text)
    }
}
