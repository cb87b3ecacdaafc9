//! `traceparent` of W3C Trace Context, level 1.
//!
//! In comes the header's value as a stranger wrote it, out comes its trace or nothing. The viewer's
//! `sampled` flag is read and never passed on: what is recorded is the server's decision, else viewers
//! could make the server record everything.

use std::fmt;

const TRACE_ID_DIGITS: usize = 32;
const PARENT_ID_DIGITS: usize = 16;
/// `00-` trace id `-` parent id `-` flags: the whole of version 00, and how later ones begin.
const VERSION_0_BYTES: usize = 2 + 1 + TRACE_ID_DIGITS + 1 + PARENT_ID_DIGITS + 1 + 2;
/// A later version may say more; nobody needs that much.
const BYTES_MAX: usize = 512;
const SAMPLED: u8 = 1;

/// A span and the trace it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    sampled: bool,
}

impl TraceContext {
    /// A span by its ids; `None` when one of them is zero, which the standard forbids.
    #[must_use]
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Option<Self> {
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, sampled })
    }

    /// Reads the value of a `traceparent` header (section 3.2): lowercase digits only, no spaces, no id of
    /// zeros, not version `ff`. Of a later version the part that version 00 has is read.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        if !(VERSION_0_BYTES..=BYTES_MAX).contains(&value.len()) {
            return None;
        }
        let (head, tail) = value.split_at(VERSION_0_BYTES);
        let version = hexadecimal(&head[..2])?;
        let tail_is_fine = match version {
            0 => tail.is_empty(),
            0xff => false,
            _ => tail.is_empty() || tail[0] == b'-',
        };
        let dashes = [2, 35, 52].iter().all(|&at| head[at] == b'-');
        if !tail_is_fine || !dashes {
            return None;
        }
        let trace_id = hexadecimal(&head[3..35])?;
        let span_id = u64::try_from(hexadecimal(&head[36..52])?).ok()?;
        let flags = u8::try_from(hexadecimal(&head[53..55])?).ok()?;
        Self::new(trace_id, span_id, flags & SAMPLED != 0)
    }

    /// A span of our own below this one, in the same trace. `span_id` is random, and zero becomes one;
    /// `sampled` is the server's decision, whatever this span says.
    #[must_use]
    pub fn child(&self, span_id: u64, sampled: bool) -> Self {
        Self { trace_id: self.trace_id, span_id: span_id.max(1), sampled }
    }

    /// The header's value, version 00, in ASCII; nothing is allocated.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; VERSION_0_BYTES] {
        let mut out = [b'-'; VERSION_0_BYTES];
        digits(&mut out[..2], 0);
        digits(&mut out[3..35], self.trace_id);
        digits(&mut out[36..52], self.span_id.into());
        digits(&mut out[53..], u128::from(self.sampled));
        out
    }

    /// The trace, never zero.
    #[must_use]
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// The span, never zero.
    #[must_use]
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// Whether the span is recorded.
    #[must_use]
    pub fn sampled(&self) -> bool {
        self.sampled
    }
}

/// As the header's value, version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All of it is ASCII.
        f.pad(std::str::from_utf8(&self.to_bytes()).unwrap_or_default())
    }
}

/// Digits of a number in order.
fn digits(out: &mut [u8], mut value: u128) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 0xf) as usize];
        value >>= 4;
    }
}

/// Lowercase digits alone, at most 32 of them.
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn the_example_of_the_standard_is_read() {
        let read = TraceContext::parse(format!("00-{TRACE}-{SPAN}-01").as_bytes()).expect("valid");
        assert_eq!(read.trace_id(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(read.span_id(), 0x00f0_67aa_0ba9_02b7);
        assert!(read.sampled());
        assert_eq!(read.to_string(), format!("00-{TRACE}-{SPAN}-01"));
    }

    #[test]
    fn what_the_standard_calls_invalid_is_nothing() {
        let zeros_32 = "0".repeat(32);
        let zeros_16 = "0".repeat(16);
        let long = format!("01-{TRACE}-{SPAN}-01-{}", "a".repeat(BYTES_MAX));
        for value in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0g-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0A"),
            format!("00-{zeros_32}-{SPAN}-01"),
            format!("00-{TRACE}-{zeros_16}-01"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("00-{TRACE}{SPAN}--01"),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("00-{TRACE}-{SPAN}-+1"),
            long,
        ] {
            assert_eq!(TraceContext::parse(value.as_bytes()), None, "{value:?}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for value in [format!("01-{TRACE}-{SPAN}-03"), format!("cc-{TRACE}-{SPAN}-01-what-comes-later")] {
            let read = TraceContext::parse(value.as_bytes()).expect("valid");
            assert_eq!(read.to_string(), format!("00-{TRACE}-{SPAN}-01"), "{value}");
        }
    }

    #[test]
    fn a_child_takes_the_trace_and_not_the_flag() {
        let viewer = TraceContext::parse(format!("00-{TRACE}-{SPAN}-01").as_bytes()).expect("valid");
        let child = viewer.child(0xb7ad_6b71_6920_3331, false);
        assert_eq!(child.to_string(), format!("00-{TRACE}-b7ad6b7169203331-00"));
        assert_eq!(viewer.child(0, true).to_string(), format!("00-{TRACE}-0000000000000001-01"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(read) = TraceContext::parse(&value) {
                prop_assert!(read.trace_id() != 0 && read.span_id() != 0);
            }
        }

        #[test]
        fn what_is_written_is_read_again(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let context = TraceContext::new(trace, span, sampled).expect("ids that are not zero");
            prop_assert_eq!(TraceContext::parse(context.to_string().as_bytes()), Some(context));
        }
    }
}
