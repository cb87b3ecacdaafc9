//! The real binary on a free port, ended when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Looks again and again until something is so; a test that waits in vain fails.
#[allow(dead_code, reason = "not every test waits for the server's state")]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{what}: not within 30 s");
    }
}

/// A directory of one test's own, gone with it.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// An empty directory.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("danmaku-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// Writes a file there.
    #[allow(dead_code, reason = "not every test writes files")]
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    scratch: Arc<Scratch>,
    /// Whose data directory it is: the first one's of those that took each other's place.
    home: Arc<Scratch>,
    /// Where clients connect.
    #[allow(dead_code, reason = "some tests look at the admin port only")]
    pub(crate) address: SocketAddr,
    /// Where clients connect with TLS.
    #[allow(dead_code, reason = "most tests speak plainly")]
    pub(crate) tls: Option<SocketAddr>,
    /// Where back ends ask, if apart from clients.
    #[allow(dead_code, reason = "as a rule they ask where clients connect")]
    pub(crate) api: Option<SocketAddr>,
    /// Where metrics and health are.
    pub(crate) admin: SocketAddr,
}

impl Server {
    /// Starts `danmaku serve` with more arguments, and waits for its two lines.
    #[allow(dead_code, reason = "some tests give settings each time")]
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    /// The same with settings in the environment.
    pub(crate) fn start_with(args: &[&str], env: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let log = std::fs::File::create(scratch.0.join("log")).expect("a file");
        Self::start_in(scratch, log, args, env)
    }

    /// The same with a log of the caller's.
    #[allow(dead_code, reason = "most tests take the log in the scratch directory")]
    pub(crate) fn start_logging_to(log: std::fs::File, env: &[(&str, &str)]) -> Self {
        Self::start_in(Scratch::new(), log, &["--workers", "1"], env)
    }

    /// Starts another process in the same data directory and at the same addresses, which takes this one's place.
    #[allow(dead_code, reason = "most tests need one process")]
    pub(crate) fn replace(&self, args: &[&str], env: &[(&str, &str)]) -> Self {
        let scratch = Arc::new(Scratch::new());
        let log = std::fs::File::create(scratch.0.join("log")).expect("a file");
        let addresses = [self.address, self.admin].map(|address| address.to_string());
        let args = [&["--take-over"], args].concat();
        Self::start_at(&addresses, Arc::clone(&self.home), scratch, log, &args, env)
    }

    /// Ends this process by a signal, and starts another one in its data directory.
    #[allow(dead_code, reason = "most tests need one process")]
    pub(crate) fn start_again(
        mut self,
        signal: rustix::process::Signal,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        // It may have got it already.
        let _ = rustix::process::kill_process(self.pid(), signal);
        let _ = self.wait();
        let any = ["127.0.0.1:0", "127.0.0.1:0"].map(str::to_owned);
        let scratch = Arc::new(Scratch::new());
        let log = std::fs::File::create(scratch.0.join("log")).expect("a file");
        Self::start_at(&any, Arc::clone(&self.home), scratch, log, args, env)
    }

    fn start_in(scratch: Scratch, log: std::fs::File, args: &[&str], env: &[(&str, &str)]) -> Self {
        let any = ["127.0.0.1:0", "127.0.0.1:0"].map(str::to_owned);
        let scratch = Arc::new(scratch);
        Self::start_at(&any, Arc::clone(&scratch), scratch, log, args, env)
    }

    fn start_at(
        [listen, admin_listen]: &[String; 2],
        home: Arc<Scratch>,
        scratch: Arc<Scratch>,
        log: std::fs::File,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_danmaku"))
            .args(["serve", "--listen", listen, "--admin-listen", admin_listen])
            .arg("--data-dir")
            .arg(home.0.join("data"))
            .args(args)
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut told: Vec<String> = Vec::new();
        while !told.last().is_some_and(|line| line.starts_with("admin on ")) {
            let Some(line) = lines.next() else {
                let log = std::fs::read_to_string(scratch.0.join("log")).unwrap_or_default();
                panic!("no admin port in {told:?}: {log}");
            };
            told.push(line.expect("a line"));
        }
        let after = |words: &str| -> Option<SocketAddr> {
            let address = told.iter().find_map(|line| line.strip_prefix(words))?;
            Some(address.parse().expect("an address"))
        };
        let address = after("listening on http://").expect("a client port");
        let admin = after("admin on http://").expect("an admin port");
        Self {
            child,
            scratch,
            home,
            address,
            tls: after("listening on https://"),
            api: after("back ends on http://"),
            admin,
        }
    }

    /// The key of back ends that its first start made.
    #[allow(dead_code, reason = "most tests need no back end")]
    pub(crate) fn staff_key(&self) -> String {
        let key = std::fs::read_to_string(self.data_dir().join("staff.key")).expect("a key");
        key.trim().to_owned()
    }

    /// Another key, for a scope and rooms.
    #[allow(dead_code, reason = "most tests need no back end")]
    pub(crate) fn new_key(&self, scope: &str, rooms: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_danmaku"));
        command.args(["key", "add", "test", "--scope", scope, "--data-dir"]).arg(self.data_dir());
        for room in rooms {
            command.args(["--room", room]);
        }
        let added = command.output().expect("it runs");
        assert!(added.status.success(), "{added:?}");
        String::from_utf8(added.stdout).expect("text").trim().to_owned()
    }

    /// What it has logged so far.
    #[allow(dead_code, reason = "most tests do not read the log")]
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.0.join("log")).expect("readable")
    }

    /// The value of a metric.
    #[allow(dead_code, reason = "not every test that starts a server looks at its metrics")]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no metric {name} in {text}")).parse().expect("a number")
    }

    /// How often peers met a limit.
    #[allow(dead_code, reason = "not every test meets limits")]
    pub(crate) fn met(&self, limit: &str) -> u64 {
        self.metric(&format!("danmaku_limit_met_total{{limit=\"{limit}\"}}"))
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
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends the process a signal.
    #[allow(dead_code, reason = "most tests just drop their server")]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("it is there");
    }

    /// Its process.
    #[allow(dead_code, reason = "most tests look at it from outside")]
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Where its files are.
    #[allow(dead_code, reason = "most tests look at it from outside")]
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.home.0.join("data")
    }

    /// The exit code of a process that is about to end by itself.
    #[allow(dead_code, reason = "most tests just drop their server")]
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let mut ended = None;
        until("the process ends", || {
            ended = self.child.try_wait().expect("a child");
            ended.is_some()
        });
        ended.and_then(|status| status.code())
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
        let ended = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.scratch.0.join("log"));
            eprintln!("the server ended with {ended:?} and had logged:\n{}", log.unwrap_or_default());
        }
    }
}
