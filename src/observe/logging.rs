//! Logs: for people on a terminal, as JSON lines everywhere else. No line per message at info.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Installs the process's log on stderr; `DANMAKU_LOG` takes a filter such as `info,danmaku=debug`.
pub fn install() {
    let filter = EnvFilter::try_from_env("DANMAKU_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A full disk or a closed pipe behind stderr must not end the process: its own complaint would.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        log.with_target(false).init();
    } else {
        log.json().flatten_event(true).init();
    }
}
