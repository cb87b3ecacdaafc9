//! The loop of a client's thread: which question is asked when, and over which connection.
//!
//! It owns the waiting connections, the breaker and the batch that is being filled; each post runs as a
//! task that gives its connection back at the end. A question waits at most until its deadline: posts
//! begin in the order of the questions and none outlives its own deadline, so by then a place is free and
//! whoever is too late is told so.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::breaker::{Breaker, BreakerState, Permit};
use crate::counters::Counters;
use crate::exchange::{Finished, Post, exchange};
use crate::failure::Failure;
use crate::gathering::{Gathering, Message};
use crate::idle::Idle;
use crate::line::{Connection, Line};
use crate::promise::Promise;
use crate::question::{self, ConnectQuestion, ConnectVerdict, Question, Verdict};
use crate::settings::{Settings, WallClock};
use danmaku_wire::trace::TraceContext;

/// A question and who waits for its answer.
#[derive(Debug)]
pub(crate) enum Asked {
    Message(Question, Promise<Verdict>),
    Connect(ConnectQuestion, Promise<ConnectVerdict>),
}

impl Asked {
    pub(crate) fn fail(self, failure: Failure) {
        match self {
            Self::Message(_, promise) => promise.answer(Err(failure)),
            Self::Connect(_, promise) => promise.answer(Err(failure)),
        }
    }
}

/// A question in the queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asked: Asked,
    pub(crate) deadline: Instant,
}

/// What one post asks, and who waits for it.
enum Load {
    /// Never empty; `as_list` is the form of batches, also where one of them has a single question.
    Messages {
        batch: Vec<Message>,
        as_list: bool,
    },
    Connect {
        object: Vec<u8>,
        traceparent: Option<TraceContext>,
        promise: Promise<ConnectVerdict>,
    },
}

/// What a reply says.
enum Verdicts {
    Messages(Vec<Verdict>),
    Connect(ConnectVerdict),
}

/// A post that has ended.
struct Done {
    load: Load,
    finished: Finished,
    permit: Permit,
}

pub(crate) struct Dispatch {
    line: Arc<Line>,
    breaker: Breaker,
    incoming: mpsc::Receiver<Waiting>,
    gathering: Gathering,
    /// Whether questions about comments are asked as lists.
    as_list: bool,
    idle: Idle<Connection>,
    running: JoinSet<Done>,
    concurrency_max: usize,
    counters: Arc<Counters>,
    unix_seconds: WallClock,
    /// All times below are counted from here.
    started: Instant,
}

