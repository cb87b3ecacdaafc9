//! Keys that tokens are signed with.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

use super::value::Setting;

/// The least length of a secret: what HS256 asks for (RFC 7518, 3.2), bytes.
pub const SECRET_BYTES_MIN: usize = 32;

/// A key; its algorithm is fixed.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthKey {
    /// The token's `kid`.
    pub id: String,
    /// The algorithm; a token that names another one is refused.
    pub algorithm: Algorithm,
    /// The key itself.
    pub material: KeyMaterial,
}

/// What a key is made of.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// A secret that server and platform share.
    Secret(Secret),
    /// A public key in PEM, by its file.
    PublicKey(PathBuf),
}

/// How tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Algorithm {
    /// HMAC with SHA-256 (RFC 7518, 3.2).
    #[default]
    #[serde(rename = "HS256")]
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, 3.3).
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA over P-256 with SHA-256 (RFC 7518, 3.4).
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519 (RFC 8037, 3.1).
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    /// As a token's header names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// As the library calls it.
    pub const fn of_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        }
    }
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
        // The value itself is never shown: errors end up in logs.
        if text.len() < SECRET_BYTES_MIN {
            return Err(de::Error::custom(format_args!(
                "a secret of {} bytes is too short: use at least {SECRET_BYTES_MIN}, such as the output of \
                 `openssl rand -base64 32`",
                text.len()
            )));
        }
        if text.trim_start().starts_with("-----BEGIN ") {
            return Err(de::Error::custom(
                "this secret is a key in PEM, which others may know: name the file of a public key as `public_key`, \
                 with its `algorithm`",
            ));
        }
        Ok(Self(text.into_bytes().into()))
    }
}

impl<'de> Deserialize<'de> for AuthKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            id: String,
            #[serde(default)]
            algorithm: Algorithm,
            secret: Option<Secret>,
            public_key: Option<PathBuf>,
        }
        let Written { id, algorithm, secret, public_key } = Written::deserialize(deserializer)?;
        let material = match (algorithm, secret, public_key) {
            (Algorithm::Hs256, Some(secret), None) => KeyMaterial::Secret(secret),
            (Algorithm::Hs256, ..) => {
                return Err(de::Error::custom(
                    "a key for HS256 has a `secret`; with a `public_key` set `algorithm` to RS256, ES256 or EdDSA",
                ));
            }
            (_, None, Some(file)) => KeyMaterial::PublicKey(file),
            (other, ..) => {
                return Err(de::Error::custom(format_args!(
                    "a key for {} has a `public_key`, the path of a PEM file, and no `secret`",
                    other.as_str()
                )));
            }
        };
        Ok(Self { id, algorithm, material })
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
