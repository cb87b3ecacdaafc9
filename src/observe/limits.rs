//! Every limit that a peer can meet: where it is set, what meeting it does, where a test meets it, and what it lets a
//! peer cost. The counters, `docs/limits.md` and the test that walks all limits are made from this one table.

use std::mem::size_of;

use danmaku_room::admission::restraints::KEPT_MAX;
use danmaku_room::form::FORM_COUNT;

use crate::config::Config;
use crate::identity::token::TOKEN_BYTES_MAX;
use crate::identity::user::Identity;
use crate::worker::session::{Cold, Hot};

/// What a piece of memory is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// The process.
    Process,
    /// Each worker.
    Worker,
    /// Each open session.
    Session,
    /// Each connection that has not become a session.
    Request,
    /// Each room in use.
    Room,
}

impl Per {
    /// As it is written in the page.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "server",
            Self::Worker => "worker",
            Self::Session => "session",
            Self::Request => "HTTP connection",
            Self::Room => "busy room",
        }
    }
}

/// Memory that is held at worst.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// What it is.
    pub name: &'static str,
    /// For each of what.
    pub per: Per,
    /// How it comes about.
    pub formula: &'static str,
    /// The bytes, at most.
    pub bytes: fn(&Config) -> usize,
}

/// How much there is of what memory is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Workers.
    pub workers: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Connections that have not become sessions.
    pub requests: u64,
    /// Rooms with as much in memory as they may have.
    pub rooms: u64,
}

impl Load {
    /// How often memory of this kind is held.
    pub const fn count(&self, per: Per) -> u64 {
        match per {
            Per::Process => {
                if self.workers > 0 {
                    1
                } else {
                    0
                }
            }
            Per::Worker => self.workers,
            Per::Session => self.sessions,
            Per::Request => self.requests,
            Per::Room => self.rooms,
        }
    }
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The label in `danmaku_limit_met_total`.
    pub name: &'static str,
    /// What is limited.
    pub what: &'static str,
    /// The configuration key.
    pub key: &'static str,
    /// What happens when it is met.
    pub met: &'static str,
    /// The file under `tests/` and the test in it that meets it.
    pub test: (&'static str, &'static str),
}

macro_rules! limits {
    ($( $variant:ident($name:literal, $key:literal, $test:literal :: $case:ident): $what:literal => $met:literal, )*) => {
        /// A limit that a peer can meet.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Limit {
            $( #[doc = $what] $variant, )*
        }

        impl Limit {
            /// All limits, in the order of the table.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The limit's line.
            pub const fn row(self) -> Row {
                match self {
                    $( Self::$variant => Row {
                        name: $name,
                        what: $what,
                        key: $key,
                        met: $met,
                        test: ($test, stringify!($case)),
                    }, )*
                }
            }
        }
    };
}

