//! Traditional Chinese characters as the simplified ones, one for one.

use std::sync::LazyLock;

/// Pairs, sorted by the traditional character; source and licence are written at the top of the file.
const PAIRS: &str = include_str!("../data/traditional.txt");

static SIMPLIFIED: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let lines = PAIRS.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.flat_map(|line| line.split(' ')).filter_map(|pair| {
        let mut characters = pair.chars();
        Some((characters.next()?, characters.next()?))
    });
    pairs.collect()
});

/// The simplified form of a character; any other character is returned as it is.
pub(crate) fn simplified(c: char) -> char {
    // Every traditional character of the table is a Han one.
    if (c as u32) < 0x3400 {
        return c;
    }
    let found = SIMPLIFIED.binary_search_by_key(&c, |(traditional, _)| *traditional);
    found.map_or(c, |at| SIMPLIFIED[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `simplified`, over the whole table.
    #[test]
    fn the_table_is_sorted_and_no_simplified_character_is_simplified_again() {
        assert!(SIMPLIFIED.len() > 3_000);
        assert!(SIMPLIFIED.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (traditional, simple) in &*SIMPLIFIED {
            assert_eq!(simplified(simplified(*simple)), simplified(*simple), "{traditional}");
        }
        assert_eq!([simplified('輪'), simplified('轮'), simplified('a')], ['轮', '轮', 'a']);
    }
}
