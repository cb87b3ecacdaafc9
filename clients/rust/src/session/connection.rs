//! How connections begin and end: when to come back, where to, and when not at all.

use std::time::{Duration, Instant};

use crate::address;
use crate::code::{FINAL, TOKEN_EXPIRED};
use crate::event::{Ending, Event, State};
use crate::message::ClientMessage;
use crate::options::Identity;

use super::{Action, Refresh, Session};

/// How long an attempt may take, up to the end of its handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// How long the server may take to answer a join.
pub(super) const JOIN_WITHIN: Duration = Duration::from_secs(15);
/// How long the server may take to answer when it is asked whether it is there.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a room must have been joined before the waiting times start anew: a server that takes
/// connections and drops them at once is not well.
const LASTS_AFTER: Duration = Duration::from_secs(10);
/// The client's own end.
const NORMAL: u16 = 1000;
/// Statuses of a refused handshake after which the same one may succeed.
const PASSING_STATUSES: [u16; 4] = [408, 421, 425, 429];
/// A token is missing or not good enough.
const UNAUTHORIZED: u16 = 401;

/// How far a connection has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none until then.
    Waiting { until: Instant },
    /// A token was asked for.
    AskingToken,
    /// An attempt is under way.
    Connecting { until: Instant },
    /// There is one.
    Open(Open),
    /// There will be none any more.
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// Joins that were not answered yet.
    pub(super) joins: u32,
    /// When the last join was answered; while it is not, what comes is of a room that was left.
    pub(super) joined_at: Option<Instant>,
    /// When the last join must have been answered.
    pub(super) join_by: Instant,
    /// When anything was last heard.
    pub(super) heard: Instant,
    /// When the server was asked whether it is there, if nothing was heard since.
    pub(super) asked: Option<Instant>,
}

/// Why there is no connection after [`Action::Connect`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectFailure {
    /// The status of the HTTP answer, if there was one.
    pub status: Option<u16>,
    /// The answer's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// For people.
    pub reason: String,
}

