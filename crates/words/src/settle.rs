//! A few characters that belong together, brought into the one form in which they are compared.
//!
//! Steps: NFKC (UAX #15), invisible characters out, marks as the profile says, case, letters that are
//! drawn smaller or in boxes, traditional Chinese. They are repeated until nothing changes, since each
//! can undo another: what remains settles to itself, and so the whole normaliser is idempotent.

use unicode_normalization::char::{
    canonical_combining_class, compose, decompose_canonical, decompose_compatible, is_combining_mark,
};

use crate::character::{Profile, is_regional_indicator};
use crate::chinese::simplified;

/// Marks kept behind one letter: as many as the Stream-Safe Text Format of UAX #15 allows. Ordering
/// them takes time that grows with the square.
const MARKS_MAX: usize = 30;

/// No character of Unicode needed more than four rounds; a bound is a bound.
const ROUNDS_MAX: usize = 8;

/// Reusable space for settling.
#[derive(Default)]
pub(crate) struct Settling {
    current: Vec<char>,
    composed: Vec<char>,
    folded: Vec<char>,
    /// UTF-8 length after the first NFKC.
    nfkc_bytes: usize,
}

impl Settling {
    /// Settles `characters`, which nothing before or after them can combine with.
    pub(crate) fn settle(&mut self, characters: impl IntoIterator<Item = char>, profile: Profile) -> &[char] {
        self.current.clear();
        self.current.extend(characters);
        for round in 0..ROUNDS_MAX {
            nfkc(&self.current, &mut self.composed);
            if round == 0 {
                self.nfkc_bytes = self.composed.iter().map(|c| c.len_utf8()).sum();
            }
            self.folded.clear();
            for c in &self.composed {
                fold(*c, profile, &mut self.folded);
            }
            if self.folded == self.current {
                break;
            }
            std::mem::swap(&mut self.folded, &mut self.current);
        }
        &self.current
    }

    /// How many bytes the last text took after NFKC, before anything was dropped.
    pub(crate) fn nfkc_bytes(&self) -> usize {
        self.nfkc_bytes
    }
}

/// NFKC of a short text (UAX #15): decompose, order the marks, compose.
fn nfkc(text: &[char], out: &mut Vec<char>) {
    out.clear();
    let mut marks = 0;
    for c in text.iter().filter(|c| !is_invisible(**c)) {
        decompose_compatible(*c, |part| {
            let class = canonical_combining_class(part);
            if class == 0 {
                marks = 0;
                out.push(part);
                return;
            }
            if marks == MARKS_MAX {
                return;
            }
            let ordered = out[out.len() - marks..].iter();
            let after = ordered.rev().take_while(|mark| canonical_combining_class(**mark) > class).count();
            out.insert(out.len() - after, part);
            marks += 1;
        });
    }
    let mut starter = None;
    // The class of the last mark that stayed between the starter and here.
    let mut between = None;
    let mut kept = 0;
    for at in 0..out.len() {
        let c = out[at];
        let class = canonical_combining_class(c);
        if let Some(starter) = starter
            && between.is_none_or(|between| between < class)
            && let Some(whole) = compose(out[starter], c)
        {
            out[starter] = whole;
            continue;
        }
        if class == 0 {
            starter = Some(kept);
            between = None;
        } else {
            between = Some(class);
        }
        out[kept] = c;
        kept += 1;
    }
    out.truncate(kept);
}

fn fold(c: char, profile: Profile, out: &mut Vec<char>) {
    // Circles and keys drawn around a character: they make no other letter in any script.
    if matches!(c as u32, 0x20dd..=0x20e4) {
        return;
    }
    if profile == Profile::Strict {
        if is_combining_mark(c) && !is_letter_of_its_script(c) {
            return;
        }
        fold_case(without_marks(c), |c| strict_latin(c, out));
    } else {
        fold_case(c, |c| out.push(simplified(boxed(c))));
    }
}

/// Case folding by way of the capital, so that ß is ss and every sigma is one.
fn fold_case(c: char, mut each: impl FnMut(char)) {
    if c.is_ascii() {
        return each(c.to_ascii_lowercase());
    }
    let capitals = c.to_lowercase().flat_map(char::to_uppercase);
    capitals.flat_map(char::to_lowercase).for_each(&mut each);
}

