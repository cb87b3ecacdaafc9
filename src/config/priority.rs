//! What the configuration says of who goes ahead of the crowd, and who is not heard.

use danmaku_room::admission::priority::{Classes, Match, Names};

use super::raw;

/// Who goes first, and who is not heard.
pub(super) fn classes(limits: &raw::Limits) -> Classes {
    let users = |names: &[String]| -> Vec<Match> {
        names.iter().map(|names| Match::User(Names::parse(names))).collect()
    };
    let mut filtered = users(&limits.filtered_users);
    if limits.filtered_below_level > 0 {
        filtered.push(Match::LevelBelow(limits.filtered_below_level));
    }
    filtered.push(Match::BreaksRate);
    Classes { vip: users(&limits.vip_users), filtered }
}
