//! The session: everything a client of the protocol has to remember and decide, without a socket.
//!
//! In come the time, the messages of the server, what the socket does, and the application's commands; out
//! go [`Action`]s for whoever holds the socket and [`Output`]s for the application. It reads no clock, waits
//! for nothing and knows random numbers as an argument, so that every rule is tested in virtual time.
//!
//! After each `handle_…` call and each command, call [`Session::poll_action`] until it says
//! [`Action::Wait`], and [`Session::poll_output`] until it says `None`.

mod connection;
mod receiving;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::cursor::Cursor;
use crate::event::{Event, State};
use crate::message::{ClientMessage, Since, You};
use crate::options::{Options, OptionsError, Tier, check_room};
use crate::outbox::{Ack, Fate, Outbox, PublishError, SendOptions, Ticket};
use crate::position::Position;

use connection::Phase;

pub use connection::ConnectFailure;

/// Reactions that fit in one message.
const REACTIONS_MAX: u32 = 20;
/// Pings of the application that wait for their answer.
const PINGS_MAX: usize = 16;

/// A source of random numbers, uniform over all of `u64`.
pub type Random = Box<dyn FnMut() -> u64 + Send>;

/// What whoever holds the socket is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect; then call [`Session::handle_connected`] or [`Session::handle_connect_failed`].
    Connect {
        /// The address with its query.
        url: String,
        /// The subprotocols to offer, in order.
        subprotocols: Vec<String>,
    },
    /// Ask for a token; then call [`Session::handle_token`].
    Token,
    /// Send a text message.
    Send(String),
    /// Close the connection, or give up the attempt, with this close code. Nothing of it is to be handed in
    /// any more: it is over for the session.
    Disconnect {
        /// The close code.
        code: u16,
    },
    /// Nothing until something happens, or until then.
    Wait(Option<Instant>),
}

/// What the application is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Something happened.
    Event(Event),
    /// A comment's fate.
    Settled {
        /// Which.
        ticket: Ticket,
        /// What became of it.
        fate: Result<Ack, PublishError>,
    },
    /// The answer to [`Session::ping`].
    Pong {
        /// The number of the ping.
        number: u64,
        /// From the ping to its answer.
        after: Duration,
    },
}

/// The session is not in a room at the moment, so that a command that only makes sense there and then was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is not in a room at the moment")]
pub struct NotJoined;

/// The state of a client.
pub struct Session {
    options: Options,
    random: Random,
    phase: Phase,
    backoff: Backoff,
    /// Where to connect to next, if the server said so; else the address of the options.
    moved_url: Option<String>,
    /// From when on the server wants this session elsewhere.
    move_at: Option<Instant>,
    room: Arc<str>,
    /// Where to go back to if the server refuses the last `join`.
    came_from: Option<(Arc<str>, Option<Position>)>,
    cursor: Cursor,
    receiving: receiving::Receiving,
    outbox: Outbox,
    token: Option<String>,
    guest: Option<String>,
    refresh: Refresh,
    you: You,
    online: u64,
    paused: bool,
    pings: VecDeque<(u64, Instant)>,
    ping_count: u64,
    actions: VecDeque<Action>,
    outputs: VecDeque<Output>,
}

/// How far a change of token has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refresh {
    None,
    /// A token was asked for.
    Asked,
    /// The `auth` command is out. The next `auth` message answers it and is no reminder.
    Sent,
}

impl Session {
    /// A session that wants to connect at once.
    ///
    /// # Errors
    /// When the options cannot be used.
    pub fn new(options: Options, now: Instant, mut random: Random) -> Result<Self, OptionsError> {
        options.check()?;
        let mut cursor = Cursor::default();
        cursor.restart(options.since.clone());
        Ok(Self {
            phase: Phase::Waiting { until: now },
            backoff: Backoff::new(options.backoff_base, options.backoff_cap),
            moved_url: None,
            move_at: None,
            room: options.room.as_str().into(),
            came_from: None,
            cursor,
            receiving: receiving::Receiving::default(),
            outbox: Outbox::new(options.resend_max, options.resend_for, random()),
            token: None,
            guest: options.guest.clone(),
            refresh: Refresh::None,
            you: You::default(),
            online: 0,
            paused: false,
            pings: VecDeque::new(),
            ping_count: 0,
            actions: VecDeque::new(),
            outputs: VecDeque::new(),
            options,
            random,
        })
    }

    /// Publishes a comment in the present room, as soon as it is joined. Its fate comes as
    /// [`Output::Settled`].
    ///
    /// # Errors
    /// [`PublishError::Full`], [`PublishError::InUse`] or [`PublishError::Closed`], and then nothing is sent.
    pub fn send(&mut self, now: Instant, text: &str, options: &SendOptions) -> Result<Ticket, PublishError> {
        if self.phase == Phase::Closed {
            return Err(PublishError::Closed);
        }
        self.outbox.push(now, &self.room, text, options)
    }

