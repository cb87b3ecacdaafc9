//! `danmaku doctor`: what on this machine would hold a server back.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::{CliError, ConfigArgs};
use crate::config::Config;

/// Connections that a machine of a live-stream platform is expected to allow.
const DESCRIPTORS_WANTED: u64 = 1_000_000;
/// Kernel settings of which less than this will be felt; `deploy/sysctl.conf` sets more, and says why.
const KERNEL_LEAST: [(&str, u64); 5] = [
    ("fs.file-max", 1_000_000),
    ("fs.nr_open", 1_000_000),
    ("net.core.somaxconn", 4_096),
    ("net.core.netdev_max_backlog", 1_000),
    ("net.ipv4.tcp_max_syn_backlog", 4_096),
];

/// What came of a look.
enum Verdict {
    Good(String),
    /// It works, with a bound that will be met.
    Weak(String),
    /// It does not work.
    Bad(String),
}

pub(super) fn run(args: &ConfigArgs) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let config = args.load()?;
    writeln!(out, "ok    configuration: serves {}, files in {}", config.listen, config.data_dir.display())?;
    let mut looks = vec![
        descriptors(),
        data_dir(&config.data_dir),
        address("server.listen", config.listen),
        address("server.admin_listen", config.admin_listen),
        cores(&config),
    ];
    looks.extend(config.api_listen.map(|listen| address("api.listen", listen)));
    looks.extend(config.tls_listen.map(|listen| address("tls.listen", listen)));
    looks.extend(kernel_settings());
    let mut faults = 0;
    for look in looks {
        match look {
            Verdict::Good(text) => writeln!(out, "ok    {text}")?,
            Verdict::Weak(text) => writeln!(out, "weak  {text}")?,
            Verdict::Bad(text) => {
                faults += 1;
                writeln!(out, "fault {text}")?;
            }
        }
    }
    match faults {
        0 => Ok(()),
        n => Err(CliError::Found(format!("{n} of these would keep the server from working"))),
    }
}

fn descriptors() -> Verdict {
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < DESCRIPTORS_WANTED => Verdict::Weak(format!(
            "descriptors: at most {limit} connections; raise it with LimitNOFILE= in the unit or `ulimit -Hn`"
        )),
        Some(limit) => Verdict::Good(format!("descriptors: up to {limit} connections")),
        None => Verdict::Good("descriptors: no limit".to_owned()),
    }
}

fn data_dir(path: &Path) -> Verdict {
    let shown = path.display();
    if let Err(error) = fs::create_dir_all(path) {
        return Verdict::Bad(format!("data directory {shown}: cannot be made: {error}"));
    }
    let probe = path.join(".doctor");
    match fs::write(&probe, b"x").and_then(|()| fs::remove_file(&probe)) {
        Ok(()) => Verdict::Good(format!("data directory {shown}: can be written")),
        Err(error) => Verdict::Bad(format!("data directory {shown}: cannot be written: {error}")),
    }
}

fn address(key: &str, address: SocketAddr) -> Verdict {
    match TcpListener::bind(address) {
        Ok(_) => Verdict::Good(format!("{key}: {address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Verdict::Weak(format!(
            "{key}: {address} is in use; that is right only if the server runs already"
        )),
        Err(error) => Verdict::Bad(format!("{key}: {address} cannot be bound: {error}")),
    }
}

fn cores(config: &Config) -> Verdict {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match config.workers {
        Some(workers) if usize::from(workers) > cores => Verdict::Weak(format!(
            "server.workers: {workers} on {cores} cores; more workers than cores only wait for each other"
        )),
        workers => Verdict::Good(format!("workers: {} on {cores} cores", workers.map_or(cores, usize::from))),
    }
}

fn kernel_settings() -> Vec<Verdict> {
    let mut looks = Vec::new();
    for (key, least) in KERNEL_LEAST {
        // A container may hide it.
        let Ok(found) = fs::read_to_string(format!("/proc/sys/{}", key.replace('.', "/"))) else { continue };
        match found.trim().parse::<u64>() {
            Ok(found) if found < least => looks.push(Verdict::Weak(format!(
                "{key} = {found}: below {least} it will be felt; deploy/sysctl.conf sets it"
            ))),
            _ => looks.push(Verdict::Good(format!("{key} = {}", found.trim()))),
        }
    }
    looks
}
