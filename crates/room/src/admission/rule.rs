//! The rules of admission, in the order in which they are asked: one table from which the counters, the documentation
//! and the test that walks them are made.

use danmaku_wire::native::ErrorCode;

/// How a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// It refuses, and counts what it refuses.
    #[default]
    Enforce,
    /// It counts what it would refuse, and refuses nothing.
    Observe,
    /// It is not asked.
    Off,
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name in refusals and metrics.
    pub name: &'static str,
    /// The configuration key that says how it acts.
    pub key: &'static str,
    /// What the sender is told.
    pub code: ErrorCode,
    /// Whether it leaves VIPs alone that are within their room's ceiling.
    pub spares_vip: bool,
    /// What it refuses, as a sentence.
    pub what: &'static str,
    /// How it acts where nothing else is said.
    pub default: Mode,
}

macro_rules! rules {
    ($( $variant:ident($name:literal, $key:literal, $code:ident, $spares:literal, $default:ident): $what:literal, )*) => {
        /// A rule that may refuse a comment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Rule {
            $( #[doc = $what] $variant, )*
        }

        impl Rule {
            /// All rules, in the order in which they are asked.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The rule's line.
            pub const fn row(self) -> Row {
                match self {
                    $( Self::$variant => Row {
                        name: $name,
                        key: $key,
                        code: ErrorCode::$code,
                        spares_vip: $spares,
                        what: $what,
                        default: Mode::$default,
                    }, )*
                }
            }
        }
    };
}

rules! {
    Closed("closed", "policy.closed_mode", RoomClosed, false, Enforce):
        "Everything, once the room is closed; then nobody is in it either.",
    Ended("ended", "policy.ended_mode", RoomEnded, false, Enforce):
        "Everything, once the room's stream has ended.",
    ReadOnly("read_only", "policy.read_only_mode", ReadOnly, false, Off):
        "Everything, while nobody may write in the room.",
    Muted("muted", "policy.muted_mode", Muted, false, Off):
        "What anyone but staff writes, while the room is muted.",
    SlowMode("slow_mode", "policy.slow_mode", SlowMode, false, Off):
        "A user's next comment before `policy.slow_interval` has passed.",
    Level("level", "policy.level_mode", LevelTooLow, false, Off):
        "What users below `policy.level_min` write.",
    Members("members", "policy.members_mode", MembersOnly, false, Off):
        "What anyone but members writes.",
    Followers("followers", "policy.followers_mode", FollowersOnly, false, Off):
        "What users write who have not followed for `policy.followed_for`.",
    Vips("vips", "policy.vips_mode", Forbidden, false, Off):
        "What anyone below a VIP writes.",
    Style("style", "policy.style_mode", Forbidden, false, Off):
        "Modes other than scrolling, colours other than white and other sizes, of anyone below `policy.motion_role`, \
         `policy.color_role` and `policy.size_role`.",
    Length("length", "policy.length_mode", TextTooLong, false, Off):
        "Texts longer than `policy.length_chars_max` of anyone below `policy.length_role`.",
    Banned("banned", "moderation.bans_mode", Banned, false, Enforce):
        "What users write who are banned from the room, or come from a banned address.",
    MutedUser("muted_user", "moderation.mutes_mode", Muted, false, Enforce):
        "What users write who are muted in the room.",
    ShadowBanned("shadow_banned", "moderation.shadow_bans_mode", Rejected, false, Enforce):
        "What users write who are shadow-banned: nobody else sees it, and they are not told.",
    Filtered("filtered", "limits.filtered_mode", Rejected, false, Enforce):
        "What comes from users, clients or levels that the room filters, and over connections that break their rate.",
    VipCeiling("vip_ceiling", "limits.vip_mode", RateLimited, true, Enforce):
        "Priority of VIP comments above `limits.vip_per_s` in a room: they go the way of everybody else's.",
    Everywhere("everywhere", "limits.everywhere_mode", RateLimited, true, Off):
        "What a user writes faster in all rooms together than `limits.everywhere_per_s`, in rooms that limit their users.",
    UserRate("user_rate", "limits.user_mode", RateLimited, true, Enforce):
        "What a user writes faster in a room than `limits.user_per_s`, or `limits.guest_per_s` for guests.",
    RoomRate("room_rate", "limits.room_mode", Overloaded, true, Enforce):
        "What goes over `limits.room_count_max` in a window: first from the users who had most of it.",
    NodeRate("node_rate", "limits.node_mode", Overloaded, true, Off):
        "What goes over `limits.node_count_max` in a window over all rooms of the process: first from users who wrote in their room lately.",
    Breaker("breaker", "limits.breaker_mode", Overloaded, true, Enforce):
        "What comes while what is behind the room is saturated: its store, its passes, or a webhook that a room with `webhook.webhook_fail = \"closed\"` waits for.",
    WorkerBreaker("worker_breaker", "limits.worker_breaker_mode", Overloaded, true, Enforce):
        "What comes while what is behind the room's worker is saturated: its mailbox, or its passes.",
    Spread("spread", "limits.spread_mode", Rejected, true, Off):
        "A text that its author has said in more than three rooms within `limits.spread_within`: it is held for a moderator, in rooms that limit their users.",
    Duplicate("duplicate", "limits.duplicate_mode", Duplicate, false, Enforce):
        "A long text that the same user has sent within `limits.duplicate_window`.",
    Words("words", "words.word_mode", FilteredWord, false, Enforce):
        "A text with a word for which the lists of `words.lists` or `words.room_words` say `drop`.",
    Webhook("webhook", "webhook.webhook_mode", Rejected, false, Enforce):
        "What the receiver at `webhook.url` refuses; where `webhook.webhook_fail` is `closed`, also what it did not answer about, with `unavailable`.",
}

