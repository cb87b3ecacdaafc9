//! What a token says (RFC 7519, section 4), and what of it is believed.
//!
//! In come claims whose signature was checked, the rules and the time; out comes a user or why not. What a room's
//! entry leaves out is as the entry `*` says, and what that leaves out as the token's top level says.

use std::collections::BTreeMap;

use danmaku_wire::entry::Role;
use danmaku_wire::id::{RoomId, UserId};
use serde::{Deserialize, Serialize};

use super::token::TokenError;
use super::user::{Grant, Identity};

/// The longest life of a token, seconds: a lost one is of no use the day after.
pub const LIFE_S_MAX: u64 = 24 * 60 * 60;
/// Characters of a name.
pub const NAME_CHARS_MAX: usize = 32;
/// Badges in one room.
pub const BADGES_MAX: usize = 8;
/// The highest level.
pub const LEVEL_MAX: u32 = 9_999;
/// Rooms that one token may name.
pub const ROOMS_MAX: usize = 64;
/// The room's name that stands for all others.
const ALL_ROOMS: &str = "*";

/// What a token must be like, beside being signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Whom users' tokens are for; absent: that is not asked.
    pub audience: Option<String>,
    /// Whom tokens of staff are for; absent where no audience is configured: that is not asked.
    pub staff_audience: Option<String>,
    /// Who issues them; absent: that is not asked.
    pub issuer: Option<String>,
    /// What clocks may differ by, seconds.
    pub leeway_s: u64,
    /// Badges that there are. Others are passed over.
    pub badges: Vec<String>,
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Claims {
    /// The user.
    pub sub: String,
    /// When it ends, seconds since 1970.
    pub exp: f64,
    /// From when on it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<f64>,
    /// When it was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<f64>,
    /// Who issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
    /// The display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `viewer` or `vip`; others only with `global`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<TokenRole>,
    /// Whether the role holds in every room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub global: bool,
    /// The level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// Badges, by their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub badges: Option<Vec<String>>,
    /// What else holds in single rooms, by exact name, or `*` for all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rooms: BTreeMap<String, RoomClaims>,
}

/// What a token says of one room.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomClaims {
    /// The role there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<TokenRole>,
    /// The level there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// Whether the user is a member of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<bool>,
    /// Since when it follows the channel, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed_at: Option<f64>,
    /// Badges there, by their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub badges: Option<Vec<String>>,
}

/// Whom a token is for: one or several (RFC 7519, section 4.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Audience {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::One(one) => one == name,
            Self::Several(several) => several.iter().any(|one| one == name),
        }
    }
}

/// A role as tokens write it. That of the system itself is none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TokenRole {
    /// Watches and comments.
    Viewer,
    /// Goes ahead of the crowd.
    Vip,
    /// Keeps order.
    Moderator,
    /// Whose room it is.
    Streamer,
    /// Of the platform.
    Staff,
}

impl From<TokenRole> for Role {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::Viewer => Self::Viewer,
            TokenRole::Vip => Self::Vip,
            TokenRole::Moderator => Self::Moderator,
            TokenRole::Streamer => Self::Streamer,
            TokenRole::Staff => Self::Staff,
        }
    }
}

/// The user that claims make at `now_s`, seconds since 1970.
///
/// # Errors
/// The first thing about them that is not right.
pub fn admit(claims: Claims, rules: &Rules, now_s: u64) -> Result<Identity, TokenError> {
    check_times(&claims, rules, now_s as f64)?;
    if rules.issuer.is_some() && claims.iss != rules.issuer {
        return Err(TokenError::Issuer);
    }
    let for_staff = check_audience(&claims, rules)?;
    let Claims { sub, exp, iat, name, role, global, level, badges, rooms, .. } = claims;
    check_name(&name)?;
    if !global && !matches!(role, None | Some(TokenRole::Viewer | TokenRole::Vip)) {
        return Err(TokenError::Role);
    }
    // `~` begins the ids of guests: no user may pass for one.
    if sub.starts_with('~') {
        return Err(TokenError::Claims);
    }
    let id = UserId::parse(&sub).map_err(|_| TokenError::Claims)?;
    let top = RoomClaims { role, level, badges, ..RoomClaims::default() };
    let mut everywhere = over(&Grant::default(), top, &rules.badges)?;
    let (own, rooms) = own_rooms(rooms)?;
    if let Some(others) = own {
        everywhere = over(&everywhere, others, &rules.badges)?;
    }
    let rooms = rooms
        .into_iter()
        .map(|(room, claims)| Ok((room, over(&everywhere, claims, &rules.badges)?)))
        .collect::<Result<Box<[_]>, TokenError>>()?;
    let staff = |grant: &Grant| grant.role == Role::Staff;
    if !for_staff && (staff(&everywhere) || rooms.iter().any(|(_, grant)| staff(grant))) {
        return Err(TokenError::Staff);
    }
    Ok(Identity {
        id,
        name: name.into(),
        issued_s: iat.map(whole_seconds),
        ends_s: whole_seconds(exp),
        everywhere,
        rooms,
    })
}

