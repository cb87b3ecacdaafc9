//! What the staff of rooms has decided: one row a room, in a file of its own, since it outlives any day.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use danmaku_room::house::House;
use danmaku_room::house::board::Board;
use danmaku_room::house::sanction::{Measure, Sanction, Target};
use danmaku_room::house::settings::Settings;
use danmaku_room::house::stage::{MediaId, Stage, StageName};
use danmaku_wire::entry::{Entry, Role};
use danmaku_wire::id::{RoomId, UserId};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use serde::{Deserialize, Serialize};

use super::row::{self, Row, Unreadable};
use super::schema::{self, FileError};

const TABLES: &str = "CREATE TABLE houses (room TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;";

/// The file in a store's directory.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("decisions.db")
}

/// Writes decisions, each in place of what was kept of its room.
///
/// # Errors
/// When they are not on the disk; they can be written again.
pub(super) fn write(
    open: &mut Option<Connection>,
    dir: &Path,
    houses: &HashMap<RoomId, House>,
) -> Result<(), FileError> {
    let path = file(dir);
    let connection = match open {
        Some(connection) => connection,
        None => open.insert(schema::open_to_write(&path, TABLES)?),
    };
    let written = (|| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (room, house) in houses {
            if house.is_empty() {
                transaction.execute("DELETE FROM houses WHERE room = ?1", [room.as_str()])?;
            } else {
                let body = serde_json::to_string(&Form::of(house)).unwrap_or_default();
                transaction.execute(
                    "INSERT OR REPLACE INTO houses (room, body) VALUES (?1, ?2)",
                    (room.as_str(), body),
                )?;
            }
        }
        transaction.commit()?;
        // It is small and seldom written.
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()))
    })();
    written.map_err(|source| FileError::Sqlite { path, source })
}

/// Opens the file to read, if there is one.
///
/// # Errors
/// When it is not what it should be.
pub(super) fn open(dir: &Path) -> Result<Option<Connection>, FileError> {
    let path = file(dir);
    if path.exists() { schema::open_to_read(&path) } else { Ok(None) }
}

/// What is kept of a room.
///
/// # Errors
/// When the file cannot be read. A row that cannot be read is an error in the log, and nothing else.
pub(super) fn read(connection: &Connection, room: &RoomId) -> rusqlite::Result<House> {
    let body: Option<String> = connection
        .prepare_cached("SELECT body FROM houses WHERE room = ?1")?
        .query_row([room.as_str()], |row| row.get(0))
        .optional()?;
    let Some(body) = body else { return Ok(House::default()) };
    let house = serde_json::from_str::<Form<'_>>(&body).map_err(|_| Unreadable("its body"));
    Ok(house.and_then(|form| form.house()).unwrap_or_else(|error| {
        tracing::error!(%error, room = room.as_str(), "what staff decided in the room cannot be read, and does not hold");
        House::default()
    }))
}

/// A house as it is written. Keys are added, never given another meaning.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Form<'a> {
    #[serde(borrow)]
    sanctions: Vec<SanctionForm<'a>>,
    pin: Option<Row>,
    pinned: Option<Row>,
    state: Option<Row>,
    settings: SettingsForm,
    /// Absent where the room is open.
    #[serde(borrow)]
    stage: Option<StageForm<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StageForm<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    media: Option<Cow<'a, str>>,
    #[serde(default)]
    since_ms: u64,
}

impl<'a> StageForm<'a> {
    fn of(stage: &'a Stage) -> Option<Self> {
        let (media, since_ms) = match stage {
            Stage::Open => return None,
            Stage::Live { media, since_ms } => (Some(media.as_str().into()), *since_ms),
            Stage::Ended | Stage::Closed => (None, 0),
        };
        Some(Self { name: stage.as_str().into(), media, since_ms })
    }

