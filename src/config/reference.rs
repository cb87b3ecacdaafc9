//! The reference of all keys, written from the code: `deploy/danmaku.toml` and `docs/config.md`.

use std::fmt::Write;

use super::class::CLASS_KEYS;
use super::layers::ENV_PREFIX;
use super::raw::Raw;
use super::section::Key;

/// What stands over the keys in the file.
const FILE_HEAD: &str = "\
# Every setting of danmaku with its default. This file as it is changes nothing: delete what you do not need.
# Durations and sizes are strings with a unit. An unknown key or an impossible value is refused before a
# port is bound: `danmaku check-config FILE` tells which. SIGHUP reads the file again; what is marked
# \"restart\" waits for one.
";

/// What stands over the tables in the page.
const PAGE_HEAD: &str = "\
# Configuration

<!-- written from src/config by its tests: UPDATE_GOLDEN=1 rewrites it -->

Settings come from a TOML file (`danmaku serve --config FILE`), over it the environment, over it the command line.
[deploy/danmaku.min.toml](../deploy/danmaku.min.toml) is a start, [deploy/danmaku.toml](../deploy/danmaku.toml) has every key with its default.
";

/// `deploy/danmaku.toml`: every key with its default.
pub fn file() -> String {
    let mut out = FILE_HEAD.to_owned();
    let mut table = "";
    for key in Raw::default().keys() {
        if key.table != table {
            table = key.table;
            let _ = write!(out, "\n[{table}]");
        }
        out.push('\n');
        for line in wrapped(&comment(&key), 110) {
            let _ = writeln!(out, "# {line}");
        }
        let _ = match (&key.value, example(&key)) {
            (_, Some(example)) => write!(out, "# {} = {example}", key.name),
            (Some(value), None) => write!(out, "{} = {value}", key.name),
            (None, None) => write!(out, "# {} =", key.name),
        };
        out.push('\n');
    }
    out.push_str(
        "\n# Rooms whose names match get other settings; the first match counts. `*` stands for any characters.\n\
         # A class may set: ",
    );
    let keys = wrapped(&format!("{}.", CLASS_KEYS.join(", ")), 90);
    out.push_str(&keys.join("\n# "));
    out.push_str("\n# [[rooms]]\n# match = \"shop-*\"\n# user_burst = 3\n# user_per_s = 0.5\n");
    out
}

/// `docs/config.md`.
pub fn page() -> String {
    let mut out = PAGE_HEAD.to_owned();
    let _ = writeln!(
        out,
        "\nIn the environment `flush.max_tick` is `{ENV_PREFIX}FLUSH__MAX_TICK`; `[[auth.keys]]` is \
         `{ENV_PREFIX}AUTH__KEYS='[{{id=\"k1\", secret=\"…\"}}]'`.\n\
         A key marked *restart* changes at the next start; every other one changes when the process gets SIGHUP, \
         and the log says which did. A file that cannot be used changes nothing.\n"
    );
    let mut table = "";
    for key in Raw::default().keys() {
        if key.table != table {
            table = key.table;
            let _ = writeln!(
                out,
                "\n## `[{table}]`\n\n| key | default | range | meaning |\n| --- | --- | --- | --- |"
            );
        }
        let default = key.value.as_ref().map_or("absent".to_owned(), |value| format!("`{value}`"));
        let range = key
            .bounds
            .map_or(String::new(), |(least, most)| format!("`{}` to `{}`", bare(least), bare(most)));
        let restart = if key.restart { " *restart*" } else { "" };
        let _ = writeln!(out, "| `{}` | {default} | {range} | {}{restart} |", key.name, key.doc);
    }
    let keys: Vec<_> = CLASS_KEYS.iter().map(|name| format!("`{name}`")).collect();
    let _ = writeln!(
        out,
        "\n## `[[rooms]]`\n\nRooms whose names match `match` (`*` stands for any characters; the first match counts) \
         get other settings. A class may set {}; what it leaves out is as `[limits]` and `[room]` say.",
        keys.join(", ")
    );
    out
}

/// What a key means, with its bounds.
fn comment(key: &Key) -> String {
    let mut text = key.doc.to_owned();
    if let Some((least, most)) = key.bounds {
        let _ = write!(text, " From {} to {}.", bare(least), bare(most));
    }
    if key.restart {
        text.push_str(" (restart)");
    }
    text
}

/// What stands, as a comment, in the place of a default that is nothing.
fn example(key: &Key) -> Option<&'static str> {
    match (key.table, key.name) {
        ("server", "workers") => Some("4"),
        ("server", "advertised_url") => Some("\"wss://live.example\""),
        ("auth", "anonymous" | "query_token") => Some("false"),
        ("auth", "jwks") => Some("\"https://id.example/.well-known/jwks.json\""),
        ("auth", "jwks_ca") => Some("\"ca.pem\""),
        ("auth", "audience") => Some("\"chat\""),
        ("auth", "staff_audience") => Some("\"chat-staff\""),
        ("auth", "issuer") => Some("\"https://id.example\""),
        ("webhook", "url") => Some("\"https://moderation.example/danmaku\""),
        ("webhook", "secret") => Some("\"the output of: openssl rand -base64 32\""),
        ("webhook", "ca") => Some("\"ca.pem\""),
        ("auth", "keys") => Some("[{ id = \"k1\", secret = \"the output of: openssl rand -base64 32\" }]"),
        _ => None,
    }
}

fn bare(value: &str) -> &str {
    value.trim_matches('"')
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Flags};
    use std::path::Path;

    fn committed(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, text).expect("written");
        }
        let found = std::fs::read_to_string(&path).expect(name);
        assert_eq!(found, text, "{name} is not what the code says; UPDATE_GOLDEN=1 rewrites it");
    }

    /// `file` and `page`: what is committed is what the code says.
    #[test]
    fn the_reference_is_what_the_code_says() {
        committed("deploy/danmaku.toml", &file());
        committed("docs/config.md", &page());
    }

    /// `file`: the reference file is a configuration that changes nothing; the commented examples are valid too.
    #[test]
    fn the_reference_file_says_the_defaults() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/danmaku.toml");
        let read = Config::load(Some(&path), [], &Flags::default()).expect("valid");
        let default = Config::load(None, [], &Flags::default()).expect("valid");
        assert_eq!(read.clone().reload_over(&default), Default::default());
        let mut examples = String::new();
        for line in file().lines() {
            let bare = line.strip_prefix("# ").unwrap_or(line);
            let is_setting = bare.starts_with('[')
                || bare
                    .split_once(" = ")
                    .is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            if is_setting {
                examples.push_str(bare);
                examples.push('\n');
            }
        }
        let raw: Raw = toml::from_str(&examples).expect("the examples are settings");
        assert_eq!((raw.rooms.len(), raw.auth.keys.len(), raw.server.workers), (1, 1, Some(4)));
    }

    /// Every setting that a sentence anywhere in the source names as `table.name` is one.
    #[test]
    fn every_setting_that_the_source_names_is_one() {
        let keys = Raw::default().keys();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut named = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("listed").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("text");
                for word in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
                    let Some((table, name)) = word.split_once('.') else { continue };
                    if keys.iter().any(|key| key.table == table) && !name.contains(['(', ' ']) {
                        let known = keys.iter().any(|key| (key.table, key.name) == (table, name));
                        assert!(known, "{}: there is no setting `{word}`", path.display());
                        named += 1;
                    }
                }
            }
        }
        assert!(named > 20, "only {named} settings were found");
    }
}
