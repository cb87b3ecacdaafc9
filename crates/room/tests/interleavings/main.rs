//! One owner, replicas on several workers and viewers with sockets that take any number of bytes, under
//! random interleavings: whatever happens, what a viewer was sent adds up.

#[path = "../frames/mod.rs"]
mod frames;
#[path = "../scripted_store/mod.rs"]
mod scripted_store;
mod sockets;
mod viewer;
mod world;

use danmaku_room::store::Durability;
use proptest::prelude::*;

use world::{Op, Setup, Since, World};

fn since() -> impl Strategy<Value = Since> {
    prop_oneof![
        1 => Just(Since::Nothing),
        4 => Just(Since::Own),
        4 => (any::<usize>(), 0u64..60).prop_map(|(epoch, seq)| Since::In { epoch, seq }),
        2 => (0u64..6).prop_map(|back| Since::Head { back }),
        1 => (0u64..3).prop_map(|ahead| Since::BeyondHead { ahead }),
        1 => (0u64..30).prop_map(|seq| Since::UnknownEpoch { seq }),
    ]
}

fn accept() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0usize), 5 => 1usize..200, 3 => Just(usize::MAX)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0u8..6, 1usize..90).prop_map(|(seen_by, chars)| Op::Release { seen_by, chars }),
        6 => Just(Op::Seal),
        4 => (2usize..8).prop_map(|batches| Op::Burst { batches }),
        4 => Just(Op::HandToStore),
        5 => (1usize..8).prop_map(|entries| Op::Commit { entries }),
        1 => Just(Op::FailForGood),
        4 => Just(Op::HearFromStore),
        5 => any::<usize>().prop_map(|worker| Op::Pull { worker }),
        6 => (any::<usize>(), prop::collection::vec(accept(), 4), any::<bool>())
            .prop_map(|(worker, accept, counts)| Op::Pass { worker, accept, counts }),
        4 => (any::<usize>(), accept()).prop_map(|(viewer, accept)| Op::Writable { viewer, accept }),
        3 => (any::<usize>(), any::<usize>(), since(), accept())
            .prop_map(|(viewer, worker, since, accept)| Op::Connect { viewer, worker, since, accept }),
        1 => any::<usize>().prop_map(|viewer| Op::Disconnect { viewer }),
        1 => (any::<usize>(), 0u8..3).prop_map(|(viewer, tier)| Op::ChangeTier { viewer, tier }),
        2 => (any::<usize>(), accept()).prop_map(|(viewer, accept)| Op::Tell { viewer, accept }),
        2 => prop_oneof![1u64..20, 500u64..1_500].prop_map(|ms| Op::Wait { ms }),
        2 => Just(Op::Age),
        1 => any::<usize>().prop_map(|worker| Op::AttachAgain { worker }),
        1 => Just(Op::RestartOwner),
    ]
}

fn durability() -> impl Strategy<Value = Durability> {
    prop_oneof![Just(Durability::Memory), Just(Durability::Relaxed)]
}

fn setup() -> impl Strategy<Value = Setup> {
    (durability(), 1usize..4, 2usize..8, 1usize..8, prop_oneof![Just(0usize), 1usize..30], 200usize..4_000)
        .prop_map(|(durability, workers, log_batches, ring_batches, tail_max, run_bytes_max)| Setup {
            durability,
            workers,
            log_batches,
            ring_batches,
            tail_max,
            run_bytes_max,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// Owner, log, replicas, runs, resume and gaps: every entry a viewer may see comes once and in order, or
    /// lies in a gap it was told of or in what a change of epoch took back; and nothing else comes.
    #[test]
    fn whatever_happens_what_a_viewer_was_sent_adds_up(
        setup in setup(),
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut world = World::new(setup);
        for op in ops {
            world.apply(op);
        }
        world.come_to_rest();
    }
}
