//! Reading a publish and writing a batch must not touch the heap.

use std::sync::Arc;

use bumpalo::Bump;
use danmaku_wire::entry::{Author, Body, Comment, Entry, Mode, Role, Tier, Visibility};
use danmaku_wire::id::UserId;
use danmaku_wire::native::proto::client_message;
use danmaku_wire::native::{Batch, Command, ServerMessage, arena, json, proto};
use danmaku_wire::trace::TraceContext;
use prost::Message;

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

fn send(text: &str) -> Vec<u8> {
    let send = proto::Send {
        id: "k7-1".into(),
        text: text.into(),
        mode: proto::Mode::Top.into(),
        color: Some(255),
        size: 36,
        stream_ms: Some(1_234_567),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
    };
    proto::ClientMessage { command: Some(client_message::Command::Send(send)) }.encode_to_vec()
}

/// The counter itself: what is known to allocate is seen.
#[test]
fn an_allocation_is_counted() {
    let bytes = send("hello");
    assert!(allocations(|| drop(proto::ClientMessage::decode(&*bytes))) >= 3);
}

/// `arena::decode` of a publish, at any length of its text, in an arena that has been used.
#[test]
fn a_publish_in_protobuf_is_read_without_the_heap() {
    let mut arena = Bump::new();
    for text in ["hello", "前方高能，非战斗人员请迅速撤离", &"长".repeat(2_000)] {
        let bytes = send(text);
        let decode = |arena: &Bump| {
            let decoded = arena::decode(&bytes, arena);
            assert!(matches!(decoded, Ok(Command::Send(send)) if send.text == text));
        };
        decode(&arena);
        arena.reset();
        assert_eq!(allocations(|| decode(&arena)), 0, "{} bytes", text.len());
    }
}

/// `json::decode` of a publish: without escapes at once, with escapes in an arena that has been used.
#[test]
fn a_publish_in_json_is_read_without_the_heap() {
    let mut arena = Bump::new();
    let plain = r#"{"send":{"id":"k7-1","text":"前方高能","mode":"top","color":255,"streamMs":1234}}"#;
    let escaped = r#"{"send":{"id":"k7-1","text":"a \"quoted\" word\n\ud83d\ude00"}}"#;
    let decode = |text, arena: &Bump| assert!(matches!(json::decode(text, arena), Ok(Command::Send(_))));
    assert_eq!(allocations(|| decode(plain, &arena)), 0);
    decode(escaped, &arena);
    arena.reset();
    assert_eq!(allocations(|| decode(escaped, &arena)), 0);
}

/// `json::encode` and `proto::encode` into a buffer that has been used.
#[test]
fn a_batch_is_written_without_the_heap() {
    let user = Arc::new(Author {
        id: UserId::parse("u1").expect("valid"),
        name: "Ann".into(),
        role: Role::Vip,
        level: 3,
        badges: vec!["captain".into()],
    });
    let comment = Comment {
        user,
        text: "hello \"you\"".into(),
        mode: Mode::Top,
        color: 255,
        size: 25,
        stream_ms: Some(1),
        trace: TraceContext::new(7, 9, true).map(Box::new),
    };
    let visibility = Visibility::Tier(Tier::Lite);
    let entry = Entry { seq: 42, at_ms: 1_700_000_000_000, visibility, body: Body::Comment(comment) };
    let batch = ServerMessage::Batch(Batch { from: 42, to: 44, items: &[&entry, &entry, &entry] });
    for encode in [json::encode, proto::encode] {
        let mut out = Vec::new();
        encode(&batch, &mut out);
        let bytes = out.len();
        out.clear();
        let counted = allocations(|| encode(&batch, &mut out));
        assert_eq!((counted, out.len()), (0, bytes));
    }
}
