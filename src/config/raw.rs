//! The configuration as it is written: TOML with durations and sizes as strings with a unit.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

use super::advertised_url::AdvertisedUrl;
use super::auth::{Anonymous, JwksSource};
use super::auth_key::AuthKey;
use super::class::RoomClass;
use super::section::{Key, OutOfBounds, Section, section};
use super::store::Promise;
use super::tls::MinVersion;
use super::value::{Address, Duration, Mode, Size};
use super::webhook::{Fail, HookSecret, HookUrl};
use super::words::WordFile;
use crate::identity::claims::TokenRole;
use crate::ingress::caller::ProxyProtocol;
use crate::ingress::network::Network;
use crate::ingress::origin::Pattern;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Raw {
    /// Addresses, threads, files.
    pub server: Server,
    /// Who may come in.
    pub auth: Auth,
    /// Certificates.
    pub tls: Tls,
    /// Names, pages.
    pub http: Http,
    /// Frames and handshakes.
    pub websocket: WebSocket,
    /// How many come from one place.
    pub connections: Connections,
    /// How much anyone may say in a room.
    pub limits: Limits,
    /// What rooms ask of whoever writes.
    pub policy: Policy,
    /// Which words are not to be seen.
    pub words: Words,
    /// Whom the platform has asked.
    pub webhook: Webhook,
    /// What waits before it is shown.
    pub held: Held,
    /// What staff decides.
    pub moderation: Moderation,
    /// What is kept on the disk.
    pub store: Store,
    /// What rooms keep in memory.
    pub room: Room,
    /// When what was said goes out.
    pub flush: Flush,
    /// Readers that do not read.
    pub slow_consumer: SlowConsumer,
    /// Publishes that come twice.
    pub idempotency: Idempotency,
    /// How the process leaves.
    pub drain: Drain,
    /// Traces that clients begin.
    pub trace: Trace,
    /// Back ends at an address of their own.
    pub api: Api,
    /// Rooms that are other than the rest.
    pub rooms: Vec<RoomClass>,
}

impl Raw {
    /// The tables in the order in which they are documented.
    fn sections(&self) -> [&dyn Section; 20] {
        [
            &self.server,
            &self.auth,
            &self.tls,
            &self.http,
            &self.websocket,
            &self.connections,
            &self.limits,
            &self.policy,
            &self.words,
            &self.webhook,
            &self.held,
            &self.moderation,
            &self.store,
            &self.room,
            &self.flush,
            &self.slow_consumer,
            &self.idempotency,
            &self.drain,
            &self.trace,
            &self.api,
        ]
    }

    /// Every key with its value.
    pub fn keys(&self) -> Vec<Key> {
        self.sections().iter().flat_map(|section| section.keys()).collect()
    }

    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        self.sections().iter().try_for_each(|section| section.check())
    }
}

section! {
    /// `[server]`
    Server = "server" {
        /// Where clients connect. Beyond loopback it needs `auth.keys`, `auth.jwks` or `auth.anonymous = true`.
        listen: Address = Address(SocketAddr::new(LOOPBACK, 8080)); restart,
        /// Where metrics and health are read. Keep it on loopback: it asks for no token.
        admin_listen: Address = Address(SocketAddr::new(LOOPBACK, 9090)); restart,
        /// Where files go.
        data_dir: PathBuf = PathBuf::from("data"); restart,
        /// Worker threads; absent: one per core.
        workers: Option<u16> = None => 1 to 1024; restart,
        /// Rooms a worker keeps; at the limit further rooms are refused with close code 1013.
        rooms_max: usize = 100_000 => 1 to 10_000_000,
        /// Where clients are sent by `/route`, such as `"wss://live.example"`; absent: to this address, by a path alone.
        advertised_url: Option<AdvertisedUrl> = None,
        /// Proxies whose word about callers is taken (`Forwarded`, `X-Forwarded-For`, PROXY headers): networks such as
        /// `10.0.0.0/8`, or addresses. Everybody else's is ignored.
        trusted_proxies: Vec<Network> = Vec::new(),
        /// Whether connections to `server.listen` begin with a PROXY header, version 1 or 2: `"off"` or `"required"`.
        /// When required, a connection without one, or from elsewhere than `server.trusted_proxies`, is closed.
        proxy_protocol: ProxyProtocol = ProxyProtocol::Off; restart,
        /// How long a PROXY header may take.
        proxy_header_within: Duration = Duration::of_ms(3_000) => "100ms" to "1m",
    }
}

