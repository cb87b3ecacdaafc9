//! What was decided about users as bytes: a process that takes another one's place must not forget whom it revoked.

use std::sync::Arc;

use danmaku_wire::id::UserId;

use super::codec::{Malformed, Reader, Writer};
use super::state::{read_room_id, read_user};
use crate::identity::claims::RoomClaims;
use crate::identity::users::{Change, Decision};

/// Writes one decision.
pub fn write_decision(out: &mut Writer, decision: &Decision) {
    let Decision { user, valid_after_s, change, touched_s } = decision;
    out.text(UserId::as_str(user));
    out.option(*valid_after_s, Writer::u64);
    out.u64(*touched_s);
    out.option(change.as_ref(), |out, (change, at_s)| {
        out.u64(*at_s);
        out.option(change.name(), Writer::text);
        write_claims(out, change.everywhere());
        out.count(change.rooms().len());
        for (room, claims) in change.rooms() {
            out.text(room.as_str());
            write_claims(out, claims);
        }
    });
}

/// Reads what [`write_decision`] wrote.
///
/// # Errors
/// Where it is not that, or what it says could not have been decided.
pub fn read_decision(from: &mut Reader<'_>) -> Result<Decision, Malformed> {
    let user = read_user(from)?;
    let valid_after_s = from.option(Reader::u64)?;
    let touched_s = from.u64()?;
    let change = from.option(|from| {
        let at_s = from.u64()?;
        let name = from.option(|from| from.text().map(Into::into))?;
        let everywhere = read_claims(from)?;
        let rooms = from.list(|from| Ok((read_room_id(from)?, read_claims(from)?)))?;
        let change = Change::of(name, everywhere, rooms);
        Ok((Arc::new(change.map_err(|_| Malformed("a change that could not be"))?), at_s))
    })?;
    Ok(Decision { user, valid_after_s, change, touched_s })
}

/// The form that tokens have for it: it is read with the same suspicion.
fn write_claims(out: &mut Writer, claims: &RoomClaims) {
    out.text(&serde_json::to_string(claims).unwrap_or_default());
}

fn read_claims(from: &mut Reader<'_>) -> Result<RoomClaims, Malformed> {
    serde_json::from_str(from.text()?).map_err(|_| Malformed("claims that are none"))
}
