//! Who is calling: tokens of users, keys of back ends.

pub mod api_key;
pub mod token;