section! {
    /// `[auth]`
    Auth = "auth" {
        /// What users without a token may do: `"read_write"` (or `true`), `"read_only"`, or nothing: `"refused"` (or
        /// `false`). Absent: everything while `server.listen` is a loopback address and there are no keys, else nothing.
        anonymous: Option<Anonymous> = None,
        /// Whether `?token=` is accepted. Addresses end up in logs; absent: only while `server.listen` is a
        /// loopback address.
        query_token: Option<bool> = None,
        /// Keys that tokens are signed with: `{ id = "k1", secret = "at least 32 bytes" }`, algorithm HS256. Keys for RS256,
        /// ES256 and EdDSA name it as their `algorithm`, and have a `public_key`, a file in PEM, instead of a `secret`.
        keys: Vec<AuthKey> = Vec::new(),
        /// A key set (RFC 7517) with further public keys: a file, which is read again when it changes, or an `https`
        /// address. `http` is for loopback alone.
        jwks: Option<JwksSource> = None,
        /// How often a key set is fetched. A token that names an unknown key has it fetched sooner, but never within
        /// 30 s of the last time. While it cannot be had, the old keys stay.
        jwks_refresh: Duration = Duration::of_ms(600_000) => "30s" to "1d",
        /// Networks that a key set may be fetched from though they are private: loopback, private, link-local and the
        /// like are not connected to otherwise, whatever a name resolves to.
        jwks_allow_private: Vec<Network> = Vec::new(),
        /// Authorities in PEM that sign the certificate of `auth.jwks`; absent: the public ones.
        jwks_ca: Option<PathBuf> = None,
        /// The `aud` that users' tokens must have; absent: any or none.
        audience: Option<String> = None,
        /// The `aud` that makes a token one of staff. Once this or `auth.audience` is set, no other token has the role
        /// `staff`.
        staff_audience: Option<String> = None,
        /// The `iss` that tokens must have; absent: any or none.
        issuer: Option<String> = None,
        /// Ids of badges that are shown; others in tokens are passed over.
        badges: Vec<String> = Vec::new(),
        /// What clocks may differ by: for so long after its end a token still counts, and its session lives on.
        leeway: Duration = Duration::of_ms(30_000) => "0ms" to "2m",
        /// How long before its token ends a session is told to refresh it.
        remind_before: Duration = Duration::of_ms(60_000) => "0ms" to "1h",
        /// Verified tokens that are remembered, so that whoever comes back costs no signature.
        verified_max: usize = 65_536 => 2 to 16_777_216,
        /// How long a ticket counts.
        ticket_life: Duration = Duration::of_ms(60_000) => "1s" to "5m",
        /// Tickets that are not used yet.
        tickets_max: usize = 65_536 => 1 to 16_777_216,
        /// Users whose tokens are revoked, or who are otherwise than their tokens say. Each is remembered for a day.
        users_changed_max: usize = 65_536 => 1 to 16_777_216,
    }
}

