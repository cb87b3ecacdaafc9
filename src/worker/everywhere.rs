//! What users do in all rooms together. Each user has one worker that is told of it, and that tells all workers when it is
//! too much: rooms learn of it a turn late, and wait for nobody.

use std::sync::Arc;

use danmaku_room::admission::everywhere::{Everywhere, Verdict};
use danmaku_room::admission::keyed_hash;
use danmaku_room::admission::restraints::Kind;
use danmaku_room::admission::rule::{Mode, Rule};
use danmaku_wire::entry::{Author, Role};
use danmaku_wire::native::ErrorCode;

use super::Worker;
use super::message::Control;
use crate::observe::limits::Limit;

/// Users that are looked at in a second for what is over.
const AGED_PER_S: usize = 1_024;

/// Something that a user did; users, rooms and texts by keyed hashes.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    user: u64,
    what: Deed,
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Said { room: u64, text: u64 },
    Moved,
}

/// Something that a user may not do for a time.
#[derive(Debug, Clone, Copy)]
pub struct Restraint {
    kind: Kind,
    key: u64,
    until_us: u64,
}

/// The users that this worker looks after, and what others are to be told of theirs.
pub(super) struct Watch {
    everywhere: Everywhere,
    seen: Vec<Vec<Seen>>,
}

impl Watch {
    pub(super) fn new(everywhere: Everywhere, workers: usize) -> Self {
        Self { everywhere, seen: (0..workers).map(|_| Vec::new()).collect() }
    }
}

impl Worker {
    /// A comment was taken in a room that is owned here. Rooms without a limit of users count for nothing, nor do VIPs.
    pub(super) fn note_said(&mut self, room: u32, user: &Author, text: &str) {
        let room = &self.rooms.get(room).id;
        let modes = &self.config.room(room).owner.limits.modes;
        let off = |rule| modes.at(rule) == Mode::Off;
        if off(Rule::UserRate)
            || off(Rule::Everywhere) && off(Rule::Spread)
            || user.role as u8 >= Role::Vip as u8
        {
            return;
        }
        let secret = self.config.secret();
        let by = keyed_hash(secret, &[user.id.as_str()]);
        let (room, text) = (keyed_hash(secret, &[room.as_str()]), text_of(secret, user, text));
        self.see(by, Deed::Said { room, text });
    }

    /// Whether a user may go to another room by what it does everywhere; it is told if it may not.
    pub(super) fn may_roam(&mut self, slot: u32) -> bool {
        if !self.config.moves_limited {
            return true;
        }
        let author = self.author(slot);
        let user = keyed_hash(self.config.secret(), &[author.id.as_str()]);
        let now_us = self.now.us;
        if let Some(wait_us) = self.gate.restraints().wait_us(Kind::Moves, user, now_us) {
            self.cells.met(Limit::Moves);
            self.refuse_until(slot, ErrorCode::RateLimited, wait_us.div_ceil(1_000));
            return false;
        }
        self.see(user, Deed::Moved);
        true
    }

    fn see(&mut self, user: u64, what: Deed) {
        let workers = self.watch.seen.len() as u64;
        self.watch.seen[(user % workers) as usize].push(Seen { user, what });
    }

    /// Tells of what was seen in this turn: one message for each worker.
    pub(super) fn post_seen(&mut self) {
        for worker in 0..self.watch.seen.len() {
            if self.watch.seen[worker].is_empty() {
                continue;
            }
            let seen = std::mem::take(&mut self.watch.seen[worker]).into_boxed_slice();
            if worker == usize::from(self.index) {
                self.judge_seen(&seen);
            } else {
                self.post_control(worker as u16, Control::Seen(seen));
            }
        }
    }

    /// Counts what users did that this worker looks after, and tells all workers of those who did too much.
    pub(super) fn judge_seen(&mut self, seen: &[Seen]) {
        let now_us = self.now.us;
        let everywhere = &mut self.watch.everywhere;
        let window_us = everywhere.bounds().text_window_us;
        let mut restraints = Vec::new();
        for Seen { user, what } in seen {
            let (kind, key, wait_us) = match *what {
                Deed::Said { room, text } => match everywhere.say(*user, room, text, now_us) {
                    Ok(Verdict::Pass) => continue,
                    Ok(Verdict::Review) => (Kind::Text, text, window_us),
                    Err(wait_us) => (Kind::Comments, *user, wait_us),
                },
                Deed::Moved => match everywhere.move_on(*user, now_us) {
                    Ok(()) => continue,
                    Err(wait_us) => (Kind::Moves, *user, wait_us),
                },
            };
            restraints.push(Restraint { kind, key, until_us: now_us + wait_us });
        }
        if restraints.is_empty() {
            return;
        }
        let restraints: Arc<[Restraint]> = restraints.into();
        for worker in 0..self.shared.post.len() {
            if worker != usize::from(self.index) {
                self.post_control(worker as u16, Control::Restrain(Arc::clone(&restraints)));
            }
        }
        self.restrain(&restraints);
    }

    /// Heeds what was found out about users.
    pub(super) fn restrain(&mut self, restraints: &[Restraint]) {
        for Restraint { kind, key, until_us } in restraints {
            self.gate.restraints().put(*kind, *key, *until_us, self.now.us);
        }
    }

    /// Forgets what is over; called once a second.
    pub(super) fn age_watch(&mut self) {
        self.watch.everywhere.age(AGED_PER_S, self.now.us);
        self.gate.restraints().age(self.now.us);
        self.cells.watched_users.set(self.watch.everywhere.len() as u64);
    }

    /// Takes other bounds over.
    pub(super) fn rebound_watch(&mut self) {
        self.watch.everywhere.set_bounds(self.config.everywhere);
    }
}

fn text_of(secret: &[u8; 16], user: &Author, text: &str) -> u64 {
    keyed_hash(secret, &[user.id.as_str(), text.trim()])
}
