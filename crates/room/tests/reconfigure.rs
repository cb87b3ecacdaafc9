//! Other settings for a room that goes on: they hold from the next publish, and nothing that was promised or spent is
//! forgotten for them.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::admission::{Limits, Standing, sliding_window, token_bucket};
use danmaku_room::owner::{Config, Fate, Owner};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Author, Mode, Role};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::{ErrorCode, Send};
use danmaku_wire::position::Epoch;

const NOW: Now = Now { us: 1_000_000, wall_ms: 1_000 };

fn config(burst: Option<u32>, room: Option<u32>) -> Config {
    let limits = Limits {
        user: burst.map(|burst| token_bucket::Rate { burst, per_s: 0.001 }),
        room: room.map(|count_max| sliding_window::Window { window_us: 10_000_000, count_max }),
        ..Limits::default()
    };
    Config { limits, durability: Durability::Memory, ..Config::default() }
}

fn owner(config: Config) -> Owner<()> {
    let (room, epoch) = (RoomId::parse("r1").expect("valid"), Epoch::parse("e1").expect("valid"));
    Owner::start(room, epoch, Loaded::default(), config, NOW)
}

/// What one user is told about a publish.
fn say(owner: &mut Owner<()>, id: &str, text: &str) -> Option<ErrorCode> {
    let id_of = |id: &str| UserId::parse(id).expect("valid");
    let user = Author { id: id_of("u1"), name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() };
    let mode = Mode::default();
    let send = Send { id, text, mode, color: 0, size: 25, stream_ms: None, traceparent: "" };
    match owner.publish(&mut WorkerGate::default(), NOW, &Arc::new(user), Standing::default(), &send, || ()) {
        Fate::Refused(refusal) => Some(refusal.code),
        Fate::Accepted { .. } | Fate::Pending | Fate::Held => None,
    }
}

/// `Owner::reconfigure`: a smaller bucket does not refill what was spent, a larger one gives no more than its rate,
/// and without one nothing is counted.
#[test]
fn what_users_have_spent_stays_spent() {
    let mut owner = owner(config(Some(3), None));
    for id in ["1", "2", "3"] {
        assert_eq!(say(&mut owner, id, "x"), None);
    }
    for burst in [2, 50] {
        owner.reconfigure(config(Some(burst), None));
        assert_eq!(say(&mut owner, "4", "x"), Some(ErrorCode::RateLimited), "burst {burst}");
    }
    owner.reconfigure(config(None, None));
    assert_eq!(say(&mut owner, "4", "x"), None);
}

/// `Owner::reconfigure`: the room's window and the bounds of texts hold from the next publish; what was acked before
/// is still known by its id.
#[test]
fn other_bounds_hold_from_the_next_publish() {
    let mut owner = owner(config(None, Some(100)));
    assert_eq!(say(&mut owner, "1", "long text"), None);
    let mut short = config(None, Some(1));
    short.limits.text.chars_max = 4;
    owner.reconfigure(short);
    assert_eq!(say(&mut owner, "2", "long text"), Some(ErrorCode::TextTooLong));
    assert_eq!(say(&mut owner, "3", "a"), None);
    assert_eq!(say(&mut owner, "4", "b"), Some(ErrorCode::Overloaded));
    owner.reconfigure(config(None, None));
    assert_eq!(say(&mut owner, "5", "long text"), None);
    assert_eq!(say(&mut owner, "1", "other text"), Some(ErrorCode::IdReused), "ids outlive settings");
}
