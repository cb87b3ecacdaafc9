//! JSON: the same messages with lowerCamelCase names, one key per object.

mod decode;
mod encode;
mod reader;

pub use decode::{decode, decode_send};
pub use encode::encode;
pub use reader::DEPTH_MAX;
