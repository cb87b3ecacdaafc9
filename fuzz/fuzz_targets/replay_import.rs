//! A file of Bilibili's comments. The first byte says in which pieces it is read, the rest is the file: the
//! answer may not depend on the pieces, what was read must come back from a file written of it, and
//! every format must be one by its own grammar.

#![no_main]

use std::io::BufReader;

use danmaku_replay::{AssStyle, BilibiliXmlReader, Comment, Document, Format, Heading};
use libfuzzer_sys::fuzz_target;

/// Comments, how many were not taken, and how it ended.
type Answer = (Vec<Comment<'static>>, u64, Option<String>);

fn read(file: &[u8], piece: usize) -> Answer {
    let mut reader = BilibiliXmlReader::new(BufReader::with_capacity(piece, file));
    let mut comments = Vec::new();
    let mut error = None;
    for item in reader.by_ref() {
        match item {
            Ok(comment) => comments.push(comment),
            Err(found) => error = Some(found.to_string()),
        }
    }
    (comments, reader.skipped().total(), error)
}

fn written(format: Format, comments: &[Comment<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut document = Document::begin(format, Heading { media: "m" }, &AssStyle::default(), &mut out);
    for comment in comments {
        document.comment(comment, &mut out);
    }
    let tally = document.end(&mut out);
    assert_eq!(tally.written, comments.len() as u64, "{format:?}");
    out
}

fuzz_target!(|data: &[u8]| {
    let Some((piece, file)) = data.split_first() else { return };
    let answer = read(file, usize::from(*piece).max(1));
    assert_eq!(read(file, 4_096), answer);
    let (mut comments, ..) = answer;
    for comment in &mut comments {
        // The format knows seconds.
        comment.sent_ms -= comment.sent_ms % 1_000;
    }
    let back = read(&written(Format::BilibiliXml, &comments), 4_096);
    assert_eq!(back, (comments.clone(), 0, None));
    for format in Format::ALL {
        let out = String::from_utf8(written(format, &comments)).expect("UTF-8");
        match format {
            Format::DPlayer | Format::ArtPlayer | Format::NPlayer | Format::DanmuJs => {
                serde_json::from_str::<serde_json::Value>(&out).expect("JSON");
            }
            Format::Ndjson => assert_eq!(out.lines().count(), comments.len()),
            Format::Ass => assert_eq!(out.matches("\r\nDialogue: 2,").count(), comments.len()),
            Format::BilibiliXml | Format::Csv => {}
        }
    }
});
