//! Any comments, in any format: the document is one by its own grammar, and says what the comments said.

use danmaku_replay::{AssSettings, AssStyle, Comment, Density, Document, Format, Heading};
use danmaku_wire::entry::Mode;
use proptest::prelude::*;
use serde_json::Value;

fn document(format: Format, comments: &[Comment<'_>], style: &AssStyle) -> String {
    let mut out = Vec::new();
    let mut document = Document::begin(format, Heading { media: "m" }, style, &mut out);
    for comment in comments {
        document.comment(comment, &mut out);
    }
    let tally = document.end(&mut out);
    assert_eq!(tally.written + tally.left_out, comments.len() as u64);
    String::from_utf8(out).expect("a document is UTF-8")
}

/// Texts of pieces that mean something to some format, and of anything else.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{\\an5\\pos(1,2)}".to_owned()),
        Just("\\N".to_owned()),
        Just("</d></i>".to_owned()),
        Just("]]>&amp;&#10;".to_owned()),
        Just("\",\"x\":[".to_owned()),
        Just("\r\n".to_owned()),
        Just("=1+1".to_owned()),
        Just("\0\u{1}\u{b}\u{FFFE}".to_owned()),
        "[ -~]{0,8}",
        "\\PC{0,8}",
        ".{0,8}",
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

prop_compose! {
    fn comment()(
        seq in 0..1_u64 << 53,
        time_ms in prop_oneof![0..100_000_u64, any::<u64>()],
        sent_ms in any::<u64>(),
        mode in prop_oneof![Just(Mode::Scroll), Just(Mode::Top), Just(Mode::Bottom)],
        color in 0..=0xFF_FFFF_u32,
        size in any::<u8>(),
        user in text(),
        name in text(),
        text in text(),
    ) -> Comment<'static> {
        Comment { seq, time_ms, sent_ms, mode, color, size, user: user.into(), name: name.into(), text: text.into() }
    }
}

/// What is left of a text that every format can carry, told another way than the crate tells it.
fn carried(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars()
        .filter(|c| match u32::from(*c) {
            9 | 10 => true,
            0..0x20 | 0x7F..0xA0 | 0xFFFE | 0xFFFF => false,
            _ => true,
        })
        .collect()
}

