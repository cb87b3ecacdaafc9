//! What staff sets of a room while it goes on, over what the configuration of its class says, and what its members are told
//! of it.

use std::fmt::Write;

use danmaku_wire::entry::Role;

use crate::admission::Limits;
use crate::admission::rule::{Mode, Rule};
use crate::house::stage::Stage;
use crate::owner::held;

macro_rules! settings {
    ($( $(#[doc = $doc:literal])* $field:ident: $type:ty, )*) => {
        /// What is set; `None`: as the configuration has it.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Settings {
            $( $(#[doc = $doc])* pub $field: Option<$type>, )*
        }

        /// What is to be set anew: `None` leaves a setting, `Some(None)` gives it back to the configuration.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Patch {
            $( $(#[doc = $doc])* pub $field: Option<Option<$type>>, )*
        }

        impl Settings {
            /// These with a patch laid over them.
            pub fn with(&self, patch: &Patch) -> Self {
                Self { $( $field: patch.$field.unwrap_or(self.$field), )* }
            }

            /// Whether the configuration holds alone.
            pub const fn is_empty(&self) -> bool {
                true $( && self.$field.is_none() )*
            }
        }
    };
}

settings! {
    /// Whether nobody may write.
    read_only: bool,
    /// Whether nobody but those who keep order may.
    muted: bool,
    /// The time between two comments of a user, milliseconds; 0: none.
    slow_mode_ms: u32,
    /// The least level; 0: none.
    min_level: u32,
    /// Whether only members may write.
    members_only: bool,
    /// Whether only followers may.
    followers_only: bool,
    /// For how long they must have followed, milliseconds.
    followed_for_ms: u64,
    /// Whether only VIPs may write.
    vip_only: bool,
    /// From which role on comments may stand still.
    motion_role: Role,
    /// From which role on they may be other than white.
    color_role: Role,
    /// From which role on they may be of another size than the usual one.
    size_role: Role,
    /// Characters of the texts of those below `length_role`; 0: as of everybody's.
    text_chars_max: u32,
    /// From which role on texts may be as long as any.
    length_role: Role,
    /// How long the crowd's comments wait before they are shown, milliseconds; 0: not at all.
    delay_ms: u32,
}

const fn on(is: bool) -> Mode {
    if is { Mode::Enforce } else { Mode::Off }
}

fn put<T>(to: &mut T, set: Option<T>) {
    if let Some(value) = set {
        *to = value;
    }
}

impl Settings {
    /// Lays them over what the configuration says. What is set is enforced, whatever the rule did before.
    pub fn lay_over(&self, limits: &mut Limits, held: &mut held::Bounds) {
        let Limits { modes, policy, .. } = limits;
        for (rule, set) in [
            (Rule::ReadOnly, self.read_only),
            (Rule::Muted, self.muted),
            (Rule::SlowMode, self.slow_mode_ms.map(|ms| ms > 0)),
            (Rule::Level, self.min_level.map(|level| level > 0)),
            (Rule::Members, self.members_only),
            (Rule::Followers, self.followers_only),
            (Rule::Vips, self.vip_only),
            (Rule::Length, self.text_chars_max.map(|chars| chars > 0)),
        ] {
            if let Some(is) = set {
                modes.set(rule, on(is));
            }
        }
        let roles = [self.motion_role, self.color_role, self.size_role];
        if roles.iter().any(Option::is_some) {
            if modes.at(Rule::Style) != Mode::Enforce {
                // What was not enforced before does not come to be by the way.
                (policy.motion_role, policy.color_role, policy.size_role) =
                    (Role::Viewer, Role::Viewer, Role::Viewer);
                modes.set(Rule::Style, Mode::Enforce);
            }
            put(&mut policy.motion_role, self.motion_role);
            put(&mut policy.color_role, self.color_role);
            put(&mut policy.size_role, self.size_role);
        }
        put(&mut policy.slow_interval_us, self.slow_mode_ms.map(|ms| u64::from(ms) * 1_000));
        put(&mut policy.level_min, self.min_level);
        put(&mut policy.followed_for_ms, self.followed_for_ms);
        put(&mut policy.length_chars_max, self.text_chars_max.map(|chars| chars as usize));
        put(&mut policy.length_role, self.length_role);
        put(&mut held.delay_us, self.delay_ms.map(|ms| u64::from(ms) * 1_000));
    }
}

/// What a room's members are told of its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The time between two comments of a user, milliseconds; 0: none.
    pub slow_mode_ms: u64,
    /// A JSON object with what is not as in a room that asks for nothing; empty where there is nothing of the kind.
    pub data: Box<str>,
}

/// In front of the value of slow mode in [`State::data`]. No text of a stranger is in there that could look like it.
const SLOW_KEY: &str = "\"slowModeMs\":";

impl State {
    /// The state that these limits make in a stage of a room's life. A rule that observes or is off asks for nothing.
    pub fn of(limits: &Limits, held: &held::Bounds, stage: &Stage) -> Self {
        let Limits { modes, policy, .. } = limits;
        let enforced = |rule| modes.at(rule) == Mode::Enforce;
        let mut data = String::new();
        let mut put = |name: &str, value: &dyn std::fmt::Display| {
            data.push(if data.is_empty() { '{' } else { ',' });
            let _ = write!(data, "\"{name}\":{value}");
        };
        if !stage.is_open() {
            put("stage", &format_args!("\"{}\"", stage.as_str()));
        }
        if let Stage::Live { media, since_ms } = stage {
            put("mediaId", &format_args!("\"{}\"", media.as_str()));
            put("liveSince", since_ms);
        }
        for (rule, name) in [
            (Rule::ReadOnly, "readOnly"),
            (Rule::Muted, "muted"),
            (Rule::Members, "membersOnly"),
            (Rule::Followers, "followersOnly"),
            (Rule::Vips, "vipOnly"),
        ] {
            if enforced(rule) {
                put(name, &true);
            }
        }
        let slow_mode_ms = if enforced(Rule::SlowMode) { policy.slow_interval_us.div_ceil(1_000) } else { 0 };
        for (says, name, value) in [
            (slow_mode_ms > 0, "slowModeMs", slow_mode_ms),
            (enforced(Rule::Level) && policy.level_min > 0, "minLevel", policy.level_min.into()),
            (
                enforced(Rule::Followers) && policy.followed_for_ms > 0,
                "followedForMs",
                policy.followed_for_ms,
            ),
            (enforced(Rule::Length), "textCharsMax", policy.length_chars_max as u64),
            (held.delay_us > 0, "delayMs", held.delay_us / 1_000),
        ] {
            if says {
                put(name, &value);
            }
        }
        for (rule, name, role) in [
            (Rule::Style, "motionRole", policy.motion_role),
            (Rule::Style, "colorRole", policy.color_role),
            (Rule::Style, "sizeRole", policy.size_role),
            (Rule::Length, "lengthRole", policy.length_role),
        ] {
            if enforced(rule) && role != Role::Viewer {
                put(name, &format_args!("\"{}\"", role.as_str()));
            }
        }
        if !data.is_empty() {
            data.push('}');
        }
        Self { slow_mode_ms, data: data.into() }
    }

    /// The state that an entry of the log has told.
    pub fn told(data: &str) -> Self {
        let digits = data.split_once(SLOW_KEY).map_or("", |(_, rest)| rest);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let data = if data == "{}" { "" } else { data };
        Self { slow_mode_ms: digits[..end].parse().unwrap_or(0), data: data.into() }
    }

    /// What an entry of the log says of it.
    pub fn entry_data(&self) -> Box<str> {
        if self.data.is_empty() { "{}".into() } else { self.data.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(set: impl FnOnce(&mut Patch)) -> State {
        let mut patch = Patch::default();
        set(&mut patch);
        let (mut limits, mut held) = (Limits::default(), held::Bounds::default());
        Settings::default().with(&patch).lay_over(&mut limits, &mut held);
        State::of(&limits, &held, &Stage::Open)
    }

    /// `Settings::lay_over` and `State::of`: each setting alone, and what members are told of it.
    #[test]
    fn members_are_told_what_is_set() {
        for (told, data) in [
            (state(|_| {}), ""),
            (state(|patch| patch.read_only = Some(Some(true))), r#"{"readOnly":true}"#),
            (state(|patch| patch.read_only = Some(Some(false))), ""),
            (state(|patch| patch.muted = Some(Some(true))), r#"{"muted":true}"#),
            (state(|patch| patch.slow_mode_ms = Some(Some(7_000))), r#"{"slowModeMs":7000}"#),
            (state(|patch| patch.slow_mode_ms = Some(Some(0))), ""),
            (state(|patch| patch.min_level = Some(Some(3))), r#"{"minLevel":3}"#),
            (state(|patch| patch.members_only = Some(Some(true))), r#"{"membersOnly":true}"#),
            (state(|patch| patch.followers_only = Some(Some(true))), r#"{"followersOnly":true}"#),
            (state(|patch| patch.followed_for_ms = Some(Some(9))), ""),
            (
                state(|patch| {
                    patch.followers_only = Some(Some(true));
                    patch.followed_for_ms = Some(Some(9));
                }),
                r#"{"followersOnly":true,"followedForMs":9}"#,
            ),
            (state(|patch| patch.vip_only = Some(Some(true))), r#"{"vipOnly":true}"#),
            (state(|patch| patch.motion_role = Some(Some(Role::Vip))), r#"{"motionRole":"vip"}"#),
            (state(|patch| patch.color_role = Some(Some(Role::Staff))), r#"{"colorRole":"staff"}"#),
            (state(|patch| patch.size_role = Some(Some(Role::Viewer))), ""),
            (
                state(|patch| patch.text_chars_max = Some(Some(20))),
                r#"{"textCharsMax":20,"lengthRole":"vip"}"#,
            ),
            (state(|patch| patch.delay_ms = Some(Some(3_000))), r#"{"delayMs":3000}"#),
        ] {
            assert_eq!(&*told.data, data);
            assert_eq!(State::told(&told.entry_data()), told, "an entry tells the same");
        }
    }

    /// `Settings::with`: what a patch leaves out stays, null gives it back, and an empty one changes nothing.
    #[test]
    fn a_patch_changes_what_it_names() {
        let set = Patch { muted: Some(Some(true)), slow_mode_ms: Some(Some(5_000)), ..Patch::default() };
        let settings = Settings::default().with(&set);
        assert_eq!(
            settings,
            Settings { muted: Some(true), slow_mode_ms: Some(5_000), ..Settings::default() }
        );
        assert_eq!(settings.with(&Patch::default()), settings);
        let settings = settings.with(&Patch { muted: Some(None), ..Patch::default() });
        assert_eq!(settings, Settings { slow_mode_ms: Some(5_000), ..Settings::default() });
        assert!(settings.with(&Patch { slow_mode_ms: Some(None), ..Patch::default() }).is_empty());
    }

    /// `Settings::lay_over`: a role that is set does not enforce those that the configuration only has noted.
    #[test]
    fn a_role_that_is_set_enforces_itself_alone() {
        let told = state(|patch| patch.color_role = Some(Some(Role::Moderator)));
        assert_eq!(&*told.data, r#"{"colorRole":"moderator"}"#);
        let (mut limits, mut held) = (Limits::default(), held::Bounds::default());
        limits.modes.set(Rule::Style, Mode::Enforce);
        let settings = Settings { color_role: Some(Role::Moderator), ..Settings::default() };
        settings.lay_over(&mut limits, &mut held);
        assert_eq!((limits.policy.motion_role, limits.policy.color_role), (Role::Vip, Role::Moderator));
    }
}
