//! Tokens: JSON Web Tokens (RFC 7519) that the platform signs for its users.
//!
//! In come a token, the keys, the rules and the time; out comes a user or why not. A key's algorithm is
//! fixed; what the token's header says about keys beyond a configured `kid` is refused, never followed. The library
//! checks signatures and nothing else: what it takes for granted about headers and claims is decided here.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use danmaku_wire::native::ErrorCode;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Map, Value};

use super::claims::{BADGES_MAX, Claims, LEVEL_MAX, NAME_CHARS_MAX, ROOMS_MAX, Rules, admit};
use super::key_set::{KeySet, VerificationKey};
use super::user::Identity;
use crate::config::auth_key::{AuthKey, KeyMaterial};

/// The longest token, bytes.
pub const TOKEN_BYTES_MAX: usize = 4 << 10;
/// Header fields that would make the token its own judge (RFC 7515, sections 4.1.2 to 4.1.8 and 4.1.11).
const HEADER_REFUSED: [&str; 7] = ["jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256", "crit"];

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// It was issued before its user's tokens were revoked.
    #[error("the token has been revoked: get a new one")]
    Revoked,
    /// Its time has not come.
    #[error("the token is not valid yet: its nbf or iat lies ahead of the server's clock")]
    Early,
    /// It is no token, or not signed by the key that it names.
    #[error("this is not a token signed with one of the server's keys")]
    Unknown,
    /// It names a key that is not there; to whoever sent it the same as [`Self::Unknown`].
    #[error("this is not a token signed with one of the server's keys")]
    UnknownKey,
    /// It is longer than a token may be.
    #[error("a token is at most {TOKEN_BYTES_MAX} bytes long")]
    TooLong,
    /// Its header asks for what is never done.
    #[error("the token's header may name alg, typ and kid only")]
    Header,
    /// A claim is missing or not of its kind.
    #[error(
        "the token needs sub (text, not starting with ~) and exp (a number), and takes nbf, iat, iss, aud, name, \
         role, global, level, badges, rooms"
    )]
    Claims,
    /// It lives too long.
    #[error("the token lives longer than 24 hours")]
    Life,
    /// It was issued by somebody else.
    #[error("the token's iss is not the one that this server takes")]
    Issuer,
    /// It is for somebody else.
    #[error("the token's aud is not this server's")]
    Audience,
    /// It makes staff of its user and is not for staff.
    #[error("the role staff needs a token whose aud is the one of staff")]
    Staff,
    /// The name is too long or holds control characters.
    #[error("a name is at most {NAME_CHARS_MAX} characters, none of them a control character")]
    Name,
    /// A role that is more than a viewer's, for every room, by mistake.
    #[error("a role above vip for all rooms needs `global: true`")]
    Role,
    /// The level is too high.
    #[error("a level is at most {LEVEL_MAX}")]
    Level,
    /// Too many badges.
    #[error("there are at most {BADGES_MAX} badges in a room")]
    Badges,
    /// Too many rooms, or one that cannot be.
    #[error("rooms are at most {ROOMS_MAX}, each by its exact name (1 to 64 of A-Z a-z 0-9 _ -) or `*`")]
    Rooms,
    /// It is the token of another user than the connection's.
    #[error("the token is another user's: a connection keeps its user")]
    OtherUser,
}

impl TokenError {
    /// What the client is told.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Expired | Self::Revoked => ErrorCode::TokenExpired,
            _ => ErrorCode::TokenInvalid,
        }
    }
}

/// Verifies a token at `now_s`, seconds since 1970.
///
/// # Errors
/// Why it does not count.
pub fn verify(token: &str, keys: &KeySet, rules: &Rules, now_s: u64) -> Result<Identity, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Unknown)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Unknown)?;
    let key = key_of(header, keys)?;
    // The signature first: claims of a stranger are not worth a look.
    if !key.has_signed(signed, signature) {
        return Err(TokenError::Unknown);
    }
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| TokenError::Claims)?;
    let claims: Claims = serde_json::from_slice(&claims).map_err(|_| TokenError::Claims)?;
    admit(claims, rules, now_s)
}

