//! Held comments over HTTP: `GET /api/v1/rooms/ROOM/review` lists them, `POST …/review/ID/release` lets one out and
//! `POST …/review/ID/reject` refuses it.
//!
//! For keys of back ends with the scope `moderation`, and for those who keep order in the room.

use std::time::Duration;

use danmaku_room::admission::policy::keeps_order;
use danmaku_room::owner::held::HeldComment;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::back_end::expect_method;
use super::moderation::document;
use super::{Front, Refused};
use crate::identity::api_key::Scope;
use crate::ingress::authority::{Asking, allow, forbidden};
use crate::ingress::problem::{problem, refusal};
use crate::worker::review::{ReviewAnswer, ReviewAsk, name_of, number_of};

impl Front {
    /// `path` is what follows `…/ROOM/review`.
    pub(super) async fn review(
        &self,
        request: Request<Incoming>,
        room: &str,
        path: &str,
    ) -> Response<Full<Bytes>> {
        self.answer_review(&request, room, path).await.unwrap_or_else(|refusal| *refusal)
    }

    async fn answer_review(
        &self,
        request: &Request<Incoming>,
        room: &str,
        path: &str,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        let none =
            || problem(404, "not_found", "there are …/review, …/review/ID/release and …/review/ID/reject");
        let named = match path {
            "" => None,
            path => {
                let named = path.strip_prefix('/').and_then(|path| path.split_once('/'));
                Some(named.filter(|(_, verb)| matches!(*verb, "release" | "reject")).ok_or_else(none)?)
            }
        };
        match named {
            None => expect_method(request, &Method::GET, "GET")?,
            Some(_) => expect_method(request, &Method::POST, "POST")?,
        }
        let room = RoomId::parse(room).map_err(|error| problem(400, "room_invalid", &error.to_string()))?;
        self.may_review(request, &room)?;
        let unknown = || problem(404, "not_held", "there is no held comment of this name, or not any more");
        let ask = match named {
            None => ReviewAsk::List,
            Some((name, verb)) => {
                let number = number_of(name).ok_or_else(unknown)?;
                if verb == "release" { ReviewAsk::LetOut(number) } else { ReviewAsk::Reject(number) }
            }
        };
        let refused = |code, wait_ms| Refused::from(refusal(code, wait_ms, &[]));
        let waiting = self.shared.ask_review(room, ask).map_err(|no| refused(no.code, no.retry_after_ms))?;
        let within = Duration::from_millis(self.shared.config.load().answer_within_ms);
        let Ok(Ok(answer)) = tokio::time::timeout(within, waiting).await else {
            return Err(refused(ErrorCode::Unavailable, Some(1_000)));
        };
        match answer {
            ReviewAnswer::List(held) => {
                let items: Vec<Value> = held.iter().map(|(held, left_ms)| told(held, *left_ms)).collect();
                Ok(document(StatusCode::OK, &json!({ "items": items })))
            }
            ReviewAnswer::Out(seq) => Ok(document(StatusCode::OK, &json!({ "seq": seq }))),
            ReviewAnswer::Rejected => Ok(document(StatusCode::OK, &json!({}))),
            ReviewAnswer::Unknown => Err(unknown().into()),
            ReviewAnswer::Not(no) => Err(refused(no.code, no.retry_after_ms)),
        }
    }

    fn may_review(&self, request: &Request<Incoming>, room: &RoomId) -> Result<(), Refused> {
        match self.asking(request)? {
            Asking::Key(key) => {
                allow(&key, Scope::Moderation)?;
                if key.is_for(room) { Ok(()) } else { Err(forbidden("this key is for other rooms")) }
            }
            Asking::User(identity) => {
                let author = self.shared.identities.presence(&identity, room).author;
                if keeps_order(author.role) {
                    return Ok(());
                }
                Err(forbidden(
                    "this is for moderators of the room, its streamer, staff and keys of back ends",
                ))
            }
        }
    }
}

/// A held comment as the list has it: what `pending` says, and how long it is still held.
fn told(held: &HeldComment, left_ms: u64) -> Value {
    let user = &held.comment.user;
    json!({
        "id": name_of(held.number),
        "user": { "id": user.id.as_str(), "name": user.name, "role": user.role.as_str(), "level": user.level },
        "text": held.comment.text,
        "reason": held.reason.as_str(),
        "at": held.at_ms,
        "endsInMs": left_ms,
    })
}
