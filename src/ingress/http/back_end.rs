//! What back ends ask for on the client port: tickets for users, and decisions about users.
//!
//! They show a key of their own (`danmaku key add`) that is for it, or a token of staff. A user may make tickets for
//! itself.

use std::sync::Arc;
use std::time::Duration;

use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::ErrorCode;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::patience::Patience;
use super::{Front, Refused};
use crate::identity::api_key::Scope;
use crate::identity::claims::{self, Claims, LIFE_S_MAX, RoomClaims};
use crate::identity::tickets::NoTicket;
use crate::identity::token::TokenError;
use crate::identity::user::Identity;
use crate::identity::users::{Change, NotKept, UserPatch};
use crate::ingress::authority::{Asking, allow, bad, forbidden, now_s};
use crate::ingress::body::check_form;
use crate::ingress::document;
use crate::ingress::problem::{problem, refusal};
use crate::observe::limits::Limit;
use crate::worker::message::Control;

/// What a ticket is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TicketBody {
    room: String,
    user: Option<TicketUser>,
}

/// Whom a back end asks a ticket for, and what the user is in the ticket's room.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TicketUser {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    in_room: RoomClaims,
}

/// Which tokens of a user are to count no more.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RevokeBody {
    issued_before: Option<u64>,
}

impl Front {
    /// `POST /api/v1/tickets`.
    pub(super) async fn tickets(
        &self,
        request: Request<Incoming>,
        patience: &Patience,
    ) -> Response<Full<Bytes>> {
        self.make_ticket(request, patience).await.unwrap_or_else(|refusal| *refusal)
    }

    async fn make_ticket(
        &self,
        request: Request<Incoming>,
        patience: &Patience,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        expect_method(&request, &Method::POST, "POST, OPTIONS")?;
        let asking = self.asking(&request)?;
        let body: TicketBody = self.json(request, patience).await?;
        let room = RoomId::parse(&body.room).map_err(|e| problem(400, "room_invalid", &e.to_string()))?;
        let config = self.shared.config.load_full();
        let identity = match (asking, body.user) {
            (Asking::User(identity), None) => identity,
            (Asking::User(_), Some(_)) => {
                return Err(forbidden("a token makes tickets for its own user: leave `user` out"));
            }
            (Asking::Key(key), Some(user)) => {
                allow(&key, Scope::Tickets)?;
                if !key.is_for(&room) {
                    return Err(forbidden("this key is for other rooms"));
                }
                let (TicketUser { id, name, in_room }, badges) = (user, &config.token_rules.badges);
                let vouched = vouched_user(id, name, in_room, &room, badges);
                Arc::new(vouched.map_err(|e| bad(&e.to_string()))?)
            }
            (Asking::Key(_), None) => {
                return Err(bad("say whose ticket it is: `\"user\":{\"id\":\"u1\",\"name\":\"Ann\"}`"));
            }
        };
        let ticket = self.shared.identities.make_ticket(identity, room, &config).map_err(|none| {
            let (limit, code, wait_ms) = match none {
                NoTicket::Full { wait_ms } => (Limit::Tickets, ErrorCode::Overloaded, wait_ms),
                NoTicket::TooMany { wait_ms } => (Limit::UserTickets, ErrorCode::RateLimited, wait_ms),
            };
            self.cells.met(limit);
            Refused::from(refusal(code, Some(wait_ms), &[]))
        })?;
        self.cells.tickets_made.add(1);
        let body = serde_json::json!({ "ticket": ticket, "expiresInMs": config.tickets.life_ms });
        Ok(document::json(StatusCode::CREATED, body.to_string()))
    }

    /// `PATCH /api/v1/users/USER`, `POST /api/v1/users/USER/revoke`, `POST /api/v1/users/USER/disconnect`. `path` is
    /// what follows `/api/v1/users/`.
    pub(super) async fn users(
        &self,
        request: Request<Incoming>,
        path: &str,
        patience: &Patience,
    ) -> Response<Full<Bytes>> {
        self.decide(request, path, patience).await.unwrap_or_else(|refusal| *refusal)
    }

