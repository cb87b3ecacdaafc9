//! The command line as its user sees it, but for `serve`.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::{Scratch, Server};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn danmaku(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).output().expect("the binary runs")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A configuration with one key.
fn with_key(scratch: &Scratch) -> std::path::PathBuf {
    scratch.file("live.toml", &format!("[[auth.keys]]\nid = \"k1\"\nsecret = \"{SECRET}\"\n"))
}

/// `check-config`: the files that come along can be used, and one that cannot is told with its exit code.
#[test]
fn configurations_are_checked_without_serving() {
    let scratch = Scratch::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let full = root.join("deploy/danmaku.toml");
    let checked = danmaku(&["check-config", text(&full)]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked.stderr));
    assert!(said(&checked.stdout).contains("127.0.0.1:8080"), "{}", said(&checked.stdout));

    // The short one is refused until its secret is set: a server must not start with a published one.
    let min = root.join("deploy/danmaku.min.toml");
    let checked = danmaku(&["check-config", text(&min)]);
    assert_eq!(checked.status.code(), Some(78));
    assert!(said(&checked.stderr).contains("openssl rand -base64 32"), "{}", said(&checked.stderr));
    let toml = std::fs::read_to_string(&min).expect("readable");
    assert!(toml.lines().count() <= 10, "it is a short one");
    let set = scratch.file("min.toml", &toml.replace("replace me", SECRET));
    let checked = danmaku(&["check-config", text(&set)]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked.stderr));

    let checked = danmaku(&["check-config", "/nowhere/live.toml"]);
    assert_eq!(checked.status.code(), Some(78));
    assert!(said(&checked.stderr).contains("/nowhere/live.toml"), "{}", said(&checked.stderr));
}

/// `token`: a server with that key takes it in each of its three places, and shows the name; without one, or with a
/// bad one, nobody comes in.
#[tokio::test]
async fn a_signed_token_opens_a_server_that_asks_for_one() {
    use base64::Engine;
    use futures_util::StreamExt;
    let scratch = Scratch::new();
    let config = with_key(&scratch);
    let server = Server::start(&["--config", text(&config)]);
    let signed =
        danmaku(&["token", "--config", text(&config), "--user", "u1", "--name", "Ann", "--role", "vip"]);
    let token = said(&signed.stdout).trim().to_owned();
    assert!(signed.status.success(), "{}", said(&signed.stderr));

    let plain = format!("ws://{}/ws?room=r1", server.address);
    let offered = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&token);
    let request = |url: &str, header: Option<(&'static str, String)>| {
        let mut request = url.into_client_request().expect("a request");
        if let Some((name, value)) = header {
            request.headers_mut().insert(name, HeaderValue::from_str(&value).expect("a header"));
        }
        request
    };
    for request in [
        request(&plain, Some(("authorization", format!("Bearer {token}")))),
        request(&plain, Some(("sec-websocket-protocol", format!("danmaku.v1.json, danmaku.auth.{offered}")))),
        request(&format!("{plain}&token={token}"), None),
    ] {
        let (mut socket, response) = tokio_tungstenite::connect_async(request).await.expect("let in");
        let echoed = response.headers().get("sec-websocket-protocol").cloned();
        assert!(echoed.is_none_or(|protocol| protocol == "danmaku.v1.json"), "the token is never echoed");
        let joined = socket.next().await.expect("a message").expect("joined").into_text().expect("text");
        let joined: serde_json::Value = serde_json::from_str(&joined).expect("JSON");
        let you = &joined["joined"]["you"];
        assert_eq!((&you["id"], &you["name"], &you["role"]), (&"u1".into(), &"Ann".into(), &"vip".into()));
    }
    for (request, code) in [
        (request(&plain, None), "unauthorized"),
        (request(&plain, Some(("authorization", format!("Bearer {token}x")))), "token_invalid"),
        (request(&plain, Some(("authorization", "Basic dTE6eA==".into()))), "token_invalid"),
        (request(&plain, Some(("sec-websocket-protocol", "danmaku.auth.eA".into()))), "token_invalid"),
    ] {
        let refused = tokio_tungstenite::connect_async(request).await.expect_err("not let in");
        let tokio_tungstenite::tungstenite::Error::Http(response) = refused else { panic!("{refused}") };
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert!(said(response.body().as_deref().unwrap_or_default()).contains(code), "{code}");
    }
    assert!(!server.log().contains(&token), "no token is logged");
}

