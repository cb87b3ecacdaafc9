//! Each format's bytes for the same comments, reviewed as a difference: `UPDATE_GOLDEN=1` writes them.

use std::path::PathBuf;

use danmaku_replay::{AssStyle, Comment, Document, Format, Heading};
use danmaku_wire::entry::Mode;

/// Comments with something of each kind: modes, colours, sizes, names, what breaks a format.
fn comments() -> Vec<Comment<'static>> {
    let plain = Comment { seq: 1, sent_ms: 1_700_000_000_123, user: "u1".into(), ..Comment::default() };
    vec![
        Comment { text: "first".into(), ..plain.clone() },
        Comment {
            seq: 2, time_ms: 1_005, text: "前方高能".into(), name: "小明".into(), ..plain.clone()
        },
        Comment {
            seq: 3,
            time_ms: 1_500,
            mode: Mode::Top,
            color: 0xFF_0000,
            text: "top".into(),
            ..plain.clone()
        },
        Comment {
            seq: 4,
            time_ms: 2_000,
            mode: Mode::Bottom,
            color: 0,
            size: 36,
            text: "bottom".into(),
            ..plain.clone()
        },
        Comment { seq: 5, time_ms: 61_000, text: "<img src=x onerror=1> & \"'/\\".into(), ..plain.clone() },
        Comment { seq: 6, time_ms: 62_000, text: "{\\pos(0,0)}\\N two\nlines".into(), ..plain.clone() },
        Comment {
            seq: 7,
            time_ms: 63_000,
            text: "=HYPERLINK(\"http://x\")".into(),
            name: "+1".into(),
            ..plain.clone()
        },
        Comment {
            seq: 8,
            time_ms: 64_000,
            text: "bell\u{7} null\0".into(),
            user: "<\"&".into(),
            ..plain.clone()
        },
        Comment { seq: 9, time_ms: 65_000, text: " \u{1b}\n".into(), ..plain.clone() },
        Comment { time_ms: 3_600_000, text: "😀 nobody's".into(), ..Comment::default() },
    ]
}

/// `Document`: what each format makes of them.
#[test]
fn documents_are_as_they_were() {
    let mut changed = Vec::new();
    for format in Format::ALL {
        let mut out = Vec::new();
        let heading = Heading { media: "bv1 <2>\n3" };
        let mut document = Document::begin(format, heading, &AssStyle::default(), &mut out);
        for comment in comments() {
            document.comment(&comment, &mut out);
        }
        let tally = document.end(&mut out);
        let blank = u64::from(!matches!(format, Format::Ndjson | Format::Csv));
        assert_eq!((tally.written, tally.left_out), (10 - blank, blank), "{format:?}");
        let name = format!("{}.{}", format.as_str(), format.extension());
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::fs::read(&path).ok().as_deref() != Some(&out) {
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&path, &out).expect("a golden can be written");
            }
            changed.push(format!("{}:\n{}", path.display(), String::from_utf8_lossy(&out)));
        }
    }
    assert!(changed.is_empty(), "not as they were:\n{}", changed.join("\n"));
}
