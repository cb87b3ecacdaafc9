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

    /// The value of a metric.
    #[allow(dead_code, reason = "not every test that starts a server looks at its metrics")]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no metric {name} in {text}")).parse().expect("a number")
    }

    /// Status and body of a path on the admin port.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(self.admin).expect("the admin port answers");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        socket.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an answer");
        let status = text.get(9..12).and_then(|status| status.parse().ok()).expect("a status line");
        (status, text)
    }

    /// Asks the process to end.
    #[allow(dead_code, reason = "most tests just drop their server")]
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    }

    /// The exit code, once the process has ended.
    #[allow(dead_code, reason = "most tests just drop their server")]
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which some tests are about.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
