#![doc = include_str!("../README.md")]

mod address;
mod backoff;
pub mod client;
mod code;
mod cursor;
mod event;
mod item;
mod message;
mod options;
mod outbox;
mod position;
pub mod session;

pub use client::{Client, EventStream, Handle};
pub use code::Refusal;
pub use event::{Ending, Event, ResetReason, Source, State};
pub use item::{Comment, Content, Item, Mode, Removal, User};
pub use message::{Joined, Pending, RoomUpdate, You};
pub use options::{Identity, Options, OptionsError, Tier};
pub use outbox::{Ack, AckState, PublishError, SendOptions, Ticket};
pub use position::{Epoch, Position};
pub use session::{Action, NotJoined, Output, Session};
