//! `danmaku serve` as an operator sees it: bad settings, health, and the end.

mod support;

use std::process::Command;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use support::{Scratch, Server, until};
use tokio_tungstenite::tungstenite::Message;

/// What `serve` says about a configuration it cannot use, and the exit code.
fn refused(toml: &str, env: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    let output = Command::new(env!("CARGO_BIN_EXE_danmaku"))
        .args(["serve", "--admin-listen", "127.0.0.1:0", "--config"])
        .arg(scratch.file("live.toml", toml))
        .arg("--data-dir")
        .arg(scratch.0.join("data"))
        .args(args)
        .envs(env.iter().copied())
        .output()
        .expect("the binary runs");
    assert!(
        !scratch.0.join("data").exists(),
        "nothing is made before the configuration is known to be right"
    );
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A setting that cannot be used is told in one line with its place, its value and what would be right, before a
/// port is bound.
#[test]
fn a_bad_setting_is_named_with_what_would_be_right() {
    let keys = "[[auth.keys]]\nid = \"k\"\nsecret = \"0123456789abcdef0123456789abcdef\"\n";
    for (toml, env, args, words) in [
        ("[server]\nlisten_on = 1\n", &[][..], &[][..], &["live.toml:2", "server.listen_on", "listen"][..]),
        ("[server\n", &[], &[], &["live.toml:1", "not TOML"]),
        ("[flush]\nmax_tick = \"5\"\n", &[], &[], &["live.toml:2", "\"5\"", "250ms"]),
        (
            "[flush]\nmax_tick = \"1ms\"\n",
            &[],
            &[],
            &["live.toml:2", "flush.max_tick = \"1ms\"", "\"100ms\" to \"5s\""],
        ),
        ("[limits]\nuser_per_s = 0.0\n", &[], &[], &["limits.user_per_s = 0.0", "0.001"]),
        ("[websocket]\ndeflate_level = 12\n", &[], &[], &["websocket.deflate_level = 12", "1 to 9"]),
        (
            "[[rooms]]\nmatch = \"a\"\nuser_burst = 0\n",
            &[],
            &[],
            &["live.toml:3", "rooms.user_burst = 0", "1 to"],
        ),
        ("", &[], &["--listen", "0.0.0.0:0"], &["--listen", "auth.keys", "auth.anonymous = true"]),
        ("[server]\nlisten = \"[::]:0\"\n", &[], &[], &["live.toml:2", "[::]:0", "auth.anonymous = true"]),
        ("[auth]\nanonymous = false\n", &[], &[], &["live.toml:2", "auth.anonymous", "auth.keys"]),
        ("[[auth.keys]]\nid = \"k\"\nsecret = \"short\"\n", &[], &[], &["auth.keys", "5 bytes", "32"]),
        (&format!("{keys}{keys}"), &[], &[], &["auth.keys.id", "two keys have this id"]),
        (
            "[tls]\nlisten = \"127.0.0.1:0\"\n",
            &[],
            &[],
            &["live.toml:2", "tls.listen", "tls.cert", "tls.key"],
        ),
        (
            "[tls]\nlisten = \"127.0.0.1:0\"\ncert = \"/no/cert.pem\"\nkey = \"/no/key.pem\"\n",
            &[],
            &[],
            &["tls.cert", "/no/cert.pem"],
        ),
        ("[tls]\nciphers = [\"RC4\"]\n", &[], &[], &["live.toml:2", "RC4", "TLS_AES_128_GCM_SHA256"]),
        (
            "[tls]\nmin_version = \"1.3\"\nciphers = [\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"]\n",
            &[],
            &[],
            &["live.toml:3", "tls.ciphers", "tls.min_version"],
        ),
        ("[tls]\nmin_version = \"1.1\"\n", &[], &[], &["live.toml:2", "1.1", "1.2"]),
        ("", &[("DANMAKU__TLS__MIN_VERSION", "1.1")], &[], &["DANMAKU__TLS__MIN_VERSION", "1.1", "1.2"]),
        (
            "[tls]\nlisten = \"0.0.0.0:0\"\ncert = \"c\"\nkey = \"k\"\n",
            &[],
            &[],
            &["tls.listen", "auth.keys"],
        ),
        ("", &[("DANMAKU__ROOM__LINGER", "soon")], &[], &["DANMAKU__ROOM__LINGER", "soon", "10s"]),
        ("", &[("DANMAKU__ROOM__LINGR", "1s")], &[], &["DANMAKU__ROOM__LINGR", "did you mean `linger`"]),
    ] {
        let (code, said) = refused(toml, env, args);
        assert_eq!(code, Some(78), "{toml:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{toml:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// What `serve` says about an address that it cannot have.
fn taken_address(address: &str) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    let output = Command::new(env!("CARGO_BIN_EXE_danmaku"))
        .args(["serve", "--admin-listen", "127.0.0.1:0", "--listen", address, "--data-dir"])
        .arg(&scratch.0)
        .output()
        .expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// An address that is taken is told, with the address.
#[test]
fn an_address_that_cannot_be_had_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let (code, said) = taken_address(&address);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&address), "{said}");
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn joined(server: &Server, room: &str) -> Socket {
    let url = format!("ws://{}/ws?room={room}", server.address);
    tokio_tungstenite::connect_async(url).await.expect("connected").0
}

async fn next(socket: &mut Socket) -> Message {
    let next = tokio::time::timeout(Duration::from_secs(30), socket.next());
    next.await.expect("within 30 s").expect("not just cut").expect("a message")
}

/// The code with which a session is closed.
async fn closed(socket: &mut Socket) -> u16 {
    loop {
        if let Message::Close(frame) = next(socket).await {
            return frame.expect("with a code").code.into();
        }
    }
}

/// When a session is told to come back, milliseconds.
async fn told_to_reconnect(socket: &mut Socket) -> u64 {
    loop {
        let Message::Text(text) = next(socket).await else { continue };
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        if let Some(reconnect) = value.get("reconnect") {
            assert_eq!(reconnect["reason"], "draining");
            return reconnect.get("afterMs").and_then(serde_json::Value::as_u64).unwrap_or(0);
        }
    }
}

/// SIGTERM: readiness turns red, nobody is let in, every session is told when to come back, and whoever stays is closed
/// with 1012 after that; then the process ends well.
#[tokio::test]
async fn a_terminated_server_sends_its_sessions_away_and_ends() {
    let mut server = Server::start_with(&["--workers", "2"], &[("DANMAKU__DRAIN__WINDOW", "2s")]);
    let mut sockets = Vec::new();
    for room in ["a", "b", "c"] {
        sockets.push(joined(&server, room).await);
    }
    assert_eq!(server.get("/healthz").0, 200);
    assert_eq!(server.get("/readyz").0, 200);
    assert_eq!(server.get("/nothing").0, 404);
    server.terminate();
    for socket in &mut sockets {
        let after_ms = told_to_reconnect(socket).await;
        assert!(after_ms <= 2_000, "{after_ms}");
    }
    assert_eq!(server.get("/readyz").0, 503);
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err(), "nobody is let in");
    // Until then a session works as ever.
    assert_eq!(fate(&mut sockets[0], 1, "still here").await, None);
    for mut socket in sockets {
        assert_eq!(closed(&mut socket).await, 1012);
    }
    assert_eq!(server.wait(), Some(0));
}

