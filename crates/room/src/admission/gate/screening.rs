//! What a room's word lists make of texts and names.

use super::Gate;
use crate::admission::Refusal;
use crate::admission::recent::Recent;
use crate::admission::rule::{Mode, Rule};
use crate::admission::words::{Found, Screened, WordTally};

/// Names that are remembered with what the lists made of them.
const NAMES_MAX: usize = 4_096;
/// For how long, microseconds.
const NAMES_US: u64 = 600_000_000;

/// Names that were looked at lately, by a keyed hash: `None` where nothing was found.
#[derive(Debug, Default)]
pub(super) struct Names(Recent<Option<Box<str>>>);

impl Names {
    /// Forgets what is over, and gives memory back.
    pub(super) fn age(&mut self, now_us: u64) {
        self.0.forget(NAMES_US, now_us);
        self.0.shrink();
    }
}

impl Gate {
    /// What becomes of a text by the room's lists.
    ///
    /// # Errors
    /// When they do not let it pass.
    pub fn screen(&mut self, text: &str) -> Result<Screened, Refusal> {
        let mode = self.limits.modes.at(Rule::Words);
        if mode == Mode::Off {
            return Ok(Screened::Shown);
        }
        let found = self.limits.words.look(text);
        if found == Found::Nothing {
            return Ok(Screened::Shown);
        }
        if mode == Mode::Observe {
            self.tally.meets(Rule::Words, mode);
            return Ok(Screened::Shown);
        }
        let tally = &mut self.words_tally;
        match found {
            Found::Nothing => Ok(Screened::Shown),
            Found::Masked(text) => {
                tally.masked += 1;
                Ok(Screened::Masked(text))
            }
            Found::Held => {
                tally.held += 1;
                Ok(Screened::Held)
            }
            Found::Shadowed => {
                tally.shadowed += 1;
                Ok(Screened::Shadowed)
            }
            Found::Dropped => {
                self.tally.meets(Rule::Words, mode);
                Err(Refusal::by(Rule::Words, None))
            }
        }
    }

    /// The name to be shown in place of one in which the lists find something: with covered parts, or empty. `None`: it
    /// is shown as it is.
    pub fn screen_name(&mut self, name: &str, now_us: u64) -> Option<&str> {
        let limits = &self.limits;
        if name.is_empty() || limits.words.lists().is_empty() || limits.modes.at(Rule::Words) != Mode::Enforce
        {
            return None;
        }
        let key = self.hash(&[name]);
        self.names.0.forget(NAMES_US, now_us);
        if self.names.0.find(key).is_none() {
            let shown = match self.limits.words.look(name) {
                Found::Nothing => None,
                Found::Masked(name) => Some(name),
                Found::Held | Found::Shadowed | Found::Dropped => Some(Box::default()),
            };
            self.words_tally.names += u64::from(shown.is_some());
            self.names.0.remember(key, shown, NAMES_MAX, now_us);
        }
        self.names.0.find(key).and_then(|(_, shown)| shown.as_deref())
    }

    /// What lists did beside refusing since this was last asked.
    pub fn take_word_tally(&mut self) -> WordTally {
        std::mem::take(&mut self.words_tally)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use danmaku_words::{ListOptions, WordList};

    use super::*;
    use crate::admission::Limits;
    use crate::admission::words::Words;

    fn gate(lines: &str, mode: Mode) -> Gate {
        let list = WordList::compile(&ListOptions::default(), lines).expect("a list");
        let mut limits = Limits { words: Words::new([Arc::new(list)]), ..Limits::default() };
        limits.modes.set(Rule::Words, mode);
        Gate::new(limits, [7; 16])
    }

    const LINES: &str = "scum\nspoiler mask\nbet hold\npyramid shadow\n";

    /// `Gate::screen`: each action, and each mode of the rule.
    #[test]
    fn lists_refuse_cover_hold_and_hide_where_they_are_enforced() {
        let dropped = Err(Refusal::by(Rule::Words, None));
        for (text, enforced) in [
            ("good evening", Ok(Screened::Shown)),
            ("you s.c.u.m", dropped.clone()),
            ("a spoiler here", Ok(Screened::Masked("a ******* here".into()))),
            ("place a bet", Ok(Screened::Held)),
            ("my pyramid", Ok(Screened::Shadowed)),
            ("my pyramid, scum", dropped),
        ] {
            assert_eq!(gate(LINES, Mode::Enforce).screen(text), enforced, "{text}");
            let mut observing = gate(LINES, Mode::Observe);
            assert_eq!(observing.screen(text), Ok(Screened::Shown), "{text}");
            let found = u64::from(enforced != Ok(Screened::Shown));
            assert_eq!(observing.take_tally().observed.at(Rule::Words), found, "{text}");
            assert_eq!(gate(LINES, Mode::Off).screen(text), Ok(Screened::Shown), "{text}");
        }
    }

    /// `Gate::take_word_tally`: once for each.
    #[test]
    fn what_lists_do_is_counted() {
        let mut gate = gate(LINES, Mode::Enforce);
        for text in ["a spoiler", "a bet", "a pyramid", "scum", "nothing"] {
            let _ = gate.screen(text);
        }
        assert_eq!(gate.take_word_tally(), WordTally { masked: 1, held: 1, shadowed: 1, names: 0 });
        assert_eq!(gate.take_tally().refused.at(Rule::Words), 1);
    }

    /// `Gate::screen_name`: parts are covered, worse names are left out; other lists look again.
    #[test]
    fn names_are_covered_or_left_out_by_the_lists_of_the_moment() {
        let mut gate = gate(LINES, Mode::Enforce);
        for _ in 0..2 {
            assert_eq!(gate.screen_name("Ann", 0), None);
            assert_eq!(gate.screen_name("Spoiler Bob", 0), Some("******* Bob"));
            assert_eq!(gate.screen_name("Scum Bob", 0), Some(""));
        }
        assert_eq!(gate.take_word_tally().names, 2, "looked at once");
        gate.set_limits(Limits { words: Words::default(), ..gate.limits.clone() });
        assert_eq!(gate.screen_name("Scum Bob", 0), None);
    }

    /// `NAMES_MAX`: names without end cost no more than the bound.
    #[test]
    fn remembered_names_are_bounded() {
        let mut gate = gate(LINES, Mode::Enforce);
        for n in 0..3 * NAMES_MAX {
            assert_eq!(gate.screen_name(&format!("name {n}"), 0), None);
        }
        assert_eq!(gate.names.0.len(), NAMES_MAX);
        gate.names.age(NAMES_US);
        assert!(gate.names.0.is_empty());
    }
}
