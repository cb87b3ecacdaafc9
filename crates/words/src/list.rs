//! A list of words as moderators write it, and the same list ready to be compared with texts.

use std::collections::HashMap;

use crate::character::Profile;
use crate::letters::Letters;
use crate::lexicon::{Lexicon, LexiconError};
use crate::line::{Action, Line, Pattern, What};
use crate::settle::Settling;

/// The most words of one list: compiled it then takes about 160 MB.
pub const WORDS_MAX: usize = 1_000_000;
/// The most bytes of one list.
pub const LIST_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// The most letters of one word, after normalisation.
pub const WORD_LETTERS_MAX: usize = 64;

/// What a list is called, and what its lines mean where they say nothing.
#[derive(Debug, Clone, Copy)]
pub struct ListOptions<'n> {
    /// For errors and audits.
    pub name: &'n str,
    /// The action of a line without one.
    pub action: Action,
    /// The profile of a line without one.
    pub profile: Profile,
    /// The most words, at most [`WORDS_MAX`].
    pub words_max: usize,
}

impl Default for ListOptions<'_> {
    fn default() -> Self {
        Self { name: "words", action: Action::Drop, profile: Profile::Strict, words_max: WORDS_MAX }
    }
}

/// Why a list was refused: the list, the line, the word, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("word list {list:?}, line {line}, {word:?}: {reason}")]
pub struct ListError {
    /// Name of the list.
    pub list: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The line's text, cut to what fits into a message.
    pub word: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A word that would be found in every other text.
    #[error(
        "{0} letters are left after normalisation; a word has at least 2 (signs and spaces do not count)"
    )]
    TooShort(usize),
    /// A word longer than [`WORD_LETTERS_MAX`].
    #[error("{0} letters; a word has at most {WORD_LETTERS_MAX}")]
    TooLong(usize),
    /// A star that is at neither end.
    #[error(
        "a star stands only at the beginning or the end of a word, and means that the word may go on there"
    )]
    InnerStar,
    /// A quotation mark without its partner.
    #[error("the quotation mark is not closed; write \"word\" drop")]
    OpenQuotation,
    /// Something behind a quoted word that is neither action nor profile.
    #[error(
        "behind a quoted word stand only an action (drop, shadow, hold, mask) and a profile (strict, marks)"
    )]
    BehindQuotation,
    /// `!` and a name that is no pattern.
    #[error("the patterns are !link, !email, !phone and !contact")]
    UnknownPattern,
    /// More words than the list may have.
    #[error("more than {0} words; split the list or raise its limit")]
    TooManyWords(usize),
    /// More bytes than [`LIST_BYTES_MAX`].
    #[error("the list has {0} bytes; at most {LIST_BYTES_MAX} are read")]
    TooManyBytes(usize),
    /// Words that together are more than the automaton can number.
    #[error("the words of this list are too many or too long to be compiled together; split it")]
    TooBig,
}

/// A rule of a list; the number holds only for the compiled list that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub(crate) u32);

/// A line of a list, as an audit shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule<'l> {
    /// Name of the list.
    pub list: &'l str,
    /// The line that stands for the rule, counted from 1: the first of several that say the same.
    pub line: usize,
    /// The word as it was written, stars included, or the pattern's name with its `!`.
    pub word: &'l str,
    /// What it asks for.
    pub action: Action,
    /// How its word is compared.
    pub profile: Profile,
}

/// What the comparison needs to know of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordRule {
    line: u32,
    written_at: u32,
    written_bytes: u32,
    letters_at: u32,
    letters_bytes: u16,
    pub(crate) action: Action,
    pub(crate) profile: Profile,
    pub(crate) open_left: bool,
    pub(crate) open_right: bool,
    /// Bit n: something stands before the word's letter n, so that a text may have it there too.
    pub(crate) gaps: u64,
}

/// A compiled list. It is never changed: a new version of a list is compiled beside it and takes its place.
pub struct WordList {
    name: String,
    rules: Vec<WordRule>,
    /// All words as they were written, one behind the other.
    written: String,
    /// All words in normal form, without what stands between their letters.
    letters: String,
    patterns: [Option<RuleId>; Pattern::ALL.len()],
    strict: Option<Lexicon>,
    marks: Option<Lexicon>,
    merged: usize,
}

