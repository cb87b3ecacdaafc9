//! HTTP/1.1 written by hand: what is sent is what the test says, byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The body as JSON.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The code of a problem document.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        problem["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A connection on which requests are sent and answers read, one by one.
pub(crate) struct Exchange {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Exchange {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("connected");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        Self { socket, read: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The server may have answered and closed before it has read everything.
        let _ = self.socket.write_all(bytes.as_ref());
        self
    }

    fn fill(&mut self) -> bool {
        let mut chunk = [0; 16 << 10];
        match self.socket.read(&mut chunk) {
            Ok(0) => false,
            Ok(n) => {
                self.read.extend_from_slice(&chunk[..n]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no word within 30 s: {error}"),
        }
    }

    /// The next answer; its body only where a length is told.
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("GET")
            .unwrap_or_else(|| panic!("closed after {:?}", String::from_utf8_lossy(&self.read)))
    }

    /// The next answer to a method, if the connection does not end before it.
    pub(crate) fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let end = loop {
            match self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None if self.fill() => {}
                None => return None,
            }
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).expect("text");
        let status = head.get(9..12).and_then(|status| status.parse().ok()).expect("a status line");
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |n| n.parse().expect("a length"));
        let length = if method == "HEAD" || status < 200 { 0 } else { length };
        while self.read.len() < length {
            assert!(self.fill(), "closed in the middle of a body");
        }
        answer.body = String::from_utf8(self.read.drain(..length).collect()).expect("text");
        Some(answer)
    }

    /// Waits for the server to close; fails if it says anything before.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn closed(&mut self) {
        let more = self.fill();
        assert!(!more && self.read.is_empty(), "{:?}", String::from_utf8_lossy(&self.read));
    }

    /// Whether anything comes within a time.
    #[allow(dead_code, reason = "most tests wait for an answer")]
    pub(crate) fn answers_within(&mut self, time: Duration) -> bool {
        self.socket.set_read_timeout(Some(time)).expect("set");
        let came = self.socket.peek(&mut [0]).is_ok_and(|n| n > 0);
        self.socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        came
    }

    /// Whether the server has closed, as far as one can tell without waiting.
    #[allow(dead_code, reason = "most tests wait for it")]
    pub(crate) fn is_closed(&mut self) -> bool {
        self.socket.set_nonblocking(true).expect("set");
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).expect("set");
        match peeked {
            Ok(n) => n == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// Reads until `word` has come.
    #[allow(dead_code, reason = "most tests read whole answers")]
    pub(crate) fn reads(&mut self, word: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.read).into_owned();
            if text.contains(word) {
                return text;
            }
            assert!(self.fill(), "closed before {word:?}: {text:?}");
        }
    }
}

/// A request with a JSON body.
#[allow(dead_code, reason = "not every test sends bodies")]
pub(crate) fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}
