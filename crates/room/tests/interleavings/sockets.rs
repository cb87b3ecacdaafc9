//! From a replica to its members' sockets, as the server's worker does it: passes, flushes, the rest of
//! half-written frames, gaps and eviction.

use danmaku_room::batch::Kind;
use danmaku_room::form::{Encoder, Encoding};
use danmaku_wire::entry::Tier;
use danmaku_wire::native::{Gap, Pong, RoomUpdate, ServerMessage};

use super::world::{BATCH_BYTES, OVERSHOOT, Worker, World};

impl World {
    /// The socket takes bytes.
    pub(crate) fn deliver(&mut self, slot: usize, bytes: &[u8]) {
        let connection = self.connections[slot].as_mut().expect("a member");
        connection.sent += bytes.len();
        self.viewers[slot].receive(bytes, &self.truth);
    }

    /// Offers the outbox; whether it is empty now.
    pub(crate) fn flush_outbox(&mut self, slot: usize, budget: &mut usize) -> bool {
        let connection = self.connections[slot].as_mut().expect("a member");
        let taken = connection.outbox.len().min(*budget);
        *budget -= taken;
        let bytes: Vec<u8> = connection.outbox.drain(..taken).collect();
        let empty = connection.outbox.is_empty();
        connection.blocked |= !empty;
        self.deliver(slot, &bytes);
        empty
    }

    pub(crate) fn writable(&mut self, slot: usize, accept: usize) {
        if let Some(connection) = &mut self.connections[slot] {
            connection.blocked = false;
            self.flush(slot, accept);
        }
    }

    /// Brings one viewer forward by at most `budget` bytes: rest of a frame, outbox, whole batches.
    pub(crate) fn flush(&mut self, slot: usize, mut budget: usize) {
        loop {
            if self.connection(slot).cursor.offset == 0 && !self.flush_outbox(slot, &mut budget) {
                return;
            }
            let connection = self.connections[slot].as_mut().expect("a member");
            let Worker { replica, encoder, .. } = &mut self.workers[connection.worker];
            if replica.lapped(connection.cursor) {
                self.tell_gap(slot);
                continue;
            }
            let frame_due = connection.cursor.offset > 0;
            let bytes_max =
                if frame_due && !connection.outbox.is_empty() { 0 } else { self.setup.run_bytes_max };
            let run = replica.run(connection.cursor.seq, connection.key, bytes_max, &[], encoder);
            let Some(run) = run else { return };
            let offset = connection.cursor.offset as usize;
            let rest = run.bytes()[offset..].to_vec();
            assert!(!rest.is_empty(), "a run brings its cursor forward");
            let taken = rest.len().min(budget);
            budget -= taken;
            connection.cursor = run.cursor_at(offset + taken);
            connection.blocked |= taken < rest.len();
            self.deliver(slot, &rest[..taken]);
            if taken < rest.len() {
                return;
            }
        }
    }

    /// A pass over all members of a worker whose sockets are not full.
    pub(crate) fn pass(&mut self, at: usize, accept: &[usize], counts: bool) {
        let end = self.workers[at].replica.head();
        let mut trailer = Vec::new();
        if counts {
            let update = ServerMessage::Room(RoomUpdate { online: 7, ..RoomUpdate::default() });
            self.workers[at].encoder.control(&update, Encoding::Json, &mut trailer);
        }
        for slot in self.members(at) {
            let mut budget = accept[slot % accept.len()];
            while !self.connection(slot).blocked && self.pass_one(slot, &trailer, &mut budget, end) {}
        }
        self.workers[at].replica.delivered_to(end);
        self.evict(at);
    }

