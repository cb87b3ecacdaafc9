//! The store as owners see it: what is answered as stored is there, and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use danmaku_room::admission::idempotency::Key;
use danmaku_room::house::board::Board;
use danmaku_room::house::sanction::{Measure, Sanction, Target};
use danmaku_room::house::settings::Settings as RoomSettings;
use danmaku_room::house::stage::{MediaId, Stage};
use danmaku_room::store::StoredId;
use danmaku_wire::entry::{Author, Body, Comment, Entry, Mode, Role, Tier, Visibility};
use danmaku_wire::id::UserId;
use danmaku_wire::position::Epoch;

use super::faults::Fault;
use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("danmaku-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings(dir: &Path) -> Settings {
    Settings {
        dir: dir.to_owned(),
        commit_interval: Duration::from_millis(1),
        relaxed_interval: Duration::from_millis(5),
        commit_entries: 1_000,
        queue_bytes_max: 1 << 20,
        loaded: Bounds { entries_max: 8, ids_max: 100, ids_ms: 60_000, epochs_max: 3 },
        keep: Keep { days: 7, disk_percent: 100 },
        faults: Faults::default(),
    }
}

fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(settings(dir), Arc::default()).expect("opened")
}

fn room(name: &str) -> RoomId {
    RoomId::parse(name).expect("a name")
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("not so late")
}

fn append(name: &str, epoch: &str, expected: u64, seqs: std::ops::RangeInclusive<u64>) -> Append {
    let user = Author {
        id: UserId::parse("u1").expect("an id"),
        name: "名".into(),
        role: Role::Viewer,
        level: 3,
        badges: Vec::new(),
    };
    let user = Arc::new(user);
    let entries = seqs.clone().map(|seq| {
        let text = format!("comment {seq}").into();
        let body = Body::Comment(Comment {
            user: Arc::clone(&user),
            text,
            mode: Mode::Top,
            color: 1,
            size: 25,
            stream_ms: None,
            trace: None,
        });
        Arc::new(Entry { seq, at_ms: now_ms(), visibility: Visibility::Tier(Tier::Lite), body })
    });
    let entries = entries.collect();
    let ids = seqs.filter(|seq| seq % 2 == 0).map(|seq| StoredId {
        key: Key::from_bits(seq.into()),
        payload: u64::MAX - seq,
        seq,
        at_ms: now_ms(),
    });
    let epoch = Epoch::parse(epoch).expect("an epoch");
    Append { room: room(name), epoch, durability: Durability::Stored, expected, entries, ids: ids.collect() }
}

fn progress() -> Arc<Progress> {
    Progress::new(Arc::new(|| {}))
}

/// Appends as one owner would, and how far the store came.
fn put(store: &SqliteStore, progress: &Arc<Progress>, append: Append) -> (u64, u64) {
    let last = append.entries.last().expect("some").seq;
    store.append(append, progress);
    let start = Instant::now();
    while progress.stored().max(progress.failed()) < last {
        assert!(start.elapsed() < Duration::from_secs(30), "no answer for {last}");
        std::thread::yield_now();
    }
    (progress.stored(), progress.failed())
}

fn loaded(store: &SqliteStore, name: &str) -> Loaded {
    let (told, hears) = mpsc::sync_channel(8);
    let promise = Promise::new(Arc::new(move || {
        let _ = told.try_send(());
    }));
    store.load(&room(name), Durability::Stored, Arc::clone(&promise));
    hears.recv_timeout(Duration::from_secs(30)).expect("an answer");
    let loaded = promise.poll().expect("kept").clone();
    assert!(loaded.is_coherent());
    loaded
}

fn shape(loaded: &Loaded) -> (Vec<(String, u64)>, Vec<u64>, Vec<u64>) {
    let epochs = loaded.epochs.iter().map(|(epoch, last)| (epoch.to_string(), *last)).collect();
    let tail = loaded.tail.iter().map(|entry| entry.seq).collect();
    (epochs, tail, loaded.ids.iter().map(|id| id.seq).collect())
}

