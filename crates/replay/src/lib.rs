//! Recorded comments as the files that players, subtitle renderers and spreadsheets read.
//!
//! In come comments with their time in a medium, one after the other; out go bytes of a [`Document`] in
//! one of the [`Format`]s. A document keeps no comment, so its memory is the same for ten of them and for
//! ten million. Every format has its own way to be broken by a text, and its own escapes; what no format
//! can carry is taken off once, before. Nothing here opens a file, sorts, or asks who may see a comment:
//! whoever calls hands over what is public, in the order of its time. The way back is a
//! [`BilibiliXmlReader`], since that is what recorders and archives have.
//!
//! ```
//! use danmaku_replay::{AssStyle, Comment, Document, Format, Heading};
//!
//! let mut out = Vec::new();
//! let heading = Heading { media: "bv1" };
//! let mut document = Document::begin(Format::BilibiliXml, heading, &AssStyle::default(), &mut out);
//! document.comment(&Comment { time_ms: 1_500, text: "a < b".into(), ..Comment::default() }, &mut out);
//! let tally = document.end(&mut out);
//! assert_eq!((tally.written, tally.left_out), (1, 0));
//! assert!(String::from_utf8_lossy(&out).contains(r#"<d p="1.500,1,25,16777215,0,0,0,0">a &lt; b</d>"#));
//! ```

mod artplayer;
mod ass;
mod bilibili_xml;
mod comment;
mod csv;
mod danmu_js;
mod document;
mod dplayer;
mod escape;
mod format;
mod import;
mod ndjson;
mod nplayer;
mod number;

pub use ass::{AssSettings, AssStyle, Density, StyleError};
pub use comment::Comment;
pub use document::{Document, Heading, Tally};
pub use format::Format;
pub use import::{
    BilibiliXmlReader, DEPTH_MAX, ELEMENT_BYTES_MAX, FILE_BYTES_MAX, ImportError, Skipped, TEXT_BYTES_MAX,
};
