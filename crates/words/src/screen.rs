//! A text held against lists: what is to become of it, and who said so.

use std::ops::Range;

use crate::character::Profile;
use crate::contact::{self, Reading, Span};
use crate::fit;
use crate::letters::{Letters, TooMuch};
use crate::lexicon::{Run, lay_out_runs};
use crate::line::{Action, Pattern};
use crate::list::{RuleId, WordList};
use crate::lookalike::Lookalikes;
use crate::phone;
use crate::settle::Settling;

/// The most findings that are kept of one text; masks and the verdict take in those beyond it too.
pub const HITS_MAX: usize = 64;

/// A list, and whether it has a say.
#[derive(Clone, Copy)]
pub struct Watch<'l> {
    list: &'l WordList,
    observes: bool,
}

impl<'l> Watch<'l> {
    /// What the list finds decides.
    pub fn enforce(list: &'l WordList) -> Self {
        Self { list, observes: false }
    }

    /// What the list finds is kept in [`Screen::hits`] and decides nothing.
    pub fn observe(list: &'l WordList) -> Self {
        Self { list, observes: true }
    }
}

/// One finding of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Place of the list among those that were given.
    pub list: usize,
    /// The rule: [`WordList::rule`] tells its line and word.
    pub rule: RuleId,
    /// What the rule asks for.
    pub action: Action,
    /// Where in the text, bytes; not yet widened to whole characters.
    pub range: Range<usize>,
    /// The list only observes.
    pub observed: bool,
}

/// What is to become of a text. Of several findings the most severe decides, of equal ones the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'s> {
    /// Nothing was found by a list that has a say.
    Pass,
    /// These bytes are to be covered ([`crate::mask()`]): in order, apart, whole characters each.
    Mask(&'s [Range<usize>]),
    /// A moderator decides.
    Hold(Hit),
    /// Shown to its author alone.
    Shadow(Hit),
    /// Refused.
    Drop(Hit),
}

/// Reusable buffers, one for each thread that screens. Once they have seen texts as long as those to
/// come, a text in which nothing is found costs no allocation.
#[derive(Default)]
pub struct Screen {
    settling: Settling,
    strict: Letters,
    marks: Letters,
    lookalikes: Lookalikes,
    runs: Vec<Run>,
    findings: Findings,
}

#[derive(Default)]
struct Findings {
    hits: Vec<Hit>,
    masks: Vec<Range<usize>>,
    /// The most severe so far.
    worst: Option<Hit>,
}

impl Findings {
    fn clear(&mut self) {
        self.hits.clear();
        self.masks.clear();
        self.worst = None;
    }

    fn take(&mut self, hit: Hit) {
        if !hit.observed {
            if hit.action == Action::Mask && self.masks.last() != Some(&hit.range) {
                self.masks.push(hit.range.clone());
            }
            if self.worst.as_ref().is_none_or(|worst| hit.action > worst.action) {
                self.worst = Some(hit.clone());
            }
        }
        if self.hits.len() < HITS_MAX && !self.hits.contains(&hit) {
            self.hits.push(hit);
        }
    }
}

