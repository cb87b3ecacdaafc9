//! The platform's receiver, as the server asks it.

use std::path::PathBuf;

use danmaku_webhook::{Client, Forwarding, Settings, SettingsError};

use crate::config::Config;
use crate::config::webhook::{Fail, HookSettings};
use crate::observe::cells::Cells;

/// Why a receiver cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Its authorities cannot be read.
    #[error("`webhook.ca = {path:?}`: {source}", path = .path.display().to_string())]
    Authorities {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A setting makes no sense, or its address may not be called.
    #[error("`[webhook]`: {0}")]
    Settings(#[from] SettingsError),
}

/// The receiver.
#[derive(Debug)]
pub struct Hook {
    /// Asks it.
    pub client: Client,
    /// Whether it is asked about connections; if so, what no answer means.
    pub connect: Option<Fail>,
    /// Headers of connections that it gets.
    pub forwarding: Forwarding,
}

impl Hook {
    /// The receiver of a configuration, if there is one. Nothing is connected before something is asked.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn of(config: &Config) -> Result<Option<Self>, HookError> {
        let Some(HookSettings { client, ca, connect, forwarding }) = config.webhook.clone() else {
            return Ok(None);
        };
        let ca_pem = match ca {
            None => None,
            Some(path) => match std::fs::read(&path) {
                Ok(pem) => Some(pem),
                Err(source) => return Err(HookError::Authorities { path, source }),
            },
        };
        let client = Client::new(Settings { ca_pem, ..client })?;
        Ok(Some(Self { client, connect, forwarding }))
    }

    /// Shows what the client has done, in the cells of one worker.
    pub fn tell_figures(&self, cells: &Cells) {
        let figures = self.client.figures();
        cells.webhook_asked.set(figures.asked);
        cells.webhook_answered.set(figures.answered);
        cells.webhook_failed.set(figures.failed.iter().sum());
        cells.webhook_calls.set(figures.calls);
        cells.webhook_connections.set(figures.connections);
        cells.webhook_running.set(figures.running);
        cells.webhook_breaker_max.set(figures.breaker as u64);
        cells.webhook_breaker_opened.set(figures.breaker_opened);
    }
}
