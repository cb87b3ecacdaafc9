//! Rust WebSocket clients that nobody here wrote, against the real binary: every entry once, in order,
//! byte for byte, in text and binary, with and without compression, alone and in a crowd.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use danmaku_wire::native::proto;
use futures_util::{SinkExt, StreamExt};
use prost::Message as _;
use serde_json::{Value, json};
use support::Server;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const TEXTS: [&str; 6] = [
    "前方高能预警",
    "quote \" backslash \\ slash /",
    "👩‍👩‍👧‍👦 zwj",
    "مرحبا بالعالم",
    "tab? no: <b>&amp;</b>",
    "e\u{301} combining",
];
const PUBLISHERS: usize = 4;
const EACH: usize = 25;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Yawc { deflate: bool },
    Tungstenite,
}

enum Client {
    Yawc(Box<yawc::TcpWebSocket>),
    Tungstenite(
        Box<tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>>,
    ),
}

/// A session: a client and which encoding it speaks.
struct Session {
    client: Client,
    binary: bool,
}

/// An item as both encodings tell it.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    seq: u64,
    user: String,
    text: String,
}

/// What a session is told, as far as these tests look.
#[derive(Debug)]
enum Told {
    Joined { seq: u64 },
    Batch { from: u64, to: u64, items: Vec<Item> },
    Ack { id: String, seq: u64 },
    Error(String),
    Other,
}

impl Session {
    async fn open(server: &Server, kind: Kind, binary: bool, room: &str) -> Self {
        let url = format!("ws://{}/ws?room={room}&tier=full", server.address);
        let subprotocol = if binary { "danmaku.v1.proto" } else { "danmaku.v1.json" };
        let client = match kind {
            Kind::Yawc { deflate } => {
                let options = yawc::Options::default();
                let options = if deflate {
                    options.with_low_latency_compression()
                } else {
                    options.without_compression()
                };
                let request = yawc::HttpRequestBuilder::new().header("Sec-WebSocket-Protocol", subprotocol);
                let socket = yawc::WebSocket::connect(url.parse().expect("a URL"))
                    .with_options(options)
                    .with_request(request)
                    .await
                    .expect("yawc connects");
                Client::Yawc(Box::new(socket))
            }
            Kind::Tungstenite => {
                let mut request = url.into_client_request().expect("a request");
                let value = subprotocol.parse().expect("a header value");
                request.headers_mut().insert("Sec-WebSocket-Protocol", value);
                let (socket, response) =
                    tokio_tungstenite::connect_async(request).await.expect("tungstenite connects");
                assert_eq!(response.headers()["Sec-WebSocket-Protocol"], subprotocol);
                Client::Tungstenite(Box::new(socket))
            }
        };
        Self { client, binary }
    }

    async fn send(&mut self, id: &str, text: &str) {
        let payload = if self.binary {
            let send = proto::Send { id: id.into(), text: text.into(), ..Default::default() };
            proto::ClientMessage { command: Some(proto::client_message::Command::Send(send)) }.encode_to_vec()
        } else {
            json!({"send": {"id": id, "text": text}}).to_string().into_bytes()
        };
        match &mut self.client {
            Client::Yawc(socket) => {
                let frame =
                    if self.binary { yawc::Frame::binary(payload) } else { yawc::Frame::text(payload) };
                socket.send(frame).await.expect("sent");
            }
            Client::Tungstenite(socket) => {
                let message = if self.binary {
                    tungstenite::Message::binary(payload)
                } else {
                    tungstenite::Message::text(String::from_utf8(payload).expect("JSON is text"))
                };
                socket.send(message).await.expect("sent");
            }
        }
    }

    async fn told(&mut self) -> Told {
        let wait = Duration::from_secs(30);
        let payload = tokio::time::timeout(wait, self.payload()).await.expect("a message within 30 s");
        if self.binary { told_proto(&payload) } else { told_json(&payload) }
    }

