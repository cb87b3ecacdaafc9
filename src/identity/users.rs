//! What was decided about users after their tokens were issued: tokens revoked by their time of issue, names, roles and
//! levels changed. It counts against tokens that are older than the decision; one that was issued later knows better.
//!
//! No token lives longer than a day, so that nothing need be remembered longer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use danmaku_wire::id::{RoomId, UserId};
use serde::Deserialize;

use super::claims::{LIFE_S_MAX, ROOMS_MAX, RoomClaims, TokenRole, check_name, over, own_rooms};
use super::token::TokenError;
use super::user::{Grant, Identity, Presence};

/// What is to be changed about a user: of what is left out nothing.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserPatch {
    /// The display name.
    pub name: Option<String>,
    /// The role where no room says otherwise; above vip only with `global`.
    pub role: Option<TokenRole>,
    /// Whether the role may be above vip.
    #[serde(default)]
    pub global: bool,
    /// The level where no room says otherwise.
    pub level: Option<u32>,
    /// Badges where no room says otherwise.
    pub badges: Option<Vec<String>>,
    /// What holds in single rooms.
    #[serde(default)]
    pub rooms: std::collections::BTreeMap<String, RoomClaims>,
}

/// A patch that was checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    name: Option<Box<str>>,
    everywhere: RoomClaims,
    rooms: Vec<(RoomId, RoomClaims)>,
}

impl Change {
    /// Checks a patch by the rules of tokens.
    ///
    /// # Errors
    /// What about it cannot be.
    pub fn check(patch: UserPatch, badges: &[String]) -> Result<Self, TokenError> {
        let UserPatch { name, role, global, level, badges: own_badges, rooms } = patch;
        if let Some(name) = &name {
            check_name(name)?;
        }
        if !global && !matches!(role, None | Some(TokenRole::Viewer | TokenRole::Vip)) {
            return Err(TokenError::Role);
        }
        let mut everywhere = RoomClaims { role, level, badges: own_badges, ..RoomClaims::default() };
        let (others, mut rooms) = own_rooms(rooms)?;
        for claims in others.iter().chain(rooms.iter().map(|(_, claims)| claims)).chain([&everywhere]) {
            over(&Grant::default(), claims.clone(), badges)?;
        }
        if let Some(others) = others {
            everywhere = merged(everywhere, others);
        }
        let known = |claims: &mut RoomClaims| {
            if let Some(own) = &mut claims.badges {
                own.retain(|id| badges.contains(id));
            }
        };
        known(&mut everywhere);
        rooms.iter_mut().for_each(|(_, claims)| known(claims));
        Ok(Self { name: name.map(Into::into), everywhere, rooms })
    }

    /// A change by its parts, held to the same bounds; badges are those of the check that they went through.
    ///
    /// # Errors
    /// What about it cannot be.
    pub fn of(
        name: Option<Box<str>>,
        everywhere: RoomClaims,
        rooms: Vec<(RoomId, RoomClaims)>,
    ) -> Result<Self, TokenError> {
        if rooms.len() > ROOMS_MAX {
            return Err(TokenError::Rooms);
        }
        name.as_deref().map_or(Ok(()), check_name)?;
        for claims in rooms.iter().map(|(_, claims)| claims).chain([&everywhere]) {
            over(&Grant::default(), claims.clone(), &[])?;
        }
        Ok(Self { name, everywhere, rooms })
    }

    /// The name, where it is changed.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What is changed for all rooms.
    pub const fn everywhere(&self) -> &RoomClaims {
        &self.everywhere
    }

    /// What is changed for single rooms.
    pub fn rooms(&self) -> &[(RoomId, RoomClaims)] {
        &self.rooms
    }

    /// Whether it is about single rooms alone.
    pub fn rooms_alone(&self) -> Option<impl Iterator<Item = &RoomId>> {
        let alone = self.name.is_none() && self.everywhere == RoomClaims::default();
        alone.then(|| self.rooms.iter().map(|(room, _)| room))
    }

    /// This change after another one.
    fn after(self, before: &Self) -> Result<Self, NotKept> {
        let mut rooms = before.rooms.clone();
        for (room, claims) in self.rooms {
            match rooms.iter_mut().find(|(name, _)| *name == room) {
                Some((_, found)) => *found = merged(std::mem::take(found), claims),
                None => rooms.push((room, claims)),
            }
        }
        if rooms.len() > ROOMS_MAX {
            return Err(NotKept::Rooms);
        }
        Ok(Self {
            name: self.name.or_else(|| before.name.clone()),
            everywhere: merged(before.everywhere.clone(), self.everywhere),
            rooms,
        })
    }

