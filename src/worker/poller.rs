//! The worker's own edge-triggered epoll set, nested in the runtime's.
//!
//! Sessions are registered once and never again; event data is generation and slot. The nested set's
//! outer registration is edge-triggered too, so its readiness may be cleared only after a wait that
//! returned nothing: otherwise events that were left behind would never wake anyone.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use tokio::io::unix::AsyncFd;

use crate::worker::slab::SessionRef;

/// Events taken in one turn.
const EVENTS: usize = 256;
/// Event data of the first listener; those of the others follow. No session's slot is so high.
const LISTENERS: u64 = u64::MAX - u16::MAX as u64;
/// Event data of the mailbox bell.
const BELL: u64 = LISTENERS - 1;

/// What became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Connections wait to be accepted at this listener.
    Listener(u16),
    /// The mailbox has something.
    Bell,
    /// A session's socket.
    Session {
        /// Which.
        session: SessionRef,
        /// There is input, or the peer has closed or failed.
        readable: bool,
        /// There is room.
        writable: bool,
        /// The peer is done or gone: read to the end.
        hup: bool,
    },
}

/// The epoll set.
#[derive(Debug)]
pub struct Poller {
    epoll: AsyncFd<OwnedFd>,
}

impl Poller {
    /// An empty set. Must be called within the worker's runtime.
    ///
    /// # Errors
    /// When the system refuses another descriptor.
    #[expect(
        deprecated,
        reason = "sound for a descriptor that is owned here and never swapped; the other one is unsafe"
    )]
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll: AsyncFd::with_interest(epoll, tokio::io::Interest::READABLE)? })
    }

    /// Watches a listening socket, level-triggered: what is not accepted in one turn is in the next. Several
    /// workers may watch one: not all of them are woken then.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add_listener(&self, socket: impl AsFd, number: u16) -> io::Result<()> {
        let data = EventData::new_u64(LISTENERS + u64::from(number));
        Ok(epoll::add(self.epoll.get_ref(), socket, data, EventFlags::IN | EventFlags::EXCLUSIVE)?)
    }

    /// Stops watching a listening socket.
    pub fn remove_listener(&self, socket: impl AsFd) {
        let _ = epoll::delete(self.epoll.get_ref(), socket);
    }

    /// Makes the bell that other threads ring, and watches it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add_bell(&self) -> io::Result<OwnedFd> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(self.epoll.get_ref(), &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        Ok(bell)
    }

    /// Watches a session's socket for everything, once and for all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add_session(&self, socket: impl AsFd, session: SessionRef) -> io::Result<()> {
        let data = EventData::new_u64(u64::from(session.generation) << 32 | u64::from(session.slot));
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(self.epoll.get_ref(), socket, data, flags)?)
    }

    /// Stops watching a session's socket, which another worker is about to watch.
    ///
    /// # Errors
    /// When it was not watched.
    pub fn remove_session(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(self.epoll.get_ref(), socket)?)
    }

    /// What is ready now, without waiting.
    ///
    /// # Errors
    /// When the set itself is broken.
    pub fn poll(&self, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let (events, _) = match epoll::wait(self.epoll.get_ref(), &mut events, Some(&zero)) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        ready.extend(events.iter().map(|event| match event.data.u64() {
            BELL => Ready::Bell,
            data @ LISTENERS.. => Ready::Listener((data - LISTENERS) as u16),
            data => {
                let flags = event.flags;
                let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                Ready::Session {
                    session: SessionRef { slot: data as u32, generation: (data >> 32) as u32 },
                    readable: broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                    writable: broken || flags.contains(EventFlags::OUT),
                    hup: broken || flags.contains(EventFlags::RDHUP),
                }
            }
        }));
        Ok(())
    }

    /// Waits until something is ready. Only to be called after [`Self::poll`] found nothing.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn wait(&self) -> io::Result<()> {
        // Ready since before the last poll, perhaps: that poll found the set empty, so this readiness
        // is spent. An event that came in between has made the outer set fire once more.
        let mut guard = self.epoll.readable().await?;
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut one = [rustix::event::PollFd::new(self.epoll.get_ref(), rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut one, Some(&zero))? == 0 {
            guard.clear_ready();
        }
        Ok(())
    }
}

/// Rings a bell from any thread. A full counter means it rings already.
pub fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Takes what rang.
pub fn hush(bell: &OwnedFd) {
    let mut count = [0u8; 8];
    let _ = rustix::io::read(bell, &mut count);
}
