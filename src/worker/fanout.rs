//! From a replica's news to its members' sockets.

use std::ops::Range;
use std::sync::Arc;

use danmaku_room::form::{Encoder, Encoding, FormKey};
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::entry::Entry;
use danmaku_wire::native::ServerMessage;

use super::output::{Flushed, RUN_BYTES_MAX, block, flush_outbox};
use super::rooms::{Follow, Pass};
use super::session::{Cold, Flags};
use super::{PASSES_US, Worker};
use crate::egress::{Offer, offer};
use crate::observe::limits::Limit;

/// Writes between two looks at the clock.
const SLICE_WRITES: usize = 32;
/// Members looked at in one slice, written to or not.
const SLICE_LOOKS: usize = 2_048;
/// How many times a spaced pass takes up what has come since it began.
const FRESHENINGS: u32 = 2;
/// Rooms with at most so many members go before the big ones.
const SMALL_ROOM: u32 = 64;

/// What a slice found out about members, to be acted on after it. Each member is looked at once in a
/// slice, so there is one finding for each at most.
enum Found {
    Gone(u32),
    Blocked(u32),
    Lapped(u32),
    /// It was given something that it alone sees.
    Own(u32),
}

impl Worker {
    /// Follows a room's chain and asks for a pass over what is new.
    pub(super) fn follow_chain(&mut self, room: u32, generation: Option<u32>) {
        let now_us = self.now.us;
        let Some(local) = self.rooms.get_if(room) else { return };
        if generation.is_some_and(|g| g != local.view.generation) {
            return;
        }
        // Cleared before the chain is read: what is appended after that puts a new token in.
        local.view.link_dirty.store(false, std::sync::atomic::Ordering::Release);
        let Follow::Active(replica) = &mut local.view.follow else { return };
        let pulled = replica.pull();
        if pulled.batches > 0 {
            local.view.note_state();
        }
        if pulled.lapped {
            self.cells.resyncs.add(1);
            return self.resync(room);
        }
        if pulled.batches == 0 {
            return;
        }
        // Of a room owned here the law has heard at the release already.
        if local.owner.is_none() {
            local.view.law.arrived(now_us, pulled.flushes);
        }
        self.want_pass(room);
        self.evict(room);
    }

    /// Puts a room on the list of those with something for a pass.
    pub(super) fn want_pass(&mut self, room: u32) {
        let view = &mut self.rooms.get(room).view;
        if view.member_count == 0 {
            if let Follow::Active(replica) = &mut view.follow {
                let head = replica.head();
                replica.delivered_to(head);
            }
            return;
        }
        if !view.dirty {
            view.dirty = true;
            if view.pass.is_none() {
                self.dirty.push(room);
            }
        }
    }

    /// Drops what a replica holds beyond its bounds, keeping the rest of half-written frames.
    pub(super) fn evict(&mut self, room: u32) {
        loop {
            let view = &mut self.rooms.get(room).view;
            let Follow::Active(replica) = &view.follow else { return };
            let Some(oldest) = replica.over_bounds(self.now.us) else { return };
            let to = oldest.to;
            for slot in view.blocked.clone() {
                let cursor = self.slab.hot(slot).cursor;
                if cursor.offset > 0 && cursor.seq <= to {
                    self.keep_tail(slot);
                }
            }
            let view = &mut self.rooms.get(room).view;
            if let Follow::Active(replica) = &mut view.follow {
                replica.evict();
            }
            while self.tail_bytes > self.config.tail_bytes_max {
                let blocked = self.rooms.get(room).view.blocked.clone();
                let Some(slot) = self.longest_stuck(blocked.into_iter()) else { break };
                self.cells.slow_consumers.add(1);
                self.cells.met(Limit::TailBytes);
                self.reset(slot, DisconnectCode::SlowConsumer);
            }
        }
    }

