//! How subtitles look: settings as somebody wrote them, and a style that cannot be wrong.

/// The most lanes of one kind, whatever the picture: what searching them may cost.
const LANES_MAX: u64 = 256;
/// The longest name of a font, in bytes.
const FONT_BYTES_MAX: usize = 64;

/// What happens to a comment that finds no free lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Density {
    /// It goes over others, where the least of them is covered: every comment is shown.
    #[default]
    Overlap,
    /// It is left out: no comment covers another one of its kind.
    Apart,
}

impl Density {
    /// The name in arguments and addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::Apart => "apart",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Overlap, Self::Apart].into_iter().find(|density| density.as_str() == name)
    }
}

/// How subtitles are to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssSettings {
    /// Width of the stage in pixels, 64–16,384; a renderer scales it to the video.
    pub width: u32,
    /// Height of the stage in pixels, 64–16,384.
    pub height: u32,
    /// The font's name: 1–64 bytes, no comma, no control character, no `@` at its beginning.
    pub font: String,
    /// Pixels of a comment of the ordinary size, 8–1,024 and at most a quarter of the height.
    pub font_px: u32,
    /// 1–100; 100 is opaque.
    pub opacity_percent: u32,
    /// How long a comment takes over the picture, milliseconds, 1,000–60,000.
    pub scroll_ms: u32,
    /// How long a comment at the top or bottom stays, milliseconds, 1,000–60,000.
    pub fixed_ms: u32,
    /// The share of the height that comments of a kind may use, 10–100.
    pub area_percent: u32,
    /// The most lanes of a kind, 1–256; fewer where the area has no room for them.
    pub lanes_max: u32,
    /// What happens where no lane is free.
    pub density: Density,
}

impl Default for AssSettings {
    fn default() -> Self {
        Self {
            width: 1_920,
            height: 1_080,
            font: "sans-serif".into(),
            font_px: 48,
            opacity_percent: 80,
            scroll_ms: 8_000,
            fixed_ms: 5_000,
            area_percent: 100,
            lanes_max: 256,
            density: Density::Overlap,
        }
    }
}

/// Why settings make no style.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StyleError {
    /// A number outside its range.
    #[error("{setting} is {value}; it has to be {min} to {max}")]
    Range {
        /// Which.
        setting: &'static str,
        /// What was given.
        value: u32,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// A font's name that would not stay one in the file.
    #[error(
        "font is {0:?}; it has to be the name of a font: 1 to 64 bytes without commas and control characters, not beginning with @"
    )]
    Font(String),
}

/// How subtitles look; within every bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssStyle {
    settings: AssSettings,
    lanes: usize,
}

impl Default for AssStyle {
    fn default() -> Self {
        Self::within(AssSettings::default())
    }
}

impl AssStyle {
    /// Checks settings.
    ///
    /// # Errors
    /// When a number is outside its range, or the font's name is none.
    pub fn new(settings: AssSettings) -> Result<Self, StyleError> {
        let s = &settings;
        for (setting, value, min, max) in [
            ("width", s.width, 64, 16_384),
            ("height", s.height, 64, 16_384),
            ("font_px", s.font_px, 8, (s.height / 4).min(1_024)),
            ("opacity_percent", s.opacity_percent, 1, 100),
            ("scroll_ms", s.scroll_ms, 1_000, 60_000),
            ("fixed_ms", s.fixed_ms, 1_000, 60_000),
            ("area_percent", s.area_percent, 10, 100),
            ("lanes_max", s.lanes_max, 1, LANES_MAX as u32),
        ] {
            if !(min..=max).contains(&value) {
                return Err(StyleError::Range { setting, value, min, max });
            }
        }
        let named = (1..=FONT_BYTES_MAX).contains(&s.font.len())
            && !s.font.starts_with('@')
            && !s.font.contains(|c: char| c == ',' || c.is_control());
        if !named {
            return Err(StyleError::Font(s.font.clone()));
        }
        Ok(Self::within(settings))
    }

