//! The client on real sockets, against a server that follows a script.

#![allow(clippy::result_large_err, reason = "the type of the handshake's callback is not ours")]

use std::collections::HashMap;

use danmaku_client::{Client, Content, Event, EventStream, Options, SendOptions, State};
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};

/// The server's side of the next connection, and the query of its address.
async fn accept(listener: &TcpListener) -> (WebSocketStream<TcpStream>, HashMap<String, String>) {
    let (socket, _) = listener.accept().await.expect("a connection");
    let mut query = HashMap::new();
    let handshake = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        query.extend(pairs.into_owned());
        let chosen = HeaderValue::from_static("danmaku.v1.json");
        response.headers_mut().insert("sec-websocket-protocol", chosen);
        Ok(response)
    };
    let stream = tokio_tungstenite::accept_hdr_async(socket, handshake).await.expect("a handshake");
    (stream, query)
}

async fn say(server: &mut WebSocketStream<TcpStream>, text: &str) {
    server.send(Message::text(text)).await.expect("sent");
}

/// The id of the next comment, and the comment.
async fn comment(server: &mut WebSocketStream<TcpStream>) -> (String, String) {
    let text = server.next().await.expect("a message").expect("good").into_text().expect("text");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    (value["send"]["id"].as_str().expect("an id").to_owned(), text.to_string())
}

async fn until_item(events: &mut EventStream) -> (u64, String) {
    loop {
        if let Event::Item { item, .. } = events.next().await.expect("more events")
            && let Content::Comment(comment) = item.content
        {
            return (item.seq, comment.text);
        }
    }
}

/// Options with waiting times that no test waits for, and the listener they lead to.
async fn listen() -> (TcpListener, Options) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut options = Options::new(format!("ws://{address}/ws"), "r1");
    options.backoff_base = std::time::Duration::from_millis(1);
    options.backoff_cap = std::time::Duration::from_millis(5);
    (listener, options)
}

