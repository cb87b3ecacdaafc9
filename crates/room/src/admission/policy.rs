//! What a room asks of whoever writes: its modes, changed while it goes on.

use danmaku_wire::entry::{Author, COLOR_DEFAULT, Mode as Motion, Role, SIZE_DEFAULT};
use danmaku_wire::native::Send;

use super::Standing;
use super::rule::Rule;
use crate::Now;

/// The numbers behind a room's modes; whether a mode is on is said by [`super::rule::Modes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The room is closed.
    pub closed: bool,
    /// Its stream has ended.
    pub ended: bool,
    /// When a mute of the room is over, microseconds; `None`: when somebody ends it.
    pub muted_until_us: Option<u64>,
    /// The time between two comments of a user, microseconds.
    pub slow_interval_us: u64,
    /// The least level.
    pub level_min: u32,
    /// How long a user must have followed the room, milliseconds.
    pub followed_for_ms: u64,
    /// From which role on a comment may stand still.
    pub motion_role: Role,
    /// From which role on it may be other than white.
    pub color_role: Role,
    /// From which role on it may be of another size than the usual one.
    pub size_role: Role,
    /// From which role on it may be as long as the room's texts may be.
    pub length_role: Role,
    /// Characters of the texts of everybody else.
    pub length_chars_max: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            closed: false,
            ended: false,
            muted_until_us: None,
            slow_interval_us: 5_000_000,
            level_min: 1,
            followed_for_ms: 0,
            motion_role: Role::Vip,
            color_role: Role::Vip,
            size_role: Role::Vip,
            length_role: Role::Vip,
            length_chars_max: 40,
        }
    }
}

/// Whether somebody keeps order in the room, and is not held to its modes.
pub const fn keeps_order(role: Role) -> bool {
    matches!(role, Role::Moderator | Role::Streamer | Role::Staff)
}

impl Policy {
    /// Whether a rule of the room's state stands against a comment. `said_us` is when the user last wrote here.
    ///
    /// # Errors
    /// How many microseconds until it does not, or `None` where waiting alone does not help.
    pub fn check(
        &self,
        rule: Rule,
        now: Now,
        user: &Author,
        standing: &Standing,
        said_us: Option<u64>,
        send: &Send<'_>,
    ) -> Result<(), Option<u64>> {
        let over = |over: bool| if over { Err(None) } else { Ok(()) };
        match rule {
            Rule::ReadOnly => return Err(None),
            Rule::Closed => return over(self.closed),
            Rule::Ended => return over(self.ended),
            _ => {}
        }
        if keeps_order(user.role) {
            return Ok(());
        }
        let below = |role: Role| (user.role as u8) < role as u8;
        let refuse = |met: bool| if met { Err(None) } else { Ok(()) };
        match rule {
            Rule::Muted => match self.muted_until_us {
                Some(until) if until <= now.us => Ok(()),
                until => Err(until.map(|until| until - now.us)),
            },
            Rule::SlowMode => {
                let next = said_us.map_or(0, |said| said.saturating_add(self.slow_interval_us));
                if next > now.us { Err(Some(next - now.us)) } else { Ok(()) }
            }
            Rule::Level => refuse(user.level < self.level_min),
            Rule::Members => refuse(!standing.member),
            Rule::Followers => match standing.followed_at_ms {
                None => Err(None),
                Some(since) => {
                    let left = since.saturating_add(self.followed_for_ms).saturating_sub(now.wall_ms);
                    if left > 0 { Err(Some(left.saturating_mul(1_000))) } else { Ok(()) }
                }
            },
            Rule::Vips => refuse(below(Role::Vip)),
            Rule::Style => refuse(
                send.mode != Motion::Scroll && below(self.motion_role)
                    || send.color != COLOR_DEFAULT && below(self.color_role)
                    || send.size != SIZE_DEFAULT && below(self.size_role),
            ),
            Rule::Length => {
                let longer = send.text.trim().chars().nth(self.length_chars_max).is_some();
                refuse(longer && below(self.length_role))
            }
            _ => Ok(()),
        }
    }
}

/// The rules of a room's state, in the order in which they are asked.
pub const RULES: [Rule; 11] = [
    Rule::Closed,
    Rule::Ended,
    Rule::ReadOnly,
    Rule::Muted,
    Rule::SlowMode,
    Rule::Level,
    Rule::Members,
    Rule::Followers,
    Rule::Vips,
    Rule::Style,
    Rule::Length,
];

#[cfg(test)]
mod tests {
    use super::*;
    use danmaku_wire::id::UserId;

    const NOW: Now = Now { us: 100_000_000, wall_ms: 1_700_000_000_000 };

    struct Case {
        role: Role,
        level: u32,
        standing: Standing,
        said_us: Option<u64>,
        mode: Motion,
        color: u32,
        size: u8,
        text: &'static str,
    }

    const PLAIN: Case = Case {
        role: Role::Viewer,
        level: 0,
        standing: Standing {
            guest: false,
            member: false,
            followed_at_ms: None,
            breaks_rate: false,
            address: 0,
        },
        said_us: None,
        mode: Motion::Scroll,
        color: COLOR_DEFAULT,
        size: SIZE_DEFAULT,
        text: "x",
    };

