//! Starting other programs: never with an input to wait for, and with the command line in the error.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::step::StepError;

/// The cargo that runs this program, in `folder`.
pub(crate) fn cargo(folder: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(folder);
    command
}

/// Runs a command whose output goes to ours.
pub(crate) fn run(command: &mut Command) -> Result<(), StepError> {
    let status = status(command)?;
    if status.success() { Ok(()) } else { Err(StepError::Failed { command: line(command), status }) }
}

/// Runs a command and leaves it to the caller what its end means.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, StepError> {
    println!("$ {}", line(command));
    command.stdin(Stdio::null()).status().map_err(|source| not_started(command, source))
}

/// Runs a command for what it prints; its complaints go to ours.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, StepError> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| not_started(command, source))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(StepError::Failed { command: line(command), status: output.status }),
    }
}

/// What a program says when asked for its version, or nothing when it is not there.
pub(crate) fn version(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn not_started(command: &Command, source: std::io::Error) -> StepError {
    StepError::Io { what: PathBuf::from(command.get_program()), source }
}

/// The command line as one would type it.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