    /// Who a user is in a room when all of this is so. A room's own entry in the token stays above what is
    /// changed for all rooms.
    fn presence(&self, identity: &Identity, room: &RoomId) -> Presence {
        let own_entry = identity.rooms.iter().any(|(name, _)| name == room);
        let mut grant = identity.grant(room).clone();
        if !own_entry {
            grant = laid_over(grant, &self.everywhere);
        }
        if let Some((_, claims)) = self.rooms.iter().find(|(name, _)| name == room) {
            grant = laid_over(grant, claims);
        }
        Presence::of(&identity.id, self.name.as_deref().unwrap_or(&identity.name), &grant)
    }
}

fn merged(below: RoomClaims, above: RoomClaims) -> RoomClaims {
    RoomClaims {
        role: above.role.or(below.role),
        level: above.level.or(below.level),
        member: above.member.or(below.member),
        followed_at: above.followed_at.or(below.followed_at),
        badges: above.badges.or(below.badges),
    }
}

/// What was checked already cannot fail: bounds and badges are those of the check.
fn laid_over(below: Grant, claims: &RoomClaims) -> Grant {
    let known = claims.badges.clone().unwrap_or_default();
    over(&below, claims.clone(), &known).unwrap_or(below)
}

/// What was decided about one user, as another process takes it over.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Who.
    pub user: UserId,
    /// Tokens issued before this count no more, seconds since 1970.
    pub valid_after_s: Option<u64>,
    /// What was changed, and when, seconds since 1970.
    pub change: Option<(Arc<Change>, u64)>,
    /// When all of it was last added to, seconds since 1970.
    pub touched_s: u64,
}

/// What is known of one user.
#[derive(Debug, Clone, Default)]
struct Decided {
    /// Tokens issued before this count no more.
    valid_after_s: Option<u64>,
    /// What was changed, and when.
    change: Option<(Arc<Change>, u64)>,
    /// When all of it was last added to.
    touched_s: u64,
}

/// Why a decision is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotKept {
    /// The table is full.
    Full {
        /// How long until it is not, seconds.
        wait_s: u64,
    },
    /// The user has changes in too many rooms.
    Rooms,
}

/// Users about whom something was decided.
#[derive(Debug, Default)]
pub struct Users {
    decided: HashMap<UserId, Decided>,
    /// The order in which they were added to, with entries that a later one made void.
    by_age: VecDeque<(u64, UserId)>,
}

