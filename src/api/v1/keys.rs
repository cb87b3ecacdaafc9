//! Keys of back ends: made, listed and revoked by whoever shows one that can do at least as much.

use axum::extract::{Request, State};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::answer::Problem;
use super::asked::OfId;
use super::{Answered, Api};
use crate::identity::api_key::{ApiKey, Keys, KeysError, MARK, NewKey, Scope};
use crate::ingress::authority::{Asking, bad, forbidden, now_s};
use crate::ingress::document::json as json_document;
use crate::ingress::problem::problem;

/// The longest life of a key that ends, milliseconds: ten years.
const LIFE_MS_MAX: u64 = 10 * 366 * 24 * 60 * 60 * 1_000;

/// A key to be made.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KeyBody {
    /// Whose it is, for people.
    #[schema(min_length = 1, max_length = 128, example = "billing")]
    name: String,
    /// What it may do; everything unless given.
    #[serde(default)]
    #[schema(example = json!(["events"]))]
    scopes: Vec<String>,
    /// For which rooms; all unless given.
    #[serde(default)]
    #[schema(example = json!(["r1"]))]
    rooms: Vec<String>,
    /// When it ends; never unless given.
    #[schema(minimum = 1_000)]
    expires_in_ms: Option<u64>,
}

/// Lists the keys
///
/// Those that the shown one covers, without their secrets, which are kept nowhere. By a key with the scope `keys`, or
/// staff.
#[utoipa::path(
    get,
    path = "/keys",
    responses(
        (status = 200, description = "`{\"items\":[{\"id\":\"…\",\"name\":\"billing\",\"scopes\":[\"events\"],\"rooms\":[],\"created\":1700000000}]}`"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else"),
        (status = 503, description = "not at the moment"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn list(State(api): State<Api>, asking: Asking) -> Answered {
    let own = asking.back_end(Scope::Keys)?.cloned();
    let data_dir = api.shared.config.load().data_dir.clone();
    let keys = apart(move || Keys::read(&data_dir).map(|keys| keys.all().to_vec())).await?;
    let items: Vec<Value> = keys.iter().filter(|key| covers(own.as_ref(), key)).map(shown).collect();
    Ok(json_document(StatusCode::OK, json!({ "items": items }).to_string()))
}

/// Makes a key
///
/// It can do no more, nowhere else and no longer than the one that is shown. The whole key is in the answer, and nowhere
/// else. By a key with the scope `keys`, or staff.
#[utoipa::path(
    post,
    path = "/keys",
    request_body = KeyBody,
    responses(
        (status = 201, description = "`{\"id\":\"…\",\"key\":\"dk_…\"}`"),
        (status = 400, description = "no such scope, no such room, no name"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else, or for less"),
        (status = 408, description = "the body was too slow"),
        (status = 409, description = "there are as many keys as may be"),
        (status = 413, description = "the body is too long"),
        (status = 415, description = "the body is not JSON"),
        (status = 503, description = "not at the moment"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn add(State(api): State<Api>, asking: Asking, request: Request) -> Answered {
    let own = asking.back_end(Scope::Keys)?.cloned();
    let KeyBody { name, scopes, rooms, expires_in_ms } = api.json(request).await?;
    if expires_in_ms.is_some_and(|ms| !(1_000..=LIFE_MS_MAX).contains(&ms)) {
        return Err(
            bad("`expiresInMs` is a second to ten years in milliseconds; leave it out for no end").into()
        );
    }
    let now_s = now_s();
    let expires = expires_in_ms.map(|ms| now_s + ms / 1_000);
    if own.is_some_and(|own| !own.covers(&scopes, &rooms, expires)) {
        return Err(forbidden(
            "a key makes keys for its own scopes and rooms, and for as long as it lives itself",
        )
        .into());
    }
    api.serves()?;
    let new = NewKey { name, scopes, rooms, expires };
    let data_dir = api.shared.config.load().data_dir.clone();
    let identities = std::sync::Arc::clone(&api.shared.identities);
    let made = apart(move || {
        let key = Keys::to_change(&data_dir)?.add(new, now_s)?;
        identities.read_api_keys(&data_dir)?;
        Ok(key)
    });
    let key = made.await?;
    let id = key.strip_prefix(MARK).and_then(|rest| rest.split('_').next()).unwrap_or_default();
    api.note(&asking, "add_key", "", id, "done");
    Ok(json_document(StatusCode::CREATED, json!({ "id": id, "key": key }).to_string()))
}

/// Revokes a key
///
/// One that the shown one covers; it counts no more when this is answered. By a key with the scope `keys`, or staff.
#[utoipa::path(
    delete,
    path = "/keys/{id}",
    params(("id" = String, Path, description = "as the list has it")),
    responses(
        (status = 204, description = "it is gone"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else, or for less"),
        (status = 404, description = "there is no such key"),
        (status = 503, description = "not at the moment"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn revoke(State(api): State<Api>, asking: Asking, OfId(id): OfId) -> Answered {
    let own = asking.back_end(Scope::Keys)?.cloned();
    api.serves()?;
    let data_dir = api.shared.config.load().data_dir.clone();
    let identities = std::sync::Arc::clone(&api.shared.identities);
    let revoked = id.clone();
    let done = apart(move || {
        let mut keys = Keys::to_change(&data_dir)?;
        if keys.all().iter().any(|key| key.id == revoked && !covers(own.as_ref(), key)) {
            return Ok(false);
        }
        keys.revoke(&revoked)?;
        identities.read_api_keys(&data_dir)?;
        Ok(true)
    });
    if !done.await? {
        return Err(forbidden("this key can do more than the one that is shown").into());
    }
    api.note(&asking, "revoke_key", "", &id, "done");
    let mut answer = json_document(StatusCode::NO_CONTENT, "");
    answer.headers_mut().remove(hyper::header::CONTENT_TYPE);
    Ok(answer)
}

/// Whether a key is within the power of whoever asks; everything is for staff.
fn covers(own: Option<&ApiKey>, other: &ApiKey) -> bool {
    own.is_none_or(|own| own.covers(&other.scopes, &other.rooms, other.expires))
}

fn shown(key: &ApiKey) -> Value {
    let ApiKey { id, name, scopes, rooms, created, expires, sha256: _ } = key;
    let mut body = json!({ "id": id, "name": name, "scopes": scopes, "rooms": rooms, "created": created });
    if let Some(expires) = expires {
        body["expires"] = (*expires).into();
    }
    body
}

/// Does something with the disk apart from the worker.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KeysError> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error @ KeysError::Unknown(_))) => Err(problem(404, "not_found", &error.to_string()).into()),
        Ok(Err(error @ KeysError::Full)) => Err(problem(409, "keys_full", &error.to_string()).into()),
        Ok(Err(error @ (KeysError::Room(_) | KeysError::Scope(_) | KeysError::Name))) => {
            Err(bad(&error.to_string()).into())
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "the keys of back ends cannot be used");
            Err(problem(503, "unavailable", "the file of keys cannot be used at the moment").into())
        }
        Err(_) => Err(problem(503, "unavailable", "the server is on its way out").into()),
    }
}
