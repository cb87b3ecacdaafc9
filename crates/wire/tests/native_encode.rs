//! The server's messages: JSON and protobuf must hold the same values.

use std::collections::BTreeMap;
use std::sync::Arc;

use danmaku_wire::entry::{Author, Body, Comment, Entry, Event, Mode, Role, Tier, Visibility};
use danmaku_wire::id::UserId;
use danmaku_wire::native::proto::server_message::Message as Wire;
use danmaku_wire::native::{
    Ack, AckState, AuthInfo, Batch, EpochChange, ErrorCode, ErrorMessage, Gap, Joined, Pending, Pong,
    Reconnect, RoomUpdate, ServerMessage, Snapshot, You, json, proto,
};
use danmaku_wire::position::{Epoch, Position};
use danmaku_wire::trace::TraceContext;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use prost::Message;
use serde_json::{Map, Value};

/// A JSON object written by the schema's rules: defaults absent.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn always(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    fn some<T: Into<Value>>(self, name: &str, value: Option<T>) -> Self {
        match value {
            Some(value) => self.always(name, value),
            None => self,
        }
    }

    fn text(self, name: &str, value: &str) -> Self {
        self.some(name, Some(value).filter(|v| !v.is_empty()))
    }

    fn number(self, name: &str, value: u64) -> Self {
        self.some(name, Some(value).filter(|v| *v != 0))
    }

    fn truth(self, name: &str, value: bool) -> Self {
        self.some(name, Some(value).filter(|v| *v))
    }

    fn json(self, name: &str, text: &str) -> Self {
        if text.is_empty() {
            return self;
        }
        self.always(name, serde_json::from_str::<Value>(text).expect("data is JSON"))
    }

    fn enumeration(self, name: &str, full: &str, prefix: &str) -> Self {
        self.always(name, full.trim_start_matches(prefix).to_lowercase())
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object.0)
    }
}

fn you(m: &proto::You) -> Object {
    let object = Object::default().text("id", &m.id).text("name", &m.name).text("guest", &m.guest);
    role(object, m.role())
}

fn role(object: Object, role: proto::Role) -> Object {
    if role == proto::Role::Viewer { object } else { object.enumeration("role", role.as_str_name(), "ROLE_") }
}

fn user(m: &proto::User) -> Object {
    let badges = Some(m.badges.clone()).filter(|b| !b.is_empty());
    let object = Object::default().text("id", &m.id).text("name", &m.name).number("level", m.level.into());
    role(object, m.role()).some("badges", badges)
}

fn item(m: &proto::Entry) -> Value {
    let mut object = Object::default()
        .always("seq", m.seq)
        .text("type", &m.r#type)
        .some("user", m.user.as_ref().map(user))
        .text("text", &m.text)
        .some("color", m.color)
        .number("size", m.size.into())
        .number("at", m.at)
        .some("streamMs", m.stream_ms)
        .json("data", &m.data)
        .number("count", m.count)
        .number("upTo", m.up_to)
        .text("epoch", &m.epoch)
        .text("traceparent", &m.traceparent);
    if m.mode() != proto::Mode::Scroll {
        object = object.enumeration("mode", m.mode().as_str_name(), "MODE_");
    }
    match m.r#type.as_str() {
        "pin" | "fold" => object.always("of", m.of),
        "retract" => object.always("seqs", m.seqs.clone()),
        _ => object,
    }
    .into()
}

fn items(entries: &[proto::Entry]) -> Value {
    entries.iter().map(item).collect()
}

fn room(m: &proto::RoomUpdate) -> Object {
    let reactions: Map<String, Value> =
        m.reactions.iter().map(|(kind, count)| (kind.clone(), Value::from(*count))).collect();
    Object::default()
        .number("online", m.online)
        .number("viewers", m.viewers)
        .some("reactions", Some(reactions).filter(|r| !r.is_empty()))
        .number("slowModeMs", m.slow_mode_ms)
        .json("data", &m.data)
}

