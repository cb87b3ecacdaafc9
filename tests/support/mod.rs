//! The real binary on a free port, ended when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// Where metrics and health are.
    pub(crate) admin: SocketAddr,
}

impl Server {
    /// Starts `danmaku serve` with more arguments, and waits for its two lines.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_danmaku"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut after = |words: &str| {
            let line = lines.next().expect("a line for each listener").expect("a line of text");
            let address =
                line.strip_prefix(words).unwrap_or_else(|| panic!("{line:?} starts with {words:?}"));
            address.parse().expect("an address")
        };
        let (address, admin) = (after("listening on http://"), after("admin on http://"));
        Self { child, address, admin }
    }

    /// The value of a metric on the admin port.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut socket = TcpStream::connect(self.admin).expect("the admin port answers");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        socket.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an answer");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no metric {name} in {text}")).parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which some tests are about.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
