//! What handlers take out of a request: who asks, about which room, and with what body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{FromRequestParts, RawPathParams, Request};
use danmaku_wire::id::{RoomId, UserId};
use hyper::http::request::Parts;
use serde::de::DeserializeOwned;

use super::Api;
use super::answer::Problem;
use crate::ingress::authority::{Asking, bad};
use crate::ingress::body;
use crate::ingress::problem::{Refused, problem};

/// Items of a page, unless fewer or more are asked for.
const PAGE_DEFAULT: usize = 100;
/// Items of a page, at most.
const PAGE_MAX: usize = 500;

/// Whether a request was read to its end, for the connection that it came on: one of which something is unread cannot
/// take another request. Put into the request's extensions.
#[derive(Debug, Clone, Default)]
pub struct Heard(Arc<AtomicBool>);

impl Heard {
    /// Whether it was.
    pub fn all(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl FromRequestParts<Api> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        Ok(Self::of(&api.shared, &api.cells, &parts.headers)?)
    }
}

/// The room of a path.
pub(super) struct InRoom(pub(super) RoomId);

impl FromRequestParts<Api> for InRoom {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let name = named(parts, api, "room").await?;
        RoomId::parse(&name)
            .map(Self)
            .map_err(|error| problem(400, "room_invalid", &error.to_string()).into())
    }
}

/// The user of a path, in a room of it.
pub(super) struct OfUser(pub(super) UserId);

impl FromRequestParts<Api> for OfUser {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let name = named(parts, api, "user").await?;
        let wrong = |_| bad("a user's id is 1 to 64 bytes, none of them a control character").into();
        UserId::parse(&name).map(Self).map_err(wrong)
    }
}

/// The id of a path.
pub(super) struct OfId(pub(super) String);

impl FromRequestParts<Api> for OfId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        named(parts, api, "id").await.map(Self)
    }
}

/// Which part of a list: `after` a name, and at most so many.
#[derive(Debug)]
pub(super) struct Page {
    /// The last name that was shown.
    pub(super) after: Option<String>,
    /// How many.
    pub(super) limit: usize,
}

impl FromRequestParts<Api> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let mut page = Self { after: None, limit: PAGE_DEFAULT };
        for (name, value) in form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            match (&*name, value.parse()) {
                ("after", _) => page.after = Some(value.into_owned()),
                ("limit", Ok(limit @ 1..=PAGE_MAX)) => page.limit = limit,
                _ => return Err(bad("the query may have `after` and `limit`, which is 1 to 500").into()),
            }
        }
        Ok(page)
    }
}

/// A part of the path, decoded.
async fn named(parts: &mut Parts, api: &Api, name: &str) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, api).await;
    let params = params.map_err(|_| Problem::from(bad("the path is not encoded as one")))?;
    let found = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| bad("the path is not whole").into())
}

impl Api {
    /// The body of a request as JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, request: Request) -> Result<T, Refused> {
        body::check_form(request.headers())?;
        let heard = request.extensions().get::<Heard>().cloned();
        let read = body::read(&self.shared, &self.cells, request.into_body()).await?;
        if let Some(Heard(heard)) = heard {
            heard.store(true, Ordering::Relaxed);
        }
        serde_json::from_slice(&read).map_err(|error| bad(&format!("the body: {error}")))
    }
}
