//! Sockets that a service manager has opened (sd_listen_fds(3)): `LISTEN_PID`, `LISTEN_FDS`, `LISTEN_FDNAMES`.
#![allow(unsafe_code)]

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::SockRef;

use crate::ingress::listener::{self, Kind, Listener};

/// The first descriptor that is passed.
const FIRST: i32 = 3;
/// The name of the admin port's socket in `LISTEN_FDNAMES`.
const ADMIN: &str = "admin";
/// The name of sockets whose clients speak TLS.
const TLS: &str = "tls";
/// The name of sockets for back ends; all others are for clients that speak plainly.
const API: &str = "api";

/// Listening sockets from outside.
#[derive(Debug, Default)]
pub struct Inherited {
    /// For clients.
    pub client: Vec<Listener>,
    /// For the admin port.
    pub admin: Option<TcpListener>,
}

/// What the variables say: how many descriptors, and the name of each.
fn said(pid: Option<&str>, count: Option<&str>, names: Option<&str>, own: u32) -> Option<Vec<String>> {
    // Meant for another process, the variables came down with the environment.
    if pid?.parse() != Ok(own) {
        return None;
    }
    let count: usize = count?.parse().ok()?;
    let mut names = names.unwrap_or_default().split(':').map(str::to_owned);
    Some((0..count).map(|_| names.next().unwrap_or_default()).collect())
}

/// Takes the sockets that were passed to this process; once, as they are then owned by the caller.
///
/// # Errors
/// When a passed descriptor is not a listening TCP socket.
pub fn take() -> io::Result<Inherited> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let var = |name: &str| env::var(name).ok();
    let (pid, count, names) = (var("LISTEN_PID"), var("LISTEN_FDS"), var("LISTEN_FDNAMES"));
    let Some(names) = said(pid.as_deref(), count.as_deref(), names.as_deref(), std::process::id()) else {
        return Ok(Inherited::default());
    };
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Inherited::default());
    }
    let mut inherited = Inherited::default();
    for (fd, name) in (FIRST..).zip(names) {
        let wrong = |why: &str| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {fd} of LISTEN_FDS {why}"))
        };
        if rustix::fs::readlink(format!("/proc/self/fd/{fd}"), Vec::new()).is_err() {
            return Err(wrong("is not open"));
        }
        // SAFETY: the descriptor is open, and whoever started this process gave it to it alone: LISTEN_PID is
        // this process, nothing else takes descriptors from there, and this is done once.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        let socket = SockRef::from(&fd);
        if !matches!(socket.is_listener(), Ok(true)) || socket.local_addr()?.as_socket().is_none() {
            return Err(wrong("is not a listening TCP socket"));
        }
        let listener = TcpListener::from(fd);
        listener.set_nonblocking(true)?;
        if name == ADMIN && inherited.admin.is_none() {
            inherited.admin = Some(listener);
        } else {
            let kind = match &*name {
                TLS => Kind::Tls,
                API => Kind::Api,
                _ => Kind::Plain,
            };
            listener::prepare(&SockRef::from(&listener))?;
            inherited.client.push(Listener::of(listener, kind)?);
        }
    }
    Ok(inherited)
}

#[cfg(test)]
mod tests {
    use super::said;

    /// `said`: only what is meant for this process counts, and names may be missing.
    #[test]
    fn only_descriptors_meant_for_this_process_count() {
        let names = |count: usize, names: &[&str]| {
            Some((0..count).map(|i| names.get(i).copied().unwrap_or_default().to_owned()).collect())
        };
        for (pid, count, given, expected) in [
            (None, Some("1"), None, None),
            (Some("8"), Some("1"), None, None),
            (Some("x"), Some("1"), None, None),
            (Some("7"), None, None, None),
            (Some("7"), Some("many"), None, None),
            (Some("7"), Some("2"), None, names(2, &[])),
            (Some("7"), Some("3"), Some("http:admin"), names(3, &["http", "admin"])),
            (Some("7"), Some("1"), Some("admin:more"), names(1, &["admin"])),
        ] {
            assert_eq!(said(pid, count, given, 7), expected, "{pid:?} {count:?} {given:?}");
        }
    }
}
