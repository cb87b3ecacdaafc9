//! Every message survives its way, and nothing that comes instead of one does harm.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use danmaku_room::admission::idempotency::Key;
use danmaku_room::admission::{Refusal, Standing};
use danmaku_room::form::Encoding;
use danmaku_room::house::House;
use danmaku_room::house::settings::Settings;
use danmaku_room::house::stage::{MediaId, Stage};
use danmaku_room::store::{Loaded, StoredId};
use danmaku_wire::entry::{Author, Body, Comment, Entry, Event, Mode, Role, Tier, Visibility};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::{ErrorCode, Send};
use danmaku_wire::position::{Epoch, Position};
use danmaku_wire::trace::TraceContext;
use danmaku_wire::websocket::decoder::Carried;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::forward::{Answer, Forwarded};
use super::message::{Message, Totals};
use super::state::Passage;
use crate::identity::claims::{RoomClaims, TokenRole};
use crate::identity::user::{Grant, Identity};
use crate::identity::users::{Change, Decision};
use crate::ingress::addresses::Counted;
use crate::ingress::arrival::{Arrival, Moved};
use crate::ingress::listener::{Kind, Listener};
use crate::worker::message::{Outcome, OwnedSend};
use crate::worker::session::Spent;

fn room() -> impl Strategy<Value = RoomId> {
    "[A-Za-z0-9_-]{1,64}".prop_map(|text| RoomId::parse(&text).expect("within the alphabet"))
}

fn epoch() -> impl Strategy<Value = Epoch> {
    "[a-z0-9]{1,12}-[0-9]{1,3}".prop_map(|text| Epoch::parse(&text).expect("within the alphabet"))
}

fn author() -> impl Strategy<Value = Author> {
    let role =
        prop::sample::select(vec![Role::Viewer, Role::Vip, Role::Moderator, Role::Streamer, Role::Staff]);
    ("[a-z0-9]{1,20}", ".{0,20}", role, any::<u32>(), vec(".{0,8}", 0..3)).prop_map(
        |(id, name, role, level, badges)| Author {
            id: UserId::parse(&id).expect("within the alphabet"),
            name: name.into(),
            role,
            level,
            badges: badges.into_iter().map(Into::into).collect(),
        },
    )
}

fn grant() -> impl Strategy<Value = Grant> {
    let followed_at_s = option::of(any::<u64>());
    (author(), any::<bool>(), followed_at_s).prop_map(|(author, member, followed_at_s)| {
        let Author { role, level, badges, .. } = author;
        Grant { role, level, member, followed_at_s, badges: badges.into() }
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    let times = (option::of(any::<u64>()), any::<u64>());
    (author(), times, grant(), vec((room(), grant()), 0..3)).prop_map(
        |(Author { id, name, .. }, (issued_s, ends_s), everywhere, rooms)| Identity {
            id,
            name,
            issued_s,
            ends_s,
            everywhere,
            rooms: rooms.into(),
        },
    )
}

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Scroll, Mode::Top, Mode::Bottom])
}

fn body() -> impl Strategy<Value = Body> {
    let trace = any::<(u8, u64, bool)>();
    let comment = (author(), ".{0,40}", mode(), any::<u32>(), any::<u8>(), option::of(any::<u64>()), trace)
        .prop_map(|(user, text, mode, color, size, stream_ms, (trace, span, sampled))| {
            let trace = TraceContext::new((trace % 4).into(), span, sampled).map(Box::new);
            Body::Comment(Comment {
                user: Arc::new(user),
                text: text.into(),
                mode,
                color,
                size,
                stream_ms,
                trace,
            })
        });
    let event = (".{0,10}", option::of(author()), ".{0,40}").prop_map(|(kind, user, data)| {
        Body::Event(Event { kind: kind.into(), user: user.map(Arc::new), data: data.into() })
    });
    prop_oneof![
        comment,
        event,
        (option::of(epoch()), vec(any::<u64>(), 0..4))
            .prop_map(|(epoch, seqs)| Body::Retract { epoch, seqs }),
        any::<(u64, u64)>().prop_map(|(of, count)| Body::Fold { of, count }),
        any::<u64>().prop_map(|of| Body::Pin { of }),
        any::<u64>().prop_map(|up_to| Body::Clear { up_to }),
        ".{0,40}".prop_map(|data| Body::State { data: data.into() }),
    ]
}

