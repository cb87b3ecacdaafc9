//! The admin port: metrics and health, on a thread and a runtime of its own, so that it answers while
//! the workers are busy.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;

use crate::ingress::problem::problem;
use crate::observe::cells::Cells;
use crate::observe::memory;
use crate::wiring::{Departure, Shared};

/// Connections served at once.
const CONNECTIONS_MAX: usize = 64;
/// How long a request may take to come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the admin port on the present thread, until another process has taken this one's place.
///
/// # Errors
/// When the runtime cannot be made.
pub fn run(
    listener: TcpListener,
    registry: Registry,
    shared: Arc<Shared>,
    cells: Vec<Arc<Cells>>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let registry = Arc::new(registry);
    runtime.block_on(async move {
        let watched = (Arc::clone(&shared.identities), shared.config.load().data_dir.clone());
        let told = Arc::clone(&cells[0]);
        tokio::spawn(async move { watched.0.watch(&watched.1, &told).await });
        tokio::spawn(memory::tend(cells));
        if let Some(tls) = shared.tls.clone() {
            tokio::spawn(async move { tls.watch().await });
        }
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let slots = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
        let mut told = false;
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return Ok(()) };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = shared.replaced.wait() => break,
            };
            let socket = match accepted {
                Ok((socket, _)) => {
                    told = false;
                    socket
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%error, "the admin port cannot accept; trying again ten times a second");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (registry, shared) = (Arc::clone(&registry), Arc::clone(&shared));
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    std::future::ready(Ok::<_, Infallible>(answer(&request, &registry, &shared)))
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(socket), service);
                if let Err(error) = served.await {
                    tracing::debug!(%error, "an admin connection ended early");
                }
                drop(slot);
            });
        }
        // Another process accepts on this socket now; whoever is connected here gets his answer.
        let all = CONNECTIONS_MAX as u32 - 1;
        let _ = tokio::time::timeout(HEAD_TIMEOUT, slots.acquire_many(all)).await;
        Ok(())
    })
}

fn answer(request: &Request<Incoming>, registry: &Registry, shared: &Shared) -> Response<Full<Bytes>> {
    let mut response = answer_to(request, registry, shared);
    if shared.replaced.is_set() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn answer_to(request: &Request<Incoming>, registry: &Registry, shared: &Shared) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return problem(405, "method_not_allowed", "the admin port is only read");
    }
    match request.uri().path() {
        "/metrics" => {
            let mut text = String::new();
            match prometheus_client::encoding::text::encode(&mut text, registry) {
                Ok(()) => plain(text, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
                Err(_) => problem(500, "internal", "the metrics could not be written"),
            }
        }
        "/healthz" => plain("ok\n".into(), "text/plain; charset=utf-8"),
        "/readyz" if shared.departure() != Departure::None => {
            problem(503, "draining", "the server is leaving")
        }
        "/readyz" if shared.stored.is_down() => {
            problem(503, "store_unavailable", "nothing can be stored at present; the log says why")
        }
        "/readyz" => plain("ready\n".into(), "text/plain; charset=utf-8"),
        _ => problem(404, "not_found", "there are /metrics, /healthz and /readyz"),
    }
}

fn plain(text: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