    fn within(settings: AssSettings) -> Self {
        let mut style = Self { lanes: 1, settings };
        let area_px = style.height() * u64::from(style.settings.area_percent) / 100;
        let lanes = (area_px / style.lane_px()).clamp(1, u64::from(style.settings.lanes_max).min(LANES_MAX));
        style.lanes = lanes as usize;
        style
    }

    pub(super) fn width(&self) -> u64 {
        self.settings.width.into()
    }

    pub(super) fn height(&self) -> u64 {
        self.settings.height.into()
    }

    pub(super) fn font(&self) -> &str {
        &self.settings.font
    }

    pub(super) fn font_px(&self) -> u64 {
        self.settings.font_px.into()
    }

    /// The height of a lane: a line and the outlines of two neighbours.
    pub(super) fn lane_px(&self) -> u64 {
        self.font_px() + 2
    }

    /// Transparency as subtitles have it: 0 is opaque.
    pub(super) fn alpha(&self) -> u8 {
        (255 - self.settings.opacity_percent * 255 / 100) as u8
    }

    /// In whole hundredths of a second, as events know time.
    pub(super) fn scroll_ms(&self) -> u64 {
        u64::from(self.settings.scroll_ms) / 10 * 10
    }

    pub(super) fn fixed_ms(&self) -> u64 {
        u64::from(self.settings.fixed_ms) / 10 * 10
    }

    /// Lanes of each kind, at least one.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(super) fn density(&self) -> Density {
        self.settings.density
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `AssStyle::new`: each bound from both sides, by the setting's name.
    #[test]
    fn settings_outside_their_bounds_are_named() {
        type Set = fn(&mut AssSettings, u32);
        let cases: [(&str, Set, u32, u32); 8] = [
            ("width", |s, v| s.width = v, 64, 16_384),
            ("height", |s, v| s.height = v, 192, 16_384),
            ("font_px", |s, v| s.font_px = v, 8, 270),
            ("opacity_percent", |s, v| s.opacity_percent = v, 1, 100),
            ("scroll_ms", |s, v| s.scroll_ms = v, 1_000, 60_000),
            ("fixed_ms", |s, v| s.fixed_ms = v, 1_000, 60_000),
            ("area_percent", |s, v| s.area_percent = v, 10, 100),
            ("lanes_max", |s, v| s.lanes_max = v, 1, 256),
        ];
        for (name, set, min, max) in cases {
            let with = |value| {
                let mut settings = AssSettings::default();
                set(&mut settings, value);
                AssStyle::new(settings)
            };
            assert!(with(min).is_ok() && with(max).is_ok(), "{name}");
            assert!(with(max + 1).is_err_and(|e| e.to_string().starts_with(name)), "{name}");
            assert!(with(min - 1).is_err(), "{name}");
        }
    }

    /// A font's name cannot add a field or a line to the style.
    #[test]
    fn fonts_that_would_break_the_style_are_refused() {
        for font in ["", "a,b", "a\r\nDialogue: x", "@SimSun", &"x".repeat(65)] {
            let settings = AssSettings { font: font.into(), ..AssSettings::default() };
            assert_eq!(AssStyle::new(settings), Err(StyleError::Font(font.into())));
        }
        let settings = AssSettings { font: "Noto Sans CJK SC".into(), ..AssSettings::default() };
        assert!(AssStyle::new(settings).is_ok());
    }

    /// Lanes: as many as the area has room for, never more than asked, never none.
    #[test]
    fn lanes_fit_the_area() {
        let lanes = |font_px, area_percent, lanes_max| {
            let settings = AssSettings { font_px, area_percent, lanes_max, ..AssSettings::default() };
            AssStyle::new(settings).expect("within bounds").lanes()
        };
        assert_eq!(lanes(48, 100, 256), 21);
        assert_eq!(lanes(48, 50, 256), 10);
        assert_eq!(lanes(48, 100, 7), 7);
        assert_eq!(lanes(270, 10, 256), 1);
        assert_eq!(lanes(8, 100, 256), 108);
    }
}
