//! JSON commands: malformed is what serde_json calls malformed, and every other text means what serde_json
//! finds in it.

#![no_main]

#[path = "../../crates/wire/tests/meaning/json.rs"]
mod meaning;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = str::from_utf8(data) {
        meaning::check_text(text);
    }
});