    /// Starts due passes and works on those under way, small rooms first, within the turn's share.
    /// Whether there is more to do at once.
    pub(super) fn turn_passes(&mut self) -> bool {
        if self.dirty.is_empty() {
            return false;
        }
        let until = self.elapsed_us() + PASSES_US;
        let mut rooms = std::mem::take(&mut self.dirty);
        rooms.retain(|room| {
            let view = &self.rooms.get(*room).view;
            view.pass.is_some() || view.dirty
        });
        // Small rooms first; the order among the big ones turns round with every slice.
        rooms.sort_by_key(|room| self.rooms.get(*room).view.member_count > SMALL_ROOM);
        let mut running = true;
        while running && !rooms.is_empty() {
            running = false;
            let mut left = Vec::with_capacity(rooms.len());
            let mut late = false;
            for room in rooms {
                let runs = !late && self.begin_pass(room);
                if runs {
                    running = true;
                    self.freshen_pass(room);
                    if self.pass_slice(room) {
                        self.finish_pass(room);
                    }
                    late = self.elapsed_us() > until;
                }
                let view = &self.rooms.get(room).view;
                if view.pass.is_some() || view.dirty {
                    left.push(room);
                }
            }
            rooms = left;
            if late {
                break;
            }
        }
        rooms.append(&mut self.dirty);
        self.dirty = rooms;
        if self.dirty.len() > 1 {
            self.dirty.rotate_left(1);
        }
        let now = self.elapsed_us();
        let dirty = std::mem::take(&mut self.dirty);
        let busy = dirty.iter().any(|room| {
            let view = &self.rooms.get(*room).view;
            view.pass.is_some() || view.pass_due_us().is_some_and(|due| due <= now)
        });
        self.dirty = dirty;
        busy
    }

    /// Whether a pass of this room is under way, started now if it is due.
    fn begin_pass(&mut self, room: u32) -> bool {
        let now_us = self.elapsed_us();
        let view = &self.rooms.get(room).view;
        if view.pass.is_some() {
            return true;
        }
        if view.pass_due_us().is_none_or(|due| due > now_us) {
            return false;
        }
        self.seal_now(room);
        let local = self.rooms.get(room);
        let online = local.online.load(std::sync::atomic::Ordering::Relaxed);
        let view = &mut local.view;
        let Follow::Active(replica) = &view.follow else { return false };
        let mut trailers = [Vec::new(), Vec::new(), Vec::new()];
        if view.has_counts_to_tell(online) {
            view.told_online = online;
            view.told_state = Some(Arc::clone(&view.state));
            let update = view.update(online);
            for encoding in [Encoding::Json, Encoding::Proto, Encoding::Sse] {
                let out = &mut trailers[encoding as usize];
                self.encoder.control(&ServerMessage::Room(update.clone()), encoding, out);
            }
        }
        view.dirty = false;
        view.law.set_members(view.member_count, online);
        view.pass_started_us = now_us;
        view.rotation = view.rotation.wrapping_add(127);
        view.pass = Some(Box::new(Pass {
            begun_at: replica.head(),
            end: replica.head(),
            freshened: 0,
            class: 0,
            first: 0,
            seen: 0,
            runs: Vec::new(),
            trailers,
            cpu_us: 0.0,
            again: false,
        }));
        true
    }

    /// Lets the members whose turn is still to come have what was said since the pass began, at each third
    /// of it. They would be written to once a tick either way; a comment waits for a tick and a third of
    /// a pass at most, instead of a tick and a whole one. Passes that run at once need none of that: the
    /// next one begins when this one ends.
    fn freshen_pass(&mut self, room: u32) {
        let view = &mut self.rooms.get(room).view;
        let Some(pass) = &mut view.pass else { return };
        let thirds = f64::from(pass.freshened + 1) / f64::from(FRESHENINGS + 1);
        let due = view.law.coalescing() && pass.cpu_us >= thirds * view.law.cost_us();
        if !due || pass.freshened == FRESHENINGS {
            return;
        }
        pass.freshened += 1;
        self.seal_now(room);
        let view = &mut self.rooms.get(room).view;
        let (Some(pass), Follow::Active(replica)) = (&mut view.pass, &view.follow) else { return };
        if replica.head() > pass.end {
            pass.end = replica.head();
            pass.runs.clear();
            // Those who had their turn are owed it by the next pass.
            view.dirty = true;
        }
    }

