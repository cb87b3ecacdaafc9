//! Origins, hosts and the list of pages that may connect, against the parser of addresses that browsers' rules
//! are made of: nobody is let in who is somebody else by it.
//!
//! Input: lines. What is known of TLS (`s`, `p`, or nothing), the Origin, the Host, and then patterns.

#![no_main]

use danmaku::config::value::Setting;
use danmaku::ingress::origin::{Pattern, allowed, is_loopback_name, is_name};
use libfuzzer_sys::fuzz_target;
use url::{Host, Url};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let secure = match line() {
        "s" => Some(true),
        "p" => Some(false),
        _ => None,
    };
    let (origin, host) = (line(), line());
    let list: Vec<Pattern> = lines.filter_map(Pattern::parse).collect();

    let own = allowed(origin, Some(host), secure, &[]);
    if own {
        check_own(origin, host, secure);
    }
    assert!(!allowed(origin, None, secure, &[]), "without a Host nobody has a page here");
    let listed = allowed(origin, None, secure, &list);
    assert_eq!(allowed(origin, Some(host), secure, &list), own || listed, "in by the Host or by the list");
    let by_one = list.iter().any(|pattern| allowed(origin, None, secure, std::slice::from_ref(pattern)));
    assert_eq!(listed, by_one, "a line of the list is for itself");
    for pattern in &list {
        check_pattern(pattern, origin, secure);
    }
    check_names(host);
});

/// An address with http's or https's rules; `None` where they take it for none.
fn address(text: &str) -> Option<(bool, Host, u16)> {
    let url = Url::parse(text).ok()?;
    let secure = match url.scheme() {
        "http" | "ws" => false,
        "https" | "wss" => true,
        other => panic!("{other} was taken"),
    };
    // Whether a name ends with a dot is all one to who looks it up.
    let host = match url.host()?.to_owned() {
        Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
        address => address,
    };
    Some((secure, host, url.port_or_known_default()?))
}

/// A page that counts as the server's own is of the host and port that it was asked by.
fn check_own(origin: &str, host: &str, secure: Option<bool>) {
    assert!(!origin.contains(['@', '?', '#', '\\', '%', ' ', '\t']) && origin.matches('/').count() == 2);
    let scheme = origin.split_once(':').expect("a scheme").0;
    if let (Some(page), Some(server)) = (address(origin), address(&format!("{scheme}://{host}"))) {
        assert_eq!(page, server);
        assert!(secure.is_none_or(|secure| secure == page.0));
    }
}

/// What a line lets in is what it says, and what is shown of it is read back.
fn check_pattern(pattern: &Pattern, origin: &str, secure: Option<bool>) {
    let list = vec![pattern.clone()];
    let written = list.written().expect("it can be shown");
    let shown = written.strip_prefix("[\"").and_then(|rest| rest.strip_suffix("\"]")).expect("one line");
    assert_eq!(Pattern::parse(shown).as_ref(), Some(pattern), "{shown}");
    if shown == "*" || !allowed(origin, None, secure, &list) {
        return;
    }
    let (below, named) = match shown.split_once("://*.") {
        Some((scheme, rest)) => (true, format!("{scheme}://{rest}")),
        None => (false, shown.to_owned()),
    };
    let (Some(page), Some(named)) = (address(origin), address(&named)) else { return };
    assert_eq!((page.0, page.2), (named.0, named.2));
    match (page.1, named.1) {
        (Host::Domain(page), Host::Domain(named)) if below => {
            let below = page.strip_suffix(&named).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1);
            assert!(below, "{page}");
        }
        (page, named) => assert_eq!(page, named),
    }
}

/// A Host that passes for this machine is this machine to whoever looks it up.
fn check_names(host: &str) {
    let Some((_, name, _)) = address(&format!("http://{host}")) else { return };
    if is_loopback_name(host) {
        match &name {
            Host::Domain(name) => assert!(name == "localhost" || name.ends_with(".localhost"), "{name}"),
            Host::Ipv4(address) => assert!(address.is_loopback()),
            Host::Ipv6(address) => assert!(address.to_canonical().is_loopback()),
        }
    }
    let bare = host.split(':').next().unwrap_or_default().trim_end_matches('.');
    if !host.starts_with('[') && is_name(host, bare) {
        assert!(matches!(&name, Host::Ipv4(_)) || name == Host::Domain(bare.to_ascii_lowercase()), "{name}");
    }
}
