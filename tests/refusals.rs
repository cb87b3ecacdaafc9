//! Refused commands, as a client sees them.

mod support;

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use support::Server;
use tokio_tungstenite::tungstenite::Message;

/// A flood of bad commands is not answered by a flood: a few errors a second, then one number. Nothing is lost of
/// the sum.
#[tokio::test]
async fn errors_beyond_five_a_second_come_as_one_number() {
    const SENT: u64 = 40;
    let server = Server::start(&["--workers", "1"]);
    let url = format!("ws://{}/ws?room=r1", server.address);
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.expect("connected");
    for _ in 0..SENT {
        socket.feed(Message::text(r#"{"dance":{}}"#)).await.expect("fed");
    }
    socket.flush().await.expect("sent");
    let (mut single, mut held, mut numbers) = (0, 0, 0);
    while single + held < SENT {
        let next = tokio::time::timeout(Duration::from_secs(30), socket.next());
        let message = next.await.expect("within 30 s").expect("open").expect("a message");
        let Message::Text(text) = message else { continue };
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        match value["error"]["code"].as_str() {
            Some("unknown_command") => single += 1,
            Some("too_many_errors") => {
                held += value["error"]["count"].as_u64().expect("a count");
                numbers += 1;
            }
            _ => {}
        }
    }
    assert_eq!(single + held, SENT);
    // The clock's second may turn while they arrive.
    assert!((5..=10).contains(&single) && (1..=2).contains(&numbers), "{single} single, {numbers} numbers");
    assert_eq!(server.metric("danmaku_refused_total{reason=\"unknown_command\"}"), SENT);
}