limits! {
    ProxyHeader("proxy_header", "server.proxy_header_within", "proxies"::a_proxy_header_that_is_late_ends_the_connection):
        "Time until a PROXY header is there, where one is required."
        => "closed without a word",
    PerIpv4("per_address", "connections.per_ipv4", "crowds"::an_address_has_so_many_connections_and_a_token_one_more):
        "Connections of an IPv4 address, from the moment they are accepted."
        => "429 `too_many_connections` unless a token is shown; a quarter beyond it, closed without a word",
    PerIpv6Net64("per_network", "connections.per_ipv6_64", "crowds"::a_network_counts_as_a_whole):
        "Connections of an IPv6 /64."
        => "the same",
    PerIpv6Net48("per_site", "connections.per_ipv6_48", "crowds"::a_network_counts_as_a_whole):
        "Connections of an IPv6 /48."
        => "the same",
    Addresses("addresses", "connections.addresses_max", "crowds"::addresses_beyond_the_table_share_one_bound):
        "Addresses and prefixes that are counted apart."
        => "further ones are counted together",
    AddressOverflow("address_overflow", "connections.overflow_max", "crowds"::addresses_beyond_the_table_share_one_bound):
        "Connections of all addresses that are counted together."
        => "429 `too_many_connections` unless a token is shown; a quarter beyond it, closed without a word",
    Handshakes("handshakes", "connections.handshakes_max", "crowds"::the_oldest_of_too_many_handshakes_gives_way):
        "Connections of a worker that are no sessions: handshakes, and requests over HTTP."
        => "the oldest of them is closed",
    TlsHandshake("tls_handshake", "tls.handshake", "tls"::what_is_no_tls_is_counted_and_ends):
        "Time for the TLS handshake of a connection to `tls.listen`."
        => "closed without a word",
    RoomsCreated("rooms_created", "room.create_per_min", "crowds"::an_address_creates_rooms_at_a_pace):
        "Rooms that an address creates in a minute, by joining or writing where nobody is."
        => "`too_many_rooms` with `retryAfterMs`, and close 1013 where it was the first room; over HTTP 429",
    Joins("joins", "limits.joins_burst", "crowds"::a_connection_changes_rooms_at_a_pace):
        "Moves of a connection to other rooms, and its `auth` commands; `limits.joins_per_s` come back each second."
        => "`rate_limited` with `retryAfterMs`; the session stays where it is",
    Sanctions("sanctions", "moderation.sanctions_max", "moderation"::a_room_has_so_many_sanctions_and_no_more):
        "Bans, mutes and shadow bans of a room that are in force."
        => "409 `sanctions_full`; none is forgotten before its time",
    WrittenBytes("written_word_bytes", "words.written_bytes_max", "words"::written_lists_are_bounded_in_all_and_by_room):
        "Word lists that are written over HTTP, all together."
        => "413 `too_long`",
    WrittenRooms("written_word_rooms", "words.written_rooms_max", "words"::written_lists_are_bounded_in_all_and_by_room):
        "Rooms with word lists of their own."
        => "409 `too_many_rooms`",
    Broadcasts("broadcasts", "api.broadcasts_max", "api"::a_broadcast_reaches_every_room_a_few_at_a_time):
        "Broadcasts that are under way at the same time."
        => "429 `rate_limited` with `Retry-After`, for the back end",
    Reports("reports", "moderation.reports_max", "reports"::reports_are_bounded_in_a_room_and_by_user):
        "Comments of a room that were reported and wait for a moderator."
        => "`overloaded` with `retryAfterMs`",
    ReportRate("report_rate", "moderation.report_burst", "reports"::reports_are_bounded_in_a_room_and_by_user):
        "Reports of a user in a room; `moderation.reports_per_min` come back each minute."
        => "`rate_limited` with `retryAfterMs`",
    Tickets("tickets", "auth.tickets_max", "identity"::tickets_are_bounded_in_all_and_by_user):
        "Tickets that are not used yet."
        => "503 `overloaded` with `retryAfterMs`",
    UserTickets("user_tickets", "auth.ticket_life", "identity"::tickets_are_bounded_in_all_and_by_user):
        "Tickets of one user that are not used yet: 16."
        => "429 `rate_limited` with `retryAfterMs`",
    UsersChanged("users_changed", "auth.users_changed_max", "identity"::decisions_about_users_are_bounded):
        "Users that are revoked or changed within a day."
        => "503 `overloaded` for the back end",
    FirstRequest("first_request", "websocket.handshake", "http"::a_connection_that_does_not_ask_in_time_is_closed):
        "Time until the first request is there, its first byte and its last."
        => "closed without a word",
    LaterRequest("later_request", "websocket.handshake", "http"::a_connection_that_does_not_ask_in_time_is_closed):
        "Time from the first byte of a later request until it is there."
        => "closed without a word",
    KeepAlive("keep_alive", "http.keep_alive", "http"::a_connection_that_does_not_ask_in_time_is_closed):
        "Time between two requests."
        => "closed without a word",
    Requests("requests", "http.requests_max", "http"::a_connection_asks_only_so_often):
        "Requests on one connection."
        => "the last answer says `Connection: close`",
    HeadBytes("head_bytes", "http.head_bytes_max", "http"::what_cannot_be_served_is_refused_with_its_own_status):
        "Bytes of a request's head."
        => "431, closed",
    Headers("headers", "http.headers_max", "http"::what_cannot_be_served_is_refused_with_its_own_status):
        "Header lines of a request."
        => "431, closed",
    TargetBytes("target_bytes", "http.target_bytes_max", "http"::what_cannot_be_served_is_refused_with_its_own_status):
        "Bytes of a path with its query."
        => "414 `uri_too_long`",
    BodyBytes("body_bytes", "http.body_bytes_max", "publish"::a_body_that_does_not_come_or_does_not_end_is_given_up):
        "Bytes of a request's body."
        => "413 `body_too_long`, closed",
    BodyTime("body_time", "websocket.handshake", "publish"::a_body_that_does_not_come_or_does_not_end_is_given_up):
        "Time until a body is there."
        => "408 `request_timeout`, closed",
    AnswerTime("answer_time", "http.answer_within", "publish"::a_request_hears_of_a_store_that_fails_or_stands_still):
        "Time that a request waits for what becomes of its comment."
        => "503 `unavailable`; the same id tells later",
    FrameBytes("frame_bytes", "websocket.frame_bytes_max", "limits"::what_is_too_big_closes_with_1009):
        "Bytes of a frame; known from its header."
        => "close 1009",
    MessageBytes("message_bytes", "websocket.message_bytes_max", "limits"::what_is_too_big_closes_with_1009):
        "Bytes of a message, as it came and inflated."
        => "close 1009",
    Fragments("fragments", "websocket.fragments_max", "limits"::what_is_too_big_closes_with_1009):
        "Frames of a message."
        => "close 1009",
    InflatedPerSecond("inflated_bytes_per_s", "websocket.inflated_bytes_per_s", "limits"::what_is_too_much_in_a_second_closes_with_1008):
        "Inflated bytes of a connection in a second."
        => "close 1008",
    FramesPerSecond("frames_per_s", "websocket.frames_per_s", "limits"::what_is_too_much_in_a_second_closes_with_1008):
        "Messages and control frames of a connection in a second."
        => "close 1008",
    BytesPerSecond("bytes_per_s", "websocket.bytes_per_s", "limits"::what_is_too_much_in_a_second_closes_with_1008):
        "Bytes of a connection in a second."
        => "close 1008",
    Silence("silence", "websocket.pong_within", "limits"::a_peer_that_is_no_longer_there_is_no_longer_counted):
        "Time to answer a ping, which is sent after `websocket.ping_after` without any traffic."
        => "the connection is dropped, and the room's count with it",
    Outbox("outbox_bytes", "websocket.outbox_bytes_max", "limits"::a_session_that_is_owed_too_much_is_not_read_until_it_has_it):
        "Bytes that a connection alone is owed: acks, errors, pongs."
        => "its socket is not read until they are gone",
    ErrorsPerSecond("errors_per_s", "websocket.errors_per_s", "refusals"::errors_beyond_five_a_second_come_as_one_number):
        "Errors told to a connection one by one in a second."
        => "the rest comes as one `too_many_errors` with a count",
    SlowConsumer("slow_consumer", "slow_consumer.grace", "limits"::a_reader_that_does_not_read_is_let_go):
        "Time for which a socket takes nothing."
        => "close 4008, or a reset where even that finds no room",
    TailBytes("tail_bytes", "slow_consumer.tail_bytes_max", "limits"::half_written_frames_of_slow_readers_have_a_bound):
        "Bytes of half-written frames that a worker keeps."
        => "the reader that has been stuck for longest is reset",
    Rooms("rooms", "server.rooms_max", "limits"::a_full_worker_opens_no_further_room):
        "Rooms of a worker."
        => "`too_many_rooms`, and close 1013 where it was the first room or another worker's; over HTTP 429",
    Users("users", "limits.users_max", "limits"::a_room_remembers_only_so_many_users):
        "Users whose rate a room remembers."
        => "one is forgotten with whom little is lost: who has most of its bucket left",
    Ids("ids", "idempotency.ids_max", "limits"::a_comment_over_a_limit_is_refused_by_name):
        "Ids that a room remembers."
        => "`ids_full` with `retryAfterMs`",
    UserRate("user_rate", "limits.user_burst", "limits"::a_comment_over_a_limit_is_refused_by_name):
        "Comments of a user in a room; `limits.user_per_s` come back each second. Guests have `limits.guest_burst`."
        => "`rate_limited` with `retryAfterMs`",
    RoomRate("room_rate", "limits.room_count_max", "limits"::a_comment_over_a_limit_is_refused_by_name):
        "Comments of a room within `limits.room_window`."
        => "`overloaded` with `retryAfterMs`",
    NodeRate("node_rate", "limits.node_count_max", "breakers"::the_window_of_the_process_counts_all_its_rooms):
        "Comments of all rooms within `limits.node_window`, where `limits.node_mode` is on."
        => "`overloaded` with `retryAfterMs`",
    Moves("moves", "limits.moves_burst", "everywhere"::a_user_moves_only_so_often_over_all_its_connections):
        "Moves of a user between rooms over all its connections; `limits.moves_per_min` come back each minute."
        => "`rate_limited` with `retryAfterMs`; the session stays where it is",
    TextChars("text_chars", "limits.text_chars_max", "limits"::a_comment_over_a_limit_is_refused_by_name):
        "Characters of a text."
        => "`text_too_long`",
    TextBytes("text_bytes", "limits.text_bytes_max", "limits"::a_comment_over_a_limit_is_refused_by_name):
        "Bytes of a text."
        => "`text_too_long`",
    Review("review", "held.review_max", "held"::a_full_queue_refuses_until_there_is_room):
        "Comments of a room that wait for a moderator; `held.review_ttl` drops them."
        => "`overloaded` with `retryAfterMs`",
    Delayed("delayed", "held.delayed_max", "held"::a_full_queue_refuses_until_there_is_room):
        "Comments of a room that wait for its `held.delay`."
        => "`overloaded` with `retryAfterMs`",
    Asked("asked", "webhook.waiting_max", "webhook"::a_room_asks_about_so_many_comments_at_a_time):
        "Comments of a room that wait for the answer of `webhook.url`."
        => "`overloaded` with `retryAfterMs`",
}

