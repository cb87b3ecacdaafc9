//! Generates the protobuf types from the schema, without protoc.

#![allow(clippy::disallowed_macros, reason = "a build script speaks to cargo by printing")]

use std::error::Error;

const SCHEMA_DIR: &str = "../../proto";
const SCHEMA: &str = "../../proto/danmaku/v1/danmaku.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={SCHEMA}");
    let schema = protox::compile([SCHEMA], [SCHEMA_DIR])?;
    // Ordered maps: the same message is always the same bytes.
    prost_build::Config::new().btree_map(["."]).compile_fds(schema)?;
    Ok(())
}
