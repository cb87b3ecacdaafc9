//! Questions about comments that wait to be asked together.
//!
//! A batch is full by number or by bytes, or due by time. Knows times, not clocks.

use std::time::Duration;

use crate::promise::Promise;
use crate::question::{QUESTION_BYTES_MAX, Verdict};
use danmaku_wire::trace::TraceContext;

/// How questions are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Most questions in a post; 1: each is asked alone, in the form without a list.
    pub questions_max: usize,
    /// How long the first question of a batch waits for others.
    pub wait: Duration,
}

/// A question about a comment, ready to be sent.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) object: Vec<u8>,
    pub(crate) traceparent: Option<TraceContext>,
    /// When the answer must be there.
    pub(crate) deadline: Duration,
    pub(crate) promise: Promise<Verdict>,
}

/// The batch that is being filled.
#[derive(Debug)]
pub(crate) struct Gathering {
    batching: Batching,
    messages: Vec<Message>,
    bytes: usize,
    due: Option<Duration>,
}

impl Gathering {
    pub(crate) fn new(batching: Batching) -> Self {
        Self { batching, messages: Vec::new(), bytes: 0, due: None }
    }

    /// Adds a question. When it does not fit, what was there before is the batch that comes back.
    pub(crate) fn push(&mut self, now: Duration, message: Message) -> Option<Vec<Message>> {
        let before = (self.bytes + message.object.len() > QUESTION_BYTES_MAX).then(|| self.take());
        self.bytes += message.object.len();
        self.due.get_or_insert(now + self.batching.wait);
        self.messages.push(message);
        before.filter(|batch| !batch.is_empty())
    }

    /// Whether the batch is full or its time has come.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.messages.len() >= self.batching.questions_max || self.due.is_some_and(|due| due <= now)
    }

    /// When the batch is sent though it is not full.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.due
    }

    /// The batch as it is; another one begins.
    pub(crate) fn take(&mut self) -> Vec<Message> {
        (self.bytes, self.due) = (0, None);
        std::mem::take(&mut self.messages)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::counters::Counters;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn message(bytes: usize) -> Message {
        let promise = Promise::new(Arc::new(Counters::default()), Box::new(|_| ()));
        let object = vec![b'x'; bytes];
        Message { id: bytes.to_string(), object, traceparent: None, deadline: ms(200), promise }
    }

    fn ids(batch: &[Message]) -> Vec<&str> {
        batch.iter().map(|message| &*message.id).collect()
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_or_its_first_question_has_waited() {
        let mut gathering = Gathering::new(Batching { questions_max: 3, wait: ms(5) });
        assert!(!gathering.is_due(ms(1_000)), "nothing to ask");
        assert!(gathering.push(ms(0), message(1)).is_none());
        assert!(gathering.push(ms(4), message(2)).is_none());
        assert!(!gathering.is_due(ms(4)));
        assert_eq!(gathering.due(), Some(ms(5)));
        assert!(gathering.is_due(ms(5)));
        assert!(gathering.push(ms(4), message(3)).is_none());
        assert!(gathering.is_due(ms(4)), "full");
        assert_eq!(ids(&gathering.take()), ["1", "2", "3"]);
        assert!(gathering.is_empty() && gathering.due().is_none());
    }

    #[test]
    fn a_question_that_does_not_fit_begins_the_next_batch() {
        let mut gathering = Gathering::new(Batching { questions_max: 100, wait: ms(5) });
        assert!(gathering.push(ms(0), message(QUESTION_BYTES_MAX)).is_none());
        let full = gathering.push(ms(1), message(1)).expect("a full batch");
        assert_eq!(ids(&full), [QUESTION_BYTES_MAX.to_string()]);
        assert_eq!(gathering.due(), Some(ms(6)));
        assert_eq!(ids(&gathering.take()), ["1"]);
    }

    #[test]
    fn a_batch_of_one_is_due_at_once() {
        let mut gathering = Gathering::new(Batching { questions_max: 1, wait: ms(5) });
        assert!(gathering.push(ms(0), message(1)).is_none());
        assert!(gathering.is_due(ms(0)));
    }
}
