//! By whose word something is asked for over HTTP: a back end's with a key, or a user's with a token. Everything that is
//! asked for under `/api/v1` goes through here.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};

use super::problem::{Refused, problem};
use crate::identity::api_key::{self, ApiKey, Scope};
use crate::identity::user::Identity;
use crate::observe::cells::Cells;
use crate::wiring::Shared;

/// Who asks.
#[derive(Debug, Clone)]
pub enum Asking {
    /// A back end.
    Key(ApiKey),
    /// A user.
    User(Arc<Identity>),
}

impl Asking {
    /// Who shows what.
    ///
    /// # Errors
    /// 401 where nothing is shown, or nothing that counts.
    pub fn of(shared: &Shared, cells: &Cells, headers: &HeaderMap) -> Result<Self, Refused> {
        let shown = bearer(headers)?.ok_or_else(|| {
            unauthorized(ErrorCode::Unauthorized, "show a key or a token: `Authorization: Bearer …`")
        })?;
        if !shown.starts_with(api_key::MARK) {
            return by_token(shared, cells, &shown).map(Self::User);
        }
        match shared.identities.api_keys().find(&shown, now_s()) {
            Some(key) => Ok(Self::Key(key.clone())),
            None => {
                cells.tokens_refused.add(1);
                Err(unauthorized(ErrorCode::TokenInvalid, "there is no such key, or it has ended"))
            }
        }
    }

    /// Lets a back end's key for a scope pass, and staff. The key, unless it is staff.
    ///
    /// # Errors
    /// 403 for everybody else.
    pub fn back_end(&self, scope: Scope) -> Result<Option<&ApiKey>, Refused> {
        match self {
            Self::Key(key) => allow(key, scope).map(|()| Some(key)),
            Self::User(identity) if identity.is_staff() => Ok(None),
            Self::User(_) => Err(forbidden("this is for keys of back ends and for staff")),
        }
    }

    /// The same in a room, which a key has to be for.
    ///
    /// # Errors
    /// 403 for everybody else.
    pub fn back_end_in(&self, scope: Scope, room: &RoomId) -> Result<(), Refused> {
        match self.back_end(scope)? {
            Some(key) if !key.is_for(room) => Err(forbidden("this key is for other rooms")),
            _ => Ok(()),
        }
    }

    /// Whose word it is, as the audit has it.
    pub fn name(&self) -> String {
        match self {
            Self::Key(key) => format!("key {}", key.id),
            Self::User(identity) => format!("user {}", identity.id.as_str()),
        }
    }
}

/// The user of a token.
///
/// # Errors
/// 401 where it does not count.
pub fn by_token(shared: &Shared, cells: &Cells, token: &str) -> Result<Arc<Identity>, Refused> {
    let config = shared.config.load();
    match shared.identities.known(token, &config, now_s()) {
        Ok(known) => {
            cells.tokens_taken.add(1);
            cells.tokens_taken_again.add(u64::from(known.again));
            Ok(known.identity)
        }
        Err(error) => {
            cells.tokens_refused.add(1);
            Err(unauthorized(error.code(), &error.to_string()))
        }
    }
}

/// The token of an `Authorization` header (RFC 6750, section 2.1), if there is one.
///
/// # Errors
/// 401 where the header is something else.
pub fn bearer(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    match value.to_str().ok().and_then(|value| value.split_once(' ')) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim().to_owned())),
        _ => Err(unauthorized(ErrorCode::TokenInvalid, "write the header as `Authorization: Bearer TOKEN`")),
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Whether a key has a scope.
///
/// # Errors
/// 403 where it has not.
pub fn allow(key: &ApiKey, scope: Scope) -> Result<(), Refused> {
    if key.may(scope) {
        return Ok(());
    }
    Err(forbidden(&format!("this key has no scope `{}`", scope.as_str())))
}

/// What somebody is told who may not.
pub fn forbidden(detail: &str) -> Refused {
    problem(403, ErrorCode::Forbidden.as_str(), detail).into()
}

/// What somebody is told who asked for what makes no sense.
pub fn bad(detail: &str) -> Refused {
    problem(400, ErrorCode::BadRequest.as_str(), detail).into()
}

/// What somebody is told who shows nothing, or nothing that counts.
pub fn unauthorized(code: ErrorCode, detail: &str) -> Refused {
    let mut refusal = problem(401, code.as_str(), detail);
    refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refusal.into()
}
