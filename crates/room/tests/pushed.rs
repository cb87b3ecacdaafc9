//! Events of the platform at the owner: numbered once under their id, kept like comments, refused by what would break
//! clients, and the spared ones alone by the breaker.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::breaker::Load;
use danmaku_room::owner::pushed::Priority;
use danmaku_room::owner::{Answer, Config, Fate, Owner};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Author, Body, EVENT_DATA_BYTES_MAX, Event, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::ErrorCode;
use danmaku_wire::position::Epoch;
use proptest::prelude::*;

const NOW: Now = Now { us: 1_000_000, wall_ms: 1_000 };

fn owner(durability: Durability) -> Owner<u32> {
    let (room, epoch) = (RoomId::parse("r1").expect("valid"), Epoch::parse("e1").expect("valid"));
    let config = Config { durability, ..Config::default() };
    Owner::start(room, epoch, Loaded::default(), config, NOW)
}

fn event(kind: &str, data: &str) -> Event {
    let id = UserId::parse("u1").expect("valid");
    let user = Author { id, name: "Ann".into(), role: Role::Viewer, level: 3, badges: Vec::new() };
    Event { kind: kind.into(), user: Some(Arc::new(user)), data: data.into() }
}

fn push(owner: &mut Owner<u32>, id: &str, event: Event, priority: Priority) -> Result<u64, ErrorCode> {
    match owner.push(NOW, id, event, priority, || 0) {
        Fate::Accepted { seq } => Ok(seq),
        Fate::Refused(refusal) => Err(refusal.code),
        other => panic!("acked when sequenced, not {other:?}"),
    }
}

/// `Owner::push`: what is no kind of event, or too much of one, is refused by name, and costs nothing.
#[test]
fn what_is_no_event_is_refused_by_name() {
    let mut owner = owner(Durability::Memory);
    let full = format!("\"{}\"", "x".repeat(EVENT_DATA_BYTES_MAX - 2));
    for (kind, data, id, refused) in [
        ("", "1", "a", Some(ErrorCode::BadRequest)),
        ("Gift", "1", "a", Some(ErrorCode::BadRequest)),
        ("a b", "1", "a", Some(ErrorCode::BadRequest)),
        ("retract", "1", "a", Some(ErrorCode::BadRequest)),
        ("comment", "1", "a", Some(ErrorCode::BadRequest)),
        ("0123456789012345678901234567890123", "1", "a", Some(ErrorCode::BadRequest)),
        ("gift", &format!("{full}0"), "a", Some(ErrorCode::DataTooLong)),
        ("gift", "1", "a\n", Some(ErrorCode::IdInvalid)),
        ("gift", &full, "a", None),
        ("shop.sold-out_2", "", "", None),
    ] {
        let fate = push(&mut owner, id, event(kind, data), Priority::Normal);
        assert_eq!(fate.err(), refused, "{kind} {id}");
    }
    assert_eq!(
        push(&mut owner, "z", event("gift", "1"), Priority::High),
        Ok(3),
        "what was refused had no number"
    );
}

/// `Owner::push` against a table of ids: the same push has one number however often it comes, another push under its id is
/// refused, and one without an id is new each time.
#[test]
fn a_push_happens_once_under_its_id() {
    proptest!(|(pushes in prop::collection::vec((0u8..5, 0u8..2, 0u8..2), 1..60))| {
        let mut owner = owner(Durability::Memory);
        let mut model: Vec<((u8, u8), u64, u8)> = Vec::new();
        let mut next = 1;
        for (id, data, low) in pushes {
            let priority = if low == 1 { Priority::Low } else { Priority::High };
            let name = if id == 0 { String::new() } else { format!("g-{id}") };
            let fate = push(&mut owner, &name, event("gift", &data.to_string()), priority);
            let known = model.iter().find(|((of, _), ..)| id != 0 && *of == id);
            let expected = match known {
                Some(((_, same), seq, p)) if *same == data && *p == low => Ok(*seq),
                Some(_) => Err(ErrorCode::IdReused),
                None => {
                    model.push(((id, data), next, low));
                    next += 1;
                    Ok(next - 1)
                }
            };
            prop_assert_eq!(fate, expected);
        }
        prop_assert_eq!(owner.entry(next - 1).map(|entry| entry.seq), (next > 1).then_some(next - 1));
    });
}

/// `Owner::push` with a store: the answer waits for the commit, a retry meanwhile waits with it, and what the store gave
/// up may be pushed again.
#[test]
fn a_push_is_answered_when_it_is_kept() {
    let mut owner = owner(Durability::Stored);
    for waiter in 1..3 {
        assert_eq!(owner.push(NOW, "g-1", event("gift", "1"), Priority::High, || waiter), Fate::Pending);
    }
    let append = owner.take_append().expect("to be stored");
    assert_eq!((append.entries.len(), append.ids.len()), (1, 1));
    assert!(matches!(&append.entries[0].body, Body::Event(event) if &*event.kind == "gift"));
    let mut answers = Vec::new();
    owner.progress(1, 0, &mut answers);
    let told = |reply, stored| Answer { reply, id: "g-1".into(), seq: 1, stored };
    assert_eq!(answers, [told(1, true), told(2, true)]);
    assert_eq!(owner.push(NOW, "g-1", event("gift", "1"), Priority::High, || 3), Fate::Accepted { seq: 1 });
    assert_eq!(owner.push(NOW, "g-2", event("gift", "1"), Priority::High, || 4), Fate::Pending);
    answers.clear();
    owner.progress(1, 2, &mut answers);
    assert_eq!(answers.len(), 1);
    assert!(!answers[0].stored);
    assert_eq!(owner.push(NOW, "g-2", event("gift", "1"), Priority::High, || 5), Fate::Pending, "free again");
}

/// `Priority`: what can be spared is not for the smallest tier, and is all that an open breaker refuses.
#[test]
fn what_can_be_spared_goes_first() {
    let mut owner = owner(Durability::Memory);
    for (priority, tier) in
        [(Priority::High, Tier::Lite), (Priority::Normal, Tier::Lite), (Priority::Low, Tier::Standard)]
    {
        let seq = push(&mut owner, "", event("gift", "1"), priority).expect("taken");
        assert_eq!(owner.entry(seq).expect("there").visibility, Visibility::Tier(tier));
    }
    owner.observe(NOW, &Load { mailbox_percent: 100, ..Load::default() });
    assert_eq!(push(&mut owner, "", event("like", "1"), Priority::Low), Err(ErrorCode::Overloaded));
    assert!(push(&mut owner, "", event("gift", "1"), Priority::Normal).is_ok());
    assert!(push(&mut owner, "", event("gift", "1"), Priority::High).is_ok());
}
