//! Reported comments over HTTP: `GET /api/v1/rooms/ROOM/reports` lists them, `DELETE …?seq=N` leaves one as it is. What is to
//! go is taken back with `retract`. By whoever may moderate the room.

use danmaku_room::owner::reports::Reported;
use danmaku_wire::id::RoomId;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::moderation::{Staff, answer, not_that_way, pairs};
use super::{Front, Refused};
use crate::ingress::authority::bad;
use crate::worker::orders::Deed;

impl Front {
    /// `/api/v1/rooms/ROOM/reports`, asked by somebody who may.
    pub(super) async fn reports(
        &self,
        request: &Request<Incoming>,
        room: &RoomId,
        staff: &Staff,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        match *request.method() {
            Method::GET => answer(StatusCode::OK, &self.order(room, Deed::Reports).await?),
            Method::DELETE => {
                let query = pairs(request.uri().query().unwrap_or_default())?;
                let seq = match query.as_slice() {
                    [(name, value)] if name == "seq" => value.parse().ok(),
                    _ => None,
                };
                let seq: u64 = seq.ok_or_else(|| bad("the query names the comment: `?seq=42`"))?;
                let told = self.order(room, Deed::Dismiss(seq)).await;
                self.note(staff, "dismiss_report", room, seq.to_string(), "".into(), &told);
                answer(StatusCode::OK, &told?)
            }
            _ => Err(not_that_way("GET, DELETE, OPTIONS")),
        }
    }
}

/// A reported comment as the list has it.
pub(super) fn reported(one: &Reported) -> Value {
    let user = &one.comment.user;
    json!({
        "seq": one.seq,
        "user": { "id": user.id.as_str(), "name": user.name, "role": user.role.as_str(), "level": user.level },
        "text": one.comment.text,
        "count": one.count,
        "reasons": one.reasons,
        "at": one.at_ms,
    })
}
