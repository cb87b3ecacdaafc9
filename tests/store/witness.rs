//! A viewer that comes back after every crash with what it has, and keeps book of what it was shown.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

use crate::raw_socket::RawSocket;

pub(crate) struct Witness {
    room: String,
    socket: RawSocket,
    at: (String, u64),
    heard: BTreeMap<u64, String>,
    taken_back: usize,
}

impl Witness {
    /// Joins a room in which nothing was said yet.
    pub(crate) fn join(address: SocketAddr, room: &str) -> Self {
        let query = format!("{room}&tier=full&snapshot=none");
        let socket = RawSocket::join(address, &query, "");
        let mut witness = Self {
            room: room.to_owned(),
            socket,
            at: Default::default(),
            heard: BTreeMap::new(),
            taken_back: 0,
        };
        while witness.at.0.is_empty() {
            assert!(witness.take());
        }
        witness
    }

    /// Comes back with its position, which the server knows, and hears all up to the room's present state.
    pub(crate) fn come_back(&mut self, address: SocketAddr) {
        let (epoch, seq) = self.at.clone();
        let query = format!("{}&tier=full&snapshot=none&since={epoch}:{seq}", self.room);
        self.socket = RawSocket::join(address, &query, "");
        let joined = self.socket.hears("\"joined\"");
        let joined: Value = serde_json::from_str(&joined).expect("JSON");
        assert_eq!(joined["joined"]["recovered"], true, "{joined} after {epoch}:{seq}");
        let now = joined["joined"]["epoch"].as_str().expect("an epoch").to_owned();
        let head = joined["joined"]["seq"].as_u64().expect("a number");
        while self.at.0 != now || self.at.1 < head {
            assert!(self.take(), "closed before {now}:{head}");
        }
    }

    /// Reads until a comment of this text has come.
    pub(crate) fn hear(&mut self, text: &str) {
        while !self.heard.values().any(|heard| heard == text) {
            assert!(self.take(), "closed before {text:?}");
        }
    }

    /// Reads until the connection ends.
    pub(crate) fn hear_out(&mut self) {
        while self.take() {}
    }

    /// What stands, oldest first.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.heard.values().map(String::as_str).collect()
    }

    /// How many comments it was told to take back.
    pub(crate) fn taken_back(&self) -> usize {
        self.taken_back
    }

    /// Every ack stands once under its number; what stands without one was stored before its ack could come.
    pub(crate) fn check(&self, acked: &BTreeMap<String, u64>) {
        for (id, seq) in acked {
            assert_eq!(self.heard.get(seq), Some(id), "{seq} was acked in {}", self.room);
        }
        let mut texts = self.texts();
        texts.sort_unstable();
        let count = texts.len();
        texts.dedup();
        assert_eq!(texts.len(), count, "every comment once");
    }

    fn take(&mut self) -> bool {
        let Some(frame) = self.socket.next() else { return false };
        if frame.opcode != 1 {
            return true;
        }
        let told: Value = serde_json::from_slice(&frame.payload).expect("JSON");
        let (key, body) = told.as_object().and_then(|told| told.iter().next()).expect("one key");
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        match key.as_str() {
            "joined" => self.at = (text(&body["epoch"]), number(&body["seq"])),
            "batch" => {
                assert_eq!(number(&body["from"]), self.at.1 + 1, "ranges follow each other: {told}");
                self.at.1 = number(&body["to"]);
                for item in body["items"].as_array().into_iter().flatten() {
                    let seq = number(&item["seq"]);
                    assert_eq!(self.heard.insert(seq, text(&item["text"])), None, "{seq} came twice");
                }
            }
            "epoch" => {
                let prev = (text(&body["prev"]["epoch"]), number(&body["prev"]["seq"]));
                assert_eq!(prev.0, self.at.0, "it knows where this viewer was: {told}");
                let gone = self.heard.split_off(&(prev.1 + 1));
                self.taken_back += gone.len();
                self.at = (text(&body["epoch"]), number(&body["seq"]));
            }
            "gap" | "error" => panic!("{told}"),
            _ => {}
        }
        true
    }
}