/// An address with its counts, its place in the index at its fullest, and in the queue of those at rest, bytes.
const ADDRESS_BYTES: usize = 128;
/// A verified token's hash and its user, with their place in the table, bytes.
const VERIFIED_BYTES: usize = 384;
/// A ticket with its user, in the table and in the order of age, bytes.
const TICKET_BYTES: usize = 512;
/// What was decided about a user, in the table and in the order of age, bytes.
const USER_CHANGED_BYTES: usize = 512;
/// An order of staff with its reason and what it was about, bytes.
const RECORD_BYTES: usize = 1_024;
/// A reported comment with four reasons and 64 hashes, bytes.
const REPORT_BYTES: usize = 4 << 10;
/// A sanction with its reason, and the copy of a ban, bytes.
const SANCTION_BYTES: usize = 1_024;
/// A user's bucket with its place in the order of use, hash table and queue at their fullest, bytes.
const USER_BYTES: usize = 200;
/// A long text that was said, with its place in the order of age, hash table and queue at their fullest, bytes.
const SAID_BYTES: usize = 80;
/// A rule of a compiled word list, bytes.
const WORD_BYTES: usize = 160;
/// A name with what is shown in its place, in hash table and queue at their fullest, bytes.
const NAME_BYTES: usize = 192;
/// An id with its place in the order of age, in the room and in the store, bytes.
const ID_BYTES: usize = 300;
/// A comment with its author, text and bookkeeping beside `limits.text_bytes_max`, bytes.
const ENTRY_BYTES: usize = 512;
/// What a form may have beside a batch's canonical bytes: names of fields, frame headers.
const FORM_RATIO: usize = 2;