/// A second SIGTERM, or an interrupt, closes everybody at once.
#[tokio::test]
async fn a_second_signal_ends_the_patience() {
    use rustix::process::Signal;
    for first in [Some(Signal::TERM), None] {
        for second in [Signal::TERM, Signal::INT] {
            if first.is_none() && second == Signal::TERM {
                continue;
            }
            let mut server = Server::start_with(&[], &[("DANMAKU__DRAIN__WINDOW", "1h")]);
            let mut socket = joined(&server, "a").await;
            if let Some(first) = first {
                server.signal(first);
                told_to_reconnect(&mut socket).await;
            }
            server.signal(second);
            assert_eq!(closed(&mut socket).await, 1012, "{first:?} {second:?}");
            assert_eq!(server.wait(), Some(0));
        }
    }
}

/// With nobody there a terminated server ends at once, whatever its window.
#[test]
fn a_server_without_sessions_ends_at_once() {
    let mut server = Server::start_with(&["--workers", "3"], &[("DANMAKU__DRAIN__WINDOW", "1h")]);
    server.terminate();
    assert_eq!(server.wait(), Some(0));
}

/// While it is a lame duck everything but its readiness is as ever.
#[tokio::test]
async fn a_lame_duck_serves_on_with_readiness_red() {
    let env = [("DANMAKU__DRAIN__LAME_DUCK", "1h"), ("DANMAKU__DRAIN__WINDOW", "1h")];
    let mut server = Server::start_with(&[], &env);
    server.terminate();
    until("readiness is red", || server.get("/readyz").0 == 503);
    let mut socket = joined(&server, "a").await;
    assert_eq!(fate(&mut socket, 1, "hello").await, None);
    server.terminate();
    assert_eq!(closed(&mut socket).await, 1012);
    assert_eq!(server.wait(), Some(0));
}

