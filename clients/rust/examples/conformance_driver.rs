//! The driver of the conformance scenarios: commands as JSON lines on standard input, events as JSON lines
//! on standard output. It writes what the library says and decides nothing.
//!
//! `python3 clients/conformance/run.py --driver target/debug/examples/conformance_driver`

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use danmaku_client::{
    Ack, AckState, Client, Content, Ending, Event, EventStream, Handle, Identity, Item, Options, Position,
    PublishError, Refusal, Removal, ResetReason, RoomUpdate, SendOptions, Source, State, Tier, User, You,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = standard_input()?.lines();
    let mut room: Option<Handle> = None;
    while let Some(line) = lines.next_line().await? {
        let command: Value = serde_json::from_str(&line)?;
        match (&command["connect"], &room) {
            (Value::Null, None) => return Err(format!("before connect: {line}").into()),
            (Value::Null, Some(room)) => obey(room, command).await,
            (connect, _) => {
                let (handle, events) = start(connect)?;
                tokio::spawn(report(events));
                room = Some(handle);
            }
        }
    }
    Ok(())
}

/// Without a thread that would keep the process from ending.
fn standard_input() -> std::io::Result<BufReader<Receiver>> {
    Ok(BufReader::new(Receiver::from_owned_fd(
        std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?,
    )?))
}

fn start(connect: &Value) -> Result<(Handle, EventStream), Box<dyn std::error::Error>> {
    let text = |name: &str| connect[name].as_str().map(str::to_owned);
    let ms = |name: &str, usual| connect[name].as_u64().map_or(usual, Duration::from_millis);
    let mut options = Options::new(text("url").ok_or("no url")?, text("room").ok_or("no room")?);
    options.tier = connect["tier"].as_str().and_then(tier);
    options.snapshot = connect["snapshot"] != "none";
    options.since = position(&connect["since"]);
    options.backoff_base = ms("backoffBaseMs", options.backoff_base);
    options.backoff_cap = ms("backoffCapMs", options.backoff_cap);
    options.resend_for = ms("resendMs", options.resend_for);
    if let Some(token) = text("token") {
        options.identity = Identity::Token(token);
    }
    let Some(tokens) = connect["tokens"].as_array() else { return Ok(Client::connect(options)?) };
    let tokens: Vec<String> = tokens.iter().filter_map(|token| Some(token.as_str()?.to_owned())).collect();
    let asked = Arc::new(Mutex::new(0));
    let ask = move || {
        let mut asked = asked.lock().expect("nobody panics with it");
        let token = tokens.get(*asked).or(tokens.last()).cloned();
        *asked += 1;
        std::future::ready(token.ok_or_else(|| "there is none".to_owned()))
    };
    Ok(Client::connect_with_tokens(options, ask)?)
}

