//! A worker's inbox: bounded, lock-free, filled by any thread and emptied by one.
//!
//! In come items of two kinds, each with its size in bytes and the time: *control* (links, commits,
//! whatever must not wait) and *requests* of one priority or the other. Out come items, control first,
//! then vip, then normal; back to a sender goes the item itself with the reason when a bound is met.
//! Each lane is bounded in slots, bytes and age.
//!
//! What is refused is the sender's to answer: only requests may be dropped, so what must arrive is kept
//! by its sender and retried. Items of one producer stay in order within a lane, and nowhere else.
//!
//! Nothing here waits, reads a clock or starts a thread: the time is an argument, and going to sleep is
//! the receiver's affair, who learns from [`Receiver::prepare_sleep`] whether it may and is woken through
//! [`Wake`] at most once per sleep.

mod lane;
mod mailbox;
mod ring;
mod sync;

pub use lane::{Bounds, Full, FullReason};
pub use mailbox::{Lane, Message, Receiver, Sender, Wake, mailbox};
pub use ring::{BYTES_MAX, ITEM_BYTES_MAX, SLOTS_MAX};
