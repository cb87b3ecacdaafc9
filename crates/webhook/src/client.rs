//! The handle that the server asks through, and the thread behind it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::runtime;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::Instant;

use crate::address::AddressLaw;
use crate::breaker::Breaker;
use crate::counters::{Counters, Figures};
use crate::dispatch::{Asked, Dispatch, Waiting};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::line::{Line, Lookup, system_lookup};
use crate::promise::{Pending, Promise};
use crate::question::{ConnectQuestion, ConnectVerdict, Question, Verdict};
use crate::settings::{Settings, SettingsError};
use crate::signature::Secret;

/// Threads for lookups beside the client's own.
const LOOKUP_THREADS: usize = 2;

/// Asks one receiver. Cheap to clone and to ask through: the work is done on a thread of its own, which
/// ends when the last clone is gone and the questions before that have been answered.
#[derive(Debug, Clone)]
pub struct Client {
    asks: mpsc::Sender<Waiting>,
    counters: Arc<Counters>,
    deadline: Duration,
}

impl Client {
    /// A client for one receiver, with its thread. Nothing is connected before something is asked.
    ///
    /// # Errors
    /// When a setting makes no sense, or the system gives no thread.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Self::with_lookup(settings, Arc::new(system_lookup))
    }

    pub(crate) fn with_lookup(settings: Settings, lookup: Arc<Lookup>) -> Result<Self, SettingsError> {
        settings.check()?;
        let law = AddressLaw::new(settings.allow_private.clone());
        let endpoint = Endpoint::parse(&settings.url, &settings.ports, &law)?;
        let secret = Secret::new(&settings.secret)?;
        let line = Line::new(endpoint, secret, law, settings.ca_pem.as_deref(), lookup)?;
        let breaker = Breaker::new(settings.breaker)?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(LOOKUP_THREADS)
            .build()
            .map_err(SettingsError::Thread)?;
        let (asks, incoming) = mpsc::channel(settings.queue_max);
        let counters = Arc::new(Counters::default());
        let deadline = settings.deadline;
        let dispatch = Dispatch::new(line, breaker, &settings, incoming, Arc::clone(&counters));
        let run = move || {
            runtime.block_on(dispatch.run());
            // A lookup that hangs must not keep the thread.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("webhook".to_owned()).spawn(run).map_err(SettingsError::Thread)?;
        Ok(Self { asks, counters, deadline })
    }

    /// Asks about a comment.
    pub fn ask(&self, question: Question) -> Pending<Verdict> {
        let (pending, then) = Pending::new();
        self.ask_then(question, then);
        pending
    }

    /// Asks about a comment; `then` is called exactly once, on the client's thread (or here and now, when
    /// the queue is full). It must be quick: every other answer waits for it.
    pub fn ask_then(&self, question: Question, then: impl FnOnce(Result<Verdict, Failure>) + Send + 'static) {
        let promise = Promise::new(Arc::clone(&self.counters), Box::new(then));
        self.put(Asked::Message(question, promise));
    }

    /// Asks whether somebody may connect.
    pub fn ask_connect(&self, question: ConnectQuestion) -> Pending<ConnectVerdict> {
        let (pending, then) = Pending::new();
        self.ask_connect_then(question, then);
        pending
    }

    /// Asks whether somebody may connect; `then` as for [`Client::ask_then`].
    pub fn ask_connect_then(
        &self,
        question: ConnectQuestion,
        then: impl FnOnce(Result<ConnectVerdict, Failure>) + Send + 'static,
    ) {
        let promise = Promise::new(Arc::clone(&self.counters), Box::new(then));
        self.put(Asked::Connect(question, promise));
    }

    /// What was done so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.counters.figures()
    }

    fn put(&self, asked: Asked) {
        let waiting = Waiting { asked, deadline: Instant::now() + self.deadline };
        match self.asks.try_send(waiting) {
            Ok(()) => {}
            Err(TrySendError::Full(waiting)) => waiting.asked.fail(Failure::QueueFull),
            Err(TrySendError::Closed(waiting)) => waiting.asked.fail(Failure::Stopped),
        }
    }
}

