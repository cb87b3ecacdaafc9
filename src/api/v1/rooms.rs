//! Which rooms there are, how they stand, and how the process does.

use std::collections::BTreeMap;

use axum::extract::State;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::answer::Problem;
use super::asked::{InRoom, OfUser, Page};
use super::{Answered, Api};
use crate::identity::api_key::Scope;
use crate::ingress::authority::{Asking, forbidden};
use crate::ingress::document::json as json_document;
use crate::ingress::http::sanction_json;
use crate::ingress::problem::{problem, refusal};
use crate::wiring::Departure;
use crate::worker::orders::{Deed, Told};

/// Lists the rooms in use
///
/// In the order of their names, a page at a time: those that somebody is in or that were used of late. By a key with the
/// scope `rooms`, which sees its own rooms alone, or staff.
#[utoipa::path(
    get,
    path = "/rooms",
    params(
        ("after" = Option<String>, Query, description = "`next` of the page before"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "100 unless given"),
    ),
    responses(
        (status = 200, description = "`{\"items\":[{\"room\":\"r1\",\"online\":5}],\"next\":\"r1\"}`; without `next` it is the last page"),
        (status = 400, description = "another query"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn list(State(api): State<Api>, asking: Asking, page: Page) -> Answered {
    let key = asking.back_end(Scope::Rooms)?;
    let after = page.after.as_deref().map(RoomId::parse).transpose();
    let after = after.map_err(|error| problem(400, "room_invalid", &error.to_string()))?;
    let directory = &api.shared.directory;
    let rooms = match key.filter(|key| !key.rooms.is_empty()) {
        None => directory.page(after.as_ref(), page.limit),
        Some(key) => {
            let mut own: Vec<RoomId> = key.rooms.iter().filter_map(|room| RoomId::parse(room).ok()).collect();
            own.sort_unstable();
            own.dedup();
            let later = own.into_iter().filter(|room| after.as_ref().is_none_or(|after| room > after));
            let used = later.filter(|room| directory.contains(room)).take(page.limit);
            used.map(|room| (room.clone(), directory.members(&room))).collect()
        }
    };
    let items: Vec<Value> =
        rooms.iter().map(|(room, online)| json!({ "room": room.as_str(), "online": online })).collect();
    let mut body = json!({ "items": items });
    if let Some((last, _)) = rooms.last().filter(|_| rooms.len() == page.limit) {
        body["next"] = last.as_str().into();
    }
    Ok(json_document(StatusCode::OK, body.to_string()))
}

/// Tells how a room stands
///
/// By a key with the scope `rooms`, or staff.
#[utoipa::path(
    get,
    path = "/rooms/{room}",
    params(("room" = String, Path, description = "the room")),
    responses(
        (status = 200, description = "`{\"room\":\"r1\",\"online\":5,\"epoch\":\"…\",\"seq\":57,…}`"),
        (status = 400, description = "no room"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else"),
        (status = 404, description = "the room is not in use"),
        (status = 503, description = "not at the moment"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn describe(State(api): State<Api>, asking: Asking, InRoom(room): InRoom) -> Answered {
    asking.back_end_in(Scope::Rooms, &room)?;
    api.in_use(&room)?;
    let online = api.shared.directory.members(&room);
    match api.order(room.clone(), Deed::Describe).await? {
        Told::Described(described) => {
            let (held, delayed) = described.held;
            let body = json!({
                "room": room.as_str(),
                "online": online,
                "epoch": described.epoch.as_str(),
                "seq": described.seq,
                "unstored": described.unstored,
                "sanctions": described.sanctions,
                "held": held,
                "delayed": delayed,
                "asked": described.asked,
            });
            Ok(json_document(StatusCode::OK, body.to_string()))
        }
        Told::Refused(refused) => Err(refused.into()),
        _ => Err(refusal(ErrorCode::Internal, None, &[]).into()),
    }
}

/// Tells what a room's limiters know of a user
///
/// Looking changes nothing. By a key with the scope `rooms`, or staff.
#[utoipa::path(
    get,
    path = "/rooms/{room}/users/{user}/limits",
    params(("room" = String, Path, description = "the room"), ("user" = String, Path, description = "the user")),
    responses(
        (status = 200, description = "`{\"user\":\"u1\",\"rate\":{\"tokens\":3.5,\"burst\":10,\"perS\":2.0},\"saidMsAgo\":420,\"sanctions\":[]}`"),
        (status = 400, description = "no room, or no user's id"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else"),
        (status = 404, description = "the room is not in use"),
        (status = 503, description = "not at the moment"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn inspect(
    State(api): State<Api>,
    asking: Asking,
    InRoom(room): InRoom,
    OfUser(user): OfUser,
) -> Answered {
    asking.back_end_in(Scope::Rooms, &room)?;
    api.in_use(&room)?;
    match api.order(room, Deed::Inspect(user.clone())).await? {
        Told::Inspected(seen) => {
            let sanctions: Vec<Value> = seen.sanctions.iter().map(sanction_json).collect();
            let mut body = json!({ "user": user.as_str(), "guest": seen.guest, "sanctions": sanctions });
            if let Some(tokens) = seen.tokens {
                body["rate"] = json!({ "tokens": tokens, "burst": seen.burst, "perS": seen.per_s });
            }
            if let Some(us) = seen.said_ago_us {
                body["saidMsAgo"] = (us / 1_000).into();
            }
            Ok(json_document(StatusCode::OK, body.to_string()))
        }
        Told::Refused(refused) => Err(refused.into()),
        _ => Err(refusal(ErrorCode::Internal, None, &[]).into()),
    }
}

/// Tells how the process does
///
/// All the numbers that `/metrics` has without labels, summed over the workers. By a key with the scope `rooms` for all
/// rooms, or staff.
#[utoipa::path(
    get,
    path = "/stats",
    responses(
        (status = 200, description = "`{\"version\":\"…\",\"uptimeS\":60,\"workers\":4,\"rooms\":2,\"numbers\":{\"connections\":7,…}}`"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else, or for some rooms"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn stats(State(api): State<Api>, asking: Asking) -> Answered {
    let key = asking.back_end(Scope::Rooms)?;
    if key.is_some_and(|key| !key.rooms.is_empty()) {
        return Err(forbidden("this key is for some rooms, and this concerns all").into());
    }
    let shared = &api.shared;
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::new();
    for cells in &shared.cells {
        cells.each(|name, _, _, value| {
            let number = numbers.entry(name).or_default();
            *number = if name.ends_with("_max") { (*number).max(value) } else { *number + value };
        });
    }
    let body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeS": shared.started.elapsed().as_secs(),
        "workers": shared.post.len(),
        "rooms": shared.directory.len(),
        "leaving": shared.departure() != Departure::None || shared.replaced.is_set(),
        "numbers": numbers,
    });
    Ok(json_document(StatusCode::OK, body.to_string()))
}

impl Api {
    /// A question opens no room.
    fn in_use(&self, room: &RoomId) -> Result<(), Problem> {
        self.serves()?;
        match self.shared.directory.contains(room) {
            true => Ok(()),
            false => Err(problem(404, ErrorCode::RoomNotFound.as_str(), "the room is not in use").into()),
        }
    }
}
