//! A set of header names that is asked once for every header of a request.
//!
//! Nearly every header is not in it, so a miss must cost next to nothing: two bytes of the name and its
//! length pick one bit, and only where that bit is set are the few names behind it compared. Keys come from
//! strangers; all they can pick is which of the operator's own names theirs is compared with.
//! (Measured against a trie and hash sets: benches/internal_headers.rs.)

use hyper::header::{HeaderMap, HeaderName};

/// Longer names are compared as if they had this length; real ones are shorter.
const LENGTHS: usize = 64;

/// Names in lowercase. Built once, never changed.
#[derive(Debug, Clone)]
pub struct Names {
    /// For each length, one bit for each mark that a name of it has.
    marks: [u64; LENGTHS],
    /// For each length, the place in `starts` of its lowest bit; those of its other bits follow.
    groups: [u16; LENGTHS],
    /// Where the names of a length and a bit begin in `sorted`; they end where the next ones begin.
    starts: Vec<u16>,
    sorted: Vec<Box<str>>,
}

/// Why names make no set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamesError {
    /// Not a header name.
    #[error("{0:?} is no header name: write it in letters, digits and hyphens, as \"x-internal-user\"")]
    Name(String),
    /// More than [`Names::MAX`].
    #[error("{0} names are more than {max}", max = Names::MAX)]
    TooMany(usize),
}

impl Names {
    /// Most names in a set.
    pub const MAX: usize = 4_096;

    /// A set of names; upper case becomes lower, names said twice count once.
    ///
    /// # Errors
    /// When one is no header name (RFC 9110 5.1), or there are too many.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, NamesError> {
        let mut sorted = Vec::new();
        for name in names {
            let read: HeaderName = name.parse().map_err(|_| NamesError::Name(name.to_owned()))?;
            sorted.push(Box::<str>::from(read.as_str()));
        }
        let place = |name: &str| (length(name), mark(name.as_bytes()));
        sorted.sort_unstable_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.cmp(b)));
        sorted.dedup();
        if sorted.len() > Self::MAX {
            return Err(NamesError::TooMany(sorted.len()));
        }
        let mut marks = [0; LENGTHS];
        let mut groups = [0; LENGTHS];
        let mut starts = Vec::new();
        // Both fit: there are no more groups than names, and of those at most `MAX`.
        const { assert!(Names::MAX < u16::MAX as usize) };
        for (at, name) in sorted.iter().enumerate() {
            let (length, mark) = place(name);
            if marks[length] == 0 {
                groups[length] = starts.len() as u16;
            }
            if marks[length] & mark == 0 {
                starts.push(at as u16);
            }
            marks[length] |= mark;
        }
        starts.push(sorted.len() as u16);
        Ok(Self { marks, groups, starts, sorted })
    }

    /// Whether a name, in lowercase, is in the set.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.candidates(name).iter().any(|own| **own == *name)
    }

    /// Whether a name is in the set once `_` is read as `-`: many servers behind us cannot tell
    /// `x_internal_user` from `x-internal-user`.
    #[must_use]
    pub fn has_in_any_spelling(&self, name: &str) -> bool {
        let same =
            |own: &str| own.len() == name.len() && own.bytes().map(folded).eq(name.bytes().map(folded));
        // The first look is much the cheaper, and nearly always right.
        self.candidates(name).iter().any(|own| **own == *name || same(own))
    }

    /// The names that a name could be: those of its length and mark.
    fn candidates(&self, name: &str) -> &[Box<str>] {
        let length = length(name);
        let (marks, mark) = (self.marks[length], mark(name.as_bytes()));
        if marks & mark == 0 {
            return &[];
        }
        let lower = (marks & (mark - 1)).count_ones() as usize;
        let group = usize::from(self.groups[length]) + lower;
        &self.sorted[usize::from(self.starts[group])..usize::from(self.starts[group + 1])]
    }

    /// Takes every header of the set out of a request, in any spelling; how many names that were.
    pub fn strip(&self, headers: &mut HeaderMap) -> usize {
        let found: Vec<HeaderName> =
            headers.keys().filter(|name| self.has_in_any_spelling(name.as_str())).cloned().collect();
        for name in &found {
            headers.remove(name);
        }
        found.len()
    }
}

fn length(name: &str) -> usize {
    name.len().min(LENGTHS - 1)
}

/// One bit of 64, by the byte in the middle and the last one: names that begin alike (`x-…`) differ there.
/// The same for every spelling of a name.
fn mark(name: &[u8]) -> u64 {
    let (Some(last), Some(middle)) = (name.last(), name.get(name.len() / 2)) else { return 1 };
    1 << ((folded(*last) ^ folded(*middle).wrapping_mul(11)) & 63)
}

fn folded(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stripping_takes_out_the_set_in_any_spelling_and_nothing_else() {
        let names = Names::new(["x-internal-user", "X-Real-Role", "via"]).expect("names");
        let mut headers = HeaderMap::new();
        for name in [
            "host",
            "x-internal-user",
            "x_internal_user",
            "x-internal_user",
            "x-real-role",
            "x-internal",
            "x-internal-users",
            "vib",
            "cookie",
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        headers.append("x-internal-user", HeaderValue::from_static("2"));
        assert_eq!(names.strip(&mut headers), 4);
        let left: BTreeSet<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, BTreeSet::from(["host", "x-internal", "x-internal-users", "vib", "cookie"]));
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for name in ["", "x y", "x:y", "naïve", "x\n"] {
            assert_eq!(Names::new([name]).err(), Some(NamesError::Name(name.to_owned())), "{name:?}");
        }
        let many: Vec<String> = (0..=Names::MAX).map(|n| format!("x-{n}")).collect();
        let error = Names::new(many.iter().map(String::as_str)).expect_err("too many");
        assert_eq!(error.to_string(), "4097 names are more than 4096");
    }

    proptest! {
        #[test]
        fn it_has_what_a_set_of_strings_has(
            own in proptest::collection::btree_set("[a-c_-]{1,5}|[a-b]{61,66}", 0..30),
            asked in proptest::collection::vec("[a-c_-]{1,5}|[a-b]{61,66}", 0..30),
        ) {
            let names = Names::new(own.iter().map(String::as_str)).expect("names");
            let set: BTreeSet<&str> = own.iter().map(String::as_str).collect();
            for name in asked.iter().chain(&own) {
                prop_assert_eq!(names.has(name), set.contains(name.as_str()), "{}", name);
                let same = set.iter().any(|own| own.replace('_', "-") == name.replace('_', "-"));
                prop_assert_eq!(names.has_in_any_spelling(name), same, "{}", name);
            }
        }
    }
}
