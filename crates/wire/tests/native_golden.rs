//! The bytes of every message in both encodings, pinned.
//!
//! `UPDATE_GOLDEN=1 cargo test -p danmaku-wire --test native_golden` rewrites the files under
//! `tests/golden/`; the difference is what a reviewer looks at. A change here that is no addition breaks
//! clients in the field.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use bumpalo::Bump;
use danmaku_wire::entry::{Author, Body, Comment, Entry, Event, Mode, Role, Tier, Visibility};
use danmaku_wire::id::UserId;
use danmaku_wire::native::proto::client_message::Command as Wire;
use danmaku_wire::native::{
    Ack, AckState, AuthInfo, Batch, Command, DecodeError, EpochChange, ErrorCode, ErrorMessage, Gap, Joined,
    Pending, Pong, Reconnect, RoomUpdate, ServerMessage, Snapshot, You, arena, json, proto,
};
use danmaku_wire::position::{Epoch, Position};
use danmaku_wire::trace::TraceContext;
use prost::Message;

/// Compares `lines` with a golden file, or rewrites it where that was asked for.
fn check_golden(file: &str, lines: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|v| v == "1") {
        std::fs::write(&path, lines).expect("golden files can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file exists");
    assert_eq!(golden, lines, "{file} differs; UPDATE_GOLDEN=1 rewrites it");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a String takes everything");
        out
    })
}

