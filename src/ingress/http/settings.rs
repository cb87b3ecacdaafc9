//! How a room is set and where it is in its life, over HTTP: `GET` and `PATCH /api/v1/rooms/ROOM/settings`, `GET` and `PUT
//! …/state`. By whoever may moderate the room.

use danmaku_room::house::settings::Patch;
use danmaku_room::house::stage::{MediaId, StageName};
use danmaku_wire::entry::Role;
use danmaku_wire::id::RoomId;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ETAG, HeaderValue, IF_MATCH};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::{Deserialize, Deserializer};

use super::moderation::{Staff, answer, changed_since, document, not_that_way, reason};
use super::patience::Patience;
use super::{Front, Refused};
use crate::identity::claims::TokenRole;
use crate::ingress::authority::bad;
use crate::worker::orders::{Deed, Told};
use crate::worker::settings::RoomSettings;

/// Levels go no higher.
const LEVEL_MAX: u32 = 1_000_000;
/// The longest slow mode: a day.
const SLOW_MODE_MS_MAX: u32 = 24 * 60 * 60 * 1_000;
/// The shortest that is not none.
const SLOW_MODE_MS_MIN: u32 = 100;
/// The longest time that somebody must have followed: a year.
const FOLLOWED_FOR_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1_000;
/// The longest delay.
const DELAY_MS_MAX: u32 = 6_000;
/// The longest text that can be asked for; those of everybody are bounded by the configuration beside.
const TEXT_CHARS_MAX: u32 = 10_000;
/// Tags in one `If-Match`.
const TAGS_MAX: usize = 16;

/// A change, as RFC 7396 has it: what is absent stays, null gives a setting back to the configuration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
struct Body {
    #[serde(deserialize_with = "said")]
    read_only: Option<Option<bool>>,
    #[serde(deserialize_with = "said")]
    muted: Option<Option<bool>>,
    #[serde(deserialize_with = "said")]
    slow_mode_ms: Option<Option<u32>>,
    #[serde(deserialize_with = "said")]
    min_level: Option<Option<u32>>,
    #[serde(deserialize_with = "said")]
    members_only: Option<Option<bool>>,
    #[serde(deserialize_with = "said")]
    followers_only: Option<Option<bool>>,
    #[serde(deserialize_with = "said")]
    followed_for_ms: Option<Option<u64>>,
    #[serde(deserialize_with = "said")]
    vip_only: Option<Option<bool>>,
    #[serde(deserialize_with = "said")]
    motion_role: Option<Option<TokenRole>>,
    #[serde(deserialize_with = "said")]
    color_role: Option<Option<TokenRole>>,
    #[serde(deserialize_with = "said")]
    size_role: Option<Option<TokenRole>>,
    #[serde(deserialize_with = "said")]
    text_chars_max: Option<Option<u32>>,
    #[serde(deserialize_with = "said")]
    length_role: Option<Option<TokenRole>>,
    #[serde(deserialize_with = "said")]
    delay_ms: Option<Option<u32>>,
}

/// A field that is there, null or not.
fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl Body {
    fn patch(self) -> Result<Patch, Refused> {
        let over = |value: Option<Option<u32>>, max| value.flatten().is_some_and(|value| value > max);
        let slow = self.slow_mode_ms.flatten().unwrap_or(0);
        if slow > SLOW_MODE_MS_MAX || (1..SLOW_MODE_MS_MIN).contains(&slow) {
            return Err(bad("`slowModeMs` is 100 to 86,400,000, a day, or 0 for none"));
        }
        if over(self.min_level, LEVEL_MAX) {
            return Err(bad("`minLevel` is at most 1,000,000, or 0 for none"));
        }
        if self.followed_for_ms.flatten().is_some_and(|ms| ms > FOLLOWED_FOR_MS_MAX) {
            return Err(bad("`followedForMs` is at most a year, 31,622,400,000"));
        }
        if over(self.delay_ms, DELAY_MS_MAX) {
            return Err(bad("`delayMs` is at most 6,000, or 0 for none"));
        }
        if over(self.text_chars_max, TEXT_CHARS_MAX) {
            return Err(bad("`textCharsMax` is at most 10,000, or 0 for none"));
        }
        let role = |role: Option<Option<TokenRole>>| role.map(|role| role.map(Role::from));
        Ok(Patch {
            read_only: self.read_only,
            muted: self.muted,
            slow_mode_ms: self.slow_mode_ms,
            min_level: self.min_level,
            members_only: self.members_only,
            followers_only: self.followers_only,
            followed_for_ms: self.followed_for_ms,
            vip_only: self.vip_only,
            motion_role: role(self.motion_role),
            color_role: role(self.color_role),
            size_role: role(self.size_role),
            text_chars_max: self.text_chars_max,
            length_role: role(self.length_role),
            delay_ms: self.delay_ms,
        })
    }
}

