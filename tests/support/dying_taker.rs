//! A process that asks for another one's place and never takes it.

use std::path::Path;
use std::time::{Duration, Instant};

use danmaku::handover::channel::Channel;
use danmaku::handover::message::Message;

/// All that can be asked for before the place is taken.
pub(crate) const STEPS: usize = 7;

/// Asks a server for its place as another process would, as far as `steps` goes, and dies.
pub(crate) fn ask_and_die(dir: &Path, steps: usize) {
    let until = Instant::now() + Duration::from_secs(30);
    let mut channel = Channel::connect(dir).expect("the server listens");
    if steps > 0 {
        channel.greet(until).expect("greeted");
        channel.greeted(until).expect("the same version");
    }
    if steps > 1 {
        channel.send(&Message::Ask { build: "a test".to_owned() }, until).expect("sent");
    }
    if steps > 2 {
        let sockets = channel.receive(until).expect("sockets");
        assert!(matches!(sockets, Some(Message::Sockets { admin: Some(_), .. })), "{sockets:?}");
    }
    if steps > 3 {
        channel.send(&Message::Begin, until).expect("sent");
    }
    if steps > 4 {
        while !matches!(channel.receive(until).expect("a message"), Some(Message::All(_))) {}
    }
    if steps > 5 {
        channel.send(&Message::Ready, until).expect("sent");
    }
    if steps > 6 {
        assert!(matches!(channel.receive(until).expect("a message"), Some(Message::Yours(_))));
    }
}