/// A store that is opened again: entries, epochs and ids are as they were, of as many as an owner is told.
#[test]
fn what_was_stored_is_found_after_a_restart() {
    let scratch = Scratch::new();
    let store = open(&scratch.0);
    assert_eq!(shape(&loaded(&store, "r")), (vec![], vec![], vec![]), "a room that nobody knows");
    let first = progress();
    let said = append("r", "a", 0, 1..=3);
    assert_eq!(put(&store, &first, said.clone()), (3, 0));
    assert_eq!(put(&store, &first, append("r", "a", 3, 4..=4)), (4, 0));
    assert_eq!(put(&store, &progress(), append("r", "b", 4_100, 4_101..=4_103)), (4_103, 0));
    assert_eq!(put(&store, &progress(), append("q", "c", 0, 1..=1)), (1, 0));
    let want = (
        vec![("a".to_owned(), 4), ("b".to_owned(), 4_103)],
        vec![1, 2, 3, 4, 4_101, 4_102, 4_103],
        vec![2, 4, 4_102],
    );
    assert_eq!(shape(&loaded(&store, "r")), want);
    store.close();

    let store = open(&scratch.0);
    let found = loaded(&store, "r");
    assert_eq!(shape(&found), want);
    assert_eq!(found.tail[1], said.entries[1]);
    assert_eq!(found.ids[0], StoredId { at_ms: said.entries[1].at_ms, ..said.ids[0] });
    assert_eq!(put(&store, &progress(), append("r", "c", 9_000, 9_001..=9_004)), (9_004, 0));
    assert_eq!(put(&store, &progress(), append("r", "d", 10_000, 10_001..=10_001)), (10_001, 0));
    let (epochs, tail, _) = shape(&loaded(&store, "r"));
    assert_eq!(epochs, [("b", 4_103), ("c", 9_004), ("d", 10_001)].map(|(e, n)| (e.to_owned(), n)));
    assert_eq!(tail, [4_101, 4_102, 4_103, 9_001, 9_002, 9_003, 9_004, 10_001], "the newest eight");
}

/// An append that does not follow what is stored is given up, and whatever its owner appends behind it.
#[test]
fn an_append_behind_a_hole_is_given_up() {
    let scratch = Scratch::new();
    let store = open(&scratch.0);
    let owner = progress();
    assert_eq!(put(&store, &owner, append("r", "a", 0, 1..=2)), (2, 0));
    assert_eq!(put(&store, &owner, append("r", "a", 3, 4..=5)), (2, 5), "3 was never appended");
    assert_eq!(put(&store, &owner, append("r", "a", 2, 6..=6)), (2, 6), "its owner has failed");
    let late = progress();
    assert_eq!(put(&store, &late, append("r", "b", 1, 2..=2)), (0, 2), "2 is another's");
    assert_eq!(put(&store, &progress(), append("q", "a", 0, 1..=1)), (1, 0), "other rooms go on");
    assert_eq!(shape(&loaded(&store, "r")).1, [1, 2]);
}

/// `store.queue_bytes`: what comes beyond is given up at once, and the store goes on.
#[test]
fn a_full_queue_gives_up_what_comes_beyond() {
    let scratch = Scratch::new();
    let tally = Arc::new(StoreTally::default());
    let small =
        Settings { queue_bytes_max: 1, commit_interval: Duration::from_secs(1), ..settings(&scratch.0) };
    let store = SqliteStore::open(small, Arc::clone(&tally)).expect("opened");
    let (first, second) = (progress(), progress());
    store.append(append("r", "a", 0, 1..=1), &first);
    store.append(append("q", "a", 0, 1..=2), &second);
    assert_eq!(second.failed(), 2, "at once");
    assert_eq!(tally.given_up.load(Ordering::Relaxed), 2);
    assert_eq!(shape(&loaded(&store, "r")).1, [1], "what was in the queue is committed");
    assert_eq!(put(&store, &progress(), append("q", "b", 4_096, 4_097..=4_097)), (4_097, 0));
}

/// Files that are not this version's: refused with what to do about it, and not touched.
#[test]
fn a_file_of_a_later_version_or_of_something_else_is_refused() {
    let scratch = Scratch::new();
    let store = open(&scratch.0);
    put(&store, &progress(), append("r", "a", 0, 1..=1));
    store.close();
    let days = day::Day::in_dir(&scratch.0).expect("readable");
    let file = days.last().expect("one").file(&scratch.0);
    let alter = |sql: &str| {
        let connection = rusqlite::Connection::open(&file).expect("opened");
        connection.execute_batch(sql).expect("altered");
    };
    let refused =
        || SqliteStore::open(settings(&scratch.0), Arc::default()).expect_err("refused").to_string();
    alter("UPDATE form SET version = 9, readable_by = 9");
    let said = refused();
    assert!(said.contains("form 9") && said.contains("start that version"), "{said}");
    alter("UPDATE form SET version = 9, readable_by = 1");
    drop(open(&scratch.0));
    alter("PRAGMA application_id = 7");
    let said = refused();
    assert!(said.contains("no file of danmaku's store") && said.contains("store.path"), "{said}");
    let scratch = Scratch::new();
    let file = day::Day::of_ms(now_ms()).file(&scratch.0);
    let refused =
        || SqliteStore::open(settings(&scratch.0), Arc::default()).expect_err("refused").to_string();
    std::fs::write(&file, "no database, but a text of some length").expect("written");
    let said = refused();
    assert!(said.contains(file.to_str().expect("plain")) && said.contains("not a database"), "{said}");
}

