//! The one thread that writes.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use danmaku_room::house::House;
use danmaku_room::store::{Append, Durability, Progress};
use danmaku_wire::id::RoomId;
use rusqlite::Connection;

use super::commit::{CommitError, Doubt, Misfit, Page};
use super::day::Day;
use super::decisions;
use super::schema::{self, FileError};
use super::{Faults, Job, Question, Settings};
use crate::store::tally::StoreTally;

/// How long a store that cannot be written is left alone, at first and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

pub(super) struct Writer {
    dir: PathBuf,
    interval: Duration,
    relaxed: Duration,
    entries_max: usize,
    faults: Faults,
    questions: Sender<Question>,
    wal: Sender<PathBuf>,
    /// How many files were begun, for whoever reads.
    begun: Arc<AtomicU64>,
    closing: Arc<AtomicBool>,
    tally: Arc<StoreTally>,
    page: Option<(Day, Page)>,
    /// What is to be taken out before anything else is written.
    doubts: Vec<Doubt>,
    /// Decisions that are not on the disk yet, and the file that they go to.
    houses: HashMap<RoomId, House>,
    decisions: Option<Connection>,
    began: Instant,
}

/// What is committed together.
#[derive(Default)]
struct Group {
    appends: Vec<(Append, Arc<Progress>)>,
    rooms: HashSet<RoomId>,
    entries: usize,
    bytes: usize,
    questions: Vec<Question>,
    due: Option<Instant>,
    last: bool,
}

impl Writer {
    pub(super) fn new(
        settings: &Settings,
        questions: Sender<Question>,
        wal: Sender<PathBuf>,
        begun: Arc<AtomicU64>,
        closing: Arc<AtomicBool>,
        tally: Arc<StoreTally>,
    ) -> Self {
        Self {
            dir: settings.dir.clone(),
            interval: settings.commit_interval,
            relaxed: settings.relaxed_interval,
            entries_max: settings.commit_entries,
            faults: settings.faults.clone(),
            questions,
            wal,
            begun,
            closing,
            tally,
            page: None,
            doubts: Vec::new(),
            houses: HashMap::new(),
            decisions: None,
            began: Instant::now(),
        }
    }

