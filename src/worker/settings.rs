//! How a room is set, as its owner tells it: what staff has set, what is in force with it, and a tag by which a change can be
//! bound to what its author has seen.

use std::fmt::Write;
use std::sync::Arc;

use danmaku_room::house::settings::{Settings, State};
use danmaku_wire::entry::Role;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Bytes of the digest that stand in a tag.
const TAG_BYTES: usize = 12;

/// How a room is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomSettings {
    /// What is set over the configuration.
    pub settings: Settings,
    /// What holds with it, as members are told.
    pub state: Arc<State>,
}

impl RoomSettings {
    /// As the API shows it.
    pub fn document(&self) -> Value {
        let in_force: Value = serde_json::from_str(&self.state.entry_data()).unwrap_or_else(|_| json!({}));
        json!({ "settings": set(&self.settings), "inForce": in_force })
    }

    /// The entity tag (RFC 9110, section 8.8.3) of [`Self::document`], in its quotes: another one where anything differs.
    pub fn tag(&self) -> String {
        let digest = Sha256::digest(self.document().to_string());
        let mut tag = String::from("\"");
        for byte in &digest[..TAG_BYTES] {
            let _ = write!(tag, "{byte:02x}");
        }
        tag.push('"');
        tag
    }
}

/// The settings that are set, by their names on the wire.
fn set(settings: &Settings) -> Value {
    let Settings {
        read_only,
        muted,
        slow_mode_ms,
        min_level,
        members_only,
        followers_only,
        followed_for_ms,
        vip_only,
        motion_role,
        color_role,
        size_role,
        text_chars_max,
        length_role,
        delay_ms,
    } = settings;
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    };
    let role = |role: &Option<Role>| role.map(|role| role.as_str().into());
    put("readOnly", read_only.map(Value::from));
    put("muted", muted.map(Value::from));
    put("slowModeMs", slow_mode_ms.map(Value::from));
    put("minLevel", min_level.map(Value::from));
    put("membersOnly", members_only.map(Value::from));
    put("followersOnly", followers_only.map(Value::from));
    put("followedForMs", followed_for_ms.map(Value::from));
    put("vipOnly", vip_only.map(Value::from));
    put("motionRole", role(motion_role));
    put("colorRole", role(color_role));
    put("sizeRole", role(size_role));
    put("textCharsMax", text_chars_max.map(Value::from));
    put("lengthRole", role(length_role));
    put("delayMs", delay_ms.map(Value::from));
    Value::Object(object)
}
