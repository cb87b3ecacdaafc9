//! What the system says of the server's process and of TCP as a whole, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

use crate::shared::Shared;
use std::sync::atomic::Ordering::Relaxed;

/// What a process has used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// CPU time of all its threads, ended ones too, seconds.
    pub cpu_s: f64,
    /// CPU time by thread: name and seconds.
    pub threads: BTreeMap<u32, (String, f64)>,
    /// Memory in use, KiB.
    pub rss_kib: u64,
}

/// Reads what process `pid` has used; `None` if it is not there.
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = |path: String| cpu(&fs::read_to_string(path).ok()?);
    let (_, cpu_s) = stat(format!("/proc/{pid}/stat"))?;
    let mut threads = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread that has ended since the listing is in the sum of the process.
        if let Some(used) = stat(format!("/proc/{pid}/task/{tid}/stat")) {
            threads.insert(tid, used);
        }
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Usage { cpu_s, threads, rss_kib: field(&status, "VmRSS:")? })
}

/// Name and CPU seconds of a `stat` line (proc_pid_stat(5): utime and stime are fields 14 and 15). The name
/// stands in parentheses and may itself hold some.
fn cpu(stat: &str) -> Option<(String, f64)> {
    let (head, tail) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split(' ').collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some((name, ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The first number behind a word.
fn field(text: &str, word: &str) -> Option<u64> {
    let rest = &text[text.find(word)? + word.len()..];
    rest.split_whitespace().next()?.parse().ok()
}

/// Kernel memory of all TCP sockets of this machine, KiB (`mem` in `/proc/net/sockstat`, in pages).
pub fn tcp_memory_kib() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/sockstat").ok()?;
    let line = text.lines().find(|line| line.starts_with("TCP:"))?;
    Some(field(line, " mem ")? * (rustix::param::page_size() as u64 / 1_024))
}

/// The server's side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ServerSide {
    established: bool,
    send_queue: u64,
}

/// The server's send queues towards the connections that are watched; remembers them to notice changes.
#[derive(Debug, Default)]
pub struct SendQueues {
    seen: BTreeMap<u64, u64>,
}

impl SendQueues {
    /// Notes for every watched connection when its server's send queue last changed, and when the server
    /// had shut it. A queue that is not empty and does not change any more is full.
    pub fn look(&mut self, server_port: u16, shared: &Shared, now_ns: u64) {
        let Ok(table) = fs::read_to_string("/proc/net/tcp") else { return };
        let sides: BTreeMap<u64, ServerSide> =
            table.lines().skip(1).filter_map(|line| server_side(line, server_port)).collect();
        for watched in &shared.watched {
            let local = watched.local.load(Relaxed);
            let Some(side) = sides.get(&local).filter(|_| local != 0) else { continue };
            if !side.established {
                let _ = watched.shut_ns.compare_exchange(0, now_ns, Relaxed, Relaxed);
                continue;
            }
            let before = self.seen.insert(local, side.send_queue);
            if side.send_queue == 0 {
                watched.full_ns.store(0, Relaxed);
            } else if before != Some(side.send_queue) {
                watched.full_ns.store(now_ns, Relaxed);
            }
        }
    }
}

/// Remote address (packed as in [`crate::shared::Watched::local`]) and state of a line of `/proc/net/tcp`
/// whose local port is the server's. Addresses there are in the machine's byte order; state 1 is
/// ESTABLISHED.
fn server_side(line: &str, server_port: u16) -> Option<(u64, ServerSide)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, remote, state, queues) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let port = |text: &str| u16::from_str_radix(text, 16).ok();
    if port(local.split_once(':')?.1)? != server_port {
        return None;
    }
    let (address, remote_port) = remote.split_once(':')?;
    let address = u32::from_be_bytes(u32::from_str_radix(address, 16).ok()?.to_ne_bytes());
    let send_queue = u64::from_str_radix(queues.split_once(':')?.0, 16).ok()?;
    let side = ServerSide { established: state == "01", send_queue };
    Some((u64::from(address) << 16 | u64::from(port(remote_port)?), side))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cpu`: a name with spaces and parentheses does not shift the fields.
    #[test]
    fn a_threads_name_may_hold_anything() {
        let ticks = rustix::param::clock_ticks_per_second();
        let line = format!("7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 {ticks} {} 0 0 20 0", 2 * ticks);
        assert_eq!(cpu(&line), Some(("a) b (c".to_owned(), 3.0)));
    }

    /// `server_side`: only the server's side of a connection, under the client's address.
    #[test]
    fn the_servers_side_of_a_connection_is_found() {
        let line = "  4: 0100007F:1F90 0201007F:D431 01 0000FF10:00000000 01:00000014 00000000     0 0 1";
        let client = u64::from(u32::from_be_bytes([127, 0, 1, 2])) << 16 | 0xD431;
        let side = ServerSide { established: true, send_queue: 0xFF10 };
        assert_eq!(server_side(line, 8080), Some((client, side)));
        let shut = line.replace(" 01 ", " 04 ");
        assert_eq!(server_side(&shut, 8080).map(|(_, side)| side.established), Some(false));
        assert_eq!(server_side(line, 8081), None);
        assert_eq!(server_side("garbage", 8080), None);
    }
}
