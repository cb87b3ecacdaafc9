//! What staff orders over HTTP: bans, mutes and shadow bans; comments taken back; pins; a cleared screen. By a key with the
//! scope `moderation`, a token of staff, or one of the room's moderators or its streamer.

use std::net::IpAddr;
use std::time::Duration;

use danmaku_room::admission::policy::keeps_order;
use danmaku_room::house::sanction::{Measure, REASON_BYTES_MAX, Sanction, Target};
use danmaku_room::house::stage::Stage;
use danmaku_wire::entry::Role;
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::ErrorCode;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::back_end::decoded;
use super::patience::Patience;
use super::reports::reported;
use super::{Front, Refused};
use crate::identity::api_key::Scope;
use crate::identity::guest;
use crate::ingress::authority::{Asking, allow, bad, forbidden, now_s};
use crate::ingress::caller::canonical;
use crate::ingress::document;
use crate::ingress::problem::{problem, refusal};
use crate::observe::audit::Record;
use crate::worker::orders::{Deed, Order, Told};

/// The longest time that a sanction may have: a year. What is to last longer has no end.
const TTL_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1_000;
/// Comments that one request may take back.
const SEQS_MAX: usize = 1_000;
/// Records of the audit in one answer, unless fewer are asked for.
const RECORDS_MAX: usize = 1_000;

/// What can be ordered in a room, by the last part of its path.
pub(super) const PATHS: [&str; 9] =
    ["bans", "mutes", "shadow-bans", "retract", "pin", "clear", "settings", "state", "reports"];

/// Whose word an order is.
pub(super) struct Staff {
    by: Box<str>,
    rank: Role,
}

