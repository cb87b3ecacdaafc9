//! `danmaku serve` as an operator sees it: bad settings, health, and the end.

mod support;

use std::process::Command;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use support::{Scratch, Server};
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

/// SIGTERM: every session is closed with 1012 and the process ends well.
#[tokio::test]
async fn a_terminated_server_closes_its_sessions_and_ends() {
    let mut server = Server::start(&["--workers", "2"]);
    let mut sockets = Vec::new();
    for room in ["a", "b", "c"] {
        let url = format!("ws://{}/ws?room={room}", server.address);
        sockets.push(tokio_tungstenite::connect_async(url).await.expect("connected").0);
    }
    assert_eq!(server.get("/healthz").0, 200);
    assert_eq!(server.get("/readyz").0, 200);
    assert_eq!(server.get("/nothing").0, 404);
    server.terminate();
    for mut socket in sockets {
        let code = loop {
            let next = tokio::time::timeout(Duration::from_secs(30), socket.next());
            match next.await.expect("within 30 s").expect("a close frame").expect("a message") {
                Message::Close(frame) => break frame.expect("with a code").code,
                _ => continue,
            }
        };
        assert_eq!(u16::from(code), 1012);
    }
    assert_eq!(server.wait(), Some(0));
}

/// Sends a comment and reads on until its fate is known: the error's code, or nothing.
async fn fate<S>(socket: &mut S, id: usize, text: &str) -> Option<String>
where
    S: futures_util::Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>>
        + futures_util::Sink<Message, Error = tokio_tungstenite::tungstenite::Error>
        + Unpin,
{
    let send = serde_json::json!({"send": {"id": id.to_string(), "text": text}});
    socket.send(Message::text(send.to_string())).await.expect("sent");
    loop {
        let next = tokio::time::timeout(Duration::from_secs(30), socket.next());
        let message = next.await.expect("within 30 s").expect("open").expect("a message");
        let Message::Text(text) = message else { continue };
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
    let mut sockets = Vec::new();
    for room in ["lobby", "shop-1"] {
        let url = format!("ws://{}/ws?room={room}", server.address);
        sockets.push(tokio_tungstenite::connect_async(url).await.expect("connected").0);
    }
    for socket in &mut sockets {
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
    let (mut lobby, mut shop) = (sockets.remove(0), sockets.remove(0));
    let mut id = 1;
    while fate(&mut lobby, id, "six777").await.as_deref() != Some("text_too_long")
        || !server.log().contains("configuration reloaded")
    {
        id += 1;
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
        assert_eq!(fate(&mut lobby, id + 1, "six777").await.as_deref(), Some("text_too_long"));
    }
    reload(open);
    while fate(&mut lobby, id + 2, "six777").await.is_some() {
        id += 1;
    }
}
