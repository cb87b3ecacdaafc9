//! Events of the platform: gifts, superchats, polls, notices, kinds of its own.

use std::sync::Arc;

use axum::extract::{Request, State};
use danmaku_room::owner::pushed::Priority;
use danmaku_wire::entry::{Author, EVENT_DATA_BYTES_MAX, Event};
use danmaku_wire::id::{CLIENT_ID_BYTES_MAX, RoomId};
use danmaku_wire::native::ErrorCode;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::asked::InRoom;
use super::{Answered, Api};
use crate::identity::api_key::Scope;
use crate::identity::claims::{RoomClaims, TokenRole};
use crate::ingress::authority::{Asking, bad};
use crate::ingress::document::json as json_document;
use crate::ingress::http::vouched_user;
use crate::ingress::problem::{Refused, refusal};
use crate::worker::message::Outcome;
use crate::worker::orders::{Deed, Push, Told};

/// How deep an event's data may be nested.
const DEPTH_MAX: usize = 8;

/// An event.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EventBody {
    /// `gift`, `superchat`, `poll`, `system` or a kind of the platform's own: `[a-z0-9_.-]`.
    #[serde(rename = "type")]
    #[schema(max_length = 32, pattern = "^[a-z0-9_.-]{1,32}$", example = "gift")]
    kind: String,
    /// The platform's id of it, under which it happens once; the header `Idempotency-Key` does the same.
    #[serde(default)]
    #[schema(max_length = 64)]
    id: String,
    /// Who caused it.
    user: Option<EventUser>,
    /// What only the platform and its clients understand: JSON, at most 2 KiB and 8 deep.
    #[schema(value_type = Option<Object>)]
    data: Option<Box<RawValue>>,
    /// How it fares where not everything can be shown.
    #[serde(default)]
    priority: PriorityBody,
}

/// Who caused an event, as others are to see it in the room.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EventUser {
    /// The user's id.
    #[schema(min_length = 1, max_length = 64, example = "u1")]
    id: String,
    /// The name shown.
    #[serde(default)]
    #[schema(max_length = 32)]
    name: String,
    /// What the user is in the room.
    #[schema(value_type = Option<String>, example = "vip")]
    role: Option<TokenRole>,
    /// The level there.
    level: Option<u32>,
    /// Badges there, by their ids.
    badges: Option<Vec<String>>,
}

#[derive(Deserialize, ToSchema, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum PriorityBody {
    /// What was paid for.
    High,
    #[default]
    Normal,
    /// Likes and entries: not for the `lite` tier, and refused while the room's breaker is open.
    Low,
}

impl From<PriorityBody> for Priority {
    fn from(body: PriorityBody) -> Self {
        match body {
            PriorityBody::High => Self::High,
            PriorityBody::Normal => Self::Normal,
            PriorityBody::Low => Self::Low,
        }
    }
}

