//! A text as the letters it is compared by, each with the bytes it came from.
//!
//! In comes a text, out comes a row of letters: folded, without separators, with what stood between them
//! noted beside, and with the place of each in the original, so that a match can be shown and masked
//! there. The buffers are reused; a text that fits into them costs no allocation.

use std::ops::Range;

use crate::character::{Class, Glyph, Meaning, Profile, Table};
use crate::gap::Gap;
use crate::settle::Settling;

/// Which rules [`crate::Normaliser`] follows. It rises whenever a text could come out otherwise than
/// before, so that what was stored in normal form can be told from what has to be made again.
pub const NORMALISER_VERSION: u32 = 1;

/// The longest text that is looked at, in bytes, before NFKC and after.
pub const TEXT_BYTES_MAX: usize = 4 * 1_024;

/// How many times its own length a text may take after NFKC: U+FDFA alone becomes eighteen characters.
pub const GROWTH_MAX: usize = 4;

/// Growth below this many bytes is let pass: one ligature of a blessing is no attack.
const GROWTH_FREE_BYTES: usize = 256;

/// A text that is too long, or that grows too much, to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the text takes {bytes} bytes or more once its characters are taken apart; at most {TEXT_BYTES_MAX}, and \
     {GROWTH_MAX} times its own length, are looked at"
)]
pub struct TooMuch {
    /// Bytes counted when it was given up.
    pub bytes: usize,
}

/// One letter, where it came from, and what stands before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Letter {
    pub(crate) c: char,
    /// Bytes of the original text; they fit, since a text has at most [`TEXT_BYTES_MAX`].
    pub(crate) start: u16,
    pub(crate) end: u16,
    /// Between the letter before and this one.
    pub(crate) gap: Gap,
    pub(crate) class: Class,
    /// Whether a word may begin and end here.
    edges: u8,
}

const BEGINS: u8 = 1;
const ENDS: u8 = 2;

impl Letter {
    pub(crate) fn new(c: char, class: Class, gap: Gap, source: Range<u16>) -> Self {
        Self { c, start: source.start, end: source.end, gap, class, edges: BEGINS | ENDS }
    }

    /// Whether a whole word may begin with this letter.
    #[inline]
    pub(crate) fn begins(&self) -> bool {
        self.edges & BEGINS != 0
    }

    /// Whether a whole word may end with this letter.
    #[inline]
    pub(crate) fn ends(&self) -> bool {
        self.edges & ENDS != 0
    }
}

/// A sign that may stand for a letter: a gap in this reading, a letter in another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sign {
    pub(crate) c: char,
    pub(crate) start: u16,
    pub(crate) end: u16,
    /// Index of the first letter behind it.
    pub(crate) before: u16,
}

/// A text in normal form.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    pub(crate) row: Vec<Letter>,
    pub(crate) signs: Vec<Sign>,
    /// What stands behind the last letter.
    pub(crate) tail: Gap,
    /// Every kind of gap that occurs.
    pub(crate) gaps: Gap,
    /// A set of the classes that occur.
    classes: u8,
    /// Latin letters and digits.
    pub(crate) ascii: u16,
    pub(crate) digits: u16,
    /// Letters equal to the one before, digits apart: a number with a digit more is another number.
    doubled: u16,
    doubled_ideograph: bool,
    after_flag: bool,
}

/// Where a run of characters that may combine began, to go back to.
#[derive(Clone, Copy)]
struct Begun {
    at: usize,
    letters: usize,
    signs: usize,
    gap: Gap,
    nfkc_bytes: usize,
}

impl Letters {
    /// Reads `text`; what was here before is gone.
    pub(crate) fn read(
        &mut self,
        text: &str,
        profile: Profile,
        settling: &mut Settling,
    ) -> Result<(), TooMuch> {
        self.start_again();
        if text.len() > TEXT_BYTES_MAX {
            return Err(TooMuch { bytes: text.len() });
        }
        let table = Table::of(profile);
        let mut nfkc_bytes = 0;
        let mut begun = Begun { at: 0, letters: 0, signs: 0, gap: Gap::NONE, nfkc_bytes: 0 };
        let mut from = 0;
        let mut characters = text.char_indices();
        while let Some((offset, c)) = characters.next() {
            let at = from + offset;
            let glyph = table.glyph(c);
            let next = at + c.len_utf8();
            if let Some((letter, class)) = glyph.plain_letter() {
                begun = self.begin(at, nfkc_bytes);
                nfkc_bytes += c.len_utf8();
                self.push(letter, class, at..next);
                continue;
            }
            if glyph.joins_previous() || glyph.is_flag_half() || glyph.meaning() == Meaning::Several {
                if glyph.joins_previous() {
                    self.go_back(begun);
                    nfkc_bytes = begun.nfkc_bytes;
                } else {
                    begun = self.begin(at, nfkc_bytes);
                }
                let end = end_of_run(table, text, next);
                self.push_settled(table, text, begun.at..end, profile, settling);
                nfkc_bytes += settling.nfkc_bytes();
                if is_too_much(nfkc_bytes, text.len()) {
                    return Err(TooMuch { bytes: nfkc_bytes });
                }
                from = end;
                characters = text[end..].char_indices();
                continue;
            }
            if let Meaning::Gap(gap) = glyph.meaning() {
                begun = self.begin(at, nfkc_bytes);
                nfkc_bytes += c.len_utf8();
                self.separate(gap, c, at..next);
            }
        }
        // What grew may have been paid for by what stood behind it, or not.
        if is_too_much(nfkc_bytes, text.len()) { Err(TooMuch { bytes: nfkc_bytes }) } else { Ok(()) }
    }

