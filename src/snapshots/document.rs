//! A snapshot as documents: JSON and protobuf, each as it is and compressed.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brotli::enc::BrotliEncoderParams;
use danmaku_room::house::settings::State;
use danmaku_wire::entry::Entry;
use danmaku_wire::native::{RoomUpdate, ServerMessage, Snapshot, json, proto};
use danmaku_wire::position::Position;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{OnceCell, Semaphore};

use danmaku_wire::native::ErrorCode;

/// Bytes of the digest that stand in an entity tag.
const TAG_BYTES: usize = 12;

/// How a snapshot is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// The message of the JSON subprotocol.
    Json,
    /// The message of the protobuf subprotocol.
    Proto,
}

/// Content codings (RFC 9110, section 8.4.1), the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Brotli at its densest (RFC 7932).
    Brotli,
    /// gzip at its densest.
    Gzip,
    /// As it is.
    Identity,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Gzip, Self::Identity];

    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }
}

/// The snapshot of one room at one position.
#[derive(Debug)]
pub struct Made {
    /// Where batches go on.
    pub position: Position,
    json: Forms,
    proto: Forms,
}

#[derive(Debug)]
struct Forms {
    plain: Bytes,
    gzip: OnceCell<Bytes>,
    brotli: OnceCell<Bytes>,
    tag: String,
}

impl Made {
    /// Writes the documents, with the room's state. What changes without an entry, such as how many are there, is not among
    /// it: a snapshot stays what it is until the room moves on.
    pub fn new(position: Position, entries: &[Arc<Entry>], state: &State) -> Self {
        let items: Vec<&Entry> = entries.iter().map(|entry| &**entry).collect();
        let epoch = position.epoch.as_str();
        let State { slow_mode_ms, data } = state;
        let room = RoomUpdate { slow_mode_ms: *slow_mode_ms, data, ..RoomUpdate::default() };
        let snapshot = Snapshot { epoch, seq: position.seq, items: &items, room };
        let message = ServerMessage::Snapshot(snapshot);
        let (mut as_json, mut as_proto) = (Vec::new(), Vec::new());
        json::encode(&message, &mut as_json);
        proto::encode(&message, &mut as_proto);
        Self { position, json: Forms::new(as_json), proto: Forms::new(as_proto) }
    }

    fn forms(&self, document: Document) -> &Forms {
        match document {
            Document::Json => &self.json,
            Document::Proto => &self.proto,
        }
    }

    /// The strong entity tag of a form (RFC 9110, section 8.8.3): another coding, another tag.
    pub fn tag(&self, document: Document, coding: Coding) -> String {
        format!("\"{}-{}\"", self.forms(document).tag, coding.name())
    }

    /// A form's bytes; compressed forms are made by the first who asks, with the others waiting.
    pub(super) async fn coded(
        self: &Arc<Self>,
        document: Document,
        coding: Coding,
        compressing: &Arc<Semaphore>,
        compressed: &AtomicU64,
    ) -> Result<Bytes, ErrorCode> {
        let forms = self.forms(document);
        let cell = match coding {
            Coding::Identity => return Ok(forms.plain.clone()),
            Coding::Gzip => &forms.gzip,
            Coding::Brotli => &forms.brotli,
        };
        let compress = || async {
            let permit = Arc::clone(compressing).acquire_owned().await.map_err(|_| ErrorCode::Internal)?;
            let plain = forms.plain.clone();
            compressed.fetch_add(1, Ordering::Relaxed);
            let bytes = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                match coding {
                    Coding::Gzip => gzip(&plain),
                    _ => brotli(&plain),
                }
            });
            bytes.await.map(Bytes::from).map_err(|_| ErrorCode::Internal)
        };
        cell.get_or_try_init(compress).await.cloned()
    }
}

impl Forms {
    fn new(plain: Vec<u8>) -> Self {
        let digest = Sha256::digest(&plain);
        let tag = digest.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Self { plain: Bytes::from(plain), gzip: OnceCell::new(), brotli: OnceCell::new(), tag }
    }
}

/// gzip, densest.
fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 3), Compression::best());
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("a vector takes all that is written")
}

/// Brotli at quality 11; the window no larger than the document needs.
fn brotli(plain: &[u8]) -> Vec<u8> {
    let params =
        BrotliEncoderParams { quality: 11, size_hint: plain.len(), ..BrotliEncoderParams::default() };
    let mut compressed = Vec::with_capacity(plain.len() / 4);
    let mut reader = plain;
    brotli::BrotliCompress(&mut reader, &mut compressed, &params)
        .expect("a vector takes all that is written");
    compressed
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use danmaku_wire::entry::{Body, Tier, Visibility};
    use danmaku_wire::position::Epoch;

    use super::*;

    fn made(seq: u64) -> Arc<Made> {
        let body = Body::Clear { up_to: seq };
        let entry = Arc::new(Entry { seq, at_ms: 1, visibility: Visibility::Tier(Tier::Lite), body });
        let epoch = Epoch::parse("e1").expect("an epoch");
        Arc::new(Made::new(Position { epoch, seq }, &vec![entry; 40], &State::default()))
    }

    #[tokio::test]
    async fn every_coding_is_of_the_same_document_and_has_a_tag_of_its_own() {
        let (made, compressing) = (made(7), Arc::new(Semaphore::new(1)));
        let count = AtomicU64::new(0);
        for document in [Document::Json, Document::Proto] {
            let plain = made.coded(document, Coding::Identity, &compressing, &count).await.expect("made");
            let gzip = made.coded(document, Coding::Gzip, &compressing, &count).await.expect("made");
            let mut inflated = Vec::new();
            flate2::read::GzDecoder::new(&gzip[..]).read_to_end(&mut inflated).expect("gzip");
            assert_eq!(inflated, plain);
            let brotli = made.coded(document, Coding::Brotli, &compressing, &count).await.expect("made");
            let mut inflated = Vec::new();
            brotli::Decompressor::new(&brotli[..], 4096).read_to_end(&mut inflated).expect("Brotli");
            assert_eq!(inflated, plain);
            let again = made.coded(document, Coding::Brotli, &compressing, &count).await.expect("made");
            assert_eq!(again.as_ptr(), brotli.as_ptr(), "made once");
        }
        assert_eq!(count.into_inner(), 4);
        let mut tags: Vec<String> = Vec::new();
        for document in [Document::Json, Document::Proto] {
            tags.extend(Coding::ALL.map(|coding| made.tag(document, coding)));
        }
        tags.push(self::made(8).tag(Document::Json, Coding::Brotli));
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 7);
    }
}