impl WordList {
    /// Reads and compiles a list, one rule a line.
    ///
    /// A line is `word [drop|shadow|hold|mask] [strict|marks] [# remark]`. A word may be a phrase; quotation marks
    /// keep it apart from what looks like an action (`"gas mask" drop`). A star at an end opens that end:
    /// `fuck*` is found in longer words too. `!link`, `!email`, `!phone` and `!contact` in place of a word
    /// are [`crate::Pattern`]s. Empty lines and lines that begin with `#` say nothing.
    ///
    /// It takes about half a second of a core for 100,000 words and a quarter of a minute for a million:
    /// never on a thread that serves.
    ///
    /// # Errors
    /// The first line that cannot be taken as it stands; nothing of such a list is used.
    pub fn compile(options: &ListOptions<'_>, text: &str) -> Result<Self, ListError> {
        Compiling::new(options).read(text)
    }

    /// Name of the list.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Rules in it, patterns included.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Lines that said what another line had said; the most severe action of them holds.
    pub fn merged(&self) -> usize {
        self.merged
    }

    /// Memory of the list, bytes.
    pub fn heap_bytes(&self) -> usize {
        let lexicons = [&self.strict, &self.marks].into_iter().flatten();
        self.rules.capacity() * size_of::<WordRule>()
            + self.written.capacity()
            + self.letters.capacity()
            + lexicons.map(Lexicon::heap_bytes).sum::<usize>()
    }

    /// The line behind a rule of this list; `None` for a number of another list.
    pub fn rule(&self, id: RuleId) -> Option<Rule<'_>> {
        let rule = self.rules.get(id.0 as usize)?;
        let written = rule.written_at as usize..(rule.written_at + rule.written_bytes) as usize;
        Some(Rule {
            list: &self.name,
            line: rule.line as usize,
            word: self.written.get(written)?,
            action: rule.action,
            profile: rule.profile,
        })
    }

    pub(crate) fn word_rule(&self, id: RuleId) -> &WordRule {
        &self.rules[id.0 as usize]
    }

    /// Every rule with its number, patterns included.
    pub(crate) fn word_rules(&self) -> impl Iterator<Item = (usize, &WordRule)> {
        self.rules.iter().enumerate()
    }

    pub(crate) fn letters_of(&self, rule: &WordRule) -> &str {
        let from = rule.letters_at as usize;
        &self.letters[from..from + usize::from(rule.letters_bytes)]
    }

    pub(crate) fn lexicon(&self, profile: Profile) -> Option<&Lexicon> {
        match profile {
            Profile::Strict => self.strict.as_ref(),
            Profile::Marks => self.marks.as_ref(),
        }
    }

    pub(crate) fn pattern(&self, pattern: Pattern) -> Option<RuleId> {
        self.patterns[pattern as usize]
    }

    pub(crate) fn has_patterns(&self) -> bool {
        self.patterns.iter().any(Option::is_some)
    }
}

/// What makes two lines the same rule: letters, gaps, profile, open ends.
type Sameness = (String, u64, Profile, bool, bool);

/// A list while it is read.
struct Compiling<'o> {
    options: &'o ListOptions<'o>,
    words_max: usize,
    list: WordList,
    known: HashMap<Sameness, RuleId>,
    settling: Settling,
    read: Letters,
}

impl<'o> Compiling<'o> {
    fn new(options: &'o ListOptions<'o>) -> Self {
        let list = WordList {
            name: options.name.to_owned(),
            rules: Vec::new(),
            written: String::new(),
            letters: String::new(),
            patterns: [None; Pattern::ALL.len()],
            strict: None,
            marks: None,
            merged: 0,
        };
        let words_max = options.words_max.min(WORDS_MAX);
        let (settling, read) = (Settling::default(), Letters::default());
        Self { options, words_max, list, known: HashMap::new(), settling, read }
    }

