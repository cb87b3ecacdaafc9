//! The table itself: plain data, with time as an argument.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Bound, Limits};

/// How far beyond its limit an address may go while it has not shown whose token it has: a quarter, and these at least.
const GRACE_MIN: u32 = 4;
/// How many /64 a /48 is worth where there is no setting of its own: rooms created by it, and by all that share the
/// overflow.
const NETS_PER_SITE: u64 = 16;
const MINUTE_US: u64 = 60_000_000;

/// Nobody: what is under no limit holds this.
pub(super) const NOBODY: u32 = 0;
/// What all addresses share that found the table full.
pub(super) const OVERFLOW: u32 = 1;

/// What connections are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Prefix {
    V4(u32),
    Net64(u64),
    /// The leading 48 bits, the rest zero.
    Net48(u64),
    /// All that found no place.
    Overflow,
}

#[derive(Debug)]
struct Entry {
    prefix: Prefix,
    /// Connections.
    count: u32,
    /// The /48 that a /64 is counted in as well, or nobody. Fixed while there are connections.
    parent: u32,
    /// When all rooms created so far are forgiven, microseconds.
    rooms_due_us: u64,
    /// In the queue of entries without connections.
    resting: bool,
}

#[derive(Debug)]
pub(super) struct Table {
    /// Nobody, the overflow, then those in the index, with gaps.
    entries: Vec<Entry>,
    free: Vec<u32>,
    // The standard map's hasher is keyed at random: strangers choose their addresses.
    index: HashMap<Prefix, u32>,
    /// Entries that only remember rooms they created, the longest at rest first.
    resting: VecDeque<u32>,
}

impl Default for Table {
    fn default() -> Self {
        let shared =
            || Entry { prefix: Prefix::Overflow, count: 0, parent: NOBODY, rooms_due_us: 0, resting: false };
        Self {
            entries: vec![shared(), shared()],
            free: Vec::new(),
            index: HashMap::new(),
            resting: VecDeque::new(),
        }
    }
}

impl Table {
    /// Counts a connection in, with the bound that it goes beyond, if it does.
    ///
    /// # Errors
    /// When it goes so far beyond one that it is not even heard.
    pub(super) fn take(
        &mut self,
        address: IpAddr,
        limits: &Limits,
        now_us: u64,
    ) -> Result<(u32, Option<Bound>), Bound> {
        self.forget_rested(now_us);
        let id = self.find_or_add_address(address, limits);
        let mut beyond = None;
        for at in self.chain(id) {
            let (count, (bound, max)) = (self.entries[at as usize].count, self.max(at, limits));
            if count >= max.saturating_add((max / 4).max(GRACE_MIN)) {
                self.tidy_up(id, now_us);
                return Err(bound);
            }
            if count >= max {
                beyond = Some(bound);
            }
        }
        for at in self.chain(id) {
            self.entries[at as usize].count += 1;
        }
        Ok((id, beyond))
    }

    /// Counts a connection in whatever the bounds say; without an address among those that found the table full.
    pub(super) fn take_in(&mut self, address: Option<IpAddr>, limits: &Limits) -> u32 {
        let id = address.map_or(OVERFLOW, |address| self.find_or_add_address(address, limits));
        for at in self.chain(id) {
            self.entries[at as usize].count += 1;
        }
        id
    }

    /// The address of an entry, the first one of its prefix; `None` for those that found the table full.
    pub(super) fn address(&self, id: u32) -> Option<IpAddr> {
        match self.entries[id as usize].prefix {
            Prefix::V4(bits) => Some(Ipv4Addr::from_bits(bits).into()),
            Prefix::Net64(net) | Prefix::Net48(net) => {
                Some(Ipv6Addr::from_bits(u128::from(net) << 64).into())
            }
            Prefix::Overflow => None,
        }
    }

    /// Whether a connection that is counted in, and was one too many, no longer is.
    pub(super) fn fits(&self, id: u32, limits: &Limits) -> bool {
        self.chain(id).all(|at| self.entries[at as usize].count <= self.max(at, limits).1)
    }

    /// Counts a connection out.
    pub(super) fn release(&mut self, id: u32, now_us: u64) {
        for at in self.chain(id) {
            let entry = &mut self.entries[at as usize];
            assert!(entry.count > 0, "a connection is counted out once");
            entry.count -= 1;
        }
        self.tidy_up(id, now_us);
    }

