//! What the staff of a room has decided beside its log: who may not come in, not write or not be seen, how the room is set,
//! and what stands on the board. Pure: the time comes in with every call.

pub mod board;
pub mod sanction;
pub mod settings;
pub mod stage;

use danmaku_wire::entry::Role;
use danmaku_wire::id::UserId;

use board::Board;
use sanction::{Measure, Sanction, Sanctions};
use settings::Settings;
use stage::Stage;

/// What one owner of a room leaves to the next beside the log.
#[derive(Debug, Clone, Default)]
pub struct House {
    /// Sanctions, in no order.
    pub sanctions: Vec<Sanction>,
    /// What stands, however old.
    pub board: Board,
    /// What is set over the configuration.
    pub settings: Settings,
    /// Where the room is in its life.
    pub stage: Stage,
}

impl House {
    /// Whether nothing was decided that still matters.
    pub const fn is_empty(&self) -> bool {
        self.sanctions.is_empty() && self.board.is_empty() && self.settings.is_empty() && self.stage.is_open()
    }
}

/// What is looked at when somebody comes into a room: a copy of what its owner knows, which the owner's worker keeps up.
#[derive(Debug, Default)]
pub struct Door {
    /// Who is banned.
    pub bans: Sanctions,
    /// Nobody may come in.
    pub closed: bool,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barred {
    /// A ban, with what is left of it, milliseconds; `None`: it has no end.
    Banned(Option<u64>),
    /// The room is closed.
    Closed,
}

impl Door {
    /// The door of a room with these sanctions.
    pub fn of<'a>(sanctions: impl Iterator<Item = &'a Sanction>) -> Self {
        let mut bans = Sanctions::default();
        for sanction in sanctions.filter(|sanction| sanction.measure == Measure::Ban) {
            // The owner's table is bounded, and this is a part of it.
            let _ = bans.put(sanction.clone(), 0, usize::MAX);
        }
        Self { bans, closed: false }
    }

    /// Whether nobody is kept out.
    pub fn is_open(&self) -> bool {
        self.bans.is_empty() && !self.closed
    }

    /// Whether somebody may come in.
    ///
    /// # Errors
    /// Why not.
    pub fn admits(&self, now_ms: u64, user: &UserId, address: u64, role: Role) -> Result<(), Barred> {
        if self.closed {
            return Err(Barred::Closed);
        }
        match self.bans.find(Measure::Ban, now_ms, user, address, role) {
            None => Ok(()),
            Some(ban) => Err(Barred::Banned(ban.left_ms(now_ms))),
        }
    }
}
