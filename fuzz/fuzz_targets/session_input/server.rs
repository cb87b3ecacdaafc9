//! Two workers of the server, without listeners: connections are handed to them behind their handshake.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use danmaku::config::{Config, Flags};
use danmaku::identity::identities::Identities;
use danmaku::ingress::arrival::Arrival;
use danmaku::observe::cells::Cells;
use danmaku::store::memory::{Bounds as StoreBounds, MemoryStore};
use danmaku::wiring::{Bell, Departure, Shared, Told};
use danmaku::worker::message::Control;
use danmaku::worker::{self, Parts};
use danmaku_fuzz::connection::LIMITS;
use danmaku_mailbox::{Bounds, mailbox};
use danmaku_placement::{HashRing, RingSeed, Weight};
use danmaku_room::form::Encoding;
use danmaku_wire::entry::Tier;
use danmaku_wire::id::RoomId;

/// More than one, so that sessions move between them and follow rooms from afar.
pub(crate) const WORKERS: usize = 2;
const LANE: Bounds = Bounds { slots: 4_096, bytes_max: 64 << 20, age_max_us: u64::MAX };
/// How long any answer may take; under a sanitizer, beside other work, on a slow machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Ids of a minute of thousands of inputs.
const IDS_MAX: usize = 4_000_000;
const A_LONG_TIME_S: u32 = 1 << 24;

/// A connection as its worker adopts it.
pub(crate) struct Opening {
    /// Who adopts it.
    pub(crate) worker: usize,
    pub(crate) room: RoomId,
    pub(crate) deflate: bool,
    /// What came behind the request.
    pub(crate) leftover: Vec<u8>,
}

/// Opens a connection to the workers of this process, which are started at the first.
pub(crate) fn connect(opening: Opening) -> UnixStream {
    static SERVER: OnceLock<Arc<Shared>> = OnceLock::new();
    let Opening { worker, room, deflate, leftover } = opening;
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    far.set_nonblocking(true).expect("a socket");
    near.set_read_timeout(Some(ANSWER_WITHIN)).expect("a socket");
    near.set_write_timeout(Some(ANSWER_WITHIN)).expect("a socket");
    let arrival = Arrival {
        // A session reads, writes and shuts its socket, and asks for nothing that only TCP has.
        socket: TcpStream::from(OwnedFd::from(far)),
        tls: None,
        leftover,
        response: Vec::new(),
        encoding: Encoding::Json,
        deflate,
        room,
        since: None,
        tier: Tier::Standard,
        may_full: true,
        snapshot: false,
        author: None,
        identity: None,
        address: 0,
        hold: None,
        bridged: None,
        moved: None,
    };
    let post = &SERVER.get_or_init(start).post[worker % WORKERS];
    post.control(Control::Adopt(Box::new(arrival)), 256, 0).expect("nobody else is posting");
    near
}

/// Limits of time are out of play; those of bytes are narrow.
fn config() -> Config {
    let settings = [
        ("LIMITS__USER_MODE", "off".to_owned()),
        ("LIMITS__ROOM_MODE", "off".to_owned()),
        ("LIMITS__DUPLICATE_MODE", "off".to_owned()),
        ("LIMITS__JOINS_BURST", "1000".to_owned()),
        ("LIMITS__MOVES_LIMITED", "false".to_owned()),
        ("MODERATION__REPORTS_MAX", "0".to_owned()),
        ("IDEMPOTENCY__IDS_MAX", IDS_MAX.to_string()),
    ];
    let env = settings.map(|(key, value)| (format!("DANMAKU__{key}"), value));
    let mut config = Config::load(None, env, &Flags::default()).expect("settings that are known");
    config.frames = LIMITS;
    config.frames_per_s = u32::MAX;
    config.bytes_per_s = u64::MAX;
    config.inflated_bytes_per_s = u64::MAX;
    config.errors_per_s = u16::MAX;
    // A few answers fill it, so that input is kept and taken up again.
    config.outbox_bytes_max = 256;
    config.ping_after_s = A_LONG_TIME_S;
    config.set_secret([7; 16]);
    config
}

fn start() -> Arc<Shared> {
    let config = config();
    let ids = config.rooms().next().expect("the ordinary rooms").owner.limits.ids;
    let store = MemoryStore::new(StoreBounds {
        rooms_max: 1_000,
        entries_max: 64,
        ids_max: IDS_MAX,
        ids_ms: ids.window_us / 1_000,
        epochs_max: 16,
    });
    let bells: Vec<Bell> = (0..WORKERS).map(|_| Bell::default()).collect();
    let (post, mailboxes): (Vec<_>, Vec<_>) =
        bells.iter().map(|bell| mailbox(LANE, LANE, LANE, bell.clone())).unzip();
    let members = (0..WORKERS as u16).map(|worker| (worker, Weight::default()));
    let shared = Arc::new(Shared {
        ring: HashRing::build(RingSeed::new([7; 16]), members).expect("two members"),
        post,
        bells: bells.clone(),
        cells: Vec::new(),
        directory: Default::default(),
        doors: Default::default(),
        broadcasts: Default::default(),
        audit: Default::default(),
        identities: Arc::new(Identities::of(&config).expect("no keys")),
        config: ArcSwap::from_pointee(config),
        changing: Default::default(),
        hook: None,
        words: Arc::new(danmaku::word_files::WordFiles::of(std::path::Path::new("data"))),
        addresses: Arc::default(),
        snapshots: Default::default(),
        tls: None,
        store: Arc::new(store),
        stored: Arc::default(),
        started: Instant::now(),
        departure: AtomicU8::new(Departure::None as u8),
        replaced: Default::default(),
        inhabited: AtomicUsize::new(WORKERS),
        incarnation: 1,
        epochs: AtomicU64::new(0),
        told: Told::all(WORKERS),
    });
    for (index, (mailbox, bell)) in mailboxes.into_iter().zip(bells).enumerate() {
        let (shared, cells) = (Arc::clone(&shared), Arc::<Cells>::default());
        let parts = Parts { index: index as u16, shared, cells, mailbox, bell };
        // Inputs find no end to it: half a server is no server.
        std::thread::spawn(move || worker::run(parts).expect("a worker runs"));
    }
    shared
}
