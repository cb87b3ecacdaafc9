//! What the address of a stream may say.

use danmaku_wire::entry::Tier;
use danmaku_wire::id::RoomId;
use danmaku_wire::position::Position;

use super::Refused;
use crate::ingress::problem::problem;

/// What a stream's URL may say.
pub struct Query {
    /// The room asked for.
    pub room: Option<RoomId>,
    /// Where the client left off; `None` too where that cannot be read.
    pub since: Option<Position>,
    /// How much of the room.
    pub tier: Tier,
    /// Whether a snapshot is wanted where nothing can be resumed.
    pub snapshot: bool,
    /// The ticket, as it was given.
    pub ticket: Option<String>,
    /// The token, as it was given.
    pub token: Option<String>,
}

impl Query {
    /// Reads a query (the URL Standard's `application/x-www-form-urlencoded`). Of what stands twice the last counts;
    /// names that are not known are passed over.
    ///
    /// # Errors
    /// With the answer to the request, when a room, a tier or a kind of snapshot is none.
    pub fn parse(query: &str) -> Result<Self, Refused> {
        let mut parsed = Self {
            room: None,
            since: None,
            tier: Tier::default(),
            snapshot: true,
            ticket: None,
            token: None,
        };
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
                "ticket" => parsed.ticket = Some(value.into_owned()),
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
