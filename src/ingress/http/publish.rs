//! `POST /api/v1/rooms/ROOM/danmaku`: a viewer's comment, where a network breaks WebSocket.
//!
//! It goes the way of a `send` over a socket, to the room's owner, and is refused for the same reasons. The answer is
//! the same `ack`, or a problem document with the code that the `error` would have had.

use std::time::Duration;

use bumpalo::Bump;
use danmaku_room::admission::Standing;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::{Ack, AckState, DecodeError, ErrorCode, ServerMessage, json};
use danmaku_wire::position::Epoch;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::oneshot;

use super::patience::Patience;
use super::query::Query;
use super::{Front, Refused, Visit};
use crate::identity::guest;
use crate::identity::user::Presence;
use crate::ingress::addresses::Place;
use crate::ingress::body;
use crate::ingress::caller::Asker;
use crate::ingress::document;
use crate::ingress::problem::{problem, refusal};
use crate::observe::limits::Limit;
use crate::worker::calls::Call;
use crate::worker::message::{Outcome, OwnedSend};

impl Front {
    /// Answers a publish.
    pub(super) async fn publish(
        &self,
        request: Request<Incoming>,
        room: &str,
        asker: Asker,
        visit: &Visit,
        patience: &Patience,
    ) -> Response<Full<Bytes>> {
        let (room, user) = match self.publishable(&request, room, asker) {
            Ok(publishable) => publishable,
            Err(refusal) => return *refusal,
        };
        // Counted until it has its answer, where a proxy brings it.
        let counted = match self.count(visit, &asker, &user.author) {
            Ok(counted) => counted,
            Err(refusal) => return *refusal,
        };
        match self.body(request.into_body()).await {
            Ok(body) => {
                patience.heard_all();
                self.publish_body(&body, room, user, counted.place(), self.mark(&asker)).await
            }
            Err(refusal) => *refusal,
        }
    }

    /// Looks at all that the head says: which room, and who writes.
    fn publishable(
        &self,
        request: &Request<Incoming>,
        room: &str,
        asker: Asker,
    ) -> Result<(RoomId, Presence), Refused> {
        if request.method() != Method::POST {
            let mut refusal = problem(405, "method_not_allowed", "a comment is sent with POST");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
            return Err(refusal.into());
        }
        let room = RoomId::parse(room).map_err(|error| problem(400, "room_invalid", &error.to_string()))?;
        body::check_form(request.headers())?;
        let max = self.shared.config.load().body_bytes_max;
        if request.body().size_hint().lower() > max as u64 {
            return Err(body::too_long(&self.cells, max));
        }
        let query = Query::parse(request.uri().query().unwrap_or(""))?;
        if query.ticket.is_some() {
            let detail = "a ticket opens a stream: publish with `Authorization: Bearer`";
            return Err(problem(400, "bad_request", detail).into());
        }
        let who = self.identify(request, &query, None, &room)?;
        let secret = *self.shared.config.load().secret();
        let stranger = || guest::author(guest::number_of(asker.address, &secret));
        let user = self.writer(who, &room, stranger)?;
        Ok((room, user))
    }

    /// Reads the body, within its bounds of size and time.
    pub(super) async fn body(&self, body: Incoming) -> Result<Bytes, Refused> {
        body::read(&self.shared, &self.cells, body).await
    }

    async fn publish_body(
        &self,
        body: &[u8],
        room: RoomId,
        user: Presence,
        place: Place,
        address: u64,
    ) -> Response<Full<Bytes>> {
        let send = match owned(body) {
            Ok(send) => send,
            Err(refusal) => {
                self.cells.refuse(ErrorCode::BadRequest);
                return *refusal;
            }
        };
        if let Err(refusal) = self.may_create(place, &room) {
            return *refusal;
        }
        let (answer, fate) = oneshot::channel();
        let id = send.as_send().id.to_owned();
        let standing = user.standing(guest::is_guest(&user.author) && place != Place::NONE);
        let standing = Standing { address: guest::measured_by(&user.author, address), ..standing };
        self.inbox.call(Call { room, user: user.author, standing, send, answer });
        let within = Duration::from_millis(self.shared.config.load().answer_within_ms);
        match tokio::time::timeout(within, fate).await {
            Ok(Ok(outcome)) => told(&id, &outcome),
            // Its comment may come to be: the same id tells.
            Ok(Err(_)) => refusal(ErrorCode::Unavailable, Some(1_000), &[]),
            Err(_) => {
                self.cells.met(Limit::AnswerTime);
                refusal(ErrorCode::Unavailable, Some(1_000), &[])
            }
        }
    }
}

/// The command in a body.
fn owned(body: &[u8]) -> Result<OwnedSend, Refused> {
    let arena = Bump::new();
    let text = std::str::from_utf8(body).map_err(|_| problem(400, "bad_request", "the body is not UTF-8"))?;
    match json::decode_send(text, &arena) {
        Ok(send) => Ok(OwnedSend::from(&send)),
        Err(DecodeError::Malformed(_)) => Err(problem(400, "bad_request", "the body is not JSON").into()),
        Err(error) => Err(problem(400, "bad_request", &error.to_string()).into()),
    }
}

/// A comment's fate as an answer.
fn told(id: &str, outcome: &Outcome) -> Response<Full<Bytes>> {
    match outcome {
        Outcome::Accepted { .. } | Outcome::Held | Outcome::Noted => {
            let (state, seq, epoch) = match outcome {
                Outcome::Accepted { seq, epoch } => {
                    (AckState::Accepted, Some(*seq), epoch.as_ref().map(Epoch::as_str))
                }
                _ => (AckState::Held, None, None),
            };
            let ack = Ack { id, state, seq, epoch };
            let mut body = Vec::new();
            json::encode(&ServerMessage::Ack(ack), &mut body);
            document::json(StatusCode::OK, body)
        }
        Outcome::Refused(refused) => {
            let rule = refused.rule.map(|rule| ("rule", rule.name().into()));
            refusal(refused.code, refused.retry_after_ms, rule.as_slice())
        }
        Outcome::NotStored { seq } => {
            refusal(ErrorCode::NotStored, None, &[("seq", (*seq).into()), ("shown", true.into())])
        }
    }
}
