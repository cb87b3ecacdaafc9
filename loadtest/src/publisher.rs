//! What is said and when: the schedules of the groups and the text of each message.

use std::io::Write;

use crate::message::{self, TOKEN_BYTES};
use crate::plan::Group;
use crate::schedule::Schedule;
use crate::shared::NEVER;

/// Different texts, so that compression does not look better than it is.
const TEXTS: usize = 64;
/// The server takes 100 characters; the token needs some of them.
const FILLER_CHARS_MAX: usize = 100 - TOKEN_BYTES;
/// What the texts are made of.
const WORDS: [&str; 16] = [
    "first time here",
    "this stage is unreal",
    "what song was that",
    "again please",
    "the drummer though",
    "hello from the back row",
    "lights are perfect tonight",
    "no way he caught that",
    "who else is crying",
    "volume up",
    "best final ever",
    "my stream froze for a second",
    "look at the score",
    "so close",
    "they practised this for years",
    "one more encore",
];

/// A message that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Which publisher says it.
    pub publisher: usize,
    /// When it was due, nanoseconds since 1970.
    pub at_ns: u64,
}

#[derive(Debug)]
struct Line {
    schedule: Option<Schedule>,
    rate: f64,
    /// The first publisher of the group and how many there are.
    first: usize,
    publishers: usize,
}

/// The schedules of all groups.
#[derive(Debug)]
pub struct Publisher {
    lines: Vec<Line>,
    fillers: Vec<String>,
    said: u64,
    out: Vec<u8>,
}

impl Publisher {
    /// Publishers in the order of [`crate::plan::publishers`]; texts of about `text_bytes` bytes.
    pub fn new(groups: &[Group], text_bytes: usize) -> Self {
        let mut first = 0;
        let mut lines = Vec::new();
        for group in groups {
            let publishers = group.rooms * group.publishers;
            lines.push(Line { schedule: None, rate: group.rate, first, publishers });
            first += publishers;
        }
        let fillers = (0..TEXTS).map(|i| filler(text_bytes, i)).collect();
        Self { lines, fillers, said: 0, out: Vec::new() }
    }

    /// Starts the schedules.
    pub fn start(&mut self, start_ns: u64) {
        for line in &mut self.lines {
            let schedule = Schedule::new(start_ns, line.rate);
            line.schedule = schedule.filter(|_| line.publishers > 0);
        }
    }

    /// When the next message is due; [`NEVER`] before the start.
    pub fn next_ns(&self) -> u64 {
        self.lines.iter().filter_map(|line| Some(line.schedule.as_ref()?.due_ns())).min().unwrap_or(NEVER)
    }

    /// Takes the next message if it was due by now and before the end.
    pub fn take(&mut self, now_ns: u64, end_ns: u64) -> Option<Due> {
        let at_ns = self.next_ns();
        if at_ns > now_ns || at_ns >= end_ns {
            return None;
        }
        let line = self.lines.iter_mut().find(|l| l.schedule.is_some_and(|s| s.due_ns() == at_ns))?;
        let number = line.schedule.as_mut()?.take();
        let publisher = line.first + number as usize % line.publishers;
        Some(Due { publisher, at_ns })
    }

    /// The `send` command for a message that was due at `at_ns`. Its id is unique within the run.
    pub fn message(&mut self, at_ns: u64) -> &[u8] {
        let filler = &self.fillers[self.said as usize % TEXTS];
        self.out.clear();
        // A vector takes everything.
        let _ = write!(self.out, r#"{{"send":{{"id":"{}","text":"{filler}"#, self.said);
        message::write_due(&mut self.out, at_ns);
        self.out.extend_from_slice(br#""}}"#);
        self.said += 1;
        &self.out
    }
}

/// A text of `text_bytes` bytes together with its token, or as near as 100 characters allow; beyond what
/// they hold in ASCII some of them are of four bytes.
fn filler(text_bytes: usize, number: usize) -> String {
    let bytes = text_bytes.saturating_sub(TOKEN_BYTES);
    let wide = bytes.saturating_sub(FILLER_CHARS_MAX).div_ceil(3).min(FILLER_CHARS_MAX);
    let narrow = bytes.saturating_sub(4 * wide).min(FILLER_CHARS_MAX - wide);
    let words = (0..).map(|i| WORDS[(number * (1 + i) + i) % WORDS.len()]);
    let words = words.flat_map(|word| word.chars().chain([' ']));
    words.take(narrow).chain(std::iter::repeat_n('😀', wide)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Publisher::take`: every group keeps its rate, its publishers take turns, and nothing is due after
    /// the end.
    #[test]
    fn publishers_take_turns_at_their_groups_rate() {
        let group =
            Group { name: "a", rooms: 2, subscribers: 1, publishers: 1, rate: 4.0, stuck: 0, pausing: 0 };
        let silent = Group { rate: 0.0, ..group.clone() };
        let mut publisher = Publisher::new(&[silent, group], 60);
        assert_eq!((publisher.next_ns(), publisher.take(u64::MAX - 1, NEVER)), (NEVER, None));
        publisher.start(1_000);
        assert_eq!(publisher.take(999, NEVER), None);
        let mut taken = Vec::new();
        while let Some(due) = publisher.take(5_000_000_000, 1_000_001_000) {
            taken.push((due.publisher, due.at_ns));
        }
        assert_eq!(taken, [(2, 1_000), (3, 250_001_000), (2, 500_001_000), (3, 750_001_000)]);
    }

    /// `Publisher::message`: texts keep to the server's limits at every size.
    #[test]
    fn texts_are_as_long_as_asked_and_within_the_limits() {
        for (asked, least) in [(0, 21), (21, 21), (60, 60), (100, 100), (101, 100), (240, 238), (400, 337)] {
            let mut publisher = Publisher::new(&[], asked);
            for _ in 0..TEXTS {
                let message = publisher.message(1_700_000_000_000_000_000).to_vec();
                let text = String::from_utf8(message).expect("UTF-8");
                let text = text.split('"').nth(9).expect("a text");
                assert!(text.chars().count() <= 100 && text.len() <= asked.max(21), "{asked}: {text}");
                assert!(text.len() >= least && text.ends_with("T1700000000000000000T"), "{asked}: {text}");
            }
        }
    }
}