/// Against whom, as a body or a query says it: one of the three.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SanctionBody {
    user: Option<String>,
    address: Option<String>,
    #[serde(default)]
    everyone: bool,
    ttl_ms: Option<u64>,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RetractBody {
    #[serde(default)]
    seqs: Vec<u64>,
    user: Option<String>,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PinBody {
    seq: u64,
}

impl Front {
    /// `/api/v1/rooms/ROOM/ACTION`, where the action is one of [`PATHS`].
    pub(super) async fn moderate(
        &self,
        request: Request<Incoming>,
        room: &str,
        action: &str,
        patience: &Patience,
    ) -> Response<Full<Bytes>> {
        self.try_moderate(request, room, action, patience).await.unwrap_or_else(|refusal| *refusal)
    }

    async fn try_moderate(
        &self,
        request: Request<Incoming>,
        room: &str,
        action: &str,
        patience: &Patience,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        let room = RoomId::parse(room).map_err(|e| problem(400, "room_invalid", &e.to_string()))?;
        let staff = self.staff(&request, &room)?;
        let measure = match action {
            "bans" => Some(Measure::Ban),
            "mutes" => Some(Measure::Mute),
            "shadow-bans" => Some(Measure::Shadow),
            _ => None,
        };
        let method = request.method().clone();
        match (measure, action, &method) {
            (Some(measure), _, &Method::GET) => {
                let told = self.order(&room, Deed::Sanctions(measure)).await?;
                answer(StatusCode::OK, &told)
            }
            (Some(measure), _, &Method::POST) => {
                let body: SanctionBody = self.json(request, patience).await?;
                let target = self.target(&body)?;
                let (reason, ttl_ms) = (reason(body.reason)?, body.ttl_ms);
                if ttl_ms.is_some_and(|ttl| ttl == 0 || ttl > TTL_MS_MAX) {
                    return Err(bad("`ttlMs` is 1 to a year in milliseconds; leave it out for no end"));
                }
                let (shown, why) = (shown(&target), reason.clone());
                let (by, rank) = (staff.by.clone(), staff.rank);
                let deed = Deed::Sanction { measure, target, ttl_ms, rank, by, reason };
                let told = self.order(&room, deed).await;
                self.note(&staff, measure.as_str(), &room, shown, why, &told);
                answer(StatusCode::CREATED, &told?)
            }
            (Some(measure), _, &Method::DELETE) => {
                let target = self.target(&asked_for(request.uri().query().unwrap_or_default())?)?;
                let shown = shown(&target);
                let told = self.order(&room, Deed::Lift(measure, target)).await;
                let action = match measure {
                    Measure::Ban => "unban",
                    Measure::Mute => "unmute",
                    Measure::Shadow => "lift_shadow_ban",
                };
                self.note(&staff, action, &room, shown, "".into(), &told);
                answer(StatusCode::OK, &told?)
            }
            (Some(_), ..) => Err(not_that_way("GET, POST, DELETE, OPTIONS")),
            (None, "retract", &Method::POST) => {
                let body: RetractBody = self.json(request, patience).await?;
                let why = reason(body.reason)?;
                let (deed, shown) = match (body.seqs, body.user) {
                    (seqs, None) if (1..=SEQS_MAX).contains(&seqs.len()) => {
                        let shown = seqs.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
                        (Deed::Retract(seqs), shown)
                    }
                    (seqs, Some(user)) if seqs.is_empty() => (Deed::RetractUser(user_id(&user)?), user),
                    _ => return Err(bad("name `seqs`, 1 to 1,000 of them, or a `user`")),
                };
                let told = self.order(&room, deed).await;
                self.note(&staff, "retract", &room, shown, why, &told);
                answer(StatusCode::OK, &told?)
            }
            (None, "pin", &Method::POST) => {
                let body: PinBody = self.json(request, patience).await?;
                if body.seq == 0 {
                    return Err(bad("`seq` is the number of a comment; DELETE unpins"));
                }
                let told = self.order(&room, Deed::Pin(body.seq)).await;
                self.note(&staff, "pin", &room, body.seq.to_string(), "".into(), &told);
                answer(StatusCode::OK, &told?)
            }
            (None, "pin", &Method::DELETE) => {
                let told = self.order(&room, Deed::Pin(0)).await;
                self.note(&staff, "unpin", &room, String::new(), "".into(), &told);
                answer(StatusCode::OK, &told?)
            }
            (None, "pin", _) => Err(not_that_way("POST, DELETE, OPTIONS")),
            (None, "reports", _) => self.reports(&request, &room, &staff).await,
            (None, "state", _) => self.stage(request, &room, &staff, patience).await,
            (None, "settings", _) => self.settings(request, &room, &staff, patience).await,
            (None, "clear", &Method::POST) => {
                let told = self.order(&room, Deed::Clear).await;
                self.note(&staff, "clear", &room, String::new(), "".into(), &told);
                answer(StatusCode::OK, &told?)
            }
            _ => Err(not_that_way("POST, OPTIONS")),
        }
    }

    /// `GET /api/v1/audit?after=N&limit=N`.
    pub(super) fn audit(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        self.try_audit(request).unwrap_or_else(|refusal| *refusal)
    }

    fn try_audit(&self, request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Refused> {
        if request.method() != Method::GET {
            return Err(not_that_way("GET, OPTIONS"));
        }
        self.asking(request)?.back_end(Scope::Audit)?;
        let (mut after, mut limit) = (0, RECORDS_MAX);
        for (name, value) in pairs(request.uri().query().unwrap_or_default())? {
            let number: Result<u64, _> = value.parse();
            match (name.as_str(), number) {
                ("after", Ok(number)) => after = number,
                ("limit", Ok(number @ 1..=1_000)) => limit = number as usize,
                _ => return Err(bad("the query may have `after` and `limit`, which is 1 to 1,000")),
            }
        }
        let records = self.shared.audit.after(after, limit);
        let next = records.last().map_or(after, |record| record.n);
        Ok(document(StatusCode::OK, &json!({ "items": records, "next": next })))
    }

    /// Who gives an order for a room.
    fn staff(&self, request: &Request<Incoming>, room: &RoomId) -> Result<Staff, Refused> {
        let identity = match self.asking(request)? {
            Asking::Key(key) => {
                allow(&key, Scope::Moderation)?;
                if !key.is_for(room) {
                    return Err(forbidden("this key is for other rooms"));
                }
                return Ok(Staff { by: format!("key {}", key.id).into(), rank: Role::Staff });
            }
            Asking::User(identity) => identity,
        };
        let role = self.shared.identities.presence(&identity, room).author.role;
        if !keeps_order(role) {
            return Err(forbidden(
                "this is for keys of back ends, staff, and those who keep order in the room",
            ));
        }
        Ok(Staff { by: format!("user {}", identity.id.as_str()).into(), rank: role })
    }

    fn target(&self, body: &SanctionBody) -> Result<Target, Refused> {
        match (&body.user, &body.address, body.everyone) {
            (Some(user), None, false) => Ok(Target::User(user_id(user)?)),
            (None, Some(address), false) => {
                let ip: IpAddr = address.parse().map_err(|_| bad("`address` is an IP address"))?;
                let secret = *self.shared.config.load().secret();
                let mark = guest::number_of(canonical(ip), &secret);
                Ok(Target::Address { mark, shown: canonical(ip).to_string().into() })
            }
            (None, None, true) => Ok(Target::Everyone),
            _ => Err(bad("say against whom: one of `user`, `address` and `everyone`")),
        }
    }

    /// Has an order carried out.
    pub(super) async fn order(&self, room: &RoomId, deed: Deed) -> Result<Told, Refused> {
        let unavailable = || Refused::from(refusal(ErrorCode::Unavailable, Some(1_000), &[]));
        if self.shared.replaced.is_set() {
            // Done here it would hold for nobody.
            return Err(unavailable());
        }
        let (answer, told) = oneshot::channel();
        self.inbox.order(Order { room: room.clone(), deed, answer });
        let within = Duration::from_millis(self.shared.config.load().answer_within_ms);
        match tokio::time::timeout(within, told).await {
            Ok(Ok(Told::Refused(refused))) => Err(match refused.code {
                ErrorCode::BadRequest => bad("there is no such comment in the room"),
                code => refusal(code, refused.retry_after_ms, &[]).into(),
            }),
            Ok(Ok(Told::Full)) => {
                let detail = "the room has as many sanctions as `moderation.sanctions_max` allows: lift some";
                Err(problem(409, "sanctions_full", detail).into())
            }
            Ok(Ok(told)) => Ok(told),
            Ok(Err(_)) | Err(_) => Err(unavailable()),
        }
    }

    /// Writes down who ordered what, and what came of it.
    pub(super) fn note<T>(
        &self,
        staff: &Staff,
        action: &'static str,
        room: &RoomId,
        target: String,
        reason: Box<str>,
        told: &Result<T, Refused>,
    ) {
        let outcome: Box<str> = match told {
            Ok(_) => "done".into(),
            Err(refused) => refused.status().as_str().into(),
        };
        let record = Record {
            n: 0,
            at: now_s() * 1_000,
            by: staff.by.clone(),
            action,
            room: room.as_str().into(),
            target: cut(target),
            reason,
            outcome,
        };
        self.shared.audit.add(record, self.shared.config.load().audit_max);
    }
}

/// What a record and a line of the log have of a text that somebody chose.
fn cut(text: String) -> Box<str> {
    text.chars().take(128).collect::<String>().into()
}

fn user_id(text: &str) -> Result<UserId, Refused> {
    UserId::parse(text).map_err(|_| bad("a user's id is 1 to 64 bytes, none of them a control character"))
}

pub(super) fn reason(text: String) -> Result<Box<str>, Refused> {
    if text.len() > REASON_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(bad("a `reason` has at most 256 bytes, none of them a control character"));
    }
    Ok(text.into())
}

fn shown(target: &Target) -> String {
    match target {
        Target::User(user) => user.as_str().to_owned(),
        Target::Address { shown, .. } => shown.to_string(),
        Target::Everyone => "everyone".to_owned(),
    }
}

/// The pairs of a query.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, Refused> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(name)?, decoded(value)?))
    });
    pairs.collect::<Option<_>>().ok_or_else(|| bad("the query is not encoded as one"))
}