impl Users {
    /// Tokens of a user that were issued before a time count no more. The latest such time stays.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn revoke(
        &mut self,
        user: &UserId,
        issued_before_s: u64,
        now_s: u64,
        max: usize,
    ) -> Result<(), NotKept> {
        let decided = self.entry(user, now_s, max)?;
        decided.valid_after_s = decided.valid_after_s.max(Some(issued_before_s));
        Ok(())
    }

    /// Changes what a user is, over what was changed before.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn change(&mut self, user: &UserId, change: Change, now_s: u64, max: usize) -> Result<(), NotKept> {
        let decided = self.entry(user, now_s, max)?;
        let change = match &decided.change {
            Some((before, _)) => change.after(before)?,
            None => change,
        };
        decided.change = Some((Arc::new(change), now_s));
        Ok(())
    }

    /// All decisions, the oldest first.
    pub fn decisions(&self) -> Vec<Decision> {
        let standing = self.by_age.iter().filter_map(|(at_s, user)| {
            let Decided { valid_after_s, change, touched_s } = self.decided.get(user)?;
            let (user, change) = (user.clone(), change.clone());
            let (valid_after_s, touched_s) = (*valid_after_s, *touched_s);
            (touched_s == *at_s).then_some(Decision { user, valid_after_s, change, touched_s })
        });
        standing.collect()
    }

    /// Takes over what another process had decided, as [`Self::decisions`] gave it.
    pub fn take_over(&mut self, decisions: Vec<Decision>) {
        for Decision { user, valid_after_s, change, touched_s } in decisions {
            self.by_age.push_back((touched_s, user.clone()));
            self.decided.insert(user, Decided { valid_after_s, change, touched_s });
        }
    }

    /// Whether an identity still counts.
    pub fn is_revoked(&self, identity: &Identity) -> bool {
        let valid_after = self.decided.get(&identity.id).and_then(|decided| decided.valid_after_s);
        valid_after.is_some_and(|after| identity.issued_s.is_none_or(|issued| issued < after))
    }

    /// Who a user is in a room.
    pub fn presence(&self, identity: &Identity, room: &RoomId) -> Presence {
        let change = self.decided.get(&identity.id).and_then(|decided| decided.change.as_ref());
        match change {
            Some((change, _)) if self.is_changed(identity) => change.presence(identity, room),
            _ => identity.presence(room),
        }
    }

    /// Whether a user is otherwise than its token says.
    pub fn is_changed(&self, identity: &Identity) -> bool {
        let change = self.decided.get(&identity.id).and_then(|decided| decided.change.as_ref());
        change.is_some_and(|(_, at_s)| identity.issued_s.is_none_or(|issued| issued <= *at_s))
    }

    fn entry(&mut self, user: &UserId, now_s: u64, max: usize) -> Result<&mut Decided, NotKept> {
        self.forget_aged(now_s);
        if !self.decided.contains_key(user) && self.decided.len() >= max {
            let oldest_s = self.by_age.front().map_or(now_s, |(at_s, _)| *at_s);
            return Err(NotKept::Full { wait_s: (oldest_s + KEPT_S).saturating_sub(now_s).max(1) });
        }
        if self.by_age.len() >= max.saturating_mul(2) {
            let decided = &self.decided;
            self.by_age.retain(|(at_s, user)| decided.get(user).is_some_and(|d| d.touched_s == *at_s));
        }
        self.by_age.push_back((now_s, user.clone()));
        let decided = self.decided.entry(user.clone()).or_default();
        decided.touched_s = now_s;
        Ok(decided)
    }

    fn forget_aged(&mut self, now_s: u64) {
        while let Some((at_s, user)) = self.by_age.front() {
            let stands = self.decided.get(user).is_some_and(|decided| decided.touched_s == *at_s);
            if stands && at_s + KEPT_S > now_s {
                return;
            }
            if stands {
                self.decided.remove(user);
            }
            self.by_age.pop_front();
        }
    }

    /// Users in it.
    pub fn len(&self) -> usize {
        self.decided.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.decided.is_empty()
    }
}

/// How long a decision is remembered, seconds: as long as a token of before may live, and what clocks may differ by.
const KEPT_S: u64 = LIFE_S_MAX + 10 * 60;

#[cfg(test)]
mod tests {
    use super::*;
    use danmaku_wire::entry::Role;

    const NOW: u64 = 1_800_000_000;

    fn user(id: &str) -> UserId {
        UserId::parse(id).expect("an id")
    }

    fn room(name: &str) -> RoomId {
        RoomId::parse(name).expect("a room")
    }

    fn identity(id: &str, issued_s: Option<u64>) -> Identity {
        let own = Grant { role: Role::Moderator, level: 7, ..Grant::default() };
        Identity {
            id: user(id),
            name: "Ann".into(),
            issued_s,
            ends_s: NOW + 60,
            everywhere: Grant { level: 1, ..Grant::default() },
            rooms: [(room("own"), own)].into(),
        }
    }

    fn change(json: &str) -> Result<Change, TokenError> {
        Change::check(serde_json::from_str(json).expect("a patch"), &["fan".to_owned()])
    }

    /// `Users::revoke`: tokens of before are gone, whichever order the words came in; those of after count.
    #[test]
    fn tokens_issued_before_a_revocation_count_no_more() {
        let mut users = Users::default();
        users.revoke(&user("u1"), NOW, NOW, 8).expect("room");
        users.revoke(&user("u1"), NOW - 50, NOW + 1, 8).expect("room");
        for (issued, revoked) in
            [(None, true), (Some(NOW - 1), true), (Some(NOW), false), (Some(NOW + 1), false)]
        {
            assert_eq!(users.is_revoked(&identity("u1", issued)), revoked, "{issued:?}");
        }
        assert!(!users.is_revoked(&identity("u2", None)));
    }

