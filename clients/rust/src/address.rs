//! The address of a connection and the subprotocols it offers.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use form_urlencoded::Serializer;

use crate::options::Tier;
use crate::position::Position;

/// Text messages.
pub(crate) const SUBPROTOCOL: &str = "danmaku.v1.json";

/// The endpoint with everything that a join says in its address.
pub(crate) fn url(
    endpoint: &str,
    room: &str,
    since: Option<&Position>,
    tier: Option<Tier>,
    snapshot: bool,
) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("room", room);
    if let Some(since) = since {
        query.append_pair("since", &since.to_string());
    }
    if let Some(tier) = tier {
        query.append_pair("tier", tier.as_str());
    }
    if !snapshot {
        query.append_pair("snapshot", "none");
    }
    let joint = match endpoint.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{endpoint}{joint}{}", query.finish())
}

/// What is offered; a token travels beside the real subprotocol, since browsers cannot set headers.
pub(crate) fn subprotocols(token: Option<&str>) -> Vec<String> {
    let token = token.map(|token| format!("danmaku.auth.{}", URL_SAFE_NO_PAD.encode(token)));
    std::iter::once(SUBPROTOCOL.to_owned()).chain(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `url`: names and positions are escaped, what is at its default is left out, a query that is there is kept.
    #[test]
    fn an_address_says_what_the_join_needs_and_no_more() {
        let check = |endpoint, since: Option<Position>, tier, snapshot, expected: &str| {
            assert_eq!(url(endpoint, "r1", since.as_ref(), tier, snapshot), expected);
        };
        check("ws://a/ws", None, None, true, "ws://a/ws?room=r1");
        check(
            "ws://a/ws?x=1",
            None,
            Some(Tier::Lite),
            false,
            "ws://a/ws?x=1&room=r1&tier=lite&snapshot=none",
        );
        let odd = Some(Position::new("7&k+2", 41));
        check("ws://a/ws?", odd, None, true, "ws://a/ws?room=r1&since=7%26k%2B2%3A41");
    }

    /// `subprotocols`: base64url without padding, since `=` may not stand in a subprotocol's name.
    #[test]
    fn a_token_is_offered_beside_the_real_subprotocol() {
        assert_eq!(subprotocols(None), ["danmaku.v1.json"]);
        assert_eq!(subprotocols(Some("a?b>c~")), ["danmaku.v1.json", "danmaku.auth.YT9iPmN-"]);
    }
}
