//! Back ends at an address of their own: keys count there and nowhere else, clients have no business there, and the
//! address goes to the process that takes this one's place without a request being lost.

#[path = "support/exchange.rs"]
mod exchange;
mod support;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use exchange::{Answer, Exchange, post};
use serde_json::json;
use support::{Server, until};

const ADDRESS: (&str, &str) = ("DANMAKU__API__LISTEN", "127.0.0.1:0");

fn ask(address: SocketAddr, method: &str, path: &str, key: &str, body: &str) -> Answer {
    let shown = if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") };
    Exchange::new(address).send(post(path, &shown, body).replacen("POST", method, 1)).answer()
}

/// What is asked where, and what is not.
#[test]
fn keys_are_shown_at_their_own_address_alone() {
    let proxies = [
        ("DANMAKU__SERVER__PROXY_PROTOCOL", "required"),
        ("DANMAKU__SERVER__TRUSTED_PROXIES", "[\"192.0.2.1\"]"),
    ];
    // PROXY headers are of the clients' address: none is waited for here.
    let behind = Server::start_with(&["--workers", "1"], &[ADDRESS, proxies[0], proxies[1]]);
    let api = behind.api.expect("an address");
    assert_eq!(ask(api, "GET", "/api/v1/rooms", &behind.staff_key(), "").status, 200);

    let server = Server::start_with(&["--workers", "2"], &[ADDRESS]);
    let (clients, api, key) = (server.address, server.api.expect("an address"), server.staff_key());
    let gift = json!({ "type": "gift" }).to_string();
    let events = "/api/v1/rooms/r1/events";
    assert_eq!(ask(api, "POST", events, &key, &gift).status, 200);
    assert_eq!(ask(api, "GET", "/api/v1/audit", &key, "").status, 200);
    assert_eq!(ask(api, "GET", "/api/v1/rooms/r1/bans", &key, "").status, 200);
    assert_eq!(ask(api, "POST", events, "", &gift).status, 401);
    for path in [events, "/api/v1/tickets", "/api/v1/rooms/r1/danmaku", "/api/v1/rooms/r1/bans"] {
        let answer = ask(clients, "POST", path, &key, &gift);
        assert_eq!((answer.status, answer.code()), (403, "forbidden".to_owned()), "{path}");
        // Whether it is one makes no difference: nobody can try keys there.
        assert_eq!(ask(clients, "POST", path, "dk_no_key", &gift).status, 403, "{path}");
    }
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/ws?room=r1"),
        ("GET", "/route?room=r1"),
        ("GET", events),
        ("POST", "/api/v1/rooms/r1/danmaku"),
    ] {
        let answer = ask(api, method, path, "", r#"{"id":"a","text":"x"}"#);
        assert_eq!((answer.status, answer.code()), (404, "not_found".to_owned()), "{path}");
    }
    let comment = ask(clients, "POST", "/api/v1/rooms/r1/danmaku", "", r#"{"id":"a","text":"x"}"#);
    assert_eq!(comment.status, 200, "{comment:?}");
}

/// While another process takes over, whoever asks on fresh connections is answered by one or the other; what was pushed is
/// pushed once, and the address is the new process's own afterwards.
#[test]
fn the_address_goes_to_the_next_process() {
    let args = ["--workers", "2"];
    let old = Server::start_with(&args, &[ADDRESS]);
    let (api, key) = (old.api.expect("an address"), old.staff_key());
    let (over, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    let new = std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut seqs = Vec::new();
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let gift = json!({ "type": "gift", "id": format!("g-{n}") }).to_string();
                // Whoever meets the moment of change is told to come again, and comes to the new process.
                let answer = loop {
                    let answer = ask(api, "POST", "/api/v1/rooms/r1/events", &key, &gift);
                    if answer.status != 503 {
                        break answer;
                    }
                    assert!(answer.header("retry-after").is_some(), "{answer:?}");
                };
                assert_eq!(answer.status, 200, "{answer:?}");
                seqs.push(answer.json()["seq"].as_u64().expect("a number"));
                asked.fetch_add(1, Ordering::Relaxed);
            }
            seqs
        });
        let asks_on = |what: &str| {
            let before = asked.load(Ordering::Relaxed);
            until(what, || asker.is_finished() || asked.load(Ordering::Relaxed) > before + 20);
        };
        asks_on("some are asked before");
        let new = old.replace(&args, &[ADDRESS]);
        asks_on("some are asked after");
        over.store(true, Ordering::Relaxed);
        let seqs = asker.join().expect("all were answered");
        assert!(seqs.is_sorted_by(|a, b| a < b), "each has a number of its own: {seqs:?}");
        new
    });
    assert_eq!(new.api, Some(api));
    let mut old = old;
    assert_eq!(old.ends(), Some(0));
    for _ in 0..20 {
        assert_eq!(ask(api, "GET", "/api/v1/rooms/r1", &key, "").status, 200);
    }
}
