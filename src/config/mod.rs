//! Configuration: what was said ([`raw`]), then what it means ([`Config`]), with nothing left unset.

pub mod raw;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use danmaku_room::admission::{idempotency, sliding_window, text, token_bucket};
use danmaku_room::log::RingBounds;
use danmaku_room::{admission, owner, store::Durability};
use danmaku_wire::websocket::decoder;

use raw::{Mode, Raw};

/// What a session that is not read may keep of input that was read already: the shared read buffer.
const STASH_BYTES_MAX: usize = 64 << 10;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what the keys say it should be.
    #[error("{path}: {message}")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// What and where, as the parser tells it.
        message: String,
    },
    /// A value makes no sense.
    #[error("`{key} = {value}` cannot be used: {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
}

/// A validated configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where operators look.
    pub admin_listen: SocketAddr,
    /// Where files go.
    pub data_dir: PathBuf,
    /// Worker threads; `None`: one per core that this process may use.
    pub workers: Option<u16>,
    /// Whether permessage-deflate is offered, and at which level.
    pub deflate: Option<u32>,
    /// Bounds of inbound frames.
    pub frames: decoder::Limits,
    /// Inflated bytes a connection may cause in a second.
    pub inflated_bytes_per_s: u64,
    /// From how many members on a room's sessions stay on the worker that accepted them.
    pub spread_members: u32,
    /// Rooms a worker keeps, at most.
    pub rooms_max: usize,
    /// What a replica keeps.
    pub backlog: RingBounds,
    /// How long an empty room's replica stays, microseconds.
    pub linger_us: u64,
    /// Entries in a snapshot.
    pub snapshot_entries: usize,
    /// The longest tick between passes, microseconds.
    pub tick_max_us: u64,
    /// How long a socket may take nothing, microseconds.
    pub grace_us: u64,
    /// Kept half-written frames of a worker, bytes.
    pub tail_bytes_max: usize,
    /// Silence after which a peer is asked, seconds.
    pub ping_after_s: u32,
    /// How long it may take to answer, seconds.
    pub pong_within_s: u32,
    /// How long a handshake may take, milliseconds.
    pub handshake_ms: u64,
    /// Whether anonymous users may come from other than loopback addresses.
    pub anonymous_elsewhere: bool,
    /// How owners are set up; the secret is filled in at start.
    pub owner: owner::Config,
}

impl Config {
    /// Reads a file, or takes the defaults, and lets the command line have its way.
    ///
    /// # Errors
    /// When the file cannot be read or holds an unknown key or an impossible value.
    pub fn load(file: Option<&Path>, flags: Flags) -> Result<Self, ConfigError> {
        let raw = match file {
            Some(path) => raw::read(path)?,
            None => Raw::default(),
        };
        let mut config = Self::validate(raw)?;
        config.listen = flags.listen.unwrap_or(config.listen);
        config.admin_listen = flags.admin_listen.unwrap_or(config.admin_listen);
        config.data_dir = flags.data_dir.unwrap_or(config.data_dir);
        config.workers = flags.workers.or(config.workers);
        if !config.listen.ip().is_loopback() && !config.anonymous_elsewhere {
            return Err(ConfigError::Value {
                key: "server.listen",
                value: config.listen.to_string(),
                expected: "a loopback address such as 127.0.0.1:8080; to let anonymous users in from elsewhere, \
                           set `auth.anonymous = true`",
            });
        }
        Ok(config)
    }

