//! What a driver thread makes of the messages it gets: latencies, counts, and the first few faults in
//! words. Connections keep their own ledgers; this is what they share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hdrhistogram::Histogram;

use crate::frame::TEXT;
use crate::ledger::Ledger;
use crate::memo::{BadDeflate, Memo};
use crate::message::{self, Digest, Kind};
use crate::plan::{Role, Spec};
use crate::shared::{Shared, Tally};

/// Latencies above this are counted as this much, microseconds.
const LATENCY_US_MAX: u64 = 600_000_000;
/// Faults kept in words; all are counted.
const FAULTS_TOLD: usize = 5;

/// Latencies of a group, microseconds from the due time on.
pub type Latencies = Histogram<u64>;

/// An empty histogram of three significant digits.
pub fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are constants and valid")
}

/// The counts and latencies of one thread.
#[derive(Debug)]
pub struct Intake {
    shared: Arc<Shared>,
    thread: usize,
    memo: Memo,
    /// Whether every viewer sees every entry.
    all_visible: bool,
    window: std::ops::Range<u64>,
    /// Latencies by group, of those who read all the time.
    pub latencies: Vec<Latencies>,
    /// The first faults in words.
    pub faults: Vec<String>,
    /// Refused publishes by code.
    pub refused: BTreeMap<String, u64>,
    /// Changes of a room's owner.
    pub epochs: u64,
    items: u64,
    messages: u64,
    answered: u64,
    /// Bytes read; the driver adds to it.
    pub bytes: u64,
}

impl Intake {
    /// Nothing yet.
    pub fn new(shared: Arc<Shared>, thread: usize, groups: usize, all_visible: bool) -> Self {
        Self {
            shared,
            thread,
            memo: Memo::default(),
            all_visible,
            window: 0..0,
            latencies: (0..groups).map(|_| latencies()).collect(),
            faults: Vec::new(),
            refused: BTreeMap::new(),
            epochs: 0,
            items: 0,
            messages: 0,
            answered: 0,
            bytes: 0,
        }
    }

    /// The numbers of this thread that others look at.
    pub fn tally(&self) -> &Tally {
        &self.shared.tallies[self.thread]
    }

    /// Tells the others how far this thread is, and hears which messages are to be measured.
    pub fn exchange(&mut self) {
        let tally = &self.shared.tallies[self.thread];
        tally.items.store(self.items, Relaxed);
        tally.messages.store(self.messages, Relaxed);
        tally.bytes.store(self.bytes, Relaxed);
        tally.answered.store(self.answered, Relaxed);
        self.window = self.shared.window_from_ns.load(Relaxed)..self.shared.window_to_ns.load(Relaxed);
    }

    /// Takes a message of a connection.
    ///
    /// # Errors
    /// When it is compressed and does not inflate.
    pub fn message(
        &mut self,
        spec: Spec,
        ledger: &mut Ledger,
        opcode: u8,
        compressed: bool,
        payload: &[u8],
        now_ns: u64,
    ) -> Result<(), BadDeflate> {
        self.messages += 1;
        let digest = self.memo.digest(payload, compressed)?;
        let verdict = match digest.kind {
            _ if opcode != TEXT => {
                self.tell_fault(spec, &"a binary message came under danmaku.v1.json");
                return Ok(());
            }
            Kind::Batch => {
                self.items += digest.items;
                // Who does not read for a while is late by his own doing.
                if spec.role == Role::Reading {
                    measure(&mut self.latencies[spec.group], &self.window, digest, now_ns);
                }
                ledger.batch(digest, self.all_visible)
            }
            Kind::Gap => ledger.gap(digest.from, digest.to),
            Kind::Joined => {
                ledger.joined(digest.to);
                Ok(())
            }
            Kind::Ack => {
                self.answered += 1;
                self.shared.last_seq[spec.room].fetch_max(digest.to, Relaxed);
                Ok(())
            }
            Kind::Error => {
                self.answered += 1;
                let code = if compressed { "?" } else { message::error_code(payload) };
                *self.refused.entry(code.to_owned()).or_default() += 1;
                Ok(())
            }
            Kind::Epoch => {
                self.epochs += 1;
                Ok(())
            }
            Kind::Other => Ok(()),
        };
        if let Err(fault) = verdict {
            self.tell_fault(spec, &fault);
        }
        Ok(())
    }

    fn tell_fault(&mut self, spec: Spec, fault: &dyn std::fmt::Display) {
        if self.faults.len() < FAULTS_TOLD {
            self.faults.push(format!("room {} ({:?}): {fault}", spec.room, spec.role));
        }
    }
}

fn measure(latencies: &mut Latencies, window: &std::ops::Range<u64>, digest: &Digest, now_ns: u64) {
    for due_ns in &digest.dues {
        if window.contains(due_ns) {
            latencies.saturating_record(now_ns.saturating_sub(*due_ns) / 1_000);
        }
    }
}
