//! Protobuf commands: the arena decoder takes what prost takes and reads the same publish in it.

#![no_main]

use bumpalo::Bump;
use danmaku_wire::native::proto::{ClientMessage, client_message};
use danmaku_wire::native::{Command, DecodeError, arena};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|data: &[u8]| {
    let arena = Bump::new();
    let decoded = arena::decode(data, &arena);
    let malformed = matches!(decoded, Err(DecodeError::Malformed(_)));
    match ClientMessage::decode(data) {
        Err(why) => assert!(malformed, "prost: {why}, arena: {decoded:?}"),
        Ok(message) => {
            assert!(!malformed, "prost: {message:?}, arena: {decoded:?}");
            if let Ok(Command::Send(send)) = decoded {
                let Some(client_message::Command::Send(owned)) = message.command else {
                    panic!("prost: {message:?}, arena: {send:?}");
                };
                assert_eq!((send.id, send.text), (owned.id.as_str(), owned.text.as_str()));
                assert_eq!((send.mode as i32, send.stream_ms), (owned.mode, owned.stream_ms));
            }
        }
    }
});
