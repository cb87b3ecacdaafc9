//! What `[tls]` says.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

use super::raw;
use super::section::OutOfBounds;
use super::value::Setting;
use crate::ingress::tls::suite_names;

/// The oldest version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl<'de> Deserialize<'de> for MinVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// In the environment nothing tells a version from a number.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        match text.as_str() {
            "1.2" => Ok(Self::Tls12),
            "1.3" => Ok(Self::Tls13),
            _ => Err(de::Error::invalid_value(de::Unexpected::Str(&text), &"\"1.2\" or \"1.3\"")),
        }
    }
}

impl Setting for MinVersion {
    fn written(&self) -> Option<String> {
        Some(match self {
            Self::Tls12 => "\"1.2\"".to_owned(),
            Self::Tls13 => "\"1.3\"".to_owned(),
        })
    }
}

/// Certificate chain and key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The server's own certificate first, then those that signed it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How TLS is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificate and key; absent where TLS is not spoken.
    pub files: Option<Files>,
    /// The oldest version.
    pub min_version: MinVersion,
    /// Cipher suites by their IANA names; empty: all that the library has.
    pub ciphers: Vec<String>,
    /// How long a handshake may take, milliseconds.
    pub handshake_ms: u64,
}

/// Checks a table: files where they are needed, ciphers that exist and that the versions can use.
pub(super) fn settings(raw: &raw::Tls) -> Result<TlsSettings, OutOfBounds> {
    let wrong = |key: &str, value: &dyn Setting, expected: String| OutOfBounds {
        key: format!("tls.{key}"),
        value: value.written().unwrap_or_default(),
        expected,
    };
    if let Some(listen) = &raw.listen
        && (raw.cert.is_none() || raw.key.is_none())
    {
        return Err(wrong(
            "listen",
            listen,
            "TLS needs a certificate and its key: set `tls.cert` and `tls.key` to PEM files".to_owned(),
        ));
    }
    let known = suite_names();
    if let Some(unknown) = raw.ciphers.iter().find(|name| !known.contains(name)) {
        return Err(wrong(
            "ciphers",
            &raw.ciphers,
            format!("there is no cipher suite {unknown:?}; there are {}", known.join(", ")),
        ));
    }
    // Those of TLS 1.3 name no key exchange (RFC 8446, appendix B.4).
    let of_tls13 = |name: &String| !name.contains("_WITH_");
    if raw.min_version == MinVersion::Tls13 && !raw.ciphers.is_empty() && !raw.ciphers.iter().any(of_tls13) {
        return Err(wrong(
            "ciphers",
            &raw.ciphers,
            "none of them is one of TLS 1.3, and `tls.min_version` allows nothing older".to_owned(),
        ));
    }
    Ok(TlsSettings {
        files: raw.cert.clone().zip(raw.key.clone()).map(|(cert, key)| Files { cert, key }),
        min_version: raw.min_version,
        ciphers: raw.ciphers.clone(),
        handshake_ms: raw.handshake.us() / 1_000,
    })
}
