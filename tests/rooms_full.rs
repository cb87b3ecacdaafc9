//! A server with as many rooms as it may have, as members, newcomers and later comers see it.

mod support;

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use support::{Server, until};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// More than the worker looks at in one turn, so that a look at all of them takes several.
const ROOMS: usize = 600;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The next message: its text, or the code of a close frame.
async fn next(socket: &mut Socket) -> Result<String, Option<u16>> {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(30), socket.next());
        match next.await.expect("within 30 s").expect("not the end yet").expect("a message") {
            Message::Text(text) => return Ok(text.to_string()),
            Message::Close(frame) => return Err(frame.map(|frame| frame.code.into())),
            _ => {}
        }
    }
}

/// Reads until a message that holds `part`.
async fn hears(socket: &mut Socket, part: &str) {
    while !next(socket).await.expect("still open").contains(part) {}
}

async fn join(server: &Server, room: &str) -> Socket {
    let url = format!("ws://{}/ws?room={room}", server.address);
    tokio_tungstenite::connect_async(url).await.expect("connected").0
}

async fn say(socket: &mut Socket, text: String) {
    socket.send(Message::text(text)).await.expect("sent");
}

/// At `server.rooms_max` whoever comes for another room is told so and closed with 1013, whoever is in a room stays
/// there, and rooms that exist take everybody. Once empty rooms are forgotten, there is place again.
#[tokio::test]
async fn a_room_too_many_is_refused_and_forgotten_rooms_make_place() {
    let (rooms, frames) = (ROOMS.to_string(), (10 * ROOMS).to_string());
    let env = [
        ("DANMAKU__SERVER__ROOMS_MAX", rooms.as_str()),
        ("DANMAKU__WEBSOCKET__FRAMES_PER_S", frames.as_str()),
        ("DANMAKU__LIMITS__JOINS_BURST", "1000"),
        ("DANMAKU__ROOM__LINGER", "1s"),
    ];
    let server = Server::start_with(&["--workers", "1"], &env);
    let mut member = join(&server, "home").await;
    hears(&mut member, "\"joined\"").await;
    let mut wanderer = join(&server, "r1").await;
    for n in 2..ROOMS {
        say(&mut wanderer, format!(r#"{{"join":{{"room":"r{n}"}}}}"#)).await;
    }
    for _ in 1..ROOMS {
        hears(&mut wanderer, "\"joined\"").await;
    }

    // The gauge is set ten times a second: it must have seen them before it can tell that they are gone.
    until("a full server", || server.metric("danmaku_rooms") == ROOMS as u64);
    say(&mut member, r#"{"join":{"room":"beyond"}}"#.to_owned()).await;
    hears(&mut member, "\"too_many_rooms\"").await;
    say(&mut member, r#"{"send":{"id":"1","text":"still here"}}"#.to_owned()).await;
    hears(&mut member, "still here").await;
    let mut newcomer = join(&server, "beyond").await;
    hears(&mut newcomer, "\"too_many_rooms\"").await;
    assert_eq!(next(&mut newcomer).await, Err(Some(1013)));
    assert_eq!(server.metric("danmaku_closed_total{code=\"1013\"}"), 1);
    hears(&mut join(&server, "home").await, "\"joined\"").await;

    until("forgotten rooms", || server.metric("danmaku_rooms") <= 2);
    let mut late = join(&server, "beyond").await;
    hears(&mut late, "\"joined\"").await;
    say(&mut member, r#"{"send":{"id":"2","text":"to the end"}}"#.to_owned()).await;
    hears(&mut member, "to the end").await;
}
