//! Replacing the process that serves, without dropping anyone.
//!
//! `serve --take-over` asks the process that holds the data directory for all it has: its listening sockets, its
//! rooms and its sessions. The old one keeps everything until the new one has said that it is ready, and goes on
//! as if nothing had happened if that never comes. Who owns the rooms is decided by one thing alone: the lock on
//! the data directory, whose descriptor goes over last.
//!
//! ```text
//! taker                                   giver (serves)
//!   magic, version       ───────────────▶
//!                        ◀───────────────  magic, version
//!   ask                  ───────────────▶
//!                        ◀───────────────  sockets (or: called off, why)
//!   builds workers, binds what is missing
//!   begin                ───────────────▶  freezes: reads nothing more, finishes what it has read
//!                        ◀───────────────  decisions about users, rooms, sessions …, all
//!   ready                ───────────────▶
//!                        ◀───────────────  yours, with the lock (or until here: called off, why)
//!   taken                ───────────────▶
//!   accepts, goes on                       answers what it has accepted and is no session yet
//!                        ◀───────────────  sessions and comments that came of that …
//!   their fates …        ───────────────▶
//!                                          ends when the last TLS session has left
//! ```

pub mod channel;
pub mod codec;
pub mod decisions;
pub mod forward;
pub mod giver;
mod house;
pub mod inherited;
pub mod lock;
pub mod message;
pub mod notify;
pub mod pump;
pub mod state;
pub mod taker;

use tokio::sync::watch;

/// The control socket in the data directory.
pub const SOCKET_FILE: &str = "handover.sock";

/// Whether another process has taken this one's place.
#[derive(Debug)]
pub struct Replaced(watch::Sender<bool>);

impl Default for Replaced {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Replaced {
    /// Another process has.
    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }

    /// Whether another process has.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until another process has.
    pub async fn wait(&self) {
        // The sender lives as long as what is borrowed here.
        let _ = self.0.subscribe().wait_for(|is| *is).await;
    }
}

#[cfg(test)]
mod tests;
