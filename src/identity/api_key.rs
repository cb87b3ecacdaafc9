//! Keys of back ends and staff: random, kept only as hashes.
//!
//! The file `keys.toml` in the data directory holds them, readable by the server's user alone. A key
//! reads `dk_<id>_<secret>`; the secret has 256 random bits and is shown once.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use danmaku_wire::id::RoomId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::private_file;
use crate::wiring::base36;

/// The file in the data directory.
pub const FILE: &str = "keys.toml";
/// The file with the secret of the key that the first start makes.
pub const STAFF_FILE: &str = "staff.key";
/// The file that is locked while keys are changed.
const LOCK_FILE: &str = "keys.lock";
/// What a key begins with, before its id.
pub const MARK: &str = "dk_";
/// The longest text that may be a key, bytes.
const SHOWN_BYTES_MAX: usize = 128;
/// The longest name of a key, characters.
const NAME_CHARS_MAX: usize = 128;
/// Keys in the file, at most.
const KEYS_MAX: usize = 10_000;

/// A key at rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// What it is called by.
    pub id: String,
    /// Whose it is, for people.
    pub name: String,
    /// SHA-256 of the whole key, in hexadecimal digits.
    pub sha256: String,
    /// What it may do; empty: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// For which rooms; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<String>,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// When it ends, seconds since 1970; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// Why keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file system refuses.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not what this program wrote.
    #[error("{path}: not a list of keys: {message}")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// No such key.
    #[error("there is no key `{0}`; `danmaku key list` shows them")]
    Unknown(String),
    /// A room's name is none.
    #[error("`{0}` is not a room: 1 to 64 of A-Z a-z 0-9 _ -")]
    Room(String),
    /// A scope's name is none.
    #[error("`{0}` is not a scope: tickets, users, moderation, audit, events, rooms or keys")]
    Scope(String),
    /// A name that would not fit into a line.
    #[error("the name of a key has 1 to 128 characters, none of them a control character")]
    Name,
    /// Too many keys.
    #[error("there are {KEYS_MAX} keys already; revoke some first")]
    Full,
}

/// What a new key is to be.
#[derive(Debug, Clone, Default)]
pub struct NewKey {
    /// Whose it is.
    pub name: String,
    /// What it may do; empty: everything.
    pub scopes: Vec<String>,
    /// For which rooms; empty: all.
    pub rooms: Vec<String>,
    /// When it ends, seconds since 1970.
    pub expires: Option<u64>,
}

/// The keys of a data directory.
#[derive(Debug)]
pub struct Keys {
    path: PathBuf,
    keys: Vec<ApiKey>,
    /// Held while they are changed, so that of two who do it at once none undoes what the other did.
    _lock: Option<File>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(default)]
    key: Vec<ApiKey>,
}

