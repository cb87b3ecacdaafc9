//! Word lists that staff and back ends write over HTTP: one for every room, and one for each of some rooms.
//!
//! They are kept in one file of the data directory, which no name of a room ever becomes a part of the path of. A list is
//! compiled before it is written down: what cannot be used changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use danmaku_wire::id::RoomId;
use danmaku_words::{ListError, ListOptions, WordList};
use serde::{Deserialize, Serialize};

use crate::private_file;
use crate::watched::{Look, look};

const FILE: &str = "words.json";

/// How much may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all lists together.
    pub bytes_max: usize,
    /// Rooms with a list of their own.
    pub rooms_max: usize,
    /// Rules of one list.
    pub words_max: usize,
}

/// Why a list was not written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// A line says something that is no rule.
    #[error(transparent)]
    List(#[from] ListError),
    /// All lists together would be longer than they may be.
    #[error("all written lists together have at most {0} bytes: `words.written_bytes_max` says so")]
    TooLong(usize),
    /// As many rooms have lists as may.
    #[error("at most {0} rooms have lists of their own: `words.written_rooms_max` says so")]
    TooManyRooms(usize),
    /// The file cannot be written, or what is there cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

/// A list as it was written, and what it was compiled to.
#[derive(Clone)]
pub struct Written {
    /// Its text.
    pub text: Arc<str>,
    /// The list.
    pub list: Arc<WordList>,
}

#[derive(Default, Clone)]
struct Lists {
    everywhere: Option<Written>,
    rooms: BTreeMap<RoomId, Written>,
    /// The file's state when it was read or written.
    seen: Option<Look>,
}

impl Lists {
    fn all(&self) -> impl Iterator<Item = &Written> {
        self.everywhere.iter().chain(self.rooms.values())
    }
}

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    everywhere: String,
    #[serde(default)]
    rooms: BTreeMap<String, String>,
}

/// All written lists. Behind a lock that no worker ever takes.
pub struct WrittenWords {
    path: PathBuf,
    lists: Mutex<Lists>,
}

