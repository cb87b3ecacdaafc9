//! `wss` and `https` as a client of another make speaks them.

#[path = "support/dying_taker.rs"]
mod dying_taker;
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dying_taker::{STEPS, ask_and_die};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned};
use support::{Scratch, Server, until};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A server's certificate of its own, and clients that trust it and no other.
struct Identity {
    cert: String,
    key: String,
}

impl Identity {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        Self { cert: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn client(&self) -> ClientConfig {
        self.client_of(rustls::ALL_VERSIONS)
    }

    fn client_of(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.cert.as_bytes()).expect("PEM")).expect("a certificate");
        ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("versions that there are")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    static PROVIDER: OnceLock<Arc<rustls::crypto::CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider())))
}

/// A server with a certificate, and where its files are.
struct Secured {
    server: Server,
    files: Scratch,
    identity: Identity,
}

impl Secured {
    fn start(more: &str, args: &[&str]) -> Self {
        let (files, identity) = (Scratch::new(), Identity::new());
        let (cert, key) = (files.file("cert.pem", &identity.cert), files.file("key.pem", &identity.key));
        let toml = format!(
            "[tls]\nlisten = \"127.0.0.1:0\"\ncert = {:?}\nkey = {:?}\n{more}",
            cert.display().to_string(),
            key.display().to_string()
        );
        let path = files.file("live.toml", &toml).display().to_string();
        let server = Server::start(&[&["--config", &path], args].concat());
        Self { server, files, identity }
    }

    fn connect(&self) -> Stream {
        self.connect_with(Arc::new(self.identity.client())).expect("a handshake")
    }

    fn connect_with(&self, client: Arc<ClientConfig>) -> std::io::Result<Stream> {
        let socket = TcpStream::connect(self.server.tls.expect("a TLS port"))?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut stream = StreamOwned::new(ClientConnection::new(client, name).expect("a client"), socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// Puts another pair of files in the place of the present ones, at once as far as a look can tell.
    fn replace(&self, cert: &str, key: &str) {
        for (name, text) in [("key.pem", key), ("cert.pem", cert)] {
            let next = self.files.file("next", text);
            std::fs::rename(next, self.files.0.join(name)).expect("renamed");
        }
    }
}

const HANDSHAKE: &str = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

fn upgrade(room: &str) -> Vec<u8> {
    format!("GET /ws?room={room} HTTP/1.1\r\n{HANDSHAKE}").into_bytes()
}

/// A client's frame, masked with zeros.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode];
    match payload.len() {
        n @ 0..126 => bytes.push(0x80 | n as u8),
        n => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&u16::try_from(n).expect("short").to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

fn send(id: usize, text: &str) -> Vec<u8> {
    frame(1, format!("{{\"send\":{{\"id\":\"{id}\",\"text\":\"{text}\"}}}}").as_bytes())
}

/// Reads until `wanted` was read so many times.
fn read_until(stream: &mut impl Read, wanted: &str, times: usize) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&seen);
        if text.matches(wanted).count() >= times {
            return text.into_owned();
        }
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => seen.extend_from_slice(&buffer[..n]),
            other => panic!("{other:?} instead of {wanted:?} after {text}"),
        }
    }
}

/// TLS 1.2 and 1.3: what comes in one record with the request is not lost on the way to the session, and
/// goes through whatever is kept of it on the way: HTTP's buffer, TLS's, the session's.
#[test]
fn frames_sent_with_the_request_are_all_answered() {
    let secured = Secured::start("[limits]\nuser_mode = \"off\"\nduplicate_mode = \"off\"\n", &[]);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for count in [1, 200] {
            let mut stream =
                secured.connect_with(Arc::new(secured.identity.client_of(&[version]))).expect("TLS");
            let mut bytes = upgrade("pipelined");
            (0..count).for_each(|id| bytes.extend_from_slice(&send(id, "with the request")));
            stream.write_all(&bytes).expect("sent");
            let text = read_until(&mut stream, "\"ack\"", count);
            assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
            assert_eq!(stream.conn.protocol_version(), Some(version.version));
        }
    }
}

