//! What the staff of a room has decided, as bytes: a process that takes another one's place must not let in who was banned.

use std::sync::Arc;

use danmaku_room::house::House;
use danmaku_room::house::board::Board;
use danmaku_room::house::sanction::{Measure, REASON_BYTES_MAX, Sanction, Target};

use super::codec::{Malformed, Reader, Writer};
use super::state::{read_entry, read_role, read_user, write_entry};

/// Writes it.
pub(super) fn write_house(out: &mut Writer, house: &House) {
    out.count(house.sanctions.len());
    for Sanction { measure, target, since_ms, until_ms, rank, by, reason } in &house.sanctions {
        out.u8(*measure as u8);
        match target {
            Target::User(user) => {
                out.u8(0);
                out.text(user.as_str());
            }
            Target::Address { mark, shown } => {
                out.u8(1);
                out.u64(*mark);
                out.text(shown);
            }
            Target::Everyone => out.u8(2),
        }
        out.u64(*since_ms);
        out.option(*until_ms, Writer::u64);
        out.u8(*rank as u8);
        out.text(by);
        out.text(reason);
    }
    let Board { pin, pinned, state } = &house.board;
    for entry in [pin, pinned, state] {
        out.option(entry.as_deref(), write_entry);
    }
}

/// Reads what [`write_house`] wrote.
///
/// # Errors
/// Where it is not that.
pub(super) fn read_house(from: &mut Reader<'_>) -> Result<House, Malformed> {
    let sanctions = from.list(|from| {
        let measure = from.u8()?;
        let measure = Measure::ALL.into_iter().find(|known| *known as u8 == measure);
        let measure = measure.ok_or(Malformed("a measure that there is not"))?;
        let target = match from.u8()? {
            0 => Target::User(read_user(from)?),
            1 => Target::Address { mark: from.u64()?, shown: from.text()?.into() },
            2 => Target::Everyone,
            _ => return Err(Malformed("a target that there is not")),
        };
        let (since_ms, until_ms, rank) = (from.u64()?, from.option(Reader::u64)?, read_role(from)?);
        let (by, reason): (Box<str>, Box<str>) = (from.text()?.into(), from.text()?.into());
        if reason.len() > REASON_BYTES_MAX {
            return Err(Malformed("a reason that is too long"));
        }
        Ok(Sanction { measure, target, since_ms, until_ms, rank, by, reason })
    })?;
    let mut entry = || from.option(read_entry).map(|entry| entry.map(Arc::new));
    Ok(House { sanctions, board: Board { pin: entry()?, pinned: entry()?, state: entry()? } })
}
