//! What a client makes of the bytes it is sent: frames of RFC 6455 §5.2, as a server sends them.

use danmaku_wire::websocket::deflate::Inflater;

/// One whole frame.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Where in the stream it began, bytes.
    pub(crate) at: usize,
    pub(crate) text: bool,
    /// The payload, inflated where it was deflated.
    pub(crate) payload: Vec<u8>,
}

/// Cuts a stream into frames, however the bytes come in.
#[derive(Default)]
pub(crate) struct Splitter {
    pending: Vec<u8>,
    at: usize,
    inflater: Inflater,
}

impl Splitter {
    /// Takes bytes in.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole frame. Panics at anything that is no whole, unmasked message.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        let (first, second) = (*self.pending.first()?, *self.pending.get(1)?);
        assert_eq!(first & 0b1011_0000, 0b1000_0000, "a whole message, at byte {} of the stream", self.at);
        assert!(matches!(first & 15, 1 | 2), "text or binary, not {first:#x} at byte {}", self.at);
        let (header, length) = match second {
            126 => (4, u16::from_be_bytes(self.pending.get(2..4)?.try_into().expect("2 bytes")).into()),
            127 => (10, u64::from_be_bytes(self.pending.get(2..10)?.try_into().expect("8 bytes"))),
            short => (2, short.into()),
        };
        assert!(length < 1 << 24, "a frame of {length} bytes at byte {}", self.at);
        let end = header + length as usize;
        let payload = self.pending.get(header..end)?;
        let payload = match first & 0x40 {
            0 => payload.to_vec(),
            _ => self.inflater.inflate(payload, 1 << 24).expect("a deflated payload inflates").to_vec(),
        };
        let frame = Frame { at: self.at, text: first & 15 == 1, payload };
        self.pending.drain(..end);
        self.at += end;
        Some(frame)
    }

    /// Bytes of a frame that is not whole yet.
    pub(crate) fn left_over(&self) -> usize {
        self.pending.len()
    }
}
