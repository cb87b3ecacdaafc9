//! The opening handshake (RFC 6455 §4.2).
//!
//! In come the method and header fields of a request whose HTTP somebody else has parsed; out come
//! what was agreed and the head of the answer, or what would have been right. Who may connect, from
//! which origin and to which room is not decided here, and a token is handed on, never checked,
//! printed or sent back.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD};
use sha1::{Digest as _, Sha1};

use super::extension;
pub use super::extension::DeflateAnswer;

/// The longest token that a subprotocol may carry, in bytes after decoding.
pub const AUTH_TOKEN_BYTES_MAX: usize = 4096;

/// What comes before a token among the subprotocols.
const AUTH_PREFIX: &str = "danmaku.auth.";
/// RFC 6455 §1.3.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a decoded `Sec-WebSocket-Key`.
const KEY_BYTES: usize = 16;

/// A nonce is only hashed as it stands: some clients leave junk in its unused bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// What the endpoint is willing to agree to.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Whether permessage-deflate may be agreed.
    pub deflate: bool,
    /// Subprotocols spoken here; of those a client offers, its first that is in this list is taken.
    pub subprotocols: &'static [&'static str],
}

/// Why a request is no WebSocket handshake. The message says what would be right and holds nothing
/// of the request, so that it may go into an answer and a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Not GET.
    #[error("a WebSocket handshake is a GET request")]
    Method,
    /// HTTP/1.0 or older.
    #[error("a WebSocket handshake needs HTTP/1.1 or later")]
    HttpVersion,
    /// No `Host`, or several.
    #[error("the request must have one Host header")]
    Host,
    /// `Upgrade` does not name `websocket`.
    #[error("this endpoint speaks WebSocket: send \"Upgrade: websocket\"")]
    Upgrade,
    /// `Connection` does not name `Upgrade`, often because of a proxy that does not forward it.
    #[error("\"Connection: Upgrade\" is missing: a proxy on the way may have removed it")]
    Connection,
    /// Another version than 13, several, or none.
    #[error("the request must have one Sec-WebSocket-Version header, 13")]
    Version,
    /// No key, several, or one that is not 16 bytes in base64.
    #[error("the request must have one Sec-WebSocket-Key header, 16 bytes in base64")]
    Key,
    /// A list of subprotocols that is none.
    #[error("Sec-WebSocket-Protocol must be a list of tokens separated by commas")]
    Subprotocols,
    /// A token that cannot be read, or more than one.
    #[error("danmaku.auth. must be followed by one token of at most 4096 bytes in base64url without padding")]
    AuthToken,
    /// A list of extensions that is none (RFC 6455 §9.1).
    #[error("Sec-WebSocket-Extensions must be a list of extensions as in RFC 6455 section 9.1")]
    Extensions,
}

impl HandshakeError {
    /// The status of the answer: 400, 405 or 426.
    pub fn status(&self) -> u16 {
        match self {
            Self::Method => 405,
            Self::Upgrade | Self::Version => 426,
            Self::HttpVersion
            | Self::Host
            | Self::Connection
            | Self::Key
            | Self::Subprotocols
            | Self::AuthToken
            | Self::Extensions => 400,
        }
    }

    /// Header fields that an answer with this status must have.
    pub fn headers(&self) -> &'static [(&'static str, &'static str)] {
        match self.status() {
            405 => &[("Allow", "GET")],
            426 => &[("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")],
            _ => &[],
        }
    }
}

/// What was agreed. It prints without the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The value of `Sec-WebSocket-Accept`.
    pub key: [u8; 28],
    /// The subprotocol taken; none if none was offered that is spoken here.
    pub subprotocol: Option<&'static str>,
    /// The token offered as `danmaku.auth.<base64url>`. A browser sets no header, and refuses an
    /// answer that takes none of its subprotocols, so that it must offer a real one beside it.
    pub auth_token: Option<String>,
    /// Whether and how messages may be deflated.
    pub deflate: Option<DeflateAnswer>,
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accepted")
            .field("subprotocol", &self.subprotocol)
            .field("auth_token", &self.auth_token.as_ref().map(|_| "hidden"))
            .field("deflate", &self.deflate)
            .finish_non_exhaustive()
    }
}

