//! What is looked at by the clock: slow readers, silent peers, closed sessions, and the numbers that operators see.

use danmaku_mailbox::Lane;
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::websocket::frame::{self, Opcode};

use super::identity::Tended;
use super::session::Flags;
use super::{SWEEP_US, Worker};
use crate::observe::limits::Limit;

/// Sweeps in a second.
const SWEEP_PARTS: u32 = (1_000_000 / SWEEP_US) as u32;

impl Worker {
    /// Ten times a second: slow readers, silent peers, closed sessions; once a second a look at all rooms begins.
    pub(super) fn sweep(&mut self) {
        if self.now.us < self.swept_us + SWEEP_US {
            return;
        }
        self.forgive_own_pause();
        self.swept_us = self.now.us;
        self.sweep_closing();
        self.sweep_blocked();
        self.resume_accepting();
        let second = (self.now.us / 1_000_000) as u32;
        if second != self.second {
            self.second = second;
            self.accept_rate.second(self.cells.connections_accepted.read());
            self.tell_held_errors();
            self.calls.forget_gone();
            self.begin_room_sweep();
            self.age_watch();
        }
        self.sweep_sessions();
        self.note_load();
        self.cells.rooms.set(self.rooms.len() as u64);
        self.cells.handshakes.set(self.front.waiting() as u64);
        // The table is everybody's: one tells of it.
        if self.index == 0 {
            let (addresses, overflow) = self.shared.addresses.used();
            self.cells.addresses.set(addresses as u64);
            self.cells.addresses_overflow.set(overflow.into());
            let [tokens, tickets, users] = self.shared.identities.used();
            self.cells.tokens_remembered.set(tokens as u64);
            self.cells.tickets_open.set(tickets as u64);
            self.cells.users_changed.set(users as u64);
            let [made, compressed] = self.shared.snapshots.made();
            self.cells.snapshots_made.set(made);
            self.cells.snapshots_compressed.set(compressed);
            let (rules, bytes) = self.config.words_size;
            self.cells.word_rules.set(rules as u64);
            self.cells.word_bytes.set(bytes as u64);
            if let Some(hook) = &self.shared.hook {
                hook.tell_figures(&self.cells);
            }
        }
        let (encoder, post) = (&self.encoder, self.post(self.index));
        self.cells.forms_made.set(encoder.forms_made);
        self.cells.form_bytes.set(encoder.form_bytes);
        let depth =
            [Lane::Control, Lane::Vip, Lane::Normal].into_iter().map(|lane| post.depth(lane) as u64).sum();
        self.cells.mailbox_depth.set(depth);
        let wakes = self.shared.bells[usize::from(self.index)].rung();
        self.cells.wakes_sent.set(wakes);
    }

    fn sweep_closing(&mut self) {
        let now_us = self.now.us;
        let mut closing = std::mem::take(&mut self.closing);
        closing.retain(|(session, until)| match self.slab.live(*session) {
            Some(slot) if *until <= now_us || self.stopping && self.slab.hot(slot).flags.any(Flags::SHUT) => {
                self.reset_or_close(slot);
                false
            }
            live => live.is_some(),
        });
        self.closing.append(&mut closing);
    }

    fn reset_or_close(&mut self, slot: u32) {
        if self.slab.hot(slot).flags.any(Flags::SHUT) {
            self.gone(slot, DisconnectCode::Normal);
        } else {
            self.reset(slot, DisconnectCode::Normal);
        }
    }

    fn sweep_blocked(&mut self) {
        let deadline = self.now.us.saturating_sub(self.config.grace_us);
        let (mut blocked_now, mut kept) = (0, 0);
        let mut stuck = Vec::new();
        for room in self.rooms.with_blocked() {
            let view = &mut self.rooms.get(room).view;
            let slab = &mut self.slab;
            view.blocked.retain(|slot| {
                let hot = slab.hot(*slot);
                let stays = hot.flags.any(Flags::BLOCKED);
                if !stays {
                    hot.flags.clear(Flags::LISTED);
                }
                stays
            });
            blocked_now += view.blocked.len() as u64;
            for slot in &view.blocked {
                if let Some(tls) = &slab.hot(*slot).tls {
                    kept += tls.kept();
                    stuck.push(*slot);
                }
            }
            let late: Vec<u32> =
                view.blocked.iter().copied().filter(|s| slab.cold(*s).blocked_us <= deadline).collect();
            for slot in late {
                self.end_slow(slot);
            }
        }
        self.cells.blocked_now.set(blocked_now);
        self.cells.tls_kept_bytes.set(kept as u64);
        self.bound_tls(kept, stuck);
    }

