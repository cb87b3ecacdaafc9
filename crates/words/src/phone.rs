//! Phone numbers: Chinese mobile ones in digits of any script or in characters, and those with a plus.

use crate::character::Class;
use crate::contact::{Reading, Span};
use crate::gap::Gap;
use crate::letters::Letter;

/// Digits of a Chinese mobile number.
const MOBILE: usize = 11;
/// Fewer kinds of digits are cheering or a rounded sum.
const MOBILE_KINDS_MIN: usize = 4;
/// Digits of an international number behind its plus (ITU-T E.164).
const INTERNATIONAL: std::ops::RangeInclusive<usize> = 8..=15;
/// Where a mobile number is written in groups: 138 0013 8000.
const GROUPS: [usize; 2] = [3, 7];
/// Numbers that are said for their sound: "I love you", "forever". Nobody is reached by them.
const SPOKEN: [&str; 4] = ["1314", "520", "521", "3344"];
/// Digits left beside them in what is still no phone number.
const BESIDE_SPOKEN_MAX: usize = 2;

/// Phone numbers, each once.
pub(crate) fn phones(reading: Reading<'_>, found: &mut impl FnMut(Span)) {
    let row = &reading.letters.row;
    let mut at = 0;
    while at < row.len() {
        if digit(&row[at]).is_none() {
            at += 1;
            continue;
        }
        let goes_on = |letter: &&Letter| digit(letter).is_some() && !letter.gap.has(Gap::CLAUSE);
        let length = 1 + row[at + 1..].iter().take_while(goes_on).count();
        if is_phone(&row[at..at + length]) {
            found((at, at + length - 1));
        }
        at += length;
    }
}

fn is_phone(digits: &[Letter]) -> bool {
    let is_international = digits[0].gap.has(Gap::PLUS) && INTERNATIONAL.contains(&digits.len());
    let mobile = without_country(digits);
    is_international
        || (mobile.len() == MOBILE
            && is_written_like_one(mobile)
            && matches!(values(&mobile[..2]), [Some('1'), Some('3'..='9')])
            && kinds(mobile.iter().filter_map(digit)) >= MOBILE_KINDS_MIN
            && !is_spoken(mobile))
}

fn without_country(digits: &[Letter]) -> &[Letter] {
    let has_country = digits.len() == MOBILE + 2 && values(&digits[..2]) == [Some('8'), Some('6')];
    if has_country { &digits[2..] } else { digits }
}

fn values(two: &[Letter]) -> [Option<char>; 2] {
    [two.first().and_then(digit), two.get(1).and_then(digit)]
}

/// In one piece, in groups, or digit by digit.
fn is_written_like_one(mobile: &[Letter]) -> bool {
    let gaps = || (1..mobile.len()).filter(|index| !mobile[*index].gap.is_none());
    gaps().count() == mobile.len() - 1 || gaps().count() == 0 || gaps().eq(GROUPS)
}

fn is_spoken(mobile: &[Letter]) -> bool {
    let mut at = 0;
    let mut beside = 0;
    while at < mobile.len() {
        let rest = &mobile[at..];
        let same = |word: &&&str| {
            word.len() <= rest.len() && word.chars().zip(rest).all(|(c, letter)| digit(letter) == Some(c))
        };
        match SPOKEN.iter().find(same) {
            Some(word) => at += word.len(),
            None => {
                beside += 1;
                at += 1;
            }
        }
    }
    beside <= BESIDE_SPOKEN_MAX
}

/// How many different digits there are.
pub(crate) fn kinds(digits: impl Iterator<Item = char>) -> usize {
    let seen = digits.fold(0_u16, |seen, c| seen | 1 << c.to_digit(10).unwrap_or(0));
    seen.count_ones() as usize
}

/// The ASCII digit that a letter stands for.
fn digit(letter: &Letter) -> Option<char> {
    if letter.class == Class::Digit {
        return letter.c.is_ascii_digit().then_some(letter.c);
    }
    Some(match letter.c {
        '零' | '〇' => '0',
        '一' | '幺' | '壹' => '1',
        '二' | '贰' => '2',
        '三' | '叁' => '3',
        '四' | '肆' => '4',
        '五' | '伍' => '5',
        '六' | '陆' => '6',
        '七' | '柒' => '7',
        '八' | '捌' => '8',
        '九' | '玖' => '9',
        _ => return None,
    })
}
