//! A WebSocket written by hand: it sends what the test says, reads only when told to, and answers nothing by itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

pub(crate) const TEXT: u8 = 1;
#[allow(dead_code, reason = "not every test pings")]
pub(crate) const PING: u8 = 9;
pub(crate) const FIN: u8 = 0x80;
#[allow(dead_code, reason = "not every test compresses")]
pub(crate) const RSV1: u8 = 0x40;

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) opcode: u8,
    /// Whether its message is compressed.
    #[allow(dead_code, reason = "not every test compresses")]
    pub(crate) deflated: bool,
    pub(crate) payload: Vec<u8>,
}

/// How a connection ended.
#[allow(dead_code, reason = "not every test waits for an end")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With a close frame of this code.
    Code(u16),
    /// Without one.
    Cut,
}

pub(crate) struct RawSocket {
    socket: TcpStream,
    read: Vec<u8>,
}

impl RawSocket {
    /// Joins a room; `headers` are more lines of the request.
    pub(crate) fn join(address: SocketAddr, room: &str, headers: &str) -> Self {
        Self::join_with(address, room, headers, None)
    }

    #[allow(dead_code, reason = "not every test is about slow readers")]
    /// Joins a room and is full after few kilobytes that are not read.
    pub(crate) fn join_narrow(address: SocketAddr, room: &str) -> Self {
        Self::join_with(address, room, "", Some(4 << 10))
    }

    fn join_with(address: SocketAddr, room: &str, headers: &str, receive_buffer: Option<usize>) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        if let Some(bytes) = receive_buffer {
            socket.set_recv_buffer_size(bytes).expect("set");
        }
        socket.connect(&address.into()).expect("connected");
        let mut socket = Self { socket: socket.into(), read: Vec::new() };
        socket.socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        socket.socket.set_nodelay(true).expect("set");
        let request = format!(
            "GET /ws?room={room} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{headers}\r\n"
        );
        socket.send(request.as_bytes());
        let end = loop {
            match socket.read.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => assert!(socket.fill(), "closed before an answer"),
            }
        };
        let head: Vec<u8> = socket.read.drain(..end).collect();
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        socket
    }

    /// Sends bytes as they are, all at once as far as the kernel takes them.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // The server may have ended the connection already, which the test finds out by reading.
        let _ = self.socket.write_all(bytes);
    }

    /// Sends a command in a frame of its own.
    pub(crate) fn say(&mut self, command: &str) {
        self.send(&frame(FIN | TEXT, command.as_bytes()));
    }

    fn fill(&mut self) -> bool {
        let mut chunk = [0; 64 << 10];
        match self.socket.read(&mut chunk) {
            Ok(0) => false,
            Ok(n) => {
                self.read.extend_from_slice(&chunk[..n]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => false,
            Err(error) => panic!("no word within 30 s: {error}"),
        }
    }

    /// The next frame, if the connection does not end before it.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            let (header, length) = match self.read[..] {
                [_, length @ 0..126, ..] => (2, usize::from(length)),
                [_, 126, a, b, ..] => (4, usize::from(u16::from_be_bytes([a, b]))),
                [_, 127, _, _, _, _, a, b, c, d, ..] => (10, u32::from_be_bytes([a, b, c, d]) as usize),
                _ => (usize::MAX, 0),
            };
            if header != usize::MAX && self.read.len() >= header + length {
                let whole: Vec<u8> = self.read.drain(..header + length).collect();
                let (opcode, deflated) = (whole[0] & 0x0f, whole[0] & RSV1 != 0);
                return Some(Frame { opcode, deflated, payload: whole[header..].to_vec() });
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// The next text message that holds `word`.
    pub(crate) fn hears(&mut self, word: &str) -> String {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("closed before {word:?}"));
            let text = String::from_utf8_lossy(&frame.payload).into_owned();
            if frame.opcode == TEXT && text.contains(word) {
                return text;
            }
        }
    }

    /// Reads on until the connection ends.
    #[allow(dead_code, reason = "not every test waits for an end")]
    pub(crate) fn end(&mut self) -> End {
        let mut end = End::Cut;
        while let Some(frame) = self.next() {
            if let (8, [a, b, ..]) = (frame.opcode, &frame.payload[..]) {
                end = End::Code(u16::from_be_bytes([*a, *b]));
            }
        }
        end
    }
}

/// A frame with a mask of zeroes; `first` is its first byte.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        n @ 0..126 => frame.push(0x80 | n as u8),
        n @ 126..65_536 => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(n as u16).to_be_bytes());
        }
        n => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}
