//! What staff orders, at the owner: what only its author sees is taken back before its author alone, numbers of earlier
//! epochs say so, and the next owner knows what was decided.

use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::Standing;
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::house::sanction::{Full, Measure, Sanction, Target};
use danmaku_room::owner::{Config, Done, Fate, Owner};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Author, Body, Entry, Mode, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::{ErrorCode, Send};
use danmaku_wire::position::Epoch;

const NOW: Now = Now { us: 1_000_000, wall_ms: 1_000 };

fn user(id: &str) -> UserId {
    UserId::parse(id).expect("valid")
}

fn owner(epoch: &str, loaded: Loaded) -> Owner<()> {
    let (room, epoch) = (RoomId::parse("r1").expect("valid"), Epoch::parse(epoch).expect("valid"));
    let config = Config { durability: Durability::Memory, sanctions_max: 2, ..Config::default() };
    Owner::start(room, epoch, loaded, config, NOW)
}

fn say(owner: &mut Owner<()>, id: &str, by: &str) -> Result<u64, ErrorCode> {
    let (id_of, badges) = (user(by), Vec::new());
    let author = Author { id: id_of, name: "".into(), role: Role::Viewer, level: 0, badges };
    let (mode, text) = (Mode::default(), "x");
    let send = Send { id, text, mode, color: 0, size: 25, stream_ms: None, traceparent: "" };
    match owner.publish(&mut WorkerGate::default(), NOW, &Arc::new(author), Standing::default(), &send, || ())
    {
        Fate::Accepted { seq } => Ok(seq),
        Fate::Refused(refusal) => Err(refusal.code),
        Fate::Held | Fate::Pending => panic!("acked when sequenced"),
    }
}

fn against(measure: Measure, id: &str) -> Sanction {
    let (target, rank) = (Target::User(user(id)), Role::Staff);
    let (by, reason) = ("key k1".into(), "spam".into());
    Sanction { measure, target, since_ms: 0, until_ms: None, rank, by, reason }
}

fn entry(owner: &Owner<()>, seq: Option<u64>) -> &Entry {
    owner.entry(seq.expect("a number")).expect("in memory")
}

/// `Owner::retract_user`: one entry before all for what all saw, one before the author alone for what it alone saw.
#[test]
fn what_its_author_alone_saw_is_taken_back_before_its_author_alone() {
    let mut owner = owner("e1", Loaded::default());
    let public = say(&mut owner, "1", "u1").expect("taken");
    let other = say(&mut owner, "1", "u2").expect("taken");
    owner.sanction(NOW, against(Measure::Shadow, "u1")).expect("room");
    let private = say(&mut owner, "2", "u1").expect("as ever");
    assert_eq!(entry(&owner, Some(private)).visibility, Visibility::Author(user("u1")));
    owner.seal(NOW);
    let done = owner.retract_user(NOW, &user("u1")).expect("taken back");
    assert_eq!(done.count, 2);
    let last = done.seq.expect("entries");
    let told: Vec<_> = [last - 1, last]
        .map(|seq| {
            let Entry { visibility, body, .. } = entry(&owner, Some(seq));
            let Body::Retract { seqs, epoch: None } = body else { panic!("{body:?}") };
            (visibility.clone(), seqs.clone())
        })
        .into();
    assert!(told.contains(&(Visibility::Tier(Tier::Lite), vec![public])), "{told:?}");
    assert!(told.contains(&(Visibility::Author(user("u1")), vec![private])), "{told:?}");
    assert_eq!(owner.retract_user(NOW, &user("nobody")), Ok(Done::default()));
    assert!(owner.retract(NOW, &[other, last + 1]).is_err(), "a number that was never given");
    assert!(owner.retract(NOW, &[0]).is_err());
    assert!(
        owner.pin(NOW, private).is_err() && owner.pin(NOW, public).is_err() && owner.pin(NOW, last).is_err()
    );
    assert!(owner.pin(NOW, other).is_ok());
}

/// `Owner::bequeath` and `start`: who is banned, what is pinned and what is shadowed is so at the next owner, and numbers of
/// the epoch before are told with it.
#[test]
fn the_next_owner_knows_what_was_decided() {
    let mut first = owner("e1", Loaded::default());
    let pinned = say(&mut first, "1", "u2").expect("taken");
    first.sanction(NOW, against(Measure::Ban, "u1")).expect("room");
    first.sanction(NOW, against(Measure::Mute, "u3")).expect("room");
    assert_eq!(first.sanction(NOW, against(Measure::Mute, "u4")), Err(Full));
    first.pin(NOW, pinned).expect("there");
    assert!(!first.idle(), "what was decided is kept nowhere else");
    let mut next = owner("e2", first.bequeath(NOW));
    assert_eq!(say(&mut next, "2", "u1"), Err(ErrorCode::Banned));
    assert_eq!(say(&mut next, "2", "u3"), Err(ErrorCode::Muted));
    assert_eq!(next.board().pins(), Some(pinned));
    assert_eq!(next.board().pinned.as_ref().map(|entry| entry.seq), Some(pinned));
    let done = next.retract(NOW, &[pinned]).expect("taken back");
    let Body::Retract { epoch, seqs } = &entry(&next, done.seq).body else { panic!("a retraction") };
    assert_eq!((epoch.as_ref().map(Epoch::as_str), seqs.as_slice()), (Some("e1"), &[pinned][..]));
    assert_eq!(next.board().pins(), None, "with its comment the pin goes");
    assert_eq!(
        next.lift(NOW, Measure::Ban, &Target::User(user("u1"))).map(|s| s.reason),
        Some("spam".into())
    );
    assert!(say(&mut next, "2", "u1").is_ok());
}
