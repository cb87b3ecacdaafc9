//! Where the repository lies and where builds go.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process;
use crate::step::StepError;

/// The work tree that the commands act on.
pub(crate) struct Repository {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// What `cargo metadata` says of this platform's dependencies.
    pub(crate) metadata: Value,
}

impl Repository {
    /// Asks cargo.
    ///
    /// The lock file must be up to date: a build that resolves again tests other versions than those
    /// that are committed.
    pub(crate) fn find() -> Result<Self, StepError> {
        // `cargo run` says where the package lies that is being run.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root =
            package.as_deref().and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_owned);
        let arguments =
            ["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"];
        let printed = process::output(process::cargo(&root).args(arguments))?;
        let metadata: Value =
            serde_json::from_slice(&printed).map_err(|_| StepError::Metadata("readable JSON"))?;
        let folder = |key: &'static str| {
            metadata[key].as_str().map(PathBuf::from).ok_or(StepError::Metadata("folder of the workspace"))
        };
        Ok(Self { root: folder("workspace_root")?, target: folder("target_directory")?, metadata })
    }
}