impl WrittenWords {
    /// The lists of a data directory, which are there after [`Self::read`].
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE), lists: Mutex::default() }
    }

    /// Reads the file, if it is another one than was read or written last. Compiling takes half a second for 100,000 words:
    /// never on a worker.
    ///
    /// # Errors
    /// When the file cannot be read, is none of this server's, or has a list that cannot be used.
    pub fn read(&self, words_max: usize) -> Result<(), NotWritten> {
        let seen = look(&self.path);
        if seen.is_none() || self.lists().seen == seen {
            return Ok(());
        }
        let io = |source| NotWritten::Io { path: self.path.clone(), source };
        let wrong = |error: &dyn std::fmt::Display| {
            io(io::Error::new(io::ErrorKind::InvalidData, format!("no lists of this server: {error}")))
        };
        let bytes = fs::read(&self.path).map_err(io)?;
        let document: Document = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
        let compiled = |text: String, room: Option<&RoomId>| {
            let list = Arc::new(compile(room, &text, words_max)?);
            Ok::<_, NotWritten>(Written { text: text.into(), list })
        };
        let mut lists = Lists { seen, ..Lists::default() };
        if !document.everywhere.is_empty() {
            lists.everywhere = Some(compiled(document.everywhere, None)?);
        }
        for (room, text) in document.rooms {
            let room = RoomId::parse(&room).map_err(|error| wrong(&error))?;
            let written = compiled(text, Some(&room))?;
            lists.rooms.insert(room, written);
        }
        *self.lists() = lists;
        Ok(())
    }

    /// The list of every room, or that of one.
    pub fn get(&self, room: Option<&RoomId>) -> Option<Written> {
        let lists = self.lists();
        room.map_or(lists.everywhere.clone(), |room| lists.rooms.get(room).cloned())
    }

    /// The lists of single rooms.
    pub fn of_rooms(&self) -> Vec<(RoomId, Arc<WordList>)> {
        self.lists().rooms.iter().map(|(room, written)| (room.clone(), Arc::clone(&written.list))).collect()
    }

    /// Rules of all lists, and the memory they take, bytes.
    pub fn size(&self) -> (usize, usize) {
        let lists = self.lists();
        let rules = lists.all().map(|written| written.list.len()).sum();
        (rules, lists.all().map(|written| written.list.heap_bytes() + written.text.len()).sum())
    }

    /// Writes a list in the place of the one there is; an empty one takes it away. It is on the disk when this returns, and
    /// holds once a configuration with it is taken over. Whoever writes holds the lock of those who change the
    /// configuration; never on a worker.
    ///
    /// # Errors
    /// When the list cannot be used, there is no room for it, or it cannot be written down: nothing changes then.
    pub fn write(&self, room: Option<&RoomId>, text: &str, bounds: Bounds) -> Result<(), NotWritten> {
        let mut lists = self.lists().clone();
        let written = match text.trim().is_empty() {
            true => None,
            false => {
                let list = Arc::new(compile(room, text, bounds.words_max)?);
                Some(Written { text: text.into(), list })
            }
        };
        match (room, written) {
            (None, written) => lists.everywhere = written,
            (Some(room), None) => drop(lists.rooms.remove(room)),
            (Some(room), Some(written)) => {
                if !lists.rooms.contains_key(room) && lists.rooms.len() >= bounds.rooms_max {
                    return Err(NotWritten::TooManyRooms(bounds.rooms_max));
                }
                lists.rooms.insert(room.clone(), written);
            }
        }
        if lists.all().map(|written| written.text.len()).sum::<usize>() > bounds.bytes_max {
            return Err(NotWritten::TooLong(bounds.bytes_max));
        }
        self.write_down(&lists).map_err(|source| NotWritten::Io { path: self.path.clone(), source })?;
        lists.seen = look(&self.path);
        *self.lists() = lists;
        Ok(())
    }

    fn write_down(&self, lists: &Lists) -> io::Result<()> {
        let text = |written: &Written| written.text.to_string();
        let document = Document {
            everywhere: lists.everywhere.as_ref().map(text).unwrap_or_default(),
            rooms: lists.rooms.iter().map(|(room, list)| (room.as_str().to_owned(), text(list))).collect(),
        };
        private_file::write(&self.path, &serde_json::to_vec_pretty(&document)?)
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compile(room: Option<&RoomId>, text: &str, words_max: usize) -> Result<WordList, ListError> {
    let name =
        room.map_or("the list of all rooms".to_owned(), |room| format!("the list of {}", room.as_str()));
    WordList::compile(&ListOptions { name: &name, words_max, ..ListOptions::default() }, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of a test's own, gone with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("danmaku-words-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a directory");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const BOUNDS: Bounds = Bounds { bytes_max: 40, rooms_max: 2, words_max: 10 };

    fn room(name: &str) -> RoomId {
        RoomId::parse(name).expect("a room")
    }

    fn text(words: &WrittenWords, room: Option<&RoomId>) -> Option<String> {
        words.get(room).map(|written| written.text.to_string())
    }

    /// `write` and `read`: what was written is there for the next process; what is refused changes neither.
    #[test]
    fn what_was_written_is_there_for_the_next_process() {
        let directory = Scratch::new("kept");
        let words = WrittenWords::of(&directory.0);
        words.read(10).expect("nothing is no error");
        words.write(None, "scum\n", BOUNDS).expect("written");
        words.write(Some(&room("r1")), "spoiler mask", BOUNDS).expect("written");
        words.write(Some(&room("r2")), "bet", BOUNDS).expect("written");
        let refused = |room: Option<&RoomId>, text: &str, word: &str| {
            let told = words.write(room, text, BOUNDS).expect_err(text).to_string();
            assert!(told.contains(word), "{text}: {told}");
        };
        refused(None, "fine\nx\n", "2");
        refused(None, &"word ".repeat(10), "words.written_bytes_max");
        refused(Some(&room("r3")), "more", "words.written_rooms_max");
        for words in [&words, &WrittenWords::of(&directory.0)] {
            words.read(10).expect("read");
            assert_eq!(text(words, None).as_deref(), Some("scum\n"));
            assert_eq!(text(words, Some(&room("r1"))).as_deref(), Some("spoiler mask"));
            assert_eq!(words.of_rooms().len(), 2);
            assert_eq!(words.size().0, 3);
        }
        words.write(None, " \n", BOUNDS).expect("taken away");
        words.write(Some(&room("r1")), "", BOUNDS).expect("taken away");
        let next = WrittenWords::of(&directory.0);
        next.read(10).expect("read");
        assert_eq!((text(&next, None), next.of_rooms().len()), (None, 1));
    }

    /// `read`: a file that is no such file is named, and what is wrong with it.
    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let directory = Scratch::new("wrong");
        for (contents, word) in [
            ("", "EOF"),
            ("7", "no lists of this server"),
            (r#"{"rooms":{"a b":"scum"}}"#, "no lists of this server"),
            (r#"{"everywhere":"x"}"#, "the list of all rooms"),
        ] {
            fs::write(directory.0.join(FILE), contents).expect("written");
            let told = WrittenWords::of(&directory.0).read(10).expect_err(contents).to_string();
            assert!(told.contains(word), "{contents}: {told}");
        }
    }
}