fn shown(comments: &[Comment<'_>]) -> Vec<String> {
    let texts = comments.iter().map(|comment| carried(&comment.text));
    texts.filter(|text| !text.trim().is_empty()).collect()
}

/// Undoes escapes, for texts that hold nothing else with an ampersand.
fn unescaped(text: &str) -> String {
    let pairs =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#x27;", "'"), ("&#x2F;", "/")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)).replace("&amp;", "&")
}

proptest! {
    /// The lists of players and the lines of NDJSON, read by serde_json.
    #[test]
    fn json_documents_say_what_the_comments_said(comments in proptest::collection::vec(comment(), 0..6)) {
        let style = AssStyle::default();
        for (format, list, text) in [
            (Format::DPlayer, "/data", "/4"),
            (Format::ArtPlayer, "", "/text"),
            (Format::NPlayer, "", "/text"),
            (Format::DanmuJs, "", "/txt"),
        ] {
            let written = document(format, &comments, &style);
            let parsed: Value = serde_json::from_str(&written).expect("JSON");
            let items = parsed.pointer(list).and_then(Value::as_array).expect("a list");
            let texts = items.iter().map(|item| item.pointer(text).and_then(Value::as_str).expect("a text"));
            let texts: Vec<String> = if format == Format::DPlayer {
                for text in texts.clone() {
                    prop_assert!(!text.contains(['<', '>', '"', '\'', '/']), "{text:?} is markup");
                }
                texts.map(unescaped).collect()
            } else {
                texts.map(str::to_owned).collect()
            };
            prop_assert_eq!(texts, shown(&comments), "{:?}", format);
        }
        let written = document(Format::Ndjson, &comments, &style);
        prop_assert_eq!(written.lines().count(), comments.len());
        for (line, comment) in written.lines().zip(&comments) {
            let item: Value = serde_json::from_str(line).expect("JSON");
            prop_assert_eq!(item["text"].as_str().expect("a text"), carried(&comment.text));
            prop_assert_eq!(item["seq"].as_u64(), Some(comment.seq));
            prop_assert_eq!(item["streamMs"].as_u64(), Some(comment.time_ms));
            prop_assert_eq!(item["at"].as_u64().unwrap_or(0), comment.sent_ms);
            prop_assert_eq!(item["color"].as_u64().unwrap_or(0xFF_FFFF), u64::from(comment.color));
            prop_assert_eq!(item["size"].as_u64().unwrap_or(25), u64::from(comment.size));
            prop_assert_eq!(item["mode"].as_str().unwrap_or("scroll"), comment.mode.as_str());
            prop_assert_eq!(item["user"]["id"].as_str().unwrap_or(""), carried(&comment.user));
        }
    }

    /// XML: one element per comment and line of our own, and nothing that a text could have opened.
    #[test]
    fn xml_holds_one_element_for_each_comment(comments in proptest::collection::vec(comment(), 0..6)) {
        let written = document(Format::BilibiliXml, &comments, &AssStyle::default());
        let mut rest = written.as_str();
        let mut texts = Vec::new();
        while let Some((_, after)) = rest.split_once("<d p=\"") {
            let (attributes, after) = after.split_once('>').expect("the tag ends");
            prop_assert!(attributes.matches('"').count() % 2 == 1, "{attributes:?}");
            let (text, after) = after.split_once('<').expect("the text ends");
            prop_assert!(after.starts_with("/d>\n"), "{after:?}");
            texts.push(unescaped(text));
            rest = after;
        }
        prop_assert_eq!(texts, shown(&comments));
        prop_assert_eq!(written.matches('<').count(), written.matches('>').count());
    }

    /// CSV: fields of any text come back, behind an apostrophe where a spreadsheet would reckon.
    #[test]
    fn tables_give_their_fields_back(comments in proptest::collection::vec(comment(), 0..6)) {
        let written = document(Format::Csv, &comments, &AssStyle::default());
        let rows = table(written.trim_start_matches('\u{FEFF}'));
        prop_assert_eq!(rows.len(), comments.len() + 1);
        for (row, comment) in rows[1..].iter().zip(&comments) {
            prop_assert_eq!(row.len(), 9);
            for (field, said) in [(&row[3], &comment.user), (&row[4], &comment.name), (&row[8], &comment.text)] {
                let said = carried(said);
                prop_assert!(!field.starts_with(['=', '+', '-', '@', '\t', '\u{FF1D}']), "{field:?}");
                prop_assert!(*field == said || *field == format!("'{said}"), "{field:?} for {said:?}");
            }
        }
    }

    /// ASS: each comment is one line, with the one block of commands that was written here.
    #[test]
    fn subtitles_hold_no_command_of_a_comment(comments in proptest::collection::vec(comment(), 0..6)) {
        let written = document(Format::Ass, &comments, &AssStyle::default());
        let (_, events) = written.split_once("Effect, Text\r\n").expect("events");
        prop_assert_eq!(events.lines().count(), shown(&comments).len());
        for (line, text) in events.lines().zip(shown(&comments)) {
            prop_assert!(line.starts_with("Dialogue: 2,"), "{line:?}");
            prop_assert_eq!(line.matches(['{', '}']).count(), 2, "{:?}", line);
            let (_, said) = line.split_once('}').expect("a block");
            // What is left of a backslash with something behind it is a new line.
            let commands = said.split('\\').skip(1).filter(|after| !after.starts_with('\u{2060}'));
            prop_assert!(commands.clone().all(|after| after.starts_with('N')), "{said:?}");
            prop_assert_eq!(commands.count(), text.matches('\n').count());
        }
    }

    /// `Density::Apart`: no two comments of a kind ever cover each other, by the movement that the file
    /// tells a renderer; `Density::Overlap`: nothing is left out.
    #[test]
    fn comments_apart_never_touch(
        mut comments in proptest::collection::vec(comment(), 0..60),
        font_px in 20_u32..200,
        lanes_max in 1_u32..8,
        scroll_ms in 1_000_u32..20_000,
    ) {
        for comment in &mut comments {
            comment.time_ms %= 20_000;
            comment.size = comment.size.clamp(12, 64);
        }
        comments.sort_by_key(|comment| comment.time_ms);
        let settings = AssSettings { font_px, lanes_max, scroll_ms, density: Density::Apart, ..AssSettings::default() };
        let apart = AssStyle::new(settings.clone()).expect("within bounds");
        let events: Vec<Event> = events(&document(Format::Ass, &comments, &apart), font_px);
        for (at, one) in events.iter().enumerate() {
            for other in &events[at + 1..] {
                if one.kind != other.kind || !one.shares_row(other) {
                    continue;
                }
                let from = one.start_cs.max(other.start_cs);
                let to = one.end_cs.min(other.end_cs);
                for cs in [from, (from + to) / 2, to] {
                    prop_assert!(to <= from || !one.covers(other, cs), "{one:?} and {other:?} at {cs}");
                }
            }
        }
        let overlap = AssStyle::new(AssSettings { density: Density::Overlap, ..settings }).expect("within bounds");
        let all = document(Format::Ass, &comments, &overlap);
        prop_assert_eq!(all.matches("Dialogue:").count(), shown(&comments).len());
    }
}

/// A comment as a renderer would move it.
#[derive(Debug)]
struct Event {
    kind: char,
    start_cs: u64,
    end_cs: u64,
    /// Edges of its rows, as far from the kind's edge of the picture.
    near: u64,
    far: u64,
    /// How wide, where it moves.
    px: f64,
}

impl Event {
    fn shares_row(&self, other: &Self) -> bool {
        self.near < other.far && other.near < self.far
    }

    /// The left edge at a time: the whole way in the whole time.
    fn left(&self, cs: u64) -> f64 {
        let part = (cs - self.start_cs) as f64 / (self.end_cs - self.start_cs) as f64;
        1920.0 - part * (1920.0 + self.px)
    }

    fn covers(&self, other: &Self, cs: u64) -> bool {
        let (a, b) = (self.left(cs), other.left(cs));
        // Hundredths of a second are rounded to, and a pixel is not seen.
        self.kind != 's' || (a + 1.0 < b + other.px && b + 1.0 < a + self.px)
    }
}

fn events(file: &str, font_px: u32) -> Vec<Event> {
    let cs = |text: &str| {
        let parts: Vec<u64> = text.split([':', '.']).map(|part| part.parse().expect("a number")).collect();
        ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 100 + parts[3]
    };
    let dialogues = file.lines().filter(|line| line.starts_with("Dialogue:"));
    let event = |line: &str| {
        let fields: Vec<&str> = line.splitn(10, ',').collect();
        let (commands, text) = fields[9][1..].split_once('}').expect("a block");
        let numbers = commands.split_once('(').and_then(|(_, rest)| rest.split_once(')')).expect("a place").0;
        let numbers: Vec<i64> = numbers.split(',').map(|n| n.parse().expect("a number")).collect();
        let size = commands.split("\\fs").nth(1).map_or(u64::from(font_px), |after| {
            after.split(['\\', '}']).next().and_then(|n| n.parse().ok()).expect("a size")
        });
        let height = size * (text.matches("\\N").count() as u64 + 1);
        let (kind, near, px) = match &commands[..3] {
            "\\mo" => ('s', numbers[1], -numbers[2] as f64),
            "\\an" if commands.starts_with("\\an8") => ('t', numbers[1], 0.0),
            _ => ('b', 1080 - numbers[1], 0.0),
        };
        Event {
            kind,
            start_cs: cs(fields[1]),
            end_cs: cs(fields[2]),
            near: near as u64,
            far: near as u64 + height,
            px,
        }
    };
    dialogues.map(event).collect()
}

/// Reads a table by RFC 4180.
fn table(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut characters = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => field.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {
                assert_eq!(characters.next(), Some('\n'));
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(!quoted && field.is_empty() && row.is_empty(), "the table ends in a row");
    rows
}
