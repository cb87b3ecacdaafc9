//! JSON commands: malformed is what a general reader calls malformed, and nothing else.

#![no_main]

use bumpalo::Bump;
use danmaku_wire::native::{Command, DecodeError, Malformed, json};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let arena = Bump::new();
    let decoded = json::decode(text, &arena);
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match decoded {
        // The rest was not looked at.
        Err(DecodeError::Malformed(Malformed::TooDeep)) => {}
        Err(DecodeError::Malformed(why)) => assert!(!is_json, "{why}"),
        Err(why) => assert!(is_json, "{why}"),
        Ok(command) => {
            assert!(is_json, "{command:?}");
            // A lone surrogate in a field that is skipped is no value of serde_json's.
            let Ok(value) = serde_json::from_str::<Value>(text) else { return };
            if let Command::Send(send) = command {
                let field = |name: &str| value["send"][name].as_str().unwrap_or_default().to_owned();
                assert_eq!((send.id, send.text), (field("id").as_str(), field("text").as_str()));
            }
        }
    }
});
