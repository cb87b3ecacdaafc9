//! Word lists over HTTP: `GET`, `PUT`, `PATCH` and `DELETE` of `/api/v1/words`, the list of all rooms, and of
//! `/api/v1/rooms/ROOM/words`, that of one.
//!
//! For keys with the scope `moderation`, staff, and the streamer of a room for its own list. A list is compiled and on the
//! disk before it is answered; open rooms have it with their next comment.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use danmaku_wire::entry::Role;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use danmaku_words::word_of;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::back_end::expect_method;
use super::moderation::document;
use super::patience::Patience;
use super::{Front, Refused};
use crate::config::Config;
use crate::identity::api_key::Scope;
use crate::ingress::authority::{Asking, allow, bad, forbidden, now_s};
use crate::ingress::body;
use crate::ingress::problem::{problem, refusal};
use crate::observe::audit::Record;
use crate::observe::limits::Limit;
use crate::wiring::Shared;
use crate::written_words::NotWritten;

const METHODS: &str = "GET, PUT, PATCH, DELETE";
/// Words that one change may name.
const CHANGES_MAX: usize = 1_000;

/// Characters of what was changed that the audit has.
const TARGET_CHARS_MAX: usize = 128;

/// What is to become of a list.
#[derive(Debug)]
enum Change {
    Replace(String),
    Edit(Edit),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// Lines.
    #[serde(default)]
    add: Vec<String>,
    /// Words, each with all of its lines.
    #[serde(default)]
    remove: Vec<String>,
}

/// Why nothing was written.
enum Failed {
    /// The list is another one than the caller saw.
    Changed,
    Not(NotWritten),
}

impl Front {
    /// `room` is absent for the list of all rooms.
    pub(super) async fn words(
        &self,
        request: Request<Incoming>,
        room: Option<&str>,
        patience: &Patience,
    ) -> Response<Full<Bytes>> {
        self.answer_words(request, room, patience).await.unwrap_or_else(|refusal| *refusal)
    }

    async fn answer_words(
        &self,
        request: Request<Incoming>,
        room: Option<&str>,
        patience: &Patience,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        let room = room.map(RoomId::parse).transpose();
        let room = room.map_err(|error| problem(400, "room_invalid", &error.to_string()))?;
        let by = self.may_write_words(&request, room.as_ref())?;
        let written = &self.shared.words.written;
        let method = request.method().clone();
        if !matches!(method, Method::GET | Method::HEAD | Method::PUT | Method::PATCH | Method::DELETE) {
            expect_method(&request, &Method::GET, METHODS)?;
        }
        if matches!(method, Method::GET | Method::HEAD) {
            return Ok(told(written.get(room.as_ref()).as_ref().map_or("", |written| &written.text)));
        }
        let expected = request.headers().get(IF_MATCH).cloned();
        let change = match method {
            Method::PUT => Change::Replace(self.list_body(request, patience).await?),
            Method::PATCH => Change::Edit(self.json(request, patience).await?),
            _ => Change::Replace(String::new()),
        };
        if let Change::Edit(edit) = &change
            && edit.add.len() + edit.remove.len() > CHANGES_MAX
        {
            return Err(bad("at most 1,000 words at a time"));
        }
        if self.shared.replaced.is_set() {
            // Written here it would hold for nobody.
            return Err(refusal(ErrorCode::Unavailable, Some(1_000), &[]).into());
        }
        let target = match &change {
            Change::Replace(text) if text.is_empty() => "all words".to_owned(),
            Change::Replace(text) => format!("{} lines", text.lines().count()),
            Change::Edit(Edit { add, remove }) => {
                let words = |sign: &str, words: &[String]| -> String {
                    words.iter().map(|word| format!("{sign}{word} ")).collect()
                };
                format!("{}{}", words("+", add), words("-", remove)).trim_end().to_owned()
            }
        };
        let (shared, place) = (Arc::clone(&self.shared), room.clone());
        // Compiling takes up to seconds, and the disk what it takes.
        let done =
            tokio::task::spawn_blocking(move || write(&shared, place.as_ref(), change, expected.as_ref()));
        let done = done.await.map_err(|_| refusal(ErrorCode::Unavailable, Some(1_000), &[]))?;
        let done = done.map_err(|failed| self.not_written(failed));
        let outcome =
            done.as_ref().map_or_else(|refused| refused.status().as_str().to_owned(), |_| "done".to_owned());
        let record = Record {
            n: 0,
            at: now_s() * 1_000,
            by,
            action: "words",
            room: room.as_ref().map_or("", |room| room.as_str()).into(),
            target: target.chars().take(TARGET_CHARS_MAX).collect::<String>().into(),
            reason: "".into(),
            outcome: outcome.into(),
        };
        self.shared.audit.add(record, self.shared.config.load().audit_max);
        let text = done?;
        Ok(told(&text))
    }

