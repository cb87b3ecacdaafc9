//! A member of a room that keeps book: what it was shown, and whether that was in order, whole and once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use danmaku_wire::native::proto;
use prost::Message as _;
use serde_json::Value;

use crate::raw_socket::RawSocket;

/// Ways to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Proto,
    Deflate,
    /// Takes little and reads nothing for long.
    Slow,
    Events,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Json, Self::Proto, Self::Deflate, Self::Slow, Self::Events];
}

enum Ear {
    Socket(RawSocket),
    Events(BufReader<TcpStream>),
}

/// A message, as far as a log is about it.
enum Told {
    Joined {
        epoch: String,
        seq: u64,
    },
    Batch {
        from: u64,
        to: u64,
        items: Vec<(u64, String)>,
    },
    Epoch {
        epoch: String,
        seq: u64,
        prev: (String, u64),
    },
    Pong,
    /// What must not come.
    Unwanted(String),
    Other,
}

pub(crate) struct Member {
    pub(crate) kind: Kind,
    ear: Ear,
    /// Position, once joined.
    at: Option<(String, u64)>,
    epochs: usize,
    heard: BTreeMap<u64, String>,
    ponged: bool,
}

impl Member {
    /// Joins a room without its snapshot.
    pub(crate) fn join(address: SocketAddr, kind: Kind, room: &str) -> Self {
        let query = format!("{room}&tier=full&snapshot=none");
        let ear = match kind {
            Kind::Json => Ear::Socket(RawSocket::join(address, &query, "")),
            Kind::Proto => {
                Ear::Socket(RawSocket::join(address, &query, "Sec-WebSocket-Protocol: danmaku.v1.proto\r\n"))
            }
            Kind::Deflate => Ear::Socket(RawSocket::join(
                address,
                &query,
                "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n",
            )),
            Kind::Slow => Ear::Socket(RawSocket::join_narrow(address, &query)),
            Kind::Events => Ear::Events(events(address, room)),
        };
        let mut member = Self { kind, ear, at: None, epochs: 0, heard: BTreeMap::new(), ponged: false };
        while member.at.is_none() {
            member.take();
        }
        member
    }

    /// How often the room's owner has changed.
    pub(crate) fn epochs(&self) -> usize {
        self.epochs
    }

    /// Reads until a comment of this text has come; the slow one does not even begin.
    pub(crate) fn hear(&mut self, text: &str) {
        if self.kind != Kind::Slow {
            self.hear_out(text);
        }
    }

    /// Reads until a comment of this text has come.
    pub(crate) fn hear_out(&mut self, text: &str) {
        while !self.heard.values().any(|heard| heard == text) {
            self.take();
        }
    }

    /// Says something; not for event streams.
    pub(crate) fn say(&mut self, text: &str) {
        match &mut self.ear {
            Ear::Socket(socket) => socket.say(text),
            Ear::Events(_) => panic!("an event stream says nothing"),
        }
    }

