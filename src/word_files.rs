//! Word lists in files: read and compiled apart from the workers, at the start, at SIGHUP and when a file has changed.
//!
//! A list that cannot be used changes nothing: what was compiled before goes on, and one line of the log says which
//! line of which file is wrong.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use danmaku_words::{LIST_BYTES_MAX, ListError, ListOptions, WordList};

use crate::config::Config;
use crate::config::words::WordFile;
use crate::observe::cells::Cells;
use crate::watched::{LOOK_EVERY, Look, look};
use crate::wiring::Shared;
use crate::written_words::{NotWritten, WrittenWords};

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WordFileError {
    /// The file cannot be read, or is not UTF-8.
    #[error("word list {path}: {source}", path = .path.display().to_string())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A line says something that is no rule.
    #[error(transparent)]
    List(#[from] ListError),
    /// What was written over HTTP cannot be read again.
    #[error(transparent)]
    Written(#[from] NotWritten),
}

/// A list with the state of its file when it was read.
#[derive(Clone)]
struct Compiled {
    seen: Option<Look>,
    list: Arc<WordList>,
}

/// The lists of a configuration.
#[derive(Clone, Default)]
pub struct Lists(HashMap<WordFile, Compiled>);

/// All lists in use.
pub struct WordFiles {
    /// Those that staff and back ends write.
    pub written: WrittenWords,
    used: Mutex<Lists>,
    /// States of files that were of no use: each is told of once, not at every look.
    refused: Mutex<HashMap<PathBuf, Option<Look>>>,
}

impl WordFiles {
    /// None yet, but for where a data directory has what was written.
    pub fn of(data_dir: &Path) -> Self {
        Self { written: WrittenWords::of(data_dir), used: Mutex::default(), refused: Mutex::default() }
    }

    /// The lists of a configuration, whose rooms get them. A file is read if it is new or has changed; that may take
    /// seconds, and is never to be done on a worker. They are in use from [`Self::take`] on.
    ///
    /// # Errors
    /// When a list cannot be used.
    pub fn read(&self, config: &mut Config) -> Result<Lists, WordFileError> {
        let Lists(known) = self.used();
        let mut lists = HashMap::new();
        let files: Vec<WordFile> = config.rooms().flat_map(|room| room.word_files.iter().cloned()).collect();
        for file in files {
            if lists.contains_key(&file) {
                continue;
            }
            let seen = look(&file.path);
            let old = known.get(&file).filter(|old| seen.is_some() && old.seen == seen).cloned();
            let compiled = match old {
                Some(old) => old,
                None => Compiled { seen, list: Arc::new(self.compile(&file, seen, config.words_max)?) },
            };
            lists.insert(file, compiled);
        }
        self.written.read(config.words_max)?;
        let lists = Lists(lists);
        self.give(config, &lists);
        Ok(lists)
    }

    /// Gives every room of a configuration its lists, of files and written ones.
    pub fn give(&self, config: &mut Config, Lists(lists): &Lists) {
        let everywhere = self.written.get(None).map(|written| written.list);
        config.set_words(
            |file| lists.get(file).map(|compiled| Arc::clone(&compiled.list)),
            everywhere.as_ref(),
            self.written.of_rooms(),
        );
        let ((rules, bytes), (more, more_bytes)) = (size(lists), self.written.size());
        config.words_size = (rules + more, bytes + more_bytes);
    }

    /// Takes note of the lists that are in use from now on.
    pub fn take(&self, lists: Lists) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = lists;
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The lists of files that are in use.
    pub fn used(&self) -> Lists {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn compile(
        &self,
        file: &WordFile,
        seen: Option<Look>,
        words_max: usize,
    ) -> Result<WordList, WordFileError> {
        let read = || -> Result<WordList, WordFileError> {
            let mut text = String::new();
            let opened = File::open(&file.path);
            let taken =
                opened.and_then(|file| file.take(LIST_BYTES_MAX as u64 + 1).read_to_string(&mut text));
            taken.map_err(|source| WordFileError::Read { path: file.path.clone(), source })?;
            let name = file.path.display().to_string();
            let (action, profile) = (file.action, file.profile);
            Ok(WordList::compile(&ListOptions { name: &name, action, profile, words_max }, &text)?)
        };
        read().inspect_err(|_| {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.insert(file.path.clone(), seen);
        })
    }

    /// Whether a file in use is another one than was read or refused.
    fn has_changed(&self) -> bool {
        let Lists(known) = self.used();
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|(file, compiled)| {
            let now = look(&file.path);
            now != compiled.seen && refused.get(&file.path) != Some(&now)
        })
    }
}

/// Rules of all lists, and the memory they take, bytes.
fn size(lists: &HashMap<WordFile, Compiled>) -> (usize, usize) {
    let rules = lists.values().map(|compiled| compiled.list.len()).sum();
    (rules, lists.values().map(|compiled| compiled.list.heap_bytes()).sum())
}

impl std::fmt::Debug for WordFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WordFiles")
    }
}

impl std::fmt::Debug for Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Reads lists again when their files have changed, until another process serves. On a thread of its own.
pub fn watch(shared: &Shared, cells: &Cells) {
    while !shared.replaced.is_set() {
        std::thread::sleep(LOOK_EVERY);
        if !shared.words.has_changed() {
            continue;
        }
        // Whoever else changes the configuration waits: what is read from it here is what is put back.
        let _changing = shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut config = Config::clone(&shared.config.load());
        match shared.words.read(&mut config) {
            Ok(lists) => {
                shared.words.take(lists);
                let (rules, bytes) = config.words_size;
                shared.take_config(config);
                cells.word_lists_read.add(1);
                tracing::info!(rules, bytes, "word lists were read again");
            }
            Err(error) => {
                cells.word_lists_refused.add(1);
                tracing::error!(%error, "the word lists were not read again; the old ones stay");
            }
        }
    }
}
