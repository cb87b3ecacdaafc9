//! What becomes of one character: the table that the normaliser looks into.
//!
//! In comes a character and a [`Profile`], out comes a [`Glyph`]: the one letter it stands for, the kind
//! of gap it leaves, nothing at all, or the news that it has to be looked at together with its
//! neighbours. A table is filled once a profile, from the same rules that settle the difficult cases, so
//! that the quick way and the slow way cannot disagree.

use std::sync::LazyLock;

use unicode_normalization::char::{canonical_combining_class, decompose_compatible, is_combining_mark};
use unicode_normalization::{IsNormalized, is_nfc_quick};

use crate::chinese::simplified;
use crate::gap::{self, Gap};
use crate::settle::Settling;

/// How much of a character's look a list gives up before it compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Profile {
    /// Accents and other marks over Latin, Greek, Cyrillic, Arabic and Hebrew letters are dropped, and
    /// letters and signs that look like Latin ones are read as such.
    Strict,
    /// Every mark is kept, and only what Unicode calls the same is the same: for languages such as
    /// Vietnamese, in which a mark makes another word.
    Marks,
}

/// What kind of sign a letter is: it decides where a word may begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// A letter of the Latin alphabet.
    Latin = 0,
    /// A letter of any other script that puts spaces between words.
    Word = 1,
    /// A digit or another number.
    Digit = 2,
    /// Han, kana or bopomofo: no spaces, and a word may begin anywhere.
    Ideograph = 3,
    /// Hangul, Thai and their like: a word may begin anywhere, but a space between letters means something.
    Dense = 4,
    /// A mark that belongs to the letter before it.
    Mark = 5,
}

impl Class {
    const ALL: [Self; 6] = [Self::Latin, Self::Word, Self::Digit, Self::Ideograph, Self::Dense, Self::Mark];

    /// Letters of scripts that put spaces between words.
    pub(crate) fn is_spaced(self) -> bool {
        matches!(self, Self::Latin | Self::Word)
    }

    /// Whether a whole word begins only where no letter binds the first one: scripts without spaces
    /// begin one behind any syllable.
    pub(crate) fn needs_beginning(self) -> bool {
        !matches!(self, Self::Ideograph | Self::Dense)
    }

    /// Whether an edge letter of a word and one of class `outside` that touches it make a longer word.
    pub(crate) fn binds(self, outside: Self) -> bool {
        match self {
            // A number behind a word is not part of it: `word1`. A mark always is.
            Self::Latin | Self::Word => outside.is_spaced() || outside == Self::Mark,
            Self::Digit => outside.is_spaced() || matches!(outside, Self::Digit | Self::Mark),
            Self::Mark => outside != Self::Ideograph,
            Self::Ideograph | Self::Dense => outside == Self::Mark,
        }
    }
}

/// What a character turns into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// One letter.
    Letter(char, Class),
    /// A separator of this kind.
    Gap(Gap),
    /// Nothing: it is invisible.
    Nothing,
    /// Several letters.
    Several,
}

/// An entry of the table: the meaning in one word, and whether the character can change the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Glyph(u32);

const VALUE_BITS: u32 = 21;
const VALUE: u32 = (1 << VALUE_BITS) - 1;
const KIND_GAP: u32 = 6;
const KIND_NOTHING: u32 = 7;
const KIND: u32 = 7;
const JOINS: u32 = 1 << 24;
const SEVERAL: u32 = 1 << 25;
const FLAG: u32 = 1 << 26;

impl Glyph {
    const NOTHING: Self = Self(KIND_NOTHING << VALUE_BITS);

    fn new(c: char, meaning: Meaning) -> Self {
        let meaning = match meaning {
            Meaning::Letter(letter, class) => u32::from(letter) | (class as u32) << VALUE_BITS,
            Meaning::Gap(gap) => u32::from(gap.bits()) | KIND_GAP << VALUE_BITS,
            Meaning::Nothing => KIND_NOTHING << VALUE_BITS,
            Meaning::Several => SEVERAL,
        };
        let joins = if joins_previous(c) { JOINS } else { 0 };
        let flag = if is_regional_indicator(c) { FLAG } else { 0 };
        Self(meaning | joins | flag)
    }

    /// Whether it stands for itself whatever stands around it, and is a letter.
    #[inline]
    pub(crate) fn plain_letter(self) -> Option<(char, Class)> {
        let kind = self.0 >> VALUE_BITS;
        // Any flag lifts the number above the classes.
        let class = *Class::ALL.get(kind as usize)?;
        Some((char::from_u32(self.0 & VALUE)?, class))
    }

    /// Whether it can combine with the character before it.
    #[inline]
    pub(crate) fn joins_previous(self) -> bool {
        self.0 & JOINS != 0
    }

    /// Whether it is one half of a flag: a letter, but set apart from the letters beside it.
    pub(crate) fn is_flag_half(self) -> bool {
        self.0 & FLAG != 0
    }