impl Session {
    /// The handshake is done.
    pub fn handle_connected(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Connecting { .. }) {
            return;
        }
        let join_by = now + JOIN_WITHIN;
        self.phase = Phase::Open(Open { joins: 1, joined_at: None, join_by, heard: now, asked: None });
    }

    /// The attempt has failed.
    pub fn handle_connect_failed(&mut self, now: Instant, failure: ConnectFailure) {
        if !matches!(self.phase, Phase::Connecting { .. }) {
            return;
        }
        // Whoever sent us there may have been wrong; the own address is always worth a try.
        self.moved_url = None;
        let ending = Ending::new(None, &failure.reason);
        let is_final = failure.status.is_some_and(|status| {
            let another_token = status == UNAUTHORIZED && self.options.identity == Identity::Asked;
            (400..500).contains(&status) && !PASSING_STATUSES.contains(&status) && !another_token
        });
        if is_final {
            return self.end(ending);
        }
        self.come_back(now, failure.retry_after, ending);
    }

    /// The server has closed the connection, or it broke: then there is no code.
    pub fn handle_closed(&mut self, now: Instant, code: Option<u16>, reason: &str) {
        if !matches!(self.phase, Phase::Open(_) | Phase::Connecting { .. }) {
            return;
        }
        self.disconnected();
        let ending = Ending::new(code, reason);
        let another_token = code == Some(TOKEN_EXPIRED) && self.options.identity == Identity::Asked;
        if code.is_some_and(|code| FINAL.contains(&code)) && !another_token {
            return self.end(ending);
        }
        self.come_back(now, None, ending);
    }

    /// The answer to [`Action::Token`]: a token, or why there is none.
    pub fn handle_token(&mut self, now: Instant, token: Result<String, String>) {
        match (token, &self.phase) {
            (Ok(token), Phase::AskingToken) => {
                self.token = Some(token);
                self.connect(now);
            }
            (Err(reason), Phase::AskingToken) => {
                self.come_back(now, None, Ending::new(None, &reason));
                self.tell(Event::TokenFailed { reason });
            }
            (Ok(token), Phase::Open(_)) if self.refresh == Refresh::Asked => {
                self.refresh = Refresh::Sent;
                self.say(&ClientMessage::Auth { token: &token });
                self.token = Some(token);
            }
            (Err(reason), Phase::Open(_)) if self.refresh == Refresh::Asked => {
                self.refresh = Refresh::None;
                self.tell(Event::TokenFailed { reason });
            }
            // The connection it was for is gone; the next one asks again.
            _ => {}
        }
    }

    /// Ends the session: nothing comes back after this.
    pub fn close(&mut self) {
        if matches!(self.phase, Phase::Open(_) | Phase::Connecting { .. }) {
            self.actions.clear();
            self.actions.push_back(Action::Disconnect { code: NORMAL });
        }
        if self.phase != Phase::Closed {
            self.end(Ending::new(None, "closed by the application"));
        }
    }

    /// Leaves the connection because of something the server did or did not do, and comes back.
    pub(super) fn leave_and_come_back(&mut self, now: Instant, why: &str) {
        self.disconnected();
        self.actions.push_back(Action::Disconnect { code: NORMAL });
        self.come_back(now, None, Ending::new(None, why));
    }

    /// Does what the time asks for.
    pub(super) fn run_timers(&mut self, now: Instant) {
        let late = self.outbox.expired(now);
        self.settle(late);
        if self.move_at.is_some_and(|at| at <= now) && matches!(self.phase, Phase::Open(_)) {
            return self.leave_and_come_back(now, "the server asked to move");
        }
        match &mut self.phase {
            Phase::Waiting { until } if *until <= now => self.start(now),
            Phase::Connecting { until } if *until <= now => {
                self.moved_url = None;
                self.leave_and_come_back(now, "no connection in time");
            }
            Phase::Open(open) => {
                let silent = open.asked.is_some_and(|asked| asked + ANSWER_WITHIN <= now);
                let unjoined = open.joined_at.is_none() && open.join_by <= now;
                if silent || unjoined {
                    let why = if silent { "the server is silent" } else { "no answer to a join in time" };
                    self.leave_and_come_back(now, why);
                } else if open.asked.is_none() && open.heard + self.options.ask_after <= now {
                    open.asked = Some(now);
                    self.say(&ClientMessage::Ping { t: 0 });
                }
            }
            _ => {}
        }
    }

    /// When [`Session::run_timers`] or the outbox next has something to do.
    pub(super) fn next_time(&self) -> Option<Instant> {
        let own = match &self.phase {
            Phase::Waiting { until } | Phase::Connecting { until } => Some(*until),
            Phase::Open(open) => {
                let heard = open.asked.map_or(open.heard + self.options.ask_after, |at| at + ANSWER_WITHIN);
                let joined = open.joined_at.is_none().then_some(open.join_by);
                [Some(heard), joined, self.move_at].into_iter().flatten().min()
            }
            Phase::AskingToken | Phase::Closed => None,
        };
        [own, self.outbox.next_time(self.is_joined())].into_iter().flatten().min()
    }

    fn start(&mut self, now: Instant) {
        self.tell_state(State::Connecting { attempt: self.backoff.attempts() });
        if self.options.identity == Identity::Asked {
            self.phase = Phase::AskingToken;
            self.actions.push_back(Action::Token);
        } else {
            self.connect(now);
        }
    }

    fn connect(&mut self, now: Instant) {
        self.phase = Phase::Connecting { until: now + CONNECT_WITHIN };
        let endpoint = self.moved_url.as_deref().unwrap_or(&self.options.url);
        let since = self.cursor.position();
        let url = address::url(endpoint, &self.room, since, self.options.tier, self.options.snapshot);
        let token = match &self.options.identity {
            Identity::Guest => self.guest.as_deref(),
            Identity::Token(token) => Some(token.as_str()),
            Identity::Asked => self.token.as_deref(),
        };
        self.actions.push_back(Action::Connect { url, subprotocols: address::subprotocols(token) });
    }

    /// What a connection takes with it.
    fn disconnected(&mut self) {
        self.actions.clear();
        self.refresh = Refresh::None;
        self.pings.clear();
        // A room that was asked for last is where the next connection goes, whether it was reached or not.
        self.came_from = None;
        let fates = self.outbox.disconnected(&self.room);
        self.settle(fates);
    }

    /// Chooses when to try again. What the server asked for goes before what would be chosen here.
    fn come_back(&mut self, now: Instant, asked: Option<Duration>, why: Ending) {
        if let Phase::Open(open) = &self.phase
            && open.joined_at.is_some_and(|at| at + LASTS_AFTER <= now)
        {
            self.backoff.reset();
        }
        let attempt = self.backoff.attempts() + 1;
        let retry_in = match (self.move_at.take(), asked) {
            (Some(at), _) => {
                self.backoff.count();
                at.saturating_duration_since(now)
            }
            (None, asked) => asked.unwrap_or_default() + self.backoff.next((self.random)()),
        };
        self.phase = Phase::Waiting { until: now + retry_in };
        self.tell_state(State::Waiting { attempt, retry_in, why });
    }

    fn end(&mut self, why: Ending) {
        self.phase = Phase::Closed;
        self.move_at = None;
        let fates = self.outbox.closed();
        self.settle(fates);
        self.tell_state(State::Closed { why });
    }
}