/// A commit that fails: what was in it is answered as not stored and is not there, whatever it left; before and after it
/// everything is.
#[test]
fn a_failed_commit_is_final_and_leaves_nothing() {
    for fault in [Fault::NotDone, Fault::DoneInSecret] {
        let scratch = Scratch::new();
        let (tally, settings) = (Arc::new(StoreTally::default()), settings(&scratch.0));
        let faults = settings.faults.clone();
        let store = SqliteStore::open(settings, Arc::clone(&tally)).expect("opened");
        let (one, other) = (progress(), progress());
        assert_eq!(put(&store, &one, append("r", "a", 0, 1..=2)), (2, 0));
        faults.to_come([fault]);
        assert_eq!(put(&store, &one, append("r", "a", 2, 3..=4)), (2, 4));
        assert_eq!(tally.failures.load(Ordering::Relaxed), 1, "{fault:?}");
        assert_eq!(put(&store, &one, append("r", "a", 4, 5..=5)), (2, 5), "behind a hole nothing is stored");
        assert_eq!(put(&store, &other, append("q", "a", 0, 1..=1)), (1, 0), "the store works again");
        assert!(!tally.is_down());
        assert_eq!(
            shape(&loaded(&store, "r")),
            (vec![("a".to_owned(), 2)], vec![1, 2], vec![2]),
            "{fault:?}"
        );
        // The same of an epoch that began in it.
        faults.to_come([fault]);
        assert_eq!(put(&store, &progress(), append("r", "b", 4_098, 4_099..=4_100)), (0, 4_100));
        assert_eq!(put(&store, &progress(), append("r", "c", 4_098, 4_099..=4_099)), (4_099, 0));
        let (epochs, tail, _) = shape(&loaded(&store, "r"));
        assert_eq!(epochs, [("a".to_owned(), 2), ("c".to_owned(), 4_099)], "{fault:?}");
        assert_eq!(tail, [1, 2, 4_099]);
    }
}

/// Somebody else holds the file: what waits is not lost by waiting, and the store says that it stands.
#[test]
fn a_locked_file_is_waited_for() {
    let scratch = Scratch::new();
    let tally = Arc::new(StoreTally::default());
    let store = SqliteStore::open(settings(&scratch.0), Arc::clone(&tally)).expect("opened");
    let owner = progress();
    assert_eq!(put(&store, &owner, append("r", "a", 0, 1..=1)), (1, 0));
    let file = day::Day::in_dir(&scratch.0).expect("readable").last().expect("one").file(&scratch.0);
    let other = rusqlite::Connection::open(file).expect("opened");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    store.append(append("r", "a", 1, 2..=2), &owner);
    let start = Instant::now();
    while !tally.is_down() {
        assert!(start.elapsed() < Duration::from_secs(30), "it says that it stands");
        std::thread::yield_now();
    }
    assert_eq!((owner.stored(), owner.failed()), (1, 0), "nothing is given up");
    other.execute_batch("ROLLBACK").expect("unlocked");
    assert_eq!(put(&store, &owner, append("r", "a", 2, 3..=3)), (3, 0));
    assert!(!tally.is_down());
}

/// `SqliteStore::close` of a store that cannot be written: it ends, and says that nothing more was stored.
#[test]
fn a_store_that_stands_can_be_closed() {
    let scratch = Scratch::new();
    let store = open(&scratch.0);
    let owner = progress();
    assert_eq!(put(&store, &owner, append("r", "a", 0, 1..=1)), (1, 0));
    let file = day::Day::in_dir(&scratch.0).expect("readable").last().expect("one").file(&scratch.0);
    let other = rusqlite::Connection::open(file).expect("opened");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    store.append(append("r", "a", 1, 2..=2), &owner);
    store.close();
    assert_eq!((owner.stored(), owner.failed()), (1, 2));
}

/// A damaged file of an earlier day: rooms go on without what is in it.
#[test]
fn a_damaged_file_is_set_aside() {
    let scratch = Scratch::new();
    let store = open(&scratch.0);
    put(&store, &progress(), append("r", "a", 0, 1..=200));
    store.close();
    drop(store);
    let today = day::Day::of_ms(now_ms());
    let yesterday = day::Day::of_ms(now_ms() - 86_400_000).file(&scratch.0);
    let connection = rusqlite::Connection::open(today.file(&scratch.0)).expect("opened");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).expect("moved");
    drop(connection);
    let mut bytes = std::fs::read(today.file(&scratch.0)).expect("readable");
    let entries = bytes.len() / 2;
    bytes[entries..].fill(0x5a);
    std::fs::write(&yesterday, bytes).expect("written");
    std::fs::remove_file(today.file(&scratch.0)).expect("removed");
    let tally = Arc::new(StoreTally::default());
    let store = SqliteStore::open(settings(&scratch.0), Arc::clone(&tally)).expect("opened");
    assert_eq!(shape(&loaded(&store, "r")), (vec![], vec![], vec![]));
    assert_eq!(tally.set_aside.load(Ordering::Relaxed), 1);
    assert_eq!(put(&store, &progress(), append("r", "b", 0, 1..=1)), (1, 0));
    assert_eq!(shape(&loaded(&store, "r")).1, [1]);
}

