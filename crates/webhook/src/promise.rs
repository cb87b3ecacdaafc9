//! The other end of a question: exactly one answer, whatever happens.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use crate::counters::Counters;
use crate::failure::Failure;

type Then<A> = Box<dyn FnOnce(Result<A, Failure>) + Send>;

/// Somebody waits for an answer. Forgetting a promise answers it with [`Failure::Stopped`].
pub(crate) struct Promise<A> {
    then: Option<Then<A>>,
    counters: Arc<Counters>,
}

impl<A> Promise<A> {
    pub(crate) fn new(counters: Arc<Counters>, then: Then<A>) -> Self {
        counters.ask();
        Self { then: Some(then), counters }
    }

    pub(crate) fn answer(mut self, answer: Result<A, Failure>) {
        self.settle(answer);
    }

    fn settle(&mut self, answer: Result<A, Failure>) {
        if let Some(then) = self.then.take() {
            self.counters.answer(answer.as_ref().err());
            then(answer);
        }
    }
}

impl<A> Drop for Promise<A> {
    fn drop(&mut self) {
        self.settle(Err(Failure::Stopped));
    }
}

impl<A> fmt::Debug for Promise<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Promise")
    }
}

/// An answer that is to come. Needs no particular runtime; dropping it does not take the question back.
#[derive(Debug)]
#[must_use = "the answer is in the future"]
pub struct Pending<A>(oneshot::Receiver<Result<A, Failure>>);

impl<A: Send + 'static> Pending<A> {
    /// The future, and what fulfils it.
    pub(crate) fn new() -> (Self, Then<A>) {
        let (sender, receiver) = oneshot::channel();
        // Nobody may be waiting any more.
        (Self(receiver), Box::new(move |answer| drop(sender.send(answer))))
    }
}

impl<A> Future for Pending<A> {
    type Output = Result<A, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(answer.unwrap_or(Err(Failure::Stopped)))
    }
}
