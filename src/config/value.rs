//! The kinds of values that keys have, each with how it is written in TOML.

use std::net::SocketAddr;
use std::path::PathBuf;

use danmaku_room::admission::rule;
use serde::{Deserialize, Deserializer, de};

use crate::identity::claims::TokenRole;

/// A value as the reference shows it and as bounds compare it.
pub trait Setting {
    /// The value as TOML; `None` where there is none.
    fn written(&self) -> Option<String>;

    /// The value as a number that bounds can be compared with; `None` where it has none.
    fn number(&self) -> Option<f64> {
        None
    }
}

/// A length of time: `"250ms"`, `"10s"`, `"5m"`, `"1h"`, `"7d"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration(u64);

const TIME_UNITS: [(&str, u64); 5] =
    [("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];
const SIZE_UNITS: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl Duration {
    /// Of milliseconds.
    pub const fn of_ms(ms: u64) -> Self {
        Self(ms * 1_000)
    }

    /// Reads `"10s"`.
    pub fn parse(text: &str) -> Option<Self> {
        with_unit(text, &TIME_UNITS).map(Self)
    }

    /// Microseconds.
    pub const fn us(self) -> u64 {
        self.0
    }

    /// Whole seconds, at least 1.
    pub fn secs(self) -> u32 {
        u32::try_from(self.0 / 1_000_000).unwrap_or(u32::MAX).max(1)
    }
}

/// A number of bytes: `"512B"`, `"64KiB"`, `"4MiB"`, `"1GiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    /// As a length in memory.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Splits `"250ms"` into number and unit, and looks the unit up.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The number in the largest unit that leaves no rest, in quotes.
fn in_unit(number: u64, units: &[(&str, u64)]) -> String {
    let (unit, factor) = units
        .iter()
        .rev()
        .find(|(_, factor)| number > 0 && number.is_multiple_of(*factor))
        .unwrap_or(&units[0]);
    format!("\"{}{unit}\"", number / factor)
}

impl Setting for Duration {
    fn written(&self) -> Option<String> {
        Some(in_unit(self.0, &TIME_UNITS))
    }
    fn number(&self) -> Option<f64> {
        Some(self.0 as f64)
    }
}

impl Setting for Size {
    fn written(&self) -> Option<String> {
        Some(in_unit(self.0, &SIZE_UNITS))
    }
    fn number(&self) -> Option<f64> {
        Some(self.0 as f64)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"a duration such as \"250ms\", \"10s\", \"5m\", \"1h\" or \"7d\"",
            )
        })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        with_unit(&text, &SIZE_UNITS).map(Self).ok_or_else(|| {
            de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"a size such as \"512B\", \"64KiB\", \"4MiB\" or \"1GiB\"",
            )
        })
    }
}

/// Whether a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It refuses, and counts what it refuses.
    Enforce,
    /// It counts what it would refuse.
    Observe,
    /// It is not there.
    Off,
}

impl From<Mode> for rule::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Enforce => Self::Enforce,
            Mode::Observe => Self::Observe,
            Mode::Off => Self::Off,
        }
    }
}

impl Setting for Mode {
    fn written(&self) -> Option<String> {
        Some(match self {
            Self::Enforce => "\"enforce\"".to_owned(),
            Self::Observe => "\"observe\"".to_owned(),
            Self::Off => "\"off\"".to_owned(),
        })
    }
}

impl Setting for TokenRole {
    fn written(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Setting for $type {
            fn written(&self) -> Option<String> {
                // TOML groups digits as Rust does.
                let plain = format!("{self:?}");
                let (whole, rest) = plain.split_once('.').map_or((plain.as_str(), ""), |(w, r)| (w, r));
                let mut grouped = String::new();
                for (at, digit) in whole.chars().enumerate() {
                    if at > 0 && whole.len() > 4 && (whole.len() - at) % 3 == 0 {
                        grouped.push('_');
                    }
                    grouped.push(digit);
                }
                Some(if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") })
            }
            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
    )* };
}

numbers!(u16, u32, usize, f64);

impl Setting for bool {
    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Where to listen: `"127.0.0.1:8080"`, `"[::]:8080"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl Setting for Address {
    fn written(&self) -> Option<String> {
        Some(format!("\"{}\"", self.0))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| {
            de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"an IP address with a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"",
            )
        })
    }
}

impl Setting for String {
    fn written(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl Setting for PathBuf {
    fn written(&self) -> Option<String> {
        Some(toml::Value::from(self.to_string_lossy().into_owned()).to_string())
    }
}

impl Setting for Vec<String> {
    fn written(&self) -> Option<String> {
        let quoted: Vec<_> = self.iter().map(|text| toml::Value::from(text.as_str()).to_string()).collect();
        Some(format!("[{}]", quoted.join(", ")))
    }
}

impl Setting for Vec<u16> {
    fn written(&self) -> Option<String> {
        let numbers: Vec<_> = self.iter().map(u16::to_string).collect();
        Some(format!("[{}]", numbers.join(", ")))
    }
}

impl<T: Setting> Setting for Option<T> {
    fn written(&self) -> Option<String> {
        self.as_ref().and_then(T::written)
    }
    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(T::number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Setting::written`: what the reference shows is read back as the same value.
    #[test]
    fn durations_and_sizes_are_written_in_their_largest_whole_unit() {
        for text in ["0ms", "250ms", "10s", "90s", "5m", "1h", "7d"] {
            let read = Duration::parse(text).expect(text);
            assert_eq!(read.written(), Some(format!("{text:?}")));
        }
        for (text, shown) in [("512B", "512B"), ("2048KiB", "2MiB"), ("1GiB", "1GiB")] {
            let read = Size(with_unit(text, &SIZE_UNITS).expect(text));
            assert_eq!(read.written(), Some(format!("{shown:?}")));
        }
        assert_eq!(65_536_usize.written().as_deref(), Some("65_536"));
        assert_eq!(0.2_f64.written().as_deref(), Some("0.2"));
        for text in ["10", "s", "-1s", "1 s", "1.5s", "99999999999999999d", ""] {
            assert_eq!(Duration::parse(text), None, "{text}");
        }
    }
}
