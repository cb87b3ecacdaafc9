//! Connections that wait for their next question.
//!
//! The one that came back last is taken first, so that few connections carry a small load and the others
//! run out. A connection is kept for less time than its receiver keeps it: a question on a connection
//! that the receiver is just closing is a question lost. Knows times, not sockets.

use std::time::Duration;

/// Waiting connections, the newest last.
#[derive(Debug)]
pub(crate) struct Idle<C> {
    waiting: Vec<(C, Duration)>,
    keep_for: Duration,
}

impl<C> Idle<C> {
    pub(crate) fn new(keep_for: Duration) -> Self {
        Self { waiting: Vec::new(), keep_for }
    }

    /// Keeps a connection. `receiver_keeps`: how long the receiver said it will, if it said so.
    pub(crate) fn put(&mut self, now: Duration, connection: C, receiver_keeps: Option<Duration>) {
        let keep_for = receiver_keeps.map_or(self.keep_for, |theirs| self.keep_for.min(below(theirs)));
        if !keep_for.is_zero() {
            self.waiting.push((connection, now + keep_for));
        }
    }

    /// The connection that was used last, if it may still be used.
    pub(crate) fn take(&mut self, now: Duration) -> Option<C> {
        self.expire(now);
        self.waiting.pop().map(|(connection, _)| connection)
    }

    /// Drops what has waited too long.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.waiting.retain(|(_, until)| *until > now);
    }

    /// When the next connection runs out.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        self.waiting.iter().map(|(_, until)| *until).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Below the receiver's time by a fifth: a question must arrive, not only leave, before it ends.
fn below(theirs: Duration) -> Duration {
    theirs - theirs / 5
}

/// The seconds of a `Keep-Alive: timeout=5, max=100` header (RFC 2068 19.7.1.1, still sent by many).
pub(crate) fn keep_alive_timeout(value: &str) -> Option<Duration> {
    value.split(',').find_map(|part| {
        let (key, seconds) = part.split_once('=')?;
        let seconds = key.trim().eq_ignore_ascii_case("timeout").then(|| seconds.trim().trim_matches('"'))?;
        seconds.parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_connection_that_came_back_last_is_taken_first() {
        let mut idle = Idle::new(ms(4_000));
        idle.put(ms(0), "old", None);
        idle.put(ms(1_000), "new", None);
        assert_eq!(idle.take(ms(1_000)), Some("new"));
        assert_eq!(idle.take(ms(3_999)), Some("old"));
        assert_eq!(idle.take(ms(3_999)), None);
    }

    #[test]
    fn a_connection_is_used_before_its_time_only() {
        let mut idle = Idle::new(ms(4_000));
        idle.put(ms(0), "a", None);
        assert_eq!(idle.next_expiry(), Some(ms(4_000)));
        assert_eq!(idle.take(ms(4_000)), None);
        assert_eq!(idle.len(), 0);
    }

    #[test]
    fn the_receivers_own_time_is_undercut() {
        let mut idle = Idle::new(ms(4_000));
        idle.put(ms(0), "one second", Some(ms(1_000)));
        assert_eq!(idle.next_expiry(), Some(ms(800)));
        assert_eq!(idle.take(ms(800)), None);
        idle.put(ms(1_000), "a minute", Some(ms(60_000)));
        assert_eq!(idle.next_expiry(), Some(ms(5_000)), "no longer than our own");
        idle.expire(ms(5_000));
        idle.put(ms(6_000), "not at all", Some(ms(0)));
        assert_eq!(idle.take(ms(6_000)), None);
    }

    #[test]
    fn the_header_is_read_or_ignored() {
        for (value, seconds) in [
            ("timeout=5", Some(5)),
            ("timeout=5, max=1000", Some(5)),
            ("max=100, Timeout = 15", Some(15)),
            ("timeout=\"1\"", Some(1)),
            ("timeout=0", Some(0)),
            ("timeout=-1", None),
            ("timeout=soon", None),
            ("max=5", None),
            ("", None),
        ] {
            assert_eq!(keep_alive_timeout(value), seconds.map(Duration::from_secs), "{value:?}");
        }
    }
}
