//! An entry as a row: what is searched for in columns, the rest as JSON, to which a later version can add.

use std::sync::Arc;

use danmaku_room::store::StoredId;
use danmaku_wire::entry::{Author, Body, Comment, Entry, Event, Mode, Role, Tier, Visibility};
use danmaku_wire::id::UserId;
use danmaku_wire::position::Epoch;
use serde::{Deserialize, Serialize};

/// What an entry's kind is called in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Comment = 0,
    Event = 1,
    Retract = 2,
    Fold = 3,
    Pin = 4,
    Clear = 5,
    State = 6,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Comment, Self::Event, Self::Retract, Self::Fold, Self::Pin, Self::Clear, Self::State];

    const fn of(body: &Body) -> Self {
        match body {
            Body::Comment(_) => Self::Comment,
            Body::Event(_) => Self::Event,
            Body::Retract { .. } => Self::Retract,
            Body::Fold { .. } => Self::Fold,
            Body::Pin { .. } => Self::Pin,
            Body::Clear { .. } => Self::Clear,
            Body::State { .. } => Self::State,
        }
    }
}

/// Visibilities: tiers by their own numbers, then these.
const AUTHOR_ONLY: u8 = 3;
const STAFF_ONLY: u8 = 4;

/// The columns of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// Its number.
    pub(super) seq: u64,
    /// When it was released, milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Who may see it.
    pub(super) visible: u8,
    /// What it is.
    pub(super) kind: u8,
    /// Who caused it.
    pub(super) user: Option<Box<str>>,
    /// Where in the stream.
    pub(super) stream_ms: Option<u64>,
    /// The rest, a JSON object.
    pub(super) body: String,
}

