//! One event for every room in use, a few rooms at a time: a crowd of rooms that all show something in the same moment
//! would be a crowd of passes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::asked::OfId;
use super::events::{EventBody, idempotency_key};
use super::{Answered, Api};
use crate::identity::api_key::Scope;
use crate::ingress::authority::{Asking, forbidden};
use crate::ingress::document::json as json_document;
use crate::ingress::problem::problem;
use crate::observe::limits::Limit;
use crate::worker::message::Outcome;
use crate::worker::orders::{Deed, Order, Push, Told};

/// Broadcasts that are remembered: the newest.
const KEPT_MAX: usize = 64;
/// How often the next rooms have their turn.
const STEP: Duration = Duration::from_millis(50);
/// Rooms in one step, at most: each waits for its answer.
const ROOMS_PER_STEP_MAX: u64 = 1_024;

/// Broadcasts that are under way, and the newest of those that were.
#[derive(Debug, Default)]
pub struct Broadcasts(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    jobs: VecDeque<Arc<Job>>,
    newest: u64,
}

/// How far one has come.
#[derive(Debug)]
struct Job {
    number: u64,
    reached: AtomicU64,
    missed: AtomicU64,
    over: AtomicBool,
    complete: AtomicBool,
}

impl Broadcasts {
    /// One more, unless `running_max` are under way.
    fn begin(&self, running_max: usize) -> Option<Arc<Job>> {
        let mut kept = self.kept();
        let running = kept.jobs.iter().filter(|job| !job.over.load(Ordering::Acquire)).count();
        if running >= running_max {
            return None;
        }
        kept.newest += 1;
        let job = Arc::new(Job {
            number: kept.newest,
            reached: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            over: AtomicBool::new(false),
            complete: AtomicBool::new(false),
        });
        if kept.jobs.len() >= KEPT_MAX
            && let Some(oldest) = kept.jobs.iter().position(|job| job.over.load(Ordering::Acquire))
        {
            kept.jobs.remove(oldest);
        }
        kept.jobs.push_back(Arc::clone(&job));
        Some(job)
    }