    /// Works on a pass for about [`SLICE_WRITES`] writes. Whether it has come to its end.
    fn pass_slice(&mut self, room: u32) -> bool {
        let cpu = thread_cpu_us();
        let mut found = Vec::new();
        let (mut writes, mut sent, mut delivered) = (0usize, 0u64, 0u64);
        let mut done = false;
        {
            let Worker { rooms, slab, encoder, now, .. } = self;
            let view = &mut rooms.get(room).view;
            let (Some(pass), Follow::Active(replica)) = (&mut view.pass, &view.follow) else { return true };
            let mut looks = 0;
            while writes < SLICE_WRITES && looks < SLICE_LOOKS {
                looks += 1;
                if pass.seen == 0 {
                    let members = view.members.get(pass.class).map_or(0, Vec::len);
                    pass.first = if members > 0 { view.rotation % members } else { 0 };
                }
                let Some((class, slot)) = pass.next(&view.members) else {
                    done = !pass.starts_over();
                    break;
                };
                let hot = slab.hot(slot);
                if hot.flags.any(Flags::NO_PASS) {
                    continue;
                }
                let owed = hot.cursor.seq <= pass.end;
                let key = FormKey::from_index(class);
                let trailer = &pass.trailers[key.encoding as usize];
                if !owed && trailer.is_empty() {
                    continue;
                }
                if hot.flags.any(Flags::QUEUED) {
                    let (hot, cold) = slab.both(slot);
                    writes += 1;
                    match flush_outbox(hot, cold, now.us, &mut sent) {
                        Flushed::Empty => {}
                        Flushed::Blocked => {
                            found.push(Found::Blocked(slot));
                            continue;
                        }
                        Flushed::Gone => {
                            found.push(Found::Gone(slot));
                            continue;
                        }
                    }
                }
                let hot = slab.hot(slot);
                if replica.lapped(hot.cursor) {
                    found.push(Found::Lapped(slot));
                    continue;
                }
                let start = hot.cursor.seq;
                let at = pass.runs.iter().position(|(c, run)| *c == class && run.start == start);
                let at = match at {
                    Some(at) => at,
                    None => {
                        let Some(run) = replica.run(start, key, RUN_BYTES_MAX, trailer, encoder) else {
                            continue;
                        };
                        if pass.runs.len() >= 8 {
                            pass.runs.swap_remove(0);
                        }
                        pass.runs.push((class, run));
                        pass.runs.len() - 1
                    }
                };
                let run = &pass.runs[at].1;
                let Some(fd) = &hot.fd else { continue };
                let bytes = run.bytes();
                writes += 1;
                match offer(fd, hot.tls.as_deref_mut(), bytes) {
                    Offer::Taken(taken) => {
                        sent += taken.bytes as u64;
                        hot.cursor = run.cursor_at(taken.bytes);
                        delivered += hot.cursor.seq - start;
                        hot.flags.set(Flags::ACTIVE);
                        let (private, reached) = (run.private(), hot.cursor.seq);
                        let own = run.may_owe(hot.flags.mark()) && {
                            let (_, cold) = slab.both(slot);
                            give_own(private, start..reached, cold, encoder)
                        };
                        if taken.full {
                            let (hot, cold) = slab.both(slot);
                            let rest = run.trailer_after(taken.bytes);
                            if !rest.is_empty() {
                                cold.outbox.get_or_insert_default().bytes.extend_from_slice(rest);
                            }
                            block(hot, cold, taken.moved, now.us);
                            found.push(Found::Blocked(slot));
                        } else {
                            if own {
                                found.push(Found::Own(slot));
                            }
                            // More is owed than one run carries: it comes round again.
                            pass.again |= run.next <= pass.end;
                        }
                    }
                    Offer::Gone => found.push(Found::Gone(slot)),
                }
            }
            pass.cpu_us += thread_cpu_us() - cpu;
        }
        self.cells.writes.add(writes as u64);
        self.cells.bytes_sent.add(sent);
        self.cells.delivered.add(delivered);
        for found in found {
            match found {
                Found::Gone(slot) => self.gone(slot, DisconnectCode::Normal),
                Found::Blocked(slot) => {
                    let hot = self.slab.hot(slot);
                    if !hot.flags.any(Flags::LISTED) {
                        hot.flags.set(Flags::LISTED);
                        self.cells.blocked.add(1);
                        self.rooms.add_blocked(room, slot);
                    }
                }
                Found::Own(slot) => self.queue(slot),
                Found::Lapped(slot) => {
                    self.tell_gap(slot);
                    self.flush(slot);
                }
            }
        }
        done
    }

    fn finish_pass(&mut self, room: u32) {
        let now_us = self.elapsed_us();
        let view = &mut self.rooms.get(room).view;
        let Some(pass) = view.pass.take() else { return };
        view.law.passed(now_us, pass.cpu_us);
        if let Follow::Active(replica) = &mut view.follow {
            replica.delivered_to(pass.begun_at);
        }
        self.cells.passes.add(1);
        self.cells.pass_cpu_us.add(pass.cpu_us as u64);
        self.evict(room);
    }
}

/// Gives a session what it alone sees of the numbers that it has just been brought over, right behind them. Whether
/// there was anything.
pub(super) fn give_own(
    private: &[Arc<Entry>],
    reached: Range<u64>,
    cold: &mut Cold,
    encoder: &mut Encoder,
) -> bool {
    let mut any = false;
    for entry in private.iter().filter(|entry| reached.contains(&entry.seq)) {
        if cold.is_author_of(entry) {
            let encoding = cold.encoding;
            encoder.private(entry, encoding, &mut cold.outbox.get_or_insert_default().bytes);
            any = true;
        }
    }
    any
}

/// CPU time of this thread, microseconds.
fn thread_cpu_us() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}
