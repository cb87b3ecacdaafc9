//! What stands between two letters: nothing, a space, a full stop, a row of stars.
//!
//! A gap decides whether the letters on its two sides may belong to one word.

/// The kinds of separators between one letter and the next, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Gap(u16);

impl Gap {
    /// The letters touch.
    pub(crate) const NONE: Self = Self(0);
    /// White space.
    pub(crate) const SPACE: Self = Self(1);
    /// What ends a clause or stands inside one on purpose: comma, question mark, quotation, slash.
    pub(crate) const CLAUSE: Self = Self(1 << 1);
    /// A full stop in any script.
    pub(crate) const DOT: Self = Self(1 << 2);
    /// Anything else: stars, dashes, emoji.
    pub(crate) const LOOSE: Self = Self(1 << 3);
    /// The sign of mail addresses.
    pub(crate) const AT: Self = Self(1 << 4);
    /// A slash.
    pub(crate) const SLASH: Self = Self(1 << 5);
    /// A colon.
    pub(crate) const COLON: Self = Self(1 << 6);
    /// A plus.
    pub(crate) const PLUS: Self = Self(1 << 7);
    /// A hyphen or an underscore.
    pub(crate) const DASH: Self = Self(1 << 8);
    /// More than one separator.
    pub(crate) const MANY: Self = Self(1 << 9);
    /// A sign that is written for a letter it looks like.
    pub(crate) const LOOKALIKE: Self = Self(1 << 10);

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// This gap with one more separator in it.
    pub(crate) const fn grown(self, by: Self) -> Self {
        let many = if self.0 == 0 { 0 } else { Self::MANY.0 };
        Self(self.0 | by.0 | many)
    }
}

/// The gap that one character, already folded by NFKC, leaves.
pub(crate) fn of(c: char) -> Gap {
    match c {
        // A pattern of dots without a dot: it looks empty.
        '\u{2800}' => Gap::SPACE,
        _ if c.is_whitespace() => Gap::SPACE,
        '.' | '。' => Gap::DOT,
        '@' => Gap::AT.and(Gap::LOOSE).and(Gap::LOOKALIKE),
        '$' | '|' | '€' => Gap::LOOSE.and(Gap::LOOKALIKE),
        '!' => Gap::CLAUSE.and(Gap::LOOKALIKE),
        '/' => Gap::CLAUSE.and(Gap::SLASH),
        ':' => Gap::CLAUSE.and(Gap::COLON),
        '+' => Gap::LOOSE.and(Gap::PLUS),
        '-' | '_' | '\u{2010}'..='\u{2015}' | '−' => Gap::LOOSE.and(Gap::DASH),
        ',' | '?' | ';' | '、' | '\'' | '‘' | '’' | '"' | '“' | '”' | '(' | ')' | '[' | ']' | '「' | '」'
        | '『' | '』' | '《' | '》' | '【' | '】' | '¿' | '¡' | '،' | '؛' | '؟' | '।' | '॥' => {
            Gap::CLAUSE
        }
        _ => Gap::LOOSE,
    }
}