/// What memory is held for at worst.
pub const MEMORY: &[Memory] = &[
    Memory {
        name: "addresses",
        per: Per::Process,
        formula: "`connections.addresses_max` × 128 B",
        bytes: |config| config.addresses.addresses_max * ADDRESS_BYTES,
    },
    Memory {
        name: "verified tokens",
        per: Per::Process,
        formula: "`auth.verified_max` × 384 B, and what their claims take: a token has 4 KiB at most",
        bytes: |config| config.verified_max * (VERIFIED_BYTES + TOKEN_BYTES_MAX),
    },
    Memory {
        name: "snapshots over HTTP",
        per: Per::Process,
        formula: "`room.snapshot_rooms_max` × (`room.snapshot_entries` × (`limits.text_bytes_max` + 512 B)) × 4: JSON, gzip, Brotli, protobuf",
        bytes: |config| config.snapshot_rooms_max * snapshot_bytes(config) * 4,
    },
    Memory {
        name: "tickets",
        per: Per::Process,
        formula: "`auth.tickets_max` × 512 B",
        bytes: |config| config.tickets.max * TICKET_BYTES,
    },
    Memory {
        name: "audit",
        per: Per::Process,
        formula: "`moderation.audit_max` × 1 KiB",
        bytes: |config| config.audit_max * RECORD_BYTES,
    },
    Memory {
        name: "sanctions",
        per: Per::Room,
        formula: "`moderation.sanctions_max` × 1 KiB: with the copy of a ban that is looked at when somebody comes in",
        bytes: |config| {
            config.rooms().map(|room| room.owner.sanctions_max).max().unwrap_or(0) * SANCTION_BYTES
        },
    },
    Memory {
        name: "reports",
        per: Per::Room,
        formula: "`moderation.reports_max` × 4 KiB: a comment with the reasons and hashes of who reported it",
        bytes: |config| {
            config.rooms().map(|room| room.owner.reports.comments_max).max().unwrap_or(0) * REPORT_BYTES
        },
    },
    Memory {
        name: "users changed",
        per: Per::Process,
        formula: "`auth.users_changed_max` × 512 B, where changes are of a few rooms",
        bytes: |config| config.users_changed_max * USER_CHANGED_BYTES,
    },
    Memory {
        name: "word lists",
        per: Per::Process,
        formula: "`words.words_max` × 160 B for each list that is named, twice while it is read again",
        bytes: |config| {
            let files: std::collections::HashSet<_> =
                config.rooms().flat_map(|room| &room.word_files).collect();
            files.len() * config.words_max * WORD_BYTES * 2
        },
    },
    Memory {
        name: "written word lists",
        per: Per::Process,
        formula: "`words.written_bytes_max` × 64, twice while one is written: words of two letters, a line each",
        bytes: |config| config.written.bytes_max * 64 * 2,
    },
    Memory {
        name: "shared buffers",
        per: Per::Worker,
        formula: "read buffer, arena, inflater and encoder: 1 MiB",
        bytes: |_| 1 << 20,
    },
    Memory {
        name: "mailbox",
        per: Per::Worker,
        formula: "slots of 64 B and the bytes that its messages may have",
        bytes: |_| crate::serve::MAILBOX_BYTES_MAX,
    },
    Memory {
        name: "half-written frames",
        per: Per::Worker,
        formula: "`slow_consumer.tail_bytes_max`",
        bytes: |config| config.tail_bytes_max,
    },
    Memory {
        name: "a session's state",
        per: Per::Session,
        formula: "its place in the slab and in its room, its author, and its token's claims",
        bytes: |_| size_of::<Hot>() + size_of::<Cold>() + 256 + size_of::<Identity>(),
    },
    Memory {
        name: "an unfinished message",
        per: Per::Session,
        formula: "`websocket.message_bytes_max` × 2, as a buffer grows",
        bytes: |config| config.frames.message_bytes_max * 2,
    },
    Memory {
        name: "input that waits",
        per: Per::Session,
        formula: "one read buffer, 64 KiB, while the outbox is full or a room is being joined",
        bytes: |config| config.frames.stash_bytes_max,
    },
    Memory {
        name: "outbox",
        per: Per::Session,
        formula: "`websocket.outbox_bytes_max`, the answer that went over it, and a snapshot: `room.snapshot_entries` × (`limits.text_bytes_max` + 512 B)",
        bytes: |config| config.outbox_bytes_max * 2 + snapshot_bytes(config),
    },
    Memory {
        name: "a request",
        per: Per::Request,
        formula: "(`http.head_bytes_max` + `http.body_bytes_max`) × 2, as buffers grow, and 4 KiB",
        bytes: |config| (config.head_bytes_max + config.body_bytes_max) * 2 + (4 << 10),
    },
    Memory {
        name: "backlog",
        per: Per::Room,
        formula: "`room.backlog_bytes` × (1 + forms × 2), forms being all encodings, compressed and not, for every tier",
        bytes: |config| {
            config.rooms().map(|r| r.backlog.bytes_max).max().unwrap_or(0) * (1 + FORM_COUNT * FORM_RATIO)
        },
    },
    Memory {
        name: "users over all rooms",
        per: Per::Worker,
        formula: "`limits.everywhere_users_max` × 400 B, and 3 × 16,384 restraints × 80 B",
        bytes: |config| config.everywhere.users_max * 400 + 3 * KEPT_MAX * 80,
    },
    Memory {
        name: "users",
        per: Per::Room,
        formula: "`limits.users_max` × 200 B",
        bytes: |config| config.rooms().map(|r| r.owner.limits.users_max).max().unwrap_or(0) * USER_BYTES,
    },
    Memory {
        name: "long texts",
        per: Per::Room,
        formula: "16,384 × 80 B",
        bytes: |config| {
            config.rooms().map(|r| r.owner.limits.duplicates.texts_max).max().unwrap_or(0) * SAID_BYTES
        },
    },
    Memory {
        name: "names that were looked at",
        per: Per::Room,
        formula: "4,096 × 192 B, where there are word lists",
        bytes: |_| 4_096 * NAME_BYTES,
    },
    Memory {
        name: "held comments",
        per: Per::Room,
        formula: "(`held.delayed_max` + `held.review_max`) × (`limits.text_bytes_max` + 512 B)",
        bytes: |config| {
            let bytes = |r: &crate::config::RoomSettings| {
                (r.owner.held.delayed_max + r.owner.held.review_max)
                    * (r.owner.limits.text.bytes_max + ENTRY_BYTES)
            };
            config.rooms().map(bytes).max().unwrap_or(0)
        },
    },
    Memory {
        name: "comments that wait for the disk",
        per: Per::Process,
        formula: "`store.queue_bytes`",
        bytes: |config| config.store.queue_bytes_max,
    },
    Memory {
        name: "ids",
        per: Per::Room,
        formula: "`idempotency.ids_max` × 300 B, in the room and in the store",
        bytes: |config| config.rooms().map(|r| r.owner.limits.ids.ids_max).max().unwrap_or(0) * ID_BYTES,
    },
    Memory {
        name: "snapshots and the store's newest",
        per: Per::Room,
        formula: "`room.snapshot_entries` × (`limits.text_bytes_max` + 512 B) × 2",
        bytes: |config| snapshot_bytes(config) * 2,
    },
];

fn snapshot_bytes(config: &Config) -> usize {
    let bytes =
        |r: &crate::config::RoomSettings| r.snapshot_entries * (r.owner.limits.text.bytes_max + ENTRY_BYTES);
    config.rooms().map(bytes).max().unwrap_or(0)
}

/// The memory of a load at worst: every peer costs all that it may, at the same time. Kernel memory of sockets is not
/// in it.
pub fn worst_case(config: &Config, load: &Load) -> u64 {
    MEMORY.iter().map(|memory| (memory.bytes)(config) as u64 * load.count(memory.per)).sum()
}
