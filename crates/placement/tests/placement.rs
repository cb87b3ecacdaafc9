//! Placement pinned: nodes of different versions must agree on who owns a room.

use std::fmt::Write;
use std::path::Path;

use danmaku_placement::{HashRing, RingSeed, Weight};

const SEED: [u8; 16] = *b"placement golden";
const MEMBERS: [(&str, u16); 5] =
    [("node-a", 100), ("node-b", 100), ("node-c", 250), ("node-d", 5), ("node-e", 0)];
const ROOMS: u32 = 200;

/// `HashRing::owner` and `HashRing::owners` against the committed table.
#[test]
fn rooms_stay_where_the_golden_table_has_them() {
    let members = MEMBERS.map(|(name, weight)| (name, Weight::new(weight).expect("0..=1000")));
    let ring = HashRing::build(RingSeed::new(SEED), members).expect("distinct members");
    let workers = (0..4_u16).map(|worker| (worker, Weight::default()));
    let below = HashRing::build(RingSeed::new(SEED).derive(b"workers"), workers).expect("distinct members");

    let mut table = String::from("# room, owning node, next in line, worker by the derived seed\n");
    for number in 0..ROOMS {
        let room = format!("room-{number}");
        let line: Vec<&str> = ring.owners(room.as_bytes(), 2).copied().collect();
        assert_eq!(line[0], *ring.owner(room.as_bytes()), "{room}: the first in line is the owner");
        let worker = below.owner(room.as_bytes());
        writeln!(table, "{room} {} {} {worker}", line[0], line[1]).expect("a String takes all");
    }

    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/placement.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(&golden, &table).expect("the golden table can be written");
    }
    let pinned = std::fs::read_to_string(&golden).expect("the golden table is committed");
    for (now, then) in table.lines().zip(pinned.lines()) {
        assert_eq!(now, then, "a room moved: nodes of two versions would both own it");
    }
    assert_eq!(table.lines().count(), pinned.lines().count());
}
