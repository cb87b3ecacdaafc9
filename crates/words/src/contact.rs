//! Ways out of the room: addresses of pages, mail addresses, accounts of messengers.
//!
//! They are found over the letters and gaps of the strict reading, by matchers that are written here and
//! take time that grows with the text alone. They look for what is meant to be read as an address: a
//! full stop without a space ("nice.me too") is no link, while `w w w . x . c o m` is one.

use crate::character::Class;
use crate::gap::Gap;
use crate::letters::{Letter, Letters};
use crate::phone;

/// Places of the first and the last letter.
pub(crate) type Span = (usize, usize);

/// Endings that make an address of whatever stands before them.
const STRONG_ENDINGS: [&str; 22] = [
    "com", "net", "org", "edu", "gov", "cn", "cc", "hk", "tw", "jp", "kr", "ru", "uk", "de", "fr", "xyz",
    "tk", "vip", "icu", "wang", "site", "shop",
];
/// Endings that are words too: only with `www`, a scheme or a path beside them.
const WEAK_ENDINGS: [&str; 22] = [
    "me", "io", "co", "tv", "to", "in", "is", "it", "so", "us", "gg", "ai", "app", "top", "live", "link",
    "info", "club", "online", "ly", "be", "pro",
];
/// Endings that are believed when they are spelled out or said in words.
const SPOKEN_ENDINGS: [&str; 7] = ["com", "net", "org", "cn", "cc", "xyz", "vip"];

/// Longest ending that is looked at, in letters.
const ENDING_LETTERS_MAX: usize = 6;
/// How far behind the sign of a mail address its first full stop may stand, in letters.
const DOMAIN_LETTERS_MAX: usize = 40;
/// Letters between the name of a messenger and an account: "微信号是".
const CONNECTING_MAX: usize = 6;

/// The letters of `text` with questions that addresses ask.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'t> {
    pub(crate) text: &'t str,
    pub(crate) letters: &'t Letters,
}

impl Reading<'_> {
    fn len(self) -> usize {
        self.letters.row.len()
    }

    fn gap(self, index: usize) -> Gap {
        self.letters.row[index].gap
    }

    fn c(self, index: usize) -> char {
        self.letters.row[index].c
    }

    pub(crate) fn is_name_letter(self, index: usize) -> bool {
        self.letters.row.get(index).is_some_and(|letter| letter.c.is_ascii_alphanumeric())
    }

    /// Whether what stands before the letter begins and ends with a space, as in `name . com`.
    fn has_space_around(self, index: usize) -> bool {
        let row = &self.letters.row;
        let between = self.text.get(usize::from(row[index - 1].end)..usize::from(row[index].start));
        between.is_some_and(|between| {
            between.starts_with(char::is_whitespace) && between.ends_with(char::is_whitespace)
        })
    }

    /// Whether the letters from `at` on are `word`, touching or each apart; the last one's place.
    fn says(self, at: usize, word: &str) -> Option<usize> {
        let row = self.letters.row.get(at..at + word.len())?;
        let same = row.iter().zip(word.chars()).all(|(letter, c)| letter.c == c);
        let inner = &row[1..];
        let together = inner.iter().all(|letter| letter.gap.is_none());
        let apart = inner.iter().all(|letter| letter.gap.has(Gap::SPACE) && !letter.gap.has(Gap::DOT));
        (same && (together || apart)).then_some(at + word.len() - 1)
    }

    /// Whether nothing Latin touches the letter from behind.
    fn ends_at(self, last: usize) -> bool {
        last + 1 == self.len()
            || !self.gap(last + 1).is_none()
            || self.letters.row[last + 1].class != Class::Latin
    }

    fn begins_at(self, first: usize) -> bool {
        !self.letters.touches_previous(first) || self.letters.row[first - 1].class != Class::Latin
    }

    /// The first letter of the name that ends at `last`: letters and digits that touch, hyphens between.
    fn name_begins(self, last: usize) -> usize {
        let mut first = last;
        while first > 0 && self.is_name_letter(first - 1) && is_tight(self.gap(first), Gap::DASH) {
            first -= 1;
        }
        first
    }

    /// The ending that begins at `at`, if one of `endings` stands there whole.
    fn ending(self, at: usize, endings: &[&str]) -> Option<usize> {
        let found = endings.iter().filter(|ending| ending.len() <= ENDING_LETTERS_MAX);
        let mut found = found.filter_map(|ending| self.says(at, ending));
        found.find(|last| self.ends_at(*last) && !self.goes_on_apart(at, *last))
    }

    /// Whether an ending that is spelled out is followed by one more single letter: `c o m e`.
    fn goes_on_apart(self, at: usize, last: usize) -> bool {
        let is_apart = last > at && self.gap(at + 1).has(Gap::SPACE);
        let single = |index: usize| index + 1 >= self.len() || !self.gap(index + 1).is_none();
        is_apart && self.is_name_letter(last + 1) && single(last + 1) && !self.gap(last + 1).has(Gap::SLASH)
    }

    /// The last letter of the address that has its ending at `last`: its port and path.
    fn path_end(self, last: usize) -> usize {
        let goes_on = |index: &usize| self.is_name_letter(*index) && !self.gap(*index).has(Gap::SPACE);
        let path = (last + 1..self.len()).take_while(goes_on).count();
        let begins = self.letters.gap_after(last).has(Gap::SLASH.and(Gap::COLON).and(Gap::DOT));
        if begins { last + path } else { last }
    }
}

