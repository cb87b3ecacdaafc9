//! Configuration: what was said ([`layers`], [`raw`]), then what it means ([`Config`]), with nothing left
//! unset.

pub mod advertised_url;
pub mod auth;
pub mod auth_key;
mod breakers;
pub mod class;
pub mod layers;
mod priority;
pub mod raw;
pub mod reference;
mod section;
pub mod store;
pub mod tls;
pub mod value;
pub mod webhook;
pub mod words;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use danmaku_room::admission::rule::{Modes, Rule};
use danmaku_room::admission::words::Words;
use danmaku_room::admission::{
    display, everywhere, gate, idempotency, policy, sliding_window, text, token_bucket, worker_gate,
};
use danmaku_room::log::RingBounds;
use danmaku_room::{admission, owner};
use danmaku_wire::id::RoomId;
use danmaku_wire::websocket::decoder;
use danmaku_words::WordList;

use crate::identity::claims::Rules;
use crate::identity::tickets;
use crate::ingress::addresses;
use crate::ingress::caller::ProxyProtocol;
use crate::ingress::network::Network;
use crate::ingress::origin;
use crate::store::sqlite;
use crate::written_words::Bounds;
use advertised_url::AdvertisedUrl;
use auth::{Anonymous, JwksSettings};
use auth_key::AuthKey;
use class::Pattern;
use layers::Layers;
use raw::Raw;
pub use section::{Key, OutOfBounds};
use tls::TlsSettings;
use value::{Address, Mode, Setting};
use webhook::HookSettings;
use words::WordFile;

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
    /// The file is not TOML.
    #[error("{path}:{line}: this is not TOML: {message}")]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A key is not known, or its value is not of its kind.
    #[error("{origin}: `{key}`: {message}")]
    Key {
        /// Where it was said.
        origin: String,
        /// Which.
        key: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A value is of the right kind and cannot be used.
    #[error("{origin}: `{key} = {value}` cannot be used: {expected}")]
    Value {
        /// Where it was said.
        origin: String,
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
}

/// What rooms of a class get.
#[derive(Debug, Clone)]
pub struct RoomSettings {
    /// How owners are set up; the secret is filled in at start.
    pub owner: owner::Config,
    /// Where its word lists are.
    pub word_files: Vec<WordFile>,
    /// What a replica keeps.
    pub backlog: RingBounds,
    /// Entries in a snapshot.
    pub snapshot_entries: usize,
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
    /// Where history is kept, and how.
    pub store: sqlite::Settings,
    /// Worker threads; `None`: one per core that this process may use.
    pub workers: Option<u16>,
    /// Rooms a worker keeps, at most.
    pub rooms_max: usize,
    /// Rooms whose snapshots a node keeps.
    pub snapshot_rooms_max: usize,
    /// Where clients are sent.
    pub advertised_url: Option<AdvertisedUrl>,
    /// Proxies whose word about callers is taken.
    pub trusted_proxies: Vec<Network>,
    /// Whether plain connections begin with a PROXY header.
    pub proxy_protocol: ProxyProtocol,
    /// How long such a header may take, milliseconds.
    pub proxy_header_ms: u64,
    /// How much one address may have.
    pub addresses: addresses::Limits,
    /// Connections of a worker that are no sessions yet.
    pub handshakes_max: usize,
    /// What all rooms of a worker are held to.
    pub worker_gate: worker_gate::Bounds,
    /// What users are held to over all rooms.
    pub everywhere: everywhere::Bounds,
    /// Whether that goes for their moves.
    pub moves_limited: bool,
    /// Moves to another room that a connection gets back in a second.
    pub joins_per_s: u32,
    /// Moves it may make at once.
    pub joins_burst: u32,
    /// What users without a token may do.
    pub anonymous: Anonymous,
    /// Whether a token may stand in the address.
    pub query_token: bool,
    /// Keys of tokens.
    pub auth_keys: Vec<AuthKey>,
    /// Where further keys are published.
    pub jwks: Option<JwksSettings>,
    /// What tokens must be like.
    pub token_rules: Rules,
    /// How long before its token ends a session is told, milliseconds.
    pub remind_before_ms: u64,
    /// Verified tokens that are remembered.
    pub verified_max: usize,
    /// Tickets.
    pub tickets: tickets::Bounds,
    /// Users that may be revoked or changed at the same time.
    pub users_changed_max: usize,
    /// Orders of staff that are remembered.
    pub audit_max: usize,
    /// Where clients connect with TLS.
    pub tls_listen: Option<SocketAddr>,
    /// Where back ends ask, if they have an address of their own.
    pub api_listen: Option<SocketAddr>,
    /// Broadcasts that may be under way at the same time.
    pub broadcasts_max: usize,
    /// Rooms that a broadcast reaches in a second.
    pub broadcast_rooms_per_s: u64,
    /// How TLS is spoken.
    pub tls: TlsSettings,
    /// Pages that may connect besides the server's own.
    pub origins: Vec<origin::Pattern>,
    /// Names that a server on loopback answers to besides loopback's own.
    pub hosts: Vec<String>,
    /// How long a connection may rest between two requests, milliseconds.
    pub keep_alive_ms: u64,
    /// Requests on one connection.
    pub requests_max: u32,
    /// Header lines of a request.
    pub headers_max: usize,
    /// Bytes of a request's head.
    pub head_bytes_max: usize,
    /// Bytes of a request's path with its query.
    pub target_bytes_max: usize,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// How long a request may wait for what becomes of its comment, milliseconds.
    pub answer_within_ms: u64,
    /// Whether permessage-deflate is offered.
    pub deflate: bool,
    /// Its level.
    pub deflate_level: u32,
    /// Bounds of inbound frames.
    pub frames: decoder::Limits,
    /// Inflated bytes a connection may cause in a second.
    pub inflated_bytes_per_s: u64,
    /// Messages and control frames a connection may send in a second.
    pub frames_per_s: u32,
    /// Bytes it may send in a second.
    pub bytes_per_s: u64,
    /// Bytes of a session's outbox above which its socket is not read.
    pub outbox_bytes_max: usize,
    /// Errors that a connection is told one by one in a second.
    pub errors_per_s: u16,
    /// The platform's receiver.
    pub webhook: Option<HookSettings>,
    /// Rules of one word list.
    pub words_max: usize,
    /// How much may be written over HTTP.
    pub written: Bounds,
    /// Rules of all word lists, and the memory they take, bytes.
    pub words_size: (usize, usize),
    /// From how many members on a room's sessions stay on the worker that accepted them.
    pub spread_members: u32,
    /// How long an empty room's replica stays, microseconds.
    pub linger_us: u64,
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
    /// How long readiness is red before anything else happens, microseconds.
    pub lame_duck_us: u64,
    /// How long the leaving of sessions is spread over, at least, microseconds.
    pub drain_window_us: u64,
    /// How long a hand-over to another process may take from freezing on, microseconds.
    pub handover_pause_us: u64,
    /// What a room gets that is of no class.
    room: RoomSettings,
    /// What others get, the first match first.
    classes: Vec<(Pattern, RoomSettings)>,
    /// Settings of rooms that have a word list of their own.
    own: HashMap<RoomId, RoomSettings>,
    /// Every key with its value, to tell what a reload changed.
    keys: Vec<Key>,
}

impl Config {
    /// Reads a file, or takes the defaults, lays the environment over it, and lets the command line have its way.
    ///
    /// # Errors
    /// When the file cannot be read, or something is not a key or has an impossible value.
    pub fn load(
        file: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &Flags,
    ) -> Result<Self, ConfigError> {
        let layers = Layers::read(file, env)?;
        let mut raw = layers.raw()?;
        raw.server.listen = flags.listen.map_or(raw.server.listen, Address);
        raw.server.admin_listen = flags.admin_listen.map_or(raw.server.admin_listen, Address);
        raw.server.data_dir = flags.data_dir.clone().unwrap_or(raw.server.data_dir);
        raw.server.workers = flags.workers.or(raw.server.workers);
        Self::validate(raw).map_err(|OutOfBounds { key, value, expected }| {
            let origin = match &*key {
                "server.listen" if flags.listen.is_some() => "--listen".to_owned(),
                _ => layers.origin(&key),
            };
            ConfigError::Value { origin, key, value, expected }
        })
    }

    fn validate(raw: Raw) -> Result<Self, OutOfBounds> {
        raw.check()?;
        check_keys(&raw.auth.keys)?;
        let jwks = auth::jwks(&raw.auth)?;
        let has_keys = !raw.auth.keys.is_empty() || jwks.is_some();
        if raw.server.proxy_protocol == ProxyProtocol::Required && raw.server.trusted_proxies.is_empty() {
            return Err(OutOfBounds {
                key: "server.proxy_protocol".to_owned(),
                value: "\"required\"".to_owned(),
                expected: "nobody could connect; list the proxies in `server.trusted_proxies`".to_owned(),
            });
        }
        let webhook = webhook::settings(&raw.webhook)?;
        let tls = tls::settings(&raw.tls)?;
        let beyond = |address: &&Address| !address.0.ip().is_loopback();
        let addresses =
            [("server.listen", Some(&raw.server.listen)), ("tls.listen", raw.tls.listen.as_ref())];
        let exposed = addresses.into_iter().find_map(|(key, address)| Some((key, address.filter(beyond)?)));
        let loopback = exposed.is_none();
        let unsaid = if loopback && !has_keys { Anonymous::ReadWrite } else { Anonymous::Refused };
        let anonymous = raw.auth.anonymous.unwrap_or(unsaid);
        if !has_keys && anonymous == Anonymous::Refused {
            return Err(if raw.auth.anonymous.is_some() {
                OutOfBounds {
                    key: "auth.anonymous".to_owned(),
                    value: anonymous.written().unwrap_or_default(),
                    expected: "without `auth.keys` or `auth.jwks` nobody could come in; set a key, or leave this out"
                        .to_owned(),
                }
            } else {
                let (key, address) = exposed.unwrap_or(("server.listen", &raw.server.listen));
                OutOfBounds {
                    key: key.to_owned(),
                    value: address.written().unwrap_or_default(),
                    expected:
                        "beyond loopback set a key (`[[auth.keys]]` with `id` and `secret`, or `auth.jwks`) so \
                               that users need tokens, or `auth.anonymous = true` to let anybody in"
                            .to_owned(),
                }
            });
        }
        let classes = raw
            .rooms
            .iter()
            .map(|class| Ok((class.pattern.clone(), room_settings(&class.over(&raw)?)?)))
            .collect::<Result<_, _>>()?;
        let (room, keys, worker_gate) =
            (room_settings(&raw)?, raw.keys(), breakers::worker_gate(&raw.limits));
        let Raw {
            server,
            auth,
            tls: raw_tls,
            http,
            websocket,
            connections,
            limits,
            words,
            room: rooms,
            flush,
            slow_consumer,
            drain,
            api,
            ..
        } = raw;
        Ok(Self {
            listen: server.listen.0,
            admin_listen: server.admin_listen.0,
            store: store::settings(raw.store, &raw.idempotency, &server.data_dir),
            data_dir: server.data_dir,
            workers: server.workers,
            rooms_max: server.rooms_max,
            snapshot_rooms_max: rooms.snapshot_rooms_max,
            addresses: addresses::Limits {
                per_ipv4: connections.per_ipv4,
                per_ipv6_64: connections.per_ipv6_64,
                per_ipv6_48: connections.per_ipv6_48,
                overflow_max: connections.overflow_max,
                addresses_max: connections.addresses_max,
                rooms_per_min: rooms.create_per_min,
            },
            handshakes_max: connections.handshakes_max,
            worker_gate,
            everywhere: everywhere::Bounds {
                comments: token_bucket::Rate {
                    burst: limits.everywhere_burst,
                    per_s: limits.everywhere_per_s,
                },
                moves: token_bucket::Rate {
                    burst: limits.moves_burst,
                    per_s: f64::from(limits.moves_per_min) / 60.0,
                },
                text_window_us: limits.spread_within.us(),
                users_max: limits.everywhere_users_max,
            },
            moves_limited: limits.moves_limited,
            joins_per_s: limits.joins_per_s,
            joins_burst: limits.joins_burst,
            trusted_proxies: server.trusted_proxies,
            proxy_protocol: server.proxy_protocol,
            proxy_header_ms: server.proxy_header_within.us() / 1_000,
            advertised_url: server.advertised_url,
            tls_listen: raw_tls.listen.map(|address| address.0),
            api_listen: api.listen.map(|address| address.0),
            broadcasts_max: api.broadcasts_max,
            broadcast_rooms_per_s: api.broadcast_rooms_per_s.into(),
            tls,
            anonymous,
            query_token: auth.query_token.unwrap_or(loopback),
            auth_keys: auth.keys,
            jwks,
            token_rules: Rules {
                audience: auth.audience,
                staff_audience: auth.staff_audience,
                issuer: auth.issuer,
                leeway_s: auth.leeway.us() / 1_000_000,
                badges: auth.badges,
            },
            remind_before_ms: auth.remind_before.us() / 1_000,
            verified_max: auth.verified_max,
            tickets: tickets::Bounds { max: auth.tickets_max, life_ms: auth.ticket_life.us() / 1_000 },
            users_changed_max: auth.users_changed_max,
            audit_max: raw.moderation.audit_max,
            origins: http.origins,
            hosts: http.hosts,
            keep_alive_ms: http.keep_alive.us() / 1_000,
            requests_max: http.requests_max,
            headers_max: http.headers_max,
            head_bytes_max: http.head_bytes_max.bytes(),
            target_bytes_max: http.target_bytes_max.bytes(),
            body_bytes_max: http.body_bytes_max.bytes(),
            answer_within_ms: http.answer_within.us() / 1_000,
            deflate: websocket.deflate,
            deflate_level: websocket.deflate_level,
            frames: decoder::Limits {
                frame_bytes_max: websocket.frame_bytes_max.bytes(),
                message_bytes_max: websocket.message_bytes_max.bytes(),
                fragments_max: websocket.fragments_max,
                stash_bytes_max: STASH_BYTES_MAX,
            },
            inflated_bytes_per_s: websocket.inflated_bytes_per_s.0,
            frames_per_s: websocket.frames_per_s,
            bytes_per_s: websocket.bytes_per_s.0,
            outbox_bytes_max: websocket.outbox_bytes_max.bytes(),
            errors_per_s: websocket.errors_per_s,
            webhook,
            words_max: words.words_max,
            written: Bounds {
                bytes_max: words.written_bytes_max.0 as usize,
                rooms_max: words.written_rooms_max,
                words_max: words.words_max,
            },
            words_size: (0, 0),
            spread_members: rooms.spread_members,
            linger_us: rooms.linger.us(),
            tick_max_us: flush.max_tick.us(),
            grace_us: slow_consumer.grace.us(),
            tail_bytes_max: slow_consumer.tail_bytes_max.bytes(),
            ping_after_s: websocket.ping_after.secs(),
            pong_within_s: websocket.pong_within.secs(),
            handshake_ms: websocket.handshake.us() / 1_000,
            lame_duck_us: drain.lame_duck.us(),
            drain_window_us: drain.window.us(),
            handover_pause_us: drain.pause_max.us(),
            room,
            classes,
            own: HashMap::new(),
            keys,
        })
    }

    /// What a room gets: of the first class that matches its name, or of none.
    pub fn room(&self, room: &RoomId) -> &RoomSettings {
        self.own.get(room).unwrap_or_else(|| self.class_of(room))
    }

    fn class_of(&self, room: &RoomId) -> &RoomSettings {
        self.classes.iter().find(|(pattern, _)| pattern.matches(room)).map_or(&self.room, |(_, s)| s)
    }

    /// Every settings of rooms that there are, the ordinary first.
    pub fn rooms(&self) -> impl Iterator<Item = &RoomSettings> {
        std::iter::once(&self.room).chain(self.classes.iter().map(|(_, settings)| settings))
    }

    /// Gives every room the compiled lists of its files, behind the one that was written for all rooms; and to each of
    /// some rooms the list that was written for it besides.
    pub fn set_words(
        &mut self,
        list: impl Fn(&WordFile) -> Option<Arc<WordList>>,
        everywhere: Option<&Arc<WordList>>,
        of_rooms: Vec<(RoomId, Arc<WordList>)>,
    ) {
        let classes = self.classes.iter_mut().map(|(_, settings)| settings);
        for settings in std::iter::once(&mut self.room).chain(classes) {
            let files = settings.word_files.iter().filter_map(&list);
            settings.owner.limits.words = Words::new(everywhere.cloned().into_iter().chain(files));
        }
        let own = of_rooms.into_iter().map(|(room, list)| {
            let mut settings = self.class_of(&room).clone();
            let words = &mut settings.owner.limits.words;
            *words = Words::new(std::iter::once(list).chain(words.lists().iter().cloned()));
            (room, settings)
        });
        self.own = own.collect();
    }

    /// The secret of the keyed hashes over what strangers choose.
    pub fn secret(&self) -> &[u8; 16] {
        &self.room.owner.secret
    }

    /// Of the traces that clients begin, the share that is marked to be recorded.
    pub fn traces_sampled(&self) -> f64 {
        self.room.owner.traces_sampled
    }

    /// Sets the secret of the keyed hashes over what strangers choose.
    pub fn set_secret(&mut self, secret: [u8; 16]) {
        self.room.owner.secret = secret;
        let classes = self.classes.iter_mut().map(|(_, settings)| settings);
        for settings in classes.chain(self.own.values_mut()) {
            settings.owner.secret = secret;
        }
    }

    /// Takes over from `running` what only a restart can change, and tells what differs: the keys that
    /// change now, and those that wait for a restart.
    pub fn reload_over(&mut self, running: &Self) -> Reloaded {
        let mut reloaded = Reloaded::default();
        for (new, old) in self.keys.iter_mut().zip(&running.keys) {
            if new.value != old.value {
                let change = Change { key: new.path(), from: old.value.clone(), to: new.value.clone() };
                if new.restart {
                    // The next reload compares with what runs, not with what was wished for.
                    new.value.clone_from(&old.value);
                    reloaded.waiting.push(change);
                } else {
                    reloaded.changed.push(change);
                }
            }
        }
        self.listen = running.listen;
        self.tls_listen = running.tls_listen;
        self.api_listen = running.api_listen;
        self.admin_listen = running.admin_listen;
        self.data_dir.clone_from(&running.data_dir);
        self.store.clone_from(&running.store);
        self.workers = running.workers;
        self.proxy_protocol = running.proxy_protocol;
        self.webhook.clone_from(&running.webhook);
        self.deflate_level = running.deflate_level;
        self.set_secret(running.room.owner.secret);
        reloaded
    }
}

/// What a reload found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What changes now.
    pub changed: Vec<Change>,
    /// What changes at the next start.
    pub waiting: Vec<Change>,
}

