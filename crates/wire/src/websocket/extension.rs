//! Offers of permessage-deflate (RFC 6455 §9.1, RFC 7692 §5 to §7.1).
//!
//! In come the values of `Sec-WebSocket-Extensions`, in order; out comes the answer to the first
//! offer that can be met, or none. It decides nothing about whether deflate is wanted.

/// Header values that are no extension list (RFC 6455 §9.1: the connection must fail).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// What the server answers to the offer that it took. Both sides start anew with every message:
/// that is what lets one deflated frame go to every peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateAnswer {
    /// The client asked for `server_max_window_bits=15`; an accepted parameter must be repeated
    /// (RFC 7692 §7.1.2.1).
    pub repeats_window_bits: bool,
}

impl DeflateAnswer {
    /// The value of the answer's `Sec-WebSocket-Extensions`.
    ///
    /// `client_max_window_bits` is never answered: every window can be inflated, and a client that
    /// did not offer it must not get it (RFC 7692 §7.1.2.2).
    pub fn header_value(self) -> &'static str {
        match self.repeats_window_bits {
            false => "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
            true => {
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover; \
                 server_max_window_bits=15"
            }
        }
    }
}

/// Reads all header values as one list and answers the first offer that can be met.
pub(super) fn answer<'h>(values: impl Iterator<Item = &'h [u8]>) -> Result<Option<DeflateAnswer>, Malformed> {
    let mut answer = None;
    for value in values {
        let mut scan = Scan { rest: value };
        loop {
            scan.skip_space();
            // A list may hold empty elements (RFC 9110 §5.6.1.2).
            if !scan.rest.is_empty() && !scan.rest.starts_with(b",") {
                // All is read even after a match, so that a malformed end is not overlooked.
                let offered = offer(&mut scan)?;
                answer = answer.or(offered);
            }
            if scan.rest.is_empty() {
                break;
            }
            scan.expect(b',')?;
        }
    }
    Ok(answer)
}

/// One extension with its parameters; `None` if it is another extension or cannot be met.
fn offer(scan: &mut Scan<'_>) -> Result<Option<DeflateAnswer>, Malformed> {
    let mut parameters =
        Parameters { acceptable: scan.token()? == b"permessage-deflate", ..Parameters::default() };
    loop {
        scan.skip_space();
        if !scan.rest.starts_with(b";") {
            return Ok(parameters
                .acceptable
                .then_some(DeflateAnswer { repeats_window_bits: parameters.server_window_bits }));
        }
        scan.expect(b';')?;
        scan.skip_space();
        let name = scan.token()?;
        scan.skip_space();
        let value = match scan.rest.starts_with(b"=") {
            true => {
                scan.expect(b'=')?;
                scan.skip_space();
                Some(scan.token_or_quoted()?)
            }
            false => None,
        };
        parameters.add(name, value.as_deref());
    }
}

/// What an offer holds so far. The flags are true once their parameter has been seen.
#[derive(Default)]
struct Parameters {
    acceptable: bool,
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_window_bits: bool,
    client_window_bits: bool,
}

impl Parameters {
    /// RFC 7692 §7.1: an unknown, repeated or wrong parameter declines the offer.
    fn add(&mut self, name: &[u8], value: Option<&[u8]>) {
        let (seen, right) = match name {
            b"server_no_context_takeover" => (&mut self.server_no_context_takeover, value.is_none()),
            b"client_no_context_takeover" => (&mut self.client_no_context_takeover, value.is_none()),
            // A smaller window would need frames of its own.
            b"server_max_window_bits" => (&mut self.server_window_bits, value == Some(b"15")),
            b"client_max_window_bits" => (&mut self.client_window_bits, value.is_none_or(is_window_bits)),
            _ => {
                self.acceptable = false;
                return;
            }
        };
        self.acceptable &= right && !*seen;
        *seen = true;
    }
}

/// 8 to 15 without a leading zero.
fn is_window_bits(value: &[u8]) -> bool {
    matches!(value, b"8" | b"9" | b"10" | b"11" | b"12" | b"13" | b"14" | b"15")
}

/// A header value and how far it has been read.
struct Scan<'v> {
    rest: &'v [u8],
}

impl<'v> Scan<'v> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        self.rest = self.rest.strip_prefix(&[byte]).ok_or(Malformed)?;
        Ok(())
    }

    fn token(&mut self) -> Result<&'v [u8], Malformed> {
        let bytes = self.rest.iter().take_while(|byte| is_token_byte(**byte)).count();
        let (token, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        if token.is_empty() { Err(Malformed) } else { Ok(token) }
    }

    /// A value; a quoted one must be a token once its escapes are undone (RFC 6455 §9.1).
    fn token_or_quoted(&mut self) -> Result<Vec<u8>, Malformed> {
        if !self.rest.starts_with(b"\"") {
            return self.token().map(<[u8]>::to_vec);
        }
        self.expect(b'"')?;
        let mut value = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            let byte = match byte {
                b'"' => break,
                b'\\' => {
                    let (&escaped, rest) = rest.split_first().ok_or(Malformed)?;
                    self.rest = rest;
                    escaped
                }
                byte => byte,
            };
            value.push(byte);
        }
        let is_token = !value.is_empty() && value.iter().all(|byte| is_token_byte(*byte));
        if is_token { Ok(value) } else { Err(Malformed) }
    }
}

/// RFC 9110 §5.6.2.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
