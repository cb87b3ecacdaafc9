//! What `[auth]` says beside its keys.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use super::raw;
use super::section::OutOfBounds;
use super::value::Setting;
use crate::identity::key_set::JWKS_BYTES_MAX;
use crate::outbound::destination::HttpUrl;
use crate::outbound::fetch::Terms;

/// How long fetching a key set may take.
const JWKS_WITHIN: Duration = Duration::from_secs(2);

/// What users without a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anonymous {
    /// Watch and comment.
    ReadWrite,
    /// Watch.
    ReadOnly,
    /// Nothing: they are not let in.
    Refused,
}

impl<'de> Deserialize<'de> for Anonymous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Whether(bool),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Whether(true) => Ok(Self::ReadWrite),
            Written::Whether(false) => Ok(Self::Refused),
            Written::Text(text) => match text.as_str() {
                "read_write" => Ok(Self::ReadWrite),
                "read_only" => Ok(Self::ReadOnly),
                "refused" => Ok(Self::Refused),
                _ => Err(de::Error::invalid_value(
                    de::Unexpected::Str(&text),
                    &"\"read_write\", \"read_only\" or \"refused\"",
                )),
            },
        }
    }
}

impl Setting for Anonymous {
    fn written(&self) -> Option<String> {
        Some(match self {
            Self::ReadWrite => "\"read_write\"".to_owned(),
            Self::ReadOnly => "\"read_only\"".to_owned(),
            Self::Refused => "\"refused\"".to_owned(),
        })
    }
}

/// Where keys are published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file.
    File(PathBuf),
    /// At an address.
    Url(HttpUrl),
}

impl<'de> Deserialize<'de> for JwksSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        HttpUrl::parse(&text).map(Self::Url).ok_or_else(|| {
            // Not the text itself: it may have a password in it.
            de::Error::custom(
                "this is no address of a key set: write \"https://id.example/.well-known/jwks.json\", without user and \
                 password, or the path of a file",
            )
        })
    }
}

impl Setting for JwksSource {
    fn written(&self) -> Option<String> {
        Some(match self {
            Self::File(path) => format!("{:?}", path.display().to_string()),
            Self::Url(url) => {
                let scheme = if url.secure { "https" } else { "http" };
                format!("{:?}", format!("{scheme}://{}{}", url.authority, url.target))
            }
        })
    }
}

/// Where keys are published, and how they are had.
#[derive(Debug, Clone)]
pub struct JwksSettings {
    /// Where.
    pub source: JwksSource,
    /// How often they are fetched, seconds.
    pub refresh_s: u64,
    /// How.
    pub terms: Terms,
}

/// Checks what is said of the key set.
pub(super) fn jwks(auth: &raw::Auth) -> Result<Option<JwksSettings>, OutOfBounds> {
    let Some(source) = &auth.jwks else { return Ok(None) };
    if let JwksSource::Url(url) = source
        && !url.secure
        && !url.is_loopback()
    {
        return Err(OutOfBounds {
            key: "auth.jwks".to_owned(),
            value: source.written().unwrap_or_default(),
            expected: "keys that come without TLS may be anybody's: use an https address; http is for loopback alone"
                .to_owned(),
        });
    }
    Ok(Some(JwksSettings {
        source: source.clone(),
        refresh_s: auth.jwks_refresh.us() / 1_000_000,
        terms: Terms {
            allow_private: auth.jwks_allow_private.clone(),
            authorities: auth.jwks_ca.clone(),
            bytes_max: JWKS_BYTES_MAX,
            within: JWKS_WITHIN,
        },
    }))
}
