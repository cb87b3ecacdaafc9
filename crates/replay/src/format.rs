//! The formats, their names and how a server announces them.

/// A kind of file that a document can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Bilibili's XML, version 1.0: what converters, ABPlayer and ArtPlayer read.
    BilibiliXml,
    /// Subtitles in Advanced SubStation Alpha: any video player; the movement is computed here.
    Ass,
    /// The answer of DPlayer's API, version 3.
    DPlayer,
    /// A list for artplayer-plugin-danmuku.
    ArtPlayer,
    /// A list for @nplayer/danmaku.
    NPlayer,
    /// A list for danmu.js, the library of xgplayer.
    DanmuJs,
    /// A JSON object a line, as the native protocol writes a comment.
    Ndjson,
    /// A table for spreadsheets.
    Csv,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 8] = [
        Self::BilibiliXml,
        Self::Ass,
        Self::DPlayer,
        Self::ArtPlayer,
        Self::NPlayer,
        Self::DanmuJs,
        Self::Ndjson,
        Self::Csv,
    ];

    /// The format's name in arguments and addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BilibiliXml => "bilibili-xml",
            Self::Ass => "ass",
            Self::DPlayer => "dplayer",
            Self::ArtPlayer => "artplayer",
            Self::NPlayer => "nplayer",
            Self::DanmuJs => "danmu-js",
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
        }
    }

    /// Parses a format's name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::BilibiliXml => "application/xml; charset=utf-8",
            Self::Ass => "text/x-ssa; charset=utf-8",
            Self::DPlayer | Self::ArtPlayer | Self::NPlayer | Self::DanmuJs => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }

    /// What a file's name ends with, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::BilibiliXml => "xml",
            Self::Ass => "ass",
            Self::DPlayer | Self::ArtPlayer | Self::NPlayer | Self::DanmuJs => "json",
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
        }
    }

    /// Whether a comment that shows nothing stands in such a file: where it is data, not a picture.
    pub(crate) const fn keeps_blank(self) -> bool {
        matches!(self, Self::Ndjson | Self::Csv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Format::parse` takes what `as_str` gives, and nothing else.
    #[test]
    fn names_round_trip() {
        for format in Format::ALL {
            assert_eq!(Format::parse(format.as_str()), Some(format));
        }
        for name in ["", "xml", "ASS", "ass "] {
            assert_eq!(Format::parse(name), None, "{name:?}");
        }
    }
}