    /// The meaning of the character alone.
    pub(crate) fn meaning(self) -> Meaning {
        if self.0 & SEVERAL != 0 {
            return Meaning::Several;
        }
        let value = self.0 & VALUE;
        let kind = self.0 >> VALUE_BITS & KIND;
        match Class::ALL.get(kind as usize) {
            Some(class) => char::from_u32(value).map_or(Meaning::Nothing, |c| Meaning::Letter(c, *class)),
            None if kind == KIND_GAP => Meaning::Gap(Gap::from_bits(value as u16)),
            None => Meaning::Nothing,
        }
    }
}

const PAGE: usize = 256;
/// The planes that hold letters; the others hold tags, private use and nothing.
const PLANES_LISTED: usize = 4;
const PAGES: usize = PLANES_LISTED * 0x1_0000 / PAGE;

/// Glyphs of every character of the first four planes, equal pages kept once.
pub(crate) struct Table {
    pages: Box<[u16; PAGES]>,
    glyphs: Vec<[Glyph; PAGE]>,
}

static STRICT: LazyLock<Table> = LazyLock::new(|| Table::fill(Profile::Strict));
static MARKS: LazyLock<Table> = LazyLock::new(|| Table::fill(Profile::Marks));

impl Table {
    /// The table of a profile; the first call takes some tens of milliseconds.
    pub(crate) fn of(profile: Profile) -> &'static Self {
        match profile {
            Profile::Strict => &STRICT,
            Profile::Marks => &MARKS,
        }
    }

    #[inline]
    pub(crate) fn glyph(&self, c: char) -> Glyph {
        let code = c as usize;
        match self.pages.get(code / PAGE) {
            Some(page) => self.glyphs[*page as usize][code % PAGE],
            None => Glyph::NOTHING,
        }
    }

    fn fill(profile: Profile) -> Self {
        let mut pages = Box::new([0; PAGES]);
        let mut glyphs: Vec<[Glyph; PAGE]> = Vec::new();
        let mut settling = Settling::default();
        for (number, page) in pages.iter_mut().enumerate() {
            let mut filled = [Glyph::NOTHING; PAGE];
            for (at, glyph) in filled.iter_mut().enumerate() {
                if let Some(c) = char::from_u32((number * PAGE + at) as u32) {
                    *glyph = Glyph::new(c, meaning_of(c, profile, &mut settling));
                }
            }
            // Runs of equal pages are what there is to save: unassigned and rare planes.
            if glyphs.last() != Some(&filled) {
                glyphs.push(filled);
            }
            *page = (glyphs.len() - 1) as u16;
        }
        Self { pages, glyphs }
    }
}

fn meaning_of(c: char, profile: Profile, settling: &mut Settling) -> Meaning {
    // Two thirds of the table: NFKC, case and marks leave them alone.
    if matches!(c as u32, 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7a3 | 0x20000..=0x2f7ff | 0x30000..=0x3ffff)
    {
        return settled_meaning(simplified(simplified(c)));
    }
    match settling.settle([c], profile) {
        [] => Meaning::Nothing,
        [one] => settled_meaning(*one),
        _ => Meaning::Several,
    }
}

/// The meaning of a character that settling no longer changes.
fn settled_meaning(c: char) -> Meaning {
    if is_combining_mark(c) {
        return Meaning::Letter(c, Class::Mark);
    }
    if c.is_alphanumeric() { Meaning::Letter(c, class_of(c)) } else { Meaning::Gap(gap::of(c)) }
}

fn class_of(letter: char) -> Class {
    match letter as u32 {
        0x61..=0x7a
        | 0xaa
        | 0xba
        | 0xc0..=0x24f
        | 0x250..=0x2af
        | 0x1d00..=0x1dbf
        | 0x1e00..=0x1eff
        | 0x2c60..=0x2c7f
        | 0xa720..=0xa7ff
        | 0xab30..=0xab6f => Class::Latin,
        0x3005..=0x3007
        | 0x3021..=0x3029
        | 0x3031..=0x3035
        | 0x303b
        | 0x3041..=0x312f
        | 0x31a0..=0x31bf
        | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xf900..=0xfaff
        | 0x1aff0..=0x1b16f
        | 0x20000..=0x3ffff => Class::Ideograph,
        // Hangul in pieces and whole, Thai, Lao, Tibetan, Burmese, Khmer.
        0x1100..=0x11ff
        | 0x3130..=0x318f
        | 0xa960..=0xa97f
        | 0xac00..=0xd7ff
        | 0xe00..=0xfff
        | 0x1000..=0x109f
        | 0x1780..=0x17ff => Class::Dense,
        _ if letter.is_numeric() => Class::Digit,
        _ => Class::Word,
    }
}

/// Whether NFKC can put the character together with the one before: its decomposition begins with a
/// mark, or with a letter that only stands behind another one (UAX #15, "NFC_QC = Maybe").
fn joins_previous(c: char) -> bool {
    let mut first = None;
    decompose_compatible(c, |part| {
        first.get_or_insert(part);
    });
    let first = first.unwrap_or(c);
    canonical_combining_class(first) != 0 || is_nfc_quick(std::iter::once(first)) == IsNormalized::Maybe
}

pub(crate) fn is_regional_indicator(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}
