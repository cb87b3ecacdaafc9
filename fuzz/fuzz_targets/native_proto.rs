//! Protobuf commands: the arena decoder takes what prost takes and finds the same command in it.

#![no_main]

#[path = "../../crates/wire/tests/meaning/proto.rs"]
mod meaning;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| meaning::check_proto(data));