    fn read(mut self, text: &str) -> Result<WordList, ListError> {
        if text.len() > LIST_BYTES_MAX {
            return Err(self.refusal(1, "", Reason::TooManyBytes(text.len())));
        }
        // Editors of another system put a mark at the beginning that no reader sees.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            self.take(index + 1, line).map_err(|reason| self.refusal(index + 1, line, reason))?;
        }
        let mut list = self.list;
        drop(self.known);
        for profile in [Profile::Strict, Profile::Marks] {
            let lexicon = match Lexicon::build(&list, profile) {
                Ok(lexicon) => lexicon,
                Err(LexiconError) => {
                    let list = list.name;
                    return Err(ListError { list, line: 1, word: String::new(), reason: Reason::TooBig });
                }
            };
            match profile {
                Profile::Strict => list.strict = lexicon,
                Profile::Marks => list.marks = lexicon,
            }
        }
        list.rules.shrink_to_fit();
        list.written.shrink_to_fit();
        list.letters.shrink_to_fit();
        Ok(list)
    }

    fn take(&mut self, number: usize, text: &str) -> Result<(), Reason> {
        let Some(line) = Line::parse(text)? else { return Ok(()) };
        let action = line.action.unwrap_or(self.options.action);
        let profile = line.profile.unwrap_or(self.options.profile);
        let (same, open_left, open_right, written) = match line.what {
            What::Pattern(pattern) => {
                if let Some(known) = self.list.patterns[pattern as usize] {
                    self.merge(known, action);
                    return Ok(());
                }
                let id = RuleId(self.list.rules.len() as u32);
                self.list.patterns[pattern as usize] = Some(id);
                (None, false, false, text.split_whitespace().next().unwrap_or_default())
            }
            What::Word { written, word, open_left, open_right } => {
                let (letters, gaps) = self.fold(word, profile)?;
                let same = (letters, gaps, profile, open_left, open_right);
                if let Some(known) = self.known.get(&same) {
                    self.merge(*known, action);
                    return Ok(());
                }
                (Some(same), open_left, open_right, written)
            }
        };
        if self.list.rules.len() == self.words_max {
            return Err(Reason::TooManyWords(self.words_max));
        }
        let letters = same.as_ref().map_or("", |same| &same.0);
        self.list.rules.push(WordRule {
            line: number as u32,
            written_at: self.list.written.len() as u32,
            written_bytes: written.len() as u32,
            letters_at: self.list.letters.len() as u32,
            letters_bytes: letters.len() as u16,
            action,
            profile,
            open_left,
            open_right,
            gaps: same.as_ref().map_or(0, |same| same.1),
        });
        self.list.written.push_str(written);
        self.list.letters.push_str(letters);
        if let Some(same) = same {
            self.known.insert(same, RuleId(self.list.rules.len() as u32 - 1));
        }
        Ok(())
    }

    fn merge(&mut self, known: RuleId, action: Action) {
        let rule = &mut self.list.rules[known.0 as usize];
        rule.action = rule.action.max(action);
        self.list.merged += 1;
    }

    /// The letters of a word, and where something stands between them.
    fn fold(&mut self, word: &str, profile: Profile) -> Result<(String, u64), Reason> {
        let read = self.read.read(word, profile, &mut self.settling);
        read.map_err(|too_much| Reason::TooLong(too_much.bytes))?;
        let row = &self.read.row;
        if row.len() < 2 {
            return Err(Reason::TooShort(row.len()));
        }
        if row.len() > WORD_LETTERS_MAX {
            return Err(Reason::TooLong(row.len()));
        }
        let gaps = row.iter().enumerate().skip(1).filter(|(_, letter)| !letter.gap.is_none());
        let gaps = gaps.fold(0, |gaps, (index, _)| gaps | 1 << index);
        Ok((row.iter().map(|letter| letter.c).collect(), gaps))
    }

    fn refusal(&self, line: usize, text: &str, reason: Reason) -> ListError {
        let word = text.trim().chars().take(WORD_LETTERS_MAX).collect();
        ListError { list: self.options.name.to_owned(), line, word, reason }
    }
}
