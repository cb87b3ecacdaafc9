//! Bans, mutes and shadow bans: against whom, until when, and by whose word. A table of a room is bounded; when it is full
//! of sanctions in force, the next is refused: none is forgotten before its time.

use std::collections::HashMap;

use danmaku_wire::entry::Role;
use danmaku_wire::id::UserId;

use crate::admission::policy::keeps_order;

/// The longest reason, bytes.
pub const REASON_BYTES_MAX: usize = 256;

/// What a sanction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Measure {
    /// Not let in, and not heard.
    Ban = 0,
    /// Not heard.
    Mute = 1,
    /// Heard by nobody but itself, without being told.
    Shadow = 2,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ban, Self::Mute, Self::Shadow];

    /// The name in documents and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ban => "ban",
            Self::Mute => "mute",
            Self::Shadow => "shadow_ban",
        }
    }
}

/// Against whom a sanction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A user or guest, by its id.
    User(UserId),
    /// Everybody from an address.
    Address {
        /// What the address is told by: a keyed hash, since strangers choose it.
        mark: u64,
        /// As it was written, for those who look at the list.
        shown: Box<str>,
    },
    /// The whole room but for those who keep order in it.
    Everyone,
}

/// A decision against somebody in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sanction {
    /// What it does.
    pub measure: Measure,
    /// Against whom.
    pub target: Target,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// Until when; `None`: until it is lifted.
    pub until_ms: Option<u64>,
    /// Whose word it is: it binds those of a lower role alone.
    pub rank: Role,
    /// Who decided it, for those who look at the list.
    pub by: Box<str>,
    /// Why, at most [`REASON_BYTES_MAX`]; empty where nobody said.
    pub reason: Box<str>,
}

impl Sanction {
    /// Whether it is in force.
    pub fn is_in_force(&self, now_ms: u64) -> bool {
        self.until_ms.is_none_or(|until| until > now_ms)
    }

    /// How long it still holds, milliseconds; `None`: until it is lifted.
    pub fn left_ms(&self, now_ms: u64) -> Option<u64> {
        self.until_ms.map(|until| until.saturating_sub(now_ms))
    }

    /// Whether it can be against somebody of this role.
    pub const fn binds(&self, role: Role) -> bool {
        if matches!(self.target, Target::Everyone) && keeps_order(role) {
            return false;
        }
        (role as u8) < self.rank as u8
    }

    /// Whether it is against this user at this address.
    pub fn is_against(&self, user: &UserId, address: u64, role: Role) -> bool {
        let meant = match &self.target {
            Target::User(id) => id == user,
            // 0: the address is not known.
            Target::Address { mark, .. } => *mark == address && address != 0,
            Target::Everyone => true,
        };
        meant && self.binds(role)
    }
}

/// The table is full of sanctions in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// One sanction of each measure.
type Each = [Option<Box<Sanction>>; Measure::ALL.len()];

/// The sanctions of a room.
#[derive(Debug, Default)]
pub struct Sanctions {
    // The standard maps' hashers are keyed at random: strangers choose ids.
    users: HashMap<UserId, Each>,
    addresses: HashMap<u64, Each>,
    everyone: Each,
    count: usize,
    /// When the next one ends, or an earlier time, milliseconds since 1970.
    ends_ms: u64,
}

impl Sanctions {
    /// Decides something, in place of what was decided against the same target by the same measure.
    ///
    /// # Errors
    /// When there are `max` in force already.
    pub fn put(&mut self, sanction: Sanction, now_ms: u64, max: usize) -> Result<(), Full> {
        self.lift(sanction.measure, &sanction.target);
        if self.count >= max {
            self.forget(now_ms);
        }
        if self.count >= max {
            return Err(Full);
        }
        let ends_ms = sanction.until_ms.unwrap_or(u64::MAX);
        self.ends_ms = if self.count == 0 { ends_ms } else { self.ends_ms.min(ends_ms) };
        self.count += 1;
        let each = match &sanction.target {
            Target::User(user) => self.users.entry(user.clone()).or_default(),
            Target::Address { mark, .. } => self.addresses.entry(*mark).or_default(),
            Target::Everyone => &mut self.everyone,
        };
        let measure = sanction.measure as usize;
        each[measure] = Some(Box::new(sanction));
        Ok(())
    }

