//! What the bytes of a batch show, to whom, and that they are the same whoever makes them.

mod frames;

use std::sync::Arc;

use danmaku_room::batch::Batch;
use danmaku_room::form::{DEFLATE_BYTES_MIN, Encoder, Encoding, FORM_COUNT, Form, FormKey};
use danmaku_wire::entry::{Author, Body, Comment, Entry, Event, Mode, Role, Tier, Visibility};
use danmaku_wire::id::UserId;
use danmaku_wire::native::{self, ServerMessage};
use danmaku_wire::position::{Epoch, Position};
use danmaku_wire::trace::TraceContext;
use proptest::prelude::*;

use frames::Splitter;

const TIERS: [Tier; 3] = [Tier::Lite, Tier::Standard, Tier::Full];

fn epoch() -> Epoch {
    Epoch::parse("e-1").expect("valid")
}

fn visibility() -> impl Strategy<Value = Visibility> {
    prop_oneof![
        4 => Just(Visibility::Tier(Tier::Lite)),
        2 => Just(Visibility::Tier(Tier::Standard)),
        2 => Just(Visibility::Tier(Tier::Full)),
        1 => Just(Visibility::Author(UserId::parse("u2").expect("valid"))),
        1 => Just(Visibility::Staff),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    let user = Arc::new(Author {
        id: UserId::parse("u1").expect("valid"),
        name: "\"弹\" & co".into(),
        role: Role::Vip,
        level: 3,
        badges: vec!["b".into()],
    });
    let by = Arc::clone(&user);
    prop_oneof![
        4 => "\\PC{1,40}".prop_map(move |text| Body::Comment(Comment {
            user: Arc::clone(&by),
            text: text.into(),
            mode: Mode::Top,
            color: 255,
            size: 25,
            stream_ms: Some(7),
            trace: TraceContext::new(7, 9, true).map(Box::new),
        })),
        1 => Just(Body::Event(Event {
            kind: "gift".into(),
            user: Some(user),
            data: "{\"n\":\n\r\n1,\"s\":\"\\n\"}".into(),
        })),
        1 => Just(Body::Retract { epoch: None, seqs: vec![1, 2] }),
        1 => Just(Body::Pin { of: 1 }),
    ]
}

prop_compose! {
    fn batch()(
        first in 1u64..1_000_000,
        entries in prop::collection::vec((visibility(), body()), 1..12),
        links in 1u32..3,
    ) -> (Arc<Batch>, u32) {
        let numbered = (first..).zip(entries);
        let entries = numbered
            .map(|(seq, (visibility, body))| Arc::new(Entry { seq, at_ms: 1_700_000_000_000, visibility, body }))
            .collect();
        (Batch::seal(epoch(), entries, 0, 1, links), links)
    }
}

/// What a tier sees, in plain words.
fn sees(entry: &Entry, tier: Tier) -> bool {
    match entry.visibility {
        Visibility::Tier(Tier::Lite) => true,
        Visibility::Tier(Tier::Standard) => tier != Tier::Lite,
        Visibility::Tier(Tier::Full) => tier == Tier::Full,
        Visibility::Author(_) | Visibility::Staff => false,
    }
}

/// The payload of entries from `from` on, encoded without frame, cache or compression.
fn reference(batch: &Batch, from: u64, key: FormKey) -> Vec<u8> {
    let seen = batch.entries.iter().filter(|e| e.seq >= from && sees(e, key.tier));
    let items: Vec<&Entry> = seen.map(|e| &**e).collect();
    let message = ServerMessage::Batch(native::Batch { from, to: batch.to, items: &items });
    let mut payload = Vec::new();
    match key.encoding {
        Encoding::Proto => native::proto::encode(&message, &mut payload),
        Encoding::Json | Encoding::Sse => native::json::encode(&message, &mut payload),
    }
    payload
}

/// The payload that a client finds in a form.
fn read(form: &[u8], key: FormKey, batch: &Batch) -> Vec<u8> {
    if key.encoding == Encoding::Sse {
        let text = std::str::from_utf8(form).expect("an event stream is UTF-8");
        let event = text.strip_suffix("\n\n").expect("an empty line ends an event");
        let lines: Vec<&str> = event.split(['\n', '\r']).collect();
        assert_eq!(lines.len(), 2, "one id and one line of data, not {lines:?}");
        assert_eq!(lines[0], format!("id: e-1:{}", batch.to));
        return lines[1].strip_prefix("data: ").expect("data").as_bytes().to_vec();
    }
    let mut stream = Splitter::default();
    stream.push(form);
    let frame = stream.next_frame().expect("a whole frame");
    assert_eq!((frame.at, stream.left_over()), (0, 0), "one frame and nothing more");
    assert_eq!(frame.text, key.encoding == Encoding::Json);
    frame.payload
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// `Encoder::form`: each form shows what its tier may see and nothing else, deflated or not; made anew,
    /// on another worker too, it has the same bytes; and no key has two forms.
    #[test]
    fn a_form_shows_its_tier_what_it_may_see_and_is_always_the_same_bytes((batch, links) in batch()) {
        let (mut encoder, mut elsewhere) = (Encoder::new(1), Encoder::new(1));
        let mut first: Vec<Vec<u8>> = Vec::new();
        for key in (0..FORM_COUNT).map(FormKey::from_index) {
            let form = encoder.form(&batch, key);
            prop_assert_eq!(read(&form, key, &batch), reference(&batch, batch.from, key), "{:?}", key);
            prop_assert!(Arc::ptr_eq(&form, &elsewhere.form(&batch, key)), "one form serves all workers");
            first.push(form.to_vec());
        }
        let uniform = TIERS.iter().all(|t| {
            batch.entries.iter().all(|e| sees(e, *t) == sees(e, Tier::Full))
        });
        prop_assert_eq!(batch.live_forms(), if uniform { FORM_COUNT / 3 } else { FORM_COUNT });
        for _ in 0..links {
            prop_assert!(batch.live_forms() > 0, "a link still needs the forms");
            batch.delivered();
        }
        prop_assert_eq!(batch.live_forms(), 0);
        for key in (0..FORM_COUNT).rev().map(FormKey::from_index) {
            prop_assert_eq!(&elsewhere.form(&batch, key)[..], &first[key.index()][..], "made anew: {:?}", key);
        }
    }

    /// `Encoder::form`: compression is used where it was agreed and helps, and only there.
    #[test]
    fn a_form_is_deflated_only_where_that_was_agreed_and_makes_it_smaller((batch, _) in batch()) {
        let mut encoder = Encoder::new(1);
        for encoding in [Encoding::Json, Encoding::Proto, Encoding::Sse] {
            let key = |deflate| FormKey { encoding, deflate, tier: Tier::Full };
            let (plain, deflated) = (encoder.form(&batch, key(false)), encoder.form(&batch, key(true)));
            prop_assert!(deflated.len() <= plain.len());
            let marked = |form: &Form| encoding != Encoding::Sse && form[0] & 0x40 != 0;
            prop_assert!(!marked(&plain));
            let long = reference(&batch, batch.from, key(true)).len() >= DEFLATE_BYTES_MIN;
            prop_assert_eq!(marked(&deflated), deflated.len() < plain.len());
            prop_assert!(long || !marked(&deflated), "a short payload is left as it is");
        }
    }

    /// `Encoder::rest_of`: the rest of a batch covers exactly what comes after a position within it.
    #[test]
    fn the_rest_of_a_batch_is_what_comes_after_a_position_in_it((batch, _) in batch()) {
        let mut encoder = Encoder::new(1);
        for key in (0..FORM_COUNT).map(FormKey::from_index) {
            for seq in batch.from..batch.to {
                let mut rest = Vec::new();
                encoder.rest_of(&batch, seq, key, &mut rest);
                prop_assert_eq!(read(&rest, key, &batch), reference(&batch, seq + 1, key));
            }
        }
    }
}

/// `Encoder::form` of a change of epoch: the same to every tier, with the id of where the new one begins.
#[test]
fn a_change_of_epoch_is_one_form_for_all_tiers() {
    let prev = Position { epoch: Epoch::parse("e-0").expect("valid"), seq: 97 };
    let batch = Batch::epoch_change(epoch(), prev, 4_194, 0, 1);
    let mut encoder = Encoder::new(1);
    let json = r#"{"epoch":{"epoch":"e-1","seq":4193,"prev":{"epoch":"e-0","seq":97}}}"#;
    for tier in TIERS {
        for encoding in [Encoding::Json, Encoding::Sse] {
            let key = FormKey { encoding, deflate: false, tier };
            let payload = read(&encoder.form(&batch, key), key, &batch);
            assert_eq!(String::from_utf8_lossy(&payload), json);
        }
    }
    assert_eq!(batch.live_forms(), 2);
}
