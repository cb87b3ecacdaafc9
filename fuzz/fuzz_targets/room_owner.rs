//! An owner and its store under any list of operations, against a plain account of what was said, promised
//! and kept: the model of the room's own tests, driven by coverage.
//!
//! Input: the durability, then operations of one to three bytes.

#![no_main]

#[path = "../../crates/room/tests/scripted_store/mod.rs"]
mod scripted_store;
#[path = "../../crates/room/tests/owner_promises/world.rs"]
mod world;

use danmaku_fuzz::draw::Draw;
use danmaku_room::store::Durability;
use libfuzzer_sys::fuzz_target;

use world::{Op, World};

const OPERATIONS_MAX: usize = 300;

fuzz_target!(|data: &[u8]| {
    let mut draw = Draw::new(data);
    let durability = match draw.byte() {
        0..0x80 => Durability::Stored,
        0x80..0xc0 => Durability::Relaxed,
        _ => Durability::Memory,
    };
    let mut world = World::new(durability);
    draw.operations(OPERATIONS_MAX, |draw| world.apply(op(draw)));
    world.come_to_rest();
});

fn op(draw: &mut Draw<'_>) -> Op {
    match draw.byte() % 16 {
        0..=4 => {
            let [user, id, text] = [2, 7, 2].map(|choices| draw.byte() % choices);
            Op::Publish { user, id: id.checked_sub(1), text }
        }
        5..=7 => Op::Turn,
        8 | 9 => Op::Commit { entries: draw.size(1, 6) },
        10 => Op::FailForGood,
        11 | 12 => Op::HearFromStore,
        13 => Op::Wait { ms: if draw.coin() { draw.from_to(0, 8) } else { draw.from_to(100, 2_600) } },
        14 => Op::Age,
        _ => Op::RestartOwner,
    }
}