    fn stage(&self) -> Result<Stage, Unreadable> {
        let name = StageName::parse(&self.name);
        let media =
            self.media.as_deref().map(|media| MediaId::parse(media).ok_or(Unreadable("a stream's name")));
        let name = name.ok_or(Unreadable("a stage that this version does not know"))?;
        Ok(name.stage(&Stage::Open, media.transpose()?, self.since_ms))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SanctionForm<'a> {
    measure: u8,
    #[serde(borrow, default)]
    user: Option<Cow<'a, str>>,
    /// A keyed hash of an address, and what was written.
    #[serde(borrow, default)]
    address: Option<(u64, Cow<'a, str>)>,
    since_ms: u64,
    #[serde(default)]
    until_ms: Option<u64>,
    rank: u8,
    #[serde(borrow, default)]
    by: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
}

macro_rules! settings_form {
    (plain { $( $plain:ident: $type:ty, )* } roles { $( $role:ident, )* }) => {
        #[derive(Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        struct SettingsForm {
            $( #[serde(skip_serializing_if = "Option::is_none")] $plain: Option<$type>, )*
            $( #[serde(skip_serializing_if = "Option::is_none")] $role: Option<u8>, )*
        }

        impl SettingsForm {
            fn of(settings: &Settings) -> Self {
                let Settings { $( $plain, )* $( $role, )* } = *settings;
                Self { $( $plain, )* $( $role: $role.map(|role| role as u8), )* }
            }

            fn settings(&self) -> Result<Settings, Unreadable> {
                Ok(Settings { $( $plain: self.$plain, )* $( $role: self.$role.map(row::role).transpose()?, )* })
            }
        }
    };
}

settings_form! {
    plain {
        read_only: bool,
        muted: bool,
        slow_mode_ms: u32,
        min_level: u32,
        members_only: bool,
        followers_only: bool,
        followed_for_ms: u64,
        vip_only: bool,
        text_chars_max: u32,
        delay_ms: u32,
    }
    roles { motion_role, color_role, size_role, length_role, }
}

impl<'a> Form<'a> {
    fn of(house: &'a House) -> Self {
        let sanctions = house.sanctions.iter().map(|sanction| {
            let Sanction { measure, target, since_ms, until_ms, rank, by, reason } = sanction;
            let (user, address) = match target {
                Target::User(user) => (Some(user.as_str().into()), None),
                Target::Address { mark, shown } => (None, Some((*mark, (&**shown).into()))),
                Target::Everyone => (None, None),
            };
            SanctionForm {
                measure: *measure as u8,
                user,
                address,
                since_ms: *since_ms,
                until_ms: *until_ms,
                rank: *rank as u8,
                by: (&**by).into(),
                reason: (&**reason).into(),
            }
        });
        let row = |entry: &Option<Arc<Entry>>| entry.as_deref().map(Row::of);
        let Board { pin, pinned, state } = &house.board;
        Self {
            sanctions: sanctions.collect(),
            pin: row(pin),
            pinned: row(pinned),
            state: row(state),
            settings: SettingsForm::of(&house.settings),
            stage: StageForm::of(&house.stage),
        }
    }

    fn house(&self) -> Result<House, Unreadable> {
        let sanctions = self.sanctions.iter().map(|form| {
            let measure = Measure::ALL.into_iter().find(|measure| *measure as u8 == form.measure);
            let target = match (&form.user, &form.address) {
                (Some(user), _) => Target::User(UserId::parse(user).map_err(|_| Unreadable("a user's id"))?),
                (None, Some((mark, shown))) => Target::Address { mark: *mark, shown: (&**shown).into() },
                (None, None) => Target::Everyone,
            };
            let rank: Role = row::role(form.rank)?;
            Ok(Sanction {
                measure: measure.ok_or(Unreadable("a measure that this version does not know"))?,
                target,
                since_ms: form.since_ms,
                until_ms: form.until_ms,
                rank,
                by: (&*form.by).into(),
                reason: (&*form.reason).into(),
            })
        });
        let sanctions = sanctions.collect::<Result<_, _>>()?;
        let entry = |row: &Option<Row>| row.as_ref().map(|row| row.entry().map(Arc::new)).transpose();
        let board =
            Board { pin: entry(&self.pin)?, pinned: entry(&self.pinned)?, state: entry(&self.state)? };
        let stage = self.stage.as_ref().map(StageForm::stage).transpose()?.unwrap_or_default();
        Ok(House { sanctions, board, settings: self.settings.settings()?, stage })
    }
}
