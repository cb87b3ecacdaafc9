//! Who is calling: tokens of users, guests without one, keys of back ends.

pub mod api_key;
pub mod guest;
pub mod token;
