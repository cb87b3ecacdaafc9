//! When a published key set is asked for, and what becomes of the answer.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::key_set::{JWKS_BYTES_MAX, KeyError, VerificationKey, published};
use crate::config::auth::{JwksSettings, JwksSource};
use crate::outbound::fetch::{FetchError, fetch};
use crate::watched::{Look, look};

/// The least time between two fetches, seconds, whatever keys tokens may name.
pub const FETCH_EVERY_S_MIN: u64 = 30;

/// Why there is no newer key set.
#[derive(Debug, thiserror::Error)]
pub enum PublicationError {
    /// It could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Its file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What came cannot be used.
    #[error("{origin}: {source}")]
    Keys {
        /// Whence it came.
        origin: String,
        /// Why.
        source: KeyError,
    },
}

/// The state of asking for one key set.
#[derive(Debug, Default)]
pub struct Publication {
    settings: Option<JwksSettings>,
    pace: Pace,
    seen: Option<Look>,
}

impl Publication {
    /// For a configured source, not asked yet.
    pub fn new(settings: Option<JwksSettings>) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes other settings over. Whether the source is another one, whose keys are not known yet.
    pub fn reconfigure(&mut self, settings: Option<JwksSettings>) -> bool {
        let source = |settings: &Option<JwksSettings>| settings.as_ref().map(|s| s.source.clone());
        let other = source(&self.settings) != source(&settings);
        self.settings = settings;
        if other {
            (self.pace, self.seen) = (Pace::default(), None);
        }
        other
    }

    /// What is to be asked now, if it is time: noted as asked.
    pub fn due(&mut self, wanted: &AtomicBool, started: Instant) -> Option<JwksSettings> {
        let settings = self.settings.as_ref()?;
        let due = match &settings.source {
            JwksSource::File(path) => {
                let now = look(path);
                let changed = !self.pace.asked() || now != self.seen;
                self.seen = now;
                changed
            }
            JwksSource::Url(_) => {
                let now_s = started.elapsed().as_secs();
                self.pace.due(now_s, wanted.load(Ordering::Relaxed), settings.refresh_s)
            }
        };
        if !due {
            return None;
        }
        wanted.store(false, Ordering::Relaxed);
        self.pace.ask(started.elapsed().as_secs());
        Some(settings.clone())
    }

    /// Notes whether the last question was answered.
    pub fn answered(&mut self, well: bool) {
        self.pace.failed = !well;
    }

    /// Whether a source is configured, and it is this one.
    pub fn is_from(&self, settings: &JwksSettings) -> bool {
        self.settings.as_ref().is_some_and(|own| own.source == settings.source)
    }
}

/// Reads or fetches a key set.
///
/// # Errors
/// Why it could not be had, or not be used.
pub async fn ask(settings: &JwksSettings) -> Result<Vec<VerificationKey>, PublicationError> {
    match &settings.source {
        JwksSource::File(path) => read(path),
        JwksSource::Url(url) => {
            let bytes = fetch(url, &settings.terms).await?;
            let origin = || url.authority.clone();
            published(&bytes).map_err(|source| PublicationError::Keys { origin: origin(), source })
        }
    }
}

/// Reads a key set from a file.
///
/// # Errors
/// Why it could not be read, or not be used.
pub fn read(path: &Path) -> Result<Vec<VerificationKey>, PublicationError> {
    let mut bytes = Vec::new();
    // One byte more than there may be tells that there are too many.
    let whole =
        File::open(path).and_then(|file| file.take(JWKS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    whole.map_err(|source| PublicationError::File { path: path.to_owned(), source })?;
    let origin = || path.display().to_string();
    published(&bytes).map_err(|source| PublicationError::Keys { origin: origin(), source })
}

/// How often a source is asked.
#[derive(Debug, Default)]
struct Pace {
    asked_s: Option<u64>,
    failed: bool,
}

impl Pace {
    /// Whether it is time: at first, when the keys are old, and sooner where the last try failed or somebody wants a key
    /// that is not there; but never too soon.
    fn due(&self, now_s: u64, wanted: bool, refresh_s: u64) -> bool {
        let Some(asked_s) = self.asked_s else { return true };
        let age_s = now_s.saturating_sub(asked_s);
        age_s >= FETCH_EVERY_S_MIN && (wanted || self.failed || age_s >= refresh_s)
    }

    fn asked(&self) -> bool {
        self.asked_s.is_some()
    }

    fn ask(&mut self, now_s: u64) {
        self.asked_s = Some(now_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Pace::due`: a source hears of us at most every 30 s, for whatever reason.
    #[test]
    fn a_source_is_asked_in_time_and_never_too_often() {
        let mut pace = Pace::default();
        assert!(pace.due(0, false, 600));
        pace.ask(100);
        for (now_s, wanted, failed, due) in [
            (100, true, true, false),
            (129, true, true, false),
            (130, true, false, true),
            (130, false, true, true),
            (130, false, false, false),
            (699, false, false, false),
            (700, false, false, true),
            (99, true, true, false),
        ] {
            pace.failed = failed;
            assert_eq!(pace.due(now_s, wanted, 600), due, "{now_s} {wanted} {failed}");
        }
        // Whatever tokens name, for an hour.
        let (mut pace, mut asked) = (Pace::default(), 0);
        for now_s in 0..3_600 {
            if pace.due(now_s, true, 600) {
                pace.ask(now_s);
                asked += 1;
            }
        }
        assert_eq!(asked, 3_600 / FETCH_EVERY_S_MIN);
    }
}
