//! What one user does in all rooms together: how fast it writes, how often it moves, and whether it says the same in many
//! of them.
//!
//! Kept at one place for each user, apart from the rooms, whose own limits know nothing of each other. What it says may
//! reach a room late; it bounds those who spread over a thousand rooms what each of them would allow.

use super::token_bucket::{Bucket, Rate};
use super::users::Users;

/// Texts that are remembered of a user.
const TEXTS: usize = 8;
/// Rooms that are remembered of a text.
const ROOMS: usize = 3;

/// Bounds of one user over all rooms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Comments.
    pub comments: Rate,
    /// Moves from room to room.
    pub moves: Rate,
    /// How long a text is remembered, microseconds.
    pub text_window_us: u64,
    /// Users remembered; above it the one goes with whom least is lost.
    pub users_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            comments: Rate { burst: 20, per_s: 5.0 },
            moves: Rate { burst: 30, per_s: 0.5 },
            text_window_us: 60_000_000,
            users_max: 65_536,
        }
    }
}

/// What is to become of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing stands against it.
    Pass,
    /// The same text in more than three rooms: somebody is to look at it.
    Review,
}

#[derive(Debug, Clone, Copy, Default)]
struct Text {
    hash: u32,
    /// When it was first said.
    at_us: u64,
    /// The rooms in which it was said; none: nothing is remembered here.
    rooms: [u32; ROOMS],
    count: u8,
}

impl Text {
    fn lives(&self, window_us: u64, now_us: u64) -> bool {
        self.count > 0 && now_us.saturating_sub(self.at_us) < window_us
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct User {
    comments: Bucket,
    moves: Bucket,
    texts: [Text; TEXTS],
}

fn worth(bounds: &Bounds, user: &User, now_us: u64) -> u64 {
    let missing = bounds.comments.missing(&user.comments, now_us) + bounds.moves.missing(&user.moves, now_us);
    let texts = user.texts.iter().filter(|text| text.lives(bounds.text_window_us, now_us));
    (missing * 1_000.0).ceil() as u64 + texts.map(|text| u64::from(text.count)).sum::<u64>() * 1_000
}

/// The users of a shard. Keys of users, rooms and texts are keyed hashes.
#[derive(Debug)]
pub struct Everywhere {
    bounds: Bounds,
    users: Users<User>,
}

impl Everywhere {
    /// A shard that knows nobody.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, users: Users::new(bounds.users_max) }
    }

    /// What users are held to.
    pub const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Other bounds from now on; what users have spent stays spent.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.users.set_max(bounds.users_max);
        self.bounds = bounds;
    }

    /// A comment of a user in a room. It is charged if it is not refused.
    ///
    /// # Errors
    /// How many microseconds until the user may write again.
    pub fn say(&mut self, user: u64, room: u64, text: u64, now_us: u64) -> Result<Verdict, u64> {
        let bounds = self.bounds;
        let record = self.users.record(user, |user| worth(&bounds, user, now_us));
        bounds.comments.check(&record.comments, now_us)?;
        bounds.comments.charge(&mut record.comments, now_us);
        let hash = text as u32;
        let window_us = bounds.text_window_us;
        let known = record.texts.iter_mut().find(|t| t.hash == hash && t.lives(window_us, now_us));
        let Some(known) = known else {
            // What spread least, and of that the oldest, makes room.
            let least = |t: &&mut Text| (if t.lives(window_us, now_us) { t.count } else { 0 }, t.at_us);
            if let Some(free) = record.texts.iter_mut().min_by_key(least) {
                *free = Text { hash, at_us: now_us, rooms: [room as u32; ROOMS], count: 1 };
            }
            return Ok(Verdict::Pass);
        };
        let count = usize::from(known.count);
        if known.rooms[..count].contains(&(room as u32)) {
            return Ok(Verdict::Pass);
        }
        if count == ROOMS {
            return Ok(Verdict::Review);
        }
        known.rooms[count] = room as u32;
        known.count += 1;
        Ok(Verdict::Pass)
    }

    /// A user moves to another room. It is charged if it is not refused.
    ///
    /// # Errors
    /// How many microseconds until it may.
    pub fn move_on(&mut self, user: u64, now_us: u64) -> Result<(), u64> {
        let bounds = self.bounds;
        let record = self.users.record(user, |user| worth(&bounds, user, now_us));
        bounds.moves.check(&record.moves, now_us)?;
        bounds.moves.charge(&mut record.moves, now_us);
        Ok(())
    }

