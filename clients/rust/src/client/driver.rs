//! The task that does what a session says.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, pending};
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::event::Event;
use crate::outbox::{Ack, PublishError, Ticket};
use crate::session::{Action, Output, Random, Session};

use super::socket::{News, Socket};
use super::{Command, Status};

type Answer = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
/// Whoever is asked for tokens.
pub(super) type Tokens = Box<dyn FnMut() -> Answer + Send>;

/// What the task was woken by.
enum Happened {
    /// `None`: there will be no more.
    Command(Option<Command>),
    /// Nobody takes events any more.
    Unheard,
    Token(Result<String, String>),
    News(News),
    /// It is time to look at the session again.
    Nothing,
}

/// The state of the task.
pub(super) struct Driver {
    session: Session,
    socket: Socket,
    tokens: Option<Tokens>,
    /// The token that is being asked for.
    token: Option<Answer>,
    commands: mpsc::Receiver<Command>,
    /// Whether there may be commands yet.
    commanded: bool,
    events: mpsc::Sender<Event>,
    /// Whether anybody takes events.
    heard: bool,
    /// What one message of the server has brought and the application has not taken yet.
    backlog: VecDeque<Event>,
    fates: HashMap<Ticket, oneshot::Sender<Result<Ack, PublishError>>>,
    /// Pings of the present connection.
    pings: HashMap<u64, oneshot::Sender<Duration>>,
    status: watch::Sender<Status>,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        tokens: Option<Tokens>,
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<Event>,
        status: watch::Sender<Status>,
    ) -> Self {
        Self {
            session,
            socket: Socket::None,
            tokens,
            token: None,
            commands,
            commanded: true,
            events,
            heard: true,
            backlog: VecDeque::new(),
            fates: HashMap::new(),
            pings: HashMap::new(),
            status,
        }
    }

    /// Works until the session is over and the application knows.
    pub(super) async fn run(mut self) {
        loop {
            let wake = self.act().await;
            if self.session.is_closed() && self.backlog.is_empty() {
                return;
            }
            if !self.commanded && !self.heard {
                // Nobody is left to do anything for.
                self.session.close();
                self.act().await;
                return;
            }
            self.wait(wake).await;
        }
    }

    /// Does everything that is to be done now; gives the time at which there is more.
    async fn act(&mut self) -> Option<Instant> {
        let wake = loop {
            match self.session.poll_action(now()) {
                Action::Connect { url, subprotocols } => self.socket = Socket::connect(url, subprotocols),
                Action::Token => self.token = self.tokens.as_mut().map(|ask| ask()),
                Action::Send(text) => {
                    if let Err(reason) = self.socket.send(text).await {
                        self.pings.clear();
                        self.session.handle_closed(now(), None, &reason);
                    }
                }
                Action::Disconnect { code } => {
                    self.pings.clear();
                    self.socket.close(code).await;
                }
                Action::Wait(until) => break until,
            }
        };
        while let Some(output) = self.session.poll_output() {
            self.hand_out(output);
        }
        self.pings.retain(|_, reply| !reply.is_closed());
        self.show_status();
        wake.map(Instant::from_std)
    }

    async fn wait(&mut self, wake: Option<Instant>) {
        let happened = tokio::select! {
            command = self.commands.recv(), if self.commanded => Happened::Command(command),
            permit = self.events.reserve(), if !self.backlog.is_empty() => {
                if let (Ok(permit), Some(event)) = (permit, self.backlog.pop_front()) {
                    permit.send(event);
                }
                Happened::Nothing
            }
            () = self.events.closed(), if self.heard => Happened::Unheard,
            token = answer(&mut self.token) => Happened::Token(token),
            // While the application is behind, the server is not read: it must know.
            news = self.socket.next(), if self.backlog.is_empty() => Happened::News(news),
            () = until(wake) => Happened::Nothing,
        };
        match happened {
            Happened::Command(Some(command)) => self.obey(command),
            Happened::Command(None) => self.commanded = false,
            Happened::Unheard => self.unheard(),
            Happened::Token(token) => {
                self.token = None;
                self.session.handle_token(now(), token);
            }
            Happened::News(news) => self.take(news),
            Happened::Nothing => {}
        }
    }

    fn unheard(&mut self) {
        self.heard = false;
        self.backlog.clear();
    }

    fn take(&mut self, news: News) {
        match news {
            News::Connected => self.session.handle_connected(now()),
            News::Failed(failure) => self.session.handle_connect_failed(now(), failure),
            News::Text(text) => self.session.handle_message(now(), &text),
            News::Activity => self.session.handle_activity(now()),
            News::Closed { code, reason } => {
                self.pings.clear();
                self.session.handle_closed(now(), code, &reason);
            }
        }
    }

    /// A caller that no longer waits for the answer is no reason to do anything else.
    fn obey(&mut self, command: Command) {
        match command {
            Command::Send { text, options, reply } => match self.session.send(now(), &text, &options) {
                Ok(ticket) => drop(self.fates.insert(ticket, reply)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Join { room, since, reply } => {
                let _ = reply.send(self.session.join(now(), &room, since));
            }
            Command::Pause(true) => self.session.pause(),
            Command::Pause(false) => self.session.resume(),
            Command::Tier(tier) => self.session.set_tier(tier),
            Command::React { kind, count, reply } => {
                let _ = reply.send(self.session.react(&kind, count));
            }
            Command::Report { seq, reason, reply } => {
                let _ = reply.send(self.session.report(seq, &reason));
            }
            Command::Ping(reply) => {
                // Dropping the way back says that there is no answer.
                if let Ok(number) = self.session.ping(now()) {
                    self.pings.insert(number, reply);
                }
            }
            Command::Close => self.session.close(),
        }
    }

    fn hand_out(&mut self, output: Output) {
        match output {
            Output::Event(event) if self.heard => self.backlog.push_back(event),
            Output::Event(_) => {}
            Output::Settled { ticket, fate } => {
                if let Some(reply) = self.fates.remove(&ticket) {
                    let _ = reply.send(fate);
                }
            }
            Output::Pong { number, after } => {
                if let Some(reply) = self.pings.remove(&number) {
                    let _ = reply.send(after);
                }
            }
        }
    }

    fn show_status(&mut self) {
        let session = &self.session;
        self.status.send_if_modified(|status| {
            let same = status.position.as_ref() == session.position()
                && status.online == session.online()
                && status.you == *session.you();
            if !same {
                status.position = session.position().cloned();
                status.online = session.online();
                status.you.clone_from(session.you());
            }
            !same
        });
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => pending().await,
    }
}

async fn answer(token: &mut Option<Answer>) -> Result<String, String> {
    match token {
        Some(answer) => answer.await,
        None => pending().await,
    }
}

/// Numbers that differ between processes and sessions. Nothing secret is made from them.
pub(super) fn random() -> Random {
    let state = RandomState::new();
    let mut count = 0u64;
    Box::new(move || {
        count += 1;
        state.hash_one(count)
    })
}
