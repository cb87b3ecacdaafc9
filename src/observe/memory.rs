//! Giving memory back to the system.
//!
//! A wave of handshakes takes some kilobytes each for as long as it lasts; what is kept of a session is a
//! hundred bytes. The system's allocator keeps such peaks unless it is asked. It is asked by a thread that
//! serves nobody, after a wave: it holds the allocator for about a millisecond, and nothing on the way of a
//! delivery allocates.
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

/// Gives memory back after connections have come or gone, for ever.
pub async fn tend(cells: Vec<Arc<Cells>>) {
    let count =
        || cells.iter().map(|c| (c.connections_accepted.read(), c.connections.read())).collect::<Vec<_>>();
    let mut seen = count();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = count();
        if now != seen {
            seen = now;
            give_back();
        }
    }
}