/// A cut connection: nothing is shown twice, nothing is missing, and the comment in flight is taken once.
#[tokio::test]
async fn a_cut_connection_is_not_seen_by_the_application() {
    let (listener, options) = listen().await;
    let (room, mut events) = Client::connect(options).expect("good options");
    let (mut server, query) = accept(&listener).await;
    assert_eq!(query.get("since"), None);
    say(&mut server, r#"{"joined":{"room":"r1","epoch":"7-k2","seq":1}}"#).await;
    say(&mut server, r#"{"snapshot":{"epoch":"7-k2","seq":1,"items":[{"seq":1,"text":"a"}]}}"#).await;
    say(&mut server, r#"{"batch":{"from":2,"to":2,"items":[{"seq":2,"text":"b"}]}}"#).await;
    assert_eq!(until_item(&mut events).await, (1, "a".to_owned()));
    assert_eq!(until_item(&mut events).await, (2, "b".to_owned()));
    let speaker = room.clone();
    let sending = tokio::spawn(async move { speaker.send("hello", SendOptions::default()).await });
    let (id, first) = comment(&mut server).await;
    // No close frame: the connection just ends.
    drop(server);
    let (mut server, query) = accept(&listener).await;
    assert_eq!(query.get("since").map(String::as_str), Some("7-k2:2"));
    say(&mut server, r#"{"joined":{"room":"r1","epoch":"7-k2","seq":3,"recovered":true}}"#).await;
    let (_, again) = comment(&mut server).await;
    assert_eq!(again, first);
    say(&mut server, r#"{"batch":{"from":3,"to":3,"items":[{"seq":3,"text":"hello"}]}}"#).await;
    say(&mut server, &format!(r#"{{"ack":{{"id":"{id}","seq":3}}}}"#)).await;
    assert_eq!(until_item(&mut events).await, (3, "hello".to_owned()));
    assert_eq!(sending.await.expect("no panic").expect("taken").seq, Some(3));
    assert_eq!(room.position().map(|at| at.to_string()).as_deref(), Some("7-k2:3"));
}

/// An application that does not take its events holds up the socket, and misses nothing.
#[tokio::test]
async fn an_application_that_is_behind_gets_everything_in_the_end() {
    let (listener, mut options) = listen().await;
    options.events_max = 1;
    let (room, mut events) = Client::connect(options).expect("good options");
    let (mut server, _) = accept(&listener).await;
    say(&mut server, r#"{"joined":{"room":"r1","epoch":"7-k2","seq":0}}"#).await;
    say(&mut server, r#"{"snapshot":{"epoch":"7-k2","seq":0,"items":[]}}"#).await;
    for seq in 1..=100 {
        say(&mut server, &format!(r#"{{"batch":{{"from":{seq},"to":{seq},"items":[{{"seq":{seq}}}]}}}}"#))
            .await;
    }
    for seq in 1..=100 {
        assert_eq!(until_item(&mut events).await.0, seq);
    }
    room.close().await;
    while let Some(event) = events.next().await {
        assert!(matches!(event, Event::State(State::Closed { .. })), "{event:?}");
    }
    let late = room.send("late", SendOptions::default()).await;
    assert_eq!(late, Err(danmaku_client::PublishError::Closed));
}

/// The status of a refused handshake decides whether there is a use in coming back.
#[tokio::test]
async fn a_refused_handshake_ends_the_session_where_another_would_be_refused_too() {
    let (listener, options) = listen().await;
    let (_room, mut events) = Client::connect(options).expect("good options");
    for status in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::FORBIDDEN] {
        let (socket, _) = listener.accept().await.expect("a connection");
        let refuse = |_: &Request, _: Response| -> Result<Response, ErrorResponse> {
            Err(Response::builder().status(status).body(None).expect("an answer"))
        };
        assert!(tokio_tungstenite::accept_hdr_async(socket, refuse).await.is_err());
    }
    let mut states = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::State(State::Waiting { .. } | State::Closed { .. }) = event {
            states.push(event);
        }
    }
    assert!(
        matches!(&states[..], [Event::State(State::Waiting { .. }), Event::State(State::Closed { .. })]),
        "{states:?}"
    );
}

/// Dropping both sides ends the session; the server hears of it.
#[tokio::test]
async fn a_session_that_nobody_holds_ends() {
    let (listener, options) = listen().await;
    let (room, mut events) = Client::connect(options).expect("good options");
    let (mut server, _) = accept(&listener).await;
    say(&mut server, r#"{"joined":{"room":"r1","epoch":"7-k2","seq":0}}"#).await;
    while !matches!(events.next().await.expect("more events"), Event::Joined(_)) {}
    drop(room);
    drop(events);
    let Some(Ok(Message::Close(Some(frame)))) = server.next().await else { panic!("no close") };
    assert_eq!(u16::from(frame.code), 1000);
}

/// An encrypted address begins with a TLS handshake.
#[cfg(feature = "tls")]
#[tokio::test]
async fn an_encrypted_address_is_spoken_to_in_tls() {
    use tokio::io::AsyncReadExt;
    /// The type of a handshake's record (RFC 8446, section 5.1).
    const HANDSHAKE: u8 = 22;
    let (listener, mut options) = listen().await;
    options.url = options.url.replace("ws://127.0.0.1", "wss://localhost");
    let (_room, _events) = Client::connect(options).expect("good options");
    let (mut socket, _) = listener.accept().await.expect("a connection");
    assert_eq!(socket.read_u8().await.expect("a byte"), HANDSHAKE);
}

/// Without the feature an encrypted address is refused at once, and says what is missing.
#[cfg(not(feature = "tls"))]
#[test]
fn an_encrypted_address_needs_the_feature() {
    let refused = Client::connect(Options::new("wss://live.example/ws", "r1")).expect_err("no TLS");
    assert!(refused.to_string().contains("`tls`"), "{refused}");
}

/// Options that cannot be used are named with what would be right.
#[test]
fn bad_options_are_named() {
    for (url, room, words) in [
        ("http://a/ws", "r1", ["http://a/ws", "ws://"]),
        ("ws://", "r1", ["ws://", "address"]),
        ("ws://a/ws", "no room", ["no room", "1 to 64"]),
    ] {
        let refused = Client::connect(Options::new(url, room)).expect_err("bad options").to_string();
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    }
}
