//! The words of a list in one automaton (Aho and Corasick, 1975), one step a letter.
//!
//! It finds every place where a word's letters stand in a row; whether that is the word is decided
//! beside it ([`crate::fit`]). Words are entered twice where they have double letters: as they are, and
//! with every run of equal letters as one, for texts that draw letters out.

use daachorse::CharwiseDoubleArrayAhoCorasick;

use crate::character::{Class, Profile};
use crate::letters::{Letter, Letters};
use crate::list::{RuleId, WORD_LETTERS_MAX, WORDS_MAX, WordList, WordRule};

/// A run of equal letters in a text; digits stand alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

/// The words of one profile of a list.
pub(crate) struct Lexicon {
    automaton: CharwiseDoubleArrayAhoCorasick<u32>,
    /// Per number of the automaton: where its entries begin; one more at the end.
    starts: Vec<u32>,
    entries: Vec<Entry>,
}

/// What the automaton says of letters it knows, in one word: most places are no word for reasons that can
/// be told from it alone, without a look into tables that no cache holds.
#[derive(Debug, Clone, Copy)]
struct Known(u32);

const NUMBER_BITS: u32 = 22;
const LENGTH_BITS: u32 = 7;
const OPEN_LEFT: u32 = 1 << 29;
const OPEN_RIGHT: u32 = 1 << 30;
const EXACT: u32 = 1 << 31;

// Every word may be entered twice.
const _: () = assert!(2 * WORDS_MAX < 1 << NUMBER_BITS && WORD_LETTERS_MAX < 1 << LENGTH_BITS);

impl Known {
    fn new(number: usize, letters: usize) -> Self {
        Self(number as u32 | (letters as u32) << NUMBER_BITS)
    }

    fn admit(&mut self, rule: &WordRule, exact: bool) {
        let flags = [(rule.open_left, OPEN_LEFT), (rule.open_right, OPEN_RIGHT), (exact, EXACT)];
        self.0 |= flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
    }

    fn number(self) -> usize {
        (self.0 & ((1 << NUMBER_BITS) - 1)) as usize
    }

    fn letters(self) -> usize {
        (self.0 >> NUMBER_BITS & ((1 << LENGTH_BITS) - 1)) as usize
    }

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Whether any of its words may stand between these letters.
    fn may_stand(self, first: &Letter, last: &Letter) -> bool {
        (first.begins() || self.has(OPEN_LEFT)) && (last.ends() || self.has(OPEN_RIGHT))
    }
}

/// A word behind the letters that the automaton knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    rule: RuleId,
    /// The letters are the word's own; otherwise its runs were made one letter each.
    exact: bool,
}

/// The automaton cannot number so many states.
#[derive(Debug)]
pub(crate) struct LexiconError;

impl Lexicon {
    /// Builds the automaton of the rules of one profile; `None` if there are none.
    pub(crate) fn build(list: &WordList, profile: Profile) -> Result<Option<Self>, LexiconError> {
        let mut words = Vec::new();
        for (number, rule) in list.word_rules().filter(|(_, rule)| rule.profile == profile) {
            let letters = list.letters_of(rule);
            if letters.is_empty() {
                continue;
            }
            let rule = RuleId(number as u32);
            let short = without_runs(letters);
            if short.len() < letters.len() {
                words.push((short, Entry { rule, exact: false }));
            }
            words.push((letters.to_owned(), Entry { rule, exact: true }));
        }
        if words.is_empty() {
            return Ok(None);
        }
        words.sort_unstable();
        let mut patterns: Vec<(&str, Known)> = Vec::new();
        let mut starts = Vec::new();
        for (at, (letters, entry)) in words.iter().enumerate() {
            if patterns.last().is_none_or(|(last, _)| last != letters) {
                patterns.push((letters, Known::new(patterns.len(), letters.chars().count())));
                starts.push(at as u32);
            }
            if let Some((_, known)) = patterns.last_mut() {
                known.admit(list.word_rule(entry.rule), entry.exact);
            }
        }
        starts.push(words.len() as u32);
        let patterns = patterns.into_iter().map(|(letters, known)| (letters, known.0));
        let automaton = CharwiseDoubleArrayAhoCorasick::with_values(patterns).map_err(|_| LexiconError)?;
        let entries = words.into_iter().map(|(_, entry)| entry).collect();
        Ok(Some(Self { automaton, starts, entries }))
    }

    /// Memory, bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.automaton.heap_bytes()
            + self.starts.capacity() * size_of::<u32>()
            + self.entries.capacity() * size_of::<Entry>()
    }

    /// Calls `found` with every word whose letters stand in `letters`, and the places of its first and
    /// last letter. Most that cannot be whole words there are left out.
    pub(crate) fn find(&self, letters: &Letters, mut found: impl FnMut(RuleId, usize, usize)) {
        let row = &letters.row[..];
        let mut stepper = self.automaton.find_overlapping_stepper();
        for (at, letter) in row.iter().enumerate() {
            stepper.consume(letter.c);
            for matched in stepper.matches() {
                let known = Known(matched.value());
                let first = at + 1 - known.letters();
                if known.has(EXACT) && known.may_stand(&row[first], letter) {
                    let entries = self.entries_of(known).iter().filter(|entry| entry.exact);
                    entries.for_each(|entry| found(entry.rule, first, at));
                }
            }
        }
    }

    /// The same with every run of letters as one: `found` gets the places of the first and last run.
    pub(crate) fn find_runs(
        &self,
        letters: &Letters,
        runs: &[Run],
        mut found: impl FnMut(RuleId, usize, usize),
    ) {
        let row = &letters.row[..];
        let mut stepper = self.automaton.find_overlapping_stepper();
        for (at, run) in runs.iter().enumerate() {
            let last = &row[usize::from(run.last)];
            stepper.consume(last.c);
            for matched in stepper.matches() {
                let known = Known(matched.value());
                let first = at + 1 - known.letters();
                if known.may_stand(&row[usize::from(runs[first].first)], last) {
                    self.entries_of(known).iter().for_each(|entry| found(entry.rule, first, at));
                }
            }
        }
    }

    fn entries_of(&self, known: Known) -> &[Entry] {
        let number = known.number();
        &self.entries[self.starts[number] as usize..self.starts[number + 1] as usize]
    }
}

/// A word with every run of equal letters as one; digits stay, since a number is another one without.
fn without_runs(letters: &str) -> String {
    let mut last = None;
    let kept = letters.chars().filter(|c| {
        let repeats = last == Some(*c) && !c.is_numeric();
        last = Some(*c);
        !repeats
    });
    kept.collect()
}

/// The runs of a text, in order.
pub(crate) fn lay_out_runs(letters: &Letters, runs: &mut Vec<Run>) {
    runs.clear();
    for (at, letter) in letters.row.iter().enumerate() {
        let at = at as u16;
        match runs.last_mut() {
            Some(run) if letter.class != Class::Digit && letters.row[usize::from(run.last)].c == letter.c => {
                run.last = at;
            }
            _ => runs.push(Run { first: at, last: at }),
        }
    }
}
