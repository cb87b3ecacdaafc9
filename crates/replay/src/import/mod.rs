//! Bilibili's XML, versions 1.0 and 2.0, as comments.
//!
//! Files come from archives, recorders of live rooms and strangers. What makes a file dangerous or no file
//! of this kind ends the reading: a document type (so there are no entities to expand), depth, size, what
//! is not well-formed. What is wrong with one comment costs that comment and is counted, since every
//! archive has some. Elements of recorders that are no comments (gifts, super chats) are passed over.

mod limited;
mod parameters;

use std::borrow::Cow;
use std::io::{self, BufRead};

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use self::limited::Limited;
use self::parameters::{Dialect, Parameters, Unfit};
use crate::comment::{Comment, carried};

/// The largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// The largest tag, text or remark, in bytes: what reading a file may hold in memory.
pub const ELEMENT_BYTES_MAX: u64 = 1 << 20;
/// How deep elements may lie in each other.
pub const DEPTH_MAX: usize = 8;
/// The longest text of a comment, in bytes; a longer one is skipped.
pub const TEXT_BYTES_MAX: usize = 4_096;

/// Why a file cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The reader failed.
    #[error("the file cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file is too large.
    #[error("the file is larger than {} MiB; split it", FILE_BYTES_MAX >> 20)]
    FileTooLarge,
    /// One tag or text is too large.
    #[error("a tag or text near byte {at} is larger than {} KiB", ELEMENT_BYTES_MAX >> 10)]
    ElementTooLarge {
        /// Where it begins.
        at: u64,
    },
    /// Elements lie too deep in each other.
    #[error(
        "elements near byte {at} lie deeper than {DEPTH_MAX} in each other; a file of comments has two levels"
    )]
    TooDeep {
        /// Where the deepest begins.
        at: u64,
    },
    /// The file declares a document type.
    #[error(
        "the file declares a document type (<!DOCTYPE); take it out: files of comments have none, and entities are not expanded"
    )]
    DocumentType,
    /// The outermost element is another one, or there is none or more than one.
    #[error("this is no file of Bilibili's comments: its one outermost element has to be <i>")]
    Root,
    /// The file ends inside an element.
    #[error("the file ends before </i>: it was cut off")]
    CutOff,
    /// The file is not well-formed.
    #[error("the file is not well-formed near byte {at}: {source}")]
    Malformed {
        /// Where.
        at: u64,
        /// How.
        source: quick_xml::Error,
    },
}

/// Comments that were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Without the numbers that a comment needs, or with an entity that nobody declared.
    pub malformed: u64,
    /// Placed by coordinates, code or a script: modes 7, 8 and 9, and those nobody knows.
    pub positioned: u64,
    /// Longer than [`TEXT_BYTES_MAX`].
    pub long: u64,
    /// Without a text.
    pub blank: u64,
}

impl Skipped {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.malformed + self.positioned + self.long + self.blank
    }
}

/// Reads comments in the order of the file, which is not always that of time.
///
/// It is an iterator that ends after its first error. Of the file it holds one tag or text.
#[derive(Debug)]
pub struct BilibiliXmlReader<R> {
    xml: Reader<Limited<R>>,
    buffer: Vec<u8>,
    dialect: Dialect,
    depth: usize,
    /// The comment whose text is being read.
    open: Option<Open>,
    place: Place,
    skipped: Skipped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    BeforeRoot,
    InRoot,
    AfterRoot,
    /// Everything was read, or nothing more can be.
    Ended,
}

/// A `<d>` up to its end.
#[derive(Debug)]
struct Open {
    parameters: Result<Parameters, Unfit>,
    uid: String,
    name: String,
    text: String,
    too_long: bool,
}

impl Open {
    fn push(&mut self, text: &str) {
        if self.text.len() + text.len() > TEXT_BYTES_MAX {
            self.too_long = true;
        } else {
            self.text.push_str(text);
        }
    }
}

impl<R: BufRead> BilibiliXmlReader<R> {
    /// Begins to read a file.
    pub fn new(file: R) -> Self {
        let mut xml = Reader::from_reader(Limited::new(file, FILE_BYTES_MAX));
        // `&` on its own stands in files that nobody escaped, and means itself.
        xml.config_mut().allow_dangling_amp = true;
        Self {
            xml,
            buffer: Vec::new(),
            dialect: Dialect::One,
            depth: 0,
            open: None,
            place: Place::BeforeRoot,
            skipped: Skipped::default(),
        }
    }

