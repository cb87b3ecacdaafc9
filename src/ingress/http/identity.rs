//! Whose token a request shows.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use danmaku_wire::entry::Author;
use danmaku_wire::native::ErrorCode;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use super::query::Query;
use super::{Front, Refused};
use crate::identity::{guest, token};
use crate::ingress::problem::problem;

impl Front {
    /// Who is calling: the first token that is there counts, and one that does not count is never taken
    /// for a guest's. Nobody where it is a guest that is not known yet.
    pub(super) fn identify(
        &self,
        request: &Request<Incoming>,
        query: &Query,
        offered: Option<String>,
    ) -> Result<Option<Arc<Author>>, Refused> {
        let config = self.shared.config.load();
        let bearer = request.headers().get(AUTHORIZATION).map(|value| {
            let value = value.to_str().ok().and_then(|value| value.split_once(' '));
            match value {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim().to_owned()),
                _ => Err(unauthorized(
                    ErrorCode::TokenInvalid,
                    "write the header as `Authorization: Bearer TOKEN`",
                )),
            }
        });
        let token = match (bearer.transpose()?, offered, &query.token) {
            (Some(token), _, _) => Some(token),
            (None, Some(token), _) => Some(token),
            (None, None, Some(_)) if !config.query_token => {
                return Err(problem(
                    400,
                    "bad_request",
                    "a token in the address ends up in logs: send it as `Authorization: Bearer` or as the \
                     subprotocol danmaku.auth.<base64url>, or set `auth.query_token = true`",
                )
                .into());
            }
            (None, None, token) => token.clone(),
        };
        // A guest presents its signed id like a token. One that was not signed here, such as one of before a restart, is
        // no claim to anything: its bearer is a new guest.
        let (token, known) = match token {
            Some(token) if token.starts_with(guest::MARK) => {
                (None, guest::verify(&token, config.secret()).map(guest::author))
            }
            token => (token, None),
        };
        let Some(token) = token else {
            return if config.anonymous {
                Ok(known)
            } else {
                Err(unauthorized(ErrorCode::Unauthorized, "this server asks for a token"))
            };
        };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        token::verify(&token, &config.auth_keys, now_s)
            .map(Some)
            .map_err(|error| unauthorized(error.code(), &error.to_string()))
    }
}

fn unauthorized(code: ErrorCode, detail: &str) -> Refused {
    let mut refusal = problem(401, code.as_str(), detail);
    refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refusal.into()
}
