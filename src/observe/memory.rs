//! Giving memory back to the system.
//!
//! A wave of handshakes takes some kilobytes each for as long as it lasts; what is kept of a session is a
//! hundred bytes. The system's allocator keeps such peaks unless it is asked. It is asked by a thread that
//! serves nobody, and only when a wave is over: it holds the allocator for a millisecond or more, for which
//! a handshake or a comment would have to wait. While connections come and go without a pause, what one has
//! freed serves the next.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::cells::Cells;

/// How often the workers' counters are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[cfg(target_env = "gnu")]
// SAFETY: the C library's own declaration: int malloc_trim(size_t).
unsafe extern "C" {
    /// malloc_trim(3): gives free pages of all arenas back to the system.
    fn malloc_trim(pad: usize) -> i32;
}

/// Gives back what is free.
fn give_back() {
    // SAFETY: malloc_trim may be called at any time from any thread ("MT-Safe" in its manual page), takes no
    // pointer, and touches free memory only.
    #[cfg(target_env = "gnu")]
    unsafe {
        malloc_trim(0);
    }
}

/// When memory is to be given back: once nothing comes or goes any more, after something did.
#[derive(Debug, Default)]
struct Wave<S> {
    seen: S,
    rolls: bool,
}

impl<S: PartialEq> Wave<S> {
    /// Whether a wave is over, seen from the counts now.
    fn is_over(&mut self, now: S) -> bool {
        let moved = self.seen != now;
        self.seen = now;
        std::mem::replace(&mut self.rolls, moved) && !moved
    }
}

/// Gives memory back after connections have come or gone, for ever.
pub async fn tend(cells: Vec<Arc<Cells>>) {
    let count =
        || cells.iter().map(|c| (c.connections_accepted.read(), c.connections.read())).collect::<Vec<_>>();
    let mut wave = Wave { seen: count(), rolls: false };
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if wave.is_over(count()) {
            give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Wave::is_over`: once after each wave, never while it rolls, never in a calm.
    #[test]
    fn memory_is_given_back_once_after_each_wave() {
        let mut wave = Wave::default();
        let over: Vec<bool> = [0, 1, 2, 3, 3, 3, 4, 4, 4].map(|count| wave.is_over(count)).into();
        assert_eq!(over, [false, false, false, false, true, false, false, true, false]);
    }
}
