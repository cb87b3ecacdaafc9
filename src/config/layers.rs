//! Where settings come from: a file, over it the environment, over it the command line; and where one
//! that is wrong was said.

use std::path::{Path, PathBuf};

use figment::error::{Actual, Kind};
use figment::{Figment, providers::Serialized};
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::raw::Raw;

/// What variables of the environment begin with; `__` stands between table and key.
pub const ENV_PREFIX: &str = "DANMAKU__";

/// What was said, layer by layer.
#[derive(Debug)]
pub struct Layers {
    file: Option<(PathBuf, String)>,
    env: Vec<(String, String)>,
}

impl Layers {
    /// Reads the file, if there is one, and takes of `env` what is meant for this program.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(
        file: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let read = |path: &Path| match std::fs::read_to_string(path) {
            Ok(text) => Ok((path.to_owned(), text)),
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        let mut env: Vec<_> = env.into_iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
        env.sort();
        Ok(Self { file: file.map(read).transpose()?, env })
    }

    /// Lays them over each other.
    ///
    /// # Errors
    /// The first thing that is not TOML, not a key or not a value, with where it was said.
    pub fn raw(&self) -> Result<Raw, ConfigError> {
        let mut figment = Figment::new();
        if let Some((path, text)) = &self.file {
            let table: toml::Table = toml::from_str(text).map_err(|error| ConfigError::Syntax {
                path: path.clone(),
                line: error.span().map_or(1, |span| line_of(text, span.start)),
                message: one_line(error.message()),
            })?;
            figment = figment.merge(Serialized::defaults(table));
        }
        for (name, value) in &self.env {
            let value: figment::value::Value = value.parse().unwrap_or_else(|never| match never {});
            figment = figment.merge((key_of(name).join("."), value));
        }
        figment.extract().map_err(|error| self.explain(error))
    }

    /// Where a key was said, for a reader: a place in the file, a variable, or nowhere (the default).
    pub fn origin(&self, key: &str) -> String {
        let path: Vec<_> = key.split('.').collect();
        let variable = self.env.iter().rev().find(|(name, _)| key_of(name) == path);
        if let Some((name, _)) = variable {
            return format!("environment variable {name}");
        }
        match &self.file {
            Some((file, text)) => match find(text, &path) {
                Some(at) => format!("{}:{}", file.display(), line_of(text, at)),
                None => file.display().to_string(),
            },
            None => "default".to_owned(),
        }
    }

    /// One sentence about the first thing that is wrong.
    fn explain(&self, error: figment::Error) -> ConfigError {
        let path = error.path.clone();
        let (key, message) = match error.kind {
            Kind::UnknownField(name, known) => {
                // The path ends with the key that is not known.
                let table = path[..path.len().saturating_sub(1)].join(".");
                let place =
                    if table.is_empty() { "the tables are".to_owned() } else { format!("`{table}` has") };
                let near = nearest(&name, known).map(|n| format!("did you mean `{n}`? ")).unwrap_or_default();
                (path.join("."), format!("there is no such key; {near}{place} {}", known.join(", ")))
            }
            Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
                let expected = expected.to_string();
                (path.join("."), format!("{} cannot be used: it takes {}", shown(&actual), worded(&expected)))
            }
            Kind::UnknownVariant(variant, known) => {
                let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
                (path.join("."), format!("\"{variant}\" cannot be used: it takes {}", known.join(" or ")))
            }
            Kind::MissingField(name) => {
                (path.join("."), format!("`{name}` is missing; every entry of this table needs it"))
            }
            kind => (path.join("."), one_line(&kind.to_string())),
        };
        ConfigError::Key { origin: self.origin(&key), key, message }
    }
}

/// `DANMAKU__FLUSH__MAX_TICK` is `flush.max_tick`.
fn key_of(variable: &str) -> Vec<String> {
    variable[ENV_PREFIX.len()..].split("__").map(str::to_ascii_lowercase).collect()
}

/// The byte at which a key's value stands in a file, or the nearest table around it. Of an array of
/// tables the first that has the key.
fn find(text: &str, path: &[&str]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    find_in(table.get_ref(), path)
}

