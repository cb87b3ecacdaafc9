//! A pull reader over one JSON text (RFC 8259) that borrows its strings.
//!
//! It reads once, from left to right, and keeps nothing but its place. What breaks the grammar ends the
//! reading; what is JSON but of the wrong type is noted (the first such field) and skipped, so that the
//! rest is still read: the id of a publish may stand behind the field that was wrong.

use bumpalo::Bump;
use bumpalo::collections::String as ArenaString;

use crate::native::command::{Bad, Malformed, Problem};

/// How deep arrays and objects may nest, the outermost included.
pub const DEPTH_MAX: u32 = 8;

pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    arena: &'a Bump,
    bad: Option<Bad>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(text: &'a str, arena: &'a Bump) -> Self {
        Self { text, at: 0, depth: 0, arena, bad: None }
    }

    /// The first field that was refused.
    pub(super) const fn bad(&self) -> Option<Bad> {
        self.bad
    }

    /// Notes a field that is JSON but not what it should be. Only the first one is kept.
    pub(super) fn refuse(&mut self, field: &'static str, problem: Problem) {
        self.bad.get_or_insert(Bad { field, problem });
    }

    /// The byte that the next value starts with, after white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.malformed()),
        }
    }

    fn malformed(&self) -> Malformed {
        Malformed::Json { at: self.at }
    }

    fn eat(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.malformed())
    }

    /// Steps into the object that stands here.
    pub(super) fn open_object(&mut self) -> Result<(), Malformed> {
        self.eat(b'{')?;
        self.deeper()
    }

    fn deeper(&mut self) -> Result<(), Malformed> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Malformed::TooDeep) } else { Ok(()) }
    }

    /// The next key of the object, its colon eaten; `None` when the object has ended. `first` is set
    /// until a key was read.
    pub(super) fn next_key(&mut self, first: &mut bool) -> Result<Option<&'a str>, Malformed> {
        if !self.goes_on(b'}', first)? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.malformed());
        }
        let (key, _) = self.raw_string()?;
        self.eat(b':')?;
        Ok(Some(key))
    }

    /// Whether another member follows; eats the comma before it, or the bracket that closes.
    fn goes_on(&mut self, close: u8, first: &mut bool) -> Result<bool, Malformed> {
        let next = self.peek();
        if next == Some(close) {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.eat(b',')?;
        }
        Ok(true)
    }

    /// A string field; `None` where `null` or another type stands.
    pub(super) fn string(&mut self, field: &'static str) -> Result<Option<&'a str>, Malformed> {
        if self.peek() != Some(b'"') {
            return self.not_the_type(field, "a string");
        }
        let (string, whole) = self.raw_string()?;
        if !whole {
            self.refuse(field, Problem::Surrogate);
        }
        Ok(Some(string))
    }

    /// A field of whole numbers up to `max`; `None` where `null` or something else stands.
    pub(super) fn number(&mut self, field: &'static str, max: u64) -> Result<Option<u64>, Malformed> {
        if !matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            return self.not_the_type(field, "a whole number");
        }
        let start = self.at;
        let whole = self.skip_number()?;
        let digits = &self.text[start..self.at];
        if !whole {
            self.refuse(field, Problem::Type("a whole number"));
            return Ok(None);
        }
        match digits.parse::<u64>() {
            Ok(value) if value <= max => Ok(Some(value)),
            _ => {
                self.refuse(field, Problem::Range);
                Ok(None)
            }
        }
    }

    /// A field that is true or false; `None` where `null` or another type stands.
    pub(super) fn boolean(&mut self, field: &'static str) -> Result<Option<bool>, Malformed> {
        match self.peek() {
            Some(b't') => self.word("true").map(|()| Some(true)),
            Some(b'f') => self.word("false").map(|()| Some(false)),
            _ => self.not_the_type(field, "true or false"),
        }
    }

    /// Whether an object field stands here; `null` or another type is skipped.
    pub(super) fn object(&mut self, field: &'static str) -> Result<bool, Malformed> {
        if self.peek() == Some(b'{') {
            self.open_object()?;
            return Ok(true);
        }
        self.not_the_type::<()>(field, "an object")?;
        Ok(false)
    }

    /// `null` is the same as an absent field (the protobuf JSON mapping); the rest is refused.
    fn not_the_type<T>(
        &mut self,
        field: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, Malformed> {
        if self.peek() != Some(b'n') {
            self.refuse(field, Problem::Type(expected));
        }
        self.skip()?;
        Ok(None)
    }

    /// Skips the value that stands here, checking that it is one.
    pub(super) fn skip(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            Some(b'"') => self.raw_string().map(drop),
            Some(b'{') => {
                self.open_object()?;
                let mut first = true;
                while self.next_key(&mut first)?.is_some() {
                    self.skip()?;
                }
                Ok(())
            }
            Some(b'[') => {
                self.at += 1;
                self.deeper()?;
                let mut first = true;
                while self.goes_on(b']', &mut first)? {
                    self.skip()?;
                }
                Ok(())
            }
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.skip_number().map(drop),
            _ => Err(self.malformed()),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Malformed> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.malformed())
    }

    /// Steps over a number (RFC 8259 §6); true where it is a plain run of digits after an optional minus.
    fn skip_number(&mut self) -> Result<bool, Malformed> {
        if self.here() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.here() == Some(b'0');
        let digits = self.digits()?;
        if leading_zero && digits > 1 {
            return Err(self.malformed());
        }
        let mut whole = true;
        if self.here() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            whole = false;
        }
        if matches!(self.here(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.here(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
            whole = false;
        }
        Ok(whole)
    }

    fn here(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// At least one digit.
    fn digits(&mut self) -> Result<usize, Malformed> {
        let start = self.at;
        while matches!(self.here(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.malformed()) } else { Ok(self.at - start) }
    }

    /// Reads the string whose quote stands here, and tells whether all its surrogates were in pairs.
    fn raw_string(&mut self) -> Result<(&'a str, bool), Malformed> {
        let start = self.at + 1;
        self.at = start + plain_run(&self.text.as_bytes()[start..]);
        if self.here() == Some(b'"') {
            let string = &self.text[start..self.at];
            self.at += 1;
            return Ok((string, true));
        }
        self.escaped_string(start)
    }

    /// The rest of a string that cannot be borrowed, unescaped into the arena.
    #[cold]
    fn escaped_string(&mut self, start: usize) -> Result<(&'a str, bool), Malformed> {
        let mut unescaped = ArenaString::from_str_in(&self.text[start..self.at], self.arena);
        let mut whole = true;
        loop {
            match self.here() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((unescaped.into_bump_str(), whole));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    whole &= c.is_some();
                    unescaped.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                _ => return Err(self.malformed()),
            }
            let run = self.at;
            self.at += plain_run(&self.text.as_bytes()[run..]);
            unescaped.push_str(&self.text[run..self.at]);
        }
    }

    /// The character of an escape whose backslash was eaten; `None` for half a surrogate pair.
    fn escape(&mut self) -> Result<Option<char>, Malformed> {
        let c = match self.here() {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.malformed()),
        };
        self.at += 1;
        Ok(Some(c))
    }

    fn unicode_escape(&mut self) -> Result<Option<char>, Malformed> {
        let high = self.four_hex()?;
        if !(0xD800..0xDC00).contains(&high) {
            return Ok(char::from_u32(high));
        }
        if !self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            return Ok(None);
        }
        self.at += 2;
        let low = self.four_hex()?;
        if !(0xDC00..0xE000).contains(&low) {
            // Whatever this one was, the string is refused, or nobody looks at it.
            return Ok(None);
        }
        Ok(char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)))
    }

    fn four_hex(&mut self) -> Result<u32, Malformed> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.here().and_then(|b| char::from(b).to_digit(16)).ok_or(self.malformed())?;
            value = value << 4 | digit;
            self.at += 1;
        }
        Ok(value)
    }
}

/// How many bytes from the start are neither quote, backslash nor control character: eight at a time.
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    /// High bit set in each byte that is zero, exact up to and including the first one.
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGHS
    }
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quotes = zeros(word ^ (ONES * b'"' as u64));
        let backslashes = zeros(word ^ (ONES * b'\\' as u64));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let special = quotes | backslashes | controls;
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    words.len() * 8 + tail.iter().position(|byte| !plain(byte)).unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `plain_run` finds the first byte that cannot stand unescaped, whatever stands around it.
    #[test]
    fn a_plain_run_ends_at_the_first_quote_backslash_or_control_character() {
        for special in 0..=u8::MAX {
            for filler in [0x20, b'a', 0x7F, 0x80, 0xA2, 0xDC, 0xFF] {
                for at in 0..20 {
                    let mut bytes = [filler; 24];
                    bytes[at] = special;
                    bytes[at + 1] = b'"';
                    let stops = matches!(special, b'"' | b'\\' | 0..0x20);
                    assert_eq!(plain_run(&bytes), if stops { at } else { at + 1 }, "{special:#x} at {at}");
                }
            }
        }
        assert_eq!(plain_run(b""), 0);
        assert_eq!(plain_run("一条弹幕".as_bytes()), 12);
    }
}
