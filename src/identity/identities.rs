//! All that the server knows of who is calling: keys, tokens that were verified, tickets, and what was decided about
//! users since.
//!
//! Every table is behind a lock of its own, taken alone and for a lookup: when connections begin, change their identity
//! or their room, and never for a comment or a delivery.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::{ArcSwap, Guard};
use danmaku_wire::id::{RoomId, UserId};
use tokio::sync::Notify;

use super::api_key::{self, KeysError, ShownKeys};
use super::key_set::{KeyError, KeySet};
use super::publication::{Publication, PublicationError, ask, read};
use super::tickets::{NoTicket, Tickets};
use super::token::{self, TOKEN_BYTES_MAX, TokenError};
use super::user::{Identity, Presence};
use super::users::{Change, Decision, NotKept, Users};
use super::verified::{self, Verified};
use crate::config::Config;
use crate::config::auth::{JwksSettings, JwksSource};
use crate::observe::cells::Cells;
use crate::watched::{LOOK_EVERY, Look, look};

/// Why the server cannot know who is calling.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A configured key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key set's file cannot be used.
    #[error("`auth.jwks`: {0}")]
    Publication(#[from] PublicationError),
    /// The keys of back ends cannot be read.
    #[error(transparent)]
    ApiKeys(#[from] KeysError),
}

/// Whether the keys of a configuration can be used, as far as files tell.
///
/// # Errors
/// The first that cannot.
pub fn check(config: &Config) -> Result<(), IdentityError> {
    KeySet::of(&config.auth_keys)?;
    if let Some(JwksSettings { source: JwksSource::File(path), .. }) = &config.jwks {
        read(path)?;
    }
    Ok(())
}

/// What became of a token.
#[derive(Debug)]
pub struct Known {
    /// Who showed it.
    pub identity: Arc<Identity>,
    /// Whether it had been verified before.
    pub again: bool,
}

/// The whole of it, shared by all workers.
#[derive(Debug)]
pub struct Identities {
    keys: ArcSwap<KeySet>,
    /// Whoever changes the keys holds this.
    publication: Mutex<Publication>,
    /// A token named a key that is not there.
    key_wanted: AtomicBool,
    look_now: Notify,
    verified: Mutex<Verified>,
    tickets: Mutex<Tickets>,
    users: Mutex<Users>,
    /// Users in that table: while there are none, nobody takes its lock.
    users_changed: AtomicUsize,
    api_keys: ArcSwap<ShownKeys>,
    started: Instant,
}

impl Identities {
    /// What a configuration says; keys that are published elsewhere are still to be had.
    ///
    /// # Errors
    /// When a key or a file of keys cannot be used.
    pub fn of(config: &Config) -> Result<Self, IdentityError> {
        Ok(Self {
            keys: ArcSwap::from_pointee(KeySet::of(&config.auth_keys)?),
            publication: Mutex::new(Publication::new(config.jwks.clone())),
            key_wanted: AtomicBool::new(false),
            look_now: Notify::new(),
            verified: Mutex::default(),
            tickets: Mutex::default(),
            users: Mutex::default(),
            users_changed: AtomicUsize::new(0),
            api_keys: ArcSwap::from_pointee(ShownKeys::read(&config.data_dir)?),
            started: Instant::now(),
        })
    }

    /// Takes another configuration over. Keys of a key set stay while they come from the same place.
    ///
    /// # Errors
    /// When a key cannot be used: nothing changes then.
    pub fn reload(&self, config: &Config) -> Result<(), IdentityError> {
        let configured = KeySet::of(&config.auth_keys)?;
        let mut publication = lock(&self.publication);
        let other = publication.reconfigure(config.jwks.clone());
        let keys = if other { configured } else { configured.with_published_of(&self.keys.load()) };
        self.replace(keys);
        drop(publication);
        self.look_now.notify_one();
        Ok(())
    }

    /// Puts other keys in the place of those that count. The caller holds the lock of the publication.
    fn replace(&self, mut keys: KeySet) {
        keys.generation = self.keys.load().generation + 1;
        let generation = keys.generation;
        self.keys.store(Arc::new(keys));
        lock(&self.verified).restart(generation);
    }

    /// Who shows a token at `now_s`, seconds since 1970.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn known(&self, token: &str, config: &Config, now_s: u64) -> Result<Known, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let hash = verified::hash(token);
        let keys = self.keys.load();
        let leeway_s = config.token_rules.leeway_s;
        let found = lock(&self.verified).find(&hash, keys.generation, now_s, leeway_s);
        let again = found.is_some();
        let identity = match found {
            Some(identity) => identity,
            None => {
                let verified = token::verify(token, &keys, &config.token_rules, now_s);
                if verified == Err(TokenError::UnknownKey) && !self.key_wanted.swap(true, Ordering::Relaxed) {
                    self.look_now.notify_one();
                }
                let identity = Arc::new(verified?);
                let kept = Arc::clone(&identity);
                lock(&self.verified).keep(hash, kept, keys.generation, config.verified_max);
                identity
            }
        };
        if self.is_revoked(&identity) {
            return Err(TokenError::Revoked);
        }
        Ok(Known { identity, again })
    }

    /// Whether an identity counts no more, as its user's tokens of that time were revoked.
    pub fn is_revoked(&self, identity: &Identity) -> bool {
        self.users_changed.load(Ordering::Acquire) > 0 && lock(&self.users).is_revoked(identity)
    }

    /// Whether a user is otherwise than its token says.
    pub fn is_changed(&self, identity: &Identity) -> bool {
        self.users_changed.load(Ordering::Acquire) > 0 && lock(&self.users).is_changed(identity)
    }

    /// Who a user is in a room: as its token says, and as it was changed since.
    pub fn presence(&self, identity: &Identity, room: &RoomId) -> Presence {
        if self.users_changed.load(Ordering::Acquire) == 0 {
            return identity.presence(room);
        }
        lock(&self.users).presence(identity, room)
    }

    /// From now on, tokens of a user that were issued before a time (seconds since 1970) count no more. Sessions that have
    /// such a token are still to be told.
    ///
    /// # Errors
    /// When too many users are remembered.
    pub fn revoke(
        &self,
        user: &UserId,
        issued_before_s: u64,
        config: &Config,
        now_s: u64,
    ) -> Result<(), NotKept> {
        let mut users = lock(&self.users);
        users.revoke(user, issued_before_s, now_s, config.users_changed_max)?;
        self.users_changed.store(users.len(), Ordering::Release);
        Ok(())
    }

    /// From now on a user is otherwise than its older tokens say. Sessions are still to be told.
    ///
    /// # Errors
    /// When too many users are remembered.
    pub fn change(&self, user: &UserId, change: Change, config: &Config, now_s: u64) -> Result<(), NotKept> {
        let mut users = lock(&self.users);
        users.change(user, change, now_s, config.users_changed_max)?;
        self.users_changed.store(users.len(), Ordering::Release);
        Ok(())
    }

    /// All that was decided about users.
    pub fn decisions(&self) -> Vec<Decision> {
        lock(&self.users).decisions()
    }

    /// Takes over what another process had decided about users.
    pub fn take_over(&self, decisions: Vec<Decision>) {
        let mut users = lock(&self.users);
        users.take_over(decisions);
        self.users_changed.store(users.len(), Ordering::Release);
    }

    /// A ticket of a user for a room.
    ///
    /// # Errors
    /// When there are too many.
    pub fn make_ticket(
        &self,
        identity: Arc<Identity>,
        room: RoomId,
        config: &Config,
    ) -> Result<String, NoTicket> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the system's random source answers");
        lock(&self.tickets).make(identity, room, random, self.now_ms(), config.tickets)
    }

    /// Uses up a ticket: whose it is.
    pub fn take_ticket(&self, ticket: &str, room: &RoomId) -> Option<Arc<Identity>> {
        let identity = lock(&self.tickets).take(ticket, room, self.now_ms())?;
        (!self.is_revoked(&identity)).then_some(identity)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX >> 1)
    }

    /// The keys of back ends.
    pub fn api_keys(&self) -> Guard<Arc<ShownKeys>> {
        self.api_keys.load()
    }

    /// Entries of the tables: verified tokens, tickets, users changed.
    pub fn used(&self) -> [usize; 3] {
        [lock(&self.verified).len(), lock(&self.tickets).len(), self.users_changed.load(Ordering::Relaxed)]
    }

    /// Asks for published keys for the first time, before anybody comes. A file that cannot be used is an error of the
    /// configuration; an address that does not answer may do so later.
    ///
    /// # Errors
    /// When the file of a key set cannot be used.
    pub fn begin(self: &Arc<Self>, config: &Config, cells: &Arc<Cells>) -> Result<(), IdentityError> {
        let Some(jwks) = &config.jwks else { return Ok(()) };
        let (identities, cells) = (Arc::clone(self), Arc::clone(cells));
        // A runtime of its own: who starts a server may be within one.
        let asked = std::thread::spawn(move || -> std::io::Result<Result<(), PublicationError>> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(identities.look_at_keys(&cells)))
        });
        let told = match asked.join() {
            Ok(Ok(told)) => told,
            _ => Ok(()),
        };
        match told {
            Err(error) if matches!(jwks.source, JwksSource::File(_)) => Err(error.into()),
            Err(error) => {
                tell(&error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Reads the keys of back ends again, at once.
    ///
    /// # Errors
    /// When they cannot be read; the old ones stay.
    pub fn read_api_keys(&self, data_dir: &Path) -> Result<(), KeysError> {
        self.api_keys.store(Arc::new(ShownKeys::read(data_dir)?));
        Ok(())
    }

    /// Looks after published keys and the keys of back ends, for ever.
    pub async fn watch(&self, data_dir: &Path, cells: &Cells) {
        let file = data_dir.join(api_key::FILE);
        let mut seen: Option<Look> = None;
        loop {
            let now = look(&file);
            if now != seen {
                seen = now;
                match ShownKeys::read(data_dir) {
                    Ok(keys) => self.api_keys.store(Arc::new(keys)),
                    Err(error) => {
                        tracing::error!(%error, "the keys of back ends were not read; the old ones stay")
                    }
                }
            }
            if let Err(error) = self.look_at_keys(cells).await {
                tell(&error);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.look_now.notified() => {}
            }
        }
    }

    /// Asks for published keys, if it is time.
    async fn look_at_keys(&self, cells: &Cells) -> Result<(), PublicationError> {
        let due = lock(&self.publication).due(&self.key_wanted, self.started);
        let Some(settings) = due else { return Ok(()) };
        cells.key_sets_asked.add(1);
        let answer = ask(&settings).await;
        let mut publication = lock(&self.publication);
        publication.answered(answer.is_ok());
        match answer {
            // The configuration may have changed in the meantime.
            Ok(_) if !publication.is_from(&settings) => Ok(()),
            Ok(keys) => {
                self.replace(self.keys.load().with_published(keys));
                tracing::info!(keys = self.keys.load().len(), "the key set was read");
                Ok(())
            }
            Err(error) => {
                cells.key_sets_failed.add(1);
                Err(error)
            }
        }
    }
}

fn tell(error: &PublicationError) {
    tracing::warn!(%error, "the key set cannot be had; the old one stays");
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
