//! The keys that tokens may be signed with: those of the configuration, and those of a key set (RFC 7517) that was
//! read from a file or fetched.
//!
//! A key has one algorithm for good. Symmetric keys come from the configuration alone: a published secret is none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto;
use serde::Deserialize;
use serde_json::Value;

use crate::config::auth_key::{Algorithm, AuthKey, KeyMaterial};

/// The longest key set, bytes.
pub const JWKS_BYTES_MAX: usize = 256 << 10;
/// Keys that are taken from one.
pub const JWKS_KEYS_MAX: usize = 100;
/// The longest name of a key, bytes.
const KID_BYTES_MAX: usize = 256;
/// The shortest modulus of an RSA key, bytes (RFC 7518, section 3.3).
const RSA_BYTES_MIN: usize = 256;

/// Why a key or a key set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("`auth.keys`, {id:?}: cannot read {path}: {source}")]
    File {
        /// The key's name.
        id: String,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file has a key that must not be here.
    #[error("`auth.keys`, {id:?}: {path} is a private key: the server needs the public one only")]
    Private {
        /// The key's name.
        id: String,
        /// Which file.
        path: PathBuf,
    },
    /// The file has no key of the algorithm.
    #[error("`auth.keys`, {id:?}: {path} is no public key for {algorithm} in PEM")]
    Kind {
        /// The key's name.
        id: String,
        /// Which file.
        path: PathBuf,
        /// What it should be for.
        algorithm: &'static str,
    },
    /// The key set is none.
    #[error(
        "a key set is JSON, `{{\"keys\":[…]}}` (RFC 7517), with at least one key that signs by RS256, ES256 or EdDSA"
    )]
    Jwks,
    /// The key set is too long.
    #[error("a key set is at most {JWKS_BYTES_MAX} bytes long")]
    TooLong,
}

/// A key that tokens are checked with.
#[derive(Debug, Clone)]
pub struct VerificationKey {
    id: String,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl VerificationKey {
    /// The only algorithm that it is used with.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether the signature is this key's.
    pub fn has_signed(&self, signed: &str, signature: &str) -> bool {
        crypto::verify(signature, signed.as_bytes(), &self.key, self.algorithm.of_library()).unwrap_or(false)
    }

    fn of(key: &AuthKey) -> Result<Self, KeyError> {
        let AuthKey { id, algorithm, material } = key;
        let decoding = match material {
            KeyMaterial::Secret(secret) => {
                DecodingKey::from_secret(secret.bytes()).expect("a secret has at least 32 bytes")
            }
            KeyMaterial::PublicKey(path) => public_key(id, *algorithm, path)?,
        };
        Ok(Self { id: id.clone(), algorithm: *algorithm, key: decoding })
    }
}

fn public_key(id: &str, algorithm: Algorithm, path: &Path) -> Result<DecodingKey, KeyError> {
    let pem = std::fs::read(path).map_err(|source| KeyError::File {
        id: id.to_owned(),
        path: path.to_owned(),
        source,
    })?;
    if String::from_utf8_lossy(&pem).contains("PRIVATE KEY-----") {
        return Err(KeyError::Private { id: id.to_owned(), path: path.to_owned() });
    }
    let read = match algorithm {
        Algorithm::Rs256 => DecodingKey::from_rsa_pem(&pem).ok().filter(|key| {
            // The modulus and a few bytes around it (RFC 8017, appendix A.1.1).
            key.try_get_as_bytes().is_ok_and(|der| der.len() >= RSA_BYTES_MIN)
        }),
        Algorithm::Es256 => DecodingKey::from_ec_pem(&pem).ok(),
        Algorithm::EdDsa => DecodingKey::from_ed_pem(&pem).ok(),
        // The configuration has a secret for it.
        Algorithm::Hs256 => None,
    };
    read.ok_or(KeyError::Kind { id: id.to_owned(), path: path.to_owned(), algorithm: algorithm.as_str() })
}

/// All keys that count at the moment.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    /// Counts the sets: what was verified with another one is verified again.
    pub generation: u64,
    configured: Arc<[VerificationKey]>,
    published: Arc<[VerificationKey]>,
}

impl KeySet {
    /// The keys of the configuration.
    ///
    /// # Errors
    /// When a file has no public key of its algorithm.
    pub fn of(keys: &[AuthKey]) -> Result<Self, KeyError> {
        let configured = keys.iter().map(VerificationKey::of).collect::<Result<_, _>>()?;
        Ok(Self { generation: 0, configured, published: Arc::default() })
    }

