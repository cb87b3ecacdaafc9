//! What each format does to a text so that it stays a text.

/// Writes `text` with some characters replaced.
fn replaced(out: &mut Vec<u8>, text: &str, replacement: impl Fn(u8) -> Option<&'static str>) {
    let mut rest = text.as_bytes();
    let next = |rest: &[u8]| {
        let mut bytes = rest.iter().enumerate();
        bytes.find_map(|(at, byte)| replacement(*byte).map(|instead| (at, instead)))
    };
    while let Some((at, instead)) = next(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(instead.as_bytes());
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Content of an XML element: the five named entities and no numeric one, since a common converter
/// (biliass) refuses those.
pub(crate) fn xml_text(out: &mut Vec<u8>, text: &str) {
    replaced(out, text, xml_entity);
}

/// Content of an XML attribute in double quotes. Line feeds and tabs become the spaces that a parser
/// would make of them (XML 1.0 §3.3.3).
pub(crate) fn xml_attribute(out: &mut Vec<u8>, text: &str) {
    replaced(out, text, |byte| match byte {
        b'\n' | b'\t' => Some(" "),
        byte => xml_entity(byte),
    });
}

fn xml_entity(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'&' => "&amp;",
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'"' => "&quot;",
        b'\'' => "&apos;",
        _ => return None,
    })
}

/// A text for a page that puts it between tags without looking at it, as a JSON string: the characters
/// that DPlayer's own server escapes.
pub(crate) fn html_in_json(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    replaced(out, text, |byte| match byte {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'"' => Some("&quot;"),
        b'\'' => Some("&#x27;"),
        b'/' => Some("&#x2F;"),
        byte => json_escape(byte),
    });
    out.push(b'"');
}

/// A JSON string (RFC 8259 §7).
pub(crate) fn json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    replaced(out, text, json_escape);
    out.push(b'"');
}

/// Of the control characters only these two are left in a comment when it gets here.
fn json_escape(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\t' => "\\t",
        _ => return None,
    })
}

/// A field of a table (RFC 4180), always in quotes. A spreadsheet takes a field that begins with one of
/// these for a formula, in any width; an apostrophe before it keeps it a text.
pub(crate) fn csv_field(out: &mut Vec<u8>, text: &str) {
    const FORMULA: [char; 10] =
        ['=', '+', '-', '@', '\t', '\n', '\u{FF1D}', '\u{FF0B}', '\u{FF0D}', '\u{FF20}'];
    out.push(b'"');
    if text.starts_with(FORMULA) {
        out.push(b'\'');
    }
    replaced(out, text, |byte| (byte == b'"').then_some("\"\""));
    out.push(b'"');
}

/// Text of a subtitle's event. Braces would open a block of commands, and renderers disagree about how to
/// escape them, so they become the full-width ones; a backslash would make a command of the next letter,
/// so a word joiner, which nobody sees, comes between.
pub(crate) fn ass_text(out: &mut Vec<u8>, text: &str) {
    replaced(out, text, |byte| match byte {
        b'{' => Some("\u{FF5B}"),
        b'}' => Some("\u{FF5D}"),
        b'\\' => Some("\\\u{2060}"),
        b'\n' => Some("\\N"),
        b'\t' => Some(" "),
        _ => None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(escape: fn(&mut Vec<u8>, &str), cases: &[(&str, &str)]) {
        for (text, escaped) in cases {
            let mut out = Vec::new();
            escape(&mut out, text);
            assert_eq!(String::from_utf8_lossy(&out), *escaped, "{text:?}");
        }
    }

    /// Each escape with what breaks its format.
    #[test]
    fn each_format_escapes_its_own_syntax() {
        check(xml_text, &[("<a b=\"c\">&'", "&lt;a b=&quot;c&quot;&gt;&amp;&apos;"), ("]]>", "]]&gt;")]);
        check(xml_attribute, &[("a\"\n\tb", "a&quot;  b")]);
        check(html_in_json, &[("</p>\\\n'", "\"&lt;&#x2F;p&gt;\\\\\\n&#x27;\""), ("&lt;", "\"&amp;lt;\"")]);
        check(json_string, &[("\"\\\n\t/", "\"\\\"\\\\\\n\\t/\"")]);
        check(
            csv_field,
            &[
                ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
                ("+1", "\"'+1\""),
                ("-1", "\"'-1\""),
                ("@a", "\"'@a\""),
                ("\u{FF1D}1", "\"'\u{FF1D}1\""),
                ("\t=1", "\"'\t=1\""),
                ("1=1, \"2\"", "\"1=1, \"\"2\"\"\""),
            ],
        );
        check(
            ass_text,
            &[
                ("{\\pos(0,0)}a\nb", "\u{FF5B}\\\u{2060}pos(0,0)\u{FF5D}a\\Nb"),
                ("\\N\\n\\h", "\\\u{2060}N\\\u{2060}n\\\u{2060}h"),
            ],
        );
    }
}
