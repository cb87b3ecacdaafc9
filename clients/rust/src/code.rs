//! What the protocol's codes mean for a client: after which a command may be tried again, and after
//! which a connection.

use std::time::Duration;

use crate::position::Epoch;

/// Errors after which the same command may succeed later: "try again" in the protocol's table.
pub(crate) const RETRYABLE: [&str; 11] = [
    "ids_full",
    "muted",
    "slow_mode",
    "read_only",
    "rate_limited",
    "overloaded",
    "too_many_rooms",
    "store_unavailable",
    "not_owner",
    "unavailable",
    "internal",
];

/// Errors that say nothing about the comment, only about the moment: sent again by the session itself.
const OF_THE_MOMENT: [&str; 5] = ["ids_full", "not_owner", "internal", "unavailable", "overloaded"];

/// Close codes after which the same session is of no use: "come back: no" in the protocol's table.
pub(crate) const FINAL: [u16; 9] = [1002, 1003, 1007, 1008, 1009, 4001, 4003, 4004, 4009];

/// The token ran out; with a new one the session may come back.
pub(crate) const TOKEN_EXPIRED: u16 = 4001;

/// Refusals of the `join` command.
const OF_JOINING: [&str; 4] = ["room_invalid", "room_not_found", "room_closed", "too_many_rooms"];

/// Refusals of the `auth` command.
const OF_TOKENS: [&str; 4] = ["token_invalid", "token_expired", "not_supported", "unauthorized"];

/// The server's no to a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
#[non_exhaustive]
pub struct Refusal {
    /// The code to decide by; later servers may know more of them than the protocol's table lists today.
    pub code: String,
    /// For people who read logs.
    pub message: String,
    /// The earliest time from now at which another try makes sense.
    pub retry_after: Option<Duration>,
    /// Viewers saw the comment all the same (`not_stored` only).
    pub shown: bool,
    /// Its number where it was shown.
    pub seq: Option<u64>,
    /// The epoch of the number where it is not the current one.
    pub epoch: Option<Epoch>,
    /// How many commands this one message stands for (`too_many_errors` only).
    pub count: Option<u64>,
}

impl Refusal {
    /// Whether the same command may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        RETRYABLE.contains(&self.code.as_str())
    }

    /// Whether the session sends the comment again by itself.
    pub(crate) fn is_of_the_moment(&self) -> bool {
        OF_THE_MOMENT.contains(&self.code.as_str())
    }

    /// Whether it stands for refusals that were not told one by one.
    pub(crate) fn is_of_many(&self) -> bool {
        self.code == "too_many_errors"
    }

    pub(crate) fn is_of_joining(&self) -> bool {
        OF_JOINING.contains(&self.code.as_str())
    }

    pub(crate) fn is_of_tokens(&self) -> bool {
        OF_TOKENS.contains(&self.code.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of one of the tables in docs/protocol.md, as cells.
    fn table(name: &str) -> Vec<Vec<String>> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
        let page = std::fs::read_to_string(path).expect("the protocol's page");
        let (_, rest) = page.split_once(&format!("<!-- {name}: begin")).expect("the table's begin");
        let (table, _) = rest.split_once(&format!("<!-- {name}: end")).expect("the table's end");
        let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2);
        let cells =
            |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        rows.map(cells).collect()
    }

    /// `RETRYABLE`: the protocol's column "try again".
    #[test]
    fn what_may_be_tried_again_is_what_the_protocol_says() {
        let rows = table("error codes");
        assert!(rows.len() > 30, "{rows:?}");
        for row in rows {
            let code = row[0].trim_matches('`');
            assert_eq!(RETRYABLE.contains(&code), row[1] == "yes", "{code}");
        }
    }

    /// `FINAL`: the protocol's column "come back".
    #[test]
    fn a_close_is_final_where_the_protocol_says_so() {
        let rows = table("close codes");
        assert!(rows.len() > 10, "{rows:?}");
        for row in rows {
            let code: u16 = row[0].parse().expect("a number");
            assert_eq!(FINAL.contains(&code), row[2] == "no", "{code}");
        }
    }
}
