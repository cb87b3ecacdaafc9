//! Crowds that vanish while they are written to: the server stays, and so does everyone else.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::Server;

const CROWD: usize = 100;
const ROUNDS: usize = 8;

/// A raw connection that has joined; nothing of what it gets is read beyond the response head.
fn join(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let request = format!(
        "GET /ws?room=crowd HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        server.address
    );
    socket.write_all(request.as_bytes()).expect("sent");
    let mut head = [0; 12];
    socket.read_exact(&mut head).expect("a response");
    assert_eq!(&head, b"HTTP/1.1 101");
    socket
}

/// A masked text frame (with a mask of zeroes) of up to 125 bytes.
fn frame(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    assert!(length < 126);
    [&[0x81, 0x80 | length, 0, 0, 0, 0], text.as_bytes()].concat()
}

/// Every member resets its connection in the middle of a pass, again and again. A pass finds many of
/// them gone, and each of them once.
#[test]
fn a_crowd_that_resets_in_the_middle_of_a_pass_harms_nobody() {
    let server = Server::start(&["--workers", "1", "--config", "benches/bench.toml"]);
    let stop = Arc::new(AtomicBool::new(false));
    let mut publisher = join(&server);
    let flag = Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        let (mut n, mut sink) = (0u64, [0; 65_536]);
        while !flag.load(Ordering::Relaxed) {
            n += 1;
            let send = frame(&format!("{{\"send\":{{\"id\":\"{n}\",\"text\":\"comment {n}\"}}}}"));
            publisher.write_all(&send).expect("the publisher stays connected");
            // Paced by what comes back, so that the server is busy and not drowned.
            assert!(publisher.read(&mut sink).is_ok_and(|n| n > 0), "the publisher stays connected");
        }
    });
    for _ in 0..ROUNDS {
        let crowd: Vec<TcpStream> = (0..CROWD).map(|_| join(&server)).collect();
        for socket in &crowd {
            // Closing with a linger of nothing resets: the next write finds the connection gone.
            socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO)).expect("set");
        }
        drop(crowd);
    }
    assert_eq!(server.get("/healthz").0, 200, "the process lives");
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("the publisher was never cut off");
    let again = join(&server);
    drop(again);
    assert_eq!(server.metric("danmaku_session_panics_total"), 0);
}