impl Keys {
    /// Reads the keys of a data directory; without a file there are none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(data_dir: &Path) -> Result<Self, KeysError> {
        let path = data_dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(KeysError::Io { path, source }),
        };
        match toml::from_str::<Kept>(&text) {
            Ok(kept) => Ok(Self { path, keys: kept.key, _lock: None }),
            Err(error) => Err(KeysError::Parse { path, message: error.message().to_owned() }),
        }
    }

    /// Reads the keys in order to change them. Waits for whoever else changes them.
    ///
    /// # Errors
    /// When the file cannot be read, or nothing can be written beside it.
    pub fn to_change(data_dir: &Path) -> Result<Self, KeysError> {
        let path = data_dir.join(LOCK_FILE);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.map_err(|source| KeysError::Io { path, source })?;
        Ok(Self { _lock: Some(lock), ..Self::read(data_dir)? })
    }

    /// The keys, oldest first.
    pub fn all(&self) -> &[ApiKey] {
        &self.keys
    }

    /// Makes a key and keeps its hash. The key itself is what is returned, and nowhere else.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn add(&mut self, new: NewKey, now_s: u64) -> Result<String, KeysError> {
        if self.keys.len() >= KEYS_MAX {
            return Err(KeysError::Full);
        }
        let is_none = |name: &&String| Scope::ALL.iter().all(|scope| scope.as_str() != **name);
        if let Some(wrong) = new.scopes.iter().find(is_none) {
            return Err(KeysError::Scope(wrong.clone()));
        }
        if !(1..=NAME_CHARS_MAX).contains(&new.name.chars().count()) || new.name.chars().any(char::is_control)
        {
            return Err(KeysError::Name);
        }
        if let Some(wrong) = new.rooms.iter().find(|room| RoomId::parse(room).is_err()) {
            return Err(KeysError::Room(wrong.clone()));
        }
        let mut random = [0; 40];
        getrandom::fill(&mut random)
            .map_err(|error| KeysError::Io { path: self.path.clone(), source: io::Error::other(error) })?;
        let (id, secret) = random.split_at(8);
        let id = base36(u64::from_le_bytes(id.try_into().expect("eight bytes")));
        let key = format!("{MARK}{id}_{}", URL_SAFE_NO_PAD.encode(secret));
        let NewKey { name, scopes, rooms, expires } = new;
        let sha256 = hash(&key);
        self.keys.push(ApiKey { id, name, sha256, scopes, rooms, created: now_s, expires });
        self.keep()?;
        Ok(key)
    }

    /// Revokes a key.
    ///
    /// # Errors
    /// When there is none of that id, or the file cannot be written.
    pub fn revoke(&mut self, id: &str) -> Result<(), KeysError> {
        let at = self.keys.iter().position(|key| key.id == id);
        let at = at.ok_or_else(|| KeysError::Unknown(id.to_owned()))?;
        self.keys.remove(at);
        self.keep()
    }

    /// Writes the file anew beside the old one and puts it in its place, so that a crash leaves one of the two.
    fn keep(&self) -> Result<(), KeysError> {
        let kept = Kept { key: self.keys.clone() };
        let text = toml::to_string(&kept)
            .map_err(|error| KeysError::Parse { path: self.path.clone(), message: error.to_string() })?;
        write_private(&self.path, &text)
    }
}

/// Keys as requests show them, found by their ids.
#[derive(Debug, Default)]
pub struct ShownKeys {
    by_id: HashMap<String, (ApiKey, [u8; 32])>,
}

impl ShownKeys {
    /// The keys of a data directory.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(data_dir: &Path) -> Result<Self, KeysError> {
        let keys = Keys::read(data_dir)?;
        let by_id = keys.keys.into_iter().filter_map(|key| {
            let hash = from_hex(&key.sha256)?;
            Some((key.id.clone(), (key, hash)))
        });
        Ok(Self { by_id: by_id.collect() })
    }

    /// The key that a request shows; `None` where there is none of its id, another secret, or an end that is past.
    pub fn find(&self, shown: &str, now_s: u64) -> Option<&ApiKey> {
        if shown.len() > SHOWN_BYTES_MAX {
            return None;
        }
        let (id, _) = shown.strip_prefix(MARK)?.split_once('_')?;
        let (key, kept) = self.by_id.get(id)?;
        let hash: [u8; 32] = Sha256::digest(shown.as_bytes()).into();
        // All bytes, whichever differ: how long it takes says nothing about them.
        let differ = hash.iter().zip(kept).fold(0, |differ, (a, b)| differ | (a ^ b));
        let lives = key.expires.is_none_or(|at_s| at_s > now_s);
        (std::hint::black_box(differ) == 0 && lives).then_some(key)
    }
}

impl ApiKey {
    /// Whether it may do what a scope is about.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|name| name == scope.as_str())
    }

    /// Whether it can do all that another can, and as long: whoever shows it may make that one, or revoke it.
    pub fn covers(&self, scopes: &[String], rooms: &[String], expires: Option<u64>) -> bool {
        let holds = |own: &[String], other: &[String]| {
            own.is_empty() || !other.is_empty() && other.iter().all(|one| own.contains(one))
        };
        let as_long = self.expires.is_none_or(|own| expires.is_some_and(|other| other <= own));
        as_long && holds(&self.scopes, scopes) && holds(&self.rooms, rooms)
    }

    /// Whether it is for a room.
    pub fn is_for(&self, room: &RoomId) -> bool {
        self.rooms.is_empty() || self.rooms.iter().any(|name| name == room.as_str())
    }
}

