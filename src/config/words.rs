//! Which files hold word lists, and what their lines mean where they say nothing.

use std::path::PathBuf;

use danmaku_room::admission::words::LISTS_MAX;
use danmaku_words::{Action, Profile};
use serde::{Deserialize, Deserializer, de};

use super::raw;
use super::section::OutOfBounds;
use super::value::Setting;

/// A file with a word list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WordFile {
    /// Where it is.
    pub path: PathBuf,
    /// The action of a line without one.
    pub action: Action,
    /// The profile of a line without one.
    pub profile: Profile,
}

/// Two more lists of a room may be written over HTTP.
const FILES_MAX: usize = LISTS_MAX - 2;

const ACTIONS: [(&str, Action); 4] =
    [("drop", Action::Drop), ("shadow", Action::Shadow), ("hold", Action::Hold), ("mask", Action::Mask)];
const PROFILES: [(&str, Profile); 2] = [("strict", Profile::Strict), ("marks", Profile::Marks)];

fn of<T: Copy, E: de::Error>(names: &[(&str, T)], said: Option<&str>, expected: &str) -> Result<T, E> {
    let Some(said) = said else { return Ok(names[0].1) };
    let found = names.iter().find(|(name, _)| *name == said).map(|(_, value)| *value);
    found.ok_or_else(|| E::invalid_value(de::Unexpected::Str(said), &expected))
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, other)| *other == value).map_or("", |(name, _)| name)
}

impl<'de> Deserialize<'de> for WordFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            path: PathBuf,
            action: Option<String>,
            profile: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Path(PathBuf),
            Table(Table),
        }
        let written = Written::deserialize(deserializer).map_err(|_| {
            de::Error::custom(
                "a word list is the path of a file, or { path = \"words.txt\", action = \"hold\", profile = \"marks\" }",
            )
        })?;
        let Table { path, action, profile } = match written {
            Written::Path(path) => Table { path, action: None, profile: None },
            Written::Table(table) => table,
        };
        let action = of(&ACTIONS, action.as_deref(), "\"drop\", \"shadow\", \"hold\" or \"mask\"")?;
        let profile = of(&PROFILES, profile.as_deref(), "\"strict\" or \"marks\"")?;
        Ok(Self { path, action, profile })
    }
}

impl Setting for Vec<WordFile> {
    fn written(&self) -> Option<String> {
        let one = |file: &WordFile| {
            let path = file.path.written().unwrap_or_default();
            let (action, profile) = (name_of(&ACTIONS, file.action), name_of(&PROFILES, file.profile));
            format!("{{ path = {path}, action = \"{action}\", profile = \"{profile}\" }}")
        };
        Some(format!("[{}]", self.iter().map(one).collect::<Vec<_>>().join(", ")))
    }
}

/// The lists of a room: those of all rooms, then its own.
pub(super) fn files(words: &raw::Words) -> Result<Vec<WordFile>, OutOfBounds> {
    let mut files = words.lists.clone();
    for file in &words.room_words {
        if !files.contains(file) {
            files.push(file.clone());
        }
    }
    if files.len() <= FILES_MAX {
        return Ok(files);
    }
    Err(OutOfBounds {
        key: "words.lists".to_owned(),
        value: words.lists.written().unwrap_or_default(),
        expected: format!("at most {FILES_MAX} lists for a room, those of `words.room_words` included"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Said {
        lists: Vec<WordFile>,
    }

    /// `WordFile`: a path alone or a table; what is written is read back; what is wrong is named.
    #[test]
    fn a_list_is_a_path_or_a_table() {
        let read = |text: &str| toml::from_str::<Said>(&format!("lists = [{text}]"));
        let plain = WordFile { path: "a.txt".into(), action: Action::Drop, profile: Profile::Strict };
        let other = WordFile { path: "b.txt".into(), action: Action::Mask, profile: Profile::Marks };
        let said = read(r#""a.txt", { path = "b.txt", action = "mask", profile = "marks" }"#).expect("valid");
        assert_eq!(said.lists, [plain, other]);
        let written = said.lists.written().expect("a value");
        assert_eq!(toml::from_str::<Said>(&format!("lists = {written}")).expect("valid").lists, said.lists);
        for (text, complaint) in [
            (r#"{ path = "b.txt", action = "ban" }"#, "\"drop\", \"shadow\", \"hold\" or \"mask\""),
            (r#"{ path = "b.txt", profile = "loose" }"#, "\"strict\" or \"marks\""),
            (r#"{ action = "drop" }"#, "the path of a file"),
            ("7", "the path of a file"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