impl Front {
    /// `/api/v1/rooms/ROOM/settings`, asked by somebody who may.
    pub(super) async fn settings(
        &self,
        request: Request<Incoming>,
        room: &RoomId,
        staff: &Staff,
        patience: &Patience,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        match *request.method() {
            Method::GET => shown(self.order(room, Deed::Settings).await?),
            Method::PATCH => {
                let if_match = tags(request.headers())?;
                let raw: serde_json::Value = self.json(request, patience).await?;
                if !raw.is_object() {
                    return Err(bad("the body is an object with the settings that change"));
                }
                let what = raw.to_string();
                let body: Body =
                    serde_json::from_value(raw).map_err(|error| bad(&format!("the body: {error}")))?;
                let deed = Deed::Set { patch: Box::new(body.patch()?), if_match };
                let told = self.order(room, deed).await.and_then(shown);
                self.note(staff, "settings", room, what, "".into(), &told);
                told
            }
            _ => Err(not_that_way("GET, PATCH, OPTIONS")),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StageBody {
    stage: String,
    media_id: Option<String>,
    #[serde(default)]
    reason: String,
}

impl Front {
    /// `/api/v1/rooms/ROOM/state`, asked by somebody who may.
    pub(super) async fn stage(
        &self,
        request: Request<Incoming>,
        room: &RoomId,
        staff: &Staff,
        patience: &Patience,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        match *request.method() {
            Method::GET => answer(StatusCode::OK, &self.order(room, Deed::Stage).await?),
            Method::PUT => {
                let body: StageBody = self.json(request, patience).await?;
                let why = reason(body.reason)?;
                let name = StageName::parse(&body.stage)
                    .ok_or_else(|| bad("`stage` is `open`, `live`, `ended` or `closed`"))?;
                let media = match (name, body.media_id.as_deref()) {
                    (StageName::Live, Some(media)) => Some(
                        MediaId::parse(media)
                            .ok_or_else(|| bad("a `mediaId` is 1 to 128 of A-Z a-z 0-9 . _ : -"))?,
                    ),
                    (StageName::Live, None) => {
                        return Err(bad("`live` needs a `mediaId`: which stream it is"));
                    }
                    (_, Some(_)) => return Err(bad("a `mediaId` goes with `live` alone")),
                    (_, None) => None,
                };
                let told = self.order(room, Deed::SetStage(name, media)).await;
                self.note(staff, "state", room, body.stage, why, &told);
                answer(StatusCode::OK, &told?)
            }
            _ => Err(not_that_way("GET, PUT, OPTIONS")),
        }
    }
}

fn shown(told: Told) -> Result<Response<Full<Bytes>>, Refused> {
    match told {
        Told::Settings(settings) => Ok(with_tag(&settings)),
        _ => Err(changed_since()),
    }
}

fn with_tag(settings: &RoomSettings) -> Response<Full<Bytes>> {
    let mut response = document(StatusCode::OK, &settings.document());
    let tag = HeaderValue::try_from(settings.tag()).expect("quotes and digits");
    response.headers_mut().insert(ETAG, tag);
    response
}

/// The tags of `If-Match`; `None` where it is absent or `*`, since a room is always set somehow.
fn tags(headers: &HeaderMap) -> Result<Option<Vec<String>>, Refused> {
    let mut tags = Vec::new();
    for value in headers.get_all(IF_MATCH) {
        let value = value.to_str().map_err(|_| bad("`If-Match` is a list of entity tags, or `*`"))?;
        if value.trim() == "*" {
            return Ok(None);
        }
        tags.extend(value.split(',').map(|tag| tag.trim().to_owned()));
        if tags.len() > TAGS_MAX {
            return Err(bad("`If-Match` has at most 16 entity tags"));
        }
    }
    Ok((!tags.is_empty()).then_some(tags))
}
