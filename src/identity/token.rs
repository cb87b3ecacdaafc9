//! Tokens: JSON Web Tokens (RFC 7519) that the platform signs for its users.
//!
//! In come a token, the configured keys and the time; out comes a user or why not. A key's algorithm is
//! fixed; what the token's header says about keys beyond a configured `kid` is refused, never followed.

use std::sync::Arc;

use danmaku_wire::entry::{Author, Role};
use danmaku_wire::id::UserId;
use danmaku_wire::native::ErrorCode;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use crate::config::auth_key::AuthKey;

/// The longest token, bytes.
pub const TOKEN_BYTES_MAX: usize = 4 << 10;
/// The longest life of a token, seconds: a lost one is of no use the day after.
pub const LIFE_S_MAX: u64 = 24 * 60 * 60;
/// What clocks may differ by, seconds.
pub const LEEWAY_S: u64 = 30;
/// Characters of a name.
const NAME_CHARS_MAX: usize = 32;
/// Header fields that would make the token its own judge (RFC 7515, 4.1.2 to 4.1.6 and 4.1.11).
const HEADER_REFUSED: [&str; 6] = ["jku", "jwk", "x5u", "x5c", "x5t", "crit"];

/// What a token says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// The user.
    pub sub: String,
    /// When it ends, seconds since 1970.
    pub exp: f64,
    /// From when on it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<f64>,
    /// The display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `viewer` or `vip`; others only with `global`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<TokenRole>,
    /// Whether the role holds in every room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub global: bool,
}

/// A role as tokens write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TokenRole {
    /// Watches and comments.
    Viewer,
    /// Goes ahead of the crowd.
    Vip,
    /// Keeps order.
    Moderator,
    /// Whose room it is.
    Streamer,
    /// Of the platform.
    Staff,
}

impl From<TokenRole> for Role {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::Viewer => Self::Viewer,
            TokenRole::Vip => Self::Vip,
            TokenRole::Moderator => Self::Moderator,
            TokenRole::Streamer => Self::Streamer,
            TokenRole::Staff => Self::Staff,
        }
    }
}

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet: its nbf lies ahead of the server's clock")]
    Early,
    /// It is no token, or not one of a configured key.
    #[error("this is not a token signed with one of the server's keys")]
    Unknown,
    /// It is longer than a token may be.
    #[error("a token is at most {TOKEN_BYTES_MAX} bytes long")]
    TooLong,
    /// Its header asks for what is never done.
    #[error("the token's header may name alg, typ and kid only")]
    Header,
    /// A claim is missing or not of its kind.
    #[error("the token needs sub (text, not starting with ~) and exp (a number), and takes nbf, name, role")]
    Claims,
    /// It lives too long.
    #[error("the token lives longer than 24 hours")]
    Life,
    /// The name is too long or holds control characters.
    #[error("a name is at most {NAME_CHARS_MAX} characters, none of them a control character")]
    Name,
    /// A role that is more than a viewer's, for every room, by mistake.
    #[error("a role above vip for all rooms needs `global: true`")]
    Role,
}

impl TokenError {
    /// What the client is told.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Expired => ErrorCode::TokenExpired,
            _ => ErrorCode::TokenInvalid,
        }
    }
}

/// Verifies a token at `now_s`, seconds since 1970.
///
/// # Errors
/// Why it does not count.
pub fn verify(token: &str, keys: &[AuthKey], now_s: u64) -> Result<Arc<Author>, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let key = key_of(token, keys)?;
    let mut validation = Validation::new(Algorithm::HS256);
    // Times are checked below, against the caller's clock; audiences are not configured.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let secret = DecodingKey::from_secret(key.secret.bytes()).map_err(|_| TokenError::Unknown)?;
    // The signature first: claims of a stranger are not worth a look.
    let data = jsonwebtoken::decode::<serde_json::Value>(token, &secret, &validation)
        .map_err(|_| TokenError::Unknown)?;
    let claims: Claims = serde_json::from_value(data.claims).map_err(|_| TokenError::Claims)?;
    admit(claims, now_s)
}

/// The configured key that the token's header names; with a single key it need not be named.
fn key_of<'k>(token: &str, keys: &'k [AuthKey]) -> Result<&'k AuthKey, TokenError> {
    use base64::Engine;
    let head = token.split('.').next().unwrap_or_default();
    let head = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(head)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&bytes).ok())
        .ok_or(TokenError::Unknown)?;
    if HEADER_REFUSED.iter().any(|name| head.contains_key(*name)) {
        return Err(TokenError::Header);
    }
    match (head.get("kid"), keys) {
        (None, [only]) => Ok(only),
        (Some(serde_json::Value::String(kid)), _) => {
            keys.iter().find(|key| key.id == *kid).ok_or(TokenError::Unknown)
        }
        _ => Err(TokenError::Unknown),
    }
}

