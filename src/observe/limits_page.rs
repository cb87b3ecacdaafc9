//! `docs/limits.md`, written from the table of limits.

use std::fmt::Write;

use danmaku_room::admission::rule::{Mode, Rule};

use super::limits::{Limit, Load, MEMORY, Per, worst_case};
use crate::config::raw::Raw;
use crate::config::{Config, Flags};

const HEAD: &str = "\
# Limits

<!-- written from src/observe/limits.rs by its tests: UPDATE_GOLDEN=1 rewrites it -->

Every limit has a key ([config.md](config.md)), a counter (`danmaku_limit_met_total{limit=\"…\"}`) and a test that meets it on the
wire. Meeting one costs whoever meets it, never the room. What a connection is refused for is told by code
([protocol.md](protocol.md#error-codes)); a close or a status ends it.
";

const RULES_HEAD: &str = "
## Rules of admission

What a room asks of a comment, in this order; the first rule that stands against it is named in the refusal. Each key says how its rule
acts: `enforce` refuses and counts (`danmaku_rule_refused_total{rule=\"…\"}`), `observe` counts what it would refuse
(`danmaku_rule_observed_total`) and lets it pass, `off` does not ask. What is refused has cost its author nothing. Moderators, the streamer
and staff are VIPs, and are not held to the room's modes but `closed`, `ended` and `read_only`.

| rule | key | default | code | VIPs | refuses |
| --- | --- | --- | --- | --- | --- |
";

const MEMORY_HEAD: &str = "
## Memory at worst

What each of these holds when everybody costs all that they may at the same time, with the default configuration. It is a
bound and not an expectation: an idle session holds its state alone. Memory of the kernel comes on top: about 32 KiB that were not sent and
what the peer's window lets out, for each socket that is not read.

| what | for each | how | bytes |
| --- | --- | --- | --- |
";

/// The loads that the page shows.
const LOADS: [Load; 3] = [
    Load { workers: 2, sessions: 1_000, requests: 100, rooms: 10 },
    Load { workers: 8, sessions: 100_000, requests: 1_000, rooms: 100 },
    Load { workers: 8, sessions: 0, requests: 0, rooms: 0 },
];

/// The page.
pub fn page() -> String {
    let keys = Raw::default().keys();
    let config = Config::load(None, [], &Flags::default()).expect("the defaults are valid");
    let mut out = HEAD.to_owned();
    out.push_str("\n| limit | key | default | what | when it is met |\n| --- | --- | --- | --- | --- |\n");
    for limit in Limit::ALL {
        let row = limit.row();
        let value = keys.iter().find(|key| key.path() == row.key).and_then(|key| key.value.clone());
        let value = value.unwrap_or_else(|| "absent".to_owned());
        let value = value.trim_matches('"');
        let _ = writeln!(out, "| `{}` | `{}` | {value} | {} | {} |", row.name, row.key, row.what, row.met);
    }
    rules(&mut out);
    out.push_str(MEMORY_HEAD);
    for memory in MEMORY {
        let bytes = size((memory.bytes)(&config) as u64);
        let _ = writeln!(out, "| {} | {} | {} | {bytes} |", memory.name, memory.per.as_str(), memory.formula);
    }
    out.push_str("\nThe sum for some loads:\n\n| workers | sessions | HTTP connections | busy rooms | bytes at worst |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for load in LOADS {
        let [workers, sessions, requests, rooms] =
            [Per::Worker, Per::Session, Per::Request, Per::Room].map(|per| load.count(per));
        let sum = size(worst_case(&config, &load));
        let _ = writeln!(out, "| {workers} | {sessions} | {requests} | {rooms} | {sum} |");
    }
    out
}

fn rules(out: &mut String) {
    out.push_str(RULES_HEAD);
    for rule in Rule::ALL {
        let row = rule.row();
        let mode = match row.default {
            Mode::Enforce => "enforce",
            Mode::Observe => "observe",
            Mode::Off => "off",
        };
        let vips = if row.spares_vip { "spared below the ceiling" } else { "held to it" };
        let code = row.code.as_str();
        let _ =
            writeln!(out, "| `{}` | `{}` | {mode} | `{code}` | {vips} | {} |", row.name, row.key, row.what);
    }
}

/// Bytes in the largest unit of which there are ten at least.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift >= 10) {
        Some((shift, unit)) => format!("{} {unit}", (bytes as f64 / f64::from(1u32 << shift)).round()),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `page`: what is committed is what the code says.
    #[test]
    fn the_page_of_limits_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/limits.md");
        let text = page();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).expect("written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, text, "docs/limits.md is not what the code says; UPDATE_GOLDEN=1 rewrites it");
    }

    /// `Limit::row`: names are labels, and no two limits share one.
    #[test]
    fn every_limit_has_a_name_of_its_own() {
        for (place, limit) in Limit::ALL.iter().enumerate() {
            assert_eq!(*limit as usize, place);
            let name = limit.row().name;
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(Limit::ALL.iter().filter(|other| other.row().name == name).count(), 1, "{name}");
        }
    }

    /// `worst_case`: it grows with everything that holds memory, and fits what it counts.
    #[test]
    fn the_sum_counts_everything() {
        let config = Config::load(None, [], &Flags::default()).expect("the defaults are valid");
        let none = Load { workers: 0, sessions: 0, requests: 0, rooms: 0 };
        assert_eq!(worst_case(&config, &none), 0);
        for load in [
            Load { workers: 1, ..none },
            Load { sessions: 1, ..none },
            Load { requests: 1, ..none },
            Load { rooms: 1, ..none },
        ] {
            assert!(worst_case(&config, &load) > 1_000, "{load:?}");
        }
    }
}
