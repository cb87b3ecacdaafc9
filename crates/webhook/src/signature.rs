//! How a receiver knows that a question is ours and fresh.
//!
//! Every question carries `x-danmaku-timestamp`, seconds since 1970 in decimal digits, and
//! `x-danmaku-signature`, `v1=` and 64 lowercase hexadecimal digits: HMAC-SHA-256 (RFC 2104) under the
//! shared secret over exactly these bytes, with one line feed (0x0A) between the four parts and none
//! behind the last:
//!
//! ```text
//! POST LF path-and-query LF timestamp LF body
//! ```
//!
//! None of the first three can contain a line feed, so no two questions share their bytes. A receiver
//! compares in constant time and refuses timestamps that are minutes old; a question may come twice
//! (docs/webhook.md).

use std::fmt;

use aws_lc_rs::hmac;

/// The header with the time.
pub const TIMESTAMP_HEADER: &str = "x-danmaku-timestamp";
/// The header with the signature.
pub const SIGNATURE_HEADER: &str = "x-danmaku-signature";
/// Shortest secret: as long as the hash (RFC 2104 section 3).
pub const SECRET_BYTES_MIN: usize = 32;
/// What a signature of this kind begins with.
const VERSION: &str = "v1=";
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The secret that is shared with a receiver; shows nothing of itself.
#[derive(Clone)]
pub struct Secret(hmac::Key);

/// A secret that is too short.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the secret has {bytes} bytes; it needs at least {SECRET_BYTES_MIN}, for example from `openssl rand -hex 32`"
)]
pub struct SecretTooShort {
    /// How long it is.
    pub bytes: usize,
}

impl Secret {
    /// A secret of at least [`SECRET_BYTES_MIN`] bytes.
    ///
    /// # Errors
    /// When it is shorter.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretTooShort> {
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(SecretTooShort { bytes: bytes.len() });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The value of [`SIGNATURE_HEADER`] for a question.
    #[must_use]
    pub fn sign(&self, method: &str, path: &str, unix_seconds: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        for part in [method.as_bytes(), path.as_bytes(), unix_seconds.to_string().as_bytes()] {
            context.update(part);
            context.update(b"\n");
        }
        context.update(body);
        let tag = context.sign();
        let mut text = String::with_capacity(VERSION.len() + 2 * tag.as_ref().len());
        text.push_str(VERSION);
        for byte in tag.as_ref() {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    #[test]
    fn the_documented_vector_is_what_python_computes() {
        let secret = Secret::new(SECRET).expect("long enough");
        let body = r#"{"type":"message","id":"m1","room":"lobby","user":"u7","role":"viewer","text":"你好"}"#;
        let signature = secret.sign("POST", "/danmaku?v=1", 1_700_000_000, body.as_bytes());
        assert_eq!(signature, "v1=41da94f9d5800f8a56cf4528f38920a9ab860b5c2e5e515d6252961b3b692706");
    }

    #[test]
    fn every_part_is_signed() {
        let secret = Secret::new(SECRET).expect("long enough");
        let base = secret.sign("POST", "/a", 12, b"body");
        let other_key = Secret::new(b"0123456789abcdef0123456789abcdeF").expect("long enough");
        let others = [
            secret.sign("PUT", "/a", 12, b"body"),
            secret.sign("POST", "/b", 12, b"body"),
            secret.sign("POST", "/a", 13, b"body"),
            secret.sign("POST", "/a", 12, b"bodY"),
            secret.sign("POST", "/a1", 2, b"body"),
            secret.sign("POST", "/a", 1, b"2\nbody"),
            other_key.sign("POST", "/a", 12, b"body"),
        ];
        for other in others {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_short_secret_is_refused_and_none_is_shown() {
        assert_eq!(Secret::new(&SECRET[1..]).err(), Some(SecretTooShort { bytes: 31 }));
        assert_eq!(format!("{:?}", Secret::new(SECRET).expect("long enough")), "Secret");
    }
}
