//! Numbers and choices drawn from an input, for targets whose input is a list of operations. An input that
//! is used up draws the least of everything, so that every input means something.

use arbitrary::Unstructured;

/// An input that operations are read from.
pub struct Draw<'a>(Unstructured<'a>);

impl<'a> Draw<'a> {
    /// Draws from these bytes, front to back.
    pub fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has operations drawn until nothing is left, so many at most.
    pub fn operations(&mut self, most: usize, mut operate: impl FnMut(&mut Self)) {
        for _ in 0..most {
            if self.is_empty() {
                return;
            }
            operate(self);
        }
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or(0)
    }

    /// A number from `least` to `most`, both included.
    pub fn from_to(&mut self, least: u64, most: u64) -> u64 {
        self.0.int_in_range(least..=most).unwrap_or(least)
    }

    /// As [`Self::from_to`], for lengths and places.
    pub fn size(&mut self, least: usize, most: usize) -> usize {
        self.0.int_in_range(least..=most).unwrap_or(least)
    }

    /// So many bytes at most, as many as a number before them says.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let bytes = self.size(0, most).min(self.0.len());
        self.0.bytes(bytes).unwrap_or_default()
    }

    /// Yes or no.
    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }
}