section! {
    /// `[tls]`
    Tls = "tls" {
        /// Where clients connect with TLS (`https`, `wss`), besides `server.listen`; absent: nowhere.
        listen: Option<Address> = None; restart,
        /// Certificate chain in PEM, the server's own first. Read again when it changes, and at SIGHUP; one that cannot
        /// be used is refused, and the old one stays.
        cert: Option<PathBuf> = None,
        /// Its private key in PEM.
        key: Option<PathBuf> = None,
        /// The oldest version that is spoken: `"1.2"` or `"1.3"`.
        min_version: MinVersion = MinVersion::Tls12,
        /// Cipher suites by their IANA names, such as `TLS_AES_128_GCM_SHA256`; empty: all that are safe.
        ciphers: Vec<String> = Vec::new(),
        /// How long a TLS handshake may take.
        handshake: Duration = Duration::of_ms(5_000) => "100ms" to "1m",
    }
}

section! {
    /// `[http]`
    Http = "http" {
        /// Pages that may connect besides those of the server's own address: origins such as `https://live.example`,
        /// `https://*.example` for all names below it, `*` for every page.
        origins: Vec<Pattern> = Vec::new(),
        /// Names that a server on loopback answers to besides loopback's own: those that a proxy in front passes on as
        /// Host.
        hosts: Vec<String> = Vec::new(),
        /// How long a connection may rest between two requests.
        keep_alive: Duration = Duration::of_ms(75_000) => "100ms" to "1h",
        /// Requests on one connection; the answer to the last one closes it.
        requests_max: u32 = 1_000 => 1 to 1_000_000_000,
        /// Header lines of a request; above it is refused with 431.
        headers_max: usize = 100 => 10 to 1_000,
        /// Bytes of a request's head; above it is refused with 431.
        head_bytes_max: Size = Size(16 << 10) => "8KiB" to "256KiB",
        /// Bytes of a request's path with its query; above it is refused with 414. A token in it has 4 KiB.
        target_bytes_max: Size = Size(8 << 10) => "1KiB" to "60KiB",
        /// Bytes of a request's body; above it is refused with 413.
        body_bytes_max: Size = Size(16 << 10) => "1KiB" to "1MiB",
        /// How long a request may wait for what becomes of its comment; then it is answered with 503.
        answer_within: Duration = Duration::of_ms(10_000) => "100ms" to "1m",
    }
}

section! {
    /// `[websocket]`
    WebSocket = "websocket" {
        /// Whether permessage-deflate is negotiated.
        deflate: bool = true,
        /// Compression level.
        deflate_level: u32 = 1 => 1 to 9; restart,
        /// The largest frame a client may send.
        frame_bytes_max: Size = Size(64 << 10) => "1KiB" to "16MiB",
        /// The largest message, inflated.
        message_bytes_max: Size = Size(64 << 10) => "1KiB" to "16MiB",
        /// Frames of one message.
        fragments_max: usize = 64 => 1 to 65_536,
        /// Inflated bytes a connection may cause in a second.
        inflated_bytes_per_s: Size = Size(1 << 20) => "64KiB" to "1GiB",
        /// Messages and control frames a connection may send in a second; above it is closed with 1008.
        frames_per_s: u32 = 500 => 10 to 100_000_000,
        /// Bytes a connection may send in a second; above it is closed with 1008.
        bytes_per_s: Size = Size(1 << 20) => "16KiB" to "1GiB",
        /// Bytes that a connection alone is owed above which its socket is not read: acks, errors, pongs.
        outbox_bytes_max: Size = Size(4 << 10) => "1KiB" to "1MiB",
        /// Errors that a connection is told one by one in a second; the rest comes as one number.
        errors_per_s: u16 = 5 => 1 to 10_000,
        /// Silence after which a peer is asked whether it is there.
        ping_after: Duration = Duration::of_ms(25_000) => "1s" to "1h",
        /// How long it may take to answer.
        pong_within: Duration = Duration::of_ms(8_000) => "1s" to "1h",
        /// How long a handshake may take.
        handshake: Duration = Duration::of_ms(10_000) => "100ms" to "5m",
    }
}

