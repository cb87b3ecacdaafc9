//! Whose token a request shows.

use std::sync::Arc;

use danmaku_wire::entry::{Author, Role};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use hyper::Request;
use hyper::body::Incoming;

use super::query::Query;
use super::{Front, Refused};
use crate::config::auth::Anonymous;
use crate::identity::guest;
use crate::identity::user::{Identity, Presence};
use crate::ingress::authority::{bearer, by_token, unauthorized};
use crate::ingress::problem::problem;

/// Who sends a request.
pub(super) enum Who {
    /// Somebody who shows nothing.
    Nobody,
    /// A guest that is known already.
    Guest(Arc<Author>),
    /// A user.
    User(Arc<Identity>),
}

impl Who {
    /// Whether it is somebody of the platform, in a room.
    pub(super) fn is_staff_in(&self, room: &RoomId) -> bool {
        matches!(self, Self::User(identity) if identity.grant(room).role == Role::Staff)
    }
}

impl Front {
    /// Who is calling: the first token that is there counts, and one that does not count is never taken
    /// for a guest's. Nobody where it is a guest that is not known yet.
    pub(super) fn identify(
        &self,
        request: &Request<Incoming>,
        query: &Query,
        offered: Option<String>,
        room: &RoomId,
    ) -> Result<Who, Refused> {
        let config = self.shared.config.load();
        let bearer = bearer(request.headers())?;
        if bearer.is_none()
            && offered.is_none()
            && let Some(ticket) = &query.ticket
        {
            return self.by_ticket(ticket, room).map(Who::User);
        }
        let token = match (bearer, offered, &query.token) {
            (Some(token), _, _) => Some(token),
            (None, Some(token), _) => Some(token),
            (None, None, Some(_)) if !config.query_token => {
                return Err(problem(
                    400,
                    "bad_request",
                    "a token in the address ends up in logs: send it as `Authorization: Bearer` or as the \
                     subprotocol danmaku.auth.<base64url>, or a ticket as `?ticket=`, or set `auth.query_token = true`",
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
        match token {
            Some(token) => by_token(&self.shared, &self.cells, &token).map(Who::User),
            None if config.anonymous == Anonymous::Refused => {
                Err(unauthorized(ErrorCode::Unauthorized, "this server asks for a token"))
            }
            None => Ok(known.map_or(Who::Nobody, Who::Guest)),
        }
    }

    fn by_ticket(&self, ticket: &str, room: &RoomId) -> Result<Arc<Identity>, Refused> {
        match self.shared.identities.take_ticket(ticket, room) {
            Some(identity) => {
                self.cells.tickets_used.add(1);
                Ok(identity)
            }
            None => {
                self.cells.tickets_refused.add(1);
                Err(unauthorized(
                    ErrorCode::TokenInvalid,
                    "this is not a ticket for this room, or it was used already, or is too old: get a new one",
                ))
            }
        }
    }

    /// Who writes a comment over HTTP; `stranger` is the guest that somebody without anything to show stands for.
    pub(super) fn writer(
        &self,
        who: Who,
        room: &RoomId,
        stranger: impl FnOnce() -> Arc<Author>,
    ) -> Result<Presence, Refused> {
        match who {
            Who::User(identity) => Ok(self.shared.identities.presence(&identity, room)),
            _ if self.shared.config.load().anonymous != Anonymous::ReadWrite => {
                Err(unauthorized(ErrorCode::Unauthorized, "guests only watch here: show a token to comment"))
            }
            Who::Guest(author) => Ok(Presence::of_guest(author)),
            Who::Nobody => Ok(Presence::of_guest(stranger())),
        }
    }
}
