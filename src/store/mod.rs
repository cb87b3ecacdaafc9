//! Where entries are kept: implementations of [`danmaku_room::store::Store`].

pub mod by_durability;
pub mod memory;
pub mod secret;
pub mod sqlite;
pub mod tally;

use std::sync::Arc;

use danmaku_room::store::Store;

use crate::config::Config;
use crate::config::store::EPOCHS_MAX;
use by_durability::ByDurability;
use memory::MemoryStore;
use sqlite::{OpenError, SqliteStore};
use tally::StoreTally;

/// What a server keeps its rooms in.
pub struct Backing {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What it has done.
    pub tally: Arc<StoreTally>,
    /// The secret of the keyed hashes in it, where it has any.
    pub secret: Option<[u8; 16]>,
    /// What is to be closed at the end.
    file: Option<Arc<SqliteStore>>,
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Backing {
    /// A store of the caller's.
    pub fn of(store: Arc<dyn Store>) -> Self {
        Self { store, tally: Arc::default(), secret: None, file: None }
    }

    /// A store that forgets when the process ends.
    pub fn memory(config: &Config) -> Self {
        Self::of(Arc::new(memory_store(config)))
    }

    /// The configured store: rooms that promise anything are on the disk.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let tally = Arc::<StoreTally>::default();
        let file = Arc::new(SqliteStore::open(config.store.clone(), Arc::clone(&tally))?);
        let store = Arc::new(ByDurability::new(memory_store(config), Arc::clone(&file)));
        Ok(Self { store, tally, secret: Some(file.secret()), file: Some(file) })
    }

    /// What commits everything that was appended, at the end.
    pub fn closer(&self) -> Box<dyn FnOnce() + Send> {
        let file = self.file.clone();
        Box::new(move || file.iter().for_each(|file| file.close()))
    }
}

fn memory_store(config: &Config) -> MemoryStore {
    let ids = config.rooms().next().map(|room| room.owner.limits.ids).unwrap_or_default();
    MemoryStore::new(memory::Bounds {
        rooms_max: config.rooms_max,
        entries_max: config.rooms().map(|room| room.snapshot_entries).max().unwrap_or(0).max(64),
        ids_max: ids.ids_max,
        ids_ms: ids.window_us / 1_000,
        epochs_max: EPOCHS_MAX,
    })
}