    /// The same keys, beside others that a key set has.
    #[must_use]
    pub fn with_published(&self, published: Vec<VerificationKey>) -> Self {
        Self { published: published.into(), ..self.clone() }
    }

    /// These keys, beside those that the key set of another one has.
    #[must_use]
    pub fn with_published_of(&self, other: &Self) -> Self {
        Self { published: Arc::clone(&other.published), ..self.clone() }
    }

    /// The key of a name. What the configuration names is not replaced by what is fetched.
    pub fn find(&self, kid: &str) -> Option<&VerificationKey> {
        self.configured.iter().chain(&*self.published).find(|key| key.id == kid)
    }

    /// The key that need not be named, as there is no other.
    pub fn only(&self) -> Option<&VerificationKey> {
        match (&*self.configured, &*self.published) {
            ([only], []) | ([], [only]) => Some(only),
            _ => None,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.configured.len() + self.published.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Value>,
}

/// A key as a key set writes it (RFC 7517, section 4; RFC 7518, section 6; RFC 8037, section 2).
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: String,
    #[serde(rename = "use")]
    for_use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The keys of a key set. Keys of other kinds, for other uses or without a name are passed over (RFC 7517, section 5);
/// of two with one name the first counts.
///
/// # Errors
/// When it is no key set, or nothing in it can be used.
pub fn published(jwks: &[u8]) -> Result<Vec<VerificationKey>, KeyError> {
    if jwks.len() > JWKS_BYTES_MAX {
        return Err(KeyError::TooLong);
    }
    let set: Jwks = serde_json::from_slice(jwks).map_err(|_| KeyError::Jwks)?;
    let mut keys: Vec<VerificationKey> = Vec::new();
    for key in set.keys.into_iter().take(JWKS_KEYS_MAX) {
        let key = serde_json::from_value(key).ok().and_then(published_key);
        keys.extend(key.filter(|key| keys.iter().all(|other| other.id != key.id)));
    }
    if keys.is_empty() { Err(KeyError::Jwks) } else { Ok(keys) }
}

fn published_key(jwk: Jwk) -> Option<VerificationKey> {
    let signs = jwk.for_use.as_deref().is_none_or(|r#use| r#use == "sig")
        && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
    if !signs || jwk.kid.is_empty() || jwk.kid.len() > KID_BYTES_MAX {
        return None;
    }
    let bytes = |part: &Option<String>| URL_SAFE_NO_PAD.decode(part.as_deref()?).ok();
    let (algorithm, key) = match (&*jwk.kty, jwk.crv.as_deref()) {
        ("RSA", _) => {
            let (n, e) = (bytes(&jwk.n)?, bytes(&jwk.e)?);
            let digits = n.iter().skip_while(|byte| **byte == 0).count();
            if digits < RSA_BYTES_MIN {
                return None;
            }
            (Algorithm::Rs256, DecodingKey::from_rsa_raw_components(&n, &e))
        }
        ("EC", Some("P-256")) if bytes(&jwk.x)?.len() == 32 && bytes(&jwk.y)?.len() == 32 => {
            (Algorithm::Es256, DecodingKey::from_ec_components(jwk.x.as_deref()?, jwk.y.as_deref()?).ok()?)
        }
        ("OKP", Some("Ed25519")) if bytes(&jwk.x)?.len() == 32 => {
            (Algorithm::EdDsa, DecodingKey::from_ed_components(jwk.x.as_deref()?).ok()?)
        }
        _ => return None,
    };
    // What it is published for is all that it is used for. `Ed25519` is the newer name of the same (RFC 9864).
    let named = |alg: &str| alg == algorithm.as_str() || algorithm == Algorithm::EdDsa && alg == "Ed25519";
    jwk.alg.as_deref().is_none_or(named).then_some(VerificationKey { id: jwk.kid, algorithm, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `published`: keys that sign by a known algorithm under a name, and no others.
    #[test]
    fn a_key_set_gives_the_keys_that_can_be_used() {
        let n = URL_SAFE_NO_PAD.encode([0xc1; 256]);
        let short = URL_SAFE_NO_PAD.encode([0xc1; 128]);
        let x = URL_SAFE_NO_PAD.encode([7; 32]);
        for (key, taken) in [
            (format!(r#"{{"kty":"RSA","kid":"a","n":"{n}","e":"AQAB"}}"#), Some(Algorithm::Rs256)),
            (
                format!(r#"{{"kty":"RSA","kid":"a","use":"sig","alg":"RS256","n":"{n}","e":"AQAB"}}"#),
                Some(Algorithm::Rs256),
            ),
            (
                format!(r#"{{"kty":"RSA","kid":"a","n":"{n}","e":"AQAB","x5u":"https://evil.example"}}"#),
                Some(Algorithm::Rs256),
            ),
            (format!(r#"{{"kty":"RSA","kid":"a","alg":"RS512","n":"{n}","e":"AQAB"}}"#), None),
            (format!(r#"{{"kty":"RSA","kid":"a","use":"enc","n":"{n}","e":"AQAB"}}"#), None),
            (format!(r#"{{"kty":"RSA","kid":"a","key_ops":["encrypt"],"n":"{n}","e":"AQAB"}}"#), None),
            (format!(r#"{{"kty":"RSA","kid":"a","n":"{short}","e":"AQAB"}}"#), None),
            (format!(r#"{{"kty":"RSA","n":"{n}","e":"AQAB"}}"#), None),
            (format!(r#"{{"kty":"RSA","kid":"","n":"{n}","e":"AQAB"}}"#), None),
            (
                format!(r#"{{"kty":"EC","kid":"a","crv":"P-256","x":"{x}","y":"{x}"}}"#),
                Some(Algorithm::Es256),
            ),
            (format!(r#"{{"kty":"EC","kid":"a","crv":"P-384","x":"{x}","y":"{x}"}}"#), None),
            (format!(r#"{{"kty":"EC","kid":"a","crv":"P-256","x":"{x}","y":"AA"}}"#), None),
            (format!(r#"{{"kty":"OKP","kid":"a","crv":"Ed25519","x":"{x}"}}"#), Some(Algorithm::EdDsa)),
            (
                format!(r#"{{"kty":"OKP","kid":"a","crv":"Ed25519","alg":"Ed25519","x":"{x}"}}"#),
                Some(Algorithm::EdDsa),
            ),
            (format!(r#"{{"kty":"OKP","kid":"a","crv":"X25519","x":"{x}"}}"#), None),
            (format!(r#"{{"kty":"oct","kid":"a","k":"{n}"}}"#), None),
            (format!(r#"{{"kty":"oct","kid":"a","alg":"HS256","k":"{n}","crv":"Ed25519","x":"{x}"}}"#), None),
        ] {
            let set = format!(r#"{{"keys":[{{"kty":"unheard of"}},7,{key}]}}"#);
            let found = published(set.as_bytes()).ok().map(|keys| keys[0].algorithm);
            assert_eq!(found, taken, "{key}");
        }
        for none in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#] {
            assert!(matches!(published(none.as_bytes()), Err(KeyError::Jwks)), "{none}");
        }
        let padded = format!("{{\"keys\":[]{}}}", " ".repeat(JWKS_BYTES_MAX));
        assert!(matches!(published(padded.as_bytes()), Err(KeyError::TooLong)));
    }

    /// `KeySet`: what is configured goes first, and a key need not be named only where there is no other.
    #[test]
    fn a_configured_key_is_not_replaced_by_a_published_one() {
        let secret = format!("id = \"a\"\nsecret = {:?}", "x".repeat(32));
        let configured = KeySet::of(&[toml::from_str(&secret).expect("a key")]).expect("keys");
        assert!(configured.only().is_some());
        let x = URL_SAFE_NO_PAD.encode([7; 32]);
        let jwks = format!(
            r#"{{"keys":[{{"kty":"OKP","kid":"a","crv":"Ed25519","x":"{x}"}},{{"kty":"OKP","kid":"b","crv":"Ed25519","x":"{x}"}}]}}"#
        );
        let both = configured.with_published(published(jwks.as_bytes()).expect("keys"));
        assert_eq!(both.find("a").map(VerificationKey::algorithm), Some(Algorithm::Hs256));
        assert_eq!(both.find("b").map(VerificationKey::algorithm), Some(Algorithm::EdDsa));
        assert!(both.only().is_none() && both.find("").is_none());
        assert_eq!(
            KeySet::default().with_published_of(&both).find("b").map(|key| key.algorithm),
            Some(Algorithm::EdDsa)
        );
    }
}
