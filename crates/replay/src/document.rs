//! A document: written from its first comment to its last, and never held.

use crate::ass::{AssStyle, Stage};
use crate::comment::{Comment, carried};
use crate::format::Format;
use crate::{artplayer, ass, bilibili_xml, csv, danmu_js, dplayer, ndjson, nplayer};

/// What stands at the head of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading<'h> {
    /// The medium's name; formats that have no place for it leave it out.
    pub media: &'h str,
}

/// What became of a document's comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Comments that stand in the document.
    pub written: u64,
    /// Comments that do not: blank ones, and those that had no free lane under [`crate::Density::Apart`].
    pub left_out: u64,
}

/// A document being written.
///
/// Each call appends to the buffer that it is given, which the caller may empty between any two: a
/// comment adds at most six times its text and a few hundred bytes, and what is kept here has a bound
/// that does not depend on the comments. Comments come in the order of their time: subtitles find free
/// lanes by it, and some players never look back.
#[derive(Debug)]
pub struct Document {
    format: Format,
    /// The lanes of subtitles.
    stage: Option<Box<Stage>>,
    tally: Tally,
}

impl Document {
    /// Begins a document. `style` is that of subtitles; the other formats have no use for it.
    pub fn begin(format: Format, heading: Heading<'_>, style: &AssStyle, out: &mut Vec<u8>) -> Self {
        let mut stage = None;
        let media = carried(heading.media);
        let heading = Heading { media: &media };
        match format {
            Format::BilibiliXml => bilibili_xml::begin(out, heading),
            Format::Ass => {
                ass::begin(out, heading, style);
                stage = Some(Box::new(Stage::new(style)));
            }
            Format::DPlayer => dplayer::begin(out),
            Format::ArtPlayer | Format::NPlayer | Format::DanmuJs => out.push(b'['),
            Format::Ndjson => {}
            Format::Csv => csv::begin(out),
        }
        Self { format, stage, tally: Tally::default() }
    }

    /// Writes one comment, or counts it as left out.
    pub fn comment(&mut self, comment: &Comment<'_>, out: &mut Vec<u8>) {
        let comment = &comment.carried();
        if comment.text.trim().is_empty() && !self.format.keeps_blank() {
            self.tally.left_out += 1;
            return;
        }
        if self.separates() {
            out.extend_from_slice(b",\n");
        }
        let mut written = true;
        match (self.format, &mut self.stage) {
            (Format::BilibiliXml, _) => bilibili_xml::comment(out, comment),
            (Format::Ass, Some(stage)) => written = stage.comment(out, comment),
            // Subtitles are begun with a stage.
            (Format::Ass, None) => written = false,
            (Format::DPlayer, _) => dplayer::comment(out, comment),
            (Format::ArtPlayer, _) => artplayer::comment(out, comment),
            (Format::NPlayer, _) => nplayer::comment(out, comment),
            (Format::DanmuJs, _) => danmu_js::comment(out, comment, self.tally.written),
            (Format::Ndjson, _) => ndjson::comment(out, comment),
            (Format::Csv, _) => csv::comment(out, comment),
        }
        if written {
            self.tally.written += 1;
        } else {
            self.tally.left_out += 1;
        }
    }

    /// Whether what follows is another item of a JSON list.
    fn separates(&self) -> bool {
        let list = match self.format {
            Format::DPlayer | Format::ArtPlayer | Format::NPlayer | Format::DanmuJs => true,
            Format::BilibiliXml | Format::Ass | Format::Ndjson | Format::Csv => false,
        };
        list && self.tally.written > 0
    }

    /// What has become of the comments so far.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Ends the document.
    pub fn end(self, out: &mut Vec<u8>) -> Tally {
        match self.format {
            Format::BilibiliXml => bilibili_xml::end(out),
            Format::DPlayer => dplayer::end(out),
            Format::ArtPlayer | Format::NPlayer | Format::DanmuJs => out.extend_from_slice(b"]\n"),
            Format::Ass | Format::Ndjson | Format::Csv => {}
        }
        self.tally
    }
}