/// A key whose value differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub key: String,
    /// What runs.
    pub from: Option<String>,
    /// What was read.
    pub to: Option<String>,
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

/// Every key needs a name of its own.
fn check_keys(keys: &[AuthKey]) -> Result<(), OutOfBounds> {
    for (at, key) in keys.iter().enumerate() {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let wrong = if !(1..=64).contains(&key.id.len()) || !key.id.bytes().all(known) {
            "an id is 1 to 64 of A-Z a-z 0-9 - _ ."
        } else if keys[..at].iter().any(|other| other.id == key.id) {
            "two keys have this id; tokens name their key by it, so give each its own"
        } else {
            continue;
        };
        let value = format!("{:?}", key.id);
        return Err(OutOfBounds { key: "auth.keys.id".to_owned(), value, expected: wrong.to_owned() });
    }
    Ok(())
}

/// How each rule acts.
fn modes(raw: &Raw) -> Modes {
    let Raw { limits, policy, moderation, words, webhook: hook, .. } = raw;
    let mut modes = Modes::default();
    for rule in Rule::ALL {
        let mode = match rule {
            Rule::Closed => policy.closed_mode,
            Rule::Ended => policy.ended_mode,
            Rule::ReadOnly => policy.read_only_mode,
            Rule::Muted => policy.muted_mode,
            Rule::SlowMode => policy.slow_mode,
            Rule::Level => policy.level_mode,
            Rule::Members => policy.members_mode,
            Rule::Followers => policy.followers_mode,
            Rule::Vips => policy.vips_mode,
            Rule::Style => policy.style_mode,
            Rule::Banned => moderation.bans_mode,
            Rule::MutedUser => moderation.mutes_mode,
            Rule::ShadowBanned => moderation.shadow_bans_mode,
            Rule::Length => policy.length_mode,
            Rule::Filtered => limits.filtered_mode,
            Rule::VipCeiling => limits.vip_mode,
            Rule::UserRate => limits.user_mode,
            Rule::Everywhere => limits.everywhere_mode,
            Rule::Spread => limits.spread_mode,
            Rule::RoomRate => limits.room_mode,
            Rule::NodeRate => limits.node_mode,
            Rule::Breaker => limits.breaker_mode,
            Rule::WorkerBreaker => limits.worker_breaker_mode,
            Rule::Duplicate => limits.duplicate_mode,
            Rule::Words => words.word_mode,
            Rule::Webhook => hook.webhook_mode,
        };
        modes.set(rule, mode.into());
    }
    modes
}

