//! Where entries are kept: implementations of [`danmaku_room::store::Store`].

pub mod memory;
