//! Who is calling: tokens of users, guests without one, keys of back ends.

pub mod api_key;
pub mod claims;
pub mod guest;
pub mod identities;
pub mod key_set;
pub mod publication;
pub mod tickets;
pub mod token;
pub mod user;
pub mod users;
pub mod verified;
