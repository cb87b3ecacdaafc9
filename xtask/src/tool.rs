//! Cargo's own add-ons: named with their version, built once, kept under `target/tools`.

use std::path::PathBuf;
use std::process::Command;

use crate::process;
use crate::repository::Repository;
use crate::step::StepError;

/// A program that `cargo install` brings.
pub(crate) struct Tool {
    /// The crate, which is also the program.
    pub(crate) name: &'static str,
    /// The only version that is used, so that a check means the same on every machine.
    pub(crate) version: &'static str,
}

/// Licences, banned crates and sources.
pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
/// Builds and runs the fuzz targets.
pub(crate) const CARGO_FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2" };

impl Tool {
    /// The folder that holds the program, installed first if it is not there in this version.
    pub(crate) fn folder(&self, repository: &Repository) -> Result<PathBuf, StepError> {
        let root = repository.target.join("tools");
        let folder = root.join("bin");
        if self.is_in(&folder) {
            return Ok(folder);
        }
        println!("building {} {} once into target/tools", self.name, self.version);
        let mut install = process::cargo(&repository.root);
        install.args(["install", self.name, "--version", self.version, "--locked", "--root"]).arg(&root);
        process::run(&mut install).map_err(|error| StepError::Missing {
            tool: format!("{} {}", self.name, self.version),
            remedy: format!("cargo could not install it ({error})"),
        })?;
        Ok(folder)
    }

    fn is_in(&self, folder: &std::path::Path) -> bool {
        // `cargo-deny 1.2.3`: the version is a word of its own.
        process::version(Command::new(folder.join(self.name)).arg("--version"))
            .is_some_and(|said| said.split_whitespace().any(|word| word == self.version))
    }
}