    /// Lets the longest stuck go until what TLS keeps for full sockets is within the bound of half-written
    /// frames: a record that was sealed is just that.
    fn bound_tls(&mut self, mut kept: usize, mut stuck: Vec<u32>) {
        if kept <= self.config.tail_bytes_max {
            return;
        }
        stuck.retain(|slot| self.slab.occupied(*slot));
        stuck.sort_by_key(|slot| self.slab.cold(*slot).blocked_us);
        for slot in stuck {
            if kept <= self.config.tail_bytes_max {
                return;
            }
            kept -= self.slab.hot(slot).tls.as_ref().map_or(0, |tls| tls.kept());
            self.cells.slow_consumers.add(1);
            self.reset(slot, DisconnectCode::SlowConsumer);
        }
    }

    pub(super) fn resume_accepting(&mut self) {
        if self.is_frozen() {
            return;
        }
        for number in std::mem::take(&mut self.accept_paused) {
            let Some(listener) = self.listeners.get(usize::from(number)) else { continue };
            if let Err(error) = self.poller.add_listener(&listener.socket, number) {
                tracing::error!(%error, "cannot watch a listener");
                self.accept_paused.push(number);
            }
        }
    }

    /// Asks peers that have been silent, and lets go of those who did not answer. Each sweep looks at a
    /// tenth of the slab, so that a million sessions stop nobody.
    fn sweep_sessions(&mut self) {
        let (ping_after, pong_within) = (self.config.ping_after_s, self.config.pong_within_s);
        let (slots, part) = (self.slab.slots(), self.sweeps % SWEEP_PARTS);
        self.sweeps = self.sweeps.wrapping_add(1);
        let share = slots.div_ceil(SWEEP_PARTS);
        for slot in (part * share).min(slots)..((part + 1) * share).min(slots) {
            if !self.slab.occupied(slot) {
                continue;
            }
            let hot = self.slab.hot(slot);
            if hot.due_s > self.second || hot.flags.any(Flags::CLOSING) {
                continue;
            }
            match self.tend_token(slot) {
                Tended::Ended => continue,
                // Whether the peer is there is asked another time: an answer that is still out has all of its own.
                Tended::Told => {
                    let hot = self.slab.hot(slot);
                    let pinged = hot.flags.any(Flags::PINGED);
                    hot.due_s = self.second + if pinged { pong_within } else { ping_after };
                    self.watch_token(slot);
                    continue;
                }
                Tended::Nothing => {}
            }
            let hot = self.slab.hot(slot);
            if hot.flags.any(Flags::ACTIVE) {
                hot.flags.clear(Flags::ACTIVE);
                hot.due_s = self.second + ping_after;
            } else if hot.flags.any(Flags::PINGED) {
                self.cells.met(Limit::Silence);
                self.gone(slot, DisconnectCode::Normal);
            } else {
                hot.flags.set(Flags::PINGED);
                hot.due_s = self.second + pong_within;
                self.cells.pings_sent.add(1);
                if hot.flags.any(Flags::SSE) {
                    // An event stream cannot answer: a comment line finds out whether it is still there.
                    hot.flags.clear(Flags::PINGED);
                    hot.due_s = self.second + ping_after;
                    self.outbox(slot, |out| out.extend_from_slice(b":\n\n"));
                } else {
                    self.ask_whether_there(slot);
                }
            }
            // A ping may have found out that nobody is there.
            if self.slab.occupied(slot) && !self.slab.hot(slot).flags.any(Flags::PINGED) {
                self.watch_token(slot);
            }
        }
    }

    /// Sends a ping. That it could be written is no sign of life, as other writes are: a peer that is gone takes it too.
    fn ask_whether_there(&mut self, slot: u32) {
        let session = self.slab.reference(slot);
        self.outbox(slot, |out| frame::write(out, Opcode::Ping, false, b""));
        if !self.slab.hot(slot).flags.any(Flags::BLOCKED) {
            self.flush(slot);
        }
        if let Some(slot) = self.slab.live(session) {
            self.slab.hot(slot).flags.clear(Flags::ACTIVE);
        }
    }
}
