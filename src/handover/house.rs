//! What the staff of a room has decided, as bytes: a process that takes another one's place must not let in who was banned.

use std::sync::Arc;

use danmaku_room::house::House;
use danmaku_room::house::board::Board;
use danmaku_room::house::sanction::{Measure, REASON_BYTES_MAX, Sanction, Target};
use danmaku_room::house::settings::Settings;
use danmaku_room::house::stage::{MediaId, Stage};

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
    write_settings(out, &house.settings);
    match &house.stage {
        Stage::Open => out.u8(0),
        Stage::Live { media, since_ms } => {
            out.u8(1);
            out.text(media.as_str());
            out.u64(*since_ms);
        }
        Stage::Ended => out.u8(2),
        Stage::Closed => out.u8(3),
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
    let board = Board { pin: entry()?, pinned: entry()?, state: entry()? };
    let settings = read_settings(from)?;
    let stage = match from.u8()? {
        0 => Stage::Open,
        1 => {
            let media = MediaId::parse(from.text()?).ok_or(Malformed("a stream without a name"))?;
            Stage::Live { media, since_ms: from.u64()? }
        }
        2 => Stage::Ended,
        3 => Stage::Closed,
        _ => return Err(Malformed("a stage that there is not")),
    };
    Ok(House { sanctions, board, settings, stage })
}

fn write_settings(out: &mut Writer, settings: &Settings) {
    let Settings {
        read_only,
        muted,
        slow_mode_ms,
        min_level,
        members_only,
        followers_only,
        followed_for_ms,
        vip_only,
        motion_role,
        color_role,
        size_role,
        text_chars_max,
        length_role,
        delay_ms,
    } = *settings;
    for is in [read_only, muted, members_only, followers_only, vip_only] {
        out.option(is, |out, is| out.u8(u8::from(is)));
    }
    for n in [slow_mode_ms, min_level, text_chars_max, delay_ms] {
        out.option(n, Writer::u32);
    }
    out.option(followed_for_ms, Writer::u64);
    for role in [motion_role, color_role, size_role, length_role] {
        out.option(role, |out, role| out.u8(role as u8));
    }
}

fn read_settings(from: &mut Reader<'_>) -> Result<Settings, Malformed> {
    let mut is = || from.option(Reader::flag);
    let (read_only, muted, members_only, followers_only, vip_only) = (is()?, is()?, is()?, is()?, is()?);
    let mut n = || from.option(Reader::u32);
    let (slow_mode_ms, min_level, text_chars_max, delay_ms) = (n()?, n()?, n()?, n()?);
    let followed_for_ms = from.option(Reader::u64)?;
    let mut role = || from.option(read_role);
    let (motion_role, color_role, size_role, length_role) = (role()?, role()?, role()?, role()?);
    Ok(Settings {
        read_only,
        muted,
        slow_mode_ms,
        min_level,
        members_only,
        followers_only,
        followed_for_ms,
        vip_only,
        motion_role,
        color_role,
        size_role,
        text_chars_max,
        length_role,
        delay_ms,
    })
}