/// `token`: what would be refused is not signed, and a missing key is told.
#[test]
fn a_token_that_would_be_refused_is_not_made() {
    let scratch = Scratch::new();
    let config = with_key(&scratch);
    for (args, words) in [
        (&["token", "--user", "u1"][..], "auth.keys"),
        (&["token", "--config", text(&config), "--user", "u1", "--key", "k2"], "there are: k1"),
        (&["token", "--config", text(&config), "--user", "~u1"], "would be refused"),
        (&["token", "--config", text(&config), "--user", "u1", "--role", "staff"], "global"),
        (&["token", "--config", text(&config), "--user", "u1", "--ttl", "2d"], "24 hours"),
        (&["token", "--config", text(&config), "--user", "u1", "--ttl", "soon"], "30m"),
    ] {
        let output = danmaku(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output.stderr));
        assert!(said(&output.stderr).contains(words), "{args:?}: {}", said(&output.stderr));
    }
}

/// `key`: added keys are listed without their secrets, and gone when revoked.
#[test]
fn keys_come_and_go() {
    let scratch = Scratch::new();
    let dir = text(&scratch.0);
    let added = danmaku(&["key", "add", "--data-dir", dir, "billing", "--scope", "events", "--room", "r1"]);
    assert!(added.status.success(), "{}", said(&added.stderr));
    let key = said(&added.stdout).trim().to_owned();
    let id = key.split('_').nth(1).expect("an id").to_owned();
    let listed = said(&danmaku(&["key", "list", "--data-dir", dir]).stdout);
    for words in [&id, "billing", "events", "r1"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    assert!(!listed.contains(key.rsplit('_').next().expect("a secret")), "{listed}");
    let unknown = danmaku(&["key", "revoke", "--data-dir", dir, "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(said(&unknown.stderr).contains("key list"), "{}", said(&unknown.stderr));
    assert!(danmaku(&["key", "revoke", "--data-dir", dir, &id]).status.success());
    assert_eq!(said(&danmaku(&["key", "list", "--data-dir", dir]).stdout), "");
}

/// `doctor`: a fault is named and ends with 1; without one it ends with 0.
#[test]
fn the_doctor_names_what_would_keep_a_server_from_working() {
    let scratch = Scratch::new();
    let free = "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n";
    let config = scratch.file("live.toml", free);
    let data = scratch.0.join("data");
    let well = danmaku(&["doctor", "--config", text(&config), "--data-dir", text(&data)]);
    assert_eq!(well.status.code(), Some(0), "{}", said(&well.stdout));
    assert!(said(&well.stdout).lines().all(|line| line.starts_with("ok ") || line.starts_with("weak ")));
    // A file where the directory should be.
    let ill = danmaku(&["doctor", "--config", text(&config), "--data-dir", text(&config)]);
    assert_eq!(ill.status.code(), Some(1));
    let (out, err) = (said(&ill.stdout), said(&ill.stderr));
    assert!(out.contains("fault data directory") && err.lines().count() == 1, "{out} {err}");
}

/// `completions` and `man` print what a package would install.
#[test]
fn completions_and_the_manual_page_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let printed = danmaku(&["completions", shell]);
        assert!(printed.status.success() && said(&printed.stdout).contains("check-config"), "{shell}");
    }
    let page = said(&danmaku(&["man"]).stdout);
    assert!(page.starts_with(".") && page.contains("danmaku") && page.contains("Exit codes"), "{page}");
}
