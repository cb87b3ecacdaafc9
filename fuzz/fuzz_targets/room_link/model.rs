//! A log, its links, and beside them plain lists of what each must hold.

use std::ops::Range;
use std::sync::{Arc, Weak};

use danmaku_room::batch::Batch;
use danmaku_room::form::{Encoding, Form, FormKey};
use danmaku_room::log::{RingBounds, RoomLog};
use danmaku_room::replica::{Cursor, Pulled, Replica, Resume};
use danmaku_wire::entry::{Body, Entry, Tier, Visibility};
use danmaku_wire::position::{Epoch, Position};

const LINKS: usize = 3;
/// How far above its bound a ring may grow for a pass that is late, as the replica documents it.
const OVERSHOOT: usize = 4;
/// What the numbers of two epochs lie apart, as between an owner and the next.
const EPOCHS_APART: u64 = 7;

/// A batch that was sealed: what the model knows of it.
struct Sealed {
    batch: Weak<Batch>,
    epoch: Epoch,
    /// What stood before, where this is a change of epoch.
    prev: Option<Position>,
    from: u64,
    to: u64,
    bytes: usize,
    sealed_us: u64,
    flushes: u32,
    /// Links that still owe a word that they have delivered it.
    readers: u32,
    has_form: bool,
}

/// A link and what it must look like. Numbers are places in the list of all batches.
struct Link {
    replica: Replica,
    ring: Range<usize>,
    undelivered: usize,
    attached_at: u64,
    /// Of which log.
    restarts: u32,
}

pub(crate) struct World {
    log: RoomLog,
    bounds: RingBounds,
    ring_bounds: RingBounds,
    now_us: u64,
    epochs: u32,
    restarts: u32,
    next_seq: u64,
    all: Vec<Sealed>,
    held: Range<usize>,
    links: [Option<Link>; LINKS],
}

fn epoch(n: u32) -> Epoch {
    Epoch::parse(&format!("e{n}")).expect("valid")
}

fn exceeded(bounds: RingBounds, bytes: usize, oldest: &Sealed, now_us: u64) -> bool {
    bytes > bounds.bytes_max || now_us - oldest.sealed_us > bounds.age_max_us
}

impl World {
    pub(crate) fn new(bounds: RingBounds, ring_bounds: RingBounds) -> Self {
        Self {
            log: RoomLog::new(epoch(0), 1, bounds, 0),
            bounds,
            ring_bounds,
            now_us: 0,
            epochs: 0,
            restarts: 0,
            next_seq: 1,
            all: Vec::new(),
            held: 0..0,
            links: Default::default(),
        }
    }

    fn bytes(&self, places: Range<usize>) -> usize {
        self.all[places].iter().map(|sealed| sealed.bytes).sum()
    }

    fn readers(&self) -> u32 {
        self.links.iter().flatten().filter(|link| link.restarts == self.restarts).count() as u32
    }

    fn seal(&self, entries: usize, readers: u32) -> Arc<Batch> {
        let entries = (self.next_seq..self.next_seq + entries as u64)
            .map(|seq| {
                let body = Body::Pin { of: 0 };
                Arc::new(Entry { seq, at_ms: 0, visibility: Visibility::Tier(Tier::Lite), body })
            })
            .collect();
        Batch::seal(epoch(self.epochs), entries, self.now_us, 1 + readers, readers)
    }

    fn take_in(&mut self, batch: Arc<Batch>, readers: u32, prev: Option<Position>) {
        self.all.push(Sealed {
            batch: Arc::downgrade(&batch),
            epoch: batch.epoch.clone(),
            prev,
            from: batch.from,
            to: batch.to,
            bytes: batch.bytes,
            sealed_us: self.now_us,
            flushes: batch.flushes,
            readers,
            has_form: false,
        });
        self.next_seq = batch.to + 1;
        self.log.append(batch);
        self.held.end = self.all.len();
    }

    pub(crate) fn append(&mut self, entries: usize) {
        let readers = self.readers();
        let batch = self.seal(entries, readers);
        self.take_in(batch, readers, None);
    }

    pub(crate) fn wait(&mut self, us: u64) {
        self.now_us += us;
    }

    /// The log lets go of what is over its bounds and older than the newest `unstored` numbers.
    pub(crate) fn evict(&mut self, unstored: u64) {
        let stored = (self.next_seq - 1).saturating_sub(unstored);
        self.log.evict(stored, self.now_us);
        while let Some(oldest) = self.all[self.held.clone()].first() {
            let bytes = if self.held.len() == 1 { 0 } else { self.bytes(self.held.clone()) };
            if !exceeded(self.bounds, bytes, oldest, self.now_us) || oldest.to > stored {
                return;
            }
            self.held.start += 1;
        }
    }

