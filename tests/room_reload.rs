//! A room whose owner fails starts anew in a new epoch, and the rest of the server does not notice.

use std::sync::Arc;
use std::time::Duration;

use danmaku::config::{Config, Flags};
use danmaku::serve::Server;
use danmaku::store::memory::{Bounds, MemoryStore};
use danmaku_room::store::{Append, Durability, Loaded, Progress, Promise, Store};
use danmaku_wire::entry::Body;
use danmaku_wire::id::RoomId;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// A store that does what a comment's text says.
struct Scripted(MemoryStore);

impl Scripted {
    fn new() -> Arc<Self> {
        let bounds =
            Bounds { rooms_max: 100, entries_max: 100, ids_max: 100, ids_ms: 60_000, epochs_max: 16 };
        Arc::new(Self(MemoryStore::new(bounds)))
    }
}

impl Store for Scripted {
    fn load(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        self.0.load(room, durability, answer);
    }

    fn look(&self, room: &RoomId, durability: Durability, answer: Arc<Promise<Loaded>>) {
        self.0.look(room, durability, answer);
    }

    fn append(&self, append: Append, progress: &Arc<Progress>) {
        let says = |word: &str| {
            append.entries.iter().any(|e| matches!(&e.body, Body::Comment(c) if &*c.text == word))
        };
        if says("panic") {
            panic!("the test asked for it");
        }
        if says("fail") {
            return progress.fail_to(append.entries.last().map_or(0, |e| e.seq));
        }
        self.0.append(append, progress);
    }
}

struct Client {
    socket: tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>,
    /// What it was sent, for whoever asks why something did not come.
    heard: Vec<String>,
}

impl Client {
    async fn join(server: &Server, room: &str) -> Self {
        let url = format!("ws://{}/ws?room={room}&snapshot=none", server.listen);
        let (socket, _) = tokio_tungstenite::connect_async(url).await.expect("connected");
        let mut client = Self { socket, heard: Vec::new() };
        client.until("joined").await;
        client
    }

    async fn say(&mut self, id: &str, text: &str) {
        let command = json!({"send": {"id": id, "text": text}}).to_string();
        self.socket.send(Message::text(command)).await.expect("sent");
    }

    /// The next message of a kind; others are passed over.
    async fn until(&mut self, kind: &str) -> Value {
        let [found] = self.until_all([kind]).await;
        found
    }

    /// The next message of each kind, in whatever order they come.
    async fn until_all<const N: usize>(&mut self, kinds: [&str; N]) -> [Value; N] {
        let mut found = [const { Value::Null }; N];
        while found.iter().any(Value::is_null) {
            let next = tokio::time::timeout(Duration::from_secs(30), self.socket.next()).await;
            let Ok(next) = next else { panic!("no {kinds:?} within 30 s, only {:#?}", self.heard) };
            let Message::Text(text) = next.expect("open").expect("a message") else { continue };
            let mut value: Value = serde_json::from_str(&text).expect("JSON");
            self.heard.push(text.to_string());
            for (kind, found) in kinds.iter().zip(&mut found).filter(|(_, found)| found.is_null()) {
                if let Some(body) = value.get_mut(kind) {
                    *found = body.take();
                }
            }
        }
        found
    }
}

fn start(workers: u16) -> Server {
    let any = Some("127.0.0.1:0".parse().expect("an address"));
    let flags = Flags { listen: any, admin_listen: any, workers: Some(workers), data_dir: None };
    let config = Config::load(Some("tests/support/spread.toml".as_ref()), [], &flags).expect("a good file");
    Server::start_with(config, Scripted::new()).expect("started")
}

/// Both ways to fail, with the room's members on one worker and on several.
#[tokio::test]
async fn a_failed_owner_costs_its_room_an_epoch_and_nobody_else_anything() {
    for workers in [1, 3] {
        let server = start(workers);
        let mut other = Client::join(&server, "other").await;
        let mut members = Vec::new();
        for _ in 0..6 {
            members.push(Client::join(&server, "room").await);
        }
        let mut speaker = members.pop().expect("six members");

        speaker.say("a", "one").await;
        assert_eq!(speaker.until("ack").await["seq"], 1);

        speaker.say("b", "panic").await;
        // The fate comes from the old owner and the epoch from the new one: neither waits for the other.
        let [refusal, epoch] = speaker.until_all(["error", "epoch"]).await;
        assert_eq!((&refusal["id"], &refusal["code"]), (&json!("b"), &json!("unavailable")));
        assert_eq!(epoch["prev"]["seq"], 1, "what was stored stays");
        let base = epoch["seq"].as_u64().expect("a number");
        assert!(base > 4_096, "numbers never collide between epochs");

        speaker.say("c", "two").await;
        assert_eq!(speaker.until("ack").await["seq"], base + 1);

        speaker.say("d", "fail").await;
        let [lost, epoch] = speaker.until_all(["error", "epoch"]).await;
        assert_eq!(
            (&lost["code"], &lost["seq"], &lost["shown"]),
            (&json!("not_stored"), &json!(base + 2), &json!(true))
        );
        assert_eq!(epoch["prev"]["seq"], base + 1, "what was shown and lost is to be removed");

        for member in &mut members {
            for text in ["one", "two"] {
                let batch = member.until("batch").await;
                assert_eq!(batch["items"][0]["text"], text);
            }
            let end = member.until("epoch").await;
            assert_eq!(end["prev"]["seq"], base + 1);
        }
        other.say("e", "still here").await;
        assert_eq!(other.until("ack").await["seq"], 1, "another room keeps its epoch");
        server.stop();
        server.join();
    }
}
