//! Keys that are published elsewhere: had from a file or an address, kept when they cannot be had again, and never asked
//! for where they should not be or too often.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/signer.rs"]
mod signer;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use exchange::{Exchange, post};
use jsonwebtoken::Algorithm;
use serde_json::json;
use signer::{Signer, now_s};
use support::{Scratch, Server, until};

const COMMENT: &str = "/api/v1/rooms/r1/danmaku";

/// Somebody who publishes keys, and counts who asks.
struct Publisher {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Publisher {
    /// Answers everybody with the same bytes; with none it says nothing at all.
    fn answering(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        // Ends with the process.
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for socket in listener.incoming() {
                let mut socket = socket.expect("a connection");
                socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    match socket.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => break,
                    }
                }
                count.fetch_add(1, Ordering::Relaxed);
                if answer.is_empty() {
                    silent.push(socket);
                } else {
                    let _ = socket.write_all(&answer);
                }
            }
        });
        Self { address, asked }
    }

    fn publishing(body: &str) -> Self {
        Self::answering(ok(body))
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

fn key_set(keys: &[&Signer]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

fn start(scratch: &Scratch, auth: &str) -> Server {
    let config = scratch.file("live.toml", &format!("[auth]\n{auth}\n")).to_string_lossy().into_owned();
    Server::start_with(&["--workers", "1", "--config", &config], &[])
}

/// The status of a comment that shows a token.
fn status(server: &Server, token: &str) -> u16 {
    let request =
        post(COMMENT, &format!("Authorization: Bearer {token}\r\n"), r#"{"id":"a","text":"hello"}"#);
    let answer = Exchange::new(server.address).send(request).answer();
    if answer.status == 401 {
        assert_eq!(answer.code(), "token_invalid");
    }
    answer.status
}

fn token(key: &Signer) -> String {
    key.token(&json!({ "sub": "u1", "exp": now_s() + 600 }))
}

/// Keys come over HTTP from this machine, where that is allowed; and ten thousand tokens with unheard-of keys make nobody ask
/// again.
#[test]
fn unknown_keys_do_not_make_the_server_ask_again() {
    let (es, ed) = (Signer::pair("es", Algorithm::ES256), Signer::pair("ed", Algorithm::EdDSA));
    let publisher = Publisher::publishing(&key_set(&[&es, &ed]));
    let scratch = Scratch::new();
    let jwks =
        format!("jwks = \"http://{}/keys\"\njwks_allow_private = [\"127.0.0.0/8\"]\n", publisher.address);
    let server = start(&scratch, &jwks);
    assert_eq!((status(&server, &token(&es)), status(&server, &token(&ed))), (200, 200));
    let begun = std::time::Instant::now();
    let stranger = Signer::pair("es", Algorithm::ES256);
    assert_eq!(status(&server, &token(&stranger)), 401);
    let mut exchange = Exchange::new(server.address);
    for n in 0..10_000 {
        if n % 900 == 0 {
            exchange = Exchange::new(server.address);
        }
        let unheard =
            stranger.token_with(&json!({ "alg": "ES256", "kid": format!("k{n}") }), &json!({ "sub": "u1" }));
        let request = format!(
            "GET /api/v1/rooms/r1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {unheard}\r\n\r\n"
        );
        let answer = exchange.send(request).answer();
        assert_eq!((answer.status, &*answer.code()), (401, "token_invalid"), "{n}");
    }
    let allowed = 1 + usize::try_from(begun.elapsed().as_secs() / 30).expect("a number");
    assert!(publisher.asked() <= allowed, "asked {} times", publisher.asked());
    assert_eq!(server.metric("danmaku_key_sets_failed_total"), 0);
}

/// Where keys must not or cannot be had: nobody is asked who should not be, the log says why in one line, and users with
/// known keys come in.
#[test]
fn keys_are_not_had_from_where_they_should_not_be() {
    let es = Signer::pair("es", Algorithm::ES256);
    let set = key_set(&[&es]);
    let elsewhere = Publisher::publishing(&set);
    let to_elsewhere =
        format!("HTTP/1.1 302 Found\r\nLocation: http://{}/\r\nContent-Length: 0\r\n\r\n", elsewhere.address);
    let long = json!({ "keys": [es.jwk()], "pad": "x".repeat(256 << 10) }).to_string();
    let endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"key".to_vec();
    let secret = Signer::secret("hs", "0123456789abcdef0123456789abcdef");
    for (answer, allow, words, asked) in [
        (ok(&set), "[]", "no address that may be asked", 0),
        (ok(&set), "[\"10.0.0.0/8\"]", "no address that may be asked", 0),
        (to_elsewhere.into_bytes(), "[\"127.0.0.1\"]", "302", 1),
        (ok(&long), "[\"127.0.0.1\"]", "longer than 262144 bytes", 1),
        (endless, "[\"127.0.0.1\"]", "broke off", 1),
        (Vec::new(), "[\"127.0.0.1\"]", "longer than 2000 ms", 1),
        (ok("{\"keys\":[]}"), "[\"127.0.0.1\"]", "a key set is JSON", 1),
        (b"no HTTP at all\r\n\r\n".to_vec(), "[\"127.0.0.1\"]", "does not speak HTTP", 1),
    ] {
        let publisher = Publisher::answering(answer);
        let scratch = Scratch::new();
        let server = start(
            &scratch,
            &format!(
                "jwks = \"http://{}/keys\"\njwks_allow_private = {allow}\n[[auth.keys]]\nid = \"hs\"\nsecret = {:?}\n",
                publisher.address, secret.public
            ),
        );
        assert_eq!((status(&server, &token(&es)), status(&server, &token(&secret))), (401, 200), "{words}");
        let log = server.log();
        let told: Vec<_> = log.lines().filter(|line| line.contains("the key set cannot be had")).collect();
        assert!(told.len() == 1 && told[0].contains(words), "{words}: {log}");
        assert_eq!(publisher.asked(), asked, "{words}");
        assert_eq!(server.metric("danmaku_key_sets_failed_total"), 1);
    }
    assert_eq!(elsewhere.asked(), 0);
}

/// A file of keys is read again when it changes; one that cannot be used changes nothing, and is no start.
#[test]
fn a_file_of_keys_is_read_again_and_rubbish_changes_nothing() {
    let (old, new) = (Signer::pair("old", Algorithm::ES256), Signer::pair("new", Algorithm::EdDSA));
    let scratch = Scratch::new();
    let path = scratch.file("keys.json", &key_set(&[&old]));
    let server = start(&scratch, &format!("jwks = {:?}\n", path.display().to_string()));
    assert_eq!((status(&server, &token(&old)), status(&server, &token(&new))), (200, 401));
    let put = |text: &str| {
        let beside = scratch.file("keys.new", text);
        std::fs::rename(beside, &path).expect("in its place");
    };
    put("rubbish");
    until("it is told", || server.log().contains("a key set is JSON"));
    assert_eq!(status(&server, &token(&old)), 200);
    put(&key_set(&[&new]));
    until("the new key counts", || status(&server, &token(&new)) == 200);
    assert_eq!(status(&server, &token(&old)), 401, "verified before, and not any more");
}

/// A setting that cannot be used is told in one line with what would be right, before a port is bound.
#[test]
fn a_key_that_cannot_be_used_is_told_in_one_line() {
    let scratch = Scratch::new();
    let pair = rcgen::KeyPair::generate().expect("a pair");
    let private = scratch.file("private.pem", &pair.serialize_pem()).display().to_string();
    let public = scratch.file("public.pem", &pair.public_key_pem()).display().to_string();
    let rubbish = scratch.file("rubbish.json", "rubbish").display().to_string();
    for (auth, words) in [
        (
            format!("keys = [{{ id = \"k\", algorithm = \"ES256\", public_key = {private:?} }}]"),
            "private key",
        ),
        (
            format!("keys = [{{ id = \"k\", algorithm = \"RS256\", public_key = {public:?} }}]"),
            "no public key for RS256",
        ),
        (
            "keys = [{ id = \"k\", algorithm = \"ES256\", public_key = \"nowhere.pem\" }]".into(),
            "cannot read nowhere.pem",
        ),
        (format!("keys = [{{ id = \"k\", public_key = {public:?} }}]"), "HS256 has a `secret`"),
        (
            "keys = [{ id = \"k\", algorithm = \"EdDSA\", secret = \"0123456789abcdef0123456789abcdef\" }]"
                .into(),
            "EdDSA has a `public_key`",
        ),
        ("keys = [{ id = \"k\", algorithm = \"RS512\", public_key = \"k.pem\" }]".into(), "RS512"),
        (
            "keys = [{ id = \"k\", secret = \"-----BEGIN PUBLIC KEY-----MFkwEwYH\" }]".into(),
            "is a key in PEM",
        ),
        ("jwks = \"http://id.example/keys\"".into(), "https"),
        ("jwks = \"https://user:secret@id.example/keys\"".into(), "without user and password"),
        (format!("jwks = {rubbish:?}"), "a key set is JSON"),
        ("jwks = \"nowhere.json\"".into(), "cannot read nowhere.json"),
        ("anonymous = \"maybe\"".into(), "read_only"),
        ("leeway = \"1h\"".into(), "2m"),
    ] {
        let config = scratch.file("live.toml", &format!("[auth]\n{auth}\n"));
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_danmaku"))
            .arg("check-config")
            .arg(config)
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(78), "{auth}: {told}");
        assert!(told.contains(words) && told.lines().count() == 1, "{auth}: {told}");
        assert!(!told.contains("secret@"), "{told}");
    }
}