    /// Another owner: the log goes down, and a new one begins in a new epoch, with the newest entries that
    /// were kept or without.
    pub(crate) fn restart(&mut self, with_tail: bool) {
        let (old, last) = (epoch(self.epochs), self.next_seq - 1);
        self.restarts += 1;
        let first = if with_tail { self.next_seq } else { last + 1 };
        self.log = RoomLog::new(old.clone(), first, self.bounds, self.now_us);
        self.held = self.all.len()..self.all.len();
        if with_tail {
            // As the store gives it back: other batches than those that live on in rings.
            let tail = self.seal(2, 0);
            self.take_in(tail, 0, None);
        }
        let prev = Position { epoch: old, seq: self.next_seq - 1 };
        self.epochs += 1;
        let next_seq = self.next_seq + EPOCHS_APART;
        let change = Batch::epoch_change(epoch(self.epochs), prev.clone(), next_seq, self.now_us, 0);
        self.take_in(change, 0, Some(prev));
    }

    pub(crate) fn attach(&mut self, at: usize) {
        self.detach(at);
        let (backlog, tail) = (self.log.batches().cloned().collect::<Vec<_>>(), Arc::clone(self.log.tail()));
        let link = Link {
            attached_at: tail.to,
            replica: Replica::new(backlog, tail, self.ring_bounds),
            ring: self.held.clone(),
            undelivered: self.held.len(),
            restarts: self.restarts,
        };
        self.links[at % LINKS] = Some(link);
    }

    pub(crate) fn pull(&mut self, at: usize) {
        let Some(link) = &mut self.links[at % LINKS] else { return };
        let pulled = link.replica.pull();
        let next = link.ring.end;
        let same_log = link.restarts == self.restarts;
        if !(same_log && (next == self.all.len() || self.held.contains(&next))) {
            return assert_eq!(pulled, Pulled { lapped: true, ..Pulled::default() });
        }
        let new = &self.all[next..];
        let flushes = new.iter().map(|sealed| sealed.flushes).sum();
        assert_eq!(pulled, Pulled { batches: new.len() as u32, flushes, lapped: false });
        link.ring.end = self.all.len();
        link.undelivered += new.len();
    }

    /// The link has delivered all but the newest `behind` numbers of what it has.
    pub(crate) fn deliver(&mut self, at: usize, behind: u64) {
        let Some(link) = &mut self.links[at % LINKS] else { return };
        let to = link.replica.head().saturating_sub(behind);
        link.replica.delivered_to(to);
        let owed = link.ring.end - link.undelivered..link.ring.end;
        for sealed in self.all[owed].iter_mut().take_while(|sealed| sealed.to <= to) {
            give_back(sealed, link.attached_at);
            link.undelivered -= 1;
        }
    }

    pub(crate) fn evict_ring(&mut self, at: usize) {
        let now_us = self.now_us;
        while let Some(link) = &self.links[at % LINKS] {
            let wanted = match self.all[link.ring.clone()].first() {
                None => None,
                Some(oldest) => {
                    let (len, bytes) = (link.ring.len(), self.bytes(link.ring.clone()));
                    let over = match link.undelivered == len {
                        true => len > 1 && bytes > OVERSHOOT * self.ring_bounds.bytes_max,
                        false => exceeded(self.ring_bounds, if len == 1 { 0 } else { bytes }, oldest, now_us),
                    };
                    over.then_some(oldest.from)
                }
            };
            assert_eq!(link.replica.over_bounds(now_us).map(|batch| batch.from), wanted);
            if wanted.is_none() {
                return;
            }
            let Some(link) = &mut self.links[at % LINKS] else { return };
            link.replica.evict();
            if link.undelivered == link.ring.len() {
                give_back(&mut self.all[link.ring.start], link.attached_at);
                link.undelivered -= 1;
            }
            link.ring.start += 1;
        }
    }

    pub(crate) fn detach(&mut self, at: usize) {
        // Who goes takes note of what is there, and owes nothing of it any more.
        self.pull(at);
        self.deliver(at, 0);
        self.links[at % LINKS] = None;
    }