impl Dispatch {
    pub(crate) fn new(
        line: Line,
        breaker: Breaker,
        settings: &Settings,
        incoming: mpsc::Receiver<Waiting>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            line: Arc::new(line),
            breaker,
            incoming,
            gathering: Gathering::new(settings.batching),
            as_list: settings.batching.questions_max > 1,
            idle: Idle::new(settings.idle_timeout),
            running: JoinSet::new(),
            concurrency_max: settings.concurrency_max,
            counters,
            unix_seconds: settings.unix_seconds,
            started: Instant::now(),
        }
    }

    /// Answers questions until nobody can ask any more and all are answered.
    pub(crate) async fn run(mut self) {
        let mut open = true;
        while open || !self.running.is_empty() || !self.gathering.is_empty() {
            let wake = self.next_wake();
            // In this order: what has ended frees places, and tells the breaker before more is asked.
            tokio::select! {
                biased;
                Some(done) = self.running.join_next() => self.finish(done),
                waiting = self.incoming.recv(), if open && self.has_place() => match waiting {
                    Some(waiting) => self.take(waiting),
                    None => open = false,
                },
                () = sleep_until(wake.unwrap_or(self.started)), if wake.is_some() => {}
            }
            let now = self.now();
            self.idle.expire(now);
            if self.has_place() && (self.gathering.is_due(now) || !open) {
                self.send_batch(now);
            }
            self.tell_figures(now);
        }
    }

    fn tell_figures(&mut self, now: Duration) {
        self.counters.set_load(self.running.len(), self.idle.len());
        self.counters.set_breaker(self.breaker.state(now), self.breaker.opened());
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn has_place(&self) -> bool {
        self.running.len() < self.concurrency_max
    }

    /// When something is to be done though nothing comes and nothing ends.
    fn next_wake(&self) -> Option<Instant> {
        let batch = self.gathering.due().filter(|_| self.has_place());
        let wake = batch.into_iter().chain(self.idle.next_expiry()).min();
        wake.map(|at| self.started + at)
    }

    fn take(&mut self, waiting: Waiting) {
        let now = self.now();
        let deadline = waiting.deadline.saturating_duration_since(self.started);
        if self.breaker.state(now) == BreakerState::Open {
            return waiting.asked.fail(Failure::BreakerOpen);
        }
        match waiting.asked {
            Asked::Message(question, promise) => match question::written(&question) {
                Ok(object) => {
                    let Question { id, traceparent, .. } = question;
                    let message = Message { id, object, traceparent, deadline, promise };
                    if let Some(full) = self.gathering.push(now, message) {
                        self.send(now, full);
                    }
                }
                Err(failure) => promise.answer(Err(failure)),
            },
            Asked::Connect(question, promise) => match question::written(&question) {
                Ok(object) => {
                    let load = Load::Connect { object, traceparent: question.traceparent, promise };
                    self.post(now, deadline, load);
                }
                Err(failure) => promise.answer(Err(failure)),
            },
        }
    }

    fn send_batch(&mut self, now: Duration) {
        let batch = self.gathering.take();
        self.send(now, batch);
    }

    fn send(&mut self, now: Duration, batch: Vec<Message>) {
        // A batch is answered as a whole: in time for the one that has waited longest.
        if let Some(deadline) = batch.iter().map(|message| message.deadline).min() {
            self.post(now, deadline, Load::Messages { batch, as_list: self.as_list });
        }
    }

    fn post(&mut self, now: Duration, deadline: Duration, load: Load) {
        if deadline <= now {
            return load.fail(Failure::Deadline);
        }
        let Some(permit) = self.breaker.admit(now) else {
            return load.fail(Failure::BreakerOpen);
        };
        self.counters.call();
        let kept = self.idle.take(now);
        let post = load.post((self.unix_seconds)());
        let line = Arc::clone(&self.line);
        let deadline = self.started + deadline;
        self.running.spawn(async move {
            let finished = exchange(line, kept, post, deadline).await;
            Done { load, finished, permit }
        });
    }

    /// Everything that an answer may be followed by is in order before it is given.
    fn finish(&mut self, done: Result<Done, JoinError>) {
        let now = self.now();
        let Done { load, finished, permit } = match done {
            Ok(done) => done,
            // Whoever waits has been told by the promise; a bug is for whoever watches the threads.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => unreachable!("no post is ever cancelled"),
            },
        };
        if finished.opened {
            self.counters.connection();
        }
        if let Some((connection, receiver_keeps)) = finished.keep {
            self.idle.put(now, connection, receiver_keeps);
        }
        let verdicts = finished.reply.and_then(|reply| load.read(&reply));
        self.breaker.record(now, permit, verdicts.is_ok());
        self.tell_figures(now);
        match verdicts {
            Ok(verdicts) => load.answer(verdicts),
            Err(failure) => load.fail(failure),
        }
    }
}

impl Load {
    fn post(&self, unix_seconds: u64) -> Post {
        let (body, traceparent) = match self {
            Self::Messages { batch, as_list: true } => {
                (question::batch(batch.iter().map(|message| &*message.object)), None)
            }
            Self::Messages { batch, as_list: false } => {
                (question::single("message", &batch[0].object), batch[0].traceparent)
            }
            Self::Connect { object, traceparent, .. } => (question::single("connect", object), *traceparent),
        };
        Post { body, unix_seconds, traceparent }
    }

    fn read(&self, reply: &[u8]) -> Result<Verdicts, Failure> {
        match self {
            Self::Messages { batch, as_list: true } => {
                let ids: Vec<&str> = batch.iter().map(|message| &*message.id).collect();
                question::read_verdicts(reply, &ids).map(Verdicts::Messages)
            }
            Self::Messages { batch, as_list: false } => {
                question::read_verdict(reply, &batch[0].id).map(|verdict| Verdicts::Messages(vec![verdict]))
            }
            Self::Connect { .. } => question::read_connect_verdict(reply).map(Verdicts::Connect),
        }
    }

    fn answer(self, verdicts: Verdicts) {
        match (self, verdicts) {
            (Self::Messages { batch, .. }, Verdicts::Messages(verdicts)) => {
                for (message, verdict) in batch.into_iter().zip(verdicts) {
                    message.promise.answer(Ok(verdict));
                }
            }
            (Self::Connect { promise, .. }, Verdicts::Connect(verdict)) => promise.answer(Ok(verdict)),
            _ => unreachable!("a load reads verdicts of its own kind"),
        }
    }

    fn fail(self, failure: Failure) {
        match self {
            Self::Messages { batch, .. } => {
                batch.into_iter().for_each(|message| message.promise.answer(Err(failure)));
            }
            Self::Connect { promise, .. } => promise.answer(Err(failure)),
        }
    }
}