    /// Takes note of a room that a connection creates.
    ///
    /// # Errors
    /// When its address has created too many: how long until it may, microseconds.
    pub(super) fn create_room(&mut self, id: u32, limits: &Limits, now_us: u64) -> Result<(), u64> {
        let rate = |entry: &Entry| {
            let shared = matches!(entry.prefix, Prefix::Net48(_) | Prefix::Overflow);
            u64::from(limits.rooms_per_min.max(1)) * if shared { NETS_PER_SITE } else { 1 }
        };
        let mut wait_us = 0;
        for at in self.chain(id) {
            let entry = &self.entries[at as usize];
            let due_us = entry.rooms_due_us.max(now_us) + MINUTE_US / rate(entry);
            wait_us = wait_us.max(due_us.saturating_sub(now_us + MINUTE_US));
        }
        if wait_us > 0 {
            return Err(wait_us);
        }
        for at in self.chain(id) {
            let entry = &mut self.entries[at as usize];
            entry.rooms_due_us = entry.rooms_due_us.max(now_us) + MINUTE_US / rate(entry);
        }
        Ok(())
    }

    /// Addresses and prefixes in the table.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Connections that are counted in the overflow.
    pub(super) fn overflowing(&self) -> u32 {
        self.entries[OVERFLOW as usize].count
    }

    /// The entries that a connection is counted in.
    fn chain(&self, id: u32) -> impl Iterator<Item = u32> + use<> {
        let parent = if id == NOBODY { NOBODY } else { self.entries[id as usize].parent };
        [id, parent].into_iter().filter(|id| *id != NOBODY)
    }

    fn max(&self, id: u32, limits: &Limits) -> (Bound, u32) {
        match self.entries[id as usize].prefix {
            Prefix::V4(_) => (Bound::Ipv4, limits.per_ipv4),
            Prefix::Net64(_) => (Bound::Net64, limits.per_ipv6_64),
            Prefix::Net48(_) => (Bound::Net48, limits.per_ipv6_48),
            Prefix::Overflow => (Bound::Overflow, limits.overflow_max),
        }
    }

    /// The entry that counts an address, within that of its site.
    fn find_or_add_address(&mut self, address: IpAddr, limits: &Limits) -> u32 {
        let (leaf, site) = prefixes(address);
        let id = self.find_or_add(leaf, limits);
        if id != OVERFLOW && self.entries[id as usize].count == 0 {
            // Counted already, so that it does not make room for its own site.
            self.entries[id as usize].count = 1;
            let parent = site.map_or(NOBODY, |site| self.find_or_add(site, limits));
            let entry = &mut self.entries[id as usize];
            (entry.count, entry.parent) = (0, parent);
        }
        id
    }

    /// The entry of a prefix; the overflow where the table is full of others with connections.
    fn find_or_add(&mut self, prefix: Prefix, limits: &Limits) -> u32 {
        if let Some(id) = self.index.get(&prefix) {
            return *id;
        }
        while self.index.len() >= limits.addresses_max {
            // Who only created rooms gives way first: to forget them is better than to refuse others.
            let Some(id) = self.resting.pop_front() else { return OVERFLOW };
            self.leave_queue(id);
        }
        let entry = Entry { prefix, count: 0, parent: NOBODY, rooms_due_us: 0, resting: false };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("the table is bounded far below")
            }
        };
        self.index.insert(prefix, id);
        id
    }

    /// Forgets those at rest whose rooms are forgiven.
    pub(super) fn forget_rested(&mut self, now_us: u64) {
        while let Some(id) = self.resting.front().copied() {
            let entry = &self.entries[id as usize];
            if entry.count == 0 && entry.rooms_due_us > now_us {
                return;
            }
            self.resting.pop_front();
            self.leave_queue(id);
        }
    }

    /// An entry that has left the queue, or never was in it: it goes if it has no connections.
    fn leave_queue(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        entry.resting = false;
        if entry.count == 0 {
            let prefix = entry.prefix;
            self.index.remove(&prefix);
            self.free.push(id);
        }
    }

    /// Entries without connections go, or rest while there are rooms to remember.
    fn tidy_up(&mut self, id: u32, now_us: u64) {
        for at in self.chain(id) {
            let entry = &mut self.entries[at as usize];
            if at == OVERFLOW || entry.count > 0 || entry.resting {
                continue;
            }
            if entry.rooms_due_us > now_us {
                entry.resting = true;
                self.resting.push_back(at);
            } else {
                self.leave_queue(at);
            }
        }
    }
}

/// What an address is counted by: itself, or its /64 and the /48 around it.
fn prefixes(address: IpAddr) -> (Prefix, Option<Prefix>) {
    match address {
        IpAddr::V4(v4) => (Prefix::V4(v4.to_bits()), None),
        IpAddr::V6(v6) => {
            let net64 = (v6.to_bits() >> 64) as u64;
            (Prefix::Net64(net64), Some(Prefix::Net48(net64 & !0xffff)))
        }
    }
}

#[cfg(test)]
mod tests;