fn room_settings(raw: &Raw) -> Result<RoomSettings, OutOfBounds> {
    let Raw { limits, policy, words, webhook: hook, held, room, flush, idempotency, .. } = raw;
    let backlog = RingBounds { bytes_max: room.backlog_bytes.bytes(), age_max_us: room.backlog_age.us() };
    let rate = |burst, per_s| token_bucket::Rate { burst, per_s };
    let limits = admission::Limits {
        modes: modes(raw),
        user: Some(rate(limits.user_burst, limits.user_per_s)),
        guest: rate(limits.guest_burst, limits.guest_per_s),
        users_max: limits.users_max,
        room: Some(sliding_window::Window {
            window_us: limits.room_window.us(),
            count_max: limits.room_count_max,
        }),
        vip: rate(limits.vip_per_s, limits.vip_per_s.into()),
        classes: priority::classes(limits).into(),
        policy: policy::Policy {
            slow_interval_us: policy.slow_interval.us(),
            level_min: policy.level_min,
            followed_for_ms: policy.followed_for.us() / 1_000,
            motion_role: policy.motion_role.into(),
            color_role: policy.color_role.into(),
            size_role: policy.size_role.into(),
            length_role: policy.length_role.into(),
            length_chars_max: policy.length_chars_max,
            ..policy::Policy::default()
        },
        breaker: breakers::bounds(limits),
        duplicates: gate::Duplicates {
            chars_min: limits.duplicate_chars_min,
            window_us: limits.duplicate_window.us(),
            ..gate::Duplicates::default()
        },
        display: (limits.display_mode != Mode::Off).then_some(display::Bounds {
            standard_per_s: limits.display_standard_per_s,
            lite_per_s: limits.display_lite_per_s,
            observes: limits.display_mode == Mode::Observe,
        }),
        text: text::Limits { chars_max: limits.text_chars_max, bytes_max: limits.text_bytes_max },
        ids: idempotency::Bounds { ids_max: idempotency.ids_max, window_us: idempotency.window.us() },
        ..admission::Limits::default()
    };
    let owner = owner::Config {
        limits,
        asked: hook.url.is_some().then_some(owner::asked::Bounds {
            closed: hook.webhook_fail == webhook::Fail::Closed,
            waiting_max: hook.waiting_max,
        }),
        held: owner::held::Bounds {
            delay_us: held.delay.us(),
            delayed_max: held.delayed_max,
            review_us: held.review_ttl.us(),
            review_max: held.review_max,
        },
        reports: owner::reports::Bounds {
            comments_max: raw.moderation.reports_max,
            ttl_us: raw.moderation.reports_ttl.us(),
            rate: rate(raw.moderation.report_burst, f64::from(raw.moderation.reports_per_min) / 60.0),
        },
        durability: raw.store.durability.into(),
        seal_interval_us: flush.seal_interval.us(),
        seal_bytes_max: flush.seal_bytes.bytes(),
        log: backlog,
        sanctions_max: raw.moderation.sanctions_max,
        traces_sampled: raw.trace.sampled,
        ..owner::Config::default()
    };
    let word_files = words::files(words)?;
    Ok(RoomSettings { owner, word_files, backlog, snapshot_entries: room.snapshot_entries })
}
