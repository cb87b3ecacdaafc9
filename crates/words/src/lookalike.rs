//! A second reading of a text: digits, signs and foreign letters as the Latin ones they look like.
//!
//! It is made beside the first one, not in its place, and only where a word mixes them: `sh1t` and `сосk`
//! are read again, `100`, `A55`, `@name` and Russian words are not.

use crate::character::Class;
use crate::gap::Gap;
use crate::letters::{Letter, Letters};

/// A letter or a sign, and whether it touches the one before.
#[derive(Debug, Clone, Copy)]
struct Piece {
    letter: Letter,
    is_sign: bool,
    touches: bool,
}

/// Reusable space for reading again.
#[derive(Debug, Default)]
pub(crate) struct Lookalikes {
    pieces: Vec<Piece>,
    /// The second reading.
    pub(crate) letters: Letters,
}

/// Digits in a row that are still read as letters: `b00b`, but not a number in a word.
const DIGITS_IN_WORD_MAX: usize = 2;
/// Latin letters behind a digit that begins a word: `5hit`, but not `2nd`.
const LETTERS_BEHIND_DIGIT_MIN: usize = 3;

impl Lookalikes {
    /// Reads `first` again with `1` and `|` as `one`, and tells whether anything came out otherwise.
    pub(crate) fn read(&mut self, first: &Letters, one: char) -> bool {
        if !first.has(Class::Latin)
            || !(first.has(Class::Digit) || first.has(Class::Word) || !first.signs.is_empty())
        {
            return false;
        }
        self.lay_out(first);
        let mut foreign = first.row.iter().filter(|letter| letter.class == Class::Word);
        let is_latin_text = foreign.all(|letter| latin_twin(letter.c).is_some());
        self.letters.start_again();
        let mut changed = false;
        let mut rest = &self.pieces[..];
        while !rest.is_empty() {
            let length = 1 + rest[1..].iter().take_while(|piece| piece.touches).count();
            let (token, after) = rest.split_at(length);
            changed |= read_token(token, one, is_latin_text, &mut self.letters);
            rest = after;
        }
        self.letters.tail = first.tail;
        changed
    }

    fn lay_out(&mut self, first: &Letters) {
        self.pieces.clear();
        let mut signs = first.signs.iter().peekable();
        for index in 0..=first.row.len() {
            while let Some(sign) = signs.next_if(|sign| usize::from(sign.before) == index) {
                let gap = first.row.get(index).map_or(first.tail, |letter| letter.gap);
                let letter = Letter::new(sign.c, Class::Latin, gap, sign.start..sign.end);
                self.lay(letter, true);
            }
            if let Some(letter) = first.row.get(index) {
                self.lay(*letter, false);
            }
        }
    }

    fn lay(&mut self, letter: Letter, is_sign: bool) {
        // Between two letters the gap tells; a sign is a part of the gap, so that bytes have to.
        let touches = self.pieces.last().is_some_and(|last| {
            if is_sign || last.is_sign { last.letter.end == letter.start } else { letter.gap.is_none() }
        });
        self.pieces.push(Piece { letter, is_sign, touches });
    }
}

/// Reads one token, all of whose pieces touch; tells whether a letter came out otherwise.
fn read_token(token: &[Piece], one: char, is_latin_text: bool, out: &mut Letters) -> bool {
    let is_latin = |piece: &&Piece| !piece.is_sign && piece.letter.class == Class::Latin;
    let latin = token.iter().filter(is_latin).count();
    let is_foreign = |piece: &Piece| piece.letter.class == Class::Word && !piece.is_sign;
    let reads = latin > 0 || (is_latin_text && token.iter().all(is_foreign));
    let mut changed = false;
    let mut skipped = false;
    for (index, piece) in token.iter().enumerate() {
        let twin = if reads { twin(token, index, one) } else { None };
        if piece.is_sign && twin.is_none() {
            skipped = true;
            continue;
        }
        let is_first = index == 0;
        out.tail = if is_first || skipped { piece.letter.gap } else { Gap::NONE };
        skipped = false;
        let source = usize::from(piece.letter.start)..usize::from(piece.letter.end);
        match twin {
            Some(twin) => out.push(twin, Class::Latin, source),
            None => out.push(piece.letter.c, piece.letter.class, source),
        }
        changed |= twin.is_some();
    }
    changed
}

/// The letter that the piece at `index` stands for, if it stands for another one.
fn twin(token: &[Piece], index: usize, one: char) -> Option<char> {
    let piece = token[index];
    let is_inside = index > 0 && index + 1 < token.len();
    if piece.is_sign {
        return match piece.letter.c {
            '@' => Some('a'),
            '$' => Some('s'),
            '€' => Some('e'),
            '!' if is_inside => Some('i'),
            '|' if is_inside => Some(one),
            _ => None,
        };
    }
    match piece.letter.class {
        Class::Digit if stands_in_a_word(token, index) => digit_twin(piece.letter.c, one),
        Class::Word => latin_twin(piece.letter.c),
        _ => None,
    }
}

fn stands_in_a_word(token: &[Piece], index: usize) -> bool {
    let is_digit = |piece: &&Piece| piece.letter.class == Class::Digit;
    let before = token[..index].iter().rev().take_while(is_digit).count();
    let after = token[index..].iter().take_while(is_digit).count();
    let behind = &token[index + after..];
    if before + after > DIGITS_IN_WORD_MAX || behind.is_empty() {
        return false;
    }
    let begins = index == before;
    let letters = behind.iter().take_while(|piece| piece.letter.class == Class::Latin).count();
    !begins || (before + after == 1 && letters >= LETTERS_BEHIND_DIGIT_MIN)
}

fn digit_twin(digit: char, one: char) -> Option<char> {
    Some(match digit {
        '0' => 'o',
        '1' => one,
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        '8' => 'b',
        '9' => 'g',
        _ => return None,
    })
}

/// The Latin letter that a folded Cyrillic, Greek or Armenian one looks like, small or as a capital
/// (after the confusables of Unicode's UTS #39, kept to what a reader takes for the letter).
fn latin_twin(letter: char) -> Option<char> {
    Some(match letter {
        'а' | 'α' => 'a',
        'в' | 'ь' | 'β' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'є' | 'ε' => 'e',
        'һ' | 'н' | 'հ' => 'h',
        'і' | 'ї' | 'ι' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'ӏ' => 'l',
        'м' => 'm',
        'п' | 'η' | 'ո' => 'n',
        'о' | 'ο' | 'օ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' | 'σ' => 's',
        'т' | 'τ' => 't',
        'μ' | 'υ' | 'ս' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'ζ' => 'z',
        _ => return None,
    })
}