impl Accepted {
    /// Appends the whole head of the answer, from the status line to the empty line.
    pub fn write_response(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ",
        );
        out.extend_from_slice(&self.key);
        if let Some(subprotocol) = self.subprotocol {
            out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
            out.extend_from_slice(subprotocol.as_bytes());
        }
        if let Some(deflate) = self.deflate {
            out.extend_from_slice(b"\r\nSec-WebSocket-Extensions: ");
            out.extend_from_slice(deflate.header_value().as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// Checks a request (RFC 6455 §4.2.1) and chooses what to agree to (§4.2.2).
///
/// Header names are compared without case; a field may come once or in several parts.
///
/// # Errors
/// When the request is no handshake of version 13. An offer that cannot be met is no error: it is
/// declined, and the connection goes on without it.
pub fn accept<'h>(
    method: &str,
    http11_or_later: bool,
    headers: impl Iterator<Item = (&'h str, &'h [u8])> + Clone,
    policy: &Policy,
) -> Result<Accepted, HandshakeError> {
    let values = |name: &'static str| {
        headers
            .clone()
            .filter(move |(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim_ascii())
    };
    if method != "GET" {
        return Err(HandshakeError::Method);
    }
    if !http11_or_later {
        return Err(HandshakeError::HttpVersion);
    }
    only(values("host")).ok_or(HandshakeError::Host)?;
    if !names(values("upgrade"), "websocket") {
        return Err(HandshakeError::Upgrade);
    }
    if !names(values("connection"), "upgrade") {
        return Err(HandshakeError::Connection);
    }
    if only(values("sec-websocket-version")) != Some(b"13") {
        return Err(HandshakeError::Version);
    }
    let key = only(values("sec-websocket-key")).filter(|key| is_key(key)).ok_or(HandshakeError::Key)?;
    let (subprotocol, auth_token) = subprotocols(values("sec-websocket-protocol"), policy)?;
    let deflate =
        extension::answer(values("sec-websocket-extensions")).map_err(|_| HandshakeError::Extensions)?;
    let wanted = policy.deflate && !values("user-agent").any(cannot_inflate);
    Ok(Accepted { key: accept_key(key), subprotocol, auth_token, deflate: deflate.filter(|_| wanted) })
}

/// The only value of a field; `None` if there is none or another.
fn only<'h>(mut values: impl Iterator<Item = &'h [u8]>) -> Option<&'h [u8]> {
    let first = values.next();
    first.filter(|_| values.next().is_none())
}

/// Whether a list names `token`, in any case.
fn names<'h>(mut values: impl Iterator<Item = &'h [u8]>, token: &str) -> bool {
    values.any(|value| elements(value).any(|element| element.eq_ignore_ascii_case(token.as_bytes())))
}

/// The elements of a list, empty ones left out (RFC 9110 §5.6.1.2).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

fn is_key(key: &[u8]) -> bool {
    // The length first: a stranger's megabyte is not decoded to find out that it is no key.
    let mut nonce = [0; KEY_BYTES + 2];
    key.len() == 24 && LENIENT.decode_slice(key, &mut nonce) == Ok(KEY_BYTES)
}

/// RFC 6455 §4.2.2, item 5.4.
fn accept_key(key: &[u8]) -> [u8; 28] {
    let digest = Sha1::new().chain_update(key).chain_update(KEY_SUFFIX).finalize();
    let mut accept = [0; 28];
    let written = STANDARD.encode_slice(digest, &mut accept).expect("20 bytes are 28 characters in base64");
    assert_eq!(written, accept.len());
    accept
}

/// The subprotocol taken and the token found.
fn subprotocols<'h>(
    values: impl Iterator<Item = &'h [u8]>,
    policy: &Policy,
) -> Result<(Option<&'static str>, Option<String>), HandshakeError> {
    let mut taken = None;
    let mut token = None;
    for offered in values.flat_map(elements) {
        if !offered.iter().all(|byte| extension::is_token_byte(*byte)) {
            return Err(HandshakeError::Subprotocols);
        }
        if let Some(encoded) = offered.strip_prefix(AUTH_PREFIX.as_bytes()) {
            let decoded = auth_token(encoded).ok_or(HandshakeError::AuthToken)?;
            if token.replace(decoded).is_some() {
                return Err(HandshakeError::AuthToken);
            }
        } else {
            let spoken = || policy.subprotocols.iter().copied().find(|name| name.as_bytes() == offered);
            taken = taken.or_else(spoken);
        }
    }
    Ok((taken, token))
}

fn auth_token(encoded: &[u8]) -> Option<String> {
    // Four characters carry three bytes.
    if encoded.is_empty() || encoded.len() > AUTH_TOKEN_BYTES_MAX.div_ceil(3) * 4 {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().filter(|token| token.len() <= AUTH_TOKEN_BYTES_MAX)
}

/// Safari 15.0 to 15.3 agrees to deflate and then closes on the first compressed frame it cannot
/// read; 15.4 is well again. Chrome names a Safari too, but never as its version.
fn cannot_inflate(user_agent: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(user_agent, b"Version/15.") else { return false };
    let rest = &user_agent[at + b"Version/15.".len()..];
    let has = |name: &[u8]| memchr::memmem::find(user_agent, name).is_some();
    let is_broken_minor = matches!(rest, [b'0'..=b'3', next, ..] if !next.is_ascii_digit());
    is_broken_minor && memchr::memmem::find(rest, b" Safari/").is_some() && !has(b"Chrome")
}