section! {
    /// `[connections]`
    Connections = "connections" {
        /// Connections of an IPv4 address. Users with a token do not count, nor does loopback, nor a trusted proxy itself.
        per_ipv4: u32 = 500 => 1 to 1_000_000_000,
        /// Connections of an IPv6 /64.
        per_ipv6_64: u32 = 100 => 1 to 1_000_000_000,
        /// Connections of an IPv6 /48.
        per_ipv6_48: u32 = 1_600 => 1 to 1_000_000_000,
        /// Addresses and prefixes that are counted apart.
        addresses_max: usize = 65_536 => 2 to 16_777_216,
        /// Connections of all other addresses together.
        overflow_max: u32 = 8_192 => 1 to 1_000_000_000,
        /// Connections of a worker that are no sessions yet; above it the oldest of them is closed.
        handshakes_max: usize = 8_192 => 4 to 1_000_000,
    }
}

section! {
    /// `[limits]`
    Limits = "limits" {
        /// Moves to another room a second that a connection gets back.
        joins_per_s: u32 = 2 => 1 to 1_000_000,
        /// Moves it may make at once.
        joins_burst: u32 = 10 => 1 to 1_000,
        /// Whether users are limited in each room. This and every other key that ends in `mode` says how a rule acts:
        /// `"enforce"`, `"observe"` (it counts what it would refuse, and refuses nothing) or `"off"`.
        user_mode: Mode = Mode::Enforce,
        /// Comments a user may send at once.
        user_burst: u32 = 10 => 1 to 1_000_000,
        /// Comments a second that a user gets back.
        user_per_s: f64 = 2.0 => 0.001 to 1_000_000.0,
        /// The same for guests, unless they come from this machine: comments at once.
        guest_burst: u32 = 3 => 1 to 1_000_000,
        /// Comments a second that a guest gets back.
        guest_per_s: f64 = 0.2 => 0.001 to 1_000_000.0,
        /// Users a room remembers; above it the one is forgotten with whom least is lost.
        users_max: usize = 65_536 => 1 to 16_777_216,
        /// Whether users are limited over all rooms together that limit their users.
        everywhere_mode: Mode = Mode::Off,
        /// Comments a user may send at once, over all rooms.
        everywhere_burst: u32 = 20 => 1 to 1_000_000,
        /// Comments a second that a user gets back, over all rooms.
        everywhere_per_s: f64 = 5.0 => 0.001 to 1_000_000.0,
        /// Users that a worker remembers over all rooms; above it the one is forgotten with whom least is lost.
        everywhere_users_max: usize = 65_536 => 1 to 16_777_216,
        /// Whether a text is held for a moderator that its author says in more than three rooms that limit their users.
        spread_mode: Mode = Mode::Off,
        /// Within which time.
        spread_within: Duration = Duration::of_ms(60_000) => "1s" to "1h",
        /// Whether a user's moves between rooms are limited over all its connections.
        moves_limited: bool = false,
        /// Moves a user may make at once.
        moves_burst: u32 = 30 => 1 to 1_000_000,
        /// Moves a minute that a user gets back.
        moves_per_min: u32 = 30 => 1 to 1_000_000,
        /// Whether rooms are limited. Near the limit those who wrote least come first.
        room_mode: Mode = Mode::Enforce,
        /// The window of a room.
        room_window: Duration = Duration::of_ms(10_000) => "1s" to "1h",
        /// Comments in a window.
        room_count_max: u32 = 5_000 => 1 to 1_000_000_000,
        /// Whether the priority of VIPs has a ceiling. Above it they go with the crowd; below it neither the rate of users
        /// nor that of rooms holds for them.
        vip_mode: Mode = Mode::Enforce,
        /// Comments a second of all VIPs in a room together that have priority.
        vip_per_s: u32 = 50 => 1 to 1_000_000,
        /// Whether all rooms of this process together are limited, beside each of them.
        node_mode: Mode = Mode::Off,
        /// The window of the process.
        node_window: Duration = Duration::of_ms(10_000) => "1s" to "1h",
        /// Comments of everybody but VIPs in a window, in all rooms.
        node_count_max: u32 = 200_000 => 1 to 1_000_000_000,
        /// Whether a room sheds its crowd while its store, its passes or its webhook cannot keep up.
        breaker_mode: Mode = Mode::Enforce,
        /// Whether all rooms of a worker shed their crowds while its mailbox or its passes cannot keep up.
        worker_breaker_mode: Mode = Mode::Enforce,
        /// A store that has not moved for so long, while something waits for it, opens the room's breaker.
        breaker_stall: Duration = Duration::of_ms(1_000) => "10ms" to "1m",
        /// Passes that are so far behind open the breakers of the worker and of the rooms that have members there.
        breaker_pass_lag: Duration = Duration::of_ms(2_000) => "10ms" to "1m",
        /// So many comments, one after the other, about which a webhook did not answer open the breaker of a room with
        /// `webhook.webhook_fail = "closed"`.
        breaker_webhook_failures: u32 = 20 => 1 to 1_000_000,
        /// A mailbox that is so full, percent, opens the worker's breaker.
        breaker_mailbox_percent: u32 = 75 => 1 to 100,
        /// A comment that has waited so long in a mailbox opens the worker's breaker. After a second the mailbox takes no more.
        breaker_mailbox_age: Duration = Duration::of_ms(500) => "10ms" to "1s",
        /// How long a breaker is open the first time; at most eight times as long when it opens again and again.
        breaker_open: Duration = Duration::of_ms(1_000) => "10ms" to "1m",
        /// How long it then lets a few comments pass, to see whether it may close.
        breaker_half_open: Duration = Duration::of_ms(1_000) => "10ms" to "1m",
        /// How many.
        breaker_probes: u32 = 20 => 1 to 1_000_000,
        /// Whether a user is kept from saying the same long text again.
        duplicate_mode: Mode = Mode::Enforce,
        /// How long.
        duplicate_window: Duration = Duration::of_ms(30_000) => "1s" to "1h",
        /// Characters from which on a text is long.
        duplicate_chars_min: usize = 16 => 1 to 10_000,
        /// Whether users are not heard who match one of the next two, and connections that break their rate.
        filtered_mode: Mode = Mode::Enforce,
        /// Ids of users who are not heard; `*` at the end stands for any rest.
        filtered_users: Vec<String> = Vec::new(),
        /// Levels below this are not heard.
        filtered_below_level: u32 = 0 => 0 to 1_000_000,
        /// Ids of users who are VIPs whatever their role; `*` at the end stands for any rest.
        vip_users: Vec<String> = Vec::new(),
        /// Whether tiers show a part of a busy room only. What they hide is in the log all the same, `full` shows it, and its
        /// author sees it in any case.
        display_mode: Mode = Mode::Off,
        /// Comments a second that `standard` then shows, as evenly among their authors as may be; VIPs go ahead.
        display_standard_per_s: u32 = 30 => 1 to 1_000_000,
        /// Comments a second of those that `lite` shows.
        display_lite_per_s: u32 = 15 => 1 to 1_000_000,
        /// Characters of a text.
        text_chars_max: usize = 100 => 1 to 10_000,
        /// Bytes of a text.
        text_bytes_max: usize = 400 => 1 to 40_000,
    }
}

