//! The address that clients are sent to.

use serde::{Deserialize, Deserializer, de};

use super::value::Setting;
use crate::ingress::origin::Origin;

/// An address such as `wss://live.example` or `https://live.example/chat`, without the path of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedUrl(String);

impl AdvertisedUrl {
    /// Reads an address; a slash at its end is left out.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('/');
        let (scheme, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'.' | b'_' | b'~');
        let named = !authority.contains('*') && Origin::parse(&format!("{scheme}://{authority}")).is_some();
        (named && path.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    /// As it is written, without a slash at the end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for AdvertisedUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let expected = "an address such as \"wss://live.example\" or \"https://live.example/chat\"";
            de::Error::invalid_value(de::Unexpected::Str(&text), &expected)
        })
    }
}

impl Setting for Option<AdvertisedUrl> {
    fn written(&self) -> Option<String> {
        self.as_ref().map(|url| format!("{:?}", url.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `AdvertisedUrl::parse`: an address and nothing that could be taken for more of one.
    #[test]
    fn only_a_plain_address_is_advertised() {
        for (text, read) in [
            ("wss://live.example", Some("wss://live.example")),
            ("https://live.example:8443/", Some("https://live.example:8443")),
            ("ws://[2001:db8::1]:80/chat", Some("ws://[2001:db8::1]:80/chat")),
            ("live.example", None),
            ("ftp://live.example", None),
            ("wss://", None),
            ("wss://a b", None),
            ("wss://*.example", None),
            ("wss://user@live.example", None),
            ("wss://live.example/x?y=1", None),
            ("wss://live.example/\r\nX: y", None),
        ] {
            assert_eq!(AdvertisedUrl::parse(text).as_ref().map(AdvertisedUrl::as_str), read, "{text:?}");
        }
    }
}
