//! What is to be connected and said: groups of rooms, and from them one specification per connection.

/// A group of rooms that are loaded alike and measured together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name, part of the rooms' names.
    pub name: &'static str,
    /// Rooms.
    pub rooms: usize,
    /// Subscribers of each room who only read, or do not.
    pub subscribers: usize,
    /// Members of each room who also publish.
    pub publishers: usize,
    /// Messages a second over all rooms of the group.
    pub rate: f64,
    /// Subscribers of each room who never read after the handshake.
    pub stuck: usize,
    /// Subscribers of each room who stop reading for a while.
    pub pausing: usize,
}

/// How a connection reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Whatever comes.
    Reading,
    /// Nothing after the handshake.
    Stuck,
    /// Nothing for a while, then everything.
    Pausing,
}

/// One connection to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Index of its group.
    pub group: usize,
    /// Index of its room over all groups.
    pub room: usize,
    /// How it reads.
    pub role: Role,
}

/// Rooms of all groups.
pub fn rooms(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.rooms).sum()
}

/// Members of all rooms, publishers too.
pub fn members(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.rooms * (group.subscribers + group.publishers)).sum()
}

/// The connections that only subscribe, room by room.
pub fn subscribers(groups: &[Group]) -> Vec<Spec> {
    let mut all = Vec::new();
    let mut room = 0;
    for (index, group) in groups.iter().enumerate() {
        for _ in 0..group.rooms {
            let members = (0..group.subscribers).map(|i| Spec { group: index, room, role: role(group, i) });
            all.extend(members);
            room += 1;
        }
    }
    all
}

/// The connections that publish. Publisher `p` of a group's room `r` stands at `p * rooms + r` behind those
/// of the groups before, so that consecutive messages of a group go to all its rooms in turn.
pub fn publishers(groups: &[Group]) -> Vec<Spec> {
    let mut all = Vec::new();
    let mut first = 0;
    for (index, group) in groups.iter().enumerate() {
        for _ in 0..group.publishers {
            let rooms = first..first + group.rooms;
            all.extend(rooms.map(|room| Spec { group: index, room, role: Role::Reading }));
        }
        first += group.rooms;
    }
    all
}

/// Spreads those who do not read evenly among those who do: servers send in the order of joining.
fn role(group: &Group, i: usize) -> Role {
    let odd = group.stuck + group.pausing;
    let before = |i: usize| i * odd / group.subscribers.max(1);
    match before(i + 1) - before(i) {
        0 => Role::Reading,
        _ if before(i) < group.pausing => Role::Pausing,
        _ => Role::Stuck,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `subscribers`, `publishers`: the numbers asked for, in the rooms asked for.
    #[test]
    fn everyone_is_where_the_plan_says() {
        let small =
            Group { name: "s", rooms: 3, subscribers: 10, publishers: 2, rate: 1.0, stuck: 3, pausing: 2 };
        let groups = [Group { rooms: 1, stuck: 0, pausing: 0, ..small.clone() }, small];
        let specs = subscribers(&groups);
        assert_eq!((specs.len(), rooms(&groups), members(&groups)), (40, 4, 48));
        for room in 0..4 {
            let count = |role| specs.iter().filter(|s| s.room == room && s.role == role).count();
            let (stuck, pausing) = if room == 0 { (0, 0) } else { (3, 2) };
            assert_eq!((count(Role::Stuck), count(Role::Pausing)), (stuck, pausing), "room {room}");
        }
        let rooms: Vec<_> = publishers(&groups).iter().map(|s| (s.group, s.room)).collect();
        assert_eq!(rooms, [(0, 0), (0, 0), (1, 1), (1, 2), (1, 3), (1, 1), (1, 2), (1, 3)]);
    }
}
