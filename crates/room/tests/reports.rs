//! Reports at a room's owner: each comment waits once, each user counts once, and a decision stands.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::Standing;
use danmaku_room::admission::token_bucket::Rate;
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::house::sanction::{Measure, Sanction, Target};
use danmaku_room::owner::reports::Bounds;
use danmaku_room::owner::{Config, Fate, Owner};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Author, Role};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::{ErrorCode, Report, Send};
use danmaku_wire::position::Epoch;

const NOW: Now = Now { us: 1_000_000, wall_ms: 1_000 };

fn author(id: &str) -> Arc<Author> {
    let id = UserId::parse(id).expect("valid");
    Arc::new(Author { id, name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() })
}

fn owner(reports: Bounds) -> Owner<()> {
    let (room, epoch) = (RoomId::parse("r1").expect("valid"), Epoch::parse("e1").expect("valid"));
    let config = Config { durability: Durability::Memory, reports, ..Config::default() };
    Owner::start(room, epoch, Loaded::default(), config, NOW)
}

fn say(owner: &mut Owner<()>, id: &str, by: &str) -> u64 {
    let mode = Default::default();
    let send = Send { id, text: "x", mode, color: 0, size: 25, stream_ms: None, traceparent: "" };
    match owner.publish(&mut WorkerGate::default(), NOW, &author(by), Standing::default(), &send, || ()) {
        Fate::Accepted { seq } => seq,
        fate => panic!("{fate:?}"),
    }
}

fn report(owner: &mut Owner<()>, by: &str, seq: u64, reason: &str) -> Result<(), ErrorCode> {
    owner.report(NOW, &author(by), Report { seq, reason }).map_err(|refusal| refusal.code)
}

/// `Owner::report`, `reported`, `dismiss`: a comment is one place however often it is reported, staff hears of it once, who is
/// counted is counted once, and what a moderator has left does not come again.
#[test]
fn a_comment_waits_once_and_a_decision_stands() {
    let mut owner = owner(Bounds::default());
    let (bad, worse) = (say(&mut owner, "1", "u1"), say(&mut owner, "2", "u1"));
    assert_eq!(report(&mut owner, "u2", bad, "spam"), Ok(()));
    assert_eq!(report(&mut owner, "u2", bad, "spam again"), Ok(()));
    assert_eq!(report(&mut owner, "u3", bad, ""), Ok(()));
    assert_eq!(report(&mut owner, "u3", worse, "rude"), Ok(()));
    let news: Vec<_> = owner.take_report_news().iter().map(|one| one.seq).collect();
    assert_eq!(news, [bad, worse]);
    let first = owner.reported().next().expect("it waits").clone();
    assert_eq!((first.seq, first.count, first.reasons), (bad, 2, vec!["spam".into()]));
    assert!(!owner.idle());
    assert!(owner.dismiss(bad) && !owner.dismiss(bad));
    assert_eq!(report(&mut owner, "u4", bad, "still"), Ok(()));
    assert_eq!(owner.reported().map(|one| one.seq).collect::<Vec<_>>(), [worse]);
    owner.retract(NOW, &[worse]).expect("taken back");
    assert_eq!(owner.reported().count(), 0, "what is taken back waits for nobody");
    assert!(owner.take_report_news().is_empty());
}

/// `Owner::report`: what there is not, what is one's own, what nobody sees and what is taken back cannot be reported, and all
/// of it looks the same; nor can anything with a reason that is none, or where nothing can be reported.
#[test]
fn what_cannot_be_reported_is_refused_alike() {
    let mut owner = owner(Bounds { rate: Rate { burst: 100, per_s: 1.0 }, ..Bounds::default() });
    let (own, gone) = (say(&mut owner, "1", "u2"), say(&mut owner, "2", "u1"));
    owner.retract(NOW, &[gone]).expect("taken back");
    let target = Target::User(UserId::parse("u1").expect("valid"));
    let (by, reason) = ("key k1".into(), "".into());
    let shadow = Sanction {
        measure: Measure::Shadow,
        target,
        since_ms: 0,
        until_ms: None,
        rank: Role::Staff,
        by,
        reason,
    };
    owner.sanction(NOW, shadow).expect("room");
    let hidden = say(&mut owner, "3", "u1");
    for (by, seq) in [("u2", 0), ("u2", 99), ("u2", own), ("u2", gone), ("u2", hidden), ("u1", hidden)] {
        assert_eq!(report(&mut owner, by, seq, ""), Err(ErrorCode::BadRequest), "{by} {seq}");
    }
    for reason in ["x".repeat(257), "a\nb".to_owned()] {
        assert_eq!(report(&mut owner, "u3", own, &reason), Err(ErrorCode::BadRequest));
    }
    let mut closed = self::owner(Bounds { comments_max: 0, ..Bounds::default() });
    let seq = say(&mut closed, "1", "u1");
    assert_eq!(report(&mut closed, "u2", seq, ""), Err(ErrorCode::NotSupported));
}

/// The bounds: a user's rate, the comments of a room, where what is decided makes room, and the time a report waits.
#[test]
fn reports_are_bounded() {
    let rate = Rate { burst: 2, per_s: 0.001 };
    let mut owner = owner(Bounds { comments_max: 2, ttl_us: 10_000_000, rate });
    let seqs: Vec<u64> = (0..3).map(|n| say(&mut owner, &n.to_string(), "u1")).collect();
    assert_eq!(report(&mut owner, "u2", seqs[0], ""), Ok(()));
    assert_eq!(report(&mut owner, "u2", seqs[1], ""), Ok(()));
    assert_eq!(report(&mut owner, "u2", seqs[1], ""), Err(ErrorCode::RateLimited));
    assert_eq!(report(&mut owner, "u3", seqs[2], ""), Err(ErrorCode::Overloaded));
    assert!(owner.dismiss(seqs[0]));
    assert_eq!(report(&mut owner, "u3", seqs[2], ""), Ok(()));
    let tally = owner.take_report_tally();
    assert_eq!((tally.taken, tally.too_fast, tally.full), (3, 1, 1));
    owner.age(Now { us: NOW.us + 10_000_000, ..NOW });
    assert_eq!(owner.reported().count(), 0);
}
