//! Whether letters in a row are the word: where it may begin and end, and what may stand between.
//!
//! Letters alone would find "shit" in "class hit" and "cunt" in "Scunthorpe". A word of a script with
//! spaces is a whole word unless its rule opens an end; what stands between its letters must look like a
//! disguise and not like the end of one word and the beginning of another.

use crate::character::Class;
use crate::gap::Gap;
use crate::letters::Letters;
use crate::lexicon::Run;
use crate::list::WordRule;

/// Letters that are words of their own: what is spelled out may follow one ("I", "u") ...
const WORDS_BEFORE: [char; 3] = ['a', 'i', 'u'];
/// ... or be followed by one, or by the beginning of "you".
const WORDS_BEHIND: [char; 2] = ['u', 'y'];

/// A run this long is drawn out, and never spelling.
const DRAWN_OUT: usize = 3;

/// Whether what stands between the letters from `first` to `last` leaves them the word of `rule`, each
/// letter once.
pub(crate) fn is_word(letters: &Letters, rule: &WordRule, first: usize, last: usize) -> bool {
    is_whole(letters, rule, first, last)
        && holds_together(letters, first, last, |index| rule.gaps >> (index - first) & 1 == 1)
}

/// Whether `runs` are the word of `rule` with some of its letters drawn out.
///
/// `word` has the letters of the rule. A run may be longer than in the word, never shorter; one letter
/// doubled once is no disguise, since that makes other words ("raper", "rapper").
pub(crate) fn is_drawn_out_word(letters: &Letters, rule: &WordRule, word: &str, runs: &[Run]) -> bool {
    let (Some(from), Some(to)) = (runs.first(), runs.last()) else { return false };
    let (first, last) = (usize::from(from.first), usize::from(to.last));
    let mut excused: u128 = 0;
    let mut word_letters = word.chars().peekable();
    let mut word_at = 0_u32;
    let (mut doubled, mut long) = (0, 0);
    for run in runs {
        if rule.gaps >> word_at & 1 == 1 {
            excused |= 1_u128.checked_shl(u32::from(run.first) - first as u32).unwrap_or(0);
        }
        let Some(c) = word_letters.next() else { return false };
        let mut wanted = 1;
        while !c.is_numeric() && word_letters.next_if_eq(&c).is_some() {
            wanted += 1;
        }
        word_at += wanted as u32;
        let written = usize::from(run.last - run.first) + 1;
        let class = letters.row[usize::from(run.first)].class;
        let is_long_enough = written >= DRAWN_OUT || (class == Class::Ideograph && runs.len() > 2);
        match written {
            _ if written < wanted => return false,
            _ if written == wanted => {}
            _ if is_long_enough => long += 1,
            _ => doubled += 1,
        }
    }
    (long > 0 || doubled > 1)
        && word_letters.next().is_none()
        && is_whole(letters, rule, first, last)
        && holds_together(letters, first, last, |index| {
            excused.checked_shr((index - first) as u32).is_some_and(|bits| bits & 1 == 1)
        })
}

/// Whether the ends are where a word of this script may begin and end.
fn is_whole(letters: &Letters, rule: &WordRule, first: usize, last: usize) -> bool {
    let row = &letters.row;
    (rule.open_left || row[first].begins()) && (rule.open_right || row[last].ends())
}

/// Whether what stands between the letters is a disguise. `excused` tells the places, counted in the
/// text, where the word itself has a gap.
fn holds_together(letters: &Letters, first: usize, last: usize, excused: impl Fn(usize) -> bool) -> bool {
    let inner = &letters.row[first + 1..=last];
    let (mut gaps, mut kinds) = (0, Gap::NONE);
    for (index, letter) in inner.iter().enumerate() {
        if !letter.gap.is_none() {
            gaps += 1;
            // Where a phrase has its space, a text may have any sign but the end of a sentence.
            let ends_sentence =
                letter.gap.has(Gap::CLAUSE) || (letter.gap.has(Gap::DOT) && letter.gap.has(Gap::SPACE));
            if ends_sentence || !excused(first + 1 + index) {
                kinds = kinds.and(letter.gap);
            }
        }
    }
    if kinds.is_none() {
        return true;
    }
    let is_spelled_out = gaps == inner.len();
    let row = &letters.row[first..=last];
    if row.iter().all(|letter| letter.class == Class::Ideograph) {
        return if !kinds.has(Gap::SPACE.and(Gap::CLAUSE).and(Gap::DOT)) {
            true
        } else if row.len() == 2 {
            stands_alone(letters, first, last)
        } else {
            is_spelled_out || !kinds.has(Gap::CLAUSE.and(Gap::DOT))
        };
    }
    if row.iter().all(|letter| letter.class == Class::Digit) {
        // 89.64 is a price.
        return is_spelled_out && row.len() > 2;
    }
    if !kinds.has(Gap::SPACE.and(Gap::CLAUSE)) {
        return true;
    }
    is_spelled_out
        && if row.len() == 2 {
            stands_alone(letters, first, last)
        } else {
            !goes_on_spelled_out(letters, first, last)
        }
}

/// Whether nothing but the beginning, the end, or another script is beside the letters.
fn stands_alone(letters: &Letters, first: usize, last: usize) -> bool {
    let row = &letters.row;
    let same_kind = |a: usize, b: usize| {
        row[a].class == row[b].class || (row[a].class.is_spaced() && row[b].class.is_spaced())
    };
    let class = row[first].class;
    if class == Class::Ideograph || class == Class::Dense {
        // Scripts without spaces: a space on both sides sets the letters apart from everything.
        let begins = first == 0 || !letters.touches_previous(first);
        return begins && (last + 1 == row.len() || !letters.gap_after(last).is_none());
    }
    let begins = first == 0 || !same_kind(first - 1, first);
    begins && (last + 1 == row.len() || !same_kind(last, last + 1))
}

/// Whether the letter before or behind is spelled out too, so that the letters are a piece of a longer
/// word: `c l a s s`.
fn goes_on_spelled_out(letters: &Letters, first: usize, last: usize) -> bool {
    let row = &letters.row;
    let is_single = |index: usize| {
        !letters.touches_previous(index)
            && !letters.gap_after(index).is_none()
            && row[index].class.is_spaced()
            && !WORDS_BEFORE.contains(&row[index].c)
    };
    let before = first > 0 && is_single(first - 1);
    let behind = last + 1 < row.len()
        && row[last + 1].class.is_spaced()
        && !WORDS_BEHIND.contains(&row[last + 1].c)
        && (last + 2 == row.len() || !row[last + 2].gap.is_none());
    before || behind
}