/// Sizes around the border of a record (RFC 8446, section 5.1: 2^14 bytes), in both directions.
#[test]
fn a_batch_of_many_records_arrives_whole() {
    let secured = Secured::start(
        "[limits]\nuser_mode = \"off\"\nduplicate_mode = \"off\"\n[websocket]\nbytes_per_s = \"64MiB\"\n",
        &[],
    );
    let mut reader = secured.connect();
    reader.write_all(&upgrade("many")).expect("sent");
    read_until(&mut reader, "\"joined\"", 1);
    let mut writer = secured.connect();
    writer.write_all(&upgrade("many")).expect("sent");
    read_until(&mut writer, "\"joined\"", 1);
    let text = "x".repeat(90);
    let bytes: Vec<u8> = (0..400).flat_map(|id| send(id, &text)).collect();
    writer.write_all(&bytes).expect("sent");
    let seen = read_until(&mut reader, &text, 400);
    assert!(seen.contains("\"seq\":"), "{seen}");
}

/// A session that joins a small room of another worker takes its keys along.
#[test]
fn a_session_changes_its_worker_with_all_that_tls_holds() {
    let secured = Secured::start(
        "[limits]\nuser_mode = \"off\"\nduplicate_mode = \"off\"\njoins_burst = 100\n",
        &["--workers", "3"],
    );
    let mut stream = secured.connect();
    stream.write_all(&upgrade("first")).expect("sent");
    read_until(&mut stream, "\"joined\"", 1);
    for round in 0..12 {
        let mut bytes = frame(1, format!("{{\"join\":{{\"room\":\"room-{round}\"}}}}").as_bytes());
        (0..5).for_each(|id| bytes.extend_from_slice(&send(100 * round + id, "moved")));
        stream.write_all(&bytes).expect("sent");
        let text = read_until(&mut stream, "\"ack\"", 5);
        assert!(text.contains(&format!("\"room\":\"room-{round}\"")), "{text}");
    }
}

/// One set of ticket keys for all workers: whoever comes back resumes, wherever it lands.
#[test]
fn a_client_resumes_on_every_worker() {
    let secured = Secured::start("", &["--workers", "3"]);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let client = Arc::new(secured.identity.client_of(&[version]));
        for attempt in 0..9 {
            let mut stream = secured.connect_with(Arc::clone(&client)).expect("TLS");
            let wanted = if attempt == 0 { HandshakeKind::Full } else { HandshakeKind::Resumed };
            assert_eq!(stream.conn.handshake_kind(), Some(wanted), "attempt {attempt} of {version:?}");
            // The ticket comes behind the handshake.
            stream
                .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .expect("sent");
            read_until(&mut stream, "</html>", 1);
        }
    }
}

/// SIGHUP: connections to come get the new certificate, those that are open go on.
#[test]
fn a_new_certificate_is_taken_over_at_sighup_and_no_connection_drops() {
    let secured = Secured::start("", &[]);
    let mut open = secured.connect();
    open.write_all(&upgrade("reload")).expect("sent");
    read_until(&mut open, "\"joined\"", 1);
    let next = Identity::new();
    secured.replace(&next.cert, &next.key);
    secured.server.signal(Signal::HUP);
    let client = Arc::new(next.client());
    until("the new certificate is shown", || secured.connect_with(Arc::clone(&client)).is_ok());
    open.write_all(&send(1, "still here")).expect("sent");
    read_until(&mut open, "\"ack\"", 1);
}

/// The files are looked at by themselves: whoever renews certificates need not know our signals.
#[test]
fn a_new_certificate_is_taken_over_when_its_file_changes() {
    let secured = Secured::start("", &[]);
    let next = Identity::new();
    secured.replace(&next.cert, &next.key);
    let client = Arc::new(next.client());
    until("the new certificate is shown", || secured.connect_with(Arc::clone(&client)).is_ok());
}

/// What cannot be used is told with its file, and the old certificate stays: a key of another pair, a
/// file cut short, a file that is gone.
#[test]
fn a_bad_new_certificate_is_refused_and_the_old_one_stays() {
    let other = Identity::new();
    let gone = "";
    for (cert, key, words) in [
        (Some(other.cert.as_str()), None, "cannot be used together"),
        (Some("-----BEGIN CERTIFICATE-----\nAAAA"), None, "tls.cert"),
        (Some(gone), None, "there is no certificate"),
        (None, Some("no key"), "tls.key"),
    ] {
        let secured = Secured::start("", &[]);
        let identity = &secured.identity;
        secured.replace(cert.unwrap_or(&identity.cert), key.unwrap_or(&identity.key));
        secured.server.signal(Signal::HUP);
        until("the refusal is logged", || secured.server.log().contains("stays"));
        assert!(secured.server.log().contains(words), "{words:?} in {}", secured.server.log());
        secured.connect();
    }
}