    /// Goes to another room, or makes up for what was missed in the present one. `since` is where the
    /// application left that room earlier. Comments that were not sent yet are given up.
    ///
    /// # Errors
    /// When that is no name of a room.
    pub fn join(&mut self, now: Instant, room: &str, since: Option<Position>) -> Result<(), OptionsError> {
        check_room(room)?;
        if *room != *self.room {
            let joined = self.is_joined();
            let left = std::mem::replace(&mut self.room, room.into());
            if joined {
                self.came_from = Some((left, self.cursor.position().cloned()));
            }
            self.cursor.restart(since);
            self.receiving = receiving::Receiving::default();
            let fates = self.outbox.moved(room);
            self.settle(fates);
        }
        self.say_join(now);
        Ok(())
    }

    /// Asks for no batches while nobody looks; costs the server nothing.
    pub fn pause(&mut self) {
        self.paused = true;
        self.say_view(None);
    }

    /// Goes on after [`Session::pause`]: what was missed comes as items, as a gap, or as a snapshot.
    pub fn resume(&mut self) {
        self.paused = false;
        self.say_view(None);
    }

    /// Asks for more or less of a busy room from now on.
    pub fn set_tier(&mut self, tier: Tier) {
        self.options.tier = Some(tier);
        self.say_view(Some(tier));
    }

    /// Reacts `count` times, 1 to 20; more count as 20.
    ///
    /// # Errors
    /// When there is no room to react in.
    pub fn react(&mut self, kind: &str, count: u32) -> Result<(), NotJoined> {
        self.say_now(&ClientMessage::React { kind, count: count.clamp(1, REACTIONS_MAX) })
    }

    /// Reports a comment to the room's moderators.
    ///
    /// # Errors
    /// When there is no room.
    pub fn report(&mut self, seq: u64, reason: &str) -> Result<(), NotJoined> {
        self.say_now(&ClientMessage::Report { seq, reason })
    }

    /// Asks the server whether it is there; the answer comes as [`Output::Pong`] with the number returned
    /// here, unless the connection ends first.
    ///
    /// # Errors
    /// When there is no connection, or no answer to many earlier ones.
    pub fn ping(&mut self, now: Instant) -> Result<u64, NotJoined> {
        if !matches!(self.phase, Phase::Open(_)) || self.pings.len() >= PINGS_MAX {
            return Err(NotJoined);
        }
        self.ping_count += 1;
        self.pings.push_back((self.ping_count, now));
        self.actions.push_back(Action::Send(ClientMessage::Ping { t: self.ping_count }.write()));
        Ok(self.ping_count)
    }

    /// Up to where everything has been told; a later session resumes from there.
    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.cursor.position()
    }

    /// The room this session is in, or on its way to.
    #[must_use]
    pub fn room(&self) -> &str {
        &self.room
    }

    /// Who the server takes this session for; empty before the first `joined`.
    #[must_use]
    pub fn you(&self) -> &You {
        &self.you
    }

    /// How many were in the room when it was last told.
    #[must_use]
    pub fn online(&self) -> u64 {
        self.online
    }

    /// Whether the session is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// What is to be done next.
    pub fn poll_action(&mut self, now: Instant) -> Action {
        self.run_timers(now);
        if self.is_joined()
            && let Some(message) = self.outbox.next_message(now)
        {
            self.actions.push_back(Action::Send(message));
        }
        match self.actions.pop_front() {
            Some(action) => action,
            None => Action::Wait(self.next_time()),
        }
    }

    /// What the application is to be told next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn is_joined(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.joined_at.is_some())
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn tell_state(&mut self, state: State) {
        self.tell(Event::State(state));
    }

    fn settle(&mut self, fates: impl IntoIterator<Item = Fate>) {
        let settled = fates.into_iter().map(|(ticket, fate)| Output::Settled { ticket, fate });
        self.outputs.extend(settled);
    }

    fn say(&mut self, message: &ClientMessage<'_>) {
        self.actions.push_back(Action::Send(message.write()));
    }

    fn say_now(&mut self, message: &ClientMessage<'_>) -> Result<(), NotJoined> {
        if !self.is_joined() {
            return Err(NotJoined);
        }
        self.say(message);
        Ok(())
    }

    /// Where there is no connection, the next one joins the room by its address.
    fn say_join(&mut self, now: Instant) {
        let Phase::Open(open) = &mut self.phase else { return };
        open.joins += 1;
        open.joined_at = None;
        open.join_by = now + connection::JOIN_WITHIN;
        let room = Arc::clone(&self.room);
        let since = self.cursor.position().cloned();
        self.say(&ClientMessage::Join { room: &room, since: since.as_ref().map(Since::from) });
    }

    /// Where there is no connection, the next one starts with the tier in its address, and `joined` is
    /// followed by what else the viewer wants.
    fn say_view(&mut self, tier: Option<Tier>) {
        if matches!(self.phase, Phase::Open(_)) {
            self.say(&ClientMessage::View { paused: self.paused, tier: tier.map(Tier::as_str) });
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("room", &self.room)
            .field("phase", &self.phase)
            .field("position", &self.cursor.position())
            .finish_non_exhaustive()
    }
}
