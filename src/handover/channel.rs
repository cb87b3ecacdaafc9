//! Messages with descriptors over a Unix stream socket.
//!
//! A message is eight bytes of head, with which its descriptors travel, and then its body. Every wait ends: at a
//! deadline that the caller sets, or with the other process.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::SOCKET_FILE;
use super::codec::Malformed;
use super::message::Message;

/// Descriptors in one message: what the kernel takes at most (`SCM_MAX_FD`).
pub const FDS_MAX: usize = 253;
/// Bytes of a body. A room goes in parts; a session with all that its buffers may hold fits.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// What both sides send first.
const MAGIC: &[u8; 8] = b"danmaku\0";
/// The version of everything behind the magic.
const VERSION: u32 = 5;
/// The longest path of a Unix socket, with its end.
const PATH_BYTES_MAX: usize = 107;
/// How long to wait when the kernel holds too many descriptors in flight.
const IN_FLIGHT: Duration = Duration::from_millis(1);

const HEAD_BYTES: usize = 8;

/// Why a message did not come or could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side has gone.
    #[error("the other process has gone")]
    Gone,
    /// The time is over.
    #[error("the other process did not answer in time")]
    Late,
    /// It speaks another language.
    #[error(
        "the other process speaks {theirs} of the hand-over and this one version {VERSION}: stop the running \
         server and start this one anew"
    )]
    Version {
        /// What it speaks.
        theirs: String,
    },
    /// What it says makes no sense.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The system refuses.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected => Self::Gone,
            _ => Self::Io(error),
        }
    }
}

impl From<Errno> for ChannelError {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// A connection between two processes.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl From<UnixStream> for Channel {
    fn from(stream: UnixStream) -> Self {
        Self(stream)
    }
}