section! {
    /// `[policy]`
    Policy = "policy" {
        /// Whether nobody may be in a room that is closed, or write there.
        closed_mode: Mode = Mode::Enforce,
        /// Whether nobody may write in a room whose stream has ended.
        ended_mode: Mode = Mode::Enforce,
        /// Whether nobody may write.
        read_only_mode: Mode = Mode::Off,
        /// Whether nobody but moderators, the streamer and staff may write. They are not held to the rest of this table.
        muted_mode: Mode = Mode::Off,
        /// Whether a user waits between two comments.
        slow_mode: Mode = Mode::Off,
        /// How long.
        slow_interval: Duration = Duration::of_ms(5_000) => "100ms" to "1d",
        /// Whether users need a level.
        level_mode: Mode = Mode::Off,
        /// Which.
        level_min: u32 = 1 => 0 to 1_000_000,
        /// Whether only members may write.
        members_mode: Mode = Mode::Off,
        /// Whether only followers may write.
        followers_mode: Mode = Mode::Off,
        /// For how long they must have followed.
        followed_for: Duration = Duration::of_ms(0) => "0ms" to "365d",
        /// Whether only VIPs may write.
        vips_mode: Mode = Mode::Off,
        /// Whether modes, colours and sizes are for some roles only.
        style_mode: Mode = Mode::Off,
        /// From which role on comments may stand at the top or bottom.
        motion_role: TokenRole = TokenRole::Vip,
        /// From which role on they may be other than white.
        color_role: TokenRole = TokenRole::Vip,
        /// From which role on they may be of another size than the usual one.
        size_role: TokenRole = TokenRole::Vip,
        /// Whether long texts are for some roles only.
        length_mode: Mode = Mode::Off,
        /// From which role on.
        length_role: TokenRole = TokenRole::Vip,
        /// Characters of the texts of everybody else.
        length_chars_max: usize = 40 => 1 to 10_000,
    }
}

