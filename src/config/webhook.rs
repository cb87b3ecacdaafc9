//! What `[webhook]` says: which receiver is asked, about what, and what it means when nobody answers.

use std::path::PathBuf;
use std::time::Duration;

use danmaku_webhook::{Batching, Forwarding, Network, Settings};
use serde::{Deserialize, Deserializer, de};

use super::auth_key::Secret;
use super::raw;
use super::section::OutOfBounds;
use super::value::Setting;

/// What an unanswered question means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fail {
    /// As if the receiver had let it pass.
    Open,
    /// As if it had not.
    Closed,
}

impl Setting for Fail {
    fn written(&self) -> Option<String> {
        Some(match self {
            Self::Open => "\"open\"".to_owned(),
            Self::Closed => "\"closed\"".to_owned(),
        })
    }
}

/// The secret that signs; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSecret(Secret);

impl<'de> Deserialize<'de> for HookSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Secret::deserialize(deserializer).map(Self)
    }
}

impl std::fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookSecret")
    }
}

impl Setting for HookSecret {
    /// Whether there is one, and nothing of it.
    fn written(&self) -> Option<String> {
        Some("\"…\"".to_owned())
    }
}

/// A receiver's address; a password in it is never printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookUrl(String);

impl<'de> Deserialize<'de> for HookUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.contains('@') {
            return Err(de::Error::custom("a receiver's address has no user and no password in it"));
        }
        Ok(Self(text))
    }
}

impl Setting for HookUrl {
    fn written(&self) -> Option<String> {
        self.0.written()
    }
}

/// How a receiver is asked.
#[derive(Debug, Clone)]
pub struct HookSettings {
    /// Of the client.
    pub client: Settings,
    /// Authorities in PEM, by their file.
    pub ca: Option<PathBuf>,
    /// Whether it is asked about connections; if so, what no answer means.
    pub connect: Option<Fail>,
    /// Headers of connections that it gets.
    pub forwarding: Forwarding,
}

/// Checks what is said of the receiver.
pub(super) fn settings(hook: &raw::Webhook) -> Result<Option<HookSettings>, OutOfBounds> {
    let Some(HookUrl(url)) = &hook.url else { return Ok(None) };
    let wrong = |key: &str, value: Option<String>, expected: String| OutOfBounds {
        key: format!("webhook.{key}"),
        value: value.unwrap_or_default(),
        expected,
    };
    let Some(HookSecret(secret)) = &hook.secret else {
        let expected = "a receiver has to know who asks: set `webhook.secret`, such as the output of `openssl rand -base64 32`";
        return Err(wrong("url", hook.url.written(), expected.to_owned()));
    };
    let networks = hook.allow_private.iter().map(|network| Network::new(network.base(), network.bits()));
    let allow_private = networks
        .collect::<Result<_, _>>()
        .map_err(|error| wrong("allow_private", hook.allow_private.written(), error.to_string()))?;
    let allowed = hook.headers.iter().map(String::as_str);
    let forwarding = Forwarding::new(allowed, hook.internal_headers.iter().map(String::as_str))
        .map_err(|error| wrong("headers", hook.headers.written(), error.to_string()))?;
    let us = |duration: super::value::Duration| Duration::from_micros(duration.us());
    let client = Settings {
        allow_private,
        ports: hook.ports.clone(),
        deadline: us(hook.within),
        concurrency_max: hook.concurrency_max,
        queue_max: hook.queue_max,
        idle_timeout: us(hook.idle),
        batching: Batching { questions_max: hook.batch_max, wait: us(hook.batch_wait) },
        ..Settings::new(url.clone(), secret.bytes())
    };
    let connect = hook.connect.then_some(hook.connect_fail);
    Ok(Some(HookSettings { client, ca: hook.ca.clone(), connect, forwarding }))
}
