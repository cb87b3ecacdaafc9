//! Protobuf commands: the arena decoder against prost.

#[path = "meaning/proto.rs"]
mod meaning;

use bumpalo::Bump;
use danmaku_wire::native::proto::client_message;
use danmaku_wire::native::{DecodeError, Problem, arena, proto};
use danmaku_wire::position::SEQ_MAX;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use meaning::check_proto;

/// Bytes of one field: mostly of this schema, sometimes of another, a wrong one, or none.
fn field(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let varint = prop_oneof![0..4_u64, Just(0x00FF_FFFF), Just(1 << 24), Just(SEQ_MAX), any::<u64>()];
    let number =
        prop_oneof![8 => 1..9_u64, 1 => 15..18_u64, 1 => Just(0), 1 => any::<u32>().prop_map(u64::from)];
    let bytes = prop_oneof![
        4 => ".{0,12}".prop_map(String::into_bytes),
        1 => "[a-z一-龠]{20,60}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..40),
    ];
    let leaf = (number.clone(), 0..8_u64, varint, bytes).prop_map(|(number, wire, value, bytes)| {
        let mut out = Vec::new();
        prost::encoding::encode_varint(number << 3 | wire, &mut out);
        match wire {
            0 | 6 | 7 => prost::encoding::encode_varint(value, &mut out),
            1 => out.extend_from_slice(&value.to_le_bytes()),
            5 => out.extend_from_slice(&value.to_le_bytes()[..4]),
            2 => {
                prost::encoding::encode_varint(bytes.len() as u64, &mut out);
                out.extend_from_slice(&bytes);
            }
            _ => {}
        }
        out
    });
    if depth == 0 {
        return leaf.boxed();
    }
    let body = vec(field(depth - 1), 0..5).prop_map(|fields| fields.concat());
    let nested = (number, any::<bool>(), body).prop_map(|(number, group, body)| {
        let mut out = Vec::new();
        prost::encoding::encode_varint(number << 3 | if group { 3 } else { 2 }, &mut out);
        if group {
            out.extend_from_slice(&body);
            prost::encoding::encode_varint(number << 3 | 4, &mut out);
        } else {
            prost::encoding::encode_varint(body.len() as u64, &mut out);
            out.extend_from_slice(&body);
        }
        out
    });
    prop_oneof![2 => leaf, 3 => nested].boxed()
}

fn position() -> impl Strategy<Value = proto::Position> {
    (".{0,8}", any::<u64>()).prop_map(|(epoch, seq)| proto::Position { epoch, seq })
}

/// A well-formed command, values out of range included.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    use client_message::Command as Wire;
    let text = || prop_oneof![".{0,10}", "[a-z 一-龠]{0,200}"];
    let small = || prop_oneof![4 => -1..4_i32, 1 => any::<i32>()];
    prop_oneof![
        (text(), text(), small(), any::<Option<u32>>(), 0..300_u32, any::<Option<u64>>(), text()).prop_map(
            |(id, text, mode, color, size, stream_ms, traceparent)| {
                let color = color.map(|c| if c % 3 == 0 { c } else { c >> 8 });
                Wire::Send(proto::Send { id, text, mode, color, size, stream_ms, traceparent })
            }
        ),
        (text(), proptest::option::of(position()))
            .prop_map(|(room, since)| Wire::Join(proto::Join { room, since })),
        text().prop_map(|token| Wire::Auth(proto::Auth { token })),
        (any::<bool>(), proptest::option::of(small()))
            .prop_map(|(paused, tier)| Wire::View(proto::View { paused, tier })),
        (text(), any::<u32>()).prop_map(|(kind, count)| Wire::React(proto::React { kind, count })),
        (any::<u64>(), text()).prop_map(|(seq, reason)| Wire::Report(proto::Report { seq, reason })),
        any::<u64>().prop_map(|t| Wire::Ping(proto::Ping { t })),
    ]
    .prop_map(|command| proto::ClientMessage { command: Some(command) }.encode_to_vec())
}