    /// Takes a sanction back; what it was.
    pub fn lift(&mut self, measure: Measure, target: &Target) -> Option<Sanction> {
        let lifted = match target {
            Target::User(user) => take(&mut self.users, user, measure),
            Target::Address { mark, .. } => take(&mut self.addresses, mark, measure),
            Target::Everyone => self.everyone[measure as usize].take(),
        };
        self.count -= usize::from(lifted.is_some());
        lifted.map(|sanction| *sanction)
    }

    /// The sanction of a measure that is in force against somebody.
    pub fn find(
        &self,
        measure: Measure,
        now_ms: u64,
        user: &UserId,
        address: u64,
        role: Role,
    ) -> Option<&Sanction> {
        if self.count == 0 {
            return None;
        }
        let of = |each: Option<&Each>| each.and_then(|each| each[measure as usize].as_deref()).is_some();
        let by_user = self.users.get(user);
        let by_address = self.addresses.get(&address).filter(|_| address != 0);
        [by_user, by_address, Some(&self.everyone)]
            .into_iter()
            .filter(|each| of(*each))
            .filter_map(|each| each.and_then(|each| each[measure as usize].as_deref()))
            .find(|sanction| sanction.is_in_force(now_ms) && sanction.binds(role))
    }

    /// All that are in force.
    pub fn in_force(&self, now_ms: u64) -> impl Iterator<Item = &Sanction> {
        let each = self.users.values().chain(self.addresses.values()).chain([&self.everyone]);
        each.flatten().flatten().map(|sanction| &**sanction).filter(move |one| one.is_in_force(now_ms))
    }

    /// Forgets what is over. Whether anything was.
    pub fn forget(&mut self, now_ms: u64) -> bool {
        if self.count == 0 || self.ends_ms > now_ms {
            return false;
        }
        let (before, mut count, mut ends_ms) = (self.count, 0, u64::MAX);
        let mut keep = |each: &mut Each| {
            for one in each.iter_mut() {
                if one.as_ref().is_some_and(|one| !one.is_in_force(now_ms)) {
                    *one = None;
                }
            }
            for one in each.iter().flatten() {
                count += 1;
                ends_ms = ends_ms.min(one.until_ms.unwrap_or(u64::MAX));
            }
            each.iter().any(Option::is_some)
        };
        self.users.retain(|_, each| keep(each));
        self.addresses.retain(|_, each| keep(each));
        keep(&mut self.everyone);
        (self.count, self.ends_ms) = (count, ends_ms);
        count < before
    }

    /// How many there are, over or not.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

fn take<K: Eq + std::hash::Hash>(
    map: &mut HashMap<K, Each>,
    key: &K,
    measure: Measure,
) -> Option<Box<Sanction>> {
    let each = map.get_mut(key)?;
    let taken = each[measure as usize].take();
    if each.iter().all(Option::is_none) {
        map.remove(key);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(n: u64) -> UserId {
        UserId::parse(&format!("u{n}")).expect("an id")
    }

    fn sanction(measure: Measure, target: Target, until_ms: Option<u64>, rank: Role) -> Sanction {
        Sanction { measure, target, since_ms: 0, until_ms, rank, by: "key".into(), reason: "".into() }
    }

    fn target(n: u64) -> Target {
        match n {
            0 => Target::Everyone,
            1..4 => Target::Address { mark: n, shown: "".into() },
            n => Target::User(user(n)),
        }
    }

    #[derive(Debug, Clone)]
    enum Op {
        Put(usize, u64, Option<u64>),
        Lift(usize, u64),
        Pass(u64),
        Forget,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0usize..3, 0u64..8, prop::option::of(1u64..50)).prop_map(|(m, t, ttl)| Op::Put(m, t, ttl)),
            1 => (0usize..3, 0u64..8).prop_map(|(m, t)| Op::Lift(m, t)),
            1 => (1u64..30).prop_map(Op::Pass),
            1 => Just(Op::Forget),
        ]
    }