    /// Looks at so many users, forgets those with whom nothing is lost, and gives memory back.
    pub fn age(&mut self, count: usize, now_us: u64) {
        let bounds = self.bounds;
        self.users.sweep(count, &|user| worth(&bounds, user, now_us));
        self.users.shrink();
    }

    /// Users remembered.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000;

    /// `say`: the same text in a fourth room within the minute is for review, in the same rooms it is not, and after the
    /// minute it begins anew. Other texts of the user are their own.
    #[test]
    fn the_same_text_in_a_fourth_room_is_looked_at() {
        let mut everywhere = Everywhere::new(Bounds::default());
        let mut say = |room, text, s: u64| everywhere.say(1, room, text, s * SECOND);
        for (room, text, s, want) in [
            (1, 7, 0, Verdict::Pass),
            (2, 7, 1, Verdict::Pass),
            (3, 7, 2, Verdict::Pass),
            (1, 7, 3, Verdict::Pass),
            (4, 7, 4, Verdict::Review),
            (5, 8, 5, Verdict::Pass),
            (4, 7, 59, Verdict::Review),
            (4, 7, 60, Verdict::Pass),
        ] {
            assert_eq!(say(room, text, s), Ok(want), "room {room}, text {text}, {s} s");
        }
    }

    /// `say`: texts that spread are kept before those that do not.
    #[test]
    fn small_talk_does_not_hide_what_spreads() {
        let mut everywhere = Everywhere::new(Bounds::default());
        let mut now = 0;
        let mut say = |room, text| {
            now += SECOND / 4;
            everywhere.say(1, room, text, now)
        };
        assert_eq!(
            (say(1, 7), say(2, 7), say(3, 7)),
            (Ok(Verdict::Pass), Ok(Verdict::Pass), Ok(Verdict::Pass))
        );
        for text in 100..150 {
            assert_eq!(say(1, text), Ok(Verdict::Pass));
        }
        assert_eq!(say(4, 7), Ok(Verdict::Review));
    }

    proptest! {
        /// `say` and `move_on`: over any stretch no more than burst + rate × time of either, whatever the rooms, and the
        /// promised wait is true.
        #[test]
        fn a_user_is_bounded_over_all_rooms(
            steps in prop::collection::vec((0u64..300_000, 0u64..1_000, any::<bool>()), 1..200),
        ) {
            let bounds = Bounds {
                comments: Rate { burst: 4, per_s: 5.0 },
                moves: Rate { burst: 3, per_s: 0.5 },
                ..Bounds::default()
            };
            let mut everywhere = Everywhere::new(bounds);
            let mut taken = [Vec::new(), Vec::new()];
            let mut now = 0u64;
            for (gap, room, moves) in steps {
                now += gap;
                let mut attempt = |us| match moves {
                    true => everywhere.move_on(1, us),
                    false => everywhere.say(1, room, room, us).map(|_| ()),
                };
                if let Err(wait) = attempt(now) {
                    now += wait;
                    prop_assert_eq!(attempt(now), Ok(()));
                }
                taken[usize::from(moves)].push(now);
            }
            for (taken, rate) in taken.iter().zip([bounds.comments, bounds.moves]) {
                for (i, from) in taken.iter().enumerate() {
                    for (j, to) in taken.iter().enumerate().skip(i) {
                        let bound = f64::from(rate.burst) + (to - from) as f64 / 1e6 * rate.per_s;
                        prop_assert!((j - i + 1) as f64 <= bound + 1e-3);
                    }
                }
            }
        }
    }

    /// `Everywhere`: one-shot users without end cost no more than the bound, and none of them is refused; who has spent
    /// everything is not forgiven for them.
    #[test]
    fn a_flood_of_new_users_forgives_nobody() {
        let mut everywhere = Everywhere::new(Bounds { users_max: 1_000, ..Bounds::default() });
        let mut passed = 0;
        for user in 0..50_000u64 {
            let now_us = user * 2_000;
            // Beside them somebody tries to write a hundred times a second.
            if user % 5 == 0 {
                passed += u64::from(everywhere.say(u64::MAX, 1, user, now_us).is_ok());
            }
            assert!(everywhere.say(user, 1, 1, now_us).is_ok());
        }
        assert!(everywhere.len() <= 1_000);
        assert!((500..=520).contains(&passed), "{passed} in 100 s at 5 a second and a burst of 20");
        everywhere.age(10_000, 1_000 * SECOND);
        assert!(everywhere.is_empty());
    }
}
