//! `danmaku serve` as an operator sees it: bad settings, health, and the end.

mod support;

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use support::Server;
use tokio_tungstenite::tungstenite::Message;

/// What `serve` says about a configuration it cannot use, and the exit code.
fn refused(toml: &str, args: &[&str]) -> (Option<i32>, String) {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let n = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("danmaku-test-{}-{n}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut file = std::fs::File::create(&path).expect("a temporary file");
    file.write_all(toml.as_bytes()).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_danmaku"))
        .args(["serve", "--admin-listen", "127.0.0.1:0", "--config"])
        .arg(&path)
        .args(args)
        .output()
        .expect("the binary runs");
    std::fs::remove_file(&path).expect("removed");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A setting that cannot be used is named with its value and what would be right, before a port is bound.
#[test]
fn a_bad_setting_is_named_with_what_would_be_right() {
    for (toml, args, words) in [
        ("[server]\nlisten_on = 1\n", &[][..], ["listen_on", "unknown field"]),
        ("[flush]\nmax_tick = \"5\"\n", &[][..], ["\"5\"", "250ms"]),
        ("[flush]\nmax_tick = \"1ms\"\n", &[][..], ["flush.max_tick", "100ms"]),
        ("[limits]\nuser_per_s = 0.0\n", &[][..], ["limits.user_per_s", "above 0"]),
        ("", &["--listen", "0.0.0.0:0"][..], ["server.listen", "auth.anonymous = true"]),
    ] {
        let (code, said) = refused(toml, args);
        assert_eq!(code, Some(78), "{toml:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{toml:?}: {said}");
    }
}

/// An address that is taken is told, with the address.
#[test]
fn an_address_that_cannot_be_had_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let (code, said) = refused("", &["--listen", &address]);
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
