//! Reading Bilibili's XML: what was written comes back, archives of other writers are understood, and no
//! file of a stranger costs more than its size.

use std::io::{self, BufRead, Read};

use danmaku_replay::{
    AssStyle, BilibiliXmlReader, Comment, DEPTH_MAX, Document, ELEMENT_BYTES_MAX, FILE_BYTES_MAX, Format,
    Heading, ImportError, Skipped, TEXT_BYTES_MAX,
};
use danmaku_wire::entry::Mode;
use proptest::prelude::*;

/// Reads all of a file, in pieces of the given size.
fn read(file: &[u8], piece: usize) -> (Vec<Comment<'static>>, Skipped, Option<ImportError>) {
    let mut reader = BilibiliXmlReader::new(io::BufReader::with_capacity(piece, file));
    let mut comments = Vec::new();
    let mut error = None;
    for item in reader.by_ref() {
        match item {
            Ok(comment) => comments.push(comment),
            Err(found) => error = Some(found),
        }
    }
    assert!(reader.next().is_none(), "an iterator that has ended stays so");
    (comments, reader.skipped(), error)
}

fn texts(file: &str) -> Vec<String> {
    let (comments, _, error) = read(file.as_bytes(), 4_096);
    assert!(error.is_none(), "{error:?} in {file}");
    comments.into_iter().map(|comment| comment.text.into_owned()).collect()
}

/// A whole file of version 1.0 as an archive has it, with everything besides comments that recorders add.
#[test]
fn archives_and_recordings_are_understood() {
    let file = r#"<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="x.xsl"?>
<!-- recorded -->
<i><chatserver>chat.bilibili.com</chatserver><chatid>1</chatid><d p="1.5,1,25,16777215,1700000000,0,a1,5">one</d>
<gift ts="1" user="u" giftname="&lt;" giftcount="1"/><sc ts="2" user="u" price="30" time="60">paid</sc>
<d p="2,4,18,255,1700000000123,0,42,6" user="小明" uid="42" raw="[[&quot;x&quot;]]">a &lt; b &amp;&#38; <![CDATA[<c>]]></d>
<d p="3,7,25,0,0,0,a,7">[0,0,"1-1",4.5,"x"]</d><d p="4,1,25">few</d><d p="5,1,25,0,0,0,a,8"/><d>none</d>
<d p="6,1,25,0,0,0,a,9">&nbsp;</d><d p="7,1,25,0,0,0,0,10">R&D &#8;<b>not</b> this</d></i>"#;
    let (comments, skipped, error) = read(file.as_bytes(), 7);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(skipped, Skipped { malformed: 3, positioned: 1, long: 0, blank: 1 });
    let one = Comment {
        seq: 5,
        time_ms: 1_500,
        sent_ms: 1_700_000_000_000,
        user: "a1".into(),
        text: "one".into(),
        ..Comment::default()
    };
    let two = Comment {
        seq: 6,
        time_ms: 2_000,
        sent_ms: 1_700_000_000_123,
        mode: Mode::Bottom,
        color: 255,
        size: 18,
        user: "42".into(),
        name: "小明".into(),
        text: "a < b && <c>".into(),
    };
    let three = Comment { seq: 10, time_ms: 7_000, color: 0, text: "R&D  this".into(), ..Comment::default() };
    assert_eq!(comments, [one, two, three]);
}

/// Version 2.0, by its declaration or by its `<oid>`.
#[test]
fn version_two_is_understood() {
    for head in [r#"<?xml version="2.0" encoding="UTF-8"?><i>"#, "<i><oid>1</oid>"] {
        let file = format!("{head}<d p=\"9,0,12345,5,25,255,1700000000,0,a1\">two</d></i>");
        let (comments, skipped, error) = read(file.as_bytes(), 4_096);
        assert!(error.is_none() && skipped.total() == 0, "{error:?} {skipped:?}");
        assert_eq!((comments[0].seq, comments[0].time_ms, comments[0].mode), (9, 12_345, Mode::Top));
    }
}