/// What a key may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Making tickets for users.
    Tickets,
    /// Revoking, disconnecting and changing users.
    Users,
    /// Keeping order in rooms.
    Moderation,
    /// Reading what was ordered.
    Audit,
    /// Showing events in rooms.
    Events,
    /// Reading which rooms there are, how they stand, and what they know of a user.
    Rooms,
    /// Making, listing and revoking keys, none of which can do more than the one that is shown.
    Keys,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Tickets, Self::Users, Self::Moderation, Self::Audit, Self::Events, Self::Rooms, Self::Keys];

    /// As keys name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tickets => "tickets",
            Self::Users => "users",
            Self::Moderation => "moderation",
            Self::Audit => "audit",
            Self::Events => "events",
            Self::Rooms => "rooms",
            Self::Keys => "keys",
        }
    }
}

/// Makes the key of the first start, unless there are keys already. The path of the file that has it.
///
/// # Errors
/// When the directory or the files cannot be written.
pub fn first_start(data_dir: &Path, now_s: u64) -> Result<Option<PathBuf>, KeysError> {
    let io = |source| KeysError::Io { path: data_dir.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(io)?;
    if data_dir.join(FILE).exists() {
        return Ok(None);
    }
    let mut keys = Keys::to_change(data_dir)?;
    let key =
        keys.add(NewKey { name: "staff, made at the first start".into(), ..NewKey::default() }, now_s)?;
    let path = data_dir.join(STAFF_FILE);
    write_private(&path, &format!("{key}\n"))?;
    Ok(Some(path))
}

fn hash(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let plain = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    for (at, byte) in bytes.iter_mut().enumerate().filter(|_| plain) {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    plain.then_some(bytes)
}

fn write_private(path: &Path, text: &str) -> Result<(), KeysError> {
    let io = |source| KeysError::Io { path: path.to_owned(), source };
    private_file::write(path, text.as_bytes()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A directory of a test's own, gone with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("danmaku-keys-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// `first_start`: one key, once, with files that nobody else may read and no secret at rest in the list.
    #[test]
    fn the_first_start_makes_a_staff_key_and_no_other_does() {
        let scratch = Scratch::new("first");
        let path = first_start(&scratch.0, 7).expect("made").expect("the first start");
        assert_eq!(first_start(&scratch.0, 8).expect("nothing to do"), None);
        let key = fs::read_to_string(&path).expect("the key");
        let listed = fs::read_to_string(scratch.0.join(FILE)).expect("the list");
        let secret = key.trim().rsplit('_').next().expect("a secret");
        assert!(!listed.contains(secret) && listed.contains(&hash(key.trim())), "{listed}");
        for file in [path, scratch.0.join(FILE)] {
            let mode = fs::metadata(&file).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
    }

    /// `ShownKeys::find`: the whole key in its time, and nothing near it; for what and where it may be used.
    #[test]
    fn a_key_counts_whole_and_in_its_time_for_what_it_is_made() {
        let scratch = Scratch::new("shown");
        fs::create_dir_all(&scratch.0).expect("a directory");
        let mut keys = Keys::read(&scratch.0).expect("none yet");
        let all = keys.add(NewKey { name: "all".into(), ..NewKey::default() }, 9).expect("added");
        let new = NewKey {
            name: "narrow".into(),
            scopes: vec!["users".into()],
            rooms: vec!["r1".into()],
            expires: Some(100),
        };
        let narrow = keys.add(new, 9).expect("added");
        let shown = ShownKeys::read(&scratch.0).expect("readable");
        let room = |name: &str| RoomId::parse(name).expect("a room");
        let key = shown.find(&all, u64::MAX).expect("it never ends");
        assert!(key.may(Scope::Users) && key.may(Scope::Tickets) && key.is_for(&room("r2")));
        let key = shown.find(&narrow, 99).expect("it has not ended");
        assert!(key.may(Scope::Users) && !key.may(Scope::Tickets));
        assert!(key.is_for(&room("r1")) && !key.is_for(&room("r2")));
        assert!(shown.find(&narrow, 100).is_none(), "ended");
        for at in 0..all.len() {
            let mut bent = all.clone().into_bytes();
            bent[at] = if bent[at] == b'x' { b'y' } else { b'x' };
            assert!(shown.find(&String::from_utf8_lossy(&bent), 0).is_none(), "{at}");
            assert!(shown.find(&all[..at], 0).is_none(), "{at}");
        }
        assert!(shown.find(&format!("{all}{}", "x".repeat(200)), 0).is_none());
        keys.revoke(&key.id.clone()).expect("revoked");
        assert!(ShownKeys::read(&scratch.0).expect("readable").find(&narrow, 0).is_none());
    }

    /// `Keys`: what was added is read back, what was revoked is gone, and what is not there is told.
    #[test]
    fn keys_are_added_listed_and_revoked() {
        let scratch = Scratch::new("list");
        fs::create_dir_all(&scratch.0).expect("a directory");
        let mut keys = Keys::read(&scratch.0).expect("none yet");
        let new = NewKey { name: "billing".into(), rooms: vec!["r1".into()], ..NewKey::default() };
        let key = keys.add(new, 9).expect("added");
        let read = Keys::read(&scratch.0).expect("readable");
        assert_eq!(read.all(), keys.all());
        let id = read.all()[0].id.clone();
        assert_eq!(key.split('_').nth(1), Some(&*id));
        let named = || NewKey { name: "x".into(), ..NewKey::default() };
        let wrong = NewKey { rooms: vec!["a b".into()], ..named() };
        assert!(matches!(keys.add(wrong, 9), Err(KeysError::Room(_))));
        let wrong = NewKey { scopes: vec!["evnts".into()], ..named() };
        assert!(matches!(keys.add(wrong, 9), Err(KeysError::Scope(_))));
        assert!(matches!(keys.add(NewKey::default(), 9), Err(KeysError::Name)));
        assert!(matches!(keys.revoke("nobody"), Err(KeysError::Unknown(_))));
        keys.revoke(&id).expect("revoked");
        assert!(Keys::read(&scratch.0).expect("readable").all().is_empty());
        fs::write(scratch.0.join(FILE), "[[key]]\nname = 1").expect("written");
        assert!(matches!(Keys::read(&scratch.0), Err(KeysError::Parse { .. })));
    }

    /// `ApiKey::covers`: nobody is given more than whoever gives it has; an empty list is everything.
    #[test]
    fn a_key_covers_what_is_no_more_than_itself() {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (own, other, covers) in [
            (("", ""), ("", ""), true),
            (("", ""), ("users", "r1"), true),
            (("keys users", ""), ("users", ""), true),
            (("keys users", ""), ("", ""), false),
            (("keys users", ""), ("users events", ""), false),
            (("keys", "r1 r2"), ("keys", "r2"), true),
            (("keys", "r1 r2"), ("keys", ""), false),
            (("keys", "r1 r2"), ("keys", "r3"), false),
        ] {
            let key = ApiKey {
                id: String::new(),
                name: String::new(),
                sha256: String::new(),
                scopes: list(own.0),
                rooms: list(own.1),
                created: 0,
                expires: None,
            };
            assert_eq!(key.covers(&list(other.0), &list(other.1), None), covers, "{own:?} {other:?}");
            let ending = ApiKey { expires: Some(9), ..key };
            for (expires, within) in [(None, false), (Some(10), false), (Some(9), true)] {
                assert_eq!(ending.covers(&list(other.0), &list(other.1), expires), covers && within);
            }
        }
    }

    /// `Keys::to_change`: of many who add at once, none undoes what another did.
    #[test]
    fn keys_that_are_made_at_once_are_all_kept() {
        let scratch = Scratch::new("at-once");
        fs::create_dir_all(&scratch.0).expect("a directory");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let dir = &scratch.0;
                scope.spawn(move || {
                    let new = NewKey { name: format!("k{n}"), ..NewKey::default() };
                    Keys::to_change(dir).and_then(|mut keys| keys.add(new, n)).expect("added");
                });
            }
        });
        assert_eq!(Keys::read(&scratch.0).expect("readable").all().len(), 8);
    }
}