    /// Empties the row and keeps its memory.
    pub(crate) fn start_again(&mut self) {
        let row = std::mem::take(&mut self.row);
        let signs = std::mem::take(&mut self.signs);
        *self = Self { row, signs, ..Self::default() };
        self.row.clear();
        self.signs.clear();
    }

    fn begin(&self, at: usize, nfkc_bytes: usize) -> Begun {
        Begun { at, letters: self.row.len(), signs: self.signs.len(), gap: self.tail, nfkc_bytes }
    }

    /// Takes back what was pushed since; the sums that stay too high only make a later look needless.
    fn go_back(&mut self, to: Begun) {
        self.row.truncate(to.letters);
        self.signs.truncate(to.signs);
        self.tail = to.gap;
        if let Some(last) = self.row.last_mut() {
            last.edges |= ENDS;
        }
    }

    fn push_settled(
        &mut self,
        table: &Table,
        text: &str,
        run: Range<usize>,
        profile: Profile,
        settling: &mut Settling,
    ) {
        let source = &text[run.clone()];
        let is_flag = source.chars().next().is_some_and(|c| table.glyph(c).is_flag_half());
        if is_flag && !self.after_flag {
            self.tail = self.tail.grown(Gap::LOOSE);
        }
        // What comes next is part of the same flag, or pushed with a gap.
        self.after_flag = self.after_flag && !is_flag;
        for c in settling.settle(source.chars(), profile) {
            match table.glyph(*c).meaning() {
                Meaning::Letter(letter, class) => self.push(letter, class, run.clone()),
                Meaning::Gap(gap) => self.separate(gap, *c, run.clone()),
                Meaning::Nothing | Meaning::Several => {}
            }
        }
        self.after_flag |= is_flag;
    }

    #[inline]
    pub(crate) fn push(&mut self, c: char, class: Class, source: Range<usize>) {
        if self.after_flag {
            self.tail = self.tail.grown(Gap::LOOSE);
            self.after_flag = false;
        }
        let gap = std::mem::take(&mut self.tail);
        self.gaps = self.gaps.and(gap);
        let mut letter = Letter::new(c, class, gap, source.start as u16..source.end as u16);
        if let Some(last) = self.row.last_mut() {
            if last.c == c && class != Class::Digit {
                self.doubled += 1;
                self.doubled_ideograph |= class == Class::Ideograph;
            }
            // Ideographs stand side by side and still apart.
            if gap.is_none() && !(class == Class::Ideograph && last.class == Class::Ideograph) {
                if class.needs_beginning() && class.binds(last.class) {
                    letter.edges &= !BEGINS;
                }
                if last.class.binds(class) {
                    last.edges &= !ENDS;
                }
            }
        }
        self.classes |= 1 << class as u8;
        self.ascii += u16::from(matches!(class, Class::Latin | Class::Digit));
        self.digits += u16::from(class == Class::Digit);
        self.row.push(letter);
    }

    pub(crate) fn separate(&mut self, gap: Gap, c: char, source: Range<usize>) {
        self.after_flag = false;
        self.tail = self.tail.grown(gap);
        if gap.has(Gap::LOOKALIKE) {
            let (start, end) = (source.start as u16, source.end as u16);
            self.signs.push(Sign { c, start, end, before: self.row.len() as u16 });
        }
    }

    pub(crate) fn has(&self, class: Class) -> bool {
        self.classes & 1 << class as u8 != 0
    }

    /// Whether letters are repeated in a way that a writer may have done on purpose: `heeey`, `ffuucckk`,
    /// but not `good`.
    pub(crate) fn is_drawn_out(&self) -> bool {
        self.doubled > 1 || self.doubled_ideograph
    }

    /// Whether some way to write an account or a number can be here at all.
    pub(crate) fn has_digits_or_dashes(&self) -> bool {
        self.digits > 0 || self.gaps.has(Gap::DASH)
    }

    /// Whether the letter at `index` touches the one before it.
    pub(crate) fn touches_previous(&self, index: usize) -> bool {
        index > 0 && self.row[index].gap.is_none()
    }

    /// What stands behind the letter at `index`.
    pub(crate) fn gap_after(&self, index: usize) -> Gap {
        self.row.get(index + 1).map_or(self.tail, |next| next.gap)
    }

    /// Writes the letters, with one space wherever something stood between two.
    pub(crate) fn write_to(&self, out: &mut String) {
        for (index, letter) in self.row.iter().enumerate() {
            if index > 0 && !letter.gap.is_none() {
                out.push(' ');
            }
            out.push(letter.c);
        }
    }
}

/// The end of the characters that can still combine with what came before: joining and invisible ones.
fn end_of_run(table: &Table, text: &str, from: usize) -> usize {
    let goes_on = |glyph: Glyph| glyph.joins_previous() || glyph.meaning() == Meaning::Nothing;
    text[from..].find(|c| !goes_on(table.glyph(c))).map_or(text.len(), |length| from + length)
}

fn is_too_much(nfkc_bytes: usize, text_bytes: usize) -> bool {
    nfkc_bytes > TEXT_BYTES_MAX || (nfkc_bytes > GROWTH_FREE_BYTES && nfkc_bytes > GROWTH_MAX * text_bytes)
}