section! {
    /// `[words]`
    Words = "words" {
        /// Whether texts and names are held against word lists.
        word_mode: Mode = Mode::Enforce,
        /// Files with the lists of all rooms, in the form of docs/words.md: each a path, or a table with `path`, `action`
        /// and `profile`. They are read again when they change, and at SIGHUP; a list that cannot be used is refused, and
        /// the old one stays.
        lists: Vec<WordFile> = Vec::new(),
        /// Further lists, for the rooms of a class: set it in `[[rooms]]`.
        room_words: Vec<WordFile> = Vec::new(),
        /// Rules of one list.
        words_max: usize = 1_000_000 => 1 to 1_000_000,
        /// Lists that staff and back ends write over HTTP, all of them together.
        written_bytes_max: Size = Size(1 << 20) => "1KiB" to "32MiB",
        /// Rooms for which there are such lists besides the one of all rooms.
        written_rooms_max: usize = 1_000 => 0 to 100_000,
    }
}

section! {
    /// `[webhook]`
    Webhook = "webhook" {
        /// A receiver of the platform that is asked about comments, as docs/webhook.md says; absent: nobody is asked.
        url: Option<HookUrl> = None; restart,
        /// The secret that signs what it is asked, 32 bytes at least.
        secret: Option<HookSecret> = None; restart,
        /// Whether comments wait for its answer: with `"observe"` it is asked, and what it would refuse is counted.
        webhook_mode: Mode = Mode::Enforce,
        /// What happens to a comment about which it did not answer in time: `"open"`, it is shown, or `"closed"`, it is
        /// refused with `unavailable`.
        webhook_fail: Fail = Fail::Open,
        /// Comments of a room that wait for its answer at the same time; above it they are refused.
        waiting_max: usize = 1_024 => 1 to 65_536,
        /// Within which an answer must be there; waiting for a place, lookup and connecting are part of it.
        within: Duration = Duration::of_ms(200) => "10ms" to "60s"; restart,
        /// Posts at a time, and so connections to it.
        concurrency_max: usize = 32 => 1 to 1_024; restart,
        /// Questions of all rooms that wait for their turn; further ones are not asked.
        queue_max: usize = 1_024 => 1 to 65_536; restart,
        /// How long a connection to it is kept for the next question; less than it keeps one.
        idle: Duration = Duration::of_ms(4_000) => "0ms" to "1h"; restart,
        /// Questions in one post; 1: each is asked alone, in a form of its own.
        batch_max: usize = 1 => 1 to 256; restart,
        /// How long the first question of a post waits for others.
        batch_wait: Duration = Duration::of_ms(0) => "0ms" to "10s"; restart,
        /// Whether it is asked about connections too, before they become sessions.
        connect: bool = false; restart,
        /// What happens to a connection about which it did not answer: `"open"` or `"closed"`.
        connect_fail: Fail = Fail::Open; restart,
        /// Headers of a connection's request that it gets.
        headers: Vec<String> = Vec::new(); restart,
        /// Headers that it never gets, in any spelling, as only proxies of the platform may set them.
        internal_headers: Vec<String> = Vec::new(); restart,
        /// Networks that it may be in though they are private: loopback, private, link-local and the like are not called
        /// otherwise, whatever a name resolves to.
        allow_private: Vec<Network> = Vec::new(); restart,
        /// Ports that may be called.
        ports: Vec<u16> = vec![80, 443]; restart,
        /// Authorities in PEM that sign its certificate; absent: the public ones.
        ca: Option<PathBuf> = None; restart,
    }
}

