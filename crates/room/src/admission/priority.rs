//! Who goes first, and who is not heard at all.

use danmaku_wire::entry::{Author, Role};

use super::Standing;
use super::policy::keeps_order;

/// How a comment is treated under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Past the rates of users and room, up to the room's ceiling.
    Vip,
    /// With the crowd.
    Normal,
    /// Not at all.
    Filtered,
}

/// Names with `*` at the end for any rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    start: Box<str>,
    whole: bool,
}

impl Names {
    /// Reads `"u1"` or `"bot-*"`.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(start) => Self { start: start.into(), whole: false },
            None => Self { start: text.into(), whole: true },
        }
    }

    /// Whether a name is one of them.
    pub fn has(&self, name: &str) -> bool {
        if self.whole { name == &*self.start } else { name.starts_with(&*self.start) }
    }
}

/// Something by which publishers are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// A user's id.
    User(Names),
    /// The name of the program that connects.
    Client(Names),
    /// A level of at least so much.
    LevelFrom(u32),
    /// A level below so much.
    LevelBelow(u32),
    /// A connection that sends faster than it may.
    BreaksRate,
}

impl Match {
    fn holds(&self, user: &Author, client: &str, standing: &Standing) -> bool {
        match self {
            Self::User(names) => names.has(user.id.as_str()),
            Self::Client(names) => names.has(client),
            Self::LevelFrom(least) => user.level >= *least,
            Self::LevelBelow(least) => user.level < *least,
            Self::BreaksRate => standing.breaks_rate,
        }
    }
}

/// The classes of a room. Who is filtered is filtered, whatever else holds; but nobody who keeps order is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// VIPs beside those whose role says so.
    pub vip: Vec<Match>,
    /// Who is not heard.
    pub filtered: Vec<Match>,
}

impl Default for Classes {
    /// VIPs by their role, and abusers of the connection's rate.
    fn default() -> Self {
        Self { vip: Vec::new(), filtered: vec![Match::BreaksRate] }
    }
}

impl Classes {
    /// The class of a publisher; `client` is the name of its program, empty where it is not known.
    pub fn of(&self, user: &Author, client: &str, standing: &Standing) -> Class {
        if keeps_order(user.role) || !any(&self.filtered, user, client, standing) {
            return self.of_heard(user, client, standing);
        }
        Class::Filtered
    }

    /// The class of a publisher where nobody is filtered.
    pub fn of_heard(&self, user: &Author, client: &str, standing: &Standing) -> Class {
        // Whoever keeps order is ranked above a VIP.
        if user.role as u8 >= Role::Vip as u8 || any(&self.vip, user, client, standing) {
            Class::Vip
        } else {
            Class::Normal
        }
    }
}

fn any(matches: &[Match], user: &Author, client: &str, standing: &Standing) -> bool {
    matches.iter().any(|one| one.holds(user, client, standing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use danmaku_wire::id::UserId;

    /// `Classes::of`: by role, user, client, level and conduct; filtered goes before VIP, and keeping order before both.
    #[test]
    fn everybody_has_one_class() {
        let names = |text| Names::parse(text);
        let classes = Classes {
            vip: vec![Match::LevelFrom(30), Match::User(names("anchor-*"))],
            filtered: vec![
                Match::User(names("spam-*")),
                Match::Client(names("bot")),
                Match::LevelBelow(2),
                Match::BreaksRate,
            ],
        };
        for (id, role, level, client, breaks_rate, want) in [
            ("u1", Role::Viewer, 5, "", false, Class::Normal),
            ("u1", Role::Vip, 5, "", false, Class::Vip),
            ("u1", Role::Viewer, 30, "", false, Class::Vip),
            ("anchor-7", Role::Viewer, 5, "", false, Class::Vip),
            ("spam-7", Role::Viewer, 5, "", false, Class::Filtered),
            ("spam-7", Role::Vip, 30, "", false, Class::Filtered),
            ("spam-7", Role::Moderator, 0, "bot", true, Class::Vip),
            ("u1", Role::Viewer, 5, "bot", false, Class::Filtered),
            ("u1", Role::Viewer, 5, "bottle", false, Class::Normal),
            ("u1", Role::Viewer, 1, "", false, Class::Filtered),
            ("u1", Role::Viewer, 5, "", true, Class::Filtered),
        ] {
            let id = UserId::parse(id).expect("valid");
            let user = Author { id, name: "".into(), role, level, badges: Vec::new() };
            let standing = Standing { breaks_rate, ..Standing::default() };
            assert_eq!(classes.of(&user, client, &standing), want, "{user:?} {client}");
        }
    }
}
