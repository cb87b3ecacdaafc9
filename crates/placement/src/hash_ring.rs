//! Consistent hashing with weighted virtual nodes.
//!
//! Every member stands on a circle of 2^64 places as often as its weight says; a key belongs to the
//! first member at or after its own place. A member that comes takes keys only for itself, one that goes
//! gives up only its own, and raising a weight only adds points, so that little moves when little
//! changes (Karger et al., "Consistent hashing and random trees", 1997).

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24Wide};

use crate::member::{Member, Weight};

/// The most members on one ring: with every one at the largest weight its points take 26 MB.
pub const MEMBERS_MAX: usize = 1024;

/// What places points and keys; a secret.
///
/// Names of rooms are chosen by strangers. With a public hash they could choose thousands of rooms that
/// all land on one worker; with a keyed one (SipHash-2-4) they cannot tell where a name lands.
#[derive(Clone, PartialEq, Eq)]
pub struct RingSeed([u8; 16]);

impl RingSeed {
    /// Takes 16 bytes of a secure random source, the same for everyone who must agree on placement.
    pub const fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// The seed of another ring, for keys that were already divided by this one.
    ///
    /// With the same seed, the keys of one node would all lie on that node's arcs, and the workers below
    /// it would share those arcs as chance has it and not as their weights say.
    pub fn derive(&self, label: &[u8]) -> Self {
        let mut hasher = SipHasher24Wide::new_with_key(&self.0);
        hasher.write(&[DOMAIN_DERIVED_SEED]);
        hasher.write(label);
        Self(hasher.finish128().as_bytes())
    }

    fn place_of_key(&self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&[DOMAIN_KEY]);
        hasher.write(key);
        hasher.finish()
    }

    fn place_of_virtual_node(&self, identity: &[u8], index: u32) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&[DOMAIN_VIRTUAL_NODE]);
        hasher.write(&index.to_le_bytes());
        hasher.write(identity);
        hasher.finish()
    }
}

// First byte of what is hashed, so that no key can stand exactly where a point does by its spelling.
const DOMAIN_KEY: u8 = 0;
const DOMAIN_VIRTUAL_NODE: u8 = 1;
const DOMAIN_DERIVED_SEED: u8 = 2;

/// The secret stays out of logs.
impl fmt::Debug for RingSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RingSeed(..)")
    }
}

/// Why no ring can be made of a list of members: the fault of whoever wrote the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Nobody is on the list.
    #[error("a ring needs at least one member")]
    Empty,
    /// Everybody on the list has weight 0.
    #[error("all {members} members of the ring have weight 0")]
    AllWeightsZero {
        /// Members on the list.
        members: usize,
    },
    /// Two members have the same identity.
    #[error("members {first} and {second} of the list are the same")]
    Duplicate {
        /// Place on the list of the one, from 0.
        first: usize,
        /// Place on the list of the other.
        second: usize,
    },
    /// More than [`MEMBERS_MAX`].
    #[error("a ring holds at most {MEMBERS_MAX} members")]
    TooManyMembers,
}

/// Members on a circle. Never changes: another list of members is another ring.
#[derive(Debug, Clone)]
pub struct HashRing<M> {
    seed: RingSeed,
    /// By identity, each once; weight 0 included.
    members: Vec<M>,
    /// Where the points stand, ascending; as long as `point_owners`, never empty.
    points: Vec<u64>,
    /// Index into `members`. Apart from `points`, so that a search touches nothing but places.
    point_owners: Vec<u16>,
}

const _: () = assert!(MEMBERS_MAX <= u16::MAX as usize + 1, "an index into the members is a u16");