    /// Opens the file of today, or the newest one where the clock has gone back behind it.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(&mut self) -> Result<(), FileError> {
        let days = Day::in_dir(&self.dir);
        let days = days.map_err(|source| FileError::Io { path: self.dir.clone(), source })?;
        let newest = days.last().copied().max(self.page.as_ref().map(|(day, _)| *day));
        let today = Day::today();
        let day = today.max(newest.unwrap_or(today));
        if day > today && self.page.is_none() {
            tracing::warn!(
                newest = %day.file(&self.dir).display(),
                "the clock is behind the newest file of the store: entries go there until it has caught up"
            );
        }
        let path = day.file(&self.dir);
        let mut page = Page::new(schema::open_to_write(&path, schema::DAY)?, self.faults.clone());
        if !self.doubts.is_empty() {
            let removed = page
                .settle(&self.doubts)
                .map_err(|source| FileError::Sqlite { path: path.clone(), source })?;
            tracing::warn!(removed, "took out what a failed commit had left");
            self.doubts.clear();
        }
        if self.tally.is_down() {
            page.probe().map_err(|source| FileError::Sqlite { path: path.clone(), source })?;
        }
        self.page = Some((day, page));
        self.begun.fetch_add(1, Ordering::Release);
        // Whoever moves logs ends with the process.
        let _ = self.wal.send(path);
        Ok(())
    }

    pub(super) fn run(mut self, queue: &Receiver<Job>) {
        loop {
            let job = if self.tally.is_down() || !self.houses.is_empty() {
                match queue.recv_timeout(RETRY[1]) {
                    Err(RecvTimeoutError::Timeout) => {
                        self.be_open(true);
                        self.keep();
                        continue;
                    }
                    job => job.ok(),
                }
            } else {
                queue.recv().ok()
            };
            let Some(job) = job else { return };
            let mut group = Group::default();
            self.take(&mut group, job);
            while !group.last && group.entries < self.entries_max {
                let Some(due) = group.due else { break };
                let wait = due.saturating_duration_since(Instant::now());
                match queue.recv_timeout(wait) {
                    Ok(job) => self.take(&mut group, job),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => group.last = true,
                }
            }
            let last = group.last;
            self.finish(group);
            if last {
                return;
            }
        }
    }

    fn take(&mut self, group: &mut Group, job: Job) {
        match job {
            Job::Append(append, progress, bytes) => {
                let now = Instant::now();
                let wait = if append.durability == Durability::Stored { self.interval } else { self.relaxed };
                let due = now.max(self.began + wait);
                group.due = Some(group.due.map_or(due, |before| before.min(due)));
                group.entries += append.entries.len();
                group.bytes += bytes;
                group.rooms.insert(append.room.clone());
                group.appends.push((append, progress));
            }
            Job::Keep(room, house) => {
                let due = Instant::now().max(self.began + self.interval);
                group.due = Some(group.due.map_or(due, |before| before.min(due)));
                group.rooms.insert(room.clone());
                self.houses.insert(room, *house);
            }
            // What an owner before has appended is to be found.
            Job::Load(question) if group.rooms.contains(&question.room) => {
                group.due = Some(Instant::now());
                group.questions.push(question);
            }
            Job::Load(question) => {
                let _ = self.questions.send(question);
            }
            Job::Stop => group.last = true,
        }
    }

    fn finish(&mut self, group: Group) {
        let Group { appends, entries, bytes, questions, last, .. } = group;
        let mut appends = appends;
        // Behind a hole nothing is stored: an owner whose append failed makes way for another.
        appends.retain(|(append, progress)| {
            let gone = progress.failed() > progress.stored();
            if gone {
                self.give_up(append, progress);
            }
            !gone
        });
        self.settle(&appends, entries, last);
        self.keep();
        self.tally.queue_bytes.fetch_sub(bytes as u64, Ordering::AcqRel);
        for question in questions {
            let _ = self.questions.send(question);
        }
    }

    /// Sees to it that each append is answered, however long that takes.
    fn settle(&mut self, appends: &[(Append, Arc<Progress>)], entries: usize, last: bool) {
        if appends.is_empty() {
            return;
        }
        let mut wait = RETRY[0];
        while self.be_open(last) {
            self.began = Instant::now();
            let Some((_, page)) = &mut self.page else { break };
            match page.commit(appends.iter().map(|(append, _)| append)) {
                Ok(fitted) => return self.answer(appends, fitted, entries),
                // Nothing was written: what waits is not lost by waiting.
                Err(CommitError::NotBegun(error)) => {
                    self.fail(&error);
                    if last || self.closing.load(Ordering::Acquire) {
                        break;
                    }
                    std::thread::sleep(wait);
                    wait = (wait * 2).min(RETRY[1]);
                }
                Err(CommitError::Failed(error)) => {
                    self.tally.failures.fetch_add(1, Ordering::Relaxed);
                    self.fail(&error);
                    tracing::error!(entries, "what was in the failed commit is answered with `not_stored`");
                    self.doubts.extend(appends.iter().map(|(append, _)| Doubt {
                        room: append.room.clone(),
                        after: append.expected,
                        to: end(append),
                    }));
                    break;
                }
            }
        }
        appends.iter().for_each(|(append, progress)| self.give_up(append, progress));
        // Most of what goes wrong once goes right the next time.
        self.be_open(true);
    }

    /// Writes what staff decided. Unlike entries it can be written again: what counts is the last.
    fn keep(&mut self) {
        if self.houses.is_empty() {
            return;
        }
        match decisions::write(&mut self.decisions, &self.dir, &self.houses) {
            Ok(()) => self.houses.clear(),
            Err(error) => {
                self.decisions = None;
                self.tally.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, rooms = self.houses.len(), "decisions of staff cannot be kept; trying again");
            }
        }
    }

    fn answer(&self, appends: &[(Append, Arc<Progress>)], fitted: Vec<Result<(), Misfit>>, entries: usize) {
        let us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.tally.committed(entries as u64, us);
        for ((append, progress), fitted) in appends.iter().zip(fitted) {
            match fitted {
                Ok(()) => progress.store_to(end(append)),
                Err(misfit) => {
                    let room = append.room.as_str();
                    tracing::error!(room, ?misfit, "an append does not follow what is stored");
                    self.give_up(append, progress);
                }
            }
        }
    }

    fn fail(&mut self, error: &dyn std::fmt::Display) {
        self.page = None;
        if self.tally.set_down(true) {
            tracing::error!(%error, "a commit failed; nothing is stored until the store works again");
        }
    }

    /// Sees that there is a file to write to, however long that takes, or tries it `once`; meanwhile the queue waits and
    /// rooms stop at what they may have unstored.
    fn be_open(&mut self, once: bool) -> bool {
        if self.page.as_ref().is_some_and(|(day, _)| *day >= Day::today()) {
            return true;
        }
        let mut wait = RETRY[0];
        loop {
            match self.open() {
                Ok(()) => {
                    if self.tally.set_down(false) {
                        tracing::info!("the store works again");
                    }
                    return true;
                }
                Err(error) => {
                    if self.tally.set_down(true) {
                        tracing::error!(%error, "nothing can be stored; trying again");
                    }
                }
            }
            // Whoever ends the process does not wait for a disk.
            if once || self.closing.load(Ordering::Acquire) {
                return false;
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(RETRY[1]);
        }
    }

    fn give_up(&self, append: &Append, progress: &Arc<Progress>) {
        self.tally.given_up.fetch_add(append.entries.len() as u64, Ordering::Relaxed);
        progress.fail_to(end(append));
    }
}

fn end(append: &Append) -> u64 {
    append.entries.last().map_or(append.expected, |entry| entry.seq)
}