    /// Asks for an answer, and sees that nothing but that comes.
    pub(crate) fn hears_nothing(&mut self) {
        let before = (self.heard.len(), self.at.clone());
        self.ponged = false;
        self.say(r#"{"ping":{"t":7}}"#);
        while !self.ponged {
            self.take();
        }
        assert_eq!((self.heard.len(), self.at.clone()), before, "{:?}: it was told something", self.kind);
    }

    /// What it has heard, by number.
    pub(crate) fn into_heard(self) -> BTreeMap<u64, String> {
        self.heard
    }

    fn take(&mut self) {
        let kind = self.kind;
        let told = match &mut self.ear {
            Ear::Socket(socket) => {
                let frame = socket.next().unwrap_or_else(|| panic!("{kind:?}: closed"));
                match (kind, frame.opcode) {
                    (Kind::Proto, 2) => told_proto(&frame.payload),
                    (_, 1) if frame.deflated => told_json(&inflate(&frame.payload)),
                    (_, 1) => told_json(&frame.payload),
                    (_, 9) => Told::Other,
                    (_, opcode) => panic!("{kind:?}: a frame of type {opcode}"),
                }
            }
            Ear::Events(lines) => {
                let mut line = String::new();
                let n = lines.read_line(&mut line).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
                assert!(n > 0, "{kind:?}: closed");
                line.strip_prefix("data: ").map_or(Told::Other, |data| told_json(data.trim_end().as_bytes()))
            }
        };
        self.note(told);
    }

    fn note(&mut self, told: Told) {
        let kind = self.kind;
        match (told, &mut self.at) {
            (Told::Joined { epoch, seq }, at @ None) => *at = Some((epoch, seq)),
            (Told::Joined { .. }, Some(_)) => panic!("{kind:?}: joined again"),
            (Told::Batch { from, to, items }, Some((_, at))) => {
                assert_eq!(from, *at + 1, "{kind:?}: ranges follow each other");
                *at = to;
                for (seq, text) in items {
                    assert!((from..=to).contains(&seq), "{kind:?}: {seq} outside {from}..={to}");
                    assert_eq!(self.heard.insert(seq, text), None, "{kind:?}: {seq} came twice");
                }
            }
            (Told::Epoch { epoch, seq, prev }, Some(at)) => {
                assert_eq!(prev, *at, "{kind:?}: what was shown is kept");
                *at = (epoch, seq);
                self.epochs += 1;
            }
            (Told::Pong, _) => self.ponged = true,
            (Told::Unwanted(what), _) => panic!("{kind:?}: {what}"),
            _ => {}
        }
    }
}

fn events(address: SocketAddr, room: &str) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let path = format!("/api/v1/rooms/{room}/events?tier=full&snapshot=none");
    socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("sent");
    BufReader::new(socket)
}

fn inflate(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 << 10);
    let whole = [payload, &[0, 0, 0xff, 0xff]].concat();
    let mut inflater = flate2::Decompress::new(false);
    inflater.decompress_vec(&whole, &mut out, flate2::FlushDecompress::Sync).expect("deflated");
    assert_eq!(inflater.total_in(), whole.len() as u64, "all of it");
    out
}

fn told_json(payload: &[u8]) -> Told {
    let value: Value = serde_json::from_slice(payload).expect("JSON");
    let (key, body) = value.as_object().and_then(|object| object.iter().next()).expect("one key");
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let string = |value: &Value| value.as_str().unwrap_or("").to_owned();
    match key.as_str() {
        "joined" => Told::Joined { epoch: string(&body["epoch"]), seq: number(&body["seq"]) },
        "batch" => {
            let items = body["items"].as_array().map_or(&[][..], Vec::as_slice).iter();
            let items = items.map(|item| (number(&item["seq"]), string(&item["text"]))).collect();
            Told::Batch { from: number(&body["from"]), to: number(&body["to"]), items }
        }
        "epoch" => {
            let prev = (string(&body["prev"]["epoch"]), number(&body["prev"]["seq"]));
            Told::Epoch { epoch: string(&body["epoch"]), seq: number(&body["seq"]), prev }
        }
        "pong" => Told::Pong,
        "gap" | "reconnect" | "error" => Told::Unwanted(value.to_string()),
        _ => Told::Other,
    }
}

fn told_proto(payload: &[u8]) -> Told {
    use proto::server_message::Message;
    let message = proto::ServerMessage::decode(payload).expect("a binary message is the schema's");
    match message.message.expect("one message") {
        Message::Joined(joined) => Told::Joined { epoch: joined.epoch, seq: joined.seq },
        Message::Batch(batch) => {
            let items = batch.items.into_iter().map(|item| (item.seq, item.text)).collect();
            Told::Batch { from: batch.from, to: batch.to, items }
        }
        Message::Epoch(change) => {
            let prev = change.prev.map(|prev| (prev.epoch, prev.seq)).unwrap_or_default();
            Told::Epoch { epoch: change.epoch, seq: change.seq, prev }
        }
        message @ (Message::Gap(_) | Message::Reconnect(_) | Message::Error(_)) => {
            Told::Unwanted(format!("{message:?}"))
        }
        _ => Told::Other,
    }
}
