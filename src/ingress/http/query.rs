//! What the address of a stream may say.

use danmaku_wire::entry::Tier;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::Position;

use super::Refused;
use crate::ingress::problem::problem;

/// What a stream's URL may say.
pub(super) struct Query {
    pub(super) room: Option<RoomId>,
    pub(super) since: Option<Position>,
    pub(super) tier: Tier,
    pub(super) snapshot: bool,
    pub(super) token: Option<String>,
}

impl Query {
    pub(super) fn parse(query: &str) -> Result<Self, Refused> {
        let mut parsed = Self { room: None, since: None, tier: Tier::default(), snapshot: true, token: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "room" => {
                    let room =
                        RoomId::parse(&value).map_err(|e| problem(400, "room_invalid", &e.to_string()))?;
                    parsed.room = Some(room);
                }
                // A position that cannot be read is one that is not known here: the client gets a
                // snapshot and `recovered: false`, as after a wiped store.
                "since" => parsed.since = Position::parse(&value),
                "tier" => {
                    parsed.tier = Tier::parse(&value)
                        .ok_or_else(|| problem(400, "bad_request", "tier is one of lite, standard, full"))?;
                }
                "token" => parsed.token = Some(value.into_owned()),
                "snapshot" => {
                    parsed.snapshot = match &*value {
                        "none" => false,
                        "json" => true,
                        "br" => {
                            return Err(problem(
                                400,
                                "not_supported",
                                "snapshot=br is not served yet: use json or none",
                            )
                            .into());
                        }
                        _ => return Err(problem(400, "bad_request", "snapshot is one of none, json").into()),
                    };
                }
                _ => {}
            }
        }
        Ok(parsed)
    }
}