fn find_in(table: &DeTable<'_>, path: &[&str]) -> Option<usize> {
    let (name, rest) = path.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    let deeper = match value.get_ref() {
        DeValue::Table(inner) => find_in(inner, rest),
        DeValue::Array(items) => {
            // An entry may be named by its number.
            let rest = match rest.split_first() {
                Some((number, behind)) if number.parse::<usize>().is_ok() => behind,
                _ => rest,
            };
            items.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(inner) => find_in(inner, rest),
                _ => None,
            })
        }
        _ => None,
    };
    Some(deeper.unwrap_or(key.span().start))
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(actual: &Actual) -> String {
    match actual {
        Actual::Str(text) => format!("{text:?}"),
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => number.to_string(),
        Actual::Map => "a table".to_owned(),
        Actual::Seq => "an array".to_owned(),
        other => other.to_string(),
    }
}

/// What Rust's types are called by people.
fn worded(expected: &str) -> &str {
    match expected {
        "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "f64" => "a number",
        "a boolean" | "bool" => "true or false",
        other => other,
    }
}

/// The known name that was probably meant: at most two letters off.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().map(|k| (distance(name, k), *k)).filter(|(d, _)| *d <= 2).min().map(|(_, k)| k)
}

/// Letters to insert, delete or change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(text: &str, env: &[(&str, &str)]) -> Layers {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Layers { file: Some((PathBuf::from("live.toml"), text.to_owned())), env }
    }

    /// `Layers::raw`: what is wrong is told in one line with its place, its key, its value and what would be right.
    #[test]
    fn what_is_wrong_is_told_with_its_place_and_what_would_be_right() {
        let secret = "x".repeat(31);
        let short = format!("[[auth.keys]]\nid = \"k\"\nsecret = \"{secret}\"\n");
        for (text, env, words) in [
            (
                "[server]\nlisten_on = 1",
                &[][..],
                &["live.toml:2", "server.listen_on", "`server` has listen"][..],
            ),
            ("[server]\nlistem = \"x\"", &[], &["did you mean `listen`"]),
            ("\n[serverr]\n", &[], &["live.toml:2", "`serverr`", "did you mean `server`", "slow_consumer"]),
            ("[flush]\nmax_tick = \"10\"", &[], &["live.toml:2", "flush.max_tick", "\"10\"", "10s"]),
            ("[flush]\nmax_tick = 10", &[], &["flush.max_tick", "10 cannot"]),
            ("[limits]\nuser_burst = -1", &[], &["limits.user_burst", "-1 cannot", "a whole number"]),
            ("[websocket]\ndeflate = \"yes\"", &[], &["websocket.deflate", "\"yes\"", "true or false"]),
            ("[room]\nbacklog_bytes = \"1MB\"", &[], &["room.backlog_bytes", "1MB", "MiB"]),
            (
                "[limits]\nuser_mode = \"on\"",
                &[],
                &["limits.user_mode", "\"on\"", "\"enforce\" or \"observe\" or \"off\""],
            ),
            ("[server]\nlisten = \"localhost\"", &[], &["server.listen", "localhost"]),
            ("[server]\nlisten = ", &[], &["live.toml:2", "TOML"]),
            ("[[rooms]]\nuser_burst = 1", &[], &["rooms", "`match` is missing"]),
            ("[[rooms]]\nmatch = \"a b\"", &[], &["live.toml:2", "rooms", "a b", "shop-*"]),
            (&short, &[], &["auth.keys", "31 bytes", "at least 32"]),
            (
                "",
                &[("DANMAKU__FLUSH__MAX_TICK", "fast")],
                &["variable DANMAKU__FLUSH__MAX_TICK", "fast", "10s"],
            ),
            (
                "",
                &[("DANMAKU__FLUSH__TICK", "1s")],
                &["variable DANMAKU__FLUSH__TICK", "`flush` has max_tick"],
            ),
        ] {
            let error = layers(text, env).raw().expect_err(text).to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(!error.contains(&secret), "{error}");
        }
    }

    /// `Layers::raw`: the environment goes over the file, key by key.
    #[test]
    fn the_environment_goes_over_the_file() {
        let env = [("DANMAKU__FLUSH__MAX_TICK", "300ms"), ("DANMAKU__SERVER__WORKERS", "3")];
        let text = "[flush]\nmax_tick = \"400ms\"\nseal_bytes = \"8KiB\"\n";
        let layers = layers(text, &env);
        let raw = layers.raw().expect("valid");
        assert_eq!(raw.flush.max_tick.us(), 300_000);
        assert_eq!(raw.flush.seal_bytes.0, 8 << 10);
        assert_eq!(raw.server.workers, Some(3));
        assert_eq!(layers.origin("flush.max_tick"), "environment variable DANMAKU__FLUSH__MAX_TICK");
        assert_eq!(layers.origin("flush.seal_bytes"), "live.toml:3");
        assert_eq!(layers.origin("room.linger"), "live.toml");
    }
}