/// What `*` says, and what single rooms' entries say.
type OwnRooms = (Option<RoomClaims>, Vec<(RoomId, RoomClaims)>);

/// Tells rooms by their names.
pub(super) fn own_rooms(rooms: BTreeMap<String, RoomClaims>) -> Result<OwnRooms, TokenError> {
    if rooms.len() > ROOMS_MAX {
        return Err(TokenError::Rooms);
    }
    let (mut others, mut own) = (None, Vec::with_capacity(rooms.len()));
    for (name, claims) in rooms {
        if name == ALL_ROOMS {
            others = Some(claims);
        } else {
            own.push((RoomId::parse(&name).map_err(|_| TokenError::Rooms)?, claims));
        }
    }
    Ok((others, own))
}

/// A name that others may be shown.
pub(super) fn check_name(name: &str) -> Result<(), TokenError> {
    let shown = name.chars().count() <= NAME_CHARS_MAX && !name.chars().any(char::is_control);
    if shown { Ok(()) } else { Err(TokenError::Name) }
}

/// What claims say, and where they say nothing what held before.
pub(super) fn over(below: &Grant, claims: RoomClaims, known: &[String]) -> Result<Grant, TokenError> {
    let RoomClaims { role, level, member, followed_at, badges } = claims;
    if level.is_some_and(|level| level > LEVEL_MAX) {
        return Err(TokenError::Level);
    }
    let badges = match badges {
        Some(badges) if badges.len() > BADGES_MAX => return Err(TokenError::Badges),
        Some(badges) => badges.into_iter().filter(|id| known.contains(id)).map(Into::into).collect(),
        None => below.badges.clone(),
    };
    Ok(Grant {
        role: role.map_or(below.role, Role::from),
        level: level.unwrap_or(below.level),
        member: member.unwrap_or(below.member),
        followed_at_s: followed_at.map(whole_seconds).or(below.followed_at_s),
        badges,
    })
}

fn check_times(claims: &Claims, rules: &Rules, now: f64) -> Result<(), TokenError> {
    let (leeway, life) = (rules.leeway_s as f64, LIFE_S_MAX as f64);
    if claims.exp + leeway <= now {
        return Err(TokenError::Expired);
    }
    if claims.nbf.is_some_and(|nbf| nbf > now + leeway) || claims.iat.is_some_and(|iat| iat > now + leeway) {
        return Err(TokenError::Early);
    }
    // Where it does not say when it was issued, it was now.
    if claims.exp - claims.iat.unwrap_or(now).min(now) > life + leeway {
        return Err(TokenError::Life);
    }
    Ok(())
}

/// Whether the token may make staff of its user.
fn check_audience(claims: &Claims, rules: &Rules) -> Result<bool, TokenError> {
    let is_for = |name: &Option<String>| {
        name.as_ref().is_some_and(|name| claims.aud.as_ref().is_some_and(|aud| aud.has(name)))
    };
    if rules.audience.is_none() && rules.staff_audience.is_none() {
        return Ok(true);
    }
    let for_staff = is_for(&rules.staff_audience);
    if for_staff || rules.audience.is_none() || is_for(&rules.audience) {
        Ok(for_staff)
    } else {
        Err(TokenError::Audience)
    }
}

