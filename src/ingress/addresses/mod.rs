//! How many connections an address has, and how many rooms it creates: one table for all workers.
//!
//! IPv4 is counted by address, IPv6 by /64 and by the /48 around it, since whoever has one address there has 2^64. A
//! connection is counted from the moment it is accepted until it is gone, whatever it becomes in between. The table
//! is bounded; addresses that find it full share one entry, so that filling it neither opens the door nor shuts it.
//! The lock is taken when connections begin and end and when rooms are created, never together with another, and never
//! on the way of a delivery.

mod table;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use table::{NOBODY, OVERFLOW, Table};

use crate::observe::limits::Limit;

/// How much one address may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections of an IPv4 address.
    pub per_ipv4: u32,
    /// Connections of an IPv6 /64.
    pub per_ipv6_64: u32,
    /// Connections of an IPv6 /48.
    pub per_ipv6_48: u32,
    /// Connections of all addresses together that found the table full.
    pub overflow_max: u32,
    /// Addresses and prefixes in the table.
    pub addresses_max: usize,
    /// Rooms that an address may create in a minute.
    pub rooms_per_min: u32,
}

/// The table.
#[derive(Debug)]
pub struct Addresses {
    table: Mutex<Table>,
    started: Instant,
}

/// What an address has too many connections by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The IPv4 address.
    Ipv4,
    /// The IPv6 /64.
    Net64,
    /// The IPv6 /48.
    Net48,
    /// All that found the table full.
    Overflow,
}

impl Bound {
    /// As it is counted.
    pub const fn limit(self) -> Limit {
        match self {
            Self::Ipv4 => Limit::PerIpv4,
            Self::Net64 => Limit::PerIpv6Net64,
            Self::Net48 => Limit::PerIpv6Net48,
            Self::Overflow => Limit::AddressOverflow,
        }
    }
}

/// A connection's place in the table, without the duty to give it back: what a session keeps. Nobody's place means
/// that no limit of addresses applies: a user with a token, or this machine itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// Of a connection under no limit of addresses.
    pub const NONE: Self = Self(NOBODY);

    /// Whether it is the one of all that found the table full.
    pub fn is_shared(self) -> bool {
        self.0 == OVERFLOW
    }
}

/// What a connection is counted by, as another process can be told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// This IPv4 address, or the /64 of this IPv6 address.
    By(IpAddr),
    /// The entry of all that found the table full.
    Shared,
}

/// A connection that is counted, until this is dropped.
#[derive(Debug)]
#[must_use = "a connection is counted as long as this lives"]
pub struct Hold {
    addresses: Arc<Addresses>,
    place: Place,
    /// The bound that it went beyond when it came.
    beyond: Option<Bound>,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { table: Mutex::default(), started: Instant::now() }
    }
}

impl Addresses {
    /// Counts a connection in.
    ///
    /// # Errors
    /// When its address is so far beyond its limit that not even a token would be looked at.
    pub fn hold(self: &Arc<Self>, address: IpAddr, limits: &Limits) -> Result<Hold, Bound> {
        let now_us = self.now_us();
        let (id, beyond) = self.table().take(address, limits, now_us)?;
        Ok(Hold { addresses: Arc::clone(self), place: Place(id), beyond })
    }

    /// Counts a connection in that was counted by another process already: it is not refused for having moved.
    pub fn recount(self: &Arc<Self>, counted: Counted, limits: &Limits) -> Hold {
        let address = match counted {
            Counted::By(address) => Some(address),
            Counted::Shared => None,
        };
        let id = self.table().take_in(address, limits);
        Hold { addresses: Arc::clone(self), place: Place(id), beyond: None }
    }

    /// The hold of a place that a session kept; `None` for nobody's.
    pub fn resume(self: &Arc<Self>, place: Place) -> Option<Hold> {
        (place != Place::NONE).then(|| Hold { addresses: Arc::clone(self), place, beyond: None })
    }

    /// Takes note of a room that is created from this place.
    ///
    /// # Errors
    /// When its address has created too many: how long until it may, microseconds.
    pub fn create_room(&self, place: Place, limits: &Limits) -> Result<(), u64> {
        let now_us = self.now_us();
        self.table().create_room(place.0, limits, now_us)
    }

    /// Addresses and prefixes in the table, and connections counted in what those share that found it full.
    /// Those are forgotten that have been at rest for long enough.
    pub fn used(&self) -> (usize, u32) {
        let now_us = self.now_us();
        let mut table = self.table();
        table.forget_rested(now_us);
        (table.len(), table.overflowing())
    }

    /// Microseconds, beginning beyond 0.
    fn now_us(&self) -> u64 {
        1 + u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX >> 1)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing is half done in it where a panic could strike: its assertions come before its changes.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// Where it is counted.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What it is counted by.
    pub fn counted(&self) -> Counted {
        self.addresses.table().address(self.place.0).map_or(Counted::Shared, Counted::By)
    }

    /// The bound that its address is beyond, as long as it is.
    pub fn beyond(&mut self, limits: &Limits) -> Option<Bound> {
        if self.beyond.is_some() && self.addresses.table().fits(self.place.0, limits) {
            self.beyond = None;
        }
        self.beyond
    }

    /// Gives the duty to count it out to whoever keeps the place: [`Addresses::resume`] takes it back.
    pub fn into_place(mut self) -> Place {
        std::mem::replace(&mut self.place, Place::NONE)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.place != Place::NONE {
            let now_us = self.addresses.now_us();
            self.addresses.table().release(self.place.0, now_us);
        }
    }
}