impl Channel {
    /// Connects to whoever serves from a data directory.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(dir: &Path) -> io::Result<Self> {
        within(dir, |path| UnixStream::connect(path)).map(Self)
    }

    /// Another end for the same connection, for a thread that only receives or only sends.
    ///
    /// # Errors
    /// When the system refuses another descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The other process: its number, if it runs as this user or as the machine's.
    ///
    /// # Errors
    /// When it is somebody else's.
    pub fn peer(&self) -> io::Result<u32> {
        let peer = socket_peercred(&self.0)?;
        if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "user {} may not ask for a hand-over: it is for the server's own user",
                    peer.uid.as_raw()
                ),
            ));
        }
        Ok(peer.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Says which language this side speaks.
    ///
    /// # Errors
    /// When the other side has gone.
    pub fn greet(&mut self, until: Instant) -> Result<(), ChannelError> {
        self.0.set_write_timeout(Some(left(until)?))?;
        self.0.write_all(MAGIC)?;
        Ok(self.0.write_all(&VERSION.to_le_bytes())?)
    }

    /// Hears which language the other side speaks.
    ///
    /// # Errors
    /// When it is another.
    pub fn greeted(&mut self, until: Instant) -> Result<(), ChannelError> {
        let mut magic = [0; MAGIC.len()];
        self.read_exact(&mut magic, until)?;
        let mut version = [0; 4];
        self.read_exact(&mut version, until)?;
        let version = u32::from_le_bytes(version);
        match (&magic == MAGIC, version) {
            (true, VERSION) => Ok(()),
            (true, other) => Err(ChannelError::Version { theirs: format!("version {other}") }),
            (false, _) => Err(ChannelError::Version { theirs: "no version".to_owned() }),
        }
    }

    /// Sends a message with the descriptors that belong to it.
    ///
    /// # Errors
    /// When the other side has gone or does not read, or the message is larger than the format allows.
    pub fn send(&mut self, message: &Message, until: Instant) -> Result<(), ChannelError> {
        let (body, fds) = message.encode();
        if body.len() > BODY_BYTES_MAX || fds.len() > FDS_MAX {
            return Err(Malformed("it is larger than a message may be").into());
        }
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[4] = message.kind();
        head[5] = fds.len() as u8;
        self.send_head(&head, &fds, until)?;
        let mut rest = body.as_slice();
        while !rest.is_empty() {
            self.0.set_write_timeout(Some(left(until)?))?;
            let sent = self.0.write(rest)?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    fn send_head(&mut self, head: &[u8], fds: &[BorrowedFd<'_>], until: Instant) -> Result<(), ChannelError> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut rest = head;
        while !rest.is_empty() {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            // They go with the first byte.
            if rest.len() == head.len() && !fds.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(fds));
            }
            self.0.set_write_timeout(Some(left(until)?))?;
            match sendmsg(&self.0, &[IoSlice::new(rest)], &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                // As many are in flight as this user may have: the other side takes them out.
                Err(Errno::TOOMANYREFS) => std::thread::sleep(IN_FLIGHT),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next message; `None` where the other side has ended between two.
    ///
    /// # Errors
    /// When the other side goes within a message, or sends none in time, or one that makes no sense.
    pub fn receive(&mut self, until: Instant) -> Result<Option<Message>, ChannelError> {
        let (mut head, mut fds) = ([0; HEAD_BYTES], Vec::new());
        let mut have = 0;
        while have < HEAD_BYTES {
            match self.receive_head(&mut head[have..], &mut fds, until)? {
                0 if have == 0 => return Ok(None),
                0 => return Err(ChannelError::Gone),
                n => have += n,
            }
        }
        let [a, b, c, d, kind, count, ..] = head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > BODY_BYTES_MAX {
            return Err(Malformed("it is larger than a message may be").into());
        }
        if usize::from(count) != fds.len() {
            return Err(Malformed("descriptors are missing, or too many").into());
        }
        let mut body = Vec::new();
        // Memory follows what comes, not what was announced.
        while body.len() < len {
            let from = body.len();
            body.resize(len.min(from + (1 << 20)), 0);
            self.read_exact(&mut body[from..], until)?;
        }
        Ok(Some(Message::decode(kind, &body, fds)?))
    }

    fn receive_head(
        &mut self,
        head: &mut [u8],
        fds: &mut Vec<OwnedFd>,
        until: Instant,
    ) -> Result<usize, ChannelError> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            self.0.set_read_timeout(Some(left(until)?))?;
            let mut into = [IoSliceMut::new(head)];
            match recvmsg(&self.0, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ChannelError::Io(io::Error::other(
                "descriptors were lost on the way: this process may not open as many files as the other one",
            )));
        }
        Ok(received.bytes)
    }

    fn read_exact(&mut self, mut into: &mut [u8], until: Instant) -> Result<(), ChannelError> {
        while !into.is_empty() {
            self.0.set_read_timeout(Some(left(until)?))?;
            match self.0.read(into) {
                Ok(0) => return Err(ChannelError::Gone),
                Ok(n) => into = &mut into[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// What is left of the time; an error where nothing is.
fn left(until: Instant) -> Result<Duration, ChannelError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ChannelError::Late) } else { Ok(left) }
}

/// Listens in a data directory, for this user alone; whatever socket was there is nobody's any more, since the
/// lock is ours.
///
/// # Errors
/// When the socket cannot be made.
pub fn listen(dir: &Path) -> io::Result<UnixListener> {
    let path = dir.join(SOCKET_FILE);
    // Made under another name, so that there is never a moment in which others may connect.
    let fresh = dir.join(format!("{SOCKET_FILE}.new"));
    for stale in [&fresh, &path] {
        match std::fs::remove_file(stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let listener =
        within(dir, |socket| UnixListener::bind(socket.with_file_name(format!("{SOCKET_FILE}.new"))))?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, &path)?;
    Ok(listener)
}

/// Does something with the socket's path, however long the directory's is: a path that the kernel does not take
/// is written by way of the directory's descriptor.
fn within<T>(dir: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let direct = dir.join(SOCKET_FILE);
    // Some room for the name that a socket has while it is made.
    if direct.as_os_str().len() + 8 <= PATH_BYTES_MAX {
        return with(&direct);
    }
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::PATH;
    let dir: File = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(dir)?;
    with(&PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_FILE}", dir.as_raw_fd())))
}