/// Shows an event in a room
///
/// It gets a number like a comment, and is kept, resumed and in snapshots like one. By a key with the scope `events`, or
/// staff.
#[utoipa::path(
    post,
    path = "/rooms/{room}/events",
    params(
        ("room" = String, Path, description = "the room"),
        ("Idempotency-Key" = Option<String>, Header, description = "under which it happens once, within a minute"),
    ),
    request_body = EventBody,
    responses(
        (status = 200, description = "it has its number, and is kept as the room's durability says: `{\"seq\":57}`"),
        (status = 400, description = "no event, no room, or too much data"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else"),
        (status = 408, description = "the body was too slow"),
        (status = 409, description = "the id was used for another event"),
        (status = 413, description = "the body is too long"),
        (status = 415, description = "the body is not JSON"),
        (status = 429, description = "there are as many rooms as may be"),
        (status = 503, description = "not at the moment"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn push(
    State(api): State<Api>,
    asking: Asking,
    InRoom(room): InRoom,
    request: Request,
) -> Answered {
    asking.back_end_in(Scope::Events, &room)?;
    let key = idempotency_key(request.headers())?;
    let body: EventBody = api.json(request).await?;
    let push = api.event(body, key, Some(&room))?;
    match api.order(room, Deed::Push(Box::new(push))).await? {
        Told::Fate(Outcome::Accepted { seq, epoch }) => {
            let body = match epoch {
                Some(epoch) => json!({ "seq": seq, "epoch": epoch.as_str() }),
                None => json!({ "seq": seq }),
            };
            Ok(json_document(StatusCode::OK, body.to_string()))
        }
        Told::Fate(Outcome::Refused(refused)) | Told::Refused(refused) => Err(refused.into()),
        Told::Fate(Outcome::NotStored { seq }) => {
            Err(refusal(ErrorCode::NotStored, None, &[("seq", seq.into()), ("shown", true.into())]).into())
        }
        _ => Err(refusal(ErrorCode::Internal, None, &[]).into()),
    }
}

impl Api {
    /// What a body says is to be shown, in a room or in all of them.
    pub(super) fn event(
        &self,
        body: EventBody,
        key: Option<String>,
        room: Option<&RoomId>,
    ) -> Result<Push, Refused> {
        let EventBody { kind, id, user, data, priority } = body;
        let id = match key {
            Some(key) if !id.is_empty() && key != id => {
                return Err(bad("`id` and `Idempotency-Key` say different things: leave one out"));
            }
            Some(key) => key,
            None => id,
        };
        let data = match data {
            Some(data) => compact(data.get())?,
            None => String::new(),
        };
        let user = user.map(|user| self.author(user, room)).transpose()?;
        let event = Event { kind: kind.into(), user, data: data.into() };
        if !event.is_of_a_kind() {
            return Err(bad("`type` is 1 to 32 of a-z 0-9 _ . -, and not what another entry is called"));
        }
        Ok(Push { id: id.into(), event, priority: priority.into() })
    }

    fn author(&self, user: EventUser, room: Option<&RoomId>) -> Result<Arc<Author>, Refused> {
        // What the user is is said for one room. In all of them it is the same, whatever that one is called.
        let any = || RoomId::parse("all").map_err(|error| bad(&error.to_string()));
        let room = &room.cloned().map_or_else(any, Ok)?;
        let known = self.shared.config.load().token_rules.badges.clone();
        let EventUser { id, name, role, level, badges } = user;
        let in_room = RoomClaims { role, level, badges, ..RoomClaims::default() };
        let identity = vouched_user(id, name, in_room, room, &known).map_err(|e| bad(&e.to_string()))?;
        Ok(identity.presence(room).author)
    }
}

/// The id of a push in the header, in quotes (RFC 8941, section 3.3.3) or without.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let mut all = headers.get_all("idempotency-key").iter();
    let Some(value) = all.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| all.next().is_none());
    let key = text.map(|text| text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text));
    match key {
        Some(key) if (1..=CLIENT_ID_BYTES_MAX).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(bad("`Idempotency-Key` is one, of 1 to 64 visible characters")),
    }
}

/// JSON without the white space around its parts: a line break in it would end a line of an event stream.
fn compact(json: &str) -> Result<String, Refused> {
    let too_long = || refusal(ErrorCode::DataTooLong, None, &[]).into();
    let mut out = String::with_capacity(json.len().min(EVENT_DATA_BYTES_MAX));
    let (mut quoted, mut escaped, mut depth) = (false, false, 0);
    for c in json.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            ' ' | '\t' | '\n' | '\r' => continue,
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(bad("`data` is nested more than 8 deep"));
        }
        out.push(c);
        if out.len() > EVENT_DATA_BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `compact`: nothing but the white space between parts goes, and what is too much is refused.
    #[test]
    fn data_is_made_dense_and_stays_what_it_is() {
        for (json, dense) in [
            ("1", Some("1")),
            (
                "{ \"a b\" : [ 1 ,\n\t2 ] ,\r\"c\" : \"x \\\" y\\\\\" , \"d\" : { } }",
                Some(r#"{"a b":[1,2],"c":"x \" y\\","d":{}}"#),
            ),
            ("18446744073709551617.50", Some("18446744073709551617.50")),
            ("[[[[[[[[1]]]]]]]]", Some("[[[[[[[[1]]]]]]]]")),
            ("[[[[[[[[[1]]]]]]]]]", None),
            ("\"[[[[[[[[[{\"", Some("\"[[[[[[[[[{\"")),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(json).expect("JSON");
            assert_eq!(compact(raw.get()).ok().as_deref(), dense, "{json}");
        }
        let full = format!("\"{}\"", "é".repeat(EVENT_DATA_BYTES_MAX / 2 - 1));
        assert_eq!(compact(&full).expect("as much as may be"), full);
        let over = format!("\"{}\"", "é".repeat(EVENT_DATA_BYTES_MAX / 2));
        assert_eq!(compact(&over).expect_err("too much").status(), 400);
    }

    /// `idempotency_key`: quoted or not, one, and of a sensible length.
    #[test]
    fn a_key_may_be_quoted() {
        let with = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("idempotency-key", value.parse().expect("a value"));
            }
            idempotency_key(&headers).map_err(|refused| refused.status().as_u16())
        };
        assert_eq!(with(&[]), Ok(None));
        assert_eq!(with(&["g-1"]), Ok(Some("g-1".into())));
        assert_eq!(with(&["\"g-1\""]), Ok(Some("g-1".into())));
        for wrong in [&["a", "a"][..], &[""], &["\"\""], &["é"], &[&"x".repeat(65)]] {
            assert_eq!(with(wrong), Err(400), "{wrong:?}");
        }
    }
}
