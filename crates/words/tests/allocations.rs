//! Looking at a text in which nothing is found must not touch the heap.

use danmaku_words::{ListOptions, Screen, Verdict, Watch, WordList};

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

use counting::allocations;

/// A list with every kind of rule.
const LIST: &str = "fuck\n法轮功 mask\n傻逼 hold\nlồn marks\n*tard\n!link\n!email\n!phone\n!contact\n";

/// Texts that take every way through the normaliser: quick, settled, drawn out, read again.
const TEXTS: [&str; 9] = [
    "what a lovely evening for everybody here",
    "前方高能，非战斗人员请迅速撤离，前方高能，非战斗人员请迅速撤离，前方高能请迅速撤",
    "這是一個測試，ＡＢＣ，①②③，ｶﾞｷﾞ",
    "cảm ơn các bạn e\u{301}\u{323}\u{302} Ñandú ﷺ ﬁ ½",
    "soooo coooool 哈哈哈哈哈哈哈 2333333",
    "b2b sh0p r3ad a$ap w|fi mаy",
    "สวัสดีครับ नमस्ते दोस्तों 안녕하세요 مرحبا",
    "f\u{200b}ine 👨‍👩‍👧‍👦 🇨🇳🇺🇸 1️⃣",
    "加v吧 qq 12 a.b @me http 138 0013",
];

/// The counter itself: what is known to allocate is seen.
#[test]
fn an_allocation_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8]))), 1);
}

/// `Screen::screen` with buffers that have been used once.
#[test]
fn a_text_that_passes_costs_no_allocation() {
    let list = WordList::compile(&ListOptions::default(), LIST).expect("a list");
    let room = WordList::compile(&ListOptions::default(), "scum\n").expect("a list");
    let watches = [Watch::enforce(&list), Watch::observe(&room)];
    for text in TEXTS {
        let mut screen = Screen::default();
        let look =
            |screen: &mut Screen| assert_eq!(screen.screen(text, &watches), Ok(Verdict::Pass), "{text}");
        assert!(allocations(|| look(&mut screen)) > 0, "{text}");
        assert_eq!(allocations(|| look(&mut screen)), 0, "{text}");
    }
}
