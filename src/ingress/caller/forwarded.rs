//! What proxies say of whom they speak for: `Forwarded` (RFC 7239), and the older `X-Forwarded-For` and
//! `X-Forwarded-Proto`.
//!
//! Each proxy adds whom it heard to the right. What stands left of the last proxy that is trusted may have been
//! written by anybody, the caller included, so the list is read from the right.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::HeaderMap;

use crate::ingress::network::Network;

/// Hops looked at, from the right: chains of proxies are short, and a stranger may write as many as fit in a head.
const HOPS_MAX: usize = 16;

const FORWARDED: &str = "Forwarded";
const X_FORWARDED_FOR: &str = "X-Forwarded-For";
const X_FORWARDED_PROTO: &str = "X-Forwarded-Proto";
/// Fields that only proxies write: who sends one is no program on this machine that speaks for itself.
const WRITTEN_BY_PROXIES: [&str; 6] =
    [FORWARDED, X_FORWARDED_FOR, X_FORWARDED_PROTO, "X-Forwarded-Host", "X-Real-IP", "Via"];

/// The first field of those that proxies write, if the request has one.
pub(super) fn trace(headers: &HeaderMap) -> Option<&'static str> {
    WRITTEN_BY_PROXIES.into_iter().find(|name| headers.contains_key(*name))
}

/// What the proxies say of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// The right-most address that is no trusted proxy's; `None` where it is hidden or not told.
    pub(super) address: Option<IpAddr>,
    /// Whether the caller spoke TLS to the proxy that heard it; `None` where nobody says.
    pub(super) secure: Option<bool>,
}

/// Reads the fields of a request that a trusted proxy sent. `Forwarded` is the standard and goes first. A proxy that
/// writes one of the fields passes the other on as the caller wrote it, though: where they name two callers one of them
/// is a lie, and neither is believed.
pub(super) fn read(headers: &HeaderMap, trusted: &[Network]) -> Told {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let standard = headers.contains_key(FORWARDED).then(|| forwarded(headers, is_trusted));
    if let Some(told) = standard
        && !headers.contains_key(X_FORWARDED_FOR)
    {
        return told;
    }
    let hops = from_the_right(headers, X_FORWARDED_FOR, plain).map(|hop| node(hop.trim_ascii()));
    let (address, _) = caller_of(hops, is_trusted);
    if let Some(told) = standard {
        let same = told.address.map(|a| a.to_canonical()) == address.map(|a| a.to_canonical());
        return if same { told } else { Told::default() };
    }
    // Proxies set this field rather than add to it; what the nearest of them says counts.
    let scheme = from_the_right(headers, X_FORWARDED_PROTO, plain).next();
    Told { address, secure: scheme.and_then(|scheme| is_secure(scheme.trim_ascii())) }
}

fn forwarded(headers: &HeaderMap, is_trusted: impl Fn(IpAddr) -> bool) -> Told {
    let elements = from_the_right(headers, FORWARDED, |line| split_unquoted(line, b','));
    let mut schemes = Vec::new();
    let hops = elements.map(|element| {
        let (hop, scheme) = hop(element).unwrap_or_default();
        schemes.push(scheme);
        hop
    });
    let (address, hop) = caller_of(hops, is_trusted);
    Told { address, secure: schemes.get(hop).copied().flatten() }
}

/// What an element says of a hop: its address, and whether it spoke TLS. `None` where the element is none by the
/// grammar: a quote that the caller left open may have swallowed the beginning of what a proxy wrote behind it, so
/// that the rest of it would be taken for a part of the caller's own element.
fn hop(element: &[u8]) -> Option<(Option<IpAddr>, Option<bool>)> {
    let (mut address, mut scheme) = (None, None);
    for pair in split_unquoted(element, b';') {
        if pair.trim_ascii().is_empty() {
            continue;
        }
        let at = memchr::memchr(b'=', pair)?;
        let (name, value) = (pair[..at].trim_ascii(), unquoted(pair[at + 1..].trim_ascii())?);
        if name.contains(&b'"') {
            return None;
        }
        if name.eq_ignore_ascii_case(b"for") {
            address = node(&value);
        } else if name.eq_ignore_ascii_case(b"proto") {
            scheme = is_secure(&value);
        }
    }
    Some((address, scheme))
}

/// Walks from the right over the trusted hops: the first that is not, and how many were passed. A hop that is hidden
/// (`unknown`, `_x`, anything that is no address) ends the walk: what lies left of it is hearsay.
fn caller_of(
    hops: impl Iterator<Item = Option<IpAddr>>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> (Option<IpAddr>, usize) {
    let mut last = (None, 0);
    for (passed, hop) in hops.take(HOPS_MAX).enumerate() {
        let Some(address) = hop else { return (None, passed) };
        last = (Some(address), passed);
        if !is_trusted(address) {
            break;
        }
    }
    // Proxies all the way: the first of them speaks for itself.
    last
}

/// The elements of a list that may come in several fields, the last first.
fn from_the_right<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
    split: impl Fn(&'h [u8]) -> Vec<&'h [u8]>,
) -> impl Iterator<Item = &'h [u8]> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
    lines.into_iter().rev().flat_map(move |line| {
        let mut elements = split(line);
        elements.reverse();
        // Empty elements are to be overlooked (RFC 9110, 5.6.1.2).
        elements.into_iter().filter(|element| !element.trim_ascii().is_empty())
    })
}

/// The older fields know no quotes.
fn plain(line: &[u8]) -> Vec<&[u8]> {
    line.split(|byte| *byte == b',').collect()
}

/// Splits where the separator stands outside quotes. A quote that is never closed quotes nothing: otherwise a caller
/// could swallow with one what a proxy wrote behind it.
fn split_unquoted(text: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut parts, mut start, mut quote, mut escaped) = (Vec::new(), 0, None, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quote.is_some() => escaped = true,
            b'"' => quote = if quote.is_none() { Some(at) } else { None },
            byte if *byte == separator && quote.is_none() => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    for at in quote.map_or(text.len(), |quote| quote + 1)..text.len() {
        if text[at] == separator {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A token, or what a quoted string means (RFC 9110, 5.6.4). `None` where a quote stands anywhere else.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let Some(inner) = text.strip_prefix(b"\"") else {
        return (!text.contains(&b'"')).then(|| text.to_vec());
    };
    let (mut meant, mut rest) = (Vec::new(), inner.iter());
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => meant.push(*rest.next()?),
            b'"' => return rest.as_slice().is_empty().then_some(meant),
            byte => meant.push(*byte),
        }
    }
    None
}

/// The address of a node (RFC 7239, section 6), with or without a port; `None` for `unknown`, for names made up to
/// hide an address, and for whatever else is none. IPv6 without brackets is what `X-Forwarded-For` holds.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        let fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return fits.then(|| address.into());
    }
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (address, port) = text.split_once(':')?;
    let address: std::net::Ipv4Addr = address.parse().ok()?;
    is_port(port).then(|| address.into())
}

/// Digits, or a name made up for a port.
fn is_port(text: &str) -> bool {
    let hidden =
        |rest: &str| rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits || text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && hidden(rest))
}

fn is_secure(scheme: &[u8]) -> Option<bool> {
    let is = |names: [&str; 2]| names.iter().any(|name| scheme.eq_ignore_ascii_case(name.as_bytes()));
    match scheme {
        _ if is(["https", "wss"]) => Some(true),
        _ if is(["http", "ws"]) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