/// Puts `junk` over, before or instead of what stands at a place of `bytes`.
fn mutate(bytes: &mut Vec<u8>, (at, how, junk): (prop::sample::Index, u8, u8)) {
    if bytes.is_empty() {
        return bytes.push(junk);
    }
    let at = at.index(bytes.len());
    match how % 4 {
        0 => bytes[at] = junk,
        1 => bytes.insert(at, junk),
        2 => drop(bytes.remove(at)),
        _ => bytes.truncate(at),
    }
}

fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// `arena::decode` and prost agree on any bytes.
    #[test]
    fn any_bytes_are_accepted_or_refused_as_prost_does(bytes in vec(any::<u8>(), 0..64)) {
        check_proto(&bytes);
    }

    /// `arena::decode` and prost agree on fields of any number, type and nesting, groups included.
    #[test]
    fn any_fields_are_merged_replaced_or_skipped_as_prost_does(fields in vec(field(3), 0..6)) {
        check_proto(&fields.concat());
    }

    /// `arena::decode` and prost agree on several commands in one message, whole and damaged.
    #[test]
    fn valid_commands_mean_the_same_whole_and_damaged(
        messages in vec(valid(), 1..4), mutations in mutations(),
    ) {
        let mut bytes = messages.concat();
        check_proto(&bytes);
        mutations.into_iter().for_each(|m| mutate(&mut bytes, m));
        check_proto(&bytes);
    }
}

/// `arena::decode`: an id and a text of any length, cut within a character, be it between the two, or
/// with a byte at the end that is none.
#[test]
fn an_id_and_a_text_are_utf8_to_their_last_bytes_or_refused() {
    let words = "前方高能😀é非战斗人员请迅速撤离，哈哈哈哈哈哈，这个主播太厉害了吧完全没想到";
    let words = words.repeat(2).into_bytes();
    for split in 0..words.len().min(20) {
        for to in split..words.len() {
            for last in [None, Some(b'a'), Some(0), Some(0x80), Some(0xE5), Some(0xFF)] {
                let (id, mut text) = (words[..split].to_vec(), words[split..to].to_vec());
                text.extend(last);
                let id = [vec![0x0A], varint(id.len()), id].concat();
                let text = [vec![0x12], varint(text.len()), text].concat();
                let body = [id, text, vec![0x18, 1]].concat();
                check_proto(&[vec![0x0A], varint(body.len()), body].concat());
            }
        }
    }
}

/// `arena::decode`: numbers in more bytes than they need, and in more than there are.
#[test]
fn a_number_has_at_most_64_bits_in_at_most_ten_bytes() {
    for bytes in 1..12 {
        for last in [0, 1, 2, 3, 0x7F, 0x80, 0xFF] {
            for filler in [0x80, 0xFF] {
                let mut number = vec![filler; bytes];
                number[bytes - 1] = last;
                for after in [vec![], vec![0x0A, 1, b'k']] {
                    // A colour, a time, a number that nobody knows, and the body's own length.
                    for key in [0x20, 0x30, 0x40] {
                        let body = [vec![key], number.clone(), after.clone()].concat();
                        check_proto(&[vec![0x0A], varint(body.len()), body].concat());
                    }
                    check_proto(&[vec![0x0A], number.clone(), after].concat());
                }
            }
        }
    }
}

/// `arena::decode`: unknown groups may nest as deep as prost lets them, and no deeper.
#[test]
fn groups_nest_as_deep_as_prost_allows() {
    for depth in 95..105 {
        let nested = [vec![0x7B; depth], vec![0x7C; depth]].concat();
        check_proto(&nested);
        for command in 1..=7_u8 {
            let within = [vec![command << 3 | 2], varint(nested.len()), nested.clone()].concat();
            check_proto(&within);
        }
    }
}

fn varint(value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_varint(value as u64, &mut out);
    out
}

/// `DecodeError::BadField`: a refused publish names its id.
#[test]
fn a_refused_publish_is_told_under_its_own_id() {
    let send = proto::Send { mode: 9, id: "k1".into(), ..Default::default() };
    let message = proto::ClientMessage { command: Some(client_message::Command::Send(send)) };
    let (bytes, arena) = (message.encode_to_vec(), Bump::new());
    let refused = Err(DecodeError::BadField { id: Some("k1"), field: "mode", problem: Problem::Name });
    assert_eq!(arena::decode(&bytes, &arena), refused);
}