fn ack(m: &proto::Ack) -> Object {
    let object = Object::default().text("id", &m.id).number("seq", m.seq).text("epoch", &m.epoch);
    match m.state() {
        proto::AckState::Accepted => object,
        state => object.enumeration("state", state.as_str_name(), "ACK_STATE_"),
    }
}

/// What the schema's rules make of a message of prost.
fn by_the_rules(message: &proto::ServerMessage) -> Value {
    let object = Object::default();
    let (name, body) = match message.message.as_ref().expect("a message of this version") {
        Wire::Joined(m) => (
            "joined",
            object
                .text("room", &m.room)
                .text("epoch", &m.epoch)
                .always("seq", m.seq)
                .number("online", m.online)
                .truth("recovered", m.recovered)
                .some("you", m.you.as_ref().map(you)),
        ),
        Wire::Batch(m) => {
            ("batch", object.always("from", m.from).always("to", m.to).always("items", items(&m.items)))
        }
        Wire::Snapshot(m) => (
            "snapshot",
            object
                .text("epoch", &m.epoch)
                .always("seq", m.seq)
                .always("items", items(&m.items))
                .some("room", m.room.as_ref().map(room)),
        ),
        Wire::Ack(m) => ("ack", ack(m)),
        Wire::Error(m) => (
            "error",
            object
                .text("id", &m.id)
                .text("code", &m.code)
                .text("message", &m.message)
                .number("retryAfterMs", m.retry_after_ms)
                .number("seq", m.seq)
                .truth("shown", m.shown)
                .number("count", m.count),
        ),
        Wire::Gap(m) => (
            "gap",
            object
                .text("epoch", &m.epoch)
                .always("from", m.from)
                .always("to", m.to)
                .text("reason", &m.reason),
        ),
        Wire::Epoch(m) => {
            let prev =
                m.prev.as_ref().map(|p| Object::default().text("epoch", &p.epoch).always("seq", p.seq));
            ("epoch", object.text("epoch", &m.epoch).always("seq", m.seq).some("prev", prev))
        }
        Wire::Room(m) => ("room", room(m)),
        Wire::Pending(m) => (
            "pending",
            object
                .text("id", &m.id)
                .some("user", m.user.as_ref().map(user))
                .text("text", &m.text)
                .text("reason", &m.reason)
                .number("at", m.at)
                .some("releaseInMs", m.release_in_ms),
        ),
        Wire::Auth(m) => {
            ("auth", object.number("expiresInMs", m.expires_in_ms).some("you", m.you.as_ref().map(you)))
        }
        Wire::Reconnect(m) => {
            ("reconnect", object.number("afterMs", m.after_ms).text("reason", &m.reason).text("url", &m.url))
        }
        Wire::Pong(m) => ("pong", object.always("t", m.t)),
    };
    Object::default().always(name, body).into()
}

/// Both encodings of `message` hold the same values, JSON fits one line, and protobuf is canonical.
fn check(message: &ServerMessage<'_>) -> Result<(), TestCaseError> {
    let (mut bytes, mut text) = (b"before".to_vec(), b"before".to_vec());
    proto::encode(message, &mut bytes);
    json::encode(message, &mut text);
    let (bytes, text) = (&bytes[6..], &text[6..]);
    let decoded = proto::ServerMessage::decode(bytes).expect("valid protobuf");
    prop_assert_eq!(decoded.encode_to_vec(), bytes, "not the bytes that prost writes");
    let parsed: Value = serde_json::from_slice(text).expect("valid JSON");
    prop_assert_eq!(parsed, by_the_rules(&decoded));
    prop_assert!(!text.iter().any(|b| *b < 0x20), "a control character in {}", String::from_utf8_lossy(text));
    Ok(())
}

fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => ".{0,12}",
        2 => "[\u{0}-\u{1f}\"\\\\/\u{7f}\u{2028}\u{2029}😀中<>&']{0,16}",
        1 => "[a-z一-龠]{60,200}",
        1 => Just(String::new()),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, 120..140_u64, any::<u64>(), (0..64_u32).prop_map(|shift| 1 << shift)]
}