    /// One write of a pass; whether there is more for this member.
    fn pass_one(&mut self, slot: usize, trailer: &[u8], budget: &mut usize, end: u64) -> bool {
        if !self.flush_outbox(slot, budget) {
            return false;
        }
        let connection = self.connections[slot].as_mut().expect("a member");
        let Worker { replica, encoder, .. } = &mut self.workers[connection.worker];
        assert_eq!(connection.cursor.offset, 0, "who is not blocked stands at a frame's border");
        if replica.lapped(connection.cursor) {
            self.tell_gap(slot);
            self.flush(slot, *budget);
            return false;
        }
        let start = connection.cursor.seq;
        let Some(run) = replica.run(start, connection.key, self.setup.run_bytes_max, trailer, encoder) else {
            return false;
        };
        assert!(run.next > start || start > end, "who is owed something is brought forward");
        let taken = run.bytes().len().min(*budget);
        *budget -= taken;
        connection.cursor = run.cursor_at(taken);
        if taken < run.bytes().len() {
            connection.blocked = true;
            connection.outbox.extend_from_slice(run.trailer_after(taken));
        }
        let bytes = run.bytes()[..taken].to_vec();
        assert!(
            trailer.is_empty() || run.next <= replica.head() || run.bytes().ends_with(trailer),
            "a run that reaches the head carries the trailer"
        );
        self.deliver(slot, &bytes);
        !self.connection(slot).blocked && run.next <= end
    }

    fn tell_gap(&mut self, slot: usize) {
        let connection = self.connections[slot].as_mut().expect("a member");
        let Worker { replica, encoder, .. } = &mut self.workers[connection.worker];
        let (mut from, out) = (connection.cursor.seq, &mut connection.outbox);
        let gap = |encoder: &mut Encoder, out: &mut Vec<u8>, epoch, from, to| {
            if from <= to {
                let gap = Gap { epoch, from, to, reason: "slow_consumer" };
                encoder.control(&ServerMessage::Gap(gap), Encoding::Json, out);
            }
        };
        if let Some(change) = replica.change_ahead(connection.cursor) {
            let Kind::EpochChange { prev } = &change.kind else { panic!("{change:?} is no change") };
            gap(encoder, out, Some(prev.epoch.as_str()), from, prev.seq);
            out.extend_from_slice(&encoder.form(change, connection.key));
            from = change.to + 1;
        }
        gap(encoder, out, None, from, replica.head());
        connection.cursor = replica.live();
    }

    pub(crate) fn keep_tail(&mut self, slot: usize) {
        let connection = self.connections[slot].as_mut().expect("a member");
        if connection.cursor.offset == 0 {
            return;
        }
        let Worker { replica, encoder, .. } = &mut self.workers[connection.worker];
        let (rest, cursor) = replica
            .rest_of_frame(connection.cursor, connection.key, encoder)
            .expect("a half-written frame's batch is in the ring");
        connection.cursor = cursor;
        connection.outbox.splice(0..0, rest);
    }

    pub(crate) fn change_tier(&mut self, slot: usize, tier: Tier) {
        if self.connections[slot].is_none() {
            return;
        }
        self.keep_tail(slot);
        let connection = self.connections[slot].as_mut().expect("a member");
        connection.key.tier = tier;
        self.viewers[slot].tier_from(connection.sent + connection.outbox.len(), tier);
    }

    pub(crate) fn tell(&mut self, slot: usize, accept: usize) {
        let Some(connection) = &mut self.connections[slot] else { return };
        let encoder = &mut self.workers[connection.worker].encoder;
        encoder.control(&ServerMessage::Pong(Pong { t: 1 }), Encoding::Json, &mut connection.outbox);
        if !connection.blocked {
            self.flush(slot, accept);
            let connection = self.connection(slot);
            assert!(connection.blocked || connection.outbox.is_empty(), "an answer waits for no batch");
        }
    }

    pub(crate) fn evict(&mut self, at: usize) {
        let bytes_max = self.setup.ring_batches * BATCH_BYTES;
        while let Some(oldest) = self.workers[at].replica.over_bounds(self.now.us) {
            let (to, bytes) = (oldest.to, self.workers[at].replica.bytes());
            for slot in self.members(at) {
                let connection = self.connection(slot);
                assert!(
                    connection.blocked || connection.cursor.seq > to || bytes > OVERSHOOT * bytes_max,
                    "viewer {slot} keeps up and still needs {to}"
                );
                if connection.cursor.seq <= to {
                    self.keep_tail(slot);
                }
            }
            self.workers[at].replica.evict();
        }
        let replica = &self.workers[at].replica;
        assert_eq!(replica.bytes(), replica.batches().map(|b| b.bytes).sum::<usize>());
        assert!(replica.bytes() <= OVERSHOOT * bytes_max || replica.batches().count() == 1);
    }
}
