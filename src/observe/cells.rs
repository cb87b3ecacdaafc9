//! Counters and gauges of one worker. The worker alone writes them, with plain loads and stores; a
//! scrape on another thread reads and sums. Nothing on the hot path is shared.

use std::sync::atomic::{AtomicU64, Ordering};

use danmaku_room::admission::display::Hidden;
use danmaku_room::admission::rule::{Rule, Tally};
use danmaku_room::admission::words::WordTally;
use danmaku_room::owner::held::HeldTally;
use danmaku_room::owner::reports::ReportTally;
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::native::ErrorCode;

use super::limits::Limit;

/// One number with one writer.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// Adds to a counter.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Reads it, from any thread.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a number only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

macro_rules! cells {
    ($( $(#[doc = $doc:literal])+ $field:ident: $kind:ident, )*) => {
        /// The plain numbers of one worker.
        #[derive(Debug)]
        pub struct Cells {
            $( $(#[doc = $doc])+ pub $field: Cell, )*
            /// Refusals by error code.
            pub refused: [Cell; ErrorCode::ALL.len()],
            /// Limits that peers met.
            pub limits: [Cell; Limit::ALL.len()],
            /// What rules of admission refused.
            pub rules_refused: [Cell; Rule::ALL.len()],
            /// What rules that only observe would have refused.
            pub rules_observed: [Cell; Rule::ALL.len()],
            /// Ended sessions by close code.
            pub closed: [Cell; CLOSE_CODES.len()],
        }

        impl Default for Cells {
            fn default() -> Self {
                Self {
                    $( $field: Cell::default(), )*
                    refused: std::array::from_fn(|_| Cell::default()),
                    limits: std::array::from_fn(|_| Cell::default()),
                    rules_refused: std::array::from_fn(|_| Cell::default()),
                    rules_observed: std::array::from_fn(|_| Cell::default()),
                    closed: std::array::from_fn(|_| Cell::default()),
                }
            }
        }

        impl Cells {
            /// Every plain number: name, help, kind, value.
            pub fn each(&self, mut see: impl FnMut(&'static str, &'static str, Kind, u64)) {
                $( see(stringify!($field), concat!($($doc),+).trim(), Kind::$kind, self.$field.read()); )*
            }
        }
    };
}

cells! {
    /// Open sessions.
    connections: Gauge,
    /// Connections accepted.
    connections_accepted: Counter,
    /// Accepts that failed, as a rule for want of descriptors.
    accept_errors: Counter,
    /// Sessions that joined a room.
    joins: Counter,
    /// Rooms with members or an owner here.
    rooms: Gauge,
    /// Rooms owned here.
    rooms_owned: Gauge,
    /// Comments and events sequenced.
    published: Counter,
    /// Entries handed to sockets: one for each entry and subscriber.
    delivered: Counter,
    /// Bytes handed to sockets, all kinds.
    bytes_sent: Counter,
    /// Bytes read from sockets.
    bytes_received: Counter,
    /// Write calls on sockets.
    writes: Counter,
    /// Batches sealed.
    batches: Counter,
    /// Entries in sealed batches.
    batch_entries: Counter,
    /// Canonical bytes of sealed batches.
    batch_bytes: Counter,
    /// Forms made: encodings of batches.
    forms_made: Counter,
    /// Framed bytes of the forms made.
    form_bytes: Counter,
    /// The most forms that members of any one room here want at the same time.
    room_forms_max: Gauge,
    /// Snapshots sent over HTTP.
    snapshots_served: Counter,
    /// Snapshots written down for those who ask over HTTP.
    snapshots_made: Counter,
    /// Compressed forms made of them.
    snapshots_compressed: Counter,
    /// Snapshots asked for over HTTP that the asker had already.
    snapshots_not_modified: Counter,
    /// Passes finished.
    passes: Counter,
    /// CPU time of passes, microseconds.
    pass_cpu_us: Counter,
    /// The longest tick of any room here, microseconds; 0: every pass runs at once.
    tick_us_max: Gauge,
    /// Wake-ups of other workers by full mailboxes or news of rooms.
    wakes_sent: Counter,
    /// Messages taken from the mailbox.
    mailbox_taken: Counter,
    /// Messages waiting in the mailbox, all lanes.
    mailbox_depth: Gauge,
    /// Connections closed for sending more in a second than they may.
    floods: Counter,
    /// Requests refused by a full mailbox.
    mailbox_refused: Counter,
    /// Must-arrive messages waiting for another worker's full ring.
    control_waiting: Gauge,
    /// Replicas that were lapped by their owner's log and attached again.
    resyncs: Counter,
    /// Gaps told to subscribers.
    gaps: Counter,
    /// Entries told as lost in gaps.
    gap_entries: Counter,
    /// Sockets that took less than they were offered.
    blocked: Counter,
    /// Sessions blocked now.
    blocked_now: Gauge,
    /// Sessions ended because they could not keep up.
    slow_consumers: Counter,
    /// Bytes of half-written frames kept for slow consumers.
    tail_bytes: Gauge,
    /// Pings sent to silent peers.
    pings_sent: Counter,
    /// Connections that are no sessions: handshakes, and requests over HTTP.
    handshakes: Gauge,
    /// Addresses and prefixes whose connections are counted apart.
    addresses: Gauge,
    /// Connections counted together because the table of addresses is full.
    addresses_overflow: Gauge,
    /// Connections closed for want of a PROXY header from a trusted proxy.
    proxy_headers_refused: Counter,
    /// TLS handshakes finished.
    tls_handshakes: Counter,
    /// TLS handshakes that failed: another version or cipher, no TLS at all, or too late.
    tls_handshakes_failed: Counter,
    /// Sealed bytes that TLS keeps for sessions whose sockets are full.
    tls_kept_bytes: Gauge,
    /// Tokens that were taken: at the beginning of a connection, by a request, or by `auth`.
    tokens_taken: Counter,
    /// Tokens of these that had been verified before.
    tokens_taken_again: Counter,
    /// Tokens and keys of back ends that were refused.
    tokens_refused: Counter,
    /// Verified tokens that are remembered.
    tokens_remembered: Gauge,
    /// Tickets made.
    tickets_made: Counter,
    /// Tickets used.
    tickets_used: Counter,
    /// Tickets refused: unknown, used, too old, or another room's.
    tickets_refused: Counter,
    /// Tickets that are not used yet.
    tickets_open: Gauge,
    /// Decisions about users: revoked, changed or disconnected.
    users_decided: Counter,
    /// Users that are remembered as revoked or changed.
    users_changed: Gauge,
    /// Times that the key set of `auth.jwks` was asked for.
    key_sets_asked: Counter,
    /// Times that it could not be had or not be used.
    key_sets_failed: Counter,
    /// Texts of which word lists covered parts.
    texts_masked: Counter,
    /// Texts that word lists had held.
    texts_held: Counter,
    /// Texts that word lists showed to their authors alone.
    texts_shadowed: Counter,
    /// Names that word lists covered or left out, as often as they were looked at.
    names_hidden: Counter,
    /// Comments held for a moderator.
    comments_held: Counter,
    /// Comments held for their room's delay.
    comments_delayed: Counter,
    /// Held comments that a moderator let out.
    held_released: Counter,
    /// Held comments that a moderator refused.
    held_rejected: Counter,
    /// Held comments that no moderator looked at in time.
    held_expired: Counter,
    /// Comments that wait for a moderator.
    held_now: Gauge,
    /// Comments that wait for their room's delay.
    delayed_now: Gauge,
    /// Comments that wait for the platform's ruling.
    asked_now: Gauge,
    /// Questions that were put to the platform's receiver.
    webhook_asked: Counter,
    /// Questions that it answered.
    webhook_answered: Counter,
    /// Questions without an answer: late, refused a connection, not asked at all.
    webhook_failed: Counter,
    /// Posts to the receiver: a question or a batch of them.
    webhook_calls: Counter,
    /// Connections that were made for them.
    webhook_connections: Counter,
    /// Posts under way.
    webhook_running: Gauge,
    /// The receiver's breaker: 0 closed, 1 open, 2 half-open.
    webhook_breaker_max: Gauge,
    /// Times that it opened.
    webhook_breaker_opened: Counter,
    /// Connections that the receiver refused.
    webhook_denied: Counter,
    /// Held comments that a member of staff was not told of, reading too slowly.
    pending_lost: Counter,
    /// Rules of all word lists in use.
    word_rules: Gauge,
    /// Memory of the word lists in use.
    word_bytes: Gauge,
    /// Times that word lists were read again, their files having changed.
    word_lists_read: Counter,
    /// Times that they could not be used, and the old ones stayed.
    word_lists_refused: Counter,
    /// Handshakes refused.
    handshakes_refused: Counter,
    /// Entries shown that the store has not confirmed.
    unstored: Gauge,
    /// Times that a worker stood still for half a second or more, stopped or starved.
    pauses: Counter,
    /// Rooms whose breaker is open: they refuse the crowd.
    breakers_open: Gauge,
    /// Rooms whose breaker is half-open: a few probes pass.
    breakers_half_open: Gauge,
    /// Times that a room's breaker opened.
    breakers_opened: Counter,
    /// Workers whose breaker is open: all their rooms refuse the crowd.
    worker_breakers_open: Gauge,
    /// Workers whose breaker is half-open.
    worker_breakers_half_open: Gauge,
    /// Times that a worker's breaker opened.
    worker_breakers_opened: Counter,
    /// How far the passes of the worker that is furthest behind are behind, microseconds.
    pass_lag_us_max: Gauge,
    /// How long the oldest comment has waited in any worker's mailbox, microseconds.
    mailbox_age_us_max: Gauge,
    /// Comments of the crowd in the window over the process; 0 where there is none.
    node_window: Gauge,
    /// Comments that the display budget kept from `standard`, and so from `lite`.
    hidden_standard: Counter,
    /// Comments that the display budget kept from `lite`.
    hidden_lite: Counter,
    /// Comments that a budget which only observes would have kept from `standard`.
    hidden_standard_observed: Counter,
    /// Comments that a budget which only observes would have kept from `lite`.
    hidden_lite_observed: Counter,
    /// Users of whom it is known what they do in all rooms together.
    watched_users: Gauge,
    /// Sanctions in force: bans, mutes and shadow bans.
    sanctions: Gauge,
    /// Reports of comments that were taken.
    reports: Counter,
    /// Reported comments that wait for a moderator.
    reported_now: Gauge,
    /// Orders of staff that rooms carried out.
    orders: Counter,
    /// Events of the platform that rooms took, retries among them.
    events_pushed: Counter,
    /// Panics caught in sessions.
    session_panics: Counter,
    /// Hand-overs by which this process took the place of another.
    taken_over: Counter,
    /// How long publishing paused when this process took over, microseconds; 0: it did not.
    taken_over_pause_us_max: Gauge,
    /// Hand-overs to another process that were called off.
    handovers_called_off: Counter,
    /// Rooms whose owner failed and was started anew.
    room_reloads: Counter,
}

/// Close codes with a counter of their own.
pub const CLOSE_CODES: [DisconnectCode; 14] = [
    DisconnectCode::Normal,
    DisconnectCode::Protocol,
    DisconnectCode::WrongType,
    DisconnectCode::InvalidText,
    DisconnectCode::Policy,
    DisconnectCode::TooBig,
    DisconnectCode::Internal,
    DisconnectCode::Restart,
    DisconnectCode::Overloaded,
    DisconnectCode::TokenExpired,
    DisconnectCode::Banned,
    DisconnectCode::RoomClosed,
    DisconnectCode::SlowConsumer,
    DisconnectCode::Replaced,
];

impl Cells {
    /// Counts a refusal.
    pub fn refuse(&self, code: ErrorCode) {
        if let Some(i) = ErrorCode::ALL.iter().position(|c| *c == code) {
            self.refused[i].add(1);
        }
    }

    /// Counts a limit that a peer met.
    pub fn met(&self, limit: Limit) {
        self.met_often(limit, 1);
    }

    /// Counts a limit that peers met, so often.
    pub fn met_often(&self, limit: Limit, n: u64) {
        self.limits[limit as usize].add(n);
    }

    /// Counts what the rules of a room met.
    pub fn count_rules(&self, tally: &Tally) {
        for (cells, counts) in
            [(&self.rules_refused, &tally.refused), (&self.rules_observed, &tally.observed)]
        {
            for (rule, n) in counts.iter().filter(|(_, n)| *n > 0) {
                cells[rule as usize].add(n);
            }
        }
    }

    /// Counts what word lists did beside refusing.
    pub fn count_words(&self, tally: &WordTally) {
        self.texts_masked.add(tally.masked);
        self.texts_held.add(tally.held);
        self.texts_shadowed.add(tally.shadowed);
        self.names_hidden.add(tally.names);
    }

    /// Counts what became of held comments.
    pub fn count_held(&self, tally: &HeldTally) {
        self.comments_held.add(tally.held);
        self.comments_delayed.add(tally.delayed);
        self.held_released.add(tally.released);
        self.held_rejected.add(tally.rejected);
        self.held_expired.add(tally.expired);
        self.met_often(Limit::Review, tally.review_full);
        self.met_often(Limit::Delayed, tally.delayed_full);
        self.met_often(Limit::Asked, tally.asked_full);
    }

    /// Counts what tiers hid.
    pub fn count_hidden(&self, hidden: &Hidden) {
        self.hidden_standard.add(hidden.standard);
        self.hidden_lite.add(hidden.lite);
        self.hidden_standard_observed.add(hidden.observed_standard);
        self.hidden_lite_observed.add(hidden.observed_lite);
    }

    /// Counts what became of reports.
    pub fn count_reports(&self, tally: &ReportTally) {
        self.reports.add(tally.taken);
        self.met_often(Limit::ReportRate, tally.too_fast);
        self.met_often(Limit::Reports, tally.full);
    }

    /// Counts an ended session.
    pub fn close(&self, code: DisconnectCode) {
        if let Some(i) = CLOSE_CODES.iter().position(|c| *c == code) {
            self.closed[i].add(1);
        }
    }
}
