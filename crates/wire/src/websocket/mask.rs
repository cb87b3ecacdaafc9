//! The mask of what a client sends (RFC 6455 §5.3), which keeps scripts from writing bytes of their
//! choice into a proxy's cache. It hides nothing and costs one pass over the payload.

/// Masks or unmasks (the two are one) `bytes`, which begin `offset` bytes into the frame's payload.
///
/// Works on eight bytes at a time, which the compiler widens to vectors.
pub fn apply(bytes: &mut [u8], mut key: [u8; 4], offset: usize) {
    key.rotate_left(offset % 4);
    let narrow = u32::from_ne_bytes(key);
    let wide = (u64::from(narrow) << 32) | u64::from(narrow);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    // Eight is a multiple of four: the rest starts at the key's first byte again.
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::apply;

    /// `apply`: at every length and offset it agrees with the RFC's own wording, byte by byte.
    #[test]
    fn agrees_with_the_byte_by_byte_definition() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        for length in 0..70_usize {
            for offset in 0..9 {
                let plain: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
                let expected: Vec<u8> =
                    plain.iter().enumerate().map(|(i, byte)| byte ^ key[(i + offset) % 4]).collect();
                let mut masked = plain;
                apply(&mut masked, key, offset);
                assert_eq!(masked, expected, "length {length}, offset {offset}");
            }
        }
    }
}