pub(crate) fn system_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    //! Method: lookups that answer what a hostile name server would.

    use std::io;
    use std::net::{SocketAddr, TcpListener};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::address::{Kind, Network};

    const BOUND: Duration = Duration::from_secs(30);

    fn settings(port: u16) -> Settings {
        let mut settings = Settings::new(format!("http://hook.example:{port}/"), [7; 32]);
        settings.ports = vec![port];
        settings.deadline = BOUND;
        settings
    }

    fn ask(client: &Client) -> Result<Verdict, Failure> {
        let question = Question {
            id: "m1".to_owned(),
            room: "lobby".to_owned(),
            user: "u7".to_owned(),
            role: "viewer".to_owned(),
            text: "hello".to_owned(),
            traceparent: None,
        };
        let runtime = runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async { tokio::time::timeout(BOUND, client.ask(question)).await.expect("in time") })
    }

    fn loopback(bits: u8, base: [u8; 4]) -> Vec<Network> {
        vec![Network::new(base.into(), bits).expect("a network")]
    }

    #[test]
    fn every_address_of_a_name_is_judged_each_time_it_is_looked_up() {
        for address in
            ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "0.0.0.0"]
        {
            let address = SocketAddr::new(address.parse().expect("an address"), 80);
            let client = Client::with_lookup(settings(80), Arc::new(move |_, _| Ok(vec![address])));
            let answer = ask(&client.expect("settings"));
            assert!(
                matches!(answer, Err(Failure::Denied(denied)) if denied.address == address.ip()),
                "{answer:?}"
            );
        }
    }

    #[test]
    fn a_name_that_moves_inside_after_its_first_answer_is_not_followed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        // Says 127.0.0.1 (allowed here) first and 127.0.0.2 ever after; the client closes and asks again.
        let lookups = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&lookups);
        let lookup = move |name: &str, port: u16| -> io::Result<Vec<SocketAddr>> {
            assert_eq!(name, "hook.example");
            let last = if seen.fetch_add(1, Ordering::SeqCst) == 0 { 1 } else { 2 };
            Ok(vec![SocketAddr::from(([127, 0, 0, last], port))])
        };
        let mut settings = settings(port);
        settings.allow_private = loopback(32, [127, 0, 0, 1]);
        let client = Client::with_lookup(settings, Arc::new(lookup)).expect("settings");
        let hangs_up = thread::spawn(move || drop(listener.accept().expect("a client")));
        assert_eq!(ask(&client), Err(Failure::Broken));
        hangs_up.join().expect("no panic");
        assert_eq!(lookups.load(Ordering::SeqCst), 1, "one lookup, and the address of that one was called");
        let answer = ask(&client);
        assert!(
            matches!(answer, Err(Failure::Denied(denied)) if denied.kind == Kind::Loopback),
            "{answer:?}"
        );
    }

    #[test]
    fn the_next_address_is_tried_and_denied_ones_are_passed_over() {
        let listener = TcpListener::bind("127.0.0.3:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut settings = settings(port);
        settings.allow_private = loopback(31, [127, 0, 0, 2]);
        let lookup =
            |_: &str, port| Ok([1, 2, 3].map(|last| SocketAddr::from(([127, 0, 0, last], port))).to_vec());
        let client = Client::with_lookup(settings, Arc::new(lookup)).expect("settings");
        let accepted =
            thread::spawn(move || listener.accept().expect("a client").0.local_addr().expect("bound").ip());
        assert_eq!(ask(&client), Err(Failure::Broken), "it hangs up");
        assert_eq!(accepted.join().expect("no panic").to_string(), "127.0.0.3");
    }

    #[test]
    fn a_name_without_addresses_is_a_failure() {
        let none = Client::with_lookup(settings(80), Arc::new(|_, _| Ok(Vec::new()))).expect("settings");
        assert_eq!(ask(&none), Err(Failure::Resolve));
        let error = Client::with_lookup(settings(80), Arc::new(|_, _| Err(io::ErrorKind::NotFound.into())));
        assert_eq!(ask(&error.expect("settings")), Err(Failure::Resolve));
    }

    #[test]
    fn a_lookup_that_hangs_costs_the_deadline() {
        let (release, hold) = std::sync::mpsc::sync_channel::<()>(0);
        let hold = std::sync::Mutex::new(hold);
        let mut settings = settings(80);
        settings.deadline = Duration::from_millis(50);
        let lookup = move |_: &str, _| {
            let _ = hold.lock().expect("no panic").recv_timeout(BOUND);
            Ok(Vec::new())
        };
        let client = Client::with_lookup(settings, Arc::new(lookup)).expect("settings");
        for _ in 0..5 {
            assert_eq!(ask(&client), Err(Failure::Deadline));
        }
        drop(release);
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = settings(80);
            change(&mut settings);
            Client::new(settings).expect_err("out of range").to_string()
        };
        assert_eq!(
            refused(|s| s.deadline = Duration::ZERO),
            "deadline is out of range: above 0 and at most 60 s"
        );
        assert_eq!(refused(|s| s.concurrency_max = 0), "concurrency_max is out of range: 1 to 1,024");
        assert_eq!(refused(|s| s.queue_max = 0), "queue_max is out of range: 1 to 65,536");
        assert_eq!(
            refused(|s| s.batching.questions_max = 257),
            "batching.questions_max is out of range: 1 to 256"
        );
        assert_eq!(
            refused(|s| s.batching.wait = s.deadline),
            "batching.wait is out of range: shorter than deadline"
        );
        assert_eq!(
            refused(|s| s.deadline = Duration::MAX),
            "deadline is out of range: above 0 and at most 60 s"
        );
        assert_eq!(refused(|s| s.queue_max = usize::MAX), "queue_max is out of range: 1 to 65,536");
        assert_eq!(
            refused(|s| s.idle_timeout = Duration::MAX),
            "idle_timeout is out of range: at most an hour"
        );
        assert!(refused(|s| s.breaker.probes = 0).starts_with("breaker.probes is out of range"));
        assert!(refused(|s| s.secret.truncate(31)).starts_with("the secret has 31 bytes"));
        assert!(refused(|s| s.ports.clear()).starts_with("port 80 is not among the allowed ones"));
    }
}