/// A row that cannot be read: damaged, or written by a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored entry cannot be read: {0}")]
pub(super) struct Unreadable(pub(super) &'static str);

/// The rest of an entry. Keys are short, for there is one of these per comment.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Rest<'a> {
    /// The only one who may see it, where that is not the user of the row.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none", borrow)]
    seen_by: Option<std::borrow::Cow<'a, str>>,
    #[serde(skip_serializing_if = "str::is_empty", borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "is_default")]
    role: u8,
    #[serde(skip_serializing_if = "is_default")]
    level: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    badges: Vec<Box<str>>,
    #[serde(skip_serializing_if = "str::is_empty", borrow)]
    text: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "is_default")]
    mode: u8,
    #[serde(skip_serializing_if = "is_default")]
    color: u32,
    #[serde(skip_serializing_if = "is_default")]
    size: u8,
    /// The type of an event.
    #[serde(rename = "type", skip_serializing_if = "str::is_empty", borrow)]
    kind: std::borrow::Cow<'a, str>,
    /// The data of an event or a state, as the text it came as.
    #[serde(skip_serializing_if = "str::is_empty", borrow)]
    data: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    epoch: Option<std::borrow::Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    seqs: Vec<u64>,
    #[serde(skip_serializing_if = "is_default")]
    of: u64,
    #[serde(skip_serializing_if = "is_default")]
    count: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Row {
    /// The row of an entry.
    pub(super) fn of(entry: &Entry) -> Self {
        let mut rest = Rest::default();
        let user = match &entry.body {
            Body::Comment(comment) => Some(&comment.user),
            Body::Event(event) => event.user.as_ref(),
            _ => None,
        };
        if let Some(user) = user {
            rest.name = (&*user.name).into();
            (rest.role, rest.level) = (user.role as u8, user.level);
            rest.badges.clone_from(&user.badges);
        }
        let visible = match &entry.visibility {
            Visibility::Tier(tier) => *tier as u8,
            Visibility::Staff => STAFF_ONLY,
            Visibility::Author(author) => {
                if user.is_none_or(|user| user.id != *author) {
                    rest.seen_by = Some(author.as_str().into());
                }
                AUTHOR_ONLY
            }
        };
        let mut stream_ms = None;
        match &entry.body {
            // Whoever followed a trace has done so by the time that history is read.
            Body::Comment(Comment { text, mode, color, size, stream_ms: at, user: _, trace: _ }) => {
                rest.text = (&**text).into();
                (rest.mode, rest.color, rest.size) = (*mode as u8, *color, *size);
                stream_ms = *at;
            }
            Body::Event(Event { kind, data, user: _ }) => {
                (rest.kind, rest.data) = ((&**kind).into(), (&**data).into());
            }
            Body::Retract { epoch, seqs } => {
                rest.epoch = epoch.as_ref().map(|epoch| epoch.as_str().into());
                rest.seqs.clone_from(seqs);
            }
            Body::Fold { of, count } => (rest.of, rest.count) = (*of, *count),
            Body::Pin { of } => rest.of = *of,
            Body::Clear { up_to } => rest.of = *up_to,
            Body::State { data } => rest.data = (&**data).into(),
        }
        Self {
            seq: entry.seq,
            at_ms: entry.at_ms,
            visible,
            kind: Kind::of(&entry.body) as u8,
            user: user.map(|user| user.id.as_str().into()),
            stream_ms,
            body: serde_json::to_string(&rest).unwrap_or_default(),
        }
    }

    /// The entry of a row.
    ///
    /// # Errors
    /// Where it says what no entry says.
    pub(super) fn entry(&self) -> Result<Entry, Unreadable> {
        let rest: Rest<'_> = serde_json::from_str(&self.body).map_err(|_| Unreadable("its body"))?;
        let id = |text: &str| UserId::parse(text).map_err(|_| Unreadable("a user's id"));
        let user = self.user.as_deref().map(|user| {
            Ok(Arc::new(Author {
                id: id(user)?,
                name: (&*rest.name).into(),
                role: role(rest.role)?,
                level: rest.level,
                badges: rest.badges.clone(),
            }))
        });
        let user = user.transpose()?;
        let visibility = match (self.visible, &rest.seen_by, &user) {
            (STAFF_ONLY, ..) => Visibility::Staff,
            (AUTHOR_ONLY, Some(author), _) => Visibility::Author(id(author)?),
            (AUTHOR_ONLY, None, Some(user)) => Visibility::Author(user.id.clone()),
            (tier, ..) => Visibility::Tier(
                [Tier::Lite, Tier::Standard, Tier::Full]
                    .into_iter()
                    .find(|known| *known as u8 == tier)
                    .ok_or(Unreadable("who may see it"))?,
            ),
        };
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == self.kind);
        let body = match kind.ok_or(Unreadable("a kind that this version does not know"))? {
            Kind::Comment => Body::Comment(Comment {
                user: user.ok_or(Unreadable("a comment of nobody"))?,
                text: (&*rest.text).into(),
                mode: mode(rest.mode)?,
                color: rest.color,
                size: rest.size,
                stream_ms: self.stream_ms,
                trace: None,
            }),
            Kind::Event => {
                Body::Event(Event { kind: (&*rest.kind).into(), user, data: (&*rest.data).into() })
            }
            Kind::Retract => {
                let epoch = rest.epoch.map(|epoch| Epoch::parse(&epoch).ok_or(Unreadable("an epoch")));
                Body::Retract { epoch: epoch.transpose()?, seqs: rest.seqs }
            }
            Kind::Fold => Body::Fold { of: rest.of, count: rest.count },
            Kind::Pin => Body::Pin { of: rest.of },
            Kind::Clear => Body::Clear { up_to: rest.of },
            Kind::State => Body::State { data: (&*rest.data).into() },
        };
        Ok(Entry { seq: self.seq, at_ms: self.at_ms, visibility, body })
    }
}

pub(super) fn role(number: u8) -> Result<Role, Unreadable> {
    let all = [Role::Viewer, Role::Vip, Role::Moderator, Role::Streamer, Role::Staff];
    all.into_iter().find(|role| *role as u8 == number).ok_or(Unreadable("a role"))
}