fn tier() -> impl Strategy<Value = Tier> {
    prop::sample::select(vec![Tier::Lite, Tier::Standard, Tier::Full])
}

fn entry() -> impl Strategy<Value = Arc<Entry>> {
    let visibility = prop_oneof![
        tier().prop_map(Visibility::Tier),
        "[a-z0-9]{1,20}".prop_map(|id| Visibility::Author(UserId::parse(&id).expect("within the alphabet"))),
        Just(Visibility::Staff),
    ];
    (0..1u64 << 50, any::<u64>(), visibility, body())
        .prop_map(|(seq, at_ms, visibility, body)| Arc::new(Entry { seq, at_ms, visibility, body }))
}

fn loaded() -> impl Strategy<Value = Loaded> {
    let id = (any::<u128>(), any::<u64>(), 0..1u64 << 50, any::<u64>())
        .prop_map(|(key, payload, seq, at_ms)| StoredId { key: Key::from_bits(key), payload, seq, at_ms });
    (vec((epoch(), 0..1u64 << 50), 0..3), vec(entry(), 0..5), vec(id, 0..4), settings(), stage()).prop_map(
        |(epochs, tail, ids, settings, stage)| {
            let house = House { settings, stage, ..House::default() };
            Loaded { epochs, tail, ids, house }
        },
    )
}

fn stage() -> impl Strategy<Value = Stage> {
    let live = ("[A-Za-z0-9._:-]{1,128}", any::<u64>()).prop_map(|(media, since_ms)| {
        let media = MediaId::parse(&media).expect("within the alphabet");
        Stage::Live { media, since_ms }
    });
    prop_oneof![Just(Stage::Open), live, Just(Stage::Ended), Just(Stage::Closed)]
}

fn settings() -> impl Strategy<Value = Settings> {
    let role = || {
        let roles = [Role::Viewer, Role::Vip, Role::Moderator, Role::Streamer, Role::Staff];
        option::of(prop::sample::select(roles.to_vec()))
    };
    let numbers = any::<[Option<u32>; 4]>();
    (any::<[Option<bool>; 5]>(), numbers, any::<Option<u64>>(), [role(), role(), role(), role()]).prop_map(
        |(is, n, followed_for_ms, role)| Settings {
            read_only: is[0],
            muted: is[1],
            slow_mode_ms: n[0],
            min_level: n[1],
            members_only: is[2],
            followers_only: is[3],
            followed_for_ms,
            vip_only: is[4],
            motion_role: role[0],
            color_role: role[1],
            size_role: role[2],
            text_chars_max: n[2],
            length_role: role[3],
            delay_ms: n[3],
        },
    )
}

fn counted() -> impl Strategy<Value = Counted> {
    prop_oneof![
        any::<u32>().prop_map(|bits| Counted::By(Ipv4Addr::from_bits(bits).into())),
        any::<u128>().prop_map(|bits| Counted::By(Ipv6Addr::from_bits(bits).into())),
        Just(Counted::Shared),
    ]
}

fn socket() -> TcpStream {
    let (one, _other) = UnixStream::pair().expect("a pair");
    TcpStream::from(OwnedFd::from(one))
}

