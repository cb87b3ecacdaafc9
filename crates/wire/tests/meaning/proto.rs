//! What prost's message means as a command: what the arena decoder is held against, by the tests and by the
//! fuzz target.

use bumpalo::Bump;
use danmaku_wire::entry::{COLOR_DEFAULT, Mode, SIZE_DEFAULT, Tier};
use danmaku_wire::native::proto::client_message;
use danmaku_wire::native::{
    Auth, Command, DecodeError, Join, Ping, React, Report, Send, Since, View, arena, proto,
};
use danmaku_wire::position::SEQ_MAX;
use prost::Message;

/// The command that a message of prost means, or `None` where a value is out of range.
fn meaning(message: &proto::ClientMessage) -> Option<Command<'_>> {
    use client_message::Command as Wire;
    Some(match message.command.as_ref() {
        None => Command::Unknown,
        Some(Wire::Send(m)) => Command::Send(Send {
            id: &m.id,
            text: &m.text,
            mode: [Mode::Scroll, Mode::Top, Mode::Bottom].into_iter().find(|mode| *mode as i32 == m.mode)?,
            color: m.color.map_or(Some(COLOR_DEFAULT), |c| (c < 1 << 24).then_some(c))?,
            size: if m.size == 0 { SIZE_DEFAULT } else { m.size.min(255) as u8 },
            stream_ms: m.stream_ms,
            traceparent: &m.traceparent,
        }),
        Some(Wire::Join(m)) => {
            let since = m.since.as_ref().map(|p| Since { epoch: &p.epoch, seq: p.seq });
            if since.is_some_and(|s| s.seq > SEQ_MAX) {
                return None;
            }
            Command::Join(Join { room: &m.room, since })
        }
        Some(Wire::Auth(m)) => Command::Auth(Auth { token: &m.token }),
        Some(Wire::View(m)) => {
            let tiers = [Tier::Lite, Tier::Standard, Tier::Full];
            let tier = match m.tier {
                None => None,
                Some(number) => Some(tiers.into_iter().find(|t| *t as i32 == number)?),
            };
            Command::View(View { paused: m.paused, tier })
        }
        Some(Wire::React(m)) => Command::React(React { kind: &m.kind, count: m.count.max(1) }),
        Some(Wire::Report(m)) => {
            Command::Report(Report { seq: (m.seq <= SEQ_MAX).then_some(m.seq)?, reason: &m.reason })
        }
        Some(Wire::Ping(m)) => Command::Ping(Ping { t: m.t }),
    })
}

/// `arena::decode` must say of `bytes` what prost says.
pub(crate) fn check_proto(bytes: &[u8]) {
    let arena = Bump::new();
    let decoded = arena::decode(bytes, &arena);
    match proto::ClientMessage::decode(bytes) {
        Err(why) => {
            assert!(matches!(decoded, Err(DecodeError::Malformed(_))), "prost: {why}, arena: {decoded:?}");
        }
        Ok(message) => match meaning(&message) {
            Some(command) => assert_eq!(decoded, Ok(command)),
            None => assert!(matches!(decoded, Err(DecodeError::BadField { .. })), "{decoded:?}"),
        },
    }
}