    fn check(policy: &Policy, rule: Rule, case: &Case) -> Result<(), Option<u64>> {
        let id = UserId::parse("u1").expect("valid");
        let user = Author { id, name: "".into(), role: case.role, level: case.level, badges: Vec::new() };
        let Case { mode, color, size, text, .. } = *case;
        let send = Send { id: "", text, mode, color, size, stream_ms: None, traceparent: "" };
        policy.check(rule, NOW, &user, &case.standing, case.said_us, &send)
    }

    /// `Policy::check` over every rule: whom it stops, for how long, and whom it lets through.
    #[test]
    fn every_mode_stops_whom_it_names_and_nobody_else() {
        let policy = Policy {
            closed: false,
            ended: true,
            muted_until_us: Some(NOW.us + 7),
            slow_interval_us: 1_000,
            level_min: 5,
            followed_for_ms: 10,
            motion_role: Role::Vip,
            color_role: Role::Viewer,
            size_role: Role::Staff,
            length_role: Role::Vip,
            length_chars_max: 3,
        };
        let following = |ms| Standing { followed_at_ms: Some(NOW.wall_ms - ms), ..PLAIN.standing };
        for (rule, case, want) in [
            (Rule::Closed, PLAIN, Ok(())),
            (Rule::Ended, Case { role: Role::Staff, ..PLAIN }, Err(None)),
            (Rule::ReadOnly, Case { role: Role::Staff, ..PLAIN }, Err(None)),
            (Rule::Muted, PLAIN, Err(Some(7))),
            (Rule::Muted, Case { role: Role::Vip, ..PLAIN }, Err(Some(7))),
            (Rule::Muted, Case { role: Role::Moderator, ..PLAIN }, Ok(())),
            (Rule::SlowMode, PLAIN, Ok(())),
            (Rule::SlowMode, Case { said_us: Some(NOW.us - 400), ..PLAIN }, Err(Some(600))),
            (Rule::SlowMode, Case { said_us: Some(NOW.us - 1_000), ..PLAIN }, Ok(())),
            (Rule::SlowMode, Case { said_us: Some(NOW.us), role: Role::Vip, ..PLAIN }, Err(Some(1_000))),
            (Rule::SlowMode, Case { said_us: Some(NOW.us), role: Role::Streamer, ..PLAIN }, Ok(())),
            (Rule::Level, Case { level: 4, ..PLAIN }, Err(None)),
            (Rule::Level, Case { level: 5, ..PLAIN }, Ok(())),
            (Rule::Members, PLAIN, Err(None)),
            (Rule::Members, Case { standing: Standing { member: true, ..PLAIN.standing }, ..PLAIN }, Ok(())),
            (Rule::Followers, PLAIN, Err(None)),
            (Rule::Followers, Case { standing: following(4), ..PLAIN }, Err(Some(6_000))),
            (Rule::Followers, Case { standing: following(10), ..PLAIN }, Ok(())),
            (Rule::Vips, PLAIN, Err(None)),
            (Rule::Vips, Case { role: Role::Vip, ..PLAIN }, Ok(())),
            (Rule::Style, PLAIN, Ok(())),
            (Rule::Style, Case { mode: Motion::Top, ..PLAIN }, Err(None)),
            (Rule::Style, Case { mode: Motion::Top, role: Role::Vip, ..PLAIN }, Ok(())),
            (Rule::Style, Case { color: 255, ..PLAIN }, Ok(())),
            (Rule::Style, Case { size: 40, ..PLAIN }, Err(None)),
            (Rule::Style, Case { size: 40, role: Role::Vip, ..PLAIN }, Err(None)),
            (Rule::Style, Case { size: 40, role: Role::Moderator, ..PLAIN }, Ok(())),
            (Rule::Length, Case { text: " 弹幕弹 ", ..PLAIN }, Ok(())),
            (Rule::Length, Case { text: "弹幕弹幕", ..PLAIN }, Err(None)),
            (Rule::Length, Case { text: "弹幕弹幕", role: Role::Vip, ..PLAIN }, Ok(())),
        ] {
            assert_eq!(check(&policy, rule, &case), want, "{rule:?}");
        }
        let closed = Policy { closed: true, ended: false, ..policy };
        assert_eq!(check(&closed, Rule::Closed, &Case { role: Role::Staff, ..PLAIN }), Err(None));
        assert_eq!(check(&closed, Rule::Ended, &PLAIN), Ok(()));
        let ended = Policy { muted_until_us: Some(NOW.us), ..policy };
        assert_eq!(check(&ended, Rule::Muted, &PLAIN), Ok(()), "a mute ends");
        let endless = Policy { muted_until_us: None, ..policy };
        assert_eq!(check(&endless, Rule::Muted, &PLAIN), Err(None), "or somebody ends it");
    }

    /// `RULES`: in the order of the table, and all that come before the classes.
    #[test]
    fn the_rules_of_the_rooms_state_come_first() {
        assert_eq!(RULES[..], Rule::ALL[..RULES.len()]);
        assert_eq!(Rule::ALL[RULES.len()], Rule::Banned);
    }
}