fn admit(claims: Claims, now_s: u64) -> Result<Arc<Author>, TokenError> {
    let (now, leeway) = (now_s as f64, LEEWAY_S as f64);
    if claims.exp + leeway <= now {
        return Err(TokenError::Expired);
    }
    if claims.nbf.is_some_and(|nbf| nbf > now + leeway) {
        return Err(TokenError::Early);
    }
    if claims.exp > now + LIFE_S_MAX as f64 + leeway {
        return Err(TokenError::Life);
    }
    if claims.name.chars().count() > NAME_CHARS_MAX || claims.name.chars().any(char::is_control) {
        return Err(TokenError::Name);
    }
    let role = claims.role.unwrap_or(TokenRole::Viewer);
    if !claims.global && !matches!(role, TokenRole::Viewer | TokenRole::Vip) {
        return Err(TokenError::Role);
    }
    // `~` begins the ids of guests: no user may pass for one.
    if claims.sub.starts_with('~') {
        return Err(TokenError::Claims);
    }
    let id = UserId::parse(&claims.sub).map_err(|_| TokenError::Claims)?;
    let name = claims.name.into();
    Ok(Arc::new(Author { id, name, role: role.into(), level: 0, badges: Vec::new() }))
}

/// Signs a token.
///
/// # Errors
/// When what is claimed would be refused at `now_s`.
pub fn sign(claims: &Claims, key: &AuthKey, now_s: u64) -> Result<String, TokenError> {
    admit(claims.clone(), now_s)?;
    let header = Header { kid: Some(key.id.clone()), ..Header::new(Algorithm::HS256) };
    EncodingKey::from_secret(key.secret.bytes())
        .and_then(|secret| jsonwebtoken::encode(&header, claims, &secret))
        .map_err(|_| TokenError::Claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;

    const NOW: u64 = 1_800_000_000;

    fn key(id: &str, letter: &str) -> AuthKey {
        let text = format!("id = {id:?}\nsecret = {:?}", letter.repeat(32));
        toml::from_str(&text).expect("a key")
    }

    /// A token with any header and claims, signed with a key.
    fn made(header: &str, claims: &str, key: &AuthKey) -> String {
        let head = format!("{}.{}", B64.encode(header), B64.encode(claims));
        let secret = EncodingKey::from_secret(key.secret.bytes()).expect("long enough");
        let signature =
            jsonwebtoken::crypto::sign(head.as_bytes(), &secret, Algorithm::HS256).expect("signed");
        format!("{head}.{signature}")
    }

    /// `verify`: one answer for each way in which a token can be wrong.
    #[test]
    fn a_token_counts_only_if_everything_about_it_is_right() {
        let (a, b) = (key("a", "x"), key("b", "y"));
        let keys = [a.clone(), b.clone()];
        let head = r#"{"alg":"HS256","kid":"a"}"#;
        let good = format!(r#"{{"sub":"u1","exp":{}}}"#, NOW + 60);
        let with = |more: &str| format!(r#"{{"sub":"u1","exp":{},{more}}}"#, NOW + 60);
        for (header, claims, signer, expected) in [
            (head, good.clone(), &a, Ok(())),
            (head, good.clone(), &b, Err(TokenError::Unknown)),
            (r#"{"alg":"HS256"}"#, good.clone(), &a, Err(TokenError::Unknown)),
            (r#"{"alg":"HS256","kid":"c"}"#, good.clone(), &a, Err(TokenError::Unknown)),
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
            assert_eq!(verify(&token, &keys, NOW).map(drop), expected, "{header} {claims}");
        }
        let long = made(head, &with(&format!("\"pad\":{:?}", "p".repeat(TOKEN_BYTES_MAX))), &a);
        assert_eq!(verify(&long, &keys, NOW).map(drop), Err(TokenError::TooLong));
        for text in ["", ".", "..", "a.b.c", "💩"] {
            assert_eq!(verify(text, &keys, NOW).map(drop), Err(TokenError::Unknown), "{text}");
        }
    }

    /// `sign`: what it makes counts, and it refuses to make what would not.
    #[test]
    fn a_signed_token_is_what_verify_takes() {
        let keys = [key("a", "x")];
        let mut claims = Claims {
            sub: "u1".into(),
            exp: (NOW + 60) as f64,
            nbf: None,
            name: "Ann 安".into(),
            role: Some(TokenRole::Vip),
            global: false,
        };
        let token = sign(&claims, &keys[0], NOW).expect("signed");
        let author = verify(&token, &keys, NOW).expect("counts");
        assert_eq!((author.id.as_str(), &*author.name, author.role), ("u1", "Ann 安", Role::Vip));
        claims.sub = "~u1".into();
        assert_eq!(sign(&claims, &keys[0], NOW), Err(TokenError::Claims));
    }
}
