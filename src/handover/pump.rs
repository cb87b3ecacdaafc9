//! What stays of a TLS session in the process that was here before: its keys and its socket, and the near end of a
//! bridge, at whose far end the new process has a plain session.
//!
//! The state of TLS cannot be given away, so the old process seals and opens until the session has left, which the new
//! one tells it to do.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::io::{Interest, Ready};

use super::state::{Bridge, Passage};
use crate::egress::tls::{Intake, TlsLayer};
use crate::egress::{Offer, Taken};

/// Bytes that are moved at once, and kept at most where the other side is full.
const PORTION: usize = 8 << 10;
/// How long the client may take to close its side after ours is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A TLS session's transport, not yet at work.
#[derive(Debug)]
pub struct Pump {
    socket: TcpStream,
    tls: Box<TlsLayer>,
    near: UnixStream,
}

impl Pump {
    /// Seals and opens what passes, until one side has ended.
    pub async fn run(self) {
        let Self { socket, tls, near } = self;
        let opened = tokio::net::TcpStream::from_std(socket)
            .and_then(|socket| Ok((socket, tokio::net::UnixStream::from_std(near)?)));
        let Ok((socket, near)) = opened else { return };
        let mut flow =
            Flow { socket, tls, near, up: Vec::new(), down: Vec::new(), heard_all: false, said_all: false };
        // One that fails ends like one that is done: by being dropped.
        while let Ok(moved) = flow.turn() {
            if flow.said_all && flow.heard_all {
                return;
            }
            if moved {
                tokio::task::yield_now().await;
            } else if flow.said_all {
                let Ok(Ok(())) = tokio::time::timeout(LAST_WORDS, flow.news()).await else { return };
            } else if flow.news().await.is_err() {
                return;
            }
        }
    }
}

impl Passage {
    /// Leaves the far end of the bridge as the session's socket, and gives out what stays here.
    pub fn split_off_pump(&mut self) -> Option<Pump> {
        let Bridge { near, far } = self.bridge.take()?;
        let tls = self.session.tls.take()?;
        let far = TcpStream::from(std::os::fd::OwnedFd::from(far));
        self.session.bridged = Some(0);
        Some(Pump { socket: std::mem::replace(&mut self.session.socket, far), tls, near })
    }
}

/// A TLS session's transport at work.
struct Flow {
    socket: tokio::net::TcpStream,
    tls: Box<TlsLayer>,
    near: tokio::net::UnixStream,
    /// From the client, opened, for the other process.
    up: Vec<u8>,
    /// From the other process, for the client.
    down: Vec<u8>,
    /// The client has said all.
    heard_all: bool,
    /// The other process has said all, and the client has it.
    said_all: bool,
}

impl Flow {
    /// Moves what can be moved; whether anything was.
    fn turn(&mut self) -> io::Result<bool> {
        let up = self.turn_up()?;
        Ok(self.turn_down()? || up)
    }

    fn turn_up(&mut self) -> io::Result<bool> {
        if !self.up.is_empty() {
            let Some(n) = would_block(self.near.try_write(&self.up))? else { return Ok(false) };
            self.up.drain(..n);
            return Ok(true);
        }
        if self.heard_all {
            return Ok(false);
        }
        let mut buffer = [0; PORTION];
        match self.take(&mut buffer) {
            Intake::Empty => Ok(false),
            Intake::Bytes(n) => {
                self.up.extend_from_slice(&buffer[..n]);
                Ok(true)
            }
            Intake::End => {
                self.heard_all = true;
                let _ = shutdown(&self.near, Shutdown::Write);
                Ok(true)
            }
        }
    }

    /// Opens what is there. The layer may hold something though the socket has no news.
    fn take(&mut self, buffer: &mut [u8]) -> Intake {
        let Self { socket, tls, .. } = self;
        match tls.take(&*socket, true, buffer) {
            Intake::Empty => {}
            other => return other,
        }
        // Once more, so that the runtime sees the socket empty and tells of news.
        let again = socket.try_io(Interest::READABLE, || match tls.take(&*socket, true, buffer) {
            Intake::Empty => Err(io::ErrorKind::WouldBlock.into()),
            other => Ok(other),
        });
        again.unwrap_or(Intake::Empty)
    }

    fn turn_down(&mut self) -> io::Result<bool> {
        if self.said_all {
            return Ok(false);
        }
        if !self.down.is_empty() || self.tls.wants_write() {
            let Taken { bytes, moved, .. } = self.offer()?;
            self.down.drain(..bytes);
            return Ok(moved);
        }
        let mut buffer = [0; PORTION];
        match would_block(self.near.try_read(&mut buffer))? {
            None => Ok(false),
            Some(0) => {
                self.tls.close();
                let Taken { full, .. } = self.offer()?;
                self.said_all = !full;
                if self.said_all {
                    let _ = shutdown(&self.socket, Shutdown::Write);
                }
                Ok(self.said_all)
            }
            Some(n) => {
                self.down.extend_from_slice(&buffer[..n]);
                Ok(true)
            }
        }
    }

    /// Offers the client what is there for it, and what TLS has to say of its own.
    fn offer(&mut self) -> io::Result<Taken> {
        let Self { socket, tls, down, .. } = self;
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let Offer::Taken(mut taken) = tls.offer(&*socket, down) else { return Err(gone()) };
        if taken.full {
            // Once more, so that the runtime sees the socket full and tells of news.
            let again = socket.try_io(Interest::WRITABLE, || match tls.flush(&*socket) {
                Offer::Taken(Taken { full: true, .. }) => Err(io::ErrorKind::WouldBlock.into()),
                Offer::Taken(taken) => Ok(taken),
                Offer::Gone => Err(gone()),
            });
            if let Some(flushed) = would_block(again)? {
                taken = Taken { bytes: taken.bytes, full: false, moved: taken.moved | flushed.moved };
            }
        }
        Ok(taken)
    }

    /// Waits until something can be moved.
    async fn news(&self) -> io::Result<()> {
        let owes = !self.down.is_empty() || self.tls.wants_write();
        let socket = both(self.up.is_empty() && !self.heard_all, owes && !self.said_all);
        let near = both(!owes && !self.said_all, !self.up.is_empty());
        tokio::select! {
            ready = until_ready(socket, |interest| self.socket.ready(interest)) => ready.map(drop),
            ready = until_ready(near, |interest| self.near.ready(interest)) => ready.map(drop),
        }
    }
}

/// What is waited for, if anything is.
fn both(read: bool, write: bool) -> Option<Interest> {
    match (read, write) {
        (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
        (true, false) => Some(Interest::READABLE),
        (false, true) => Some(Interest::WRITABLE),
        (false, false) => None,
    }
}

async fn until_ready<F: Future<Output = io::Result<Ready>>>(
    interest: Option<Interest>,
    ready: impl FnOnce(Interest) -> F,
) -> io::Result<Ready> {
    match interest {
        Some(interest) => ready(interest).await,
        None => std::future::pending().await,
    }
}

/// Nothing where there is none at the moment.
fn would_block<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