    proptest! {
        /// `Sanctions` beside a plain list: the same are in force at every time, never more than the bound, and a full
        /// table refuses only while as many are in force.
        #[test]
        fn a_table_of_sanctions_is_a_list_with_a_bound(ops in prop::collection::vec(op(), 1..120), max in 1usize..10) {
            let mut table = Sanctions::default();
            let mut model: Vec<Sanction> = Vec::new();
            let mut now = 0;
            for op in ops {
                match op {
                    Op::Put(measure, to, ttl) => {
                        let one = sanction(Measure::ALL[measure], target(to), ttl.map(|ttl| now + ttl), Role::Staff);
                        model.retain(|old| {
                            old.is_in_force(now) && (old.measure != one.measure || old.target != one.target)
                        });
                        let put = table.put(one.clone(), now, max);
                        prop_assert_eq!(put.is_err(), model.len() >= max);
                        if put.is_ok() {
                            model.push(one);
                        }
                    }
                    Op::Lift(measure, to) => {
                        let (measure, to) = (Measure::ALL[measure], target(to));
                        let at = model.iter().position(|old| old.measure == measure && old.target == to);
                        let lifted = table.lift(measure, &to).filter(|one| one.is_in_force(now));
                        prop_assert_eq!(lifted, at.map(|at| model.remove(at)).filter(|one| one.is_in_force(now)));
                    }
                    Op::Pass(ms) => now += ms,
                    Op::Forget => {
                        table.forget(now);
                        model.retain(|old| old.is_in_force(now));
                        prop_assert_eq!(table.len(), model.len());
                    }
                }
                prop_assert!(table.len() <= max);
                for (measure, n, address) in (0..3).flat_map(|m| (4u64..8).flat_map(move |n| (0u64..4).map(move |a| (m, n, a)))) {
                    let measure = Measure::ALL[measure];
                    let want = model.iter().any(|one| {
                        one.measure == measure && one.is_in_force(now) && one.is_against(&user(n), address, Role::Viewer)
                    });
                    let found = table.find(measure, now, &user(n), address, Role::Viewer);
                    prop_assert_eq!(found.is_some(), want);
                }
            }
        }
    }

    /// `Sanction::binds`: a moderator's word holds for viewers and VIPs, the staff's for everybody else; a whole room
    /// is never without those who keep order in it.
    #[test]
    fn a_sanction_binds_those_below_who_decided_it() {
        let roles = [Role::Viewer, Role::Vip, Role::Moderator, Role::Streamer, Role::Staff];
        for (to, rank, bound) in [
            (Target::User(user(1)), Role::Moderator, 2),
            (Target::User(user(1)), Role::Streamer, 3),
            (Target::User(user(1)), Role::Staff, 4),
            (Target::Everyone, Role::Staff, 2),
            (Target::Everyone, Role::Moderator, 2),
        ] {
            let one = sanction(Measure::Ban, to, None, rank);
            assert_eq!(roles.map(|role| one.binds(role)), [0, 1, 2, 3, 4].map(|n| n < bound), "{one:?}");
        }
    }

    /// `Sanctions::find`: a sanction that does not bind somebody does not hide one that does.
    #[test]
    fn a_sanction_that_binds_is_found_behind_one_that_does_not() {
        let mut table = Sanctions::default();
        let weak = sanction(Measure::Ban, Target::User(user(1)), None, Role::Moderator);
        let strong = sanction(Measure::Ban, Target::Address { mark: 7, shown: "".into() }, None, Role::Staff);
        table.put(weak, 0, 8).expect("room");
        table.put(strong.clone(), 0, 8).expect("room");
        assert_eq!(table.find(Measure::Ban, 0, &user(1), 7, Role::Moderator), Some(&strong));
        assert_eq!(table.find(Measure::Ban, 0, &user(1), 0, Role::Moderator), None);
        assert_eq!(table.find(Measure::Mute, 0, &user(1), 7, Role::Viewer), None);
    }
}