impl Rule {
    /// The name in refusals and metrics.
    pub const fn name(self) -> &'static str {
        self.row().name
    }
}

/// One value per rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerRule<T>([T; Rule::ALL.len()]);

impl<T: Copy> PerRule<T> {
    /// The same for every rule.
    pub const fn of(value: T) -> Self {
        Self([value; Rule::ALL.len()])
    }

    /// The value of one.
    pub const fn at(&self, rule: Rule) -> T {
        self.0[rule as usize]
    }

    /// Sets the value of one.
    pub const fn set(&mut self, rule: Rule, value: T) {
        self.0[rule as usize] = value;
    }

    /// Every rule with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Rule, T)> + '_ {
        Rule::ALL.into_iter().map(|rule| (rule, self.at(rule)))
    }
}

/// How every rule acts.
pub type Modes = PerRule<Mode>;

impl Default for Modes {
    fn default() -> Self {
        Self(Rule::ALL.map(|rule| rule.row().default))
    }
}

/// How often rules met something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// What they refused; a VIP ceiling: took the priority from; a shadow ban: hid; a text that spreads: held.
    pub refused: PerRule<u64>,
    /// What they would have refused.
    pub observed: PerRule<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { refused: PerRule::of(0), observed: PerRule::of(0) }
    }
}

impl Tally {
    /// Counts that `rule` met something, and says whether it acts on it.
    pub(super) fn meets(&mut self, rule: Rule, mode: Mode) -> bool {
        let counts = match mode {
            Mode::Enforce => &mut self.refused,
            Mode::Observe => &mut self.observed,
            Mode::Off => return false,
        };
        counts.set(rule, counts.at(rule) + 1);
        mode == Mode::Enforce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Rule::ALL`: every rule at its own place, with a name and a key of its own.
    #[test]
    fn every_rule_is_listed_once_by_a_name_and_a_key_of_its_own() {
        for (place, rule) in Rule::ALL.into_iter().enumerate() {
            let row = rule.row();
            assert_eq!(rule as usize, place, "{rule:?}");
            assert!(row.what.ends_with('.'), "{rule:?}");
            let same = |other: &Rule| other.name() == row.name || other.row().key == row.key;
            assert_eq!(Rule::ALL.iter().filter(|other| same(other)).count(), 1, "{rule:?}");
        }
    }

    /// `Tally::meets`: a rule that observes counts and does not act; one that is off does neither.
    #[test]
    fn what_a_rule_meets_is_counted_by_how_it_acts() {
        let mut tally = Tally::default();
        for (mode, acts, refused, observed) in
            [(Mode::Enforce, true, 1, 0), (Mode::Observe, false, 1, 1), (Mode::Off, false, 1, 1)]
        {
            assert_eq!(tally.meets(Rule::Muted, mode), acts, "{mode:?}");
            assert_eq!((tally.refused.at(Rule::Muted), tally.observed.at(Rule::Muted)), (refused, observed));
        }
        assert_eq!(tally.refused.iter().map(|(_, n)| n).sum::<u64>(), 1, "no other rule");
    }
}
