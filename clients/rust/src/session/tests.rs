//! The session in virtual time, against a server that is a list of texts.

mod coming_back;
mod publishing;
mod rooms;

use std::time::{Duration, Instant};

use super::*;
use crate::event::Event;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A session, the time, and what it has said since it was last looked at.
struct World {
    session: Session,
    now: Instant,
    actions: Vec<Action>,
    events: Vec<Event>,
    fates: Vec<(Ticket, Result<Ack, PublishError>)>,
    /// When the session wants to be looked at again.
    wake: Option<Instant>,
}

impl World {
    /// Random numbers are all in the middle, so that waiting times are half of their bounds.
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new("ws://a/ws", "r1");
        change(&mut options);
        let now = Instant::now();
        let session = Session::new(options, now, Box::new(|| 1 << 63)).expect("good options");
        let (actions, events, fates) = Default::default();
        let mut world = Self { session, now, actions, events, fates, wake: None };
        world.settle();
        world
    }

    /// In the room r1 at position 7-k2:41, all of which is looked at already.
    fn joined(change: impl FnOnce(&mut Options)) -> Self {
        let mut world = Self::new(change);
        world.connect();
        world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":41,"you":{"id":"me"}}}"#);
        world.say(r#"{"snapshot":{"epoch":"7-k2","seq":41,"items":[]}}"#);
        world.events.clear();
        world
    }

    fn settle(&mut self) {
        loop {
            match self.session.poll_action(self.now) {
                Action::Wait(until) => {
                    self.wake = until;
                    break;
                }
                action => self.actions.push(action),
            }
        }
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Event(event) => self.events.push(event),
                Output::Settled { ticket, fate } => self.fates.push((ticket, fate)),
                Output::Pong { .. } => {}
            }
        }
    }

    /// Does something to the session at the present time.
    fn with<T>(&mut self, act: impl FnOnce(&mut Session, Instant) -> T) -> T {
        let result = act(&mut self.session, self.now);
        self.settle();
        result
    }

    /// The attempt that must be under way succeeds; gives its address.
    fn connect(&mut self) -> String {
        let (url, _) = self.attempt();
        self.with(Session::handle_connected);
        url
    }

    /// The attempt that must be under way.
    fn attempt(&mut self) -> (String, Vec<String>) {
        match self.actions.pop() {
            Some(Action::Connect { url, subprotocols }) => (url, subprotocols),
            other => panic!("no attempt but {other:?}"),
        }
    }

    fn say(&mut self, text: &str) {
        self.with(|session, now| session.handle_message(now, text));
    }

    fn drop_connection(&mut self) {
        self.close(None);
    }

    fn close(&mut self, code: Option<u16>) {
        self.with(|session, now| session.handle_closed(now, code, ""));
    }

    /// Time passes; every wish to be looked at on the way is granted.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wake) = self.wake.filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.settle();
            assert!(self.wake.is_none_or(|next| next > self.now), "it wants to be looked at for ever");
        }
        self.now = end;
        self.settle();
    }

    /// Takes what was sent.
    fn sent(&mut self) -> Vec<String> {
        let actions = std::mem::take(&mut self.actions);
        let text = |action| match action {
            Action::Send(text) => text,
            other => panic!("no message but {other:?}"),
        };
        actions.into_iter().map(text).collect()
    }

    /// Takes the numbers of the items that were told, with one letter for their source.
    fn items(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.events).into_iter();
        let item = events.filter_map(|event| match event {
            Event::Item { item, source, own, .. } => {
                Some(format!("{source:?}{}{}", item.seq, if own { " own" } else { "" }))
            }
            _ => None,
        });
        item.collect()
    }

    /// The waiting time that was chosen last.
    fn chosen(&self) -> Duration {
        let chosen = self.events.iter().rev().find_map(|event| match event {
            Event::State(State::Waiting { retry_in, .. }) => Some(*retry_in),
            _ => None,
        });
        chosen.unwrap_or_else(|| panic!("no waiting in {:?}", self.events))
    }

    fn position(&self) -> String {
        self.session.position().map(ToString::to_string).unwrap_or_default()
    }
}