section! {
    /// `[held]`
    Held = "held" {
        /// How long the crowd's comments wait before they are shown, so that moderators see them first. VIPs, moderators,
        /// the streamer and staff do not wait.
        delay: Duration = Duration::of_ms(0) => "0ms" to "6s",
        /// Comments that wait for their delay at the same time; above it they are refused.
        delayed_max: usize = 4_096 => 1 to 1_000_000,
        /// Comments that wait for a moderator at the same time; above it they are refused.
        review_max: usize = 200 => 1 to 100_000,
        /// How long they wait; then they are dropped.
        review_ttl: Duration = Duration::of_ms(600_000) => "1s" to "1d",
    }
}

section! {
    /// `[moderation]`
    Moderation = "moderation" {
        /// Whether bans hold for comments. Who is banned is not let into the room either way.
        bans_mode: Mode = Mode::Enforce,
        /// Whether mutes of single users hold.
        mutes_mode: Mode = Mode::Enforce,
        /// Whether shadow bans hold.
        shadow_bans_mode: Mode = Mode::Enforce,
        /// Bans, mutes and shadow bans of a room that are in force at the same time; above it, further ones are refused.
        sanctions_max: usize = 1_024 => 1 to 65_536,
        /// Comments of a room that were reported and wait for a moderator; above it, further ones are not taken. 0: nothing
        /// can be reported.
        reports_max: usize = 200 => 0 to 65_536,
        /// How long they wait; then they are dropped.
        reports_ttl: Duration = Duration::of_ms(86_400_000) => "1s" to "30d",
        /// Reports of a user in a room at once.
        report_burst: u32 = 5 => 1 to 1_000,
        /// Reports of a user that come back each minute.
        reports_per_min: u32 = 6 => 1 to 1_000,
        /// Newest orders of staff and back ends that are remembered.
        audit_max: usize = 4_096 => 1 to 1_000_000,
    }
}

section! {
    /// `[store]`
    Store = "store" {
        /// Where history is kept, a directory of its own; absent: `store` in `server.data_dir`.
        path: Option<PathBuf> = None; restart,
        /// What an ack promises: `"stored"`, the comment is on the disk; `"relaxed"`, it is there within a second;
        /// `"memory"`, nothing, and such rooms are never written. A room that is in use takes a change over when it is
        /// next loaded.
        durability: Promise = Promise::Stored,
        /// The least time between two commits. A lone comment waits for the disk alone.
        commit_interval: Duration = Duration::of_ms(10) => "0ms" to "1s"; restart,
        /// Entries of one commit, above which it does not wait for more.
        commit_entries: usize = 1_000 => 1 to 100_000; restart,
        /// What may wait for the disk, of all rooms; further comments are answered with `not_stored`.
        queue_bytes: Size = Size(64 << 20) => "64KiB" to "16GiB"; restart,
        /// How long history is kept, in whole days; a day goes as a file, at most one in an hour.
        keep: Duration = Duration::of_ms(7 * 86_400_000) => "1d" to "3650d"; restart,
        /// How much of its disk may be in use, percent; above it the oldest day of history goes.
        disk_percent: u32 = 80 => 1 to 100; restart,
        /// Newest entries of a room that its owner starts with, and whoever comes back can be given.
        loaded_entries: usize = 1_024 => 64 to 65_536; restart,
    }
}