/// JSON text, on one line or on many.
fn data() -> impl Strategy<Value = Box<str>> {
    let leaf =
        prop_oneof![nasty().prop_map(Value::from), any::<u64>().prop_map(Value::from), Just(Value::Null)];
    let value = leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::Array),
            btree_map(nasty(), inner, 0..3).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    });
    (value, any::<bool>()).prop_map(|(value, pretty)| {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        text.expect("JSON").into()
    })
}

fn role_of() -> impl Strategy<Value = Role> {
    (0..5_usize).prop_map(|n| [Role::Viewer, Role::Vip, Role::Moderator, Role::Streamer, Role::Staff][n])
}

fn author() -> impl Strategy<Value = Arc<Author>> {
    ("[^\\p{Cc}]{1,12}", nasty(), role_of(), number(), vec(nasty(), 0..3)).prop_map(
        |(id, name, role, level, badges)| {
            Arc::new(Author {
                id: UserId::parse(&id).expect("valid"),
                name: name.into(),
                role,
                level: level as u32,
                badges: badges.into_iter().map(Into::into).collect(),
            })
        },
    )
}

fn epoch() -> impl Strategy<Value = Epoch> {
    "[A-Za-z0-9_-]{1,16}".prop_map(|text| Epoch::parse(&text).expect("valid"))
}

