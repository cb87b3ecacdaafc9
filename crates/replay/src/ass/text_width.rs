//! How wide a text is, as far as that can be told without its font.

/// The parts of an em in which widths are counted.
pub(super) const EM: u64 = 10;

/// The lines of a text, and the width of the widest in tenths of its size. It is a little too wide for
/// most fonts, so that neighbours keep apart.
pub(super) fn measure(text: &str) -> (u64, u64) {
    let mut lines = 0;
    let mut widest = 0;
    for line in text.split('\n') {
        lines += 1;
        widest = widest.max(line.chars().map(advance).sum::<u64>());
    }
    (lines, widest)
}

/// Full for what East Asian fonts draw square, six tenths for what they draw half as wide, none for what
/// stands over its neighbour.
fn advance(c: char) -> u64 {
    match c {
        'W' | 'M' | 'm' | '@' | '%' => EM,
        '\u{300}'..='\u{36F}' | '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FE00}'..='\u{FE0F}' => 0,
        '\0'..='\u{10FF}' | '\u{FF61}'..='\u{FFDC}' => EM * 6 / 10,
        _ => EM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `measure`: the widest line counts.
    #[test]
    fn widths_are_those_of_the_widest_line() {
        for (text, lines, tenths) in
            [("", 1, 0), ("前方", 1, 20), ("abc", 1, 18), ("a\n前方高能\nb", 3, 40), ("e\u{301}", 1, 6)]
        {
            assert_eq!(measure(text), (lines, tenths), "{text:?}");
        }
    }
}
