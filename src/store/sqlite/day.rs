//! Days as files: history is kept in one file per day, so that what is too old goes by removing a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const MS_PER_DAY: u64 = 86_400_000;

/// A day of the calendar in UTC, as days since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Day(u32);

impl Day {
    /// The day of a time, milliseconds since 1970.
    pub(super) fn of_ms(at_ms: u64) -> Self {
        Self(u32::try_from(at_ms / MS_PER_DAY).unwrap_or(u32::MAX))
    }

    /// The present day.
    pub(super) fn today() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::of_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// How many days it is after another; 0 where it is before it.
    pub(super) const fn since(self, earlier: Self) -> u32 {
        self.0.saturating_sub(earlier.0)
    }

    /// The file of the day in a directory.
    pub(super) fn file(self, dir: &Path) -> PathBuf {
        let (year, month, day) = self.civil();
        dir.join(format!("{year:04}-{month:02}-{day:02}.db"))
    }

    /// The day that a file's name tells, if it is a name of this kind.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let date = name.strip_suffix(".db")?;
        let digits = |text: &str, count| {
            (text.len() == count && text.bytes().all(|b| b.is_ascii_digit()))
                .then(|| text.parse::<u32>().ok())
                .flatten()
        };
        let mut parts = date.splitn(3, '-');
        let (year, month, day) =
            (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
        let found = Self::of_civil(year, month, day)?;
        (found.civil() == (year, month, day)).then_some(found)
    }

    /// The days that have files in a directory, the oldest first.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(super) fn in_dir(dir: &Path) -> io::Result<Vec<Self>> {
        let mut days = Vec::new();
        for entry in fs::read_dir(dir)? {
            days.extend(entry?.file_name().to_str().and_then(Self::of_file));
        }
        days.sort_unstable();
        Ok(days)
    }

    /// Year, month and day (Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
    const fn civil(self) -> (u32, u32, u32) {
        let z = self.0 as u64 + 719_468;
        let (era, of_era) = (z / 146_097, z % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + (month <= 2) as u64;
        (year as u32, month as u32, day as u32)
    }

    fn of_civil(year: u32, month: u32, day: u32) -> Option<Self> {
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let year = if month <= 2 { year - 1 } else { year };
        let (era, of_era) = (year / 400, year % 400);
        let shifted = if month > 2 { month - 3 } else { month + 9 };
        let of_year = (153 * shifted + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        days.checked_sub(719_468).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Day::file` and `Day::of_file`: every day has one name, and no other name is a day.
    #[test]
    fn a_day_has_one_name() {
        for (days, name) in [
            (0, "1970-01-01.db"),
            (59, "1970-03-01.db"),
            (11_016, "2000-02-29.db"),
            (20_790, "2026-12-03.db"),
        ] {
            assert_eq!(Day(days).file(Path::new("")), Path::new(name));
            assert_eq!(Day::of_file(name), Some(Day(days)));
        }
        for days in 0..200_000 {
            let name = Day(days).file(Path::new(""));
            assert_eq!(Day::of_file(name.to_str().expect("plain")), Some(Day(days)));
        }
        for name in
            ["", "2026-12-03", "2026-02-30.db", "26-12-03.db", "2026-12-3.db", "2026-12-03.db-wal", "x.db"]
        {
            assert_eq!(Day::of_file(name), None, "{name}");
        }
    }
}