    fn find(&self, number: u64) -> Option<Arc<Job>> {
        self.kept().jobs.iter().find(|job| job.number == number).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    fn shown(&self) -> Value {
        let state = match (self.over.load(Ordering::Acquire), self.complete.load(Ordering::Acquire)) {
            (false, _) => "running",
            (true, true) => "done",
            (true, false) => "stopped",
        };
        json!({
            "id": format!("b{}", self.number),
            "state": state,
            "reached": self.reached.load(Ordering::Relaxed),
            "missed": self.missed.load(Ordering::Relaxed),
        })
    }
}

/// Whatever becomes of its task, a broadcast is over with it.
struct Running(Arc<Job>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

/// Shows an event in every room in use
///
/// `api.broadcast_rooms_per_s` rooms a second, in the order of their names; under an id it happens once in each, so that
/// it can be asked again. By a key with the scope `events` for all rooms, or staff.
#[utoipa::path(
    post,
    path = "/broadcast",
    params(("Idempotency-Key" = Option<String>, Header, description = "under which it happens once in each room, within a minute")),
    request_body = EventBody,
    responses(
        (status = 202, description = "it is under way: `{\"id\":\"b1\",\"state\":\"running\",\"reached\":0,\"missed\":0}`"),
        (status = 400, description = "no event, or too much data"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else, or for some rooms"),
        (status = 408, description = "the body was too slow"),
        (status = 413, description = "the body is too long"),
        (status = 415, description = "the body is not JSON"),
        (status = 429, description = "as many are under way as may be"),
        (status = 503, description = "not at the moment"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn begin(State(api): State<Api>, asking: Asking, request: Request) -> Answered {
    if asking.back_end(Scope::Events)?.is_some_and(|key| !key.rooms.is_empty()) {
        return Err(forbidden("this key is for some rooms, and this concerns all").into());
    }
    let key = idempotency_key(request.headers())?;
    let body: EventBody = api.json(request).await?;
    let push = api.event(body, key, None)?;
    api.serves()?;
    let (running_max, per_s) = {
        let config = api.shared.config.load();
        (config.broadcasts_max, config.broadcast_rooms_per_s)
    };
    let Some(job) = api.shared.broadcasts.begin(running_max) else {
        api.cells.met(Limit::Broadcasts);
        let detail = "as many broadcasts are under way as `api.broadcasts_max` allows";
        let mut refusal = problem(429, ErrorCode::RateLimited.as_str(), detail);
        refusal.headers_mut().insert(RETRY_AFTER, hyper::header::HeaderValue::from_static("5"));
        return Err(refusal.into());
    };
    api.note(&asking, "broadcast", "", &push.event.kind, "begun");
    let begun = job.shown();
    tokio::spawn(api.broadcast(Running(job), push, per_s));
    Ok(json_document(StatusCode::ACCEPTED, begun.to_string()))
}

/// Tells how far a broadcast has come
///
/// By a key with the scope `events` for all rooms, or staff. The newest are remembered while the process lives.
#[utoipa::path(
    get,
    path = "/broadcasts/{id}",
    params(("id" = String, Path, description = "as the answer had it")),
    responses(
        (status = 200, description = "`{\"id\":\"b1\",\"state\":\"done\",\"reached\":120,\"missed\":0}`; `stopped` where the process left before its end"),
        (status = 401, description = "no key, or none that counts"),
        (status = 403, description = "a key for something else, or for some rooms"),
        (status = 404, description = "there is none, or not any more"),
    ),
    security(("bearer" = []))
)]
pub(super) async fn progress(State(api): State<Api>, asking: Asking, OfId(id): OfId) -> Answered {
    if asking.back_end(Scope::Events)?.is_some_and(|key| !key.rooms.is_empty()) {
        return Err(forbidden("this key is for some rooms, and this concerns all").into());
    }
    let number = id.strip_prefix('b').and_then(|number| number.parse().ok());
    match number.and_then(|number| api.shared.broadcasts.find(number)) {
        Some(job) => Ok(json_document(StatusCode::OK, job.shown().to_string())),
        None => Err(problem(404, "not_found", "there is no such broadcast, or not any more").into()),
    }
}

impl Api {
    async fn broadcast(self, running: Running, push: Push, per_s: u64) {
        let job = &running.0;
        let per_step = (per_s * STEP.as_millis() as u64).div_ceil(1_000).clamp(1, ROOMS_PER_STEP_MAX);
        // Below one room a step, steps are further apart.
        let every = STEP.max(Duration::from_millis(1_000 * per_step / per_s.max(1)));
        let mut steps = interval(every);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let within = Duration::from_millis(self.shared.config.load().answer_within_ms);
        let mut after: Option<RoomId> = None;
        loop {
            steps.tick().await;
            if self.serves().is_err() {
                return;
            }
            let page = self.shared.directory.page(after.as_ref(), per_step as usize);
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            let waiting: Vec<_> = page.into_iter().map(|(room, _)| self.push_into(room, &push)).collect();
            for told in waiting {
                let count = match timeout(within, told).await {
                    Ok(Ok(Told::Fate(Outcome::Accepted { .. }))) => &job.reached,
                    _ => &job.missed,
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        job.complete.store(true, Ordering::Release);
    }

    fn push_into(&self, room: RoomId, push: &Push) -> oneshot::Receiver<Told> {
        let (answer, told) = oneshot::channel();
        let deed = Deed::Push(Box::new(push.clone()));
        self.orders.place(Order { room, deed, answer });
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Broadcasts`: so many run, one that is over makes room, and the newest are remembered.
    #[test]
    fn so_many_run_and_the_newest_are_remembered() {
        let all = Broadcasts::default();
        let first = Running(all.begin(2).expect("room"));
        let second = Running(all.begin(2).expect("room"));
        assert!(all.begin(2).is_none());
        assert_eq!(first.0.shown()["state"], "running");
        second.0.complete.store(true, Ordering::Release);
        drop(second);
        assert_eq!(all.find(2).expect("remembered").shown()["state"], "done");
        for _ in 0..2 * KEPT_MAX {
            drop(Running(all.begin(2).expect("room")));
        }
        assert!(all.find(2).is_none(), "forgotten");
        assert!(all.find(1).is_some(), "it still runs");
        assert_eq!(all.find(2 + KEPT_MAX as u64 * 2).expect("the newest").shown()["state"], "stopped");
        assert_eq!(all.kept().jobs.len(), KEPT_MAX);
    }
}
