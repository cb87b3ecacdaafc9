//! A log and the replicas that follow its chain (attach, follow, lap, attach again, evict, resume), under any
//! list of operations, against plain lists.
//!
//! Input: bounds, then operations of one to three bytes.

#![no_main]

#[path = "room_link/model.rs"]
mod model;

use danmaku_fuzz::draw::Draw;
use danmaku_room::log::RingBounds;
use libfuzzer_sys::fuzz_target;

use model::World;

const OPERATIONS_MAX: usize = 400;
/// How old a batch may get, microseconds.
const AGE_MAX_US: u64 = 100;

fuzz_target!(|data: &[u8]| {
    let mut draw = Draw::new(data);
    let mut bounds =
        || RingBounds { bytes_max: 700 * draw.size(1, 8), age_max_us: AGE_MAX_US << (4 * (draw.byte() % 2)) };
    let mut world = World::new(bounds(), bounds());
    draw.operations(OPERATIONS_MAX, |draw| {
        let (operation, link) = (draw.byte(), usize::from(draw.byte()));
        match operation % 16 {
            0..=3 => world.append(draw.size(1, 3)),
            4 => world.evict(draw.from_to(0, 40)),
            5 | 6 => world.attach(link),
            7..=9 => world.pull(link),
            10 => world.deliver(link, draw.from_to(0, 40)),
            11 => world.evict_ring(link),
            12 => world.detach(link),
            13 => world.make_form(link, draw.byte()),
            14 => world.wait(draw.from_to(0, 200)),
            _ => world.restart(draw.coin()),
        }
        world.check(link);
    });
    world.come_down();
});
