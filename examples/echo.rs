//! An echo server on the WebSocket codec, for conformance suites.
//!
//! `cargo run --release --example echo -- 127.0.0.1:9001 [--no-deflate]` prints `listening on ADDR`
//! (port 0 takes a free one) and sends every message back as it came, deflated where that was
//! agreed. One thread a connection and blocking sockets keep it short: it is the codec's test bench
//! and no model of a server, and it must not face a network.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use danmaku_wire::websocket::frame::{self, Opcode};
use danmaku_wire::websocket::handshake::{self, Accepted, Policy};
use danmaku_wire::websocket::{Decoder, Deflater, Event, Inflater, Input, Limits};

/// Wide enough for the biggest case of any suite, a message of 16 MiB in 64-byte fragments.
const LIMITS: Limits = Limits {
    frame_bytes_max: 64 << 20,
    message_bytes_max: 64 << 20,
    fragments_max: 1 << 20,
    stash_bytes_max: READ_BYTES,
};
const READ_BYTES: usize = 64 << 10;
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a peer that was told to close may take to do so.
const DRAIN_MAX: Duration = Duration::from_secs(1);
const DEFLATE_LEVEL: u32 = 6;

fn main() -> io::Result<()> {
    let (mut address, mut deflate) = ("127.0.0.1:0".to_owned(), true);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--no-deflate" => deflate = false,
            _ => address = argument,
        }
    }
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for socket in listener.incoming() {
        let socket = socket?;
        thread::spawn(move || {
            if let Err(error) = serve(socket, deflate) {
                eprintln!("a connection ended: {error}");
            }
        });
    }
    Ok(())
}

fn serve(mut socket: TcpStream, deflate: bool) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (head, rest) = read_head(&mut socket)?;
    let accepted = match accept(&head, deflate) {
        Ok(accepted) => accepted,
        Err((status, message)) => {
            let bytes = message.len();
            return write!(socket, "HTTP/1.1 {status} Refused\r\nContent-Length: {bytes}\r\n\r\n{message}");
        }
    };
    let mut out = Vec::new();
    accepted.write_response(&mut out);
    let mut echo = Echo {
        decoder: Decoder::new(accepted.deflate.is_some()),
        inflater: Inflater::new(),
        deflater: accepted.deflate.map(|_| Deflater::new(DEFLATE_LEVEL)),
        compressed: Vec::new(),
    };
    let mut buffer = rest;
    let mut filled = buffer.len();
    buffer.resize(READ_BYTES, 0);
    loop {
        let open = echo.answer(&mut buffer[..filled], &mut out);
        socket.write_all(&out)?;
        out.clear();
        if !open {
            return drain(&mut socket, &mut buffer);
        }
        filled = socket.read(&mut buffer)?;
        if filled == 0 {
            return Ok(());
        }
    }
}

/// The open connection.
struct Echo {
    decoder: Decoder,
    inflater: Inflater,
    /// Only where deflate was agreed.
    deflater: Option<Deflater>,
    /// The last compressed payload; kept for its room.
    compressed: Vec<u8>,
}

impl Echo {
    /// Appends the answers to one read; false after the last, which is a close.
    fn answer(&mut self, bytes: &mut [u8], out: &mut Vec<u8>) -> bool {
        let mut input = Input::new(bytes);
        loop {
            let (opcode, payload) = match self.decoder.next(&mut input, &mut self.inflater, &LIMITS) {
                Ok(None) => return true,
                Ok(Some(Event::Text(text))) => (Opcode::Text, text.as_bytes()),
                Ok(Some(Event::Binary(bytes))) => (Opcode::Binary, bytes),
                Ok(Some(Event::Ping(payload))) => {
                    frame::write(out, Opcode::Pong, false, payload);
                    continue;
                }
                Ok(Some(Event::Pong(_))) => continue,
                Ok(Some(Event::Close(close))) => {
                    frame::close_echo(out, close.map(|(code, _)| code));
                    return false;
                }
                Err(violation) => {
                    frame::close(out, violation.disconnect());
                    return false;
                }
            };
            match &mut self.deflater {
                Some(deflater) => {
                    self.compressed.clear();
                    deflater.compress(payload, &mut self.compressed);
                    frame::write(out, opcode, true, &self.compressed);
                }
                None => frame::write(out, opcode, false, payload),
            }
        }
    }
}

/// Reads up to the empty line; what came after it belongs to the first frames.
fn read_head(socket: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        if let Some(at) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = head.split_off(at + 4);
            return Ok((head, rest));
        }
        let read = socket.read(&mut chunk)?;
        if read == 0 || head.len() + read > HEAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no request head"));
        }
        head.extend_from_slice(&chunk[..read]);
    }
}

/// Splits the head as far as the handshake needs; the error is a status and what would be right.
fn accept(head: &[u8], deflate: bool) -> Result<Accepted, (u16, String)> {
    let malformed = || (400, "the request head is malformed".to_owned());
    let head = str::from_utf8(head).map_err(|_| malformed())?;
    let (request, fields) = head.split_once("\r\n").ok_or_else(malformed)?;
    let mut words = request.split(' ');
    let (method, version) = words.next().zip(words.nth(1)).ok_or_else(malformed)?;
    let headers = fields
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim().as_bytes()));
    let policy = Policy { deflate, subprotocols: &[] };
    handshake::accept(method, version == "HTTP/1.1", headers, &policy)
        .map_err(|error| (error.status(), error.to_string()))
}

/// Ends the connection in the order that lets the close frame arrive: a socket closed with unread
/// bytes is reset, and the reset overtakes what was sent.
fn drain(socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    socket.shutdown(Shutdown::Write)?;
    socket.set_read_timeout(Some(DRAIN_MAX))?;
    while matches!(socket.read(buffer), Ok(1..)) {}
    Ok(())
}