    /// Who may read and write: keys for moderation, staff, and the streamer for the room's own list. As the audit has it.
    fn may_write_words(
        &self,
        request: &Request<Incoming>,
        room: Option<&RoomId>,
    ) -> Result<Box<str>, Refused> {
        match self.asking(request)? {
            Asking::Key(key) => {
                allow(&key, Scope::Moderation)?;
                if room.map_or(key.rooms.is_empty(), |room| key.is_for(room)) {
                    return Ok(format!("key {}", key.id).into());
                }
                Err(forbidden("this key is for other rooms"))
            }
            Asking::User(identity) => {
                let role = |room| self.shared.identities.presence(&identity, room).author.role;
                let streams = |room| matches!(role(room), Role::Streamer | Role::Staff);
                if identity.is_staff() || room.is_some_and(streams) {
                    return Ok(format!("user {}", identity.id.as_str()).into());
                }
                Err(forbidden("this is for keys of back ends, staff, and a streamer in their own room"))
            }
        }
    }

    /// The body of a `PUT`: the list as it would stand in a file.
    async fn list_body(&self, request: Request<Incoming>, patience: &Patience) -> Result<String, Refused> {
        let form = request.headers().get(CONTENT_TYPE).map(|form| form.to_str().unwrap_or_default());
        if form.is_some_and(|form| !form.starts_with("text/plain")) {
            return Err(problem(415, "unsupported_media_type", "a list is `text/plain`, in UTF-8").into());
        }
        body::check_as_is(request.headers())?;
        let max = self.shared.config.load().written.bytes_max;
        let too_long = || self.not_written(Failed::Not(NotWritten::TooLong(max)));
        let body = body::read_within(&self.shared, &self.cells, request.into_body(), max, too_long).await?;
        patience.heard_all();
        String::from_utf8(body.to_vec()).map_err(|_| bad("the list is not UTF-8"))
    }

    fn not_written(&self, failed: Failed) -> Refused {
        let not = match failed {
            Failed::Changed => {
                let detail = "the list is another one than `If-Match` says: read it again";
                return problem(412, "precondition_failed", detail).into();
            }
            Failed::Not(not) => not,
        };
        let told = not.to_string();
        match not {
            NotWritten::List(_) => problem(400, "words_invalid", &told).into(),
            NotWritten::TooLong(_) => {
                self.cells.met(Limit::WrittenBytes);
                problem(413, "too_long", &told).into()
            }
            NotWritten::TooManyRooms(_) => {
                self.cells.met(Limit::WrittenRooms);
                problem(409, "too_many_rooms", &told).into()
            }
            NotWritten::Io { .. } => {
                tracing::error!(error = told, "a word list was not written");
                refusal(ErrorCode::Unavailable, Some(1_000), &[]).into()
            }
        }
    }
}

/// Changes a list and has every room take it over. The list as it is then.
fn write(
    shared: &Shared,
    room: Option<&RoomId>,
    change: Change,
    expected: Option<&HeaderValue>,
) -> Result<String, Failed> {
    let words = &shared.words;
    // Whoever else changes lists or the configuration waits: what is read here is what is put back.
    let _changing = shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
    let old = words.written.get(room).map(|written| written.text);
    let old = old.as_deref().unwrap_or_default();
    if expected.is_some_and(|expected| expected != "*" && expected.as_bytes() != tag(old).as_bytes()) {
        return Err(Failed::Changed);
    }
    let text = match change {
        Change::Replace(text) => text,
        Change::Edit(edit) => edited(old, &edit),
    };
    let mut config = Config::clone(&shared.config.load());
    words.written.write(room, &text, config.written).map_err(Failed::Not)?;
    words.give(&mut config, &words.used());
    let (rules, bytes) = config.words_size;
    shared.take_config(config);
    tracing::info!(rules, bytes, "a word list was written");
    Ok(text)
}

/// A list without every line of some words, and with lines that it has not yet.
fn edited(old: &str, Edit { add, remove }: &Edit) -> String {
    let gone: HashSet<&str> = remove.iter().filter_map(|word| word_of(word)).collect();
    let stays = |line: &&str| word_of(line).is_none_or(|word| !gone.contains(word));
    let mut lines: Vec<&str> = old.lines().filter(stays).collect();
    let mut there: HashSet<&str> = lines.iter().copied().collect();
    lines.extend(add.iter().flat_map(|lines| lines.lines()).filter(|line| there.insert(line)));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A strong tag of a list.
fn tag(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

fn told(text: &str) -> Response<Full<Bytes>> {
    let mut response = document(StatusCode::OK, &json!({ "text": text }));
    if let Ok(tag) = HeaderValue::try_from(tag(text)) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `edited`: a word goes with all of its lines, whatever they ask for; remarks stay; a line comes once.
    #[test]
    fn words_go_and_come_by_name() {
        let old = "# ours\nscum\nscum mask\n\"gas mask\" drop # why\nfine\n";
        let edit = |add: &[&str], remove: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|line| (*line).to_owned()).collect();
            edited(old, &Edit { add: owned(add), remove: owned(remove) })
        };
        assert_eq!(
            edit(&["fine", "bet hold"], &["scum"]),
            "# ours\n\"gas mask\" drop # why\nfine\nbet hold\n"
        );
        assert_eq!(edit(&[], &["\"gas mask\"", "fine hold"]), "# ours\nscum\nscum mask\n");
        assert_eq!(edit(&["a\nb"], &["not there", ""]), format!("{old}a\nb\n"));
    }
}