fn body() -> impl Strategy<Value = Body> {
    let looks = (0..3_usize, any::<u32>(), any::<u8>());
    let trace = (0..3_u128, any::<u64>(), any::<bool>());
    let comment = (author(), nasty(), looks, proptest::option::of(number()), trace);
    prop_oneof![
        4 => comment.prop_map(|(user, text, (mode, color, size), stream_ms, (trace, span, sampled))| Body::Comment(Comment {
            user,
            text: text.into(),
            mode: [Mode::Scroll, Mode::Top, Mode::Bottom][mode],
            color: if color % 4 == 0 { 0x00FF_FFFF } else { color >> 8 },
            size: if size % 4 == 0 { 25 } else { size },
            stream_ms,
            trace: TraceContext::new(trace, span, sampled).map(Box::new),
        })),
        1 => ("[a-z.]{1,12}", proptest::option::of(author()), prop_oneof![data(), Just("".into())]).prop_map(
            |(kind, user, data)| Body::Event(Event { kind: format!("x.{kind}").into(), user, data })
        ),
        1 => (proptest::option::of(epoch()), vec(number(), 0..5))
            .prop_map(|(epoch, seqs)| Body::Retract { epoch, seqs }),
        1 => (number(), number()).prop_map(|(of, count)| Body::Fold { of, count }),
        1 => number().prop_map(|of| Body::Pin { of }),
        1 => number().prop_map(|up_to| Body::Clear { up_to }),
        1 => data().prop_map(|data| Body::State { data }),
    ]
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    vec((number(), number(), body()), 0..8).prop_map(|entries| {
        let visibility = Visibility::Tier(Tier::Lite);
        let entry = |(seq, at_ms, body)| Entry { seq, at_ms, visibility: visibility.clone(), body };
        entries.into_iter().map(entry).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// `json::encode` and `proto::encode`, every message with the same arbitrary ingredients.
    #[test]
    fn every_message_holds_the_same_values_in_both_encodings(
        s in prop::array::uniform4(nasty()),
        n in prop::array::uniform4(number()),
        flag in any::<bool>(),
        role in role_of(),
        code in 0..ErrorCode::ALL.len(),
        state in 0..3_usize,
        user in author(),
        entries in entries(),
        epoch in epoch(),
        reactions in btree_map(nasty(), number(), 0..4),
        data in prop_oneof![data(), Just("".into())],
    ) {
        let [a, b, c, d] = s.each_ref().map(String::as_str);
        let items: Vec<&Entry> = entries.iter().collect();
        let reactions: BTreeMap<String, u64> = reactions;
        let reactions: Vec<(&str, u64)> = reactions.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        let room = RoomUpdate {
            online: n[0], viewers: n[1], reactions: &reactions, slow_mode_ms: n[2], data: &data,
        };
        let you = You { id: a, name: b, role, guest: flag.then_some(c) };
        let prev = Position { epoch, seq: n[1] };
        let code = ErrorCode::ALL[code];
        let state = [AckState::Accepted, AckState::Held, AckState::Folded][state];
        let messages = [
            ServerMessage::Joined(Joined {
                room: c, epoch: d, seq: n[0], online: n[1], recovered: flag, you: you.clone(),
            }),
            ServerMessage::Batch(Batch { from: n[0], to: n[1], items: &items }),
            ServerMessage::Snapshot(Snapshot { epoch: a, seq: n[3], items: &items, room: room.clone() }),
            ServerMessage::Ack(Ack { id: a, state, seq: flag.then_some(n[0]), epoch: (!flag).then_some(b) }),
            ServerMessage::Error(ErrorMessage {
                id: flag.then_some(a), code, message: b, retry_after_ms: Some(n[0]), seq: Some(n[1]),
                shown: flag, count: n[2],
            }),
            ServerMessage::Error(ErrorMessage::new(None, code)),
            ServerMessage::Gap(Gap { epoch: flag.then_some(a), from: n[0], to: n[1], reason: b }),
            ServerMessage::Epoch(EpochChange { epoch: a, seq: n[0], prev: flag.then_some(&prev) }),
            ServerMessage::Room(room),
            ServerMessage::Pending(Pending {
                id: a, user: &user, text: b, reason: c, at_ms: n[0], release_in_ms: flag.then_some(n[1]),
            }),
            ServerMessage::Auth(AuthInfo { expires_in_ms: Some(n[0]), you: flag.then_some(you) }),
            ServerMessage::Reconnect(Reconnect { after_ms: n[0], reason: a, url: flag.then_some(b) }),
            ServerMessage::Pong(Pong { t: n[0] }),
        ];
        for message in &messages {
            check(message)?;
        }
    }
}

/// `proto::encode`: messages around the sizes where a length takes one byte more.
#[test]
fn a_length_is_as_short_as_it_can_be() {
    for edge in [1 << 7, 1 << 14, 1 << 21] {
        for bytes in edge - 40..edge + 2 {
            let text = "a".repeat(bytes);
            let room = RoomUpdate::default();
            check(&ServerMessage::Gap(Gap { epoch: None, from: 1, to: 2, reason: &text })).expect("same");
            let snapshot = Snapshot { epoch: &text, seq: 1, items: &[], room };
            check(&ServerMessage::Snapshot(snapshot)).expect("same");
        }
    }
}

/// `json::encode`: a comment costs at most 1.35 times the bare object of its four facts.
#[test]
fn a_comment_in_json_is_hardly_longer_than_its_bare_facts() {
    let table = [
        ("g7Qm2xK9", "", "hello", 41),
        ("u1", "", "666", 123_456),
        ("10086", "", "前方高能，非战斗人员请迅速撤离", 9_007_199),
        ("3f2a9c41d7e8", "", "哈哈哈哈哈哈", 1_234_567),
    ];
    for (id, name, words, seq) in table {
        let user = Arc::new(Author {
            id: UserId::parse(id).expect("valid"),
            name: name.into(),
            role: Role::Viewer,
            level: 0,
            badges: Vec::new(),
        });
        let comment = Comment {
            user,
            text: words.into(),
            mode: Mode::Scroll,
            color: 0x00FF_FFFF,
            size: 25,
            stream_ms: None,
            trace: None,
        };
        let at_ms = 1_700_000_000_000;
        let visibility = Visibility::Tier(Tier::Lite);
        let entry = Entry { seq, at_ms, visibility, body: Body::Comment(comment) };
        let length = |items: &[&Entry]| {
            let mut out = Vec::new();
            json::encode(&ServerMessage::Batch(Batch { from: seq, to: seq, items }), &mut out);
            out.len()
        };
        let item = length(&[&entry]) - length(&[]);
        let bare = format!(r#"{{"type":"comment","user":"{id}","text":"{words}","ts":{at_ms}}}"#).len();
        assert!(item * 100 <= bare * 135, "{item} bytes for {bare}: {words}");
    }
}
