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
    assert_eq!(server.met("errors_per_s"), numbers);
}

/// A connection that sends more frames or bytes in a second than it may is closed with 1008, and its neighbours
/// notice nothing.
#[tokio::test]
async fn a_flooding_connection_is_closed_for_breaking_the_rules() {
    let env = [("DANMAKU__WEBSOCKET__FRAMES_PER_S", "100"), ("DANMAKU__WEBSOCKET__BYTES_PER_S", "64KiB")];
    let server = Server::start_with(&["--workers", "1"], &env);
    let url = format!("ws://{}/ws?room=r1", server.address);
    let (mut neighbour, _) = tokio_tungstenite::connect_async(&url).await.expect("connected");
    let floods = [
        (Message::text(r#"{"ping":{"t":1}}"#), 400),
        (Message::Ping(Vec::new().into()), 400),
        (Message::text(format!("{{\"dance\":\"{}\"}}", "x".repeat(60_000))), 4),
    ];
    for (number, (message, count)) in (1..).zip(floods) {
        let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.expect("connected");
        for _ in 0..count {
            // The server may be done with us before we are with it.
            if socket.send(message.clone()).await.is_err() {
                break;
            }
        }
        let code = loop {
            let next = tokio::time::timeout(Duration::from_secs(30), socket.next());
            match next.await.expect("within 30 s") {
                Some(Ok(Message::Close(frame))) => break frame.map(|frame| u16::from(frame.code)),
                Some(Ok(_)) => continue,
                // Closed with bytes of ours unread: the reset may overtake the code.
                Some(Err(_)) | None => break None,
            }
        };
        assert!(code.is_none_or(|code| code == 1008), "{code:?}");
        assert_eq!(server.metric("danmaku_floods_total"), number);
        assert_eq!(server.metric("danmaku_closed_total{code=\"1008\"}"), number);
    }
    neighbour.send(Message::text(r#"{"ping":{"t":7}}"#)).await.expect("sent");
    loop {
        let next = tokio::time::timeout(Duration::from_secs(30), neighbour.next());
        let message = next.await.expect("within 30 s").expect("open").expect("a message");
        if message.to_text().is_ok_and(|text| text.contains("\"pong\"")) {
            break;
        }
    }
}
