//! What back ends ask for, under `/api/v1`: routes, and what is said of them as OpenAPI.
//!
//! It is served by the workers, on the connections that everybody uses. A handler touches no room: it hands an order to
//! its worker, as a session hands over a comment, and waits for what comes of it.

mod answer;
mod asked;
pub mod broadcast;
mod events;
mod keys;
mod rooms;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use tokio::sync::oneshot;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ingress::authority::{Asking, now_s};
use crate::ingress::document::json as json_document;
use crate::ingress::problem::{Refused, problem, refusal};
use crate::observe::audit::Record;
use crate::observe::cells::Cells;
use crate::wiring::Shared;
use crate::worker::orders::{Deed, Order, OrderDesk, Told};
use answer::Problem;

pub use asked::Heard;

/// Where all of it is.
pub const ROOT: &str = "/api/v1";
/// Where the description is.
pub const DESCRIPTION: &str = "/api/v1/openapi.json";

/// Whether a path is one of those that are asked for here alone.
pub fn serves(path: &str) -> bool {
    let Some(rest) = path.strip_prefix(ROOT) else { return false };
    let of_room = || match rest.strip_prefix("/rooms/").map(|rest| rest.split_once('/')) {
        Some(None) => true,
        Some(Some((_, rest))) => rest.starts_with("users/"),
        None => false,
    };
    matches!(rest, "/rooms" | "/stats" | "/keys" | "/broadcast")
        || rest.starts_with("/keys/")
        || rest.starts_with("/broadcasts/")
        || of_room()
}

/// What handlers work with.
#[derive(Clone)]
struct Api {
    shared: Arc<Shared>,
    cells: Arc<Cells>,
    orders: OrderDesk,
}

/// The routes, for the worker behind `orders`.
pub fn routes(shared: Arc<Shared>, cells: Arc<Cells>, orders: OrderDesk) -> Router {
    let (router, description) = described().split_for_parts();
    let description = Bytes::from(description.to_json().unwrap_or_default());
    router
        .route(DESCRIPTION, axum::routing::get(async move || json_document(StatusCode::OK, description)))
        .fallback(async || {
            Problem::from(problem(404, "not_found", "there is no such call: see /api/v1/openapi.json"))
        })
        .method_not_allowed_fallback(async || {
            Problem::from(problem(405, "method_not_allowed", "the header `Allow` says how this is asked"))
        })
        .with_state(Api { shared, cells, orders })
}

fn described() -> OpenApiRouter<Api> {
    let calls = OpenApiRouter::new()
        .routes(routes!(events::push))
        .routes(routes!(broadcast::begin))
        .routes(routes!(broadcast::progress))
        .routes(routes!(rooms::list))
        .routes(routes!(rooms::describe))
        .routes(routes!(rooms::inspect))
        .routes(routes!(rooms::stats))
        .routes(routes!(keys::list, keys::add))
        .routes(routes!(keys::revoke));
    OpenApiRouter::with_openapi(head()).nest(ROOT, calls)
}

fn head() -> OpenApi {
    let info = InfoBuilder::new().title("danmaku").version(env!("CARGO_PKG_VERSION")).description(Some(
        "What back ends ask for. Refusals are problem documents (RFC 9457) with a `code`.",
    ));
    let mut api = OpenApiBuilder::new().info(info.build()).build();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    api.components.get_or_insert_default().add_security_scheme("bearer", bearer);
    api
}

impl Api {
    /// Has an order carried out.
    async fn order(&self, room: RoomId, deed: Deed) -> Result<Told, Refused> {
        // Done elsewhere it would hold for nobody.
        self.serves()?;
        let (answer, told) = oneshot::channel();
        self.orders.place(Order { room, deed, answer });
        let within = Duration::from_millis(self.shared.config.load().answer_within_ms);
        match tokio::time::timeout(within, told).await {
            Ok(Ok(told)) => Ok(told),
            Ok(Err(_)) | Err(_) => Err(refusal(ErrorCode::Unavailable, Some(1_000), &[]).into()),
        }
    }
}

impl Api {
    /// Whether what is asked for can be done here: not where another process has taken this one's place.
    fn serves(&self) -> Result<(), Refused> {
        match self.shared.replaced.is_set() {
            true => Err(refusal(ErrorCode::Unavailable, Some(1_000), &[]).into()),
            false => Ok(()),
        }
    }

    /// Writes down who asked for what, and what came of it.
    fn note(&self, asking: &Asking, action: &'static str, room: &str, target: &str, outcome: &str) {
        let record = Record {
            n: 0,
            at: now_s() * 1_000,
            by: asking.name().into(),
            action,
            room: room.into(),
            target: target.chars().take(128).collect::<String>().into(),
            reason: "".into(),
            outcome: outcome.into(),
        };
        self.shared.audit.add(record, self.shared.config.load().audit_max);
    }
}

/// What handlers answer with.
type Answered = Result<Response<Full<Bytes>>, Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    /// `described`: every call tells who may make it and what comes of it, and has its example in `docs/api.md`.
    #[test]
    fn every_call_is_described() {
        let (_, description) = described().split_for_parts();
        let description: serde_json::Value =
            serde_json::from_str(&description.to_json().expect("JSON")).expect("JSON");
        let page = include_str!("../../../docs/api.md");
        let paths = description["paths"].as_object().expect("paths");
        assert!(!paths.is_empty());
        for (path, calls) in paths {
            for (method, call) in calls.as_object().expect("calls") {
                let (method, short) = (method.to_uppercase(), path.trim_start_matches(ROOT));
                assert!(call["summary"].is_string(), "{method} {path}");
                assert!(call["security"].is_array(), "{method} {path}");
                assert!(call["responses"].get("401").is_some(), "{method} {path}");
                let shown = short.replace("{room}", "ROOM").replace("{user}", "USER").replace("{id}", "ID");
                assert!(
                    page.contains(&format!("`{method} {shown}")),
                    "{method} {shown} is not in docs/api.md"
                );
            }
        }
    }
}