/// The key that the token's header names, if it is to be used as the header says; with a single key it need not be
/// named.
fn key_of<'k>(header: &str, keys: &'k KeySet) -> Result<&'k VerificationKey, TokenError> {
    let header = URL_SAFE_NO_PAD
        .decode(header)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Map<String, Value>>(&bytes).ok())
        .ok_or(TokenError::Unknown)?;
    if HEADER_REFUSED.iter().any(|name| header.contains_key(*name)) {
        return Err(TokenError::Header);
    }
    let key = match header.get("kid") {
        None => keys.only().ok_or(TokenError::Unknown)?,
        Some(Value::String(kid)) => keys.find(kid).ok_or(TokenError::UnknownKey)?,
        Some(_) => return Err(TokenError::Unknown),
    };
    let algorithm = header.get("alg").and_then(Value::as_str);
    if algorithm == Some(key.algorithm().as_str()) { Ok(key) } else { Err(TokenError::Unknown) }
}

/// Signs a token.
///
/// # Errors
/// When what is claimed would be refused at `now_s`, or the key is one that only verifies.
pub fn sign(claims: &Claims, key: &AuthKey, rules: &Rules, now_s: u64) -> Result<String, TokenError> {
    admit(claims.clone(), rules, now_s)?;
    let KeyMaterial::Secret(secret) = &key.material else { return Err(TokenError::Unknown) };
    let header = Header { kid: Some(key.id.clone()), ..Header::new(key.algorithm.of_library()) };
    EncodingKey::from_secret(secret.bytes())
        .and_then(|secret| jsonwebtoken::encode(&header, claims, &secret))
        .map_err(|_| TokenError::Claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::claims::{LIFE_S_MAX, TokenRole};
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
    use danmaku_wire::entry::Role;

    const NOW: u64 = 1_800_000_000;
    const LEEWAY_S: u64 = 30;

    fn key(id: &str, letter: &str) -> AuthKey {
        let text = format!("id = {id:?}\nsecret = {:?}", letter.repeat(32));
        toml::from_str(&text).expect("a key")
    }

    /// A token with any header and claims, signed with a key.
    fn made(header: &str, claims: &str, key: &AuthKey) -> String {
        let head = format!("{}.{}", B64.encode(header), B64.encode(claims));
        let KeyMaterial::Secret(secret) = &key.material else { panic!("no secret") };
        let secret = EncodingKey::from_secret(secret.bytes()).expect("long enough");
        let signature = jsonwebtoken::crypto::sign(head.as_bytes(), &secret, jsonwebtoken::Algorithm::HS256)
            .expect("signed");
        format!("{head}.{signature}")
    }

    /// `verify`: one answer for each way in which a token can be wrong.
    #[test]
    fn a_token_counts_only_if_everything_about_it_is_right() {
        let (a, b) = (key("a", "x"), key("b", "y"));
        let keys = KeySet::of(&[a.clone(), b.clone()]).expect("keys");
        let rules = Rules { leeway_s: LEEWAY_S, ..Rules::default() };
        let head = r#"{"alg":"HS256","kid":"a"}"#;
        let good = format!(r#"{{"sub":"u1","exp":{}}}"#, NOW + 60);
        let with = |more: &str| format!(r#"{{"sub":"u1","exp":{},{more}}}"#, NOW + 60);
        for (header, claims, signer, expected) in [
            (head, good.clone(), &a, Ok(())),
            (head, good.clone(), &b, Err(TokenError::Unknown)),
            (r#"{"alg":"HS256"}"#, good.clone(), &a, Err(TokenError::Unknown)),
            (r#"{"alg":"HS256","kid":"c"}"#, good.clone(), &a, Err(TokenError::UnknownKey)),
            (r#"{"alg":"HS256","kid":["a"]}"#, good.clone(), &a, Err(TokenError::Unknown)),
            (r#"{"alg":"none","kid":"a"}"#, good.clone(), &a, Err(TokenError::Unknown)),
            (r#"{"alg":"HS512","kid":"a"}"#, good.clone(), &a, Err(TokenError::Unknown)),
            (r#"{"alg":"RS256","kid":"a"}"#, good.clone(), &a, Err(TokenError::Unknown)),
            (r#"{"alg":"HS256","kid":"a","jku":"https://x"}"#, good.clone(), &a, Err(TokenError::Header)),
            (r#"{"alg":"HS256","kid":"a","crit":["b"]}"#, good.clone(), &a, Err(TokenError::Header)),
            (head, r#"{"sub":"u1"}"#.into(), &a, Err(TokenError::Claims)),
            (head, format!(r#"{{"exp":{}}}"#, NOW + 60), &a, Err(TokenError::Claims)),
            (head, format!(r#"{{"sub":"","exp":{}}}"#, NOW + 60), &a, Err(TokenError::Claims)),
            (head, format!(r#"{{"sub":"~x","exp":{}}}"#, NOW + 60), &a, Err(TokenError::Claims)),
            (head, format!(r#"{{"sub":"u1","exp":"{}"}}"#, NOW + 60), &a, Err(TokenError::Claims)),
            (head, format!(r#"{{"sub":"u1","exp":{}}}"#, NOW - LEEWAY_S), &a, Err(TokenError::Expired)),
            (head, format!(r#"{{"sub":"u1","exp":{}}}"#, NOW - LEEWAY_S + 1), &a, Ok(())),
            (head, format!(r#"{{"sub":"u1","exp":{}}}"#, NOW + LIFE_S_MAX + 31), &a, Err(TokenError::Life)),
            (head, with(&format!("\"nbf\":{}", NOW + 31)), &a, Err(TokenError::Early)),
            (head, with("\"nbf\":\"0\""), &a, Err(TokenError::Claims)),
            (head, with(&format!("\"name\":{:?}", "n".repeat(33))), &a, Err(TokenError::Name)),
            (head, with("\"name\":\"a\\u001bb\""), &a, Err(TokenError::Name)),
            (head, with("\"role\":\"vip\""), &a, Ok(())),
            (head, with("\"role\":\"staff\""), &a, Err(TokenError::Role)),
            (head, with("\"role\":\"staff\",\"global\":true"), &a, Ok(())),
            (head, with("\"role\":\"system\""), &a, Err(TokenError::Claims)),
        ] {
            let token = made(header, &claims, signer);
            assert_eq!(verify(&token, &keys, &rules, NOW).map(drop), expected, "{header} {claims}");
        }
        let long = made(head, &with(&format!("\"pad\":{:?}", "p".repeat(TOKEN_BYTES_MAX))), &a);
        assert_eq!(verify(&long, &keys, &rules, NOW).map(drop), Err(TokenError::TooLong));
        for text in ["", ".", "..", "a.b.c", "💩"] {
            assert_eq!(verify(text, &keys, &rules, NOW).map(drop), Err(TokenError::Unknown), "{text}");
        }
    }

    /// `sign`: what it makes counts, and it refuses to make what would not.
    #[test]
    fn a_signed_token_is_what_verify_takes() {
        let (key, rules) = (key("a", "x"), Rules::default());
        let keys = KeySet::of(std::slice::from_ref(&key)).expect("keys");
        let mut claims = Claims {
            sub: "u1".into(),
            exp: (NOW + 60) as f64,
            name: "Ann 安".into(),
            role: Some(TokenRole::Vip),
            ..Claims::default()
        };
        let token = sign(&claims, &key, &rules, NOW).expect("signed");
        let user = verify(&token, &keys, &rules, NOW).expect("counts");
        assert_eq!((user.id.as_str(), &*user.name, user.everywhere.role), ("u1", "Ann 安", Role::Vip));
        claims.sub = "~u1".into();
        assert_eq!(sign(&claims, &key, &rules, NOW), Err(TokenError::Claims));
    }
}