/// What ends the reading: each by its error, with what came before it.
#[test]
fn files_that_are_none_are_named() {
    let deep = format!("<i>{}", "<x>".repeat(DEPTH_MAX));
    type Expected = fn(&ImportError) -> bool;
    let cases: [(&str, Expected); 14] = [
        ("", |e| matches!(e, ImportError::Root)),
        ("hello", |e| matches!(e, ImportError::Root)),
        ("{\"code\":0}", |e| matches!(e, ImportError::Root)),
        ("<html></html>", |e| matches!(e, ImportError::Root)),
        ("<i></i><i></i>", |e| matches!(e, ImportError::Root)),
        ("<!DOCTYPE i [<!ENTITY a \"b\">]><i></i>", |e| matches!(e, ImportError::DocumentType)),
        ("<!DOCTYPE i SYSTEM \"file:///etc/passwd\"><i/>", |e| matches!(e, ImportError::DocumentType)),
        (&deep, |e| matches!(e, ImportError::TooDeep { .. })),
        ("<i><d p=\"1,1,25,0\">x</d>", |e| matches!(e, ImportError::CutOff)),
        ("<i><d p=\"1,1,25,0\">x", |e| matches!(e, ImportError::CutOff)),
        ("<i></d></i>", |e| matches!(e, ImportError::Malformed { .. })),
        ("<i><d p=\"1,1,25,0\" p=\"2,1,25,0\">x</d></i>", |e| matches!(e, ImportError::Malformed { .. })),
        ("<i><d p=\"&bad;\">x</d></i>", |e| matches!(e, ImportError::Malformed { .. })),
        ("<i><d p=", |e| matches!(e, ImportError::Malformed { .. })),
    ];
    for (file, expected) in cases {
        let (_, _, error) = read(file.as_bytes(), 4_096);
        let error = error.unwrap_or_else(|| panic!("{file} was read"));
        assert!(expected(&error), "{file}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
    let latin = b"<i><d p=\"1,1,25,0\">caf\xe9</d></i>";
    assert!(matches!(read(latin, 64).2, Some(ImportError::Malformed { .. })));
    // One level less is no error.
    let file = format!("<i>{}{}</i>", "<x>".repeat(DEPTH_MAX - 1), "</x>".repeat(DEPTH_MAX - 1));
    assert_eq!(texts(&file), Vec::<String>::new());
}

/// A byte order mark, and a comment whose text is as long as it may be.
#[test]
fn borders_are_inside() {
    let long = "x".repeat(TEXT_BYTES_MAX);
    let file = format!("\u{FEFF}<i><d p=\"1,1,25,0\">{long}</d><d p=\"1,1,25,0\">{long}x</d></i>");
    let (comments, skipped, error) = read(file.as_bytes(), 4_096);
    assert!(error.is_none(), "{error:?}");
    assert_eq!((comments.len(), skipped.long), (1, 1));
    assert_eq!(comments[0].text, long);
}

/// Something that goes on without end after a beginning; it counts what was taken from it.
struct Endless {
    next: &'static [u8],
    again: &'static [u8],
    taken: u64,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Endless {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.next.is_empty() {
            self.next = self.again;
        }
        Ok(self.next)
    }

    fn consume(&mut self, amount: usize) {
        self.taken += amount as u64;
        self.next = &self.next[amount..];
    }
}

/// A file without end stops at its bound, and an element without end at the smaller one.
#[test]
fn what_does_not_end_is_ended() {
    // Mostly remarks: a comment for each 64 KiB.
    let piece = format!("<!--{}--><d p=\"1,1,25,0\">x</d>", "x".repeat((64 << 10) - 28));
    assert_eq!(piece.len(), 64 << 10);
    let file = Endless { next: b"<i>", again: String::leak(piece).as_bytes(), taken: 0 };
    let (comments, errors): (Vec<_>, Vec<_>) = BilibiliXmlReader::new(file).partition(Result::is_ok);
    assert!(matches!(errors[..], [Err(ImportError::FileTooLarge)]), "{errors:?}");
    // What stands at the beginning moves the last one over the border.
    assert_eq!(comments.len() as u64, FILE_BYTES_MAX / (64 << 10) - 1);
    for beginning in [&b"<i><d p=\"1,1,25,0\">"[..], b"<i><d p=\"", b"<i><!--", b"<i><![CDATA[", b"<i><?"] {
        let mut file = Endless { next: beginning, again: b"xxxxxxxxxxxxxxxx", taken: 0 };
        let last = BilibiliXmlReader::new(&mut file).last();
        assert!(matches!(last, Some(Err(ImportError::ElementTooLarge { .. }))), "{last:?}");
        assert!(file.taken <= ELEMENT_BYTES_MAX + 64, "{} bytes", file.taken);
    }
}

fn written() -> impl Strategy<Value = Vec<Comment<'static>>> {
    let mode = prop_oneof![Just(Mode::Scroll), Just(Mode::Top), Just(Mode::Bottom)];
    let word = "[!-~ä-üぁ-ん一-龥]([ -~ä-üぁ-ん一-龥\\n]{0,12}[!-~ä-ü一-龥])?";
    let numbers =
        (0..1_u64 << 53, 0..1_000_000_000_u64, 0..4_000_000_000_u64, mode, 0..=0xFF_FFFF_u32, 12..=64_u8);
    let name = "[!-~ä-üぁ-ん一-龥]{1,12}";
    let comment =
        (numbers, name, word).prop_map(|((seq, time_ms, sent, mode, color, size), name, text)| Comment {
            seq,
            time_ms,
            sent_ms: sent * 1_000,
            mode,
            color,
            size,
            user: format!("id-{name}").into(),
            name: name.into(),
            text: text.into(),
        });
    proptest::collection::vec(comment, 0..8)
}

proptest! {
    /// What a document says comes back from it, wherever reads end.
    #[test]
    fn written_comments_come_back(comments in written(), piece in 1_usize..64) {
        let mut file = Vec::new();
        let mut document =
            Document::begin(Format::BilibiliXml, Heading { media: "m" }, &AssStyle::default(), &mut file);
        comments.iter().for_each(|comment| document.comment(comment, &mut file));
        document.end(&mut file);
        let (back, skipped, error) = read(&file, piece);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(skipped.total(), 0);
        prop_assert_eq!(back, comments);
    }

    /// Any bytes, and any damage to a good file: an answer, and the same one wherever reads end.
    #[test]
    fn damaged_files_are_answered(
        pieces in proptest::collection::vec(prop_oneof![
            Just("<i>"), Just("</i>"), Just("<d p=\"1,1,25,0,0,0,a,1\">"), Just("</d>"), Just("x"), Just("&amp;"),
            Just("&#x41;"), Just("&#xD800;"), Just("&e;"), Just("<!--"), Just("-->"), Just("<![CDATA["), Just("]]>"),
            Just("<x/>"), Just("<d p='"), Just("'>"), Just("\""), Just("<oid>"), Just("<?xml version=\"2.0\"?>"),
            Just("\0"), Just("<"), Just(">"), Just("&"),
        ], 0..24),
        piece in 1_usize..64,
    ) {
        let file = pieces.concat();
        let (whole, skipped, error) = read(file.as_bytes(), 4_096);
        let (cut, cut_skipped, cut_error) = read(file.as_bytes(), piece);
        prop_assert_eq!(whole, cut);
        prop_assert_eq!(skipped, cut_skipped);
        prop_assert_eq!(error.map(|e| e.to_string()), cut_error.map(|e| e.to_string()));
    }
}
