//! A platform that signs tokens: keys of every kind, and whatever header and claims a test wants.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use rcgen::KeyPair;
use serde_json::{Value, json};

/// A key that signs.
pub(crate) struct Signer {
    pub(crate) kid: String,
    pub(crate) algorithm: Algorithm,
    key: EncodingKey,
    /// The public key in PEM; of a secret, the secret.
    #[allow(dead_code, reason = "not every test has its keys in files")]
    pub(crate) public: String,
    /// The public key's bytes, as the algorithm has them.
    raw: Vec<u8>,
}

impl Signer {
    /// A secret.
    pub(crate) fn secret(kid: &str, secret: &str) -> Self {
        let key = EncodingKey::from_secret(secret.as_bytes()).expect("long enough");
        Self { kid: kid.into(), algorithm: Algorithm::HS256, key, public: secret.into(), raw: Vec::new() }
    }

    /// A new pair of keys.
    #[allow(dead_code, reason = "some tests have a secret only")]
    pub(crate) fn pair(kid: &str, algorithm: Algorithm) -> Self {
        let kind = match algorithm {
            Algorithm::RS256 => &rcgen::PKCS_RSA_SHA256,
            Algorithm::ES256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Algorithm::EdDSA => &rcgen::PKCS_ED25519,
            other => panic!("no pair for {other:?}"),
        };
        let pair = KeyPair::generate_for(kind).expect("a pair");
        let pem = pair.serialize_pem();
        let key = match algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_pem(pem.as_bytes()),
            Algorithm::ES256 => EncodingKey::from_ec_pem(pem.as_bytes()),
            _ => EncodingKey::from_ed_pem(pem.as_bytes()),
        };
        let key = key.expect("a key");
        let (public, raw) = (pair.public_key_pem(), pair.public_key_raw().to_vec());
        Self { kid: kid.into(), algorithm, key, public, raw }
    }

    /// A token with the usual header.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(
            &json!({ "alg": format!("{:?}", self.algorithm), "typ": "JWT", "kid": self.kid }),
            claims,
        )
    }

    /// A token with any header, signed as this key signs.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", B64.encode(header.to_string()), B64.encode(claims.to_string()));
        let signature = crypto::sign(signed.as_bytes(), &self.key, self.algorithm).expect("signed");
        format!("{signed}.{signature}")
    }

    /// The public key as a key set has it.
    #[allow(dead_code, reason = "not every test publishes keys")]
    pub(crate) fn jwk(&self) -> Value {
        match self.algorithm {
            Algorithm::ES256 => {
                let (x, y) = self.raw[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": self.kid, "x": B64.encode(x), "y": B64.encode(y) })
            }
            Algorithm::EdDSA => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": B64.encode(&self.raw) })
            }
            other => panic!("no key set with {other:?}"),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