/// `tls.min_version`, `tls.ciphers`, ALPN: only what is configured is spoken.
#[test]
fn only_what_is_configured_is_spoken() {
    let secured = Secured::start("min_version = \"1.3\"\nciphers = [\"TLS_AES_128_GCM_SHA256\"]\n", &[]);
    let old = secured.identity.client_of(&[&rustls::version::TLS12]);
    secured.connect_with(Arc::new(old)).expect_err("TLS 1.2 is refused");
    let stream = secured.connect();
    assert_eq!(stream.conn.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    let suite = stream.conn.negotiated_cipher_suite().expect("a suite").suite();
    assert_eq!(suite, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    for (offered, chosen) in [(&["h2", "http/1.1"][..], true), (&["h2"], false)] {
        let mut client = secured.identity.client();
        client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let connected = secured.connect_with(Arc::new(client));
        assert_eq!(connected.is_ok(), chosen, "{offered:?}");
        if let Ok(stream) = connected {
            assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        }
    }
}

/// Plain HTTP, garbage, a connection that says nothing: each ends, is counted, and nobody else notices.
#[test]
fn what_is_no_tls_is_counted_and_ends() {
    let secured = Secured::start("handshake = \"300ms\"\n", &[]);
    for (said, round) in
        [(&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], 1), (b"\x16\x03\x01\xff\xff", 2), (b"", 3)]
    {
        let mut socket = TcpStream::connect(secured.server.tls.expect("a TLS port")).expect("connected");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        socket.write_all(said).expect("sent");
        let mut rest = Vec::new();
        // An alert, nothing, or a reset: an end in any case.
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.len() < 16, "{rest:?}");
        until("the failure is counted", || {
            secured.server.metric("danmaku_tls_handshakes_failed_total") >= round
        });
    }
    // Only the one that said nothing was late.
    assert_eq!(secured.server.met("tls_handshake"), 1);
    secured.connect();
}

/// The end of a session is an end of TLS too (RFC 8446, section 6.1): nobody could have cut it short.
#[test]
fn a_close_frame_is_followed_by_an_end_of_tls() {
    let secured = Secured::start("", &[]);
    let mut stream = secured.connect();
    stream.write_all(&upgrade("close")).expect("sent");
    read_until(&mut stream, "\"joined\"", 1);
    stream.write_all(&frame(8, &1000_u16.to_be_bytes())).expect("sent");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an end that was said");
    assert!(rest.ends_with(&[0x88, 0x02, 0x03, 0xe8]), "{rest:?}");
}

/// A change of keys in mid-stream (RFC 8446, section 4.6.3) is followed on both sides.
#[test]
fn keys_change_in_mid_stream() {
    let secured = Secured::start("", &[]);
    let mut stream = secured.connect();
    stream.write_all(&upgrade("keys")).expect("sent");
    read_until(&mut stream, "\"joined\"", 1);
    for id in 0..3 {
        stream.conn.refresh_traffic_keys().expect("TLS 1.3");
        stream.write_all(&send(id, "under new keys")).expect("sent");
        read_until(&mut stream, "\"ack\"", 1);
    }
}

