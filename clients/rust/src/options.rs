//! What a session is told once, at its start.

use std::time::Duration;

use crate::position::Position;

/// How much of a busy room is wanted; each shows all that the one before it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The least.
    Lite,
    /// What most viewers get.
    Standard,
    /// Everything.
    Full,
}

impl Tier {
    /// The name in messages and addresses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lite => "lite",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }
}

/// How the session says who it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Identity {
    /// As a guest. The id that the server gives is kept and presented when the session comes back.
    #[default]
    Guest,
    /// By one token for ever.
    Token(String),
    /// By a token that is asked for before each connection, and whenever the server says that it runs out.
    Asked,
}

/// Tokens appear in no log.
impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Guest => "Guest",
            Self::Token(_) => "Token(..)",
            Self::Asked => "Asked",
        })
    }
}

/// Options of a session. Make them with [`Options::new`] and change what is to be other than usual.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The server's endpoint, `ws://` or `wss://`, such as `ws://localhost:8080/ws`.
    pub url: String,
    /// The room: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub room: String,
    /// Who to be.
    pub identity: Identity,
    /// The signed id of an earlier session as a guest ([`crate::You::guest`]): with it a guest keeps its id.
    pub guest: Option<String>,
    /// How much of a busy room; `None` leaves it to the server.
    pub tier: Option<Tier>,
    /// Whether a join that cannot resume brings the newest entries.
    pub snapshot: bool,
    /// Where an earlier session ended.
    pub since: Option<Position>,
    /// How long an unanswered comment is tried again. Servers know an id for at least 60 s: beyond that a
    /// comment might appear twice.
    pub resend_for: Duration,
    /// Comments that wait for their answer at once; more are refused with [`crate::PublishError::Full`].
    pub resend_max: usize,
    /// Bound of the first waiting time before coming back; it doubles with each attempt.
    pub backoff_base: Duration,
    /// Bound of all waiting times.
    pub backoff_cap: Duration,
    /// Silence after which the server is asked whether it is there. Servers ping after 25 s unless they are
    /// told otherwise.
    pub ask_after: Duration,
    /// Events that wait for the application; while there are so many, the socket is not read.
    pub events_max: usize,
}

impl Options {
    /// The usual options.
    pub fn new(url: impl Into<String>, room: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            room: room.into(),
            identity: Identity::Guest,
            guest: None,
            tier: None,
            snapshot: true,
            since: None,
            resend_for: Duration::from_secs(60),
            resend_max: 256,
            backoff_base: Duration::from_millis(500),
            backoff_cap: Duration::from_secs(30),
            ask_after: Duration::from_secs(45),
            events_max: 1_024,
        }
    }

    /// Whether they can be used.
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        check_url(&self.url)?;
        check_room(&self.room)?;
        if self.resend_max == 0 || self.events_max == 0 {
            return Err(OptionsError::Zero);
        }
        Ok(())
    }
}

pub(crate) fn check_url(url: &str) -> Result<(), OptionsError> {
    match url.split_once("://") {
        Some(("ws", rest)) if !rest.is_empty() => Ok(()),
        Some(("wss", _)) if !cfg!(feature = "tls") => Err(OptionsError::NoTls(url.to_owned())),
        Some(("wss", rest)) if !rest.is_empty() => Ok(()),
        _ => Err(OptionsError::Url(url.to_owned())),
    }
}

pub(crate) fn check_room(room: &str) -> Result<(), OptionsError> {
    /// Bytes of a room's name.
    const ROOM_BYTES_MAX: usize = 64;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if room.is_empty() || room.len() > ROOM_BYTES_MAX || !room.bytes().all(allowed) {
        return Err(OptionsError::Room(room.to_owned()));
    }
    Ok(())
}

/// Why options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// No address of a WebSocket.
    #[error("url {0:?}: an address that begins with ws:// or wss:// is needed")]
    Url(String),
    /// An encrypted address in a build without encryption.
    #[error("url {0:?}: wss:// needs the crate's feature `tls`")]
    NoTls(String),
    /// No name of a room.
    #[error("room {0:?}: 1 to 64 of A-Z a-z 0-9 _ - are needed")]
    Room(String),
    /// A bound of nothing.
    #[error("resend_max and events_max must be at least 1")]
    Zero,
    /// Nobody to ask for tokens.
    #[error("identity Asked needs a source of tokens: use Client::connect_with_tokens")]
    NoTokens,
}