section! {
    /// `[room]`
    Room = "room" {
        /// From how many members on a room's connections stay on the worker that accepted them.
        spread_members: u32 = 256 => 0 to 1_000_000_000,
        /// Rooms an address may create in a minute: rooms that nobody is in. Exempt is who `connections` exempts.
        create_per_min: u32 = 30 => 1 to 1_000_000,
        /// Newest comments that a room keeps in memory, by size.
        backlog_bytes: Size = Size(1 << 20) => "64KiB" to "1GiB",
        /// The same, by age.
        backlog_age: Duration = Duration::of_ms(60_000) => "1s" to "1d",
        /// How long an empty room is remembered.
        linger: Duration = Duration::of_ms(30_000) => "1s" to "1d",
        /// Entries in a snapshot.
        snapshot_entries: usize = 50 => 0 to 1_000,
        /// Rooms whose snapshots are kept for those who ask over HTTP; beyond that others are made again.
        snapshot_rooms_max: usize = 256 => 1 to 1_000_000,
    }
}

section! {
    /// `[flush]`
    Flush = "flush" {
        /// The longest time between two passes over a crowded room.
        max_tick: Duration = Duration::of_ms(250) => "100ms" to "5s",
        /// The longest time a comment waits for others before it is sealed for workers other than its room's.
        seal_interval: Duration = Duration::of_ms(5) => "0ms" to "1s",
        /// Size at which comments are sealed at once.
        seal_bytes: Size = Size(16 << 10) => "1KiB" to "1MiB",
    }
}

section! {
    /// `[slow_consumer]`
    SlowConsumer = "slow_consumer" {
        /// How long a socket may take nothing.
        grace: Duration = Duration::of_ms(10_000) => "100ms" to "1h",
        /// Half-written frames that a worker keeps for slow readers.
        tail_bytes_max: Size = Size(64 << 20) => "1MiB" to "64GiB",
    }
}

section! {
    /// `[idempotency]`
    Idempotency = "idempotency" {
        /// Ids a room remembers; when full, new ids are refused.
        ids_max: usize = 65_536 => 1 to 16_777_216,
        /// How long.
        window: Duration = Duration::of_ms(60_000) => "1s" to "1d",
    }
}

section! {
    /// `[drain]`
    Drain = "drain" {
        /// After SIGTERM, how long everything goes on with readiness red, so that load balancers look away first.
        lame_duck: Duration = Duration::of_ms(0) => "0ms" to "1h",
        /// How long the leaving of sessions is spread over, at least; more where so many could not come back in it.
        window: Duration = Duration::of_ms(30_000) => "0ms" to "1h",
        /// How long publishing may pause while another process takes over; a hand-over that takes longer is called off.
        pause_max: Duration = Duration::of_ms(2_000) => "100ms" to "1m",
    }
}

section! {
    /// `[trace]`
    Trace = "trace" {
        /// Of the traces that clients begin with `traceparent`, the share that is marked to be recorded by whoever hears of
        /// them; what clients say of it is not passed on.
        sampled: f64 = 0.0 => 0.0 to 1.0,
    }
}

section! {
    /// `[api]`
    Api = "api" {
        /// Where back ends ask, plainly and without PROXY headers; there is nothing else there. Keys are then shown there
        /// alone, and are refused where clients connect. Absent: they ask where clients connect.
        listen: Option<Address> = None; restart,
        /// Broadcasts that may be under way at the same time.
        broadcasts_max: usize = 4 => 1 to 64,
        /// Rooms that a broadcast reaches in a second.
        broadcast_rooms_per_s: u32 = 1_000 => 1 to 20_000,
    }
}
