//! Where in a room's log something stands.

use std::fmt;
use std::sync::Arc;

/// The largest sequence: 2^53 − 1, so that every JSON reader holds it exactly (RFC 8259 §6).
pub const SEQ_MAX: u64 = (1 << 53) - 1;
/// The longest epoch, in bytes.
pub const EPOCH_BYTES_MAX: usize = 64;

/// The lifetime of a room's counter: an opaque string, never empty, never reused.
///
/// Every start of ownership is a new epoch. A client that kept only a number could not tell the
/// hundredth entry of today from the hundredth of the process before; with the pair it can.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Epoch(Arc<str>);

impl Epoch {
    /// Takes an epoch as a client or a store gives it: 1–64 bytes of `[A-Za-z0-9_-]`.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=EPOCH_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        fits.then(|| Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.0)
    }
}

/// A sequence within an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The counter's lifetime.
    pub epoch: Epoch,
    /// The counter: gapless within the epoch, below 2^53.
    pub seq: u64,
}

impl Position {
    /// Parses the form of a query parameter and of an SSE event id, `EPOCH:SEQ`.
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, seq) = text.rsplit_once(':')?;
        let digits = !seq.is_empty() && seq.bytes().all(|b| b.is_ascii_digit());
        let seq: u64 = digits.then(|| seq.parse().ok())??;
        (seq <= SEQ_MAX).then_some(Self { epoch: Epoch::parse(epoch)?, seq })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Position::parse` takes what `Display` writes and nothing looser.
    #[test]
    fn positions_round_trip_and_refuse_what_is_loose() {
        let p = Position { epoch: Epoch::parse("7-k2").expect("valid"), seq: 41 };
        assert_eq!(Position::parse(&p.to_string()), Some(p));
        for bad in ["", ":", "e:", ":1", "e:-1", "e:+1", "e: 1", "e:9007199254740992", "e e:1", "e"] {
            assert_eq!(Position::parse(bad), None, "{bad:?}");
        }
    }
}