/// A clock that went back: entries go into the newest file, in whose order they stay.
#[test]
fn a_clock_that_went_back_begins_no_older_file() {
    let scratch = Scratch::new();
    let tomorrow = day::Day::of_ms(now_ms() + 2 * 86_400_000);
    drop(schema::open_to_write(&tomorrow.file(&scratch.0), schema::DAY).expect("made"));
    let store = open(&scratch.0);
    assert_eq!(put(&store, &progress(), append("r", "a", 0, 1..=3)), (3, 0));
    assert_eq!(day::Day::in_dir(&scratch.0).expect("readable"), [tomorrow]);
    assert_eq!(shape(&loaded(&store, "r")).1, [1, 2, 3]);
}

/// A room over midnight: what two files have of an epoch is one.
#[test]
fn an_epoch_goes_on_in_the_file_of_the_next_day() {
    let scratch = Scratch::new();
    let store = open(&scratch.0);
    put(&store, &progress(), append("r", "a", 0, 1..=3));
    store.close();
    drop(store);
    let today = day::Day::of_ms(now_ms());
    let yesterday = day::Day::of_ms(now_ms() - 86_400_000);
    for part in ["", "-wal", "-shm"] {
        let named = |day: day::Day| {
            let mut path = day.file(&scratch.0).into_os_string();
            path.push(part);
            path
        };
        let _ = std::fs::rename(named(today), named(yesterday));
    }
    let store = open(&scratch.0);
    assert_eq!(put(&store, &progress(), append("r", "a", 3, 4..=5)), (5, 0));
    let want = (vec![("a".to_owned(), 5)], vec![1, 2, 3, 4, 5], vec![2, 4]);
    assert_eq!(shape(&loaded(&store, "r")), want);
}

/// `Store::keep`: what staff decided last is found after a restart, of every room, and goes when it is taken back.
#[test]
fn what_staff_decided_is_found_after_a_restart() {
    let scratch = Scratch::new();
    let store = open(&scratch.0);
    let user = UserId::parse("u1").expect("an id");
    let sanction = |measure, target, until_ms| Sanction {
        measure,
        target,
        since_ms: 7,
        until_ms,
        rank: Role::Staff,
        by: "key".into(),
        reason: "spam, \"again\"".into(),
    };
    let pinned = append("r", "a", 0, 1..=2).entries;
    let sanctions = vec![
        sanction(Measure::Ban, Target::User(user), None),
        sanction(
            Measure::Mute,
            Target::Address { mark: u64::MAX, shown: "192.0.2.7".into() },
            Some(u64::MAX),
        ),
        sanction(Measure::Shadow, Target::Everyone, Some(9)),
    ];
    let pin = Entry { body: Body::Pin { of: 1 }, ..Entry::clone(&pinned[1]) };
    let board = Board { pin: Some(Arc::new(pin)), pinned: Some(Arc::clone(&pinned[0])), state: None };
    let settings =
        RoomSettings { slow_mode_ms: Some(5_000), color_role: Some(Role::Vip), ..RoomSettings::default() };
    let media = MediaId::parse("stream-1").expect("a name");
    let house = House { sanctions, board, settings, stage: Stage::Live { media, since_ms: 9 } };
    put(&store, &progress(), append("r", "a", 0, 1..=2));
    store.keep(&room("r"), House { sanctions: house.sanctions[..1].to_vec(), ..House::default() });
    store.keep(&room("r"), house.clone());
    store.keep(&room("memory"), house.clone());
    store.keep(&room("q"), house.clone());
    store.keep(&room("q"), House::default());
    store.close();
    drop(store);

    let store = open(&scratch.0);
    let found = loaded(&store, "r");
    assert_eq!(found.tail.len(), 2);
    assert_eq!(found.house.sanctions, house.sanctions);
    assert_eq!((&found.house.board, &found.house.settings), (&house.board, &house.settings));
    assert_eq!(found.house.stage, house.stage);
    assert!(loaded(&store, "q").house.is_empty(), "taken back");
    let found = loaded(&store, "memory");
    assert_eq!(found.house.sanctions, house.sanctions);
    assert_eq!(found.house.board, Board::default(), "of entries that are not there nothing stands");
}