/// Every command in both encodings; both must decode to the same.
fn commands() -> Vec<(&'static str, &'static str, proto::ClientMessage)> {
    let position = || proto::Position { epoch: "7-k2".into(), seq: 41 };
    let of = |command| proto::ClientMessage { command: Some(command) };
    vec![
        (
            "send",
            r#"{"send":{"id":"k7-1","text":"hello"}}"#,
            of(Wire::Send(proto::Send { id: "k7-1".into(), text: "hello".into(), ..Default::default() })),
        ),
        (
            "send_full",
            r#"{"send":{"id":"k7-2","text":"前方高能 😀","mode":"top","color":0,"size":36,"streamMs":1234,"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}"#,
            of(Wire::Send(proto::Send {
                id: "k7-2".into(),
                text: "前方高能 😀".into(),
                mode: proto::Mode::Top.into(),
                color: Some(0),
                size: 36,
                stream_ms: Some(1234),
                traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
            })),
        ),
        (
            "send_escaped",
            r#" { "send" : { "text" : "a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00" , "later" : [ { } , 1.5e3 ] , "id" : "k7-3" } } "#,
            of(Wire::Send(proto::Send {
                id: "k7-3".into(),
                text: "a\"\\/\u{8}\u{c}\n\r\té😀".into(),
                ..Default::default()
            })),
        ),
        ("join", r#"{"join":{"room":"r2"}}"#, of(Wire::Join(proto::Join { room: "r2".into(), since: None }))),
        (
            "join_since",
            r#"{"join":{"room":"r2","since":{"epoch":"7-k2","seq":41}}}"#,
            of(Wire::Join(proto::Join { room: "r2".into(), since: Some(position()) })),
        ),
        (
            "auth",
            r#"{"auth":{"token":"header.claims.signature"}}"#,
            of(Wire::Auth(proto::Auth { token: "header.claims.signature".into() })),
        ),
        (
            "view",
            r#"{"view":{"paused":true,"tier":"lite"}}"#,
            of(Wire::View(proto::View { paused: true, tier: Some(proto::Tier::Lite.into()) })),
        ),
        ("view_default", r#"{"view":{}}"#, of(Wire::View(proto::View::default()))),
        (
            "react",
            r#"{"react":{"kind":"like","count":3}}"#,
            of(Wire::React(proto::React { kind: "like".into(), count: 3 })),
        ),
        (
            "react_once",
            r#"{"react":{"kind":"like"}}"#,
            of(Wire::React(proto::React { kind: "like".into(), count: 0 })),
        ),
        (
            "report",
            r#"{"report":{"seq":42,"reason":"spam"}}"#,
            of(Wire::Report(proto::Report { seq: 42, reason: "spam".into() })),
        ),
        ("ping", r#"{"ping":{"t":1}}"#, of(Wire::Ping(proto::Ping { t: 1 }))),
        ("unknown", r#"{"dance":{"steps":[1,2,3]}}"#, proto::ClientMessage { command: None }),
    ]
}

/// `json::decode` and `arena::decode`: the bytes of every command, and what they mean.
#[test]
fn every_command_is_read_as_it_always_was() {
    let (mut texts, mut payloads, mut meanings) = (String::new(), String::new(), String::new());
    for (name, text, message) in commands() {
        let (bytes, arena) = (message.encode_to_vec(), Bump::new());
        let command = json::decode(text, &arena);
        assert_eq!(command, arena::decode(&bytes, &arena), "{name}");
        let command = command.expect("goldens are commands");
        assert_eq!(command == Command::Unknown, name == "unknown", "{name}");
        for (out, line) in [
            (&mut texts, text.to_owned()),
            (&mut payloads, hex(&bytes)),
            (&mut meanings, format!("{command:?}")),
        ] {
            writeln!(out, "{name}\t{line}").expect("a String takes everything");
        }
    }
    check_golden("client.json.txt", &texts);
    check_golden("client.proto.txt", &payloads);
    check_golden("client.meaning.txt", &meanings);
}

/// `json::decode` and `arena::decode`: every golden command cut at every byte.
#[test]
fn a_command_that_was_cut_off_is_refused_without_harm() {
    for (name, text, message) in commands() {
        let arena = Bump::new();
        for cut in (0..text.trim_end().len()).filter(|cut| text.is_char_boundary(*cut)) {
            let decoded = json::decode(&text[..cut], &arena);
            assert!(matches!(decoded, Err(DecodeError::Malformed(_))), "{name} cut at {cut}: {decoded:?}");
        }
        let bytes = message.encode_to_vec();
        for cut in 1..bytes.len() {
            // The outer message's length is known from the start, so that no cut can pass for a whole.
            let decoded = arena::decode(&bytes[..cut], &arena);
            assert!(matches!(decoded, Err(DecodeError::Malformed(_))), "{name} cut at {cut}: {decoded:?}");
        }
    }
}

fn author(id: &str) -> Arc<Author> {
    let id = UserId::parse(id).expect("valid");
    Arc::new(Author { id, name: "".into(), role: Role::Viewer, level: 0, badges: Vec::new() })
}

fn vip() -> Arc<Author> {
    Arc::new(Author {
        name: "Ann \"A\"".into(),
        role: Role::Vip,
        level: 3,
        badges: vec!["captain".into(), "前排".into()],
        ..(*author("u1")).clone()
    })
}

/// One entry of every kind.
fn entries() -> Vec<Entry> {
    let comment = |user, text: &str| Comment {
        user,
        text: text.into(),
        mode: Mode::Scroll,
        color: 0x00FF_FFFF,
        size: 25,
        stream_ms: None,
        trace: None,
    };
    let full = Comment {
        mode: Mode::Top,
        color: 0,
        size: 36,
        stream_ms: Some(1234),
        trace: TraceContext::new(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7, true)
            .map(Box::new),
        ..comment(vip(), "<前方\n\\😀>")
    };
    let event =
        |kind: &str, user, data: &str| Body::Event(Event { kind: kind.into(), user, data: data.into() });
    let bodies = [
        Body::Comment(comment(author("g7Qm2xK9"), "hello")),
        Body::Comment(full),
        event("gift", Some(vip()), "{\"gift\":\"rose\",\n \"count\":9}"),
        event("x.custom", None, ""),
        Body::Retract { epoch: None, seqs: vec![40, 300] },
        Body::Retract { epoch: Epoch::parse("6-k2"), seqs: vec![12] },
        Body::Fold { of: 42, count: 128 },
        Body::Pin { of: 42 },
        Body::Pin { of: 0 },
        Body::Clear { up_to: 47 },
        Body::State { data: "{\"slowModeMs\":5000}".into() },
    ];
    let entry = |(seq, body)| Entry {
        seq,
        at_ms: 1_700_000_000_000 + seq,
        visibility: Visibility::Tier(Tier::Lite),
        body,
    };
    (42..).zip(bodies).map(entry).collect()
}

/// Calls `check` with the name of every message and the message.
fn for_every_message(mut check: impl FnMut(&str, ServerMessage<'_>)) {
    let entries = entries();
    let items: Vec<&Entry> = entries.iter().collect();
    let prev = Position { epoch: Epoch::parse("7-k2").expect("valid"), seq: 97 };
    let guest = You { id: "g7Qm2xK9", name: "", role: Role::Viewer, guest: Some("g7Qm2xK9.c2ln") };
    let user = You { id: "u1", name: "Ann", role: Role::Vip, guest: None };
    let reactions = [("heart", 0), ("like", 10_422)];
    let room = RoomUpdate {
        online: 5_022,
        viewers: 4_800,
        reactions: &reactions,
        slow_mode_ms: 5_000,
        data: "{\"membersOnly\":true}",
    };
    let joined = Joined { room: "r1", epoch: "7-k2", seq: 41, online: 5_021, recovered: true, you: guest };
    let first = Joined { seq: 0, online: 1, recovered: false, you: user.clone(), ..joined.clone() };
    check("joined", ServerMessage::Joined(joined));
    check("joined_first", ServerMessage::Joined(first));
    check("batch", ServerMessage::Batch(Batch { from: 42, to: 52, items: &items }));
    check("batch_empty", ServerMessage::Batch(Batch { from: 53, to: 60, items: &[] }));
    let snapshot = Snapshot { epoch: "7-k2", seq: 43, items: &items[..2], room: room.clone() };
    check("snapshot", ServerMessage::Snapshot(snapshot));
    let empty = Snapshot { epoch: "7-k2", seq: 0, items: &[], room: RoomUpdate::default() };
    check("snapshot_empty", ServerMessage::Snapshot(empty));
    let ack = Ack { id: "k7-1", state: AckState::Accepted, seq: Some(42), epoch: None };
    check("ack", ServerMessage::Ack(ack.clone()));
    check("ack_earlier", ServerMessage::Ack(Ack { epoch: Some("6-k2"), ..ack.clone() }));
    check("ack_held", ServerMessage::Ack(Ack { state: AckState::Held, seq: None, ..ack.clone() }));
    check("ack_folded", ServerMessage::Ack(Ack { state: AckState::Folded, ..ack }));
    let limited = ErrorMessage::new(Some("k7-1"), ErrorCode::RateLimited);
    check("error", ServerMessage::Error(ErrorMessage { retry_after_ms: Some(480), ..limited }));
    let lost = ErrorMessage::new(Some("k7-1"), ErrorCode::NotStored);
    check("error_not_stored", ServerMessage::Error(ErrorMessage { seq: Some(42), shown: true, ..lost }));
    let many = ErrorMessage::new(None, ErrorCode::TooManyErrors);
    check("error_too_many", ServerMessage::Error(ErrorMessage { count: 17, ..many }));
    let gap = Gap { epoch: None, from: 48, to: 97, reason: "slow_consumer" };
    check("gap", ServerMessage::Gap(gap.clone()));
    check("gap_earlier", ServerMessage::Gap(Gap { epoch: Some("6-k2"), reason: "expired", ..gap }));
    check("epoch", ServerMessage::Epoch(EpochChange { epoch: "8-k2", seq: 4_193, prev: Some(&prev) }));
    check("epoch_first", ServerMessage::Epoch(EpochChange { epoch: "8-k2", seq: 4_096, prev: None }));
    check("room", ServerMessage::Room(room));
    check("room_empty", ServerMessage::Room(RoomUpdate::default()));
    let author = vip();
    let pending = Pending {
        id: "p19",
        user: &author,
        text: "wait",
        reason: "review",
        at_ms: 1_700_000_000_000,
        release_in_ms: None,
    };
    check("pending", ServerMessage::Pending(pending.clone()));
    let delayed = Pending { reason: "delay", release_in_ms: Some(6_000), ..pending };
    check("pending_delayed", ServerMessage::Pending(delayed));
    check("auth", ServerMessage::Auth(AuthInfo { expires_in_ms: Some(60_000), you: None }));
    check("auth_changed", ServerMessage::Auth(AuthInfo { expires_in_ms: None, you: Some(user) }));
    let reconnect = Reconnect { after_ms: 3_120, reason: "draining", url: Some("wss://b.example/ws") };
    check("reconnect", ServerMessage::Reconnect(reconnect));
    check("pong", ServerMessage::Pong(Pong { t: 1 }));
}

/// `json::encode` and `proto::encode`: the bytes of every message.
#[test]
fn every_message_is_written_as_it_always_was() {
    let (mut texts, mut payloads) = (String::new(), String::new());
    for_every_message(|name, message| {
        let (mut text, mut bytes) = (Vec::new(), Vec::new());
        json::encode(&message, &mut text);
        proto::encode(&message, &mut bytes);
        let text = String::from_utf8(text).expect("JSON is UTF-8");
        writeln!(texts, "{name}\t{text}").expect("a String takes everything");
        writeln!(payloads, "{name}\t{}", hex(&bytes)).expect("a String takes everything");
        let decoded = proto::ServerMessage::decode(&*bytes).expect("protobuf of this schema");
        assert_eq!(decoded.encode_to_vec(), bytes, "{name}");
    });
    check_golden("server.json.txt", &texts);
    check_golden("server.proto.txt", &payloads);
}