fn asked_for(query: &str) -> Result<SanctionBody, Refused> {
    let mut body = SanctionBody::default();
    for (name, value) in pairs(query)? {
        match name.as_str() {
            "user" => body.user = Some(value),
            "address" => body.address = Some(value),
            "everyone" if value == "true" => body.everyone = true,
            _ => return Err(bad("the query names one of `user`, `address` and `everyone=true`")),
        }
    }
    Ok(body)
}

pub(super) fn not_that_way(allowed: &'static str) -> Refused {
    let mut refusal = problem(405, "method_not_allowed", &format!("this is asked with {allowed}"));
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    refusal.into()
}

pub(super) fn answer(status: StatusCode, told: &Told) -> Result<Response<Full<Bytes>>, Refused> {
    let body = match told {
        Told::Sanctioned(sanction) => sanction_json(sanction),
        Told::Lifted(lifted) => json!({ "lifted": lifted.is_some() }),
        Told::Sanctions(all) => json!({ "items": all.iter().map(sanction_json).collect::<Vec<_>>() }),
        Told::Done(done, epoch) => match done.seq {
            Some(seq) => json!({ "epoch": epoch.as_str(), "seq": seq, "count": done.count }),
            None => json!({ "epoch": epoch.as_str(), "count": done.count }),
        },
        Told::Settings(settings) => settings.document(),
        Told::Reports(all) => json!({ "items": all.iter().map(reported).collect::<Vec<_>>() }),
        Told::Dismissed(dismissed) => json!({ "dismissed": dismissed }),
        Told::Stage(stage) => shown_stage(stage),
        Told::ChangedSince => return Err(changed_since()),
        Told::Refused(refused) => return Err(refusal(refused.code, refused.retry_after_ms, &[]).into()),
        Told::Full => return Err(problem(409, "sanctions_full", "the room has too many sanctions").into()),
        Told::Fate(_) | Told::Described(_) | Told::Inspected(_) => {
            return Err(refusal(ErrorCode::Internal, None, &[]).into());
        }
    };
    Ok(document(status, &body))
}

/// A stage as the API shows it.
pub(super) fn shown_stage(stage: &Stage) -> Value {
    match stage {
        Stage::Live { media, since_ms } => {
            json!({ "stage": stage.as_str(), "mediaId": media.as_str(), "since": since_ms })
        }
        _ => json!({ "stage": stage.as_str() }),
    }
}

/// A change that was bound to what its author has seen.
pub(super) fn changed_since() -> Refused {
    problem(412, "changed_since", "the room is set otherwise than `If-Match` says: read it again").into()
}

/// A sanction as it is told.
pub fn sanction_json(sanction: &Sanction) -> Value {
    let Sanction { measure, target, since_ms, until_ms, by, reason, rank: _ } = sanction;
    let mut body = json!({ "measure": measure.as_str(), "since": since_ms, "by": by });
    match target {
        Target::User(user) => body["user"] = user.as_str().into(),
        Target::Address { shown, .. } => body["address"] = (&**shown).into(),
        Target::Everyone => body["everyone"] = true.into(),
    }
    if let Some(until) = until_ms {
        body["until"] = (*until).into();
    }
    if !reason.is_empty() {
        body["reason"] = (&**reason).into();
    }
    body
}

pub(super) fn document(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    document::json(status, body.to_string())
}