    /// `Users::change`: over the token, room by room, added up, until a newer token comes.
    #[test]
    fn a_change_holds_over_older_tokens_and_adds_up() {
        let mut users = Users::default();
        let older = identity("u1", Some(NOW - 10));
        users
            .change(
                &user("u1"),
                change(r#"{"name":"Bea","level":3,"badges":["fan","none"]}"#).expect("right"),
                NOW,
                8,
            )
            .expect("room");
        let author = users.presence(&older, &room("r1")).author;
        assert_eq!(
            (&*author.name, author.role, author.level, author.badges.len()),
            ("Bea", Role::Viewer, 3, 1)
        );
        let own = users.presence(&older, &room("own")).author;
        assert_eq!(
            (&*own.name, own.role, own.level),
            ("Bea", Role::Moderator, 7),
            "a room's own entry stays above"
        );
        let second = r#"{"rooms":{"own":{"role":"viewer"},"*":{"role":"vip"}}}"#;
        users.change(&user("u1"), change(second).expect("right"), NOW + 5, 8).expect("room");
        let author = users.presence(&older, &room("r1")).author;
        assert_eq!((&*author.name, author.role, author.level), ("Bea", Role::Vip, 3));
        let own = users.presence(&older, &room("own")).author;
        assert_eq!((own.role, own.level), (Role::Viewer, 7));
        let newer = users.presence(&identity("u1", Some(NOW + 6)), &room("r1")).author;
        assert_eq!(
            (&*newer.name, newer.role, newer.level),
            ("Ann", Role::Viewer, 1),
            "a newer token knows better"
        );
        assert_eq!(&*users.presence(&identity("u2", None), &room("r1")).author.name, "Ann");
    }

    /// `Users::take_over`: another process knows all that this one knows, and forgets it at the same time.
    #[test]
    fn decisions_are_taken_over_whole() {
        let mut users = Users::default();
        users.revoke(&user("u1"), NOW, NOW, 8).expect("room");
        users.change(&user("u2"), change(r#"{"name":"Bea"}"#).expect("right"), NOW + 1, 8).expect("room");
        users.change(&user("u1"), change(r#"{"level":3}"#).expect("right"), NOW + 2, 8).expect("room");
        let mut successor = Users::default();
        successor.take_over(users.decisions());
        assert_eq!(successor.decisions(), users.decisions());
        assert!(successor.is_revoked(&identity("u1", Some(NOW - 1))));
        assert_eq!(&*successor.presence(&identity("u2", None), &room("r1")).author.name, "Bea");
        successor.revoke(&user("u3"), NOW, NOW + KEPT_S + 1, 8).expect("room");
        assert_eq!(successor.len(), 2, "u2 is forgotten in its time");
    }

    /// `Change::check`: what a token may not say a patch may not say.
    #[test]
    fn a_patch_is_held_to_the_rules_of_tokens() {
        for (json, expected) in [
            (r#"{"name":"a\u0000"}"#, TokenError::Name),
            (r#"{"role":"moderator"}"#, TokenError::Role),
            (r#"{"level":10000}"#, TokenError::Level),
            (r#"{"rooms":{"r 1":{}}}"#, TokenError::Rooms),
            (r#"{"rooms":{"r1":{"level":10000}}}"#, TokenError::Level),
        ] {
            assert_eq!(change(json), Err(expected), "{json}");
        }
        assert!(change(r#"{"role":"moderator","global":true}"#).is_ok());
        let rooms = |json: &str| change(json).expect("right").rooms_alone().map(|rooms| rooms.count());
        assert_eq!(rooms(r#"{"rooms":{"r1":{"level":1},"r2":{}}}"#), Some(2));
        assert_eq!(rooms(r#"{"rooms":{"*":{"level":1}}}"#), None);
        assert_eq!(rooms(r#"{"name":"a","rooms":{"r1":{"level":1}}}"#), None);
    }

    /// `Users`: so many and no more, none forgotten before its day is over, each forgotten then.
    #[test]
    fn decisions_are_bounded_and_last_a_day() {
        let mut users = Users::default();
        for n in 0..4 {
            users.revoke(&user(&format!("u{n}")), NOW, NOW + n, 4).expect("room");
        }
        assert_eq!(users.revoke(&user("u4"), NOW, NOW + 10, 4), Err(NotKept::Full { wait_s: KEPT_S - 10 }));
        for n in 0..100 {
            users.revoke(&user("u0"), NOW, NOW + 10 + n, 4).expect("it is there already");
        }
        assert!(users.by_age.len() <= 8, "{}", users.by_age.len());
        users.revoke(&user("u4"), NOW, NOW + KEPT_S + 1, 4).expect("u1 is forgotten");
        assert!(users.is_revoked(&identity("u0", Some(NOW - 1))), "added to since");
        assert!(!users.is_revoked(&identity("u1", Some(NOW - 1))));
        users.revoke(&user("u5"), NOW, NOW + 2 * KEPT_S + 10, 4).expect("all are forgotten");
        assert_eq!(users.len(), 1);
    }
}