    /// A form of one of the link's batches is made, as a pass does it.
    pub(crate) fn make_form(&mut self, at: usize, which: u8) {
        let Some(link) = &self.links[at % LINKS] else { return };
        if link.ring.is_empty() {
            return;
        }
        let place = link.ring.start + usize::from(which) % link.ring.len();
        let key = FormKey { encoding: Encoding::Json, deflate: false, tier: Tier::Full };
        let batch = self.all[place].batch.upgrade().expect("what is in a ring lives");
        batch.form(key, |_| Form::from(vec![1]));
        self.all[place].has_form = true;
    }

    /// What every step must leave as it is, and what the link that was touched must say.
    pub(crate) fn check(&self, touched: usize) {
        let held: Vec<u64> = self.log.batches().map(|batch| batch.from).collect();
        let expected: Vec<u64> = self.all[self.held.clone()].iter().map(|sealed| sealed.from).collect();
        assert_eq!(held, expected, "what the log holds");
        assert_eq!(self.log.bytes(), self.bytes(self.held.clone()));
        for sealed in &self.all {
            if let Some(batch) = sealed.batch.upgrade() {
                assert_eq!(batch.live_forms(), usize::from(sealed.has_form), "forms of {}", sealed.from);
            }
        }
        if let Some(link) = &self.links[touched % LINKS] {
            self.check_link(link);
        }
    }

    fn check_link(&self, link: &Link) {
        let (replica, ring) = (&link.replica, &self.all[link.ring.clone()]);
        let places: Vec<u64> = replica.batches().map(|batch| batch.from).collect();
        assert_eq!(places, ring.iter().map(|sealed| sealed.from).collect::<Vec<_>>(), "what a ring holds");
        assert_eq!(replica.bytes(), self.bytes(link.ring.clone()));
        let first = ring.first().map_or(replica.head() + 1, |sealed| sealed.from);
        assert_eq!(replica.first(), first);
        // Whoever stands at a border goes on there, after whatever happens to his connection.
        let borders = ring.iter().map(|sealed| sealed.from).chain([replica.head() + 1]);
        for seq in borders {
            let cursor = Cursor { seq, offset: 0 };
            assert!(!replica.lapped(cursor));
            let given = replica.given(cursor);
            assert!(matches!(replica.resume(&given), Resume::At(at) if at == cursor), "{given} is {seq}");
        }
        for seq in first.saturating_sub(2)..=replica.head() + 2 {
            for age in 0..=self.epochs.min(2) {
                let since = Position { epoch: epoch(self.epochs - age), seq };
                self.check_resume(link, ring, first, &since);
            }
        }
    }

    /// Where somebody goes on who left off at `since`, by looking at every batch of the ring.
    fn check_resume(&self, link: &Link, ring: &[Sealed], first: u64, since: &Position) {
        let replica = &link.replica;
        let change = self.all[..link.ring.end].iter().rev().find(|sealed| sealed.prev.is_some());
        let change = change.filter(|change| change.epoch == *replica.epoch());
        let ahead = change.filter(|change| change.from >= first);
        let before = ahead.and_then(|change| change.prev.as_ref()).filter(|prev| prev.epoch == since.epoch);
        let known = match before {
            _ if since.epoch == *replica.epoch() => {
                let start = change.map_or(0, |change| change.to);
                (start.max(first - 1)..=replica.head()).contains(&since.seq).then_some(since.seq)
            }
            // What was seen beyond what was kept is taken back by the change.
            Some(prev) => (since.seq + 1 >= first).then_some(since.seq.min(prev.seq)),
            None => None,
        };
        let within = known.and_then(|seq| ring.iter().find(|sealed| sealed.from <= seq && seq < sealed.to));
        match (replica.resume(since), known, within) {
            (Resume::Unknown, None, _) => {}
            (Resume::At(cursor), Some(seq), None) => assert_eq!(cursor, Cursor { seq: seq + 1, offset: 0 }),
            (Resume::Within(batch), Some(_), Some(sealed)) => assert_eq!(batch.from, sealed.from),
            (resume, known, _) => panic!("{since} goes on at {resume:?}, not after {known:?}"),
        }
    }

    /// Everything goes, in the order of a worker that stops; nothing may be left.
    pub(crate) fn come_down(self) {
        let Self { log, links, all, .. } = self;
        drop(log);
        drop(links);
        assert!(all.iter().all(|sealed| sealed.batch.upgrade().is_none()), "a batch outlives everything");
    }
}

fn give_back(sealed: &mut Sealed, attached_at: u64) {
    if sealed.to > attached_at {
        if sealed.readers <= 1 {
            sealed.has_form = false;
        }
        sealed.readers = sealed.readers.saturating_sub(1);
    }
}
