//! The session on a socket: a task of tokio that does what [`Session`] says.
//!
//! Everything between the task and the application is bounded. An application that does not take its events
//! makes the task stop reading, so that the server sees a slow consumer and tells it a gap; commands wait.

mod driver;
mod socket;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::event::Event;
use crate::message::You;
use crate::options::{Identity, Options, OptionsError, Tier};
use crate::outbox::{Ack, PublishError, SendOptions};
use crate::position::Position;
use crate::session::{NotJoined, Session};

use driver::{Driver, Tokens, random};

/// Commands that wait for the task.
const COMMANDS_MAX: usize = 64;

/// Starts sessions.
#[derive(Debug)]
pub struct Client;

impl Client {
    /// Starts a session on the present runtime of tokio. It ends by [`Handle::close`], by a close code after
    /// which there is no use in coming back, or when all handles and the stream are dropped.
    ///
    /// # Errors
    /// When the options cannot be used. A server that is not there is no error: see
    /// [`crate::State::Waiting`].
    ///
    /// # Panics
    /// Outside a runtime of tokio.
    pub fn connect(options: Options) -> Result<(Handle, EventStream), OptionsError> {
        if options.identity == Identity::Asked {
            return Err(OptionsError::NoTokens);
        }
        start(options, None)
    }

    /// The same with a source of tokens, which is asked before each connection and whenever the token runs
    /// out. It answers with a token, or with a reason for there being none.
    ///
    /// # Errors
    /// When the options cannot be used.
    ///
    /// # Panics
    /// Outside a runtime of tokio.
    pub fn connect_with_tokens<F, A>(
        mut options: Options,
        mut ask: F,
    ) -> Result<(Handle, EventStream), OptionsError>
    where
        F: FnMut() -> A + Send + 'static,
        A: Future<Output = Result<String, String>> + Send + 'static,
    {
        options.identity = Identity::Asked;
        let tokens: Tokens = Box::new(move || Box::pin(ask()));
        start(options, Some(tokens))
    }
}

fn start(options: Options, tokens: Option<Tokens>) -> Result<(Handle, EventStream), OptionsError> {
    let events_max = options.events_max;
    let session = Session::new(options, Instant::now().into_std(), random())?;
    let (command, commands) = mpsc::channel(COMMANDS_MAX);
    let (event, events) = mpsc::channel(events_max);
    let (status, seen) = watch::channel(Status::default());
    tokio::spawn(Driver::new(session, tokens, commands, event, status).run());
    Ok((Handle { command, status: seen }, EventStream { events }))
}

/// What can be looked up at any time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Status {
    position: Option<Position>,
    you: You,
    online: u64,
}

/// A command on its way to the task.
#[derive(Debug)]
enum Command {
    Send { text: String, options: SendOptions, reply: oneshot::Sender<Result<Ack, PublishError>> },
    Join { room: String, since: Option<Position>, reply: oneshot::Sender<Result<(), OptionsError>> },
    Pause(bool),
    Tier(Tier),
    React { kind: String, count: u32, reply: oneshot::Sender<Result<(), NotJoined>> },
    Report { seq: u64, reason: String, reply: oneshot::Sender<Result<(), NotJoined>> },
    Ping(oneshot::Sender<Duration>),
    Close,
}

/// The application's side of a session. Clones are the same session.
#[derive(Debug, Clone)]
pub struct Handle {
    command: mpsc::Sender<Command>,
    status: watch::Receiver<Status>,
}

impl Handle {
    /// Publishes a comment and waits for its fate. The comment goes out again by itself, with the same id,
    /// when a connection ends before there is an answer.
    ///
    /// # Errors
    /// When it was refused, or when its fate cannot be known.
    pub async fn send(&self, text: impl Into<String>, options: SendOptions) -> Result<Ack, PublishError> {
        let (reply, fate) = oneshot::channel();
        self.tell(Command::Send { text: text.into(), options, reply }).await;
        fate.await.unwrap_or(Err(PublishError::Closed))
    }

    /// Goes to another room, or makes up for what was missed in the present one; [`Event::Joined`] follows.
    /// `since` is where the application left that room earlier.
    ///
    /// # Errors
    /// When that is no name of a room.
    pub async fn join(&self, room: impl Into<String>, since: Option<Position>) -> Result<(), OptionsError> {
        let (reply, done) = oneshot::channel();
        self.tell(Command::Join { room: room.into(), since, reply }).await;
        // A session that is over joins nothing, as its last event has said.
        done.await.unwrap_or(Ok(()))
    }

    /// Asks for no batches while nobody looks.
    pub async fn pause(&self) {
        self.tell(Command::Pause(true)).await;
    }

    /// Goes on after [`Handle::pause`]: what was missed comes as items, as a gap, or as a snapshot.
    pub async fn resume(&self) {
        self.tell(Command::Pause(false)).await;
    }

    /// Asks for more or less of a busy room from now on.
    pub async fn set_tier(&self, tier: Tier) {
        self.tell(Command::Tier(tier)).await;
    }

    /// Reacts `count` times, 1 to 20; more count as 20.
    ///
    /// # Errors
    /// When there is no room to react in.
    pub async fn react(&self, kind: impl Into<String>, count: u32) -> Result<(), NotJoined> {
        let (reply, done) = oneshot::channel();
        self.tell(Command::React { kind: kind.into(), count, reply }).await;
        done.await.unwrap_or(Err(NotJoined))
    }

    /// Reports a comment to the room's moderators.
    ///
    /// # Errors
    /// When there is no room.
    pub async fn report(&self, seq: u64, reason: impl Into<String>) -> Result<(), NotJoined> {
        let (reply, done) = oneshot::channel();
        self.tell(Command::Report { seq, reason: reason.into(), reply }).await;
        done.await.unwrap_or(Err(NotJoined))
    }

    /// Measures the way to the server and back.
    ///
    /// # Errors
    /// When there is no connection, or it ended before the answer.
    pub async fn ping(&self) -> Result<Duration, NotJoined> {
        let (reply, after) = oneshot::channel();
        self.tell(Command::Ping(reply)).await;
        after.await.map_err(|_| NotJoined)
    }

    /// Ends the session; comments without an answer are settled as [`PublishError::Closed`].
    pub async fn close(&self) {
        self.tell(Command::Close).await;
    }

    /// Up to where everything has been told; a later session resumes from there. Events up to it may still
    /// wait in the [`EventStream`].
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.status.borrow().position.clone()
    }

    /// Who the server takes this session for; empty before the first [`Event::Joined`].
    #[must_use]
    pub fn you(&self) -> You {
        self.status.borrow().you.clone()
    }

    /// How many were in the room when it was last told.
    #[must_use]
    pub fn online(&self) -> u64 {
        self.status.borrow().online
    }

    /// A command to a session that is over is dropped, and with it the way to its answer.
    async fn tell(&self, command: Command) {
        let _ = self.command.send(command).await;
    }
}

/// What happens, in order. The last event of a session is [`crate::State::Closed`].
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::Receiver<Event>,
}

impl EventStream {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(context)
    }
}
