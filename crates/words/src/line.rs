//! One line of a list: a word or a pattern, what to do about it, and how closely to look.
//!
//! The forms are written down at [`crate::WordList::compile`].

use crate::character::Profile;
use crate::list::Reason;

/// What happens to a text in which a rule finds something; the later, the more severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// What was found is covered, the rest is shown.
    Mask,
    /// The text waits for a moderator.
    Hold,
    /// The text is shown to its author alone, who is not told.
    Shadow,
    /// The text is refused.
    Drop,
}

impl Action {
    /// Reads the word for an action, as a line has it.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "mask" => Some(Self::Mask),
            "hold" => Some(Self::Hold),
            "shadow" => Some(Self::Shadow),
            "drop" => Some(Self::Drop),
            _ => None,
        }
    }
}

/// What is looked for by its form and not by its letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// An address of a web page, also spelled out: `w w w . x . c o m`.
    Link,
    /// A mail address.
    Email,
    /// A Chinese mobile number, or one that begins with a plus.
    Phone,
    /// An account of a messenger behind its name: WeChat, QQ, Telegram.
    Contact,
}

impl Pattern {
    pub(crate) const ALL: [Self; 4] = [Self::Link, Self::Email, Self::Phone, Self::Contact];

    /// As a line has it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Link => "!link",
            Self::Email => "!email",
            Self::Phone => "!phone",
            Self::Contact => "!contact",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name {
            "link" => Some(Self::Link),
            "email" => Some(Self::Email),
            "phone" => Some(Self::Phone),
            "contact" => Some(Self::Contact),
            _ => None,
        }
    }
}

/// A line that says something, as far as it can be understood without folding its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'l> {
    pub(crate) what: What<'l>,
    pub(crate) action: Option<Action>,
    pub(crate) profile: Option<Profile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What<'l> {
    Word { written: &'l str, word: &'l str, open_left: bool, open_right: bool },
    Pattern(Pattern),
}

impl<'l> Line<'l> {
    /// Reads one line; `None` where it says nothing.
    pub(crate) fn parse(line: &'l str) -> Result<Option<Self>, Reason> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (quoted, mut rest) = match line.strip_prefix('"') {
            None => (None, without_remark(line)),
            Some(open) => {
                let (word, after) = open.split_once('"').ok_or(Reason::OpenQuotation)?;
                (Some(word), without_remark(after))
            }
        };
        let (mut action, mut profile) = (None, None);
        while let Some((before, last)) = last_word(rest, quoted.is_some()) {
            if let (None, Some(found)) = (action, Action::parse(last)) {
                action = Some(found);
            } else if let (None, Some(found)) = (profile, parse_profile(last)) {
                profile = Some(found);
            } else {
                break;
            }
            rest = before;
        }
        let word = match quoted {
            None => rest,
            Some(word) if rest.trim().is_empty() => word,
            Some(_) => return Err(Reason::BehindQuotation),
        };
        let what = match word.strip_prefix('!') {
            Some(name) if quoted.is_none() => {
                What::Pattern(Pattern::parse(name).ok_or(Reason::UnknownPattern)?)
            }
            _ => open_ends(word)?,
        };
        Ok(Some(Self { what, action, profile }))
    }
}

/// The word or pattern of a line of a list as it is written there, stars included, without quotation marks, action, profile
/// and remark; `None` where the line says nothing, or nothing that can be understood.
pub fn word_of(line: &str) -> Option<&str> {
    match Line::parse(line).ok()?? {
        Line { what: What::Word { written, .. }, .. } => Some(written),
        Line { what: What::Pattern(pattern), .. } => Some(pattern.as_str()),
    }
}

/// Cuts what follows a `#` that stands behind white space.
fn without_remark(line: &str) -> &str {
    let mut hashes = line.match_indices('#');
    let remark = hashes.find(|(at, _)| line[..*at].ends_with(char::is_whitespace));
    remark.map_or(line, |(at, _)| &line[..at]).trim_end()
}

/// The last word and what stands before it; the first word of an unquoted line is the word itself.
fn last_word(rest: &str, may_be_first: bool) -> Option<(&str, &str)> {
    let rest = rest.trim_end();
    match rest.rsplit_once(char::is_whitespace) {
        Some((before, last)) => Some((before.trim_end(), last)),
        None if may_be_first && !rest.is_empty() => Some(("", rest)),
        None => None,
    }
}

fn parse_profile(word: &str) -> Option<Profile> {
    match word {
        "strict" => Some(Profile::Strict),
        "marks" => Some(Profile::Marks),
        _ => None,
    }
}

fn open_ends(written: &str) -> Result<What<'_>, Reason> {
    let (open_left, inner) = written.strip_prefix('*').map_or((false, written), |inner| (true, inner));
    let (open_right, inner) = inner.strip_suffix('*').map_or((false, inner), |inner| (true, inner));
    if inner.contains('*') {
        return Err(Reason::InnerStar);
    }
    Ok(What::Word { written, word: inner, open_left, open_right })
}
