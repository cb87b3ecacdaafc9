//! Which of a viewer's headers a receiver gets to see.
//!
//! In come the headers of a handshake, out come those of the operator's list. Never among them: headers
//! that the operator calls internal (in any spelling, even when the list names them), headers that
//! `Connection` names and the ones that only concern the connection itself (RFC 9110 7.6.1), and values
//! that are not text. A name passes the list only as the list spells it: `x_user` is not taken for
//! `x-user`, or a viewer could say what only a proxy in front of us may.

use std::collections::BTreeMap;

use hyper::header::{CONNECTION, HeaderMap};

use crate::names::{Names, NamesError};

/// About the connection and not about the request; never forwarded.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The operator's two lists.
#[derive(Debug, Clone)]
pub struct Forwarding {
    allowed: Names,
    internal: Names,
}

impl Forwarding {
    /// The rule by its lists. `internal` wins over `allowed`, in any spelling.
    ///
    /// # Errors
    /// When a name is no header name, or a list is too long.
    pub fn new<'n>(
        allowed: impl IntoIterator<Item = &'n str>,
        internal: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, NamesError> {
        Ok(Self { allowed: Names::new(allowed)?, internal: Names::new(internal)? })
    }

    /// The headers that are forwarded, by name. Values of a name that comes more than once are joined as
    /// RFC 9110 5.3 says, cookies as RFC 9113 8.2.3 says.
    #[must_use]
    pub fn select(&self, headers: &HeaderMap) -> BTreeMap<String, String> {
        let mut selected = BTreeMap::<String, String>::new();
        for (name, value) in headers {
            let name = name.as_str();
            let hidden = !self.allowed.has(name)
                || self.internal.has_in_any_spelling(name)
                || HOP_BY_HOP.contains(&name)
                || named_by_connection(headers, name);
            let text = value.to_str().ok().filter(|_| !hidden);
            let Some(text) = text else { continue };
            let separator = if name == "cookie" { "; " } else { ", " };
            match selected.get_mut(name) {
                Some(before) => before.extend([separator, text]),
                None => drop(selected.insert(name.to_owned(), text.to_owned())),
            }
        }
        selected
    }

    /// The names that are never forwarded.
    #[must_use]
    pub fn internal(&self) -> &Names {
        &self.internal
    }
}

fn named_by_connection(headers: &HeaderMap, name: &str) -> bool {
    let values = headers.get_all(CONNECTION).into_iter();
    let mut options = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    options.any(|option| option.trim().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    //! Method: a request in, the forwarded headers out, as text.

    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn check(allowed: &[&str], internal: &[&str], request: &[(&str, &str)], expected: &[(&str, &str)]) {
        let forwarding = Forwarding::new(allowed.iter().copied(), internal.iter().copied()).expect("names");
        let mut headers = HeaderMap::new();
        for (name, value) in request {
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let selected = forwarding.select(&headers);
        let selected: Vec<(&str, &str)> = selected.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(selected, expected, "{request:?}");
    }

    #[test]
    fn only_what_the_list_names_is_forwarded() {
        check(&[], &[], &[("cookie", "a=1")], &[]);
        check(&["Cookie"], &[], &[("COOKIE", "a=1"), ("authorization", "b")], &[("cookie", "a=1")]);
    }

    #[test]
    fn internal_names_win_in_any_spelling() {
        let all = ["x-internal-user", "x_internal_user", "x-internal_user", "x-ok"];
        let request = all.map(|name| (name, "1"));
        check(&all, &["x-internal-user"], &request, &[("x-ok", "1")]);
        check(&all, &["X_Internal_User"], &request, &[("x-ok", "1")]);
    }

    #[test]
    fn an_underscore_is_not_taken_for_a_hyphen_of_the_list() {
        check(&["x-user"], &[], &[("x-user", "proxy"), ("x_user", "viewer")], &[("x-user", "proxy")]);
        check(&["x-user"], &[], &[("x_user", "viewer")], &[]);
    }

    #[test]
    fn headers_of_the_connection_are_dropped() {
        let request = [
            ("connection", "upgrade, X-Hop"),
            ("connection", "x-also"),
            ("x-hop", "1"),
            ("x-also", "1"),
            ("upgrade", "websocket"),
            ("te", "trailers"),
            ("x-stays", "1"),
        ];
        check(
            &["x-hop", "x-also", "upgrade", "te", "connection", "x-stays"],
            &[],
            &request,
            &[("x-stays", "1")],
        );
    }

    #[test]
    fn a_name_that_comes_twice_is_joined() {
        let request =
            [("accept-language", "de"), ("cookie", "a=1"), ("accept-language", "en"), ("cookie", "b=2")];
        let expected = [("accept-language", "de, en"), ("cookie", "a=1; b=2")];
        check(&["accept-language", "cookie"], &[], &request, &expected);
    }

    #[test]
    fn values_that_are_not_text_are_left_out() {
        check(&["x-a", "x-b"], &[], &[("x-a", "ü"), ("x-b", "1")], &[("x-b", "1")]);
    }
}