    fn validate(raw: Raw) -> Result<Self, ConfigError> {
        let Raw { server, auth, websocket, limits, rooms, flush, slow_consumer, idempotency } = raw;
        within("server.workers", server.workers.map(u64::from).unwrap_or(1), 1, 1_024)?;
        within("websocket.deflate_level", websocket.deflate_level.into(), 1, 9)?;
        within("websocket.frame_bytes_max", websocket.frame_bytes_max.0, 1_024, 1 << 24)?;
        within("websocket.message_bytes_max", websocket.message_bytes_max.0, 1_024, 1 << 24)?;
        within("limits.user_burst", limits.user_burst.into(), 1, 1 << 20)?;
        within("limits.room_count_max", limits.room_count_max.into(), 1, 1 << 30)?;
        within("flush.seal_interval", flush.seal_interval.us(), 0, 1_000_000)?;
        within("flush.max_tick", flush.max_tick.us(), 100_000, 5_000_000)?;
        within("rooms.backlog_bytes", rooms.backlog_bytes.0, 64 << 10, 1 << 30)?;
        within("idempotency.window", idempotency.window.us(), 1_000_000, 86_400_000_000)?;
        if !(limits.user_per_s.is_finite() && limits.user_per_s > 0.0) {
            let value = limits.user_per_s.to_string();
            return Err(ConfigError::Value { key: "limits.user_per_s", value, expected: "a number above 0" });
        }
        let backlog =
            RingBounds { bytes_max: rooms.backlog_bytes.bytes(), age_max_us: rooms.backlog_age.us() };
        let on = |mode: Mode| mode == Mode::Enforce;
        let limits = admission::Limits {
            user: on(limits.user_mode)
                .then_some(token_bucket::Rate { burst: limits.user_burst, per_s: limits.user_per_s }),
            users_max: limits.users_max,
            room: on(limits.room_mode).then_some(sliding_window::Window {
                window_us: limits.room_window.us().max(1_000_000),
                count_max: limits.room_count_max,
            }),
            text: text::Limits { chars_max: limits.text_chars_max, bytes_max: limits.text_bytes_max },
            ids: idempotency::Bounds { ids_max: idempotency.ids_max, window_us: idempotency.window.us() },
        };
        let owner = owner::Config {
            limits,
            durability: Durability::Stored,
            seal_interval_us: flush.seal_interval.us(),
            seal_bytes_max: flush.seal_bytes.bytes(),
            log: backlog,
            ..owner::Config::default()
        };
        Ok(Self {
            listen: server.listen,
            admin_listen: server.admin_listen,
            data_dir: server.data_dir,
            workers: server.workers,
            deflate: websocket.deflate.then_some(websocket.deflate_level),
            frames: decoder::Limits {
                frame_bytes_max: websocket.frame_bytes_max.bytes(),
                message_bytes_max: websocket.message_bytes_max.bytes(),
                fragments_max: websocket.fragments_max,
                stash_bytes_max: STASH_BYTES_MAX,
            },
            inflated_bytes_per_s: websocket.inflated_bytes_per_s.0,
            spread_members: rooms.spread_members,
            rooms_max: rooms.rooms_max,
            backlog,
            linger_us: rooms.linger.us(),
            snapshot_entries: rooms.snapshot_entries,
            tick_max_us: flush.max_tick.us(),
            grace_us: slow_consumer.grace.us(),
            tail_bytes_max: slow_consumer.tail_bytes_max.bytes(),
            ping_after_s: websocket.ping_after.secs(),
            pong_within_s: websocket.pong_within.secs(),
            handshake_ms: websocket.handshake.us() / 1_000,
            anonymous_elsewhere: auth.anonymous,
            owner,
        })
    }
}

/// What the command line may say.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// Where clients connect.
    pub listen: Option<SocketAddr>,
    /// Where operators look.
    pub admin_listen: Option<SocketAddr>,
    /// Where files go.
    pub data_dir: Option<PathBuf>,
    /// Worker threads.
    pub workers: Option<u16>,
}

fn within(key: &'static str, value: u64, least: u64, most: u64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let expected = match key {
        "flush.max_tick" => "\"100ms\" to \"5s\"",
        "flush.seal_interval" => "\"0ms\" to \"1s\"",
        "websocket.deflate_level" => "1 to 9",
        "rooms.backlog_bytes" => "\"64KiB\" to \"1GiB\"",
        "idempotency.window" => "\"1s\" to \"1d\"",
        "server.workers" => "1 to 1024",
        "websocket.frame_bytes_max" | "websocket.message_bytes_max" => "\"1KiB\" to \"16MiB\"",
        _ => "a number of at least 1",
    };
    Err(ConfigError::Value { key, value: value.to_string(), expected })
}
