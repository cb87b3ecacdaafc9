//! A small HTTP/1.1 receiver with a will of its own: what it answers, and when it closes, is the test's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver as Events, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use danmaku_webhook::{Client, Network, Question, Settings};

/// Longer than any wait of these tests may take.
pub(crate) const BOUND: Duration = Duration::from_secs(30);
pub(crate) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A question as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) request_line: String,
    /// Names in lowercase.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }
}

/// What the receiver does with a question.
#[derive(Clone)]
pub(crate) enum Reply {
    /// 200 with a body.
    Json(String),
    /// 200 with a body and further headers.
    With(&'static str, String),
    /// These bytes, then the connection is closed.
    Raw(Vec<u8>),
    /// The connection is closed without a word.
    Hangup,
    /// 200 with a body, then the connection is closed without a word about that.
    ThenHangup(String),
    /// Nothing, until the client closes.
    Silence,
}

pub(crate) fn pass() -> Reply {
    Reply::Json(r#"{"verdict":"pass"}"#.to_owned())
}

/// Runs until the process ends.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) received: Arc<Mutex<Vec<Received>>>,
    pub(crate) connections: Arc<AtomicUsize>,
    /// One message for each connection that has ended.
    pub(crate) closed: Events<usize>,
}

impl Receiver {
    /// A receiver that answers as `answer` says.
    pub(crate) fn start(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_over(Plain, answer)
    }

    /// The same, over something else than a bare socket.
    pub(crate) fn start_over(
        over: impl Over,
        answer: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (ended, closed) = sync_channel(4_096);
        let shared = (Arc::clone(&received), Arc::clone(&connections), Arc::new(answer), Arc::new(over));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (received, connections, answer, over) = shared.clone();
                let number = connections.fetch_add(1, Ordering::SeqCst);
                let ended: SyncSender<usize> = ended.clone();
                thread::spawn(move || {
                    stream.set_read_timeout(Some(BOUND)).expect("a timeout");
                    if let Some(stream) = over.wrap(stream) {
                        serve(stream, number, &received, &*answer);
                    }
                    let _ = ended.try_send(number);
                });
            }
        });
        Self { address, received, connections, closed }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/danmaku?v=1", self.address)
    }

    /// Settings for this receiver: it may be called, and has all the time a busy machine needs.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.url(), SECRET);
        settings.allow_private = vec![Network::new([127, 0, 0, 0].into(), 8).expect("a network")];
        settings.ports = vec![self.address.port()];
        settings.deadline = BOUND;
        settings
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.settings()).expect("settings")
    }

    pub(crate) fn all(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until a connection has ended.
    pub(crate) fn wait_for_close(&self) -> usize {
        self.closed.recv_timeout(BOUND).expect("a connection ends")
    }
}

/// What lies between the socket and HTTP.
pub(crate) trait Over: Send + Sync + 'static {
    type Stream: Read + Write;
    fn wrap(&self, stream: TcpStream) -> Option<Self::Stream>;
}

pub(crate) struct Plain;

impl Over for Plain {
    type Stream = TcpStream;
    fn wrap(&self, stream: TcpStream) -> Option<TcpStream> {
        Some(stream)
    }
}

fn serve(
    stream: impl Read + Write,
    connection: usize,
    received: &Mutex<Vec<Received>>,
    answer: &(dyn Fn(&Received) -> Reply + Send + Sync),
) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream, connection) {
        received.lock().expect("no panic").push(request.clone());
        let out = stream.get_mut();
        let ok = |headers: &str, body: &str| {
            format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        let (bytes, ends) = match answer(&request) {
            Reply::Json(body) => (ok("", &body), false),
            Reply::With(headers, body) => (ok(headers, &body), false),
            Reply::Raw(bytes) => (bytes, true),
            Reply::Hangup => (Vec::new(), true),
            Reply::ThenHangup(body) => (ok("", &body), true),
            Reply::Silence => {
                let _ = stream.read(&mut [0]);
                return;
            }
        };
        if out.write_all(&bytes).and_then(|()| out.flush()).is_err() || ends {
            return;
        }
    }
}

fn read(stream: &mut impl BufRead, connection: usize) -> Option<Received> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        Some(line.trim_end().to_owned())
    };
    let request_line = line()?;
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Received { request_line, headers, body: String::from_utf8(body).ok()?, connection })
}

pub(crate) fn question(id: &str) -> Question {
    Question {
        id: id.to_owned(),
        room: "lobby".to_owned(),
        user: "u7".to_owned(),
        role: "viewer".to_owned(),
        text: "你好".to_owned(),
        traceparent: None,
    }
}

/// Waits for a future, with a bound.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(BOUND, future).await.expect("in time") })
}
