//! The way of a request to the back-end API and back: [`crate::api::v1`] knows nothing of the connection that it came on.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use tower_service::Service;

use super::Front;
use super::patience::Patience;
use crate::api::v1::Heard;
use crate::ingress::problem::problem;

impl Front {
    /// Has the API answer.
    pub(super) async fn api(
        &self,
        mut request: Request<Incoming>,
        patience: &Patience,
    ) -> Response<Full<Bytes>> {
        let heard = Heard::default();
        request.extensions_mut().insert(heard.clone());
        let mut api = self.api.clone();
        let Ok(response) = api.call(request).await;
        if heard.all() {
            patience.heard_all();
        }
        let (head, body) = response.into_parts();
        // All of them are in memory.
        match body.collect().await {
            Ok(body) => Response::from_parts(head, Full::new(body.to_bytes())),
            Err(_) => problem(500, "internal", "the answer could not be written"),
        }
    }
}
