//! The server's own counters, read from its admin port before and after.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::LoadError;

/// How long a scrape may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// One scrape.
#[derive(Debug, Clone)]
pub struct Scrape(String);

impl Scrape {
    /// Reads the metrics at `address`.
    ///
    /// # Errors
    /// When nobody answers there.
    pub fn read(address: SocketAddr) -> Result<Self, LoadError> {
        let read = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        read().map(Self).map_err(|source| LoadError::Metrics { address, source })
    }

    /// The value of `danmaku_NAME` or `danmaku_NAME_total`.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.lines().find_map(|line| {
            let rest = line.strip_prefix("danmaku_")?.strip_prefix(name)?;
            rest.strip_prefix("_total").unwrap_or(rest).strip_prefix(' ')?.trim().parse().ok()
        })
    }

    /// How much a counter has grown since an earlier scrape.
    pub fn since(&self, earlier: &Self, name: &str) -> Option<f64> {
        Some(self.value(name)? - earlier.value(name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Scrape::value`: the whole name, with or without the suffix of counters.
    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let scrape = Scrape(
            "HTTP/1.1 200 OK\r\n\r\n# TYPE danmaku_writes counter\ndanmaku_writes_total 12\n\
             danmaku_write 3\ndanmaku_rooms 4\n"
                .to_owned(),
        );
        assert_eq!(scrape.value("writes"), Some(12.0));
        assert_eq!(scrape.value("rooms"), Some(4.0));
        assert_eq!(scrape.value("write"), Some(3.0));
        assert_eq!(scrape.value("room"), None);
        assert_eq!(scrape.since(&scrape, "writes"), Some(0.0));
    }
}
