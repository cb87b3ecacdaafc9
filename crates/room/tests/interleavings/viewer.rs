//! A client as the protocol describes one: it keeps a position, adds items, and believes nothing that
//! does not follow from what it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use danmaku_room::form::shown_to;
use danmaku_wire::entry::{Entry, Tier};
use danmaku_wire::native::{Batch, ServerMessage, json};
use danmaku_wire::position::{Epoch, Position};
use serde_json::Value;

use super::frames::{Frame, Splitter};

/// Everything that was ever released, by number; and the epoch of each number.
#[derive(Default)]
pub(crate) struct Truth {
    pub(crate) entries: BTreeMap<u64, (Epoch, Arc<Entry>)>,
}

impl Truth {
    /// The payload of a batch as one who knows all would write it.
    fn batch(&self, from: u64, to: u64, tier: Tier) -> Vec<u8> {
        let entries: Vec<&Entry> =
            self.entries.range(from..=to).map(|(_, (_, e))| &**e).filter(|e| shown_to(e, tier)).collect();
        let mut payload = Vec::new();
        json::encode(&ServerMessage::Batch(Batch { from, to, items: &entries }), &mut payload);
        payload
    }
}

/// What a viewer has.
#[derive(Default)]
pub(crate) struct Viewer {
    pub(crate) position: Option<Position>,
    /// What it was sent of the room since it came to where it first knew a position: number → how often.
    pub(crate) shown: BTreeMap<u64, u32>,
    /// Ranges that it was told it would not get.
    pub(crate) gaps: Vec<(u64, u64)>,
    /// From which number on it is owed everything.
    pub(crate) owed_from: u64,
    /// Where in the stream its tier changed: (byte, tier from there on).
    tiers: Vec<(usize, Tier)>,
    stream: Splitter,
    wants_snapshot: bool,
    pub(crate) told: u32,
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} is a number in {value}"))
}

impl Viewer {
    /// A new connection: the stream begins anew, what is known stays.
    pub(crate) fn connected(&mut self, tier: Tier) {
        self.stream = Splitter::default();
        self.tiers = vec![(0, tier)];
        self.wants_snapshot = false;
    }

    /// Frames that begin at `byte` or after it are of this tier.
    pub(crate) fn tier_from(&mut self, byte: usize, tier: Tier) {
        self.tiers.push((byte, tier));
    }

    /// Forgets the room and stands at `position` as if it had seen everything before.
    pub(crate) fn stand_at(&mut self, position: Option<Position>) {
        self.shown.clear();
        self.gaps.clear();
        self.owed_from = position.as_ref().map_or(0, |p| p.seq + 1);
        self.position = position;
    }

    /// Takes in what the socket has delivered.
    pub(crate) fn receive(&mut self, bytes: &[u8], truth: &Truth) {
        self.stream.push(bytes);
        while let Some(frame) = self.stream.next_frame() {
            self.told += 1;
            self.take(&frame, truth);
        }
    }

    pub(crate) fn half_a_frame(&self) -> bool {
        self.stream.left_over() > 0
    }

    fn tier_at(&self, byte: usize) -> Tier {
        self.tiers.iter().rev().find(|(from, _)| *from <= byte).expect("a tier from the start").1
    }

    fn take(&mut self, frame: &Frame, truth: &Truth) {
        assert!(frame.text, "JSON comes as text");
        let message: Value = serde_json::from_slice(&frame.payload).expect("a payload is JSON");
        let (kind, body) = message.as_object().and_then(|m| m.iter().next()).expect("one key");
        match kind.as_str() {
            "joined" => {
                self.wants_snapshot = body["recovered"].as_bool() != Some(true);
                if self.wants_snapshot {
                    self.stand_at(None);
                }
            }
            "snapshot" => {
                assert!(self.wants_snapshot, "a snapshot follows only a join that recovered nothing");
                self.wants_snapshot = false;
                let epoch = Epoch::parse(body["epoch"].as_str().expect("an epoch")).expect("valid");
                self.stand_at(Some(Position { epoch, seq: number(body, "seq") }));
            }
            "batch" => self.take_batch(frame, body, truth),
            "epoch" => self.take_change(body),
            "gap" => {
                let (from, to) = (number(body, "from"), number(body, "to"));
                let own = self.position.as_mut().expect("a gap comes to one who knows a position");
                assert_eq!(from, own.seq + 1, "a gap begins where the viewer stands: {body}");
                assert!(to >= from, "a gap holds something: {body}");
                if let Some(epoch) = body["epoch"].as_str() {
                    assert_eq!(epoch, own.epoch.as_str(), "a gap names the epoch the viewer is in");
                }
                own.seq = to;
                self.gaps.push((from, to));
            }
            "room" | "pong" => {}
            other => panic!("nobody sends {other} here"),
        }
    }

    fn take_batch(&mut self, frame: &Frame, body: &Value, truth: &Truth) {
        let (from, to) = (number(body, "from"), number(body, "to"));
        let tier = self.tier_at(frame.at);
        let own = self.position.as_mut().expect("a batch comes to one who knows a position");
        assert_eq!(from, own.seq + 1, "batches are contiguous: {body}");
        assert!(to >= from, "a batch covers something: {body}");
        let expected = truth.batch(from, to, tier);
        assert_eq!(
            String::from_utf8_lossy(&frame.payload),
            String::from_utf8_lossy(&expected),
            "what {tier:?} is shown of {from}..={to}"
        );
        let epoch_of = |seq: u64| &truth.entries[&seq].0;
        assert!((from..=to).all(|seq| *epoch_of(seq) == own.epoch), "{from}..={to} is of {:?}", own.epoch);
        own.seq = to;
        for item in body["items"].as_array().expect("items") {
            *self.shown.entry(number(item, "seq")).or_default() += 1;
        }
    }

    fn take_change(&mut self, body: &Value) {
        let prev = &body["prev"];
        let own = self.position.as_mut().expect("a change comes to one who knows a position");
        assert_eq!(prev["epoch"].as_str(), Some(own.epoch.as_str()), "the change is from the viewer's epoch");
        let kept = number(prev, "seq");
        assert!(own.seq >= kept, "at {own} it has not been given all that was kept: {body}");
        self.shown.retain(|seq, _| *seq <= kept);
        self.gaps.retain(|(from, _)| *from <= kept);
        own.epoch = Epoch::parse(body["epoch"].as_str().expect("an epoch")).expect("valid");
        own.seq = number(body, "seq");
    }
}