    async fn payload(&mut self) -> Vec<u8> {
        loop {
            match &mut self.client {
                Client::Yawc(socket) => {
                    let frame = socket.next().await.expect("the connection stays");
                    match frame.opcode() {
                        yawc::OpCode::Text => assert!(!self.binary, "text where binary was agreed"),
                        yawc::OpCode::Binary => assert!(self.binary, "binary where text was agreed"),
                        _ => continue,
                    }
                    return frame.payload().to_vec();
                }
                Client::Tungstenite(socket) => {
                    match socket.next().await.expect("the connection stays").expect("a message") {
                        tungstenite::Message::Text(text) => {
                            assert!(!self.binary, "text where binary was agreed");
                            return text.as_bytes().to_vec();
                        }
                        tungstenite::Message::Binary(bytes) => {
                            assert!(self.binary, "binary where text was agreed");
                            return bytes.to_vec();
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Waits for the answer to the join.
    async fn joined(&mut self) -> u64 {
        loop {
            if let Told::Joined { seq } = self.told().await {
                return seq;
            }
        }
    }

    /// Collects entries up to `last`; ranges must follow each other without hole or overlap.
    async fn entries(&mut self, mut at: u64, last: u64) -> Vec<Item> {
        let mut all = Vec::new();
        while at < last {
            match self.told().await {
                Told::Batch { from, to, items } => {
                    assert_eq!(from, at + 1, "ranges follow each other");
                    all.extend(items);
                    at = to;
                }
                Told::Error(code) => panic!("refused: {code}"),
                _ => {}
            }
        }
        all
    }
}

fn told_json(payload: &[u8]) -> Told {
    let value: Value = serde_json::from_slice(payload).expect("a text message is JSON");
    let (key, body) = value.as_object().and_then(|o| o.iter().next()).expect("one key");
    let number = |name: &str| body[name].as_u64().unwrap_or(0);
    let string = |value: &Value| value.as_str().unwrap_or("").to_owned();
    match key.as_str() {
        "joined" => Told::Joined { seq: number("seq") },
        "batch" => {
            let item = |item: &Value| Item {
                seq: item["seq"].as_u64().expect("every item has a number"),
                user: string(&item["user"]["id"]),
                text: string(&item["text"]),
            };
            let items = body["items"].as_array().map_or(&[][..], Vec::as_slice).iter().map(item).collect();
            Told::Batch { from: number("from"), to: number("to"), items }
        }
        "ack" => Told::Ack { id: string(&body["id"]), seq: number("seq") },
        "error" => Told::Error(string(&body["code"])),
        _ => Told::Other,
    }
}

fn told_proto(payload: &[u8]) -> Told {
    use proto::server_message::Message;
    let message = proto::ServerMessage::decode(payload).expect("a binary message is the schema's");
    match message.message.expect("one message") {
        Message::Joined(joined) => Told::Joined { seq: joined.seq },
        Message::Batch(batch) => {
            let items = batch.items.into_iter().map(|item| Item {
                seq: item.seq,
                user: item.user.map(|u| u.id).unwrap_or_default(),
                text: item.text,
            });
            Told::Batch { from: batch.from, to: batch.to, items: items.collect() }
        }
        Message::Ack(ack) => Told::Ack { id: ack.id, seq: ack.seq },
        Message::Error(error) => Told::Error(error.code),
        _ => Told::Other,
    }
}

/// One session says everything and hears it all: acks and echo agree.
async fn alone(server: &Server, kind: Kind, binary: bool) {
    let mut session = Session::open(server, kind, binary, &format!("alone-{binary}")).await;
    let start = session.joined().await;
    let mut at = start;
    for (i, text) in TEXTS.iter().enumerate() {
        session.send(&format!("k-{i}"), text).await;
        let (mut ack, mut echo) = (None, None);
        while ack.is_none() || echo.is_none() {
            match session.told().await {
                Told::Ack { id, seq } => {
                    assert_eq!(id, format!("k-{i}"));
                    ack = Some(seq);
                }
                Told::Batch { from, to, items } => {
                    assert_eq!((from, to, items.len()), (at + 1, at + 1, 1));
                    assert_eq!(items[0].text, *text);
                    at = to;
                    echo = Some(items[0].seq);
                }
                Told::Error(code) => panic!("refused: {code}"),
                _ => {}
            }
        }
        assert_eq!(ack, echo);
    }
}

/// Publishers talk at once while subscribers of every kind listen.
async fn crowd(server: &Server) {
    let room = "crowd";
    let kinds = [Kind::Yawc { deflate: true }, Kind::Yawc { deflate: false }, Kind::Tungstenite];
    let mut subscribers = Vec::new();
    for n in 0..48 {
        let mut session = Session::open(server, kinds[n % 3], n % 2 == 0, room).await;
        let start = session.joined().await;
        assert_eq!(start, 0, "nobody has spoken yet");
        subscribers.push(session);
    }
    let last = (PUBLISHERS * EACH) as u64;
    let readers: Vec<_> = subscribers
        .into_iter()
        .map(|mut session| tokio::spawn(async move { session.entries(0, last).await }))
        .collect();
    let mut talkers = Vec::new();
    for p in 0..PUBLISHERS {
        let mut session = Session::open(server, kinds[p % 3], p % 2 == 1, room).await;
        session.joined().await;
        talkers.push(tokio::spawn(async move {
            let mut acks = BTreeMap::new();
            for k in 0..EACH {
                session.send(&format!("{p}-{k}"), &format!("{p}/{k} {}", TEXTS[k % TEXTS.len()])).await;
            }
            while acks.len() < EACH {
                match session.told().await {
                    Told::Ack { id, seq } => {
                        assert!(acks.insert(seq, id).is_none(), "one number, one comment")
                    }
                    Told::Error(code) => panic!("refused: {code}"),
                    _ => {}
                }
            }
            acks
        }));
    }
    let mut acked = BTreeMap::new();
    for talker in talkers {
        acked.extend(talker.await.expect("a publisher finishes"));
    }
    assert_eq!(acked.keys().copied().collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
    let mut first: Option<Vec<Item>> = None;
    for reader in readers {
        let items = reader.await.expect("a subscriber finishes");
        assert_eq!(items.iter().map(|i| i.seq).collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
        for item in &items {
            let (p, k) = acked[&item.seq].split_once('-').expect("the ids of this test");
            let k: usize = k.parse().expect("a number");
            assert_eq!(item.text, format!("{p}/{k} {}", TEXTS[k % TEXTS.len()]));
        }
        match &first {
            Some(first) => assert_eq!(*first, items, "everyone hears the same"),
            None => first = Some(items),
        }
    }
    // 48 subscribers and the publishers themselves; the last passes may still be on their way to the latter.
    assert_eq!(server.metric("danmaku_published_total"), last);
    assert!(server.metric("danmaku_delivered_total") >= 48 * last);
    assert_eq!(server.metric("danmaku_gaps_total"), 0);
}

/// yawc and tokio-tungstenite, each alone, in each encoding, with and without compression.
#[tokio::test]
async fn foreign_rust_clients_hear_what_they_said() {
    let server = Server::start(&["--workers", "2", "--config", "benches/bench.toml"]);
    for kind in [Kind::Yawc { deflate: true }, Kind::Yawc { deflate: false }, Kind::Tungstenite] {
        for binary in [false, true] {
            alone(&server, kind, binary).await;
        }
    }
}

/// The same clients in a crowd, with every subscriber hearing every entry once and in order.
#[tokio::test]
async fn a_crowd_of_foreign_rust_clients_hears_everything_once_and_in_order() {
    for workers in ["1", "2"] {
        let server = Server::start(&["--workers", workers, "--config", "benches/bench.toml"]);
        crowd(&server).await;
    }
}

/// A room beyond `rooms.spread_members` is followed by both workers, and nothing changes for anyone.
#[tokio::test]
async fn a_room_spread_over_workers_is_one_room() {
    let server = Server::start(&["--workers", "3", "--config", "tests/support/spread.toml"]);
    crowd(&server).await;
}

/// `join` across workers: a session takes along what it sent behind the command, and hears of the fate of
/// all that it sent before, whether or not it waits for the answers.
#[tokio::test]
async fn a_session_that_moves_loses_neither_commands_nor_answers() {
    let server = Server::start(&["--workers", "4", "--config", "benches/bench.toml"]);
    for (waits, rooms) in [(true, 0..32), (false, 32..64)] {
        let mut session = Session::open(&server, Kind::Tungstenite, false, "start").await;
        session.joined().await;
        let (mut joins, mut acks) = (0, Vec::new());
        for n in rooms.clone() {
            let join = json!({"join": {"room": format!("room-{n}")}}).to_string();
            let send = json!({"send": {"id": format!("id-{n}"), "text": format!("text {n}")}}).to_string();
            let Client::Tungstenite(socket) = &mut session.client else { unreachable!("it was opened so") };
            socket.feed(tungstenite::Message::text(join)).await.expect("written");
            socket.feed(tungstenite::Message::text(send)).await.expect("written");
            let last = n + 1 == rooms.end;
            if waits || last {
                socket.flush().await.expect("sent");
                let due = if waits { n - rooms.start + 1 } else { rooms.len() };
                while acks.len() < due || joins < due {
                    match session.told().await {
                        Told::Joined { .. } => joins += 1,
                        Told::Ack { id, seq } => acks.push((id, seq)),
                        Told::Error(code) => panic!("refused: {code}"),
                        _ => {}
                    }
                }
            }
        }
        acks.sort();
        let mut want: Vec<_> = rooms.map(|n| (format!("id-{n}"), 1)).collect();
        want.sort();
        assert_eq!((joins, acks), (want.len(), want));
    }
}
