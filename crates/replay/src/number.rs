//! Numbers as the formats write them, without a detour over floating point.

/// Decimal digits.
pub(crate) fn digits(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Decimal digits with zeros before them, up to `width`.
pub(crate) fn padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value);
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
    out.extend_from_slice(text.as_bytes());
}

/// Milliseconds as seconds with three decimals.
pub(crate) fn seconds(out: &mut Vec<u8>, ms: u64) {
    digits(out, ms / 1_000);
    out.push(b'.');
    padded(out, ms % 1_000, 3);
}

/// Hexadecimal digits, capital and six of them: a colour as style sheets write it, without the `#`.
pub(crate) fn hex_color(out: &mut Vec<u8>, color: u32) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend((0..6).rev().map(|nibble| HEX[(color >> (4 * nibble)) as usize & 15]));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `seconds`, `hex_color`: the borders.
    #[test]
    fn numbers_have_their_zeros() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).expect("ASCII")
        };
        for (ms, text) in
            [(0, "0.000"), (1, "0.001"), (12_045, "12.045"), (u64::MAX, "18446744073709551.615")]
        {
            assert_eq!(written(&|out| seconds(out, ms)), text);
        }
        for (color, text) in [(0, "000000"), (255, "0000FF"), (0xFF_FFFF, "FFFFFF"), (0x12_3ABC, "123ABC")] {
            assert_eq!(written(&|out| hex_color(out, color)), text);
        }
    }
}
