//! Somebody who says something in a room and hears what became of it.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::raw_socket::RawSocket;
use crate::support::Server;

/// What tokens are signed with.
pub(crate) const KEYS: (&str, &str) =
    ("DANMAKU__AUTH__KEYS", r#"[{id="k1", secret="a secret of at least thirty-two bytes"}]"#);

/// Settings of a server with users and guests, under which nobody is too fast.
#[allow(dead_code, reason = "not every test takes these settings")]
pub(crate) fn start(settings: &[(&str, &str)]) -> Server {
    let env = environment(settings);
    let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Server::start_with(&["--workers", "2"], &env)
}

/// What such a server is started with.
pub(crate) fn environment(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut env: Vec<_> =
        settings.iter().map(|(key, value)| (format!("DANMAKU__{key}"), (*value).to_owned())).collect();
    env.push((KEYS.0.to_owned(), KEYS.1.to_owned()));
    env.push(("DANMAKU__AUTH__ANONYMOUS".to_owned(), "true".to_owned()));
    env.push(("DANMAKU__LIMITS__USER_MODE".to_owned(), "off".to_owned()));
    env
}

/// A token.
pub(crate) fn token(user: &str, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_danmaku"));
    let made = command.args(["token", "--user", user]).args(more).envs([KEYS]).output();
    let token = String::from_utf8(made.expect("it runs").stdout).expect("text");
    assert!(!token.trim().is_empty(), "a token for {user}");
    token.trim().to_owned()
}

/// Somebody in a room.
pub(crate) struct Person {
    pub(crate) socket: RawSocket,
    /// Everything that was heard so far.
    pub(crate) heard: Vec<String>,
}

impl Person {
    /// A guest.
    #[allow(dead_code, reason = "not every test has guests")]
    pub(crate) fn guest(server: &Server, room: &str) -> Self {
        Self::with(server, room, "")
    }

    /// A user by a token; `more` are further arguments of `danmaku token`.
    pub(crate) fn user(server: &Server, room: &str, user: &str, more: &[&str]) -> Self {
        Self::with(server, room, &format!("Authorization: Bearer {}\r\n", token(user, more)))
    }

    /// Somebody whose request has further header lines.
    pub(crate) fn with(server: &Server, room: &str, headers: &str) -> Self {
        let socket = RawSocket::join(server.address, room, headers);
        let mut person = Self { socket, heard: Vec::new() };
        person.hears("\"joined\"");
        // What follows it: the room as it is.
        person.hears("\"snapshot\"");
        person
    }

    /// The next message that holds a word; those before it are kept in [`Self::heard`] too.
    pub(crate) fn hears(&mut self, word: &str) -> Value {
        loop {
            let text = self.socket.hears("");
            self.heard.push(text.clone());
            if text.contains(word) {
                return serde_json::from_str(&text).expect("JSON");
            }
        }
    }

    /// Says something: its id.
    pub(crate) fn sends(&mut self, text: &str) -> String {
        // The same id by the same user would be the same comment.
        static IDS: AtomicU32 = AtomicU32::new(0);
        let id = format!("n-{}-", IDS.fetch_add(1, Ordering::Relaxed));
        self.repeats(&id, text);
        id
    }

    /// Says something under an id.
    pub(crate) fn repeats(&mut self, id: &str, text: &str) {
        self.socket.say(&json!({ "send": { "id": id, "text": text } }).to_string());
    }

    /// What became of what was said under an id: the `ack` or the `error`.
    pub(crate) fn fate(&mut self, id: &str) -> Value {
        let answer = self.hears(&format!("\"id\":\"{id}\""));
        if answer["ack"].is_object() { answer["ack"].clone() } else { answer["error"].clone() }
    }

    /// Says something and hears what became of it.
    pub(crate) fn says(&mut self, text: &str) -> Value {
        let id = self.sends(text);
        self.fate(&id)
    }

    /// Says something that is taken: its number.
    pub(crate) fn says_well(&mut self, text: &str) -> u64 {
        let ack = self.says(text);
        assert!(ack["code"].is_null() && ack["state"].is_null(), "{text}: {ack}");
        ack["seq"].as_u64().expect("a number")
    }

    /// Whether a word was in anything that was heard.
    #[allow(dead_code, reason = "not every test looks back")]
    pub(crate) fn has_heard(&self, word: &str) -> bool {
        self.heard.iter().any(|text| text.contains(word))
    }
}