fn session() -> impl Strategy<Value = Passage> {
    let encoding = prop::sample::select(vec![Encoding::Json, Encoding::Proto, Encoding::Sse]);
    let since = (epoch(), 0..1u64 << 50).prop_map(|(epoch, seq)| Position { epoch, seq });
    let moved = (any::<(u64, u16, bool)>(), vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..40));
    let first = (
        encoding,
        any::<(bool, bool, bool)>(),
        room(),
        since,
        tier(),
        option::of(author()),
        option::of(identity()),
    );
    let second = (vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..40), option::of(counted()), option::of(moved));
    (first, second).prop_map(|(first, (response, leftover, counted, moved))| {
        let (encoding, (deflate, snapshot, bridged), room, since, tier, author, identity) = first;
        let moved = moved.map(|((guest, moves, paused), incomplete, stash)| {
            let input = Carried { deflate, incomplete, stash };
            Box::new(Moved { input, guest, spent: Spent::default(), moves, paused, asked: false })
        });
        let session = Arrival {
            socket: socket(),
            tls: None,
            leftover,
            response,
            encoding,
            deflate,
            room,
            since: Some(since),
            tier,
            may_full: tier == Tier::Full,
            snapshot,
            author: author.map(Arc::new),
            identity: identity.map(Arc::new),
            address: 0,
            hold: None,
            bridged: bridged.then_some(0),
            moved,
        };
        Passage { session, counted, bridge: None }
    })
}

fn listener(kind: Kind) -> Listener {
    Listener::of(TcpListener::bind("127.0.0.1:0").expect("bound"), kind).expect("an address")
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let code = prop::sample::select(ErrorCode::ALL.to_vec());
    prop_oneof![
        (0..1u64 << 50, option::of(epoch())).prop_map(|(seq, epoch)| Outcome::Accepted { seq, epoch }),
        (code, option::of(any::<u64>())).prop_map(|(code, retry_after_ms)| Outcome::Refused(Refusal {
            code,
            rule: None,
            retry_after_ms
        })),
        (0..1u64 << 50).prop_map(|seq| Outcome::NotStored { seq }),
        Just(Outcome::Held),
        Just(Outcome::Noted),
    ]
}

fn forwarded() -> impl Strategy<Value = Forwarded> {
    let trace = prop::sample::select(vec!["", "00-00000000000000000000000000000007-0000000000000009-01"]);
    let send = (".{0,20}", ".{0,40}", mode(), any::<(u32, u8)>(), option::of(any::<u64>()), trace).prop_map(
        |(id, text, mode, (color, size), stream_ms, traceparent)| {
            OwnedSend::from(&Send { id: &id, text: &text, mode, color, size, stream_ms, traceparent })
        },
    );
    let standing = (any::<[bool; 3]>(), option::of(any::<u64>()), any::<u64>()).prop_map(
        |([guest, member, breaks_rate], followed_at_ms, address)| Standing {
            guest,
            member,
            followed_at_ms,
            breaks_rate,
            address,
        },
    );
    (any::<(u16, u64)>(), room(), author(), standing, send).prop_map(
        |((worker, call), room, user, standing, send)| Forwarded {
            worker,
            call,
            room,
            user: Arc::new(user),
            standing,
            send,
        },
    )
}

