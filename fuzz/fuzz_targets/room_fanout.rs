//! One owner, replicas on several workers and viewers whose sockets take any number of bytes, under any list
//! of operations: what a viewer was sent must add up. The model of the room's own tests, driven by coverage.
//!
//! Input: the setup, then operations of one to eight bytes.

#![no_main]

#[path = "../../crates/room/tests/frames/mod.rs"]
mod frames;
#[path = "../../crates/room/tests/scripted_store/mod.rs"]
mod scripted_store;
#[path = "../../crates/room/tests/interleavings/sockets.rs"]
mod sockets;
#[path = "../../crates/room/tests/interleavings/viewer.rs"]
mod viewer;
#[path = "../../crates/room/tests/interleavings/world.rs"]
mod world;

use danmaku_fuzz::draw::Draw;
use danmaku_room::store::Durability;
use libfuzzer_sys::fuzz_target;

use world::{Op, Setup, Since, World};

const OPERATIONS_MAX: usize = 200;

fuzz_target!(|data: &[u8]| {
    let mut draw = Draw::new(data);
    let durability = if draw.byte() % 2 == 0 { Durability::Memory } else { Durability::Relaxed };
    let mut world = World::new(Setup {
        durability,
        workers: draw.size(1, 3),
        log_batches: draw.size(2, 7),
        ring_batches: draw.size(1, 7),
        tail_max: draw.size(0, 29),
        run_bytes_max: draw.size(200, 4_000),
    });
    draw.operations(OPERATIONS_MAX, |draw| world.apply(op(draw)));
    world.come_to_rest();
});

fn op(draw: &mut Draw<'_>) -> Op {
    match draw.byte() % 32 {
        0..=4 => Op::Release { seen_by: draw.byte() % 6, chars: draw.size(1, 89) },
        5..=7 => Op::Seal,
        8 | 9 => Op::Burst { batches: draw.size(2, 7) },
        10 | 11 => Op::HandToStore,
        12 | 13 => Op::Commit { entries: draw.size(1, 7) },
        14 => Op::FailForGood,
        15 | 16 => Op::HearFromStore,
        17 | 18 => Op::Pull { worker: draw.size(0, 2) },
        19..=21 => Op::Pass {
            worker: draw.size(0, 2),
            accept: (0..4).map(|_| accept(draw)).collect(),
            counts: draw.coin(),
        },
        22 | 23 => Op::Writable { viewer: viewer_number(draw), accept: accept(draw) },
        24 | 25 => Op::Connect {
            viewer: viewer_number(draw),
            worker: draw.size(0, 2),
            since: since(draw),
            accept: accept(draw),
        },
        26 => Op::Disconnect { viewer: viewer_number(draw) },
        27 => Op::ChangeTier { viewer: viewer_number(draw), tier: draw.byte() % 3 },
        28 => Op::Tell { viewer: viewer_number(draw), accept: accept(draw) },
        29 => Op::Wait { ms: if draw.coin() { draw.from_to(1, 19) } else { draw.from_to(500, 1_500) } },
        30 => match draw.coin() {
            true => Op::Age,
            false => Op::AttachAgain { worker: draw.size(0, 2) },
        },
        _ => Op::RestartOwner,
    }
}

fn viewer_number(draw: &mut Draw<'_>) -> usize {
    draw.size(0, 4)
}

fn accept(draw: &mut Draw<'_>) -> usize {
    match draw.byte() {
        0xff => usize::MAX,
        bytes => usize::from(bytes),
    }
}

fn since(draw: &mut Draw<'_>) -> Since {
    match draw.byte() % 8 {
        0 => Since::Nothing,
        1..=3 => Since::Own,
        4 => Since::In { epoch: draw.size(0, 20), seq: draw.from_to(0, 59) },
        5 => Since::Head { back: draw.from_to(0, 5) },
        6 => Since::BeyondHead { ahead: draw.from_to(0, 2) },
        _ => Since::UnknownEpoch { seq: draw.from_to(0, 29) },
    }
}
