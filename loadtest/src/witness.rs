//! Witnesses: a few subscribers who use the Rust client instead of a bare socket, so that the client is
//! under load too. Each writes down every number it is shown; at the end the list is compared with what
//! was published.
//!
//! They live on a thread of their own with tokio's runtime and share nothing with the drivers.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use danmaku_client::{Client, Event, EventStream, Handle, Options, State, Tier};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout_at};

use crate::error::LoadError;

/// How long all of them may take to join.
const JOIN_WITHIN: Duration = Duration::from_secs(30);
/// Between two looks at how far a witness has come once publishing is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a witness has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Testimony {
    /// The position at which it came in: everything later is owed.
    pub since: u64,
    /// How far it was told.
    pub told: u64,
    /// Every number it was shown, in the order in which it came.
    pub shown: Vec<u64>,
    /// Entries told as lost.
    pub lost: u64,
    /// Connections after the first.
    pub reconnects: u64,
    /// Times its position was lost.
    pub resets: u64,
}

/// What is wrong with a testimony.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audit {
    /// Numbers that are not there.
    pub missing: u64,
    /// Numbers that are there more than once.
    pub doubled: u64,
    /// Numbers that came after a higher one.
    pub disordered: u64,
}

impl Testimony {
    /// Compares the list with everything up to `last`. Without `all_visible` some entries are not for this
    /// viewer, so that none can be called missing; how far the witness was told still counts.
    pub fn audit(&self, last: u64, all_visible: bool) -> Audit {
        let mut sorted = self.shown.clone();
        sorted.sort_unstable();
        let before = sorted.len();
        sorted.dedup();
        let owed = last.saturating_sub(self.since);
        let had = sorted.iter().filter(|seq| (self.since + 1..=last).contains(*seq)).count() as u64;
        Audit {
            missing: if all_visible { owed - had } else { last.saturating_sub(self.told) },
            doubled: (before - sorted.len()) as u64,
            disordered: self.shown.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64,
        }
    }
}

/// Witnesses at work.
#[derive(Debug)]
pub struct Witnesses {
    /// The number to wait for, once it is known, and until when.
    end: watch::Sender<Option<(u64, Instant)>>,
    thread: JoinHandle<Result<Vec<Testimony>, LoadError>>,
}

impl Witnesses {
    /// Lets `count` witnesses join a room, and waits until they have.
    ///
    /// # Errors
    /// When not all of them can.
    pub fn start(url: &str, room: &str, tier: Tier, count: usize) -> Result<Self, LoadError> {
        let mut options = Options::new(url, room);
        options.tier = Some(tier);
        options.snapshot = false;
        let (end, heard) = watch::channel(None);
        let (joined, all_joined) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("witnesses".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(LoadError::Runtime)?.block_on(work(options, count, heard, joined))
        });
        let witnesses = Self { end, thread: thread.map_err(LoadError::Runtime)? };
        match all_joined.recv() {
            Ok(()) => Ok(witnesses),
            // The thread has ended without a word here; what it returns is why.
            Err(_) => Err(witnesses
                .thread
                .join()
                .map_or(LoadError::Panicked, |result| result.err().unwrap_or(LoadError::Panicked))),
        }
    }

    /// Waits until each witness was told of everything up to `last`, at most for `patience`.
    ///
    /// # Errors
    /// When their thread broke.
    pub fn finish(self, last: u64, patience: Duration) -> Result<Vec<Testimony>, LoadError> {
        // Where the thread has ended already, its result says so.
        let _ = self.end.send(Some((last, Instant::now() + patience)));
        self.thread.join().map_err(|_| LoadError::Panicked)?
    }
}

type End = watch::Receiver<Option<(u64, Instant)>>;

async fn work(
    options: Options,
    count: usize,
    end: End,
    joined: mpsc::SyncSender<()>,
) -> Result<Vec<Testimony>, LoadError> {
    let patience = Instant::now() + JOIN_WITHIN;
    let mut working = JoinSet::new();
    for open in 0..count {
        let refused = |why: String| LoadError::Connect { open, asked: count, why };
        let (handle, mut events) = Client::connect(options.clone()).map_err(|e| refused(e.to_string()))?;
        let first = timeout_at(patience, first_join(&mut events)).await;
        let since = first.unwrap_or_else(|_| Err("no answer".to_owned())).map_err(refused)?;
        let testimony = Testimony { since, told: since, ..Testimony::default() };
        working.spawn(testify(handle, events, testimony, end.clone()));
    }
    drop(end);
    // Only a thread that has given up waiting does not hear it.
    let _ = joined.send(());
    Ok(working.join_all().await)
}

/// The position at which a witness comes in.
async fn first_join(events: &mut EventStream) -> Result<u64, String> {
    loop {
        match events.next().await {
            Some(Event::Joined(joined)) => return Ok(joined.seq),
            Some(Event::State(State::Waiting { why, .. } | State::Closed { why })) => {
                return Err(format!("a witness could not join: {}", why.reason));
            }
            Some(_) => {}
            None => return Err("a witness ended".to_owned()),
        }
    }
}

/// Writes down what comes until everything has, then closes and takes what is still under way.
async fn testify(handle: Handle, mut events: EventStream, mut testimony: Testimony, end: End) -> Testimony {
    let mut looks = interval(LOOK_EVERY);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => testimony.note(event),
                None => return testimony,
            },
            _ = looks.tick() => {
                testimony.told = handle.position().map_or(testimony.told, |position| position.seq);
                let over = end.borrow().is_some_and(|(last, until)| {
                    testimony.told >= last || Instant::now() >= until
                });
                // Without the sender the run has failed elsewhere.
                if over || end.has_changed().is_err() {
                    handle.close().await;
                }
            }
        }
    }
}

impl Testimony {
    fn note(&mut self, event: Event) {
        match event {
            Event::Item { item, .. } => self.shown.push(item.seq),
            Event::Gap { from, to, .. } => self.lost += to.saturating_sub(from) + 1,
            Event::Joined(_) => self.reconnects += 1,
            Event::Reset(_) => self.resets += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Testimony::audit`: holes, doubles and disorder are counted; what is not owed is not missed.
    #[test]
    fn a_list_is_compared_with_what_was_published() {
        let check = |shown: &[u64], told, all_visible, missing, doubled, disordered| {
            let testimony = Testimony { since: 10, told, shown: shown.to_vec(), ..Testimony::default() };
            let audit = Audit { missing, doubled, disordered };
            assert_eq!(testimony.audit(14, all_visible), audit, "{shown:?}");
        };
        check(&[11, 12, 13, 14], 14, true, 0, 0, 0);
        check(&[11, 12, 13, 14, 15], 15, true, 0, 0, 0);
        check(&[11, 14], 14, true, 2, 0, 0);
        check(&[11, 12, 12, 13, 14], 14, true, 0, 1, 0);
        check(&[12, 11, 13, 14], 14, true, 0, 0, 1);
        check(&[], 10, true, 4, 0, 0);
        check(&[12, 14], 14, false, 0, 0, 0);
        check(&[12], 13, false, 1, 0, 0);
    }
}