    async fn decide(
        &self,
        request: Request<Incoming>,
        path: &str,
        patience: &Patience,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        let (user, action) = path.split_once('/').map_or((path, None), |(user, action)| (user, Some(action)));
        match action {
            None => expect_method(&request, &Method::PATCH, "PATCH")?,
            Some("revoke" | "disconnect") => expect_method(&request, &Method::POST, "POST")?,
            Some(_) => return Err(problem(404, "not_found", "a user has /revoke and /disconnect").into()),
        }
        let asking = self.asking(&request)?;
        let key = asking.back_end(Scope::Users)?;
        if self.shared.replaced.is_set() {
            // Decided here it would hold for nobody.
            return Err(refusal(ErrorCode::Unavailable, Some(1_000), &[]).into());
        }
        let user = decoded(user).and_then(|user| UserId::parse(&user).ok());
        let user =
            user.ok_or_else(|| bad("a user's id is 1 to 64 bytes, none of them a control character"))?;
        let config = self.shared.config.load_full();
        let everywhere = key.as_ref().is_none_or(|key| key.rooms.is_empty());
        let in_rooms = || forbidden("this key is for some rooms, and this concerns all of them");
        let kept = match action {
            Some("disconnect") if !everywhere => return Err(in_rooms()),
            Some("disconnect") => Ok(()),
            Some(_) => {
                if !everywhere {
                    return Err(in_rooms());
                }
                let body: RevokeBody = self.json_or_nothing(request, patience).await?;
                let before_s = body.issued_before.unwrap_or_else(now_s);
                self.shared.identities.revoke(&user, before_s, &config, now_s())
            }
            None => {
                let patch: UserPatch = self.json(request, patience).await?;
                let change =
                    Change::check(patch, &config.token_rules.badges).map_err(|e| bad(&e.to_string()))?;
                let rooms_of_key = |mut rooms: Box<dyn Iterator<Item = &RoomId> + '_>| {
                    rooms.all(|room| key.as_ref().is_none_or(|key| key.is_for(room)))
                };
                if !everywhere && !change.rooms_alone().is_some_and(|rooms| rooms_of_key(Box::new(rooms))) {
                    return Err(in_rooms());
                }
                self.shared.identities.change(&user, change, &config, now_s())
            }
        };
        kept.map_err(|not| self.not_kept(not))?;
        self.cells.users_decided.add(1);
        self.tell_workers(&user, action == Some("disconnect")).await;
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    /// Tells every worker that something was decided about a user. A full ring empties within a turn of its worker.
    async fn tell_workers(&self, user: &UserId, leave: bool) {
        for post in &self.shared.post {
            let mut word = Control::User { user: user.clone(), leave };
            while let Err(full) = post.control(word, 64, 0) {
                word = full.item;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    fn not_kept(&self, not: NotKept) -> Refused {
        match not {
            NotKept::Full { wait_s } => {
                self.cells.met(Limit::UsersChanged);
                let mut refusal = problem(
                    503,
                    ErrorCode::Overloaded.as_str(),
                    "too many users were revoked or changed within a day: `auth.users_changed_max` bounds them",
                );
                refusal.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait_s));
                refusal.into()
            }
            NotKept::Rooms => bad(&TokenError::Rooms.to_string()),
        }
    }

    pub(super) fn asking(&self, request: &Request<Incoming>) -> Result<Asking, Refused> {
        Asking::of(&self.shared, &self.cells, request.headers())
    }

    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        request: Request<Incoming>,
        patience: &Patience,
    ) -> Result<T, Refused> {
        check_form(request.headers())?;
        let body = self.body(request.into_body()).await?;
        patience.heard_all();
        serde_json::from_slice(&body).map_err(|error| bad(&format!("the body: {error}")))
    }

    async fn json_or_nothing<T: DeserializeOwned + Default>(
        &self,
        request: Request<Incoming>,
        patience: &Patience,
    ) -> Result<T, Refused> {
        if hyper::body::Body::is_end_stream(request.body()) {
            return Ok(T::default());
        }
        self.json(request, patience).await
    }
}

/// The user that a back end vouches for, as if by a token issued now for as long as a token may live.
///
/// # Errors
/// Where a token would be refused that says so.
pub fn vouched_user(
    id: String,
    name: String,
    in_room: RoomClaims,
    room: &RoomId,
    badges: &[String],
) -> Result<Identity, TokenError> {
    let now_s = now_s();
    let claims = Claims {
        sub: id,
        exp: (now_s + LIFE_S_MAX) as f64,
        iat: Some(now_s as f64),
        name,
        rooms: [(room.as_str().to_owned(), in_room)].into(),
        ..Claims::default()
    };
    claims::admit(claims, &claims::Rules { badges: badges.to_vec(), ..claims::Rules::default() }, now_s)
}

pub(super) fn expect_method(
    request: &Request<Incoming>,
    method: &Method,
    allow: &'static str,
) -> Result<(), Refused> {
    if request.method() == method {
        return Ok(());
    }
    let mut refusal = problem(405, "method_not_allowed", &format!("this is asked with {method}"));
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    Err(refusal.into())
}

/// A segment of a path without its percent signs (RFC 3986, section 2.1).
pub(super) fn decoded(segment: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(segment.len()), segment.as_bytes());
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `decoded`: what was encoded, and nothing that is half so.
    #[test]
    fn a_segment_is_decoded_whole_or_not_at_all() {
        for (segment, text) in [
            ("u1", Some("u1")),
            ("a%2Fb%20c+d", Some("a/b c+d")),
            ("%E5%AE%89", Some("安")),
            ("%", None),
            ("a%2", None),
            ("%+1", None),
            ("%ff", None),
        ] {
            assert_eq!(decoded(segment).as_deref(), text, "{segment}");
        }
    }
}
