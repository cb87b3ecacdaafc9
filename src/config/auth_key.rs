//! Keys that tokens are signed with.

use serde::{Deserialize, Deserializer, de};

use super::value::Setting;

/// The least length of a secret: what HS256 asks for (RFC 7518, 3.2), bytes.
pub const SECRET_BYTES_MIN: usize = 32;

/// A key; its algorithm is fixed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthKey {
    /// The token's `kid`.
    pub id: String,
    /// The algorithm; a token that names another one is refused.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// The shared secret.
    pub secret: Secret,
}

/// How tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Algorithm {
    /// HMAC with SHA-256 (RFC 7518, 3.2).
    #[default]
    #[serde(rename = "HS256")]
    Hs256,
}

/// A secret: never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() < SECRET_BYTES_MIN {
            // The value itself is not shown: errors end up in logs.
            return Err(de::Error::custom(format_args!(
                "a secret of {} bytes is too short: use at least {SECRET_BYTES_MIN}, such as the output of \
                 `openssl rand -base64 32`",
                text.len()
            )));
        }
        Ok(Self(text.into_bytes().into()))
    }
}

impl std::fmt::Debug for AuthKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthKey")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl Setting for Vec<AuthKey> {
    /// Names only.
    fn written(&self) -> Option<String> {
        let names: Vec<_> = self.iter().map(|key| format!("{{ id = {:?} }}", key.id)).collect();
        Some(format!("[{}]", names.join(", ")))
    }
}
