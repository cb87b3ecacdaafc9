//! The configuration as it is written: TOML with durations and sizes as strings with a unit.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, de};

use super::ConfigError;

/// A length of time: `"250ms"`, `"10s"`, `"5m"`, `"1h"`, `"7d"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration(u64);

impl Duration {
    const fn of_ms(ms: u64) -> Self {
        Self(ms * 1_000)
    }

    /// Microseconds.
    pub const fn us(self) -> u64 {
        self.0
    }

    /// Whole seconds, at least 1.
    pub fn secs(self) -> u32 {
        u32::try_from(self.0 / 1_000_000).unwrap_or(u32::MAX).max(1)
    }
}

/// A number of bytes: `"512B"`, `"64KiB"`, `"4MiB"`, `"1GiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    /// As a length in memory.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Splits `"250ms"` into number and unit, and looks the unit up.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let units =
            [("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];
        with_unit(&text, &units).map(Self).ok_or_else(|| {
            de::Error::custom(format_args!(
                "{text:?} is not a duration: write \"250ms\", \"10s\", \"5m\", \"1h\" or \"7d\""
            ))
        })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let units = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
        with_unit(&text, &units).map(Self).ok_or_else(|| {
            de::Error::custom(format_args!(
                "{text:?} is not a size: write \"512B\", \"64KiB\", \"4MiB\" or \"1GiB\""
            ))
        })
    }
}

/// Whether a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It refuses.
    Enforce,
    /// It is not there.
    Off,
}

macro_rules! section {
    ($(#[$meta:meta])* $name:ident { $( $(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, )* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }
    };
}

section! {
    /// The whole file.
    Raw {
        /// Addresses, threads, files.
        server: Server = Server::default(),
        /// Who may come in.
        auth: Auth = Auth::default(),
        /// Frames and handshakes.
        websocket: WebSocket = WebSocket::default(),
        /// How much anyone may say.
        limits: Limits = Limits::default(),
        /// Rooms and what they keep in memory.
        rooms: Rooms = Rooms::default(),
        /// When what was said goes out.
        flush: Flush = Flush::default(),
        /// Readers that do not read.
        slow_consumer: SlowConsumer = SlowConsumer::default(),
        /// Publishes that come twice.
        idempotency: Idempotency = Idempotency::default(),
    }
}

section! {
    /// `[server]`
    Server {
        /// Where clients connect.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
        /// Where metrics and health are read.
        admin_listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
        /// Where files go.
        data_dir: PathBuf = PathBuf::from("data"),
        /// Worker threads; absent: one per core.
        workers: Option<u16> = None,
    }
}

section! {
    /// `[auth]`
    Auth {
        /// Whether anonymous users may come in where the server listens beyond loopback.
        anonymous: bool = false,
    }
}

section! {
    /// `[websocket]`
    WebSocket {
        /// Whether permessage-deflate is negotiated.
        deflate: bool = true,
        /// Compression level, 1 to 9.
        deflate_level: u32 = 1,
        /// The largest frame a client may send.
        frame_bytes_max: Size = Size(64 << 10),
        /// The largest message, inflated.
        message_bytes_max: Size = Size(64 << 10),
        /// Frames of one message.
        fragments_max: usize = 64,
        /// Inflated bytes a connection may cause in a second.
        inflated_bytes_per_s: Size = Size(1 << 20),
        /// Silence after which a peer is asked whether it is there.
        ping_after: Duration = Duration::of_ms(25_000),
        /// How long it may take to answer.
        pong_within: Duration = Duration::of_ms(8_000),
        /// How long a handshake may take.
        handshake: Duration = Duration::of_ms(10_000),
    }
}

section! {
    /// `[limits]`
    Limits {
        /// Whether users are limited in each room.
        user_mode: Mode = Mode::Enforce,
        /// Comments a user may send at once.
        user_burst: u32 = 10,
        /// Comments a second that a user gets back.
        user_per_s: f64 = 2.0,
        /// Users a room remembers.
        users_max: usize = 65_536,
        /// Whether rooms are limited.
        room_mode: Mode = Mode::Enforce,
        /// The window of a room.
        room_window: Duration = Duration::of_ms(10_000),
        /// Comments in a window.
        room_count_max: u32 = 5_000,
        /// Characters of a text.
        text_chars_max: usize = 100,
        /// Bytes of a text.
        text_bytes_max: usize = 400,
    }
}

section! {
    /// `[rooms]`
    Rooms {
        /// Rooms a worker keeps.
        rooms_max: usize = 100_000,
        /// From how many members on a room's connections stay on the worker that accepted them.
        spread_members: u32 = 256,
        /// Newest comments that a room keeps in memory, by size.
        backlog_bytes: Size = Size(1 << 20),
        /// The same, by age.
        backlog_age: Duration = Duration::of_ms(60_000),
        /// How long an empty room is remembered.
        linger: Duration = Duration::of_ms(30_000),
        /// Entries in a snapshot.
        snapshot_entries: usize = 50,
    }
}

section! {
    /// `[flush]`
    Flush {
        /// The longest time between two passes over a crowded room.
        max_tick: Duration = Duration::of_ms(250),
        /// The longest time a comment waits for others before it is sealed.
        seal_interval: Duration = Duration::of_ms(5),
        /// Size at which comments are sealed at once.
        seal_bytes: Size = Size(16 << 10),
    }
}

section! {
    /// `[slow_consumer]`
    SlowConsumer {
        /// How long a socket may take nothing.
        grace: Duration = Duration::of_ms(10_000),
        /// Half-written frames that a worker keeps for slow readers.
        tail_bytes_max: Size = Size(64 << 20),
    }
}

section! {
    /// `[idempotency]`
    Idempotency {
        /// Ids a room remembers; when full, new ids are refused.
        ids_max: usize = 65_536,
        /// How long.
        window: Duration = Duration::of_ms(60_000),
    }
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, is not TOML, or holds a key or a value that is not known.
pub fn read(path: &Path) -> Result<Raw, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    toml::from_str(&text)
        .map_err(|error| ConfigError::Parse { path: path.to_owned(), message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Raw, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }

    /// `Raw`: what is not known is refused with the key, the value and what would be right.
    #[test]
    fn unknown_keys_and_units_are_named() {
        for (text, words) in [
            ("[server]\nlisten_on = 1", ["listen_on", "expected"]),
            ("[flush]\nmax_tick = \"10\"", ["\"10\"", "10s"]),
            ("[rooms]\nbacklog_bytes = \"1MB\"", ["1MB", "MiB"]),
            ("[limits]\nuser_mode = \"on\"", ["on", "enforce"]),
        ] {
            let error = parse(text).expect_err(text);
            assert!(words.iter().all(|w| error.contains(w)), "{text}: {error}");
        }
        let raw = parse("[flush]\nmax_tick = \"300ms\"").expect("valid");
        assert_eq!(raw.flush.max_tick.us(), 300_000);
    }
}