async fn obey(room: &Handle, command: Value) {
    let Some((name, body)) = command.as_object().and_then(|object| object.iter().next()) else { return };
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    match name.as_str() {
        "send" => send(room.clone(), body.clone()),
        "join" => {
            if let Err(error) = room.join(text("room"), position(&body["since"])).await {
                eprintln!("{error}");
            }
        }
        "pause" if *body == true => room.pause().await,
        "pause" => room.resume().await,
        "view" => {
            if let Some(tier) = body["tier"].as_str().and_then(tier) {
                room.set_tier(tier).await;
            }
        }
        "react" => {
            let count = body["count"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(1);
            let _ = room.react(text("kind"), count).await;
        }
        "report" => {
            let _ = room.report(body["seq"].as_u64().unwrap_or_default(), text("reason")).await;
        }
        "ping" => {
            let (room, tag) = (room.clone(), body["tag"].clone());
            tokio::spawn(async move {
                if room.ping().await.is_ok() {
                    tell(json!({"event": "pong", "tag": tag}));
                }
            });
        }
        "position" => {
            let position = room.position().map(|at| json!({"epoch": at.epoch.as_str(), "seq": at.seq}));
            tell(json!({"event": "position", "tag": body["tag"], "position": position}));
        }
        "close" => room.close().await,
        other => eprintln!("unknown command {other}"),
    }
}

fn send(room: Handle, body: Value) {
    let number = |name: &str| body[name].as_u64();
    let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
    let options = SendOptions {
        mode: match body["mode"].as_str() {
            Some("top") => danmaku_client::Mode::Top,
            Some("bottom") => danmaku_client::Mode::Bottom,
            _ => danmaku_client::Mode::Scroll,
        },
        color: small("color"),
        size: small("size"),
        stream_ms: number("streamMs"),
        id: body["id"].as_str().map(str::to_owned),
        traceparent: None,
    };
    let (tag, text) = (body["tag"].clone(), body["text"].as_str().unwrap_or_default().to_owned());
    tokio::spawn(async move {
        let mut line = match room.send(text, options).await {
            Ok(ack) => acked(ack),
            Err(error) => refused(error),
        };
        line["tag"] = tag;
        tell(line);
    });
}

fn acked(ack: Ack) -> Value {
    let state = match ack.state {
        AckState::Accepted => "accepted",
        AckState::Held => "held",
        AckState::Folded => "folded",
    };
    let mut line = json!({"event": "ack", "id": ack.id, "state": state});
    set(&mut line, "seq", ack.seq);
    set(&mut line, "epoch", ack.epoch.map(|epoch| epoch.to_string()));
    line
}

fn refused(error: PublishError) -> Value {
    let code = match error {
        PublishError::Refused(refusal) => return refusal_line("refused", refusal),
        PublishError::Expired { .. } => "no_answer",
        PublishError::Moved => "moved",
        PublishError::Closed => "closed",
        PublishError::Full { .. } => "queue_full",
        PublishError::InUse { .. } => "id_in_use",
        _ => "unknown",
    };
    json!({"event": "refused", "code": code})
}

fn refusal_line(event: &str, refusal: Refusal) -> Value {
    let mut line = json!({"event": event, "code": refusal.code, "retryable": refusal.is_retryable()});
    set(&mut line, "retryAfterMs", refusal.retry_after.map(whole_ms));
    set(&mut line, "shown", refusal.shown.then_some(true));
    set(&mut line, "seq", refusal.seq);
    set(&mut line, "count", refusal.count);
    line
}

async fn report(mut events: EventStream) {
    while let Some(event) = events.next().await {
        if let Some(line) = event_line(event) {
            tell(line);
        }
    }
}

fn event_line(event: Event) -> Option<Value> {
    Some(match event {
        Event::State(state) => state_line(state),
        Event::Joined(joined) => json!({"event": "joined", "joined": {
            "room": joined.room, "epoch": joined.epoch.as_str(), "seq": joined.seq, "online": joined.online,
            "recovered": joined.recovered, "you": you(&joined.you),
        }}),
        Event::Reset(ResetReason::Lost) => json!({"event": "reset", "reason": "lost"}),
        Event::Reset(ResetReason::Snapshot) => json!({"event": "reset", "reason": "snapshot"}),
        Event::Item { item, source, own, epoch } => {
            let source = match source {
                Source::Live => "live",
                Source::Snapshot => "snapshot",
                Source::Backlog => "backlog",
            };
            json!({"event": "item", "item": entry(item), "source": source, "own": own, "epoch": epoch.as_str()})
        }
        Event::Remove(Removal::Entries { epoch, seqs }) => {
            json!({"event": "remove", "epoch": epoch.as_str(), "seqs": seqs})
        }
        Event::Remove(Removal::UpTo { epoch, seq }) => {
            json!({"event": "remove", "epoch": epoch.as_str(), "upTo": seq})
        }
        Event::Remove(Removal::After { epoch, seq }) => {
            json!({"event": "remove", "epoch": epoch.as_str(), "after": seq})
        }
        Event::Gap { epoch, from, to, reason } => {
            json!({"event": "gap", "epoch": epoch.as_str(), "from": from, "to": to, "reason": reason})
        }
        Event::Room(room) => json!({"event": "room", "room": counts(room)}),
        Event::Pending(pending) => {
            let mut line = json!({
                "id": pending.id, "text": pending.text, "reason": pending.reason, "at": pending.at,
            });
            set(&mut line, "user", pending.user.map(user));
            set(&mut line, "releaseInMs", pending.release_in_ms);
            json!({"event": "pending", "pending": line})
        }
        Event::Identity(who) => json!({"event": "auth", "you": you(&who)}),
        Event::TokenExpires { after } => {
            let mut line = json!({"event": "auth"});
            set(&mut line, "expiresInMs", after.map(whole_ms));
            line
        }
        Event::TokenFailed { reason } => json!({"event": "error", "code": "token_failed", "message": reason}),
        Event::Reconnect { after, reason, url } => {
            let mut line = json!({"event": "reconnect", "afterMs": whole_ms(after), "reason": reason});
            set(&mut line, "url", url);
            line
        }
        Event::Refused(refusal) => refusal_line("error", refusal),
        _ => return None,
    })
}

fn state_line(state: State) -> Value {
    let ended = |name: &str, why: Ending| {
        let mut line = json!({"event": "state", "state": name, "reason": why.reason.to_string()});
        set(&mut line, "code", why.code);
        line
    };
    match state {
        State::Connecting { attempt } => json!({"event": "state", "state": "connecting", "attempt": attempt}),
        State::Open => json!({"event": "state", "state": "open"}),
        State::Waiting { attempt, retry_in, why } => {
            let mut line = ended("waiting", why);
            line["attempt"] = attempt.into();
            line["retryInMs"] = (retry_in.as_secs_f64() * 1e3).into();
            line
        }
        State::Closed { why } => ended("closed", why),
        _ => json!({"event": "state", "state": "unknown"}),
    }
}

fn entry(item: Item) -> Value {
    let mut line = json!({"seq": item.seq, "at": item.at});
    set(&mut line, "user", item.user.map(user));
    let mut put = |name: &str, value: Value| line[name] = value;
    match item.content {
        Content::Comment(comment) => {
            put("text", comment.text.into());
            put("mode", comment.mode.as_str().into());
            put("color", comment.color.into());
            put("size", comment.size.into());
            set(&mut line, "streamMs", comment.stream_ms);
        }
        Content::Fold { of, count } => {
            put("type", "fold".into());
            put("of", of.into());
            put("count", count.into());
        }
        Content::Pin { of } => {
            put("type", "pin".into());
            put("of", of.unwrap_or_default().into());
        }
        Content::State(data) => {
            put("type", "state".into());
            put("data", data);
        }
        Content::Event { kind, data } => {
            put("type", kind.into());
            put("data", data);
        }
        _ => put("type", "unknown".into()),
    }
    line
}

/// With the defaults of the protocol left out.
fn user(user: User) -> Value {
    let mut line = json!({"id": user.id});
    set(&mut line, "name", Some(user.name).filter(|name| !name.is_empty()));
    set(&mut line, "role", Some(user.role).filter(|role| !role.is_empty()));
    set(&mut line, "level", Some(user.level).filter(|level| *level > 0));
    set(&mut line, "badges", Some(user.badges).filter(|badges| !badges.is_empty()));
    line
}

fn you(you: &You) -> Value {
    let mut line = json!({"id": you.id});
    set(&mut line, "name", Some(you.name.as_str()).filter(|name| !name.is_empty()));
    set(&mut line, "role", Some(you.role.as_str()).filter(|role| !role.is_empty()));
    set(&mut line, "guest", you.guest.as_deref());
    line
}

fn counts(room: RoomUpdate) -> Value {
    let reactions: Map<String, Value> =
        room.reactions.into_iter().map(|(kind, count)| (kind, count.into())).collect();
    let mut line = json!({
        "online": room.online, "viewers": room.viewers, "reactions": reactions, "slowModeMs": room.slow_mode_ms,
    });
    set(&mut line, "data", room.data);
    line
}

fn set<T: Into<Value>>(line: &mut Value, name: &str, value: Option<T>) {
    if let Some(value) = value {
        line[name] = value.into();
    }
}

fn tier(name: &str) -> Option<Tier> {
    [Tier::Lite, Tier::Standard, Tier::Full].into_iter().find(|tier| tier.as_str() == name)
}

fn position(value: &Value) -> Option<Position> {
    Some(Position::new(value["epoch"].as_str()?, value["seq"].as_u64()?))
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn tell(line: Value) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: the scenario is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
