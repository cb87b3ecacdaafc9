//! Removes what is too old, and what a full disk has no room for: whole days, never the newest.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::day::Day;
use crate::store::tally::StoreTally;

/// How often the disk is looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(60);
/// How often a file may go for its age. A clock that is wrong for an hour costs one day, not all.
const AGED_EVERY: Duration = Duration::from_secs(3_600);

/// How long history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Days besides the present one.
    pub days: u32,
    /// How much of the disk may be used, by whatever, before the oldest day goes; percent.
    pub disk_percent: u32,
}

/// Why a file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Age,
    Room,
}

/// The file that is to go next, if one is.
fn next(days: &[Day], today: Day, keep: Keep, used_percent: u32, may_age: bool) -> Option<(Day, Cause)> {
    // The newest is written to.
    let [oldest, _, ..] = days else { return None };
    if may_age && today.since(*oldest) > keep.days {
        return Some((*oldest, Cause::Age));
    }
    (used_percent > keep.disk_percent).then_some((*oldest, Cause::Room))
}

/// Looks after a store's files.
#[derive(Debug)]
pub(super) struct Retention {
    dir: PathBuf,
    keep: Keep,
    looked_at: Option<Instant>,
    aged_at: Option<Instant>,
    told: bool,
}

impl Retention {
    pub(super) fn new(dir: &Path, keep: Keep) -> Self {
        Self { dir: dir.to_owned(), keep, looked_at: None, aged_at: None, told: false }
    }

    /// Removes what has to go, if it is time to look.
    pub(super) fn look(&mut self, tally: &Arc<StoreTally>) {
        if self.looked_at.is_some_and(|at| at.elapsed() < LOOKED_AT_EVERY) {
            return;
        }
        self.looked_at = Some(Instant::now());
        let Ok(days) = Day::in_dir(&self.dir) else { return };
        tally.file_bytes.store(days.iter().map(|day| bytes(&day.file(&self.dir))).sum(), Ordering::Relaxed);
        let may_age = self.aged_at.is_none_or(|at| at.elapsed() >= AGED_EVERY);
        let used = used_percent(&self.dir);
        let Some((day, cause)) = next(&days, Day::today(), self.keep, used, may_age) else {
            if used > self.keep.disk_percent && !std::mem::replace(&mut self.told, true) {
                tracing::warn!(
                    used_percent = used,
                    "the disk is fuller than `store.disk_percent`, and history has no older day to give"
                );
            }
            return;
        };
        self.told = false;
        if cause == Cause::Age {
            self.aged_at = Some(Instant::now());
        }
        let file = day.file(&self.dir);
        match remove(&file) {
            Ok(()) => {
                tally.removed.fetch_add(1, Ordering::Relaxed);
                tracing::info!(file = %file.display(), ?cause, "a day of history was removed");
            }
            Err(error) => {
                tracing::error!(%error, file = %file.display(), "a day of history cannot be removed");
            }
        }
    }
}

fn remove(file: &Path) -> std::io::Result<()> {
    // What is beside it means nothing without it, and goes first: nothing may find it with a log of another.
    for part in ["-wal", "-shm"] {
        let mut path = file.as_os_str().to_owned();
        path.push(part);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_file(file)
}

fn bytes(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}

/// How much of a disk is used, as far as others than the superuser can use it.
fn used_percent(dir: &Path) -> u32 {
    let Ok(disk) = rustix::fs::statvfs(dir) else { return 0 };
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    let all = used + disk.f_bavail;
    u32::try_from((used * 100).checked_div(all).unwrap_or(0)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `next`: the oldest goes when it is too old or the disk too full, the newest never.
    #[test]
    fn the_oldest_day_goes_and_the_newest_never() {
        let day = |n: u64| Day::of_ms(n * 86_400_000);
        let keep = Keep { days: 7, disk_percent: 80 };
        for (days, today, used, may_age, want) in [
            (&[90, 100][..], 100, 10, true, Some((90, Cause::Age))),
            (&[93, 100], 100, 10, true, None),
            (&[92, 100], 100, 10, true, Some((92, Cause::Age))),
            (&[90, 100], 100, 10, false, None),
            (&[99, 100], 100, 81, true, Some((99, Cause::Room))),
            (&[99, 100], 100, 80, true, None),
            (&[90], 100, 99, true, None),
            (&[], 100, 99, true, None),
            // A clock that went back removes nothing.
            (&[100, 101], 50, 10, true, None),
        ] {
            let days: Vec<_> = days.iter().map(|n| day(*n)).collect();
            let found = next(&days, day(today), keep, used, may_age);
            assert_eq!(found, want.map(|(n, cause)| (day(n), cause)), "{days:?} {today} {used}");
        }
    }

    /// `Retention::look`: a file goes with what is beside it, and others stay.
    #[test]
    fn a_day_goes_with_all_its_files() {
        let dir = std::env::temp_dir().join(format!("danmaku-retention-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let old = Day::of_ms(0).file(&dir);
        let today = Day::today().file(&dir);
        for file in [&old, &today] {
            for part in ["", "-wal", "-shm"] {
                let mut path = file.as_os_str().to_owned();
                path.push(part);
                fs::write(path, "something").expect("written");
            }
        }
        fs::write(dir.join("secret"), "s").expect("written");
        let tally = Arc::<StoreTally>::default();
        let mut retention = Retention::new(&dir, Keep { days: 7, disk_percent: 100 });
        retention.look(&tally);
        retention.look(&tally);
        let name = |file: std::io::Result<fs::DirEntry>| file.expect("listed").file_name().into_string();
        let files = fs::read_dir(&dir).expect("readable");
        let mut left: Vec<String> = files.map(|file| name(file).expect("plain")).collect();
        left.sort();
        let name = today.file_name().and_then(|name| name.to_str()).expect("plain").to_owned();
        assert_eq!(left, [name.clone(), format!("{name}-shm"), format!("{name}-wal"), "secret".to_owned()]);
        assert_eq!(tally.removed.load(Ordering::Relaxed), 1);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
