//! Subtitles in Advanced SubStation Alpha: every comment is an event whose movement is computed here.
//!
//! The file is UTF-8 with a mark and lines end in CR LF, since old renderers need both.

mod lanes;
mod style;
mod text_width;

use danmaku_wire::entry::{COLOR_DEFAULT, Mode, SIZE_DEFAULT};

use self::lanes::{FixedLanes, ScrollLanes};
pub use self::style::{AssSettings, AssStyle, Density, StyleError};
use crate::comment::Comment;
use crate::document::Heading;
use crate::escape;
use crate::number::{digits, padded};

/// Writes everything before the events.
pub(crate) fn begin(out: &mut Vec<u8>, heading: Heading<'_>, style: &AssStyle) {
    out.extend_from_slice("\u{FEFF}[Script Info]\r\nTitle: ".as_bytes());
    // A line end would begin a line of the file.
    out.extend(heading.media.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
    out.extend_from_slice(b"\r\nScriptType: v4.00+\r\nCollisions: Normal\r\nPlayResX: ");
    digits(out, style.width());
    out.extend_from_slice(b"\r\nPlayResY: ");
    digits(out, style.height());
    // Wrap style 2: a line ends where the text says. No matrix: colours are those of the comment.
    out.extend_from_slice(b"\r\nWrapStyle: 2\r\nScaledBorderAndShadow: yes\r\nYCbCr Matrix: None\r\n\r\n");
    out.extend_from_slice(
        b"[V4+ Styles]\r\nFormat: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, ",
    );
    out.extend_from_slice(b"OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, ");
    out.extend_from_slice(
        b"Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, ",
    );
    out.extend_from_slice(b"Encoding\r\nStyle: Danmaku,");
    out.extend_from_slice(style.font().as_bytes());
    out.push(b',');
    digits(out, style.font_px());
    for color in [COLOR_DEFAULT, COLOR_DEFAULT, 0, 0] {
        out.extend_from_slice(b",&H");
        hex(out, style.alpha());
        bgr(out, color);
    }
    out.extend_from_slice(b",0,0,0,0,100,100,0,0,1,1,0,7,0,0,0,1\r\n\r\n[Events]\r\n");
    out.extend_from_slice(
        b"Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\r\n",
    );
}

/// The picture: which lanes are taken until when. What it keeps is bounded by the style.
#[derive(Debug)]
pub(crate) struct Stage {
    width: u64,
    height: u64,
    font_px: u64,
    lane_px: u64,
    scroll_ms: u64,
    fixed_ms: u64,
    density: Density,
    scroll: ScrollLanes,
    top: FixedLanes,
    bottom: FixedLanes,
}

/// A comment's box.
#[derive(Debug, Clone, Copy)]
struct Extent {
    font_px: u64,
    width: u64,
    lanes: usize,
}

impl Stage {
    pub(crate) fn new(style: &AssStyle) -> Self {
        Self {
            width: style.width(),
            height: style.height(),
            font_px: style.font_px(),
            lane_px: style.lane_px(),
            scroll_ms: style.scroll_ms(),
            fixed_ms: style.fixed_ms(),
            density: style.density(),
            scroll: ScrollLanes::new(style.lanes(), style.width(), style.scroll_ms()),
            top: FixedLanes::new(style.lanes(), style.fixed_ms()),
            bottom: FixedLanes::new(style.lanes(), style.fixed_ms()),
        }
    }

    /// Writes a comment's event; false where it has to be left out because no lane is free.
    pub(crate) fn comment(&mut self, out: &mut Vec<u8>, comment: &Comment<'_>) -> bool {
        // Events know hundredths of a second; lanes are reckoned with what a renderer will see.
        let start_ms = comment.time_ms / 10 * 10;
        let extent = self.extent(comment);
        let overlap = self.density == Density::Overlap;
        let (lane, shown_ms) = match comment.mode {
            Mode::Scroll => (
                self.scroll.take(start_ms, extent.width, extent.font_px, extent.lanes, overlap),
                self.scroll_ms,
            ),
            Mode::Top => (self.top.take(start_ms, extent.lanes, overlap), self.fixed_ms),
            Mode::Bottom => (self.bottom.take(start_ms, extent.lanes, overlap), self.fixed_ms),
        };
        let Some(lane) = lane else { return false };
        out.extend_from_slice(b"Dialogue: 2,");
        time(out, start_ms);
        out.push(b',');
        time(out, start_ms.saturating_add(shown_ms));
        out.extend_from_slice(b",Danmaku,,0,0,0,,{");
        self.movement(out, comment.mode, lane as u64 * self.lane_px, extent.width);
        if extent.font_px != self.font_px {
            out.extend_from_slice(b"\\fs");
            digits(out, extent.font_px);
        }
        if comment.color != COLOR_DEFAULT {
            out.extend_from_slice(b"\\c&H");
            bgr(out, comment.color);
            out.push(b'&');
        }
        out.push(b'}');
        escape::ass_text(out, &comment.text);
        out.extend_from_slice(b"\r\n");
        true
    }

    fn extent(&self, comment: &Comment<'_>) -> Extent {
        let reference = u64::from(SIZE_DEFAULT);
        let font_px = (self.font_px * u64::from(comment.size) / reference).max(1);
        let (lines, widest) = text_width::measure(&comment.text);
        let height = font_px.saturating_mul(lines);
        let lanes = usize::try_from(height.div_ceil(self.lane_px)).unwrap_or(usize::MAX);
        Extent { font_px, width: (widest.saturating_mul(font_px) / text_width::EM).max(1), lanes }
    }

    /// The command that places a text whose lane is `from_edge` away from its edge of the picture.
    fn movement(&self, out: &mut Vec<u8>, mode: Mode, from_edge: u64, text_px: u64) {
        match mode {
            Mode::Scroll => {
                out.extend_from_slice(b"\\move(");
                digits(out, self.width);
                out.push(b',');
                digits(out, from_edge);
                out.extend_from_slice(b",-");
                digits(out, text_px);
                out.push(b',');
                digits(out, from_edge);
            }
            Mode::Top => {
                out.extend_from_slice(b"\\an8\\pos(");
                digits(out, self.width / 2);
                out.push(b',');
                digits(out, from_edge);
            }
            Mode::Bottom => {
                out.extend_from_slice(b"\\an2\\pos(");
                digits(out, self.width / 2);
                out.push(b',');
                digits(out, self.height - from_edge);
            }
        }
        out.push(b')');
    }
}

/// `H:MM:SS.cc`.
fn time(out: &mut Vec<u8>, ms: u64) {
    digits(out, ms / 3_600_000);
    for value in [ms / 60_000 % 60, ms / 1_000 % 60] {
        out.push(b':');
        padded(out, value, 2);
    }
    out.push(b'.');
    padded(out, ms / 10 % 100, 2);
}

/// A colour as subtitles have it: blue before green before red.
fn bgr(out: &mut Vec<u8>, color: u32) {
    let [_, red, green, blue] = color.to_be_bytes();
    for byte in [blue, green, red] {
        hex(out, byte);
    }
}

fn hex(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}