/// Sends a comment and reads on until its fate is known: the error's code, or nothing.
async fn fate(socket: &mut Socket, id: usize, text: &str) -> Option<String> {
    let send = serde_json::json!({"send": {"id": id.to_string(), "text": text}});
    socket.send(Message::text(send.to_string())).await.expect("sent");
    loop {
        let Message::Text(text) = next(socket).await else { continue };
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        if value.get("ack").is_some() {
            return None;
        }
        if let Some(error) = value.get("error") {
            return Some(error["code"].as_str().expect("a code").to_owned());
        }
    }
}

/// SIGHUP: what can change does so for rooms and sessions there are, by class; what cannot is told; a file that
/// cannot be used changes nothing.
#[tokio::test]
async fn a_hangup_reloads_what_can_change_and_tells_what_cannot() {
    let scratch = Scratch::new();
    let open = "[limits]\nuser_mode = \"off\"\nroom_mode = \"off\"\n";
    let config = scratch.file("live.toml", open);
    let server = Server::start(&["--workers", "2", "--config", config.to_str().expect("text")]);
    let (mut lobby, mut shop) = (joined(&server, "lobby").await, joined(&server, "shop-1").await);
    for socket in [&mut lobby, &mut shop] {
        assert_eq!(fate(socket, 0, "six777").await, None);
    }

    let reload = |text: &str| {
        scratch.file("live.toml", text);
        server.signal(rustix::process::Signal::HUP);
    };
    reload(&format!(
        "{open}text_chars_max = 5\n[server]\nrooms_max = 7\ndata_dir = \"elsewhere\"\n[websocket]\ndeflate_level = 2\n\
         [[rooms]]\nmatch = \"shop-*\"\ntext_chars_max = 200\n"
    ));
    let (mut id, start) = (1, std::time::Instant::now());
    let in_time = || assert!(start.elapsed() < Duration::from_secs(60), "not reloaded within 60 s");
    while fate(&mut lobby, id, "six777").await.as_deref() != Some("text_too_long")
        || !server.log().contains("configuration reloaded")
    {
        id += 1;
        in_time();
    }
    assert_eq!(fate(&mut shop, 1, &"x".repeat(150)).await, None);
    let log = server.log();
    for words in [
        ["a setting changed", "server.rooms_max", "100_000"],
        ["a setting changed", "limits.text_chars_max", "5"],
        ["a setting waits for a restart", "websocket.deflate_level", "2"],
    ] {
        assert!(log.lines().any(|line| words.iter().all(|word| line.contains(word))), "{words:?}: {log}");
    }
    // The command line goes over the file, then as now.
    assert!(!log.contains("elsewhere"), "{log}");

    // The next reload that can be used shows that the one before it changed nothing.
    reload("[limits]\ntext_chars_max = \"many\"\n");
    while !server.log().contains("the configuration was not reloaded") {
        assert!(fate(&mut lobby, id + 1, "six777").await.is_some(), "the bound before it stays");
        in_time();
    }
    reload(open);
    while fate(&mut lobby, id + 2, "six777").await.is_some() {
        id += 1;
        in_time();
    }
}
