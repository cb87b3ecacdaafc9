//! `danmaku convert`: a file of Bilibili's comments in another format.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use danmaku_replay::{
    AssSettings, AssStyle, BilibiliXmlReader, Comment, Density, Document, Format, Heading, Skipped,
};

use super::{CliError, duration};
use crate::config::value::Duration;

/// How much of a document is held before it is written.
const WRITE_BYTES: usize = 64 << 10;

#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    /// Bilibili XML, version 1.0 or 2.0, at most 64 MiB; - is the standard input.
    file: PathBuf,
    /// The format to write.
    #[arg(long, value_parser = formats())]
    to: Format,
    /// A file to write, which must not exist; the standard output unless given.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    look: Look,
}

/// How subtitles look.
#[derive(Debug, Args)]
#[command(next_help_heading = "Subtitles (--to ass)")]
struct Look {
    /// Size of the stage; a renderer scales it to the video.
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1920x1080", value_parser = resolution)]
    resolution: (u32, u32),
    /// Name of the font.
    #[arg(long, default_value = "sans-serif")]
    font: String,
    /// Pixels of a comment of the ordinary size.
    #[arg(long, value_name = "PIXELS", default_value_t = 48)]
    font_px: u32,
    /// Percent; 100 is opaque.
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    opacity: u32,
    /// How long a comment takes over the picture.
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = duration)]
    scroll: Duration,
    /// How long a comment at the top or bottom stays.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    fixed: Duration,
    /// Share of the height that comments may use, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    area: u32,
    /// The most lanes of each kind; fewer where the area has no room for them.
    #[arg(long, value_name = "N", default_value_t = 256)]
    lanes: u32,
    /// What becomes of a comment that finds no free lane.
    #[arg(long, value_enum, default_value_t = DensityName::Overlap)]
    density: DensityName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DensityName {
    /// It goes over others.
    Overlap,
    /// It is left out.
    Apart,
}

pub(super) fn run(args: &ConvertArgs) -> Result<(), CliError> {
    let style = args.look.style()?;
    let (mut comments, skipped) = comments(&args.file)?;
    // Archives are in no order; lanes and some players need that of time.
    comments.sort_by_key(|comment| comment.time_ms);
    let media = match args.file.file_stem() {
        Some(stem) if args.file != Path::new("-") => stem.to_string_lossy(),
        _ => Cow::Borrowed("-"),
    };
    let mut to: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(created(path)?),
        None => Box::new(io::stdout().lock()),
    };
    let mut out = Vec::with_capacity(2 * WRITE_BYTES);
    let mut document = Document::begin(args.to, Heading { media: &media }, &style, &mut out);
    for comment in &comments {
        document.comment(comment, &mut out);
        if out.len() >= WRITE_BYTES {
            to.write_all(&out)?;
            out.clear();
        }
    }
    let tally = document.end(&mut out);
    to.write_all(&out)?;
    to.flush()?;
    eprintln!("danmaku: {}", told(tally.written, tally.left_out, skipped));
    Ok(())
}

/// Every comment of a file.
fn comments(path: &Path) -> Result<(Vec<Comment<'static>>, Skipped), CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Found(format!("{}: {error}", path.display()));
    let file: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|error| failed(&error))?)
    };
    let mut reader = BilibiliXmlReader::new(BufReader::with_capacity(WRITE_BYTES, file));
    let comments = reader.by_ref().collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
    Ok((comments, reader.skipped()))
}

/// A new file that its owner alone reads; what stands there already is never written over.
fn created(path: &Path) -> Result<File, CliError> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AlreadyExists => "it exists; name another file or remove it".to_owned(),
            _ => error.to_string(),
        };
        CliError::Found(format!("{}: {why}", path.display()))
    })
}

fn told(written: u64, no_lane: u64, skipped: Skipped) -> String {
    let mut told = format!("{written} comments written");
    for (count, why) in [
        (skipped.malformed, "malformed"),
        (skipped.positioned, "placed by coordinates or a script"),
        (skipped.long, "too long"),
        (skipped.blank, "blank"),
        (no_lane, "without a free lane"),
    ] {
        if count > 0 {
            told.push_str(&format!(", {count} left out: {why}"));
        }
    }
    told
}

impl Look {
    fn style(&self) -> Result<AssStyle, CliError> {
        let ms = |time: Duration| u32::try_from(time.us() / 1_000).unwrap_or(u32::MAX);
        let settings = AssSettings {
            width: self.resolution.0,
            height: self.resolution.1,
            font: self.font.clone(),
            font_px: self.font_px,
            opacity_percent: self.opacity,
            scroll_ms: ms(self.scroll),
            fixed_ms: ms(self.fixed),
            area_percent: self.area,
            lanes_max: self.lanes,
            density: match self.density {
                DensityName::Overlap => Density::Overlap,
                DensityName::Apart => Density::Apart,
            },
        };
        AssStyle::new(settings).map_err(|error| CliError::Usage(error.to_string()))
    }
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str))
        .try_map(|name| Format::parse(&name).ok_or_else(|| format!("there is no format {name}")))
}

/// `1920x1080`: for clap.
fn resolution(text: &str) -> Result<(u32, u32), String> {
    let parsed =
        text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    parsed.ok_or_else(|| "write width and height in pixels, such as 1280x720".to_owned())
}