impl<M: Member> HashRing<M> {
    /// Places the members; their order does not matter.
    ///
    /// # Errors
    /// When nobody could own anything, two members are the same, or there are too many.
    pub fn build(seed: RingSeed, members: impl IntoIterator<Item = (M, Weight)>) -> Result<Self, RingError> {
        let members: Vec<(M, Weight)> = members.into_iter().take(MEMBERS_MAX + 1).collect();
        match members.len() {
            0 => return Err(RingError::Empty),
            count if count > MEMBERS_MAX => return Err(RingError::TooManyMembers),
            _ => {}
        }
        let members = sort_by_identity(members)?;

        let mut placed = Vec::new();
        for (owner, (member, weight)) in (0_u16..).zip(&members) {
            let identity = member.identity();
            let places =
                (0..weight.virtual_nodes()).map(|i| seed.place_of_virtual_node(identity.as_ref(), i));
            placed.extend(places.map(|place| (place, owner)));
        }
        if placed.is_empty() {
            return Err(RingError::AllWeightsZero { members: members.len() });
        }
        // Points on the same place go by identity: the first owns it, on every machine.
        placed.sort_unstable();
        let (points, point_owners) = placed.into_iter().unzip();
        Ok(Self {
            seed,
            members: members.into_iter().map(|(member, _)| member).collect(),
            points,
            point_owners,
        })
    }

    /// Whose key this is.
    pub fn owner(&self, key: &[u8]) -> &M {
        self.member_at(self.first_point_from(self.seed.place_of_key(key)))
    }

    /// The owner and then those that would own the key if the ones before them were gone: at most `n`
    /// different members, fewer when fewer have a weight above 0.
    pub fn owners(&self, key: &[u8], n: usize) -> impl Iterator<Item = &M> {
        let start = self.first_point_from(self.seed.place_of_key(key));
        let walk = self.point_owners[start..].iter().chain(&self.point_owners[..start]);
        let mut seen = vec![false; self.members.len()];
        walk.filter(move |owner| !std::mem::replace(&mut seen[usize::from(**owner)], true))
            .take(n)
            .map(|owner| &self.members[usize::from(*owner)])
    }

    /// The part of the hash space that a member owns, 0.0..=1.0; 0.0 for a stranger.
    ///
    /// Walks every point: for metrics, not for routing.
    pub fn share(&self, member: &M) -> f64 {
        let identity = member.identity();
        let found = self.members.binary_search_by(|m| m.identity().as_ref().cmp(identity.as_ref()));
        let Ok(index) = found else { return 0.0 };
        let mut previous = self.points[self.points.len() - 1];
        let mut places: u128 = 0;
        for (point, owner) in self.points.iter().zip(&self.point_owners) {
            if usize::from(*owner) == index {
                // The first point's arc runs over the end of the space to the last point.
                places += u128::from(point.wrapping_sub(previous));
            }
            previous = *point;
        }
        places as f64 / SPACE
    }

    /// Every member, those of weight 0 included, in the order of their identities.
    pub fn members(&self) -> &[M] {
        &self.members
    }

    fn first_point_from(&self, place: u64) -> usize {
        let index = self.points.partition_point(|point| *point < place);
        if index == self.points.len() { 0 } else { index }
    }

    fn member_at(&self, point: usize) -> &M {
        &self.members[usize::from(self.point_owners[point])]
    }
}

/// Places on the circle: 2^64.
const SPACE: f64 = 18_446_744_073_709_551_616.0;

fn sort_by_identity<M: Member>(members: Vec<(M, Weight)>) -> Result<Vec<(M, Weight)>, RingError> {
    let mut listed: Vec<(usize, (M, Weight))> = members.into_iter().enumerate().collect();
    listed.sort_by(|(_, (a, _)), (_, (b, _))| a.identity().as_ref().cmp(b.identity().as_ref()));
    for pair in listed.windows(2) {
        let [(first, (a, _)), (second, (b, _))] = pair else { continue };
        if a.identity().as_ref() == b.identity().as_ref() {
            return Err(RingError::Duplicate { first: *first, second: *second });
        }
    }
    Ok(listed.into_iter().map(|(_, member)| member).collect())
}

#[cfg(test)]
mod tests;