/// Whether nothing stands there, or one sign of this kind.
fn is_tight(gap: Gap, kind: Gap) -> bool {
    gap.is_none() || (gap.has(kind) && !gap.has(Gap::MANY))
}

/// Latin letters and digits of the shortest link, "x点cc" and the like.
const LINK_LETTERS_MIN: u16 = 3;

/// Links, each once.
pub(crate) fn links(reading: Reading<'_>, found: &mut impl FnMut(Span)) {
    // An address has two names at least, and something between them.
    let letters = reading.letters;
    let is_dot = |said: &[Letter]| said.iter().map(|letter| letter.c).eq("dot".chars());
    let may_be_spoken =
        letters.row.iter().any(|letter| letter.c == '点') || letters.row.windows(3).any(is_dot);
    if letters.ascii < LINK_LETTERS_MIN || !(may_be_spoken || letters.gaps.has(Gap::DOT.and(Gap::SLASH))) {
        return;
    }
    let mut after = 0;
    for at in 1..reading.len() {
        if at < after {
            continue;
        }
        let link = link_at_dot(reading, at).or_else(|| spoken_link(reading, at));
        let link = link.or_else(|| scheme(reading, at - 1)).or_else(|| spelled_www(reading, at - 1));
        if let Some((first, last)) = link {
            found((first, last));
            after = last + 1;
        }
    }
}

/// `name.ending`, where the full stop stands before the letter `at`.
fn link_at_dot(reading: Reading<'_>, at: usize) -> Option<Span> {
    let gap = reading.gap(at);
    if !gap.has(Gap::DOT) || !reading.is_name_letter(at) || !reading.is_name_letter(at - 1) {
        return None;
    }
    // The sign of a mail address before the name: that is another pattern's affair.
    let first = reading.name_begins(at - 1);
    if is_tight(gap, Gap::DOT) {
        let before = first > 0 && reading.gap(first).has(Gap::AT);
        if let Some(last) = reading.ending(at, &STRONG_ENDINGS).filter(|_| !before) {
            return Some((first, reading.path_end(last)));
        }
        let last = reading.ending(at, &WEAK_ENDINGS)?;
        let has_path = reading.letters.gap_after(last).has(Gap::SLASH);
        return has_path.then(|| (first, reading.path_end(last)));
    }
    if !gap.has(Gap::SPACE) || gap.has(Gap::CLAUSE) {
        return None;
    }
    let last = reading.ending(at, &SPOKEN_ENDINGS)?;
    let is_spelled = reading.gap(at + 1).has(Gap::SPACE);
    (is_spelled || reading.has_space_around(at)).then_some((first, last))
}