    /// Comments that were not taken so far.
    pub const fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn read(&mut self) -> Result<Option<Comment<'static>>, ImportError> {
        loop {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            let at = self.xml.buffer_position();
            self.xml.get_mut().allow(ELEMENT_BYTES_MAX);
            let outcome = match self.xml.read_event_into(&mut buffer) {
                Ok(event) => self.event(event, at),
                Err(source) => Err(self.failure(source, at)),
            };
            self.buffer = buffer;
            match outcome? {
                Step::Comment(comment) => return Ok(Some(comment)),
                Step::On => {}
                Step::End => return Ok(None),
            }
        }
    }

    fn event(&mut self, event: Event<'_>, at: u64) -> Result<Step, ImportError> {
        match event {
            Event::Decl(declaration) => {
                if declaration.version().is_ok_and(|version| version.starts_with('2')) {
                    self.dialect = Dialect::Two;
                }
            }
            Event::DocType(_) => return Err(ImportError::DocumentType),
            Event::Start(tag) => {
                self.start(&tag, at)?;
                self.depth += 1;
            }
            Event::Empty(tag) => {
                self.start(&tag, at)?;
                return Ok(self.end());
            }
            Event::End(_) => {
                self.depth -= 1;
                return Ok(self.end());
            }
            Event::Text(text) => self.text(&text),
            Event::CData(text) => self.text(&text),
            Event::GeneralRef(reference) => self.reference(&reference),
            Event::Comment(_) | Event::PI(_) => {}
            Event::Eof => {
                return match self.place {
                    Place::AfterRoot => Ok(Step::End),
                    Place::InRoot => Err(ImportError::CutOff),
                    Place::BeforeRoot | Place::Ended => Err(ImportError::Root),
                };
            }
        }
        Ok(Step::On)
    }

    fn start(&mut self, tag: &BytesStart<'_>, at: u64) -> Result<(), ImportError> {
        let name = tag.name().0;
        match self.depth {
            0 if self.place == Place::BeforeRoot && name == "i" => self.place = Place::InRoot,
            0 => return Err(ImportError::Root),
            DEPTH_MAX.. => return Err(ImportError::TooDeep { at }),
            // What a file of version 2.0 has and one of version 1.0 has not, whatever is declared.
            1 if name == "oid" => self.dialect = Dialect::Two,
            1 if name == "d" => self.open = Some(self.comment_of(tag, at)?),
            _ => {}
        }
        Ok(())
    }

    fn comment_of(&self, tag: &BytesStart<'_>, at: u64) -> Result<Open, ImportError> {
        let mut open = Open {
            parameters: Err(Unfit::Malformed),
            uid: String::new(),
            name: String::new(),
            text: String::new(),
            too_long: false,
        };
        for attribute in tag.attributes() {
            let malformed = |source| ImportError::Malformed { at, source };
            let attribute = attribute.map_err(|source| malformed(source.into()))?;
            let name = attribute.key.0;
            if !matches!(name, "p" | "uid" | "user") {
                continue;
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(malformed)?;
            match name {
                "p" => open.parameters = Parameters::parse(&value, self.dialect),
                "uid" => open.uid = carried(&value).into_owned(),
                _ => open.name = carried(&value).into_owned(),
            }
        }
        Ok(open)
    }

    /// What happens when an element has ended: `depth` is that of its parent.
    fn end(&mut self) -> Step {
        match self.depth {
            0 => self.place = Place::AfterRoot,
            1 => {
                if let Some(comment) = self.open.take().and_then(|open| self.close(open)) {
                    return Step::Comment(comment);
                }
            }
            _ => {}
        }
        Step::On
    }

    fn close(&mut self, open: Open) -> Option<Comment<'static>> {
        let text = carried(&open.text);
        let reason = match open.parameters {
            Err(Unfit::Positioned) => &mut self.skipped.positioned,
            Err(Unfit::Malformed) => &mut self.skipped.malformed,
            Ok(_) if open.too_long => &mut self.skipped.long,
            Ok(_) if text.trim().is_empty() => &mut self.skipped.blank,
            Ok(parameters) => {
                let user = if open.uid.is_empty() { parameters.sender } else { open.uid };
                return Some(Comment {
                    seq: parameters.row,
                    time_ms: parameters.time_ms,
                    sent_ms: parameters.sent_ms,
                    mode: parameters.mode,
                    color: parameters.color,
                    size: parameters.size,
                    user: Cow::Owned(user),
                    name: Cow::Owned(open.name),
                    text: Cow::Owned(text.into_owned()),
                });
            }
        };
        *reason += 1;
        None
    }

    /// Text counts directly below `<d>` only.
    fn text(&mut self, text: &str) {
        if let Some(open) = self.open.as_mut().filter(|_| self.depth == 2) {
            open.push(text);
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>) {
        let Some(open) = self.open.as_mut().filter(|_| self.depth == 2) else { return };
        match (reference.resolve_char_ref(), resolve_predefined_entity(reference)) {
            (Ok(Some(character)), _) => open.push(character.encode_utf8(&mut [0; 4])),
            (Ok(None), Some(text)) => open.push(text),
            // Nobody declared it, or it is no character.
            _ => open.parameters = Err(Unfit::Malformed),
        }
    }

    fn failure(&mut self, source: quick_xml::Error, at: u64) -> ImportError {
        use self::limited::Exceeded;
        match (self.xml.get_ref().exceeded(), source) {
            (Some(Exceeded::File), _) => ImportError::FileTooLarge,
            (Some(Exceeded::Allowance), _) => ImportError::ElementTooLarge { at },
            (None, quick_xml::Error::Io(error)) => {
                ImportError::Read(io::Error::new(error.kind(), error.to_string()))
            }
            (None, source) => ImportError::Malformed { at: self.xml.error_position(), source },
        }
    }
}

/// What an event led to.
enum Step {
    Comment(Comment<'static>),
    On,
    End,
}

impl<R: BufRead> Iterator for BilibiliXmlReader<R> {
    type Item = Result<Comment<'static>, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.place == Place::Ended {
            return None;
        }
        let read = self.read().transpose();
        if !matches!(read, Some(Ok(_))) {
            self.place = Place::Ended;
        }
        read
    }
}
