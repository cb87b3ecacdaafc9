//! A comment that is let in by a room which knows its author must not touch the heap.

use danmaku_room::Now;
use danmaku_room::admission::gate::{Ask, Gate};
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::admission::{Limits, Standing};
use danmaku_wire::entry::{Author, COLOR_DEFAULT, Mode, Role, SIZE_DEFAULT};
use danmaku_wire::id::UserId;
use danmaku_wire::native::Send;

/// Counts the allocations of each thread apart, so that the test harness does not disturb.
#[allow(unsafe_code)]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    }

    struct Counting;

    fn count() {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
    }

    // SAFETY: every call is passed on to the system's allocator as it came; the counter is a constant
    // thread-local without a destructor, so that counting allocates nothing itself.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count();
            // SAFETY: the caller's promises are those that `System` asks for.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: `pointer` came from `System` through this allocator.
            unsafe { System.dealloc(pointer, layout) }
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            count();
            // SAFETY: `pointer` came from `System` through this allocator.
            unsafe { System.realloc(pointer, layout, bytes) }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// How often `work` asked the heap for memory.
    pub(super) fn allocations(work: impl FnOnce()) -> u64 {
        let before = ALLOCATIONS.with(Cell::get);
        work();
        ALLOCATIONS.with(Cell::get) - before
    }
}

/// `examine` and `charge`: comments of known users, accepted and refused, short ones; and refusals of long ones.
#[test]
fn admission_of_a_known_user_asks_for_no_memory() {
    let mut gate = Gate::new(Limits::default(), [7; 16]);
    let users: Vec<Author> = (0..100)
        .map(|n| {
            let id = UserId::parse(&format!("u{n}")).expect("valid");
            Author { id, name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() }
        })
        .collect();
    let (mut accepted, mut refused) = (0, 0);
    let mut round = |second: u64| {
        for (n, user) in users.iter().enumerate() {
            let (mode, color, size) = (Mode::Scroll, COLOR_DEFAULT, SIZE_DEFAULT);
            let send = Send { id: "", text: "short", mode, color, size, stream_ms: None, traceparent: "" };
            let ask = Ask { user, standing: Standing::default(), client: "", send: &send, text: "short" };
            let now = Now { us: second * 1_000_000 + n as u64, wall_ms: 0 };
            // Four a second: two come back.
            for _ in 0..4 {
                match gate.examine(&mut WorkerGate::default(), now, &ask) {
                    Ok(permit) => {
                        gate.charge(&mut WorkerGate::default(), now, &permit);
                        accepted += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    };
    round(1);
    assert_eq!(counting::allocations(|| (2..20).for_each(&mut round)), 0);
    assert!(accepted > 1_000 && refused > 1_000, "{accepted} accepted, {refused} refused");
}
