//! A worker that begins to follow a room while comments of it are not sealed yet: nobody waits for the next comment.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

mod support;
use support::Server;

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn join(server: &Server, room: &str) -> Socket {
    let url = format!("ws://{}/ws?room={room}&snapshot=none", server.address);
    let mut socket = tokio_tungstenite::connect_async(url).await.expect("connected").0;
    until(&mut socket, "joined").await;
    socket
}

async fn until(socket: &mut Socket, kind: &str) -> Value {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(30), socket.next()).await;
        let message =
            next.unwrap_or_else(|_| panic!("no {kind} within 30 s")).expect("open").expect("a message");
        let Message::Text(text) = message else { continue };
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        if let Some(body) = value.get_mut(kind) {
            return body.take();
        }
    }
}

/// What is sealed for the newcomer is told to those who were there.
#[tokio::test]
async fn a_new_follower_keeps_nothing_from_the_others() {
    let server = Server::start_with(
        &["--workers", "3"],
        &[
            ("DANMAKU__ROOM__SPREAD_MEMBERS", "0"),
            ("DANMAKU__FLUSH__SEAL_INTERVAL", "\"1s\""),
            ("DANMAKU__FLUSH__SEAL_BYTES", "\"1MiB\""),
            ("DANMAKU__LIMITS__USER_MODE", "\"off\""),
        ],
    );
    // Which workers they come to is chance: among so many rooms are some with nobody on the owner's.
    for n in 0..24 {
        let room = format!("room-{n}");
        let mut speaker = join(&server, &room).await;
        let mut there = join(&server, &room).await;
        // The second one waits for the interval that the first begins.
        for id in ["first", "second"] {
            let send = json!({"send": {"id": id, "text": id}});
            speaker.send(Message::text(send.to_string())).await.expect("sent");
            until(&mut speaker, "ack").await;
        }
        let _newcomer = join(&server, &room).await;
        let mut missing = 2;
        while missing > 0 {
            let batch = until(&mut there, "batch").await;
            missing -= batch["items"].as_array().map_or(0, Vec::len);
        }
    }
}
