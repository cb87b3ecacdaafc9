//! What a room's log holds, as it is handed to the application.

use serde::Deserialize;
use serde_json::Value;

use crate::position::Epoch;

/// White, the colour of comments that name none.
const COLOR_DEFAULT: u32 = 0xFF_FFFF;
/// The size of comments that name none.
const SIZE_DEFAULT: u32 = 25;

/// Who said something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct User {
    /// Never changes for the same user.
    pub id: String,
    /// The name to show; empty for guests.
    pub name: String,
    /// What the user is in this room; empty for a plain viewer. Later servers may know more roles.
    pub role: String,
    /// The user's level.
    pub level: u32,
    /// The user's badges.
    pub badges: Vec<String>,
}

/// Where a comment flies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// From right to left.
    #[default]
    Scroll,
    /// Stands at the top.
    Top,
    /// Stands at the bottom.
    Bottom,
}

impl Mode {
    /// The name in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scroll => "scroll",
            Self::Top => "top",
            Self::Bottom => "bottom",
        }
    }

    /// A mode of a later version is shown like most comments.
    fn from_name(name: &str) -> Self {
        match name {
            "top" => Self::Top,
            "bottom" => Self::Bottom,
            _ => Self::Scroll,
        }
    }
}

/// One entry to show.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Item {
    /// Its number within the epoch.
    pub seq: u64,
    /// The server's time, milliseconds since 1970.
    pub at: u64,
    /// Who said it; absent for what nobody said.
    pub user: Option<User>,
    /// What it is.
    pub content: Content,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// A comment.
    Comment(Comment),
    /// A comment now stands for several equal ones.
    Fold {
        /// The number of the comment.
        of: u64,
        /// How many it stands for.
        count: u64,
    },
    /// A comment is pinned; `None` unpins.
    Pin {
        /// The number of the comment.
        of: Option<u64>,
    },
    /// The room's state changed.
    State(Value),
    /// An event of the platform: `gift`, `superchat`, `poll`, `system` or any other. Skip kinds you do not know.
    Event {
        /// Its kind.
        kind: String,
        /// Its own data.
        data: Value,
    },
}

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comment {
    /// The text.
    pub text: String,
    /// Where it flies.
    pub mode: Mode,
    /// 0xRRGGBB.
    pub color: u32,
    /// Its size; 25 is the usual one.
    pub size: u32,
    /// Where in the stream it belongs, milliseconds.
    pub stream_ms: Option<u64>,
    /// Of a VIP's comment: the server's span in the W3C trace that its client began.
    pub traceparent: Option<String>,
}

/// What is to be taken off the screen and out of lists.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removal {
    /// Single entries: a moderator retracted them.
    Entries {
        /// Their epoch.
        epoch: Epoch,
        /// Their numbers.
        seqs: Vec<u64>,
    },
    /// Everything up to an entry, from the screen only: a moderator cleared it.
    UpTo {
        /// The epoch of the number.
        epoch: Epoch,
        /// The last one to go.
        seq: u64,
    },
    /// What was shown of an epoch behind an entry: the room's new owner does not have it.
    After {
        /// The epoch; later ones are not meant.
        epoch: Epoch,
        /// The last one to stay.
        seq: u64,
    },
}

/// An entry as it is read: what is to be shown, or what is to be removed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Item(Item),
    Retract { seqs: Vec<u64>, epoch: Option<Epoch> },
    Clear { up_to: u64 },
}

/// All fields of all types; which of them count is a matter of the type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    seq: u64,
    #[serde(rename = "type", default)]
    kind: String,
    user: Option<User>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    mode: String,
    color: Option<u32>,
    size: Option<u32>,
    #[serde(default)]
    at: u64,
    stream_ms: Option<u64>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    of: u64,
    #[serde(default)]
    count: u64,
    #[serde(default)]
    up_to: u64,
    #[serde(default)]
    seqs: Vec<u64>,
    epoch: Option<Epoch>,
    traceparent: Option<String>,
}

/// Reads an entry and its number; `None` for a type of a later version whose fields are other ones.
pub(crate) fn read(json: &str) -> Option<(u64, Entry)> {
    let fields: Fields = serde_json::from_str(json).ok()?;
    let Fields { seq, user, at, .. } = fields;
    let content = match fields.kind.as_str() {
        "retract" => return Some((seq, Entry::Retract { seqs: fields.seqs, epoch: fields.epoch })),
        "clear" => return Some((seq, Entry::Clear { up_to: fields.up_to })),
        "" => Content::Comment(Comment {
            text: fields.text,
            mode: Mode::from_name(&fields.mode),
            color: fields.color.unwrap_or(COLOR_DEFAULT),
            size: fields.size.unwrap_or(SIZE_DEFAULT),
            stream_ms: fields.stream_ms,
            traceparent: fields.traceparent,
        }),
        "fold" => Content::Fold { of: fields.of, count: fields.count },
        "pin" => Content::Pin { of: (fields.of != 0).then_some(fields.of) },
        "state" => Content::State(fields.data),
        _ => Content::Event { kind: fields.kind, data: fields.data },
    };
    Some((seq, Entry::Item(Item { seq, at, user, content })))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(json: &str) -> Content {
        match read(json) {
            Some((_, Entry::Item(item))) => item.content,
            other => panic!("{json}: {other:?}"),
        }
    }

    /// `read`: absent fields have the protocol's defaults, 0 included where it means something.
    #[test]
    fn what_is_absent_is_at_its_default() {
        let plain = |mode, color, size| {
            let text = "hello".into();
            Content::Comment(Comment { text, mode, color, size, stream_ms: None, traceparent: None })
        };
        assert_eq!(content(r#"{"seq":1,"text":"hello"}"#), plain(Mode::Scroll, 0xFF_FFFF, 25));
        assert_eq!(
            content(r#"{"seq":1,"text":"hello","mode":"top","color":0,"size":12}"#),
            plain(Mode::Top, 0, 12)
        );
        assert_eq!(
            content(r#"{"seq":1,"text":"hello","mode":"spiral"}"#),
            plain(Mode::Scroll, 0xFF_FFFF, 25)
        );
        assert_eq!(content(r#"{"seq":2,"type":"pin","of":1}"#), Content::Pin { of: Some(1) });
        assert_eq!(content(r#"{"seq":2,"type":"pin"}"#), Content::Pin { of: None });
    }

    /// `read`: platform events keep their data, unknown fields are skipped, a type whose fields look different too.
    #[test]
    fn unknown_kinds_and_fields_do_no_harm() {
        let event = |kind: &str, data| Content::Event { kind: kind.into(), data };
        assert_eq!(
            content(r#"{"seq":3,"type":"gift","data":{"count":9},"new":[1]}"#),
            event("gift", json!({"count":9}))
        );
        assert_eq!(content(r#"{"seq":3,"type":"confetti"}"#), event("confetti", Value::Null));
        assert_eq!(read(r#"{"seq":3,"type":"later","text":{"rich":true}}"#), None);
        assert_eq!(read(r#"{"type":"gift"}"#), None, "an entry has a number");
    }

    /// `read`: numbers up to 2^53 - 1 arrive unharmed.
    #[test]
    fn the_largest_number_is_read_exactly() {
        let last = (1u64 << 53) - 1;
        let json = format!(r#"{{"seq":{last},"type":"retract","seqs":[{last}],"epoch":"7-k2"}}"#);
        let entry = Entry::Retract { seqs: vec![last], epoch: Some("7-k2".into()) };
        assert_eq!(read(&json), Some((last, entry)));
    }
}
