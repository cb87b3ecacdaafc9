//! The attribute `p` of a comment: numbers with commas between them.

use danmaku_wire::entry::{Mode, SIZE_MAX, SIZE_MIN};
use danmaku_wire::position::SEQ_MAX;

/// The end of any medium, milliseconds: some thirty years.
const TIME_MS_MAX: u64 = 1_000_000_000_000;
/// What is more than this was written in milliseconds, as recorders of live rooms do: in seconds it would
/// be three thousand years ahead.
const SENT_SECONDS_MAX: u64 = 100_000_000_000;

/// The order of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `SECONDS,MODE,SIZE,COLOUR,SENT,POOL,SENDER,ROW`.
    One,
    /// `ROW,ATTRIBUTES,MILLISECONDS,MODE,SIZE,COLOUR,SENT,POOL,SENDER`.
    Two,
}

/// Why a comment is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    Malformed,
    Positioned,
}

/// What the numbers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) time_ms: u64,
    pub(super) mode: Mode,
    pub(super) size: u8,
    pub(super) color: u32,
    pub(super) sent_ms: u64,
    pub(super) sender: String,
    pub(super) row: u64,
}

impl Parameters {
    /// Time, mode, size and colour have to be there; what is absent behind them is unknown.
    pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Self, Unfit> {
        let mut parts = text.split(',').map(str::trim);
        let mut next = || parts.next().unwrap_or("");
        let (first_row, time_ms) = match dialect {
            Dialect::One => ("", seconds(next())),
            Dialect::Two => {
                let row = next();
                next();
                (row, next().parse().ok().filter(|ms| *ms <= TIME_MS_MAX))
            }
        };
        let (mode, size, color) = (next(), next(), next());
        let (sent, _pool, sender, last_row) = (next(), next(), next(), next());
        let row = if dialect == Dialect::Two { first_row } else { last_row };
        let size = number(size).ok_or(Unfit::Malformed)?;
        let color: u32 = color.parse().ok().filter(|color| *color <= 0xFF_FFFF).ok_or(Unfit::Malformed)?;
        Ok(Self {
            time_ms: time_ms.ok_or(Unfit::Malformed)?,
            mode: mode_of(mode)?,
            size: size.round().clamp(SIZE_MIN.into(), SIZE_MAX.into()) as u8,
            color,
            sent_ms: sent_ms(sent),
            // What is written where nobody is known.
            sender: if sender == "0" { String::new() } else { crate::comment::carried(sender).into_owned() },
            row: row.parse().ok().filter(|row| *row <= SEQ_MAX).unwrap_or(0),
        })
    }
}

fn mode_of(text: &str) -> Result<Mode, Unfit> {
    match text.parse::<u8>() {
        // The sixth goes from left to right, which nobody else can.
        Ok(1..=3 | 6) => Ok(Mode::Scroll),
        Ok(4) => Ok(Mode::Bottom),
        Ok(5) => Ok(Mode::Top),
        Ok(_) => Err(Unfit::Positioned),
        Err(_) => Err(Unfit::Malformed),
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// Seconds as milliseconds; what is before the beginning is at the beginning.
fn seconds(text: &str) -> Option<u64> {
    let ms = (number(text)? * 1_000.0).round().max(0.0);
    (ms <= TIME_MS_MAX as f64).then_some(ms as u64)
}

fn sent_ms(text: &str) -> u64 {
    match text.parse().unwrap_or(0) {
        seconds @ 0..=SENT_SECONDS_MAX => seconds * 1_000,
        ms if ms <= SENT_SECONDS_MAX * 1_000 => ms,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Parameters::parse`: both orders, and what each part does when it is odd.
    #[test]
    fn parameters_are_read_in_both_orders() {
        let full = Parameters {
            time_ms: 12_345,
            mode: Mode::Top,
            size: 36,
            color: 255,
            sent_ms: 1_700_000_000_000,
            sender: "a1b2".into(),
            row: 77,
        };
        let one = |text: &str| Parameters::parse(text, Dialect::One);
        let two = |text: &str| Parameters::parse(text, Dialect::Two);
        assert_eq!(one("12.345,5,36,255,1700000000,0,a1b2,77").as_ref(), Ok(&full));
        assert_eq!(one(" 12.34500, 5 ,36.0,255,1700000000000,0,a1b2,77,10").as_ref(), Ok(&full));
        assert_eq!(two("77,0,12345,5,36,255,1700000000,0,a1b2").as_ref(), Ok(&full));
        let bare = Parameters { sent_ms: 0, sender: String::new(), row: 0, ..full };
        assert_eq!(one("12.345,5,36,255"), Ok(bare));
        for (text, time_ms, size) in
            [("-1,1,25,0", 0, 25), ("1e3,1,1,0", 1_000_000, SIZE_MIN), ("0,6,999,0", 0, SIZE_MAX)]
        {
            assert!(one(text).is_ok_and(|p| (p.time_ms, p.size) == (time_ms, size)), "{text}");
        }
        for text in ["", "1", "1,1,25", "x,1,25,0", "NaN,1,25,0", "inf,1,25,0", "1e30,1,25,0", "1,1,x,0"] {
            assert_eq!(one(text), Err(Unfit::Malformed), "{text}");
        }
        for text in ["1,1,25,abc", "1,1,25,16777216", "1,1,25,-1", "1,x,25,0"] {
            assert_eq!(one(text), Err(Unfit::Malformed), "{text}");
        }
        for mode in [0, 7, 8, 9, 255] {
            assert_eq!(one(&format!("1,{mode},25,0")), Err(Unfit::Positioned), "{mode}");
        }
        assert_eq!(two("77,0,1.5,1,25,0"), Err(Unfit::Malformed));
        assert!(one("1,1,25,0,1,0,u,9223372036854775807").is_ok_and(|p| p.row == 0));
    }
}
