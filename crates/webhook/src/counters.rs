//! What a client has done so far, readable from any thread.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::breaker::BreakerState;
use crate::failure::Failure;

/// One writer for most of them; each number stands for itself, so nothing orders them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    asked: AtomicU64,
    answered: AtomicU64,
    failed: [AtomicU64; Failure::KINDS],
    calls: AtomicU64,
    connections: AtomicU64,
    running: AtomicU64,
    idle: AtomicU64,
    breaker: AtomicU8,
    breaker_opened: AtomicU64,
}

/// Figures of a client since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Questions that were put.
    pub asked: u64,
    /// Questions that the receiver answered.
    pub answered: u64,
    /// Questions without an answer, by [`Failure::REASONS`].
    pub failed: [u64; Failure::KINDS],
    /// Posts to the receiver: a question or a batch of them.
    pub calls: u64,
    /// Connections that were made for them.
    pub connections: u64,
    /// Posts under way.
    pub running: u64,
    /// Connections that wait for their next question.
    pub idle: u64,
    /// The breaker as it was when a question last came or ended.
    pub breaker: BreakerState,
    /// How often the breaker opened.
    pub breaker_opened: u64,
}

impl Figures {
    /// Questions that ended in a failure of one kind.
    #[must_use]
    pub fn failed_by(&self, failure: Failure) -> u64 {
        self.failed[failure.index()]
    }

    /// The share of posts that went over a connection that was already there, 0–1.
    #[must_use]
    pub fn reuse(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { 1.0 - self.connections as f64 / self.calls as f64 }
    }
}

impl Counters {
    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Relaxed);
    }

    pub(crate) fn answer(&self, failure: Option<&Failure>) {
        let counter = failure.map_or(&self.answered, |failure| &self.failed[failure.index()]);
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    pub(crate) fn connection(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn set_load(&self, running: usize, idle: usize) {
        self.running.store(running as u64, Relaxed);
        self.idle.store(idle as u64, Relaxed);
    }

    pub(crate) fn set_breaker(&self, state: BreakerState, opened: u64) {
        self.breaker.store(state as u8, Relaxed);
        self.breaker_opened.store(opened, Relaxed);
    }

    pub(crate) fn figures(&self) -> Figures {
        let breaker = match self.breaker.load(Relaxed) {
            state if state == BreakerState::Open as u8 => BreakerState::Open,
            state if state == BreakerState::HalfOpen as u8 => BreakerState::HalfOpen,
            _ => BreakerState::Closed,
        };
        Figures {
            asked: self.asked.load(Relaxed),
            answered: self.answered.load(Relaxed),
            failed: std::array::from_fn(|kind| self.failed[kind].load(Relaxed)),
            calls: self.calls.load(Relaxed),
            connections: self.connections.load(Relaxed),
            running: self.running.load(Relaxed),
            idle: self.idle.load(Relaxed),
            breaker,
            breaker_opened: self.breaker_opened.load(Relaxed),
        }
    }
}
