//! What an owner promises to those who publish, under a store that is late, partial or broken, and over
//! restarts: one publish is one comment, every promise is answered once, no number is used twice.

#[path = "../scripted_store/mod.rs"]
mod scripted_store;
mod world;

use danmaku_room::store::Durability;
use proptest::prelude::*;

use world::{Op, World};

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        14 => (0u8..2, prop::option::weighted(0.8, 0u8..5), 0u8..2)
            .prop_map(|(user, id, text)| Op::Publish { user, id, text }),
        8 => Just(Op::Turn),
        6 => (1usize..6).prop_map(|entries| Op::Commit { entries }),
        1 => Just(Op::FailForGood),
        5 => Just(Op::HearFromStore),
        4 => prop_oneof![0u64..8, 100u64..2_500].prop_map(|ms| Op::Wait { ms }),
        1 => Just(Op::Age),
        1 => Just(Op::RestartOwner),
    ]
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![
        3 => Just(Durability::Stored),
        1 => Just(Durability::Relaxed),
        1 => Just(Durability::Memory),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// `Owner`: fates, answers, numbers, bounds on what is not stored, and when batches are sealed.
    #[test]
    fn an_owner_keeps_its_promises_whatever_the_store_does(
        durability in durability(),
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let mut world = World::new(durability);
        for op in ops {
            world.apply(op);
        }
        world.come_to_rest();
    }
}

/// Plays a story in a room whose comments are acked when stored.
fn check(story: &[Op]) {
    let mut world = World::new(Durability::Stored);
    story.iter().for_each(|op| world.apply(op.clone()));
    world.come_to_rest();
}

/// `Progress`: whatever was given up is never acked, also where the store went on before the owner looked.
#[test]
fn what_the_store_gave_up_is_not_acked_when_the_owner_looks_late() {
    let say = |id| Op::Publish { user: 0, id: Some(id), text: 0 };
    check(&[
        say(0),
        say(1),
        Op::Turn,
        say(2),
        Op::Turn,
        Op::Commit { entries: 1 },
        Op::FailForGood,
        Op::Commit { entries: 1 },
        Op::HearFromStore,
        say(1),
    ]);
}

/// `Owner::start`: an epoch of which nothing was stored has used its numbers nevertheless, or nobody was shown any.
#[test]
fn an_epoch_that_stored_nothing_has_used_its_numbers() {
    let say = |id| Op::Publish { user: 0, id: Some(id), text: 0 };
    check(&[say(0), Op::Turn, Op::RestartOwner, say(1), Op::Turn, Op::RestartOwner, say(2)]);
}

/// `Owner::publish`: those who attach to a pending publish are bounded, for attaching costs no token.
#[test]
fn retries_of_a_pending_publish_are_bounded() {
    let say = Op::Publish { user: 0, id: Some(0), text: 0 };
    check(&vec![say; 100]);
}