fn decision() -> impl Strategy<Value = Decision> {
    let claims = (option::of(0..10_000_u32), option::of(any::<bool>()), option::of(0..1u32 << 31)).prop_map(
        |(level, member, followed_at)| RoomClaims {
            level,
            member,
            followed_at: followed_at.map(f64::from),
            role: level.map(|_| TokenRole::Vip),
            badges: member.map(|_| vec!["fan".to_owned()]),
        },
    );
    let rooms = vec((room(), claims.clone()), 0..3);
    let change = (option::of("[a-z安]{0,20}"), claims, rooms).prop_map(|(name, everywhere, rooms)| {
        Arc::new(Change::of(name.map(Into::into), everywhere, rooms).expect("within the bounds"))
    });
    (author(), option::of(any::<u64>()), option::of((change, any::<u64>())), any::<u64>()).prop_map(
        |(Author { id, .. }, valid_after_s, change, touched_s)| Decision {
            user: id,
            valid_after_s,
            change,
            touched_s,
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        ".{0,40}".prop_map(|build| Message::Ask { build }),
        (vec(prop::sample::select(&Kind::ALL), 0..4), any::<bool>()).prop_map(|(client, admin)| {
            Message::Sockets {
                build: "danmaku 1".to_owned(),
                client: client.into_iter().map(listener).collect(),
                admin: admin.then(|| listener(Kind::Plain).socket),
            }
        }),
        ".{0,40}".prop_map(Message::CalledOff),
        Just(()).prop_map(|()| Message::Begin),
        vec((room(), loaded()), 0..3).prop_map(Message::Rooms),
        vec(session(), 0..4).prop_map(Message::Sessions),
        vec(decision(), 0..4).prop_map(Message::Decisions),
        any::<(u64, u64, [u8; 16], u64)>().prop_map(|(rooms, sessions, secret, frozen_ns)| {
            Message::All(Totals { rooms, sessions, secret, frozen_ns })
        }),
        Just(()).prop_map(|()| Message::Ready),
        Just(()).prop_map(|()| Message::Yours(socket().into())),
        Just(()).prop_map(|()| Message::Taken),
        forwarded().prop_map(Message::Forward),
        (any::<(u16, u64)>(), outcome()).prop_map(|((worker, call), outcome)| Message::Answer(Answer {
            worker,
            call,
            outcome
        })),
    ]
}

/// A message as it arrives: its kind, its bytes and its descriptors.
fn sent(message: &Message) -> (u8, Vec<u8>, Vec<OwnedFd>) {
    let (bytes, fds) = message.encode();
    let fds = fds.iter().map(|fd| fd.try_clone_to_owned().expect("another descriptor")).collect();
    (message.kind(), bytes, fds)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// `Message::decode`: what arrives is what was sent, descriptors included.
    #[test]
    fn a_message_arrives_as_it_was_sent(message in message()) {
        let (kind, bytes, fds) = sent(&message);
        let count = fds.len();
        let arrived = Message::decode(kind, &bytes, fds).expect("whole");
        prop_assert_eq!(arrived.kind(), kind);
        let (again, fds) = arrived.encode();
        prop_assert_eq!(again, bytes);
        prop_assert_eq!(fds.len(), count);
    }

    /// `Message::decode`: one that is cut short, or has more or fewer descriptors, is an error.
    #[test]
    fn a_message_that_is_cut_is_an_error(message in message(), at: prop::sample::Index) {
        let (kind, bytes, fds) = sent(&message);
        if !bytes.is_empty() {
            let count = fds.len();
            let cut = &bytes[..at.index(bytes.len())];
            prop_assert!(Message::decode(kind, cut, fds).is_err(), "{} bytes with {} descriptors", cut.len(), count);
        }
        let (_, bytes, mut fds) = sent(&message);
        if fds.pop().is_some() {
            prop_assert!(Message::decode(kind, &bytes, fds).is_err());
        }
        let (_, bytes, mut fds) = sent(&message);
        fds.push(socket().into());
        prop_assert!(Message::decode(kind, &bytes, fds).is_err());
    }

    /// `Message::decode`: a flipped bit is an error or another message, never a panic.
    #[test]
    fn a_flipped_bit_does_no_harm(message in message(), at: prop::sample::Index, bit in 0..8u8, kind: u8) {
        let (own, mut bytes, fds) = sent(&message);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let _ = Message::decode(own, &bytes, fds);
        let (_, bytes, fds) = sent(&message);
        let _ = Message::decode(kind, &bytes, fds);
    }

    /// `Message::decode`: so is anything else.
    #[test]
    fn noise_does_no_harm(kind in 0..16u8, bytes in vec(any::<u8>(), 0..200), fds in 0..3usize) {
        let _ = Message::decode(kind, &bytes, (0..fds).map(|_| socket().into()).collect());
    }
}
