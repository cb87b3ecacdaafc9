//! Programs that come as Debian packages: installed by name where this process may, named where not.

use std::process::Command;

use crate::process;

/// A program that a step needs, and the packages that bring it.
pub(crate) struct Program {
    /// What is started.
    pub(crate) name: &'static str,
    /// Arguments that make it answer at once and without effect.
    pub(crate) probe: &'static [&'static str],
    /// The packages, by Debian's names.
    pub(crate) packages: &'static [&'static str],
}

impl Program {
    /// Makes the program available.
    ///
    /// # Errors
    /// A sentence that names the packages to install by hand.
    pub(crate) fn ensure(&self) -> Result<(), String> {
        if self.answers() {
            return Ok(());
        }
        let packages = self.packages.join(" ");
        let missing = |why: &str| Err(format!("{} is missing (Debian: {packages}) and {why}", self.name));
        if !is_root() {
            return missing("only root may install it");
        }
        if process::version(Command::new("apt-get").arg("--version")).is_none() {
            return missing("there is no apt-get to install it with");
        }
        println!("installing {packages} for {}", self.name);
        // Lists may be as old as the machine's image; without new ones a package's file may be gone.
        let updated = apt(&["update", "-q"]);
        let installed = apt(&[&["install", "-q", "-y", "--no-install-recommends"], self.packages].concat());
        match (updated && installed, self.answers()) {
            (_, true) => Ok(()),
            (false, false) => missing("apt-get could not install it"),
            (true, false) => missing("does not start after its packages were installed"),
        }
    }

    fn answers(&self) -> bool {
        process::version(Command::new(self.name).args(self.probe)).is_some()
    }
}

fn is_root() -> bool {
    process::version(Command::new("id").arg("-u")).is_some_and(|said| said.trim() == "0")
}

fn apt(arguments: &[&str]) -> bool {
    let mut command = Command::new("apt-get");
    // A closed network must cost seconds, not the default of minutes.
    command.args(["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"]);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    process::status(&mut command).is_ok_and(|status| status.success())
}
