//! A session's input, whole and in pieces, through workers that run: commands, frames and nonsense against a
//! plain account of what must be answered, in which order, and how the connection must end.
//!
//! Input: the setup, then operations of one to a few dozen bytes.

#![no_main]

#[path = "session_input/client.rs"]
mod client;
#[path = "session_input/model.rs"]
mod model;
#[path = "session_input/server.rs"]
mod server;

use std::cell::RefCell;

use danmaku_fuzz::draw::Draw;
use danmaku_fuzz::masked::{BINARY, CLOSE, FIN, PING, RSV1, TEXT, write_frame};
use danmaku_wire::id::RoomId;
use danmaku_wire::websocket::Deflater;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

use client::Client;
use server::{Opening, WORKERS};

thread_local! {
    static DEFLATER: RefCell<Deflater> = RefCell::new(Deflater::new(1));
}

const OPERATIONS_MAX: usize = 40;
const ROOMS: [&str; 5] = ["r0", "r1", "r2", "r3", "r4"];
const NO_ROOMS: [&str; 3] = ["", "a b", "r\u{e9}"];
const WORDS: [&str; 8] = ["hello", "弹幕", " x ", "", "\u{200b}", "a\nb", "\u{202e}", "😀"];
const OTHERS: [&str; 9] = [
    r#"{"auth":{"token":"t"}}"#,
    r#"{"react":{"kind":"like","count":3}}"#,
    r#"{"report":{"seq":1}}"#,
    r#"{"dance":{}}"#,
    r#"{}"#,
    r#"{"send":{"id":"i0","text":1}}"#,
    r#"{"view":{"tier":"huge"}}"#,
    r#"{"join":{"room":"r1","since":{"seq":-1}}}"#,
    r#"{"ping":"#,
];

fuzz_target!(|data: &[u8]| {
    let mut draw = Draw::new(data);
    let (setup, room) = (draw.byte(), ROOMS[draw.size(0, ROOMS.len() - 1)]);
    let deflate = setup & 1 != 0;
    let mut peer = Peer { room, deflate, bytes: Vec::new(), written: 0, client: None };
    let worker = usize::from(setup >> 1) % WORKERS;
    // Some of the first operations may come behind the request, before the session is there.
    let behind = usize::from(setup >> 4);
    for operation in 0..OPERATIONS_MAX {
        if operation == behind || draw.is_empty() {
            peer.connect(worker);
        }
        if draw.is_empty() {
            break;
        }
        peer.act(&mut draw);
    }
    peer.connect(worker);
    peer.leave();
});

/// A client, and all that it has said.
struct Peer {
    room: &'static str,
    deflate: bool,
    bytes: Vec<u8>,
    /// How much of it the session was given.
    written: usize,
    client: Option<Client>,
}

impl Peer {
    fn connect(&mut self, worker: usize) {
        if self.client.is_some() {
            return;
        }
        let room = RoomId::parse(self.room).expect("a name");
        let opening = Opening { worker, room, deflate: self.deflate, leftover: self.bytes.clone() };
        self.client = Some(Client::new(server::connect(opening)));
        self.written = self.bytes.len();
    }

    fn act(&mut self, draw: &mut Draw<'_>) {
        match draw.byte() % 24 {
            0..=6 => self.publish(draw),
            7 => self.say(json!({ "ping": { "t": draw.byte() } }), draw),
            8 | 9 => {
                let payload = [draw.byte(), draw.byte()];
                self.frame(FIN | PING, &payload[..draw.size(0, 2)], draw);
            }
            10..=12 => self.join(draw),
            13 | 14 => {
                let tier = ["lite", "standard", "full"].get(draw.size(0, 3));
                self.say(json!({ "view": { "paused": draw.coin(), "tier": tier } }), draw);
            }
            15 => {
                let other = OTHERS[draw.size(0, OTHERS.len() - 1)];
                self.message(TEXT, other.as_bytes(), draw);
            }
            16 => {
                let bytes = draw.bytes(60);
                self.message(if draw.size(0, 3) == 0 { BINARY } else { TEXT }, bytes, draw);
            }
            17 => {
                let bytes = draw.bytes(20);
                self.bytes.extend_from_slice(bytes);
            }
            18 => {
                let code = [1000, 1001, 1005, 3000, 4999][draw.size(0, 4)];
                self.frame(FIN | CLOSE, &u16::to_be_bytes(code), draw);
            }
            19 => self.message(TEXT, "{\"send\":{\"id\":\"i0\",\"text\":\"twice\"}}".as_bytes(), draw),
            20 | 21 => self.hear_all(),
            _ => self.write(),
        }
    }

