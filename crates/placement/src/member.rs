//! What stands on a ring, and how much of it.

use std::sync::Arc;

/// Virtual nodes of a member of the default weight.
///
/// A member's share of the hash space then strays by about 1/√256 = 6 % from what its weight says.
pub const VIRTUAL_NODES_PER_DEFAULT_WEIGHT: u32 = 256;

/// Something that can own keys.
pub trait Member {
    /// The bytes that tell this member from every other, on every machine and after every restart.
    ///
    /// Its points on the ring come from nothing else, so a member that is called otherwise is another
    /// member.
    fn identity(&self) -> impl AsRef<[u8]>;
}

/// A worker's index on its machine.
impl Member for u16 {
    fn identity(&self) -> impl AsRef<[u8]> {
        self.to_le_bytes()
    }
}

/// A node's name.
impl Member for Arc<str> {
    fn identity(&self) -> impl AsRef<[u8]> {
        self.as_bytes()
    }
}

/// A node's name.
impl Member for String {
    fn identity(&self) -> impl AsRef<[u8]> {
        self.as_bytes()
    }
}

/// A node's name.
impl Member for &str {
    fn identity(&self) -> impl AsRef<[u8]> {
        self.as_bytes()
    }
}

/// How much of the ring a member takes, against the default of 100: 0..=1000, 0 for nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

/// A weight above [`Weight::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a weight of {0} is above 1000")]
pub struct WeightError(pub u16);

impl Weight {
    /// No part of the ring.
    pub const ZERO: Self = Self(0);
    /// Ten times the default.
    pub const MAX: Self = Self(1000);

    /// A weight of 0..=1000.
    ///
    /// # Errors
    /// When it is above [`Weight::MAX`].
    pub const fn new(weight: u16) -> Result<Self, WeightError> {
        match weight <= Self::MAX.0 {
            true => Ok(Self(weight)),
            false => Err(WeightError(weight)),
        }
    }

    /// The number.
    pub const fn value(self) -> u16 {
        self.0
    }

    /// Points on the ring: to the nearest whole one, and at least three for any weight above 0.
    pub(crate) const fn virtual_nodes(self) -> u32 {
        let default = Self::DEFAULT.0 as u32;
        (self.0 as u32 * VIRTUAL_NODES_PER_DEFAULT_WEIGHT + default / 2) / default
    }

    const DEFAULT: Self = Self(100);
}

impl Default for Weight {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Weight::new` and the points that follow from it.
    #[test]
    fn a_weight_is_at_most_1000_and_any_weight_above_zero_has_points() {
        let table = [(0, 0), (1, 3), (5, 13), (50, 128), (99, 253), (100, 256), (101, 259), (1000, 2560)];
        for (weight, points) in table {
            assert_eq!(Weight::new(weight).map(Weight::virtual_nodes), Ok(points), "weight {weight}");
        }
        assert_eq!(Weight::new(1001), Err(WeightError(1001)));
        assert_eq!(Weight::default().value(), 100);
    }
}