impl Screen {
    /// Holds `text` against every list, the server's and the room's, in one go.
    ///
    /// # Errors
    /// [`TooMuch`] for a text that is too long or grows too much to be looked at: it cannot be let pass.
    pub fn screen<'s>(&'s mut self, text: &str, lists: &[Watch<'_>]) -> Result<Verdict<'s>, TooMuch> {
        self.findings.clear();
        let compares = |profile| lists.iter().any(|watch| watch.list.lexicon(profile).is_some());
        let patterns = lists.iter().any(|watch| watch.list.has_patterns());
        if compares(Profile::Strict) || patterns {
            self.strict.read(text, Profile::Strict, &mut self.settling)?;
            self.look_up(lists, Profile::Strict);
            self.read_again(lists);
        }
        if patterns {
            self.look_for_patterns(text, lists);
        }
        if compares(Profile::Marks) {
            self.marks.read(text, Profile::Marks, &mut self.settling)?;
            self.look_up(lists, Profile::Marks);
        }
        let findings = &mut self.findings;
        Ok(match findings.worst.clone() {
            None => Verdict::Pass,
            Some(hit) if hit.action == Action::Drop => Verdict::Drop(hit),
            Some(hit) if hit.action == Action::Hold => Verdict::Hold(hit),
            Some(hit) if hit.action == Action::Shadow => Verdict::Shadow(hit),
            Some(_) => {
                crate::mask::tidy(text, &mut findings.masks);
                Verdict::Mask(&findings.masks)
            }
        })
    }

    /// What every list found in the last text, those that only observe too, up to [`HITS_MAX`].
    pub fn hits(&self) -> &[Hit] {
        &self.findings.hits
    }

    fn look_up(&mut self, lists: &[Watch<'_>], profile: Profile) {
        let letters = match profile {
            Profile::Strict => &self.strict,
            Profile::Marks => &self.marks,
        };
        look_up(letters, lists, profile, &mut self.runs, &mut self.findings);
    }

    fn read_again(&mut self, lists: &[Watch<'_>]) {
        let has_one = self.strict.row.iter().any(|letter| letter.c == '1')
            || self.strict.signs.iter().any(|sign| sign.c == '|');
        for one in if has_one { &['i', 'l'][..] } else { &['i'] } {
            if self.lookalikes.read(&self.strict, *one) {
                let letters = &self.lookalikes.letters;
                look_up(letters, lists, Profile::Strict, &mut self.runs, &mut self.findings);
            }
        }
    }

    fn look_for_patterns(&mut self, text: &str, lists: &[Watch<'_>]) {
        let reading = Reading { text, letters: &self.strict };
        for pattern in Pattern::ALL {
            let asks = |watch: &Watch<'_>| watch.list.pattern(pattern).is_some();
            if !lists.iter().any(asks) {
                continue;
            }
            let mut found = |(first, last): Span| {
                for (list, watch) in lists.iter().enumerate() {
                    if let Some(rule) = watch.list.pattern(pattern) {
                        self.findings.take(hit(reading.letters, list, watch, rule, first, last));
                    }
                }
            };
            match pattern {
                Pattern::Link => contact::links(reading, &mut found),
                Pattern::Email => contact::emails(reading, &mut found),
                Pattern::Phone => phone::phones(reading, &mut found),
                Pattern::Contact => contact::contacts(reading, &mut found),
            }
        }
    }
}

fn look_up(
    letters: &Letters,
    lists: &[Watch<'_>],
    profile: Profile,
    runs: &mut Vec<Run>,
    findings: &mut Findings,
) {
    let is_drawn_out = letters.is_drawn_out();
    if is_drawn_out {
        lay_out_runs(letters, runs);
    }
    for (number, watch) in lists.iter().enumerate() {
        let list = watch.list;
        let Some(lexicon) = list.lexicon(profile) else { continue };
        lexicon.find(letters, |rule, first, last| {
            if fit::is_word(letters, list.word_rule(rule), first, last) {
                findings.take(hit(letters, number, watch, rule, first, last));
            }
        });
        if !is_drawn_out {
            continue;
        }
        lexicon.find_runs(letters, runs, |rule, first, last| {
            let here = &runs[first..=last];
            let word = list.word_rule(rule);
            if fit::is_drawn_out_word(letters, word, list.letters_of(word), here) {
                let (first, last) = (usize::from(here[0].first), usize::from(here[here.len() - 1].last));
                findings.take(hit(letters, number, watch, rule, first, last));
            }
        });
    }
}

fn hit(letters: &Letters, list: usize, watch: &Watch<'_>, rule: RuleId, first: usize, last: usize) -> Hit {
    let range = usize::from(letters.row[first].start)..usize::from(letters.row[last].end);
    Hit { list, rule, action: watch.list.word_rule(rule).action, range, observed: watch.observes }
}