    fn publish(&mut self, draw: &mut Draw<'_>) {
        let (id, word) = (draw.byte(), WORDS[draw.size(0, WORDS.len() - 1)]);
        let text = word.repeat(draw.size(1, 101));
        let id = match id {
            0xff => "i".repeat(65),
            0xfe => "\u{7}".to_owned(),
            id => format!("i{}", id % 12),
        };
        let mode = ["scroll", "top", "bottom"][draw.size(0, 2)];
        let mut send = json!({ "id": id, "text": text, "mode": mode, "color": draw.byte() });
        if draw.byte() == 0 {
            send["id"] = Value::Null;
        }
        self.say(json!({ "send": send }), draw);
    }

    fn join(&mut self, draw: &mut Draw<'_>) {
        let room = match draw.size(0, 15) {
            0 => NO_ROOMS[draw.size(0, NO_ROOMS.len() - 1)],
            _ => ROOMS[draw.size(0, ROOMS.len() - 1)],
        };
        let known = self.client.as_ref().and_then(|client| client.told.positions.get(room));
        let (epoch, seq) = known.cloned().unwrap_or_default();
        let since = match draw.byte() % 8 {
            0 | 1 => Value::Null,
            2..=4 => json!({ "epoch": epoch, "seq": seq }),
            5 => json!({ "epoch": epoch, "seq": seq.saturating_sub(draw.from_to(1, 9)) }),
            6 => json!({ "epoch": epoch, "seq": seq + draw.from_to(1, 9) }),
            _ => json!({ "epoch": "never", "seq": seq }),
        };
        self.say(json!({ "join": { "room": room, "since": since } }), draw);
    }

    fn say(&mut self, command: Value, draw: &mut Draw<'_>) {
        self.message(TEXT, command.to_string().as_bytes(), draw);
    }

    /// A message, deflated or not, in one frame or in two.
    fn message(&mut self, opcode: u8, payload: &[u8], draw: &mut Draw<'_>) {
        let form = draw.byte();
        let (mut wire, mut rsv1) = (payload.to_vec(), 0);
        if self.deflate && form & 1 != 0 {
            (wire, rsv1) = (Vec::new(), RSV1);
            DEFLATER.with_borrow_mut(|deflater| deflater.compress(payload, &mut wire));
        }
        if form & 6 != 0 {
            return self.frame(FIN | rsv1 | opcode, &wire, draw);
        }
        let (now, later) = wire.split_at(wire.len() / 2);
        self.frame(rsv1 | opcode, now, draw);
        self.frame(FIN, later, draw);
    }

    fn frame(&mut self, first: u8, payload: &[u8], draw: &mut Draw<'_>) {
        write_frame(&mut self.bytes, first, [draw.byte(), 2, 3, 4], payload);
    }

    fn write(&mut self) {
        if let Some(client) = &mut self.client {
            client.write(&self.bytes[self.written..]);
            self.written = self.bytes.len();
        }
    }

    /// Says nothing more before everything is answered.
    fn hear_all(&mut self) {
        self.write();
        let must = model::follow(self.room, self.deflate, &self.bytes);
        if let Some(client) = self.client.as_mut().filter(|_| must.end.is_none()) {
            client.hear_all(&must);
        }
    }

    /// Goes as it may: with a close where one can be read, else by saying nothing more.
    fn leave(mut self) {
        self.hear_all();
        let close = self.bytes.len();
        write_frame(&mut self.bytes, FIN | CLOSE, [1, 2, 3, 4], &u16::to_be_bytes(1000));
        let mut must = model::follow(self.room, self.deflate, &self.bytes);
        if must.end.is_some() {
            self.write();
        } else {
            must = model::follow(self.room, self.deflate, &self.bytes[..close]);
        }
        let mut client = self.client.expect("connected before");
        client.write_nothing_more();
        client.hear_out(&must);
        client.told.check_fates(&must);
    }
}