/// `baidu点com` and `baidu dot com`.
fn spoken_link(reading: Reading<'_>, at: usize) -> Option<Span> {
    let (name_last, ending_at) = if reading.c(at) == '点' {
        (at - 1, at + 1)
    } else {
        let dot = reading.says(at, "dot").filter(|last| *last == at + 2 && reading.ends_at(*last))?;
        if reading.gap(at).is_none() || reading.letters.gap_after(dot).is_none() {
            return None;
        }
        (at - 1, dot + 1)
    };
    let first = reading.name_begins(name_last);
    let is_name = reading.is_name_letter(name_last) && name_last > first;
    let last = reading.ending(ending_at, &SPOKEN_ENDINGS)?;
    is_name.then_some((first, last))
}

/// `http://name`, whatever the name.
fn scheme(reading: Reading<'_>, at: usize) -> Option<Span> {
    if reading.c(at) != 'h' || !reading.begins_at(at) {
        return None;
    }
    let last = reading.says(at, "https").or_else(|| reading.says(at, "http"))?;
    let gap = reading.letters.gap_after(last);
    let is_scheme = gap.has(Gap::COLON) && gap.has(Gap::SLASH) && reading.is_name_letter(last + 1);
    let name = (last + 2..reading.len())
        .take_while(|index| reading.is_name_letter(*index) && !reading.gap(*index).has(Gap::SPACE));
    is_scheme.then(|| (at, last + 1 + name.count()))
}

/// `www` and at least two more names, with full stops between; also letter by letter.
fn spelled_www(reading: Reading<'_>, at: usize) -> Option<Span> {
    if reading.c(at) != 'w' || !reading.begins_at(at) {
        return None;
    }
    let www = reading.says(at, "www")?;
    let mut last = www;
    let mut dots = 0;
    for index in www + 1..reading.len().min(www + DOMAIN_LETTERS_MAX) {
        let gap = reading.gap(index);
        if !reading.is_name_letter(index) || gap.has(Gap::CLAUSE) {
            break;
        }
        let is_apart = www > at && reading.gap(at + 1).has(Gap::SPACE);
        if gap.has(Gap::DOT) {
            dots += 1;
        } else if gap.has(Gap::SPACE) && !is_apart {
            break;
        }
        last = index;
    }
    let begins = last > www && reading.gap(www + 1).has(Gap::DOT);
    (begins && dots >= 2).then(|| (at, reading.path_end(last)))
}

/// Mail addresses, each once.
pub(crate) fn emails(reading: Reading<'_>, found: &mut impl FnMut(Span)) {
    let begins = if reading.letters.gaps.has(Gap::AT) { 1 } else { reading.len() };
    for at in begins..reading.len() {
        let gap = reading.gap(at);
        if !gap.has(Gap::AT) || !reading.is_name_letter(at) || !reading.is_name_letter(at - 1) {
            continue;
        }
        let is_apart = gap.has(Gap::SPACE);
        if is_apart && !reading.has_space_around(at) {
            continue;
        }
        let mut first = at - 1;
        let name = Gap::DASH.and(Gap::DOT);
        while first > 0 && reading.is_name_letter(first - 1) && is_tight(reading.gap(first), name) {
            first -= 1;
        }
        for dot in at + 1..reading.len().min(at + DOMAIN_LETTERS_MAX) {
            let gap = reading.gap(dot);
            let goes_on = is_tight(gap, Gap::DASH.and(Gap::DOT)) || (is_apart && gap.has(Gap::SPACE));
            if !goes_on || !reading.is_name_letter(dot) {
                break;
            }
            if gap.has(Gap::DOT) {
                let weak = || reading.ending(dot, &WEAK_ENDINGS).filter(|_| !is_apart);
                if let Some(last) = reading.ending(dot, &STRONG_ENDINGS).or_else(weak) {
                    found((first, last));
                    break;
                }
            }
        }
    }
}