/// A time in whole seconds; what lies before 1970 is 1970. The cast keeps within the type's bounds.
fn whole_seconds(time: f64) -> u64 {
    time as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn admitted(json: &str, rules: &Rules) -> Result<Identity, TokenError> {
        let text = json.replace("EXP", &(NOW + 60).to_string());
        admit(serde_json::from_str(&text).map_err(|_| TokenError::Claims)?, rules, NOW)
    }

    /// `admit`: what a room's entry leaves out is as `*` says, and then as the top level says.
    #[test]
    fn a_room_has_its_own_entry_over_that_of_all_rooms_over_the_top_level() {
        let rules = Rules { badges: vec!["captain".into(), "fan".into()], ..Rules::default() };
        let identity = admitted(
            r#"{"sub":"u1","exp":EXP,"role":"vip","level":2,"badges":["fan","unknown"],"rooms":{
                "*":{"level":3,"member":true},
                "r1":{"role":"moderator","followedAt":1700000000.9,"badges":["captain"]},
                "r2":{"member":false,"badges":[]}}}"#,
            &rules,
        )
        .expect("counts");
        let room = |name: &str| identity.grant(&RoomId::parse(name).expect("a room"));
        let fan: Box<[Box<str>]> = ["fan".into()].into();
        let others =
            Grant { role: Role::Vip, level: 3, member: true, followed_at_s: None, badges: fan.clone() };
        assert_eq!(*room("elsewhere"), others);
        let r1 = Grant {
            role: Role::Moderator,
            followed_at_s: Some(1_700_000_000),
            badges: ["captain".into()].into(),
            ..others.clone()
        };
        assert_eq!(*room("r1"), r1);
        assert_eq!(*room("r2"), Grant { member: false, badges: Box::default(), ..others });
        let author = identity.presence(&RoomId::parse("r1").expect("a room")).author;
        assert_eq!(
            (author.role, author.level, &*author.badges),
            (Role::Moderator, 3, &["captain".into()][..])
        );
    }

    /// `admit`: audiences and issuers count once they are configured, and staff has an audience of its own.
    #[test]
    fn audience_and_issuer_are_asked_for_once_they_are_configured() {
        let some = |text: &str| Some(text.to_owned());
        let open = Rules::default();
        let both = Rules {
            audience: some("chat"),
            staff_audience: some("staff"),
            issuer: some("me"),
            ..Rules::default()
        };
        let no_staff = Rules { audience: some("chat"), ..Rules::default() };
        let staff_only = Rules { staff_audience: some("staff"), ..Rules::default() };
        let ok = Ok(());
        let staff = r#""role":"staff","global":true"#;
        for (more, rules, expected) in [
            ("\"aud\":\"other\",\"iss\":\"x\"".to_owned(), &open, ok),
            (staff.to_owned(), &open, ok),
            ("\"aud\":\"chat\",\"iss\":\"me\"".into(), &both, ok),
            ("\"aud\":[\"other\",\"chat\"],\"iss\":\"me\"".into(), &both, ok),
            ("\"aud\":\"chat\"".into(), &both, Err(TokenError::Issuer)),
            ("\"aud\":\"chat\",\"iss\":\"Me\"".into(), &both, Err(TokenError::Issuer)),
            ("\"iss\":\"me\"".into(), &both, Err(TokenError::Audience)),
            ("\"aud\":\"other\",\"iss\":\"me\"".into(), &both, Err(TokenError::Audience)),
            ("\"aud\":[],\"iss\":\"me\"".into(), &both, Err(TokenError::Audience)),
            ("\"aud\":7,\"iss\":\"me\"".into(), &both, Err(TokenError::Claims)),
            (format!("\"aud\":\"chat\",\"iss\":\"me\",{staff}"), &both, Err(TokenError::Staff)),
            (
                "\"aud\":\"chat\",\"iss\":\"me\",\"rooms\":{\"r1\":{\"role\":\"staff\"}}".into(),
                &both,
                Err(TokenError::Staff),
            ),
            (format!("\"aud\":\"staff\",\"iss\":\"me\",{staff}"), &both, ok),
            (format!("\"aud\":\"chat\",{staff}"), &no_staff, Err(TokenError::Staff)),
            ("\"aud\":\"any\"".into(), &staff_only, ok),
            (staff.into(), &staff_only, Err(TokenError::Staff)),
        ] {
            let json = format!("{{\"sub\":\"u1\",\"exp\":EXP,{more}}}");
            assert_eq!(admitted(&json, rules).map(drop), expected, "{json}");
        }
    }

    /// `admit`: each bound of what a token may carry has its own answer.
    #[test]
    fn what_a_token_carries_is_bounded() {
        let rooms: Vec<_> = (0..=ROOMS_MAX).map(|n| format!("\"r{n}\":{{}}")).collect();
        for (more, expected) in [
            (format!("\"level\":{LEVEL_MAX}"), Ok(())),
            (format!("\"level\":{}", LEVEL_MAX + 1), Err(TokenError::Level)),
            ("\"level\":-1".into(), Err(TokenError::Claims)),
            ("\"badges\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]".into(), Ok(())),
            (
                "\"badges\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"]".into(),
                Err(TokenError::Badges),
            ),
            ("\"rooms\":{\"r 1\":{}}".into(), Err(TokenError::Rooms)),
            ("\"rooms\":{\"r*\":{}}".into(), Err(TokenError::Rooms)),
            (format!("\"rooms\":{{{}}}", rooms[..ROOMS_MAX].join(",")), Ok(())),
            (format!("\"rooms\":{{{}}}", rooms.join(",")), Err(TokenError::Rooms)),
            ("\"rooms\":{\"r1\":{\"role\":\"system\"}}".into(), Err(TokenError::Claims)),
            ("\"rooms\":{\"r1\":{\"level\":10000}}".into(), Err(TokenError::Level)),
            (format!("\"iat\":{}", NOW - LIFE_S_MAX + 60), Ok(())),
            (format!("\"iat\":{}", NOW - LIFE_S_MAX + 59), Err(TokenError::Life)),
            (format!("\"iat\":{}", NOW + 1), Err(TokenError::Early)),
            ("\"iat\":\"now\"".into(), Err(TokenError::Claims)),
        ] {
            let json = format!("{{\"sub\":\"u1\",\"exp\":EXP,{more}}}");
            assert_eq!(admitted(&json, &Rules::default()).map(drop), expected, "{json}");
        }
    }
}