fn mode(number: u8) -> Result<Mode, Unreadable> {
    let all = [Mode::Scroll, Mode::Top, Mode::Bottom];
    all.into_iter().find(|mode| *mode as u8 == number).ok_or(Unreadable("a mode"))
}

/// What a row keeps of an id beside its entry.
pub(super) fn id_columns(id: &StoredId) -> ([u8; 16], i64) {
    (id.key.to_bits().to_be_bytes(), id.payload.cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn author() -> impl Strategy<Value = Arc<Author>> {
        ("[a-z0-9]{1,20}", ".{0,32}", 0u8..5, any::<u32>(), prop::collection::vec(".{0,8}", 0..3)).prop_map(
            |(id, name, number, level, badges)| {
                let badges = badges.into_iter().map(Into::into).collect();
                let (id, role) = (UserId::parse(&id).expect("an id"), role(number).expect("a role"));
                Arc::new(Author { id, name: name.into(), role, level, badges })
            },
        )
    }

    fn body() -> impl Strategy<Value = Body> {
        let stream = prop::option::of(0u64..1 << 53);
        let comment = (author(), ".{0,100}", 0u8..3, any::<u32>(), any::<u8>(), stream);
        prop_oneof![
            comment.prop_map(|(user, text, number, color, size, stream_ms)| {
                let mode = mode(number).expect("a mode");
                Body::Comment(Comment { user, text: text.into(), mode, color, size, stream_ms, trace: None })
            }),
            ("[a-z]{1,9}", prop::option::of(author()), ".{0,50}").prop_map(|(kind, user, data)| {
                Body::Event(Event { kind: kind.into(), user, data: data.into() })
            }),
            (prop::option::of("[a-z]{1,9}"), prop::collection::vec(any::<u64>(), 0..4)).prop_map(
                |(epoch, seqs)| Body::Retract { epoch: epoch.map(|e| Epoch::parse(&e).expect("one")), seqs }
            ),
            (any::<u64>(), any::<u64>()).prop_map(|(of, count)| Body::Fold { of, count }),
            any::<u64>().prop_map(|of| Body::Pin { of }),
            any::<u64>().prop_map(|up_to| Body::Clear { up_to }),
            ".{0,50}".prop_map(|data| Body::State { data: data.into() }),
        ]
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let seen = prop_oneof![
            Just(Visibility::Tier(Tier::Lite)),
            Just(Visibility::Tier(Tier::Standard)),
            Just(Visibility::Tier(Tier::Full)),
            Just(Visibility::Staff),
            author().prop_map(|author| Visibility::Author(author.id.clone())),
        ];
        (1u64..1 << 53, any::<u32>(), seen, any::<bool>(), body()).prop_map(
            |(seq, at_ms, visibility, own, body)| {
                let visibility = match (&body, own) {
                    (Body::Comment(comment), true) => Visibility::Author(comment.user.id.clone()),
                    _ => visibility,
                };
                Entry { seq, at_ms: at_ms.into(), visibility, body }
            },
        )
    }

    proptest! {
        /// `Row::of` and `Row::entry`: what is stored is what was said.
        #[test]
        fn an_entry_comes_back_from_its_row(entry in entry()) {
            prop_assert_eq!(Row::of(&entry).entry().expect("readable"), entry);
        }

        /// `Row::entry`: whatever stands in a file, it is an entry or refused.
        #[test]
        fn a_damaged_row_is_refused(
            entry in entry(), kind in any::<u8>(), visible in any::<u8>(), user in prop::option::of(".{0,9}"),
            cut in any::<prop::sample::Index>(),
        ) {
            let row = Row::of(&entry);
            let at = (0..=cut.index(row.body.len() + 1)).rev().find(|at| row.body.is_char_boundary(*at));
            let body = row.body[..at.unwrap_or(0)].to_owned();
            let _ = Row { body, ..row.clone() }.entry();
            let _ = Row { kind, visible, user: user.map(Into::into), ..row }.entry();
        }
    }
}