/// Names of messengers, folded, and what is said for "add me there".
const MESSENGERS: [&str; 26] = [
    "微信",
    "薇信",
    "威信",
    "徽信",
    "v信",
    "加v",
    "加微",
    "加薇",
    "vx",
    "wx",
    "weixin",
    "wechat",
    "qq",
    "加q",
    "q群",
    "扣扣",
    "企鹅",
    "群号",
    "加群",
    "加我",
    "telegram",
    "tg",
    "电报",
    "纸飞机",
    "whatsapp",
    "kakaotalk",
];

/// What may stand between the name of a messenger and the account.
const CONNECTING: &str = "号是搜索我的加为群码联系公众名叫找信";

/// Digits of a QQ number.
const ACCOUNT_DIGITS: std::ops::RangeInclusive<usize> = 5..=11;
/// Letters, digits, hyphens of an account that is no number.
const ACCOUNT_LETTERS: std::ops::RangeInclusive<usize> = 6..=20;
/// Fewer kinds of digits are cheering: 666666, 233333.
const DIGIT_KINDS_MIN: usize = 3;

/// Accounts behind the names of messengers.
pub(crate) fn contacts(reading: Reading<'_>, found: &mut impl FnMut(Span)) {
    let letters = reading.letters;
    if usize::from(letters.ascii) < *ACCOUNT_DIGITS.start() || !letters.has_digits_or_dashes() {
        return;
    }
    let mut after = 0;
    for at in 0..reading.len() {
        if at < after {
            continue;
        }
        let named = MESSENGERS.iter().filter_map(|name| messenger(reading, at, name)).max();
        if let Some(last) = named.and_then(|last| account_behind(reading, last)) {
            found((at, last));
            after = last + 1;
        }
    }
}

fn messenger(reading: Reading<'_>, at: usize, name: &str) -> Option<usize> {
    let row = &reading.letters.row;
    let letters = name.chars().count();
    let here = row.get(at..at + letters)?;
    let same = here.iter().zip(name.chars()).all(|(letter, c)| letter.c == c);
    let clause = Gap::CLAUSE.and(Gap::DOT);
    let together = here[1..].iter().all(|letter| !letter.gap.has(clause));
    (same && together && (here[0].class != Class::Latin || reading.begins_at(at))).then_some(at + letters - 1)
}

fn account_behind(reading: Reading<'_>, name_last: usize) -> Option<usize> {
    let row = &reading.letters.row;
    let connecting = |index: &usize| CONNECTING.contains(row[*index].c);
    let skipped = (name_last + 1..reading.len()).take(CONNECTING_MAX).take_while(connecting).count();
    let first = name_last + 1 + skipped;
    if !reading.is_name_letter(first) {
        return None;
    }
    // One more than an account may have tells that it is none; no text is walked through twice.
    let touching = (first + 1..reading.len())
        .take(*ACCOUNT_LETTERS.end())
        .take_while(|index| reading.is_name_letter(*index) && is_tight(row[*index].gap, Gap::DASH));
    let last = first + touching.count();
    let account = &row[first..=last];
    let digits = account.iter().filter(|letter| letter.class == Class::Digit).count();
    let has_dash = account[1..].iter().any(|letter| letter.gap.has(Gap::DASH));
    let is_name =
        ACCOUNT_LETTERS.contains(&account.len()) && digits < account.len() && (digits > 0 || has_dash);
    if is_name {
        return Some(last);
    }
    // A number may be spelled out.
    let spaced = (first..reading.len()).take(*ACCOUNT_DIGITS.end() + 1).take_while(|index| {
        row[*index].class == Class::Digit && (*index == first || !row[*index].gap.has(Gap::CLAUSE))
    });
    let length = spaced.count();
    let number = &row[first..first + length];
    let is_number = ACCOUNT_DIGITS.contains(&length)
        && phone::kinds(number.iter().map(|letter| letter.c)) >= DIGIT_KINDS_MIN;
    is_number.then(|| first + length - 1)
}