/// A reader that never reads keeps one record here, not what it is behind, and is let go after the grace.
#[test]
fn a_reader_that_never_reads_is_let_go() {
    let secured = Secured::start(
        "[limits]\nuser_mode = \"off\"\nduplicate_mode = \"off\"\nroom_mode = \"off\"\n[websocket]\nbytes_per_s = \"64MiB\"\nframes_per_s = 100_000\n\
         [slow_consumer]\ngrace = \"500ms\"\n",
        &[],
    );
    let mut stuck = secured.connect();
    stuck.write_all(&upgrade("stuck")).expect("sent");
    read_until(&mut stuck, "\"joined\"", 1);
    let mut writer = secured.connect();
    writer.write_all(&upgrade("stuck")).expect("sent");
    read_until(&mut writer, "\"joined\"", 1);
    let text = "y".repeat(90);
    let mut id = 0;
    until("the stuck one is let go", || {
        let bytes: Vec<u8> = (0..200).flat_map(|n| send(id + n, &text)).collect();
        id += 200;
        writer.write_all(&bytes).expect("sent");
        read_until(&mut writer, "\"ack\"", 200);
        let kept = secured.server.metric("danmaku_tls_kept_bytes");
        assert!(kept <= 2 * ((16 << 10) + 29), "{kept} bytes are kept for two sessions at most");
        secured.server.metric("danmaku_slow_consumers_total") == 1
    });
    until("only the writer is left", || secured.server.metric("danmaku_connections") == 1);
}

/// The page and the event stream are there as well, and the page's own origin may connect.
#[test]
fn everything_of_the_plain_port_is_served() {
    let secured = Secured::start("", &[]);
    let port = secured.server.tls.expect("a TLS port").port();
    let mut events = secured.connect();
    let request = format!(
        "GET /api/v1/rooms/tv/events HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: https://localhost:{port}\r\n\r\n"
    );
    events.write_all(request.as_bytes()).expect("sent");
    let text = read_until(&mut events, "joined", 1);
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let mut foreign = secured.connect();
    let request = format!(
        "GET /api/v1/rooms/tv/events HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: https://other\r\n\r\n"
    );
    foreign.write_all(request.as_bytes()).expect("sent");
    read_until(&mut foreign, "HTTP/1.1 403 ", 1);
}

/// A take-over: the process that has the keys carries a TLS session on while another one serves it, until it was told to
/// leave and has left or is closed; one that dies before it serves changes nothing; one in its handshake
/// becomes a session of the new process the same way.
#[test]
fn a_session_is_carried_until_it_has_been_told_to_leave() {
    let mut secured = Secured::start("[drain]\nwindow = \"4s\"\n", &["--workers", "2"]);
    let (mut session, mut late) = (secured.connect(), secured.connect());
    session.write_all(&upgrade("r1")).expect("sent");
    read_until(&mut session, "\"joined\"", 1);
    until("the session is there", || secured.server.metric("danmaku_connections") == 1);
    ask_and_die(&secured.server.data_dir(), STEPS);
    until("it is called off", || secured.server.metric("danmaku_handovers_called_off_total") == 1);
    session.write_all(&send(0, "as if nothing had been")).expect("sent");
    read_until(&mut session, "\"ack\"", 1);
    let config = secured.files.0.join("live.toml").display().to_string();
    let new = secured.server.replace(&["--workers", "1", "--config", &config], &[]);
    assert_eq!(new.tls, secured.server.tls, "the socket is the same");

    session.write_all(&send(1, "over the bridge")).expect("sent");
    let mut told = read_until(&mut session, "\"ack\"", 1);
    late.write_all(&upgrade("r1")).expect("sent");
    let mut late_told = read_until(&mut late, "\"joined\"", 1);
    assert_eq!(new.metric("danmaku_connections"), 2);
    late.write_all(&send(2, "so does this")).expect("sent");
    late_told += &read_until(&mut late, "\"ack\"", 1);
    if !told.contains("so does this") {
        told += &read_until(&mut session, "so does this", 1);
    }
    for (mut stream, mut told) in [(session, told), (late, late_told)] {
        let mut rest = Vec::new();
        // An end without close_notify would be an error.
        stream.read_to_end(&mut rest).expect("a whole stream");
        told += &String::from_utf8_lossy(&rest);
        assert!(told.contains("\"reconnect\":{\"afterMs\":"), "{told}");
        assert!(
            rest.windows(4).any(|end| matches!(end, [0x88, _, 0x03, 0xf4])),
            "closed with 1012: {rest:?}"
        );
    }
    assert_eq!(secured.server.ends(), Some(0), "{}", secured.server.log());
    assert_eq!(new.metric("danmaku_connections"), 0);
    // Who comes back finds TLS where it was.
    let again = Secured { server: new, files: Scratch::new(), identity: secured.identity };
    let mut stream = again.connect();
    stream.write_all(&upgrade("r1")).expect("sent");
    read_until(&mut stream, "so does this", 1);
}