/// The letter under the marks, in the scripts whose marks the strict profile drops.
fn without_marks(c: char) -> char {
    let drops = matches!(c as u32, 0xc0..=0x52f | 0x622..=0x6d3 | 0x1e00..=0x1fff);
    // The breve over й makes a letter of its own, which no Russian would drop.
    if !drops || matches!(c, 'й' | 'Й') {
        return c;
    }
    let mut base = None;
    decompose_canonical(c, |part| {
        base.get_or_insert(part);
    });
    base.unwrap_or(c)
}

/// Marks that carry a vowel or end a syllable: without them Thai, Hindi and their neighbours are not
/// words. What remains are accents of the alphabets, Arabic and Hebrew points and marks for symbols.
fn is_letter_of_its_script(mark: char) -> bool {
    !matches!(mark as u32,
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5c7 | 0x610..=0x61a | 0x64b..=0x65f | 0x670
        | 0x6d6..=0x6ed | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0x2de0..=0x2dff
        | 0x302a..=0x302f | 0x3099..=0x309a | 0xa66f..=0xa67d | 0xfe00..=0xfe2f | 0x1d165..=0x1d1ad)
}

/// Letters in filled circles and squares, and the halves of flags; NFKC knows only the outlined ones.
fn boxed(c: char) -> char {
    let first = match c as u32 {
        0x1f150..=0x1f169 => 0x1f150,
        0x1f170..=0x1f189 => 0x1f170,
        _ if is_regional_indicator(c) => 0x1f1e6,
        _ => return c,
    };
    char::from(b'a' + (c as u32 - first) as u8)
}

/// Letters that are Latin ones drawn otherwise, which nobody who writes for readers needs in a word
/// list of this profile; the rest of what [`boxed`] and simplified Chinese do.
fn strict_latin(c: char, out: &mut Vec<char>) {
    let plain = match c {
        'ᴀ' | 'ɑ' | 'ɐ' => 'a',
        'ʙ' | 'ɓ' => 'b',
        'ᴄ' | 'ƈ' => 'c',
        'ᴅ' | 'đ' | 'ɗ' | 'ɖ' => 'd',
        'ᴇ' | 'ə' | 'ǝ' | 'ɛ' => 'e',
        'ꜰ' | 'ƒ' => 'f',
        'ɢ' | 'ɡ' | 'ɠ' => 'g',
        'ʜ' | 'ħ' | 'ɦ' => 'h',
        'ɪ' | 'ı' | 'ɨ' => 'i',
        'ᴊ' | 'ȷ' => 'j',
        'ᴋ' | 'ƙ' => 'k',
        'ʟ' | 'ł' | 'ƚ' => 'l',
        'ᴍ' | 'ɱ' => 'm',
        'ɴ' | 'ɲ' => 'n',
        'ᴏ' | 'ø' | 'ɔ' => 'o',
        'ᴘ' | 'ƥ' => 'p',
        'ꞯ' => 'q',
        'ʀ' | 'ɾ' => 'r',
        'ꜱ' | 'ʂ' => 's',
        'ᴛ' | 'ŧ' | 'ƭ' => 't',
        'ᴜ' | 'ʉ' => 'u',
        'ᴠ' | 'ʋ' => 'v',
        'ᴡ' | 'ɯ' => 'w',
        'ʏ' | 'ƴ' => 'y',
        'ᴢ' | 'ƶ' => 'z',
        'æ' => {
            out.push('a');
            'e'
        }
        'œ' => {
            out.push('o');
            'e'
        }
        // The mark of lengthening pulls Arabic letters apart and says nothing.
        'ـ' => return,
        _ => simplified(boxed(c)),
    };
    out.push(plain);
}

/// Characters that are not seen and say nothing: controls, joiners, direction marks, selectors, tags,
/// fillers (Unicode's Default_Ignorable_Code_Point, and controls that are no white space).
fn is_invisible(c: char) -> bool {
    match c as u32 {
        0xad
        | 0x34f
        | 0x61c
        | 0x115f
        | 0x1160
        | 0x17b4
        | 0x17b5
        | 0x180b..=0x180f
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x206f
        | 0x3164
        | 0xfe00..=0xfe0f
        | 0xfeff
        | 0xffa0
        | 0xfff0..=0xfff8
        | 0x1bca0..=0x1bca3
        | 0x1d173..=0x1d17a
        | 0xe0000..=0xe0fff => true,
        _ => c.is_control() && !c.is_whitespace(),
    }
}
