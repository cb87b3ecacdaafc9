//! Who is responsible for a key, as a pure function of a secret seed, the members and their weights.
//!
//! In come members with their weights and keys as bytes; out comes the member that owns a key, and the
//! next ones in line. Whoever knows the same three things computes the same answer, so that nothing has
//! to be agreed on but the list of members. Nothing here knows what a member or a key stands for, opens
//! a socket, reads a clock or draws a random number; the seed is an argument.

mod hash_ring;
mod member;

pub use hash_ring::{HashRing, MEMBERS_MAX, RingError, RingSeed};
pub use member::{Member, VIRTUAL_NODES_PER_DEFAULT_WEIGHT, Weight, WeightError};
