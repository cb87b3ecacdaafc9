//! The wall clock may jump: it stands in what is shown, and decides nothing.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::admission::{Limits, Standing, idempotency, sliding_window, token_bucket};
use danmaku_room::owner::{Config, Fate, Owner};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Author, COLOR_DEFAULT, Mode, Role, SIZE_DEFAULT};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::Send;
use danmaku_wire::position::Epoch;
use proptest::prelude::*;

fn owner(now: Now) -> Owner<()> {
    let limits = Limits {
        user: Some(token_bucket::Rate { burst: 2, per_s: 1.0 }),
        room: Some(sliding_window::Window { window_us: 3_000_000, count_max: 4 }),
        ids: idempotency::Bounds { ids_max: 6, window_us: 4_000_000 },
        ..Limits::default()
    };
    let config = Config { limits, durability: Durability::Memory, ..Config::default() };
    let room = RoomId::parse("r1").expect("a room");
    Owner::start(room, Epoch::parse("e-1").expect("an epoch"), Loaded::default(), config, now)
}

fn user(number: u8) -> Arc<Author> {
    let id = UserId::parse(&format!("u{number}")).expect("a user");
    Arc::new(Author { id, name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() })
}

fn publish(owner: &mut Owner<()>, now: Now, by: u8, id: u8) -> Fate {
    let id = id.to_string();
    let send = Send {
        id: &id,
        text: "hello",
        mode: Mode::Scroll,
        color: COLOR_DEFAULT,
        size: SIZE_DEFAULT,
        stream_ms: None,
        traceparent: "",
    };
    let fate = owner.publish(&mut WorkerGate::default(), now, &user(by), Standing::default(), &send, || ());
    owner.end_turn();
    owner.seal(now);
    owner.age(now);
    fate
}

proptest! {
    /// Two owners that hear the same at the same times, one of them with a wall clock that leaps: rates, windows and
    /// remembered ids are the same, number for number.
    #[test]
    fn a_leaping_wall_clock_changes_no_fate(
        steps in prop::collection::vec((0u64..2_000_000, any::<u64>(), 0u8..3, 0u8..12), 1..60),
    ) {
        let steady = |us: u64| Now { us, wall_ms: 1_700_000_000_000 + us / 1_000 };
        let start = Now { us: 1_000_000, wall_ms: 0 };
        let (mut here, mut there) = (owner(steady(start.us)), owner(start));
        let mut us = start.us;
        for (passed_us, wall_ms, by, id) in steps {
            us += passed_us;
            let fate = publish(&mut here, steady(us), by, id);
            // Milliseconds since 1970 stay below 2^53.
            let leapt = Now { us, wall_ms: wall_ms >> 11 };
            prop_assert_eq!(publish(&mut there, leapt, by, id), fate);
        }
        prop_assert_eq!(here.log().tail().to, there.log().tail().to);
    }
}
