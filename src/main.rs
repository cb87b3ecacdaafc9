//! The `danmaku` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    danmaku::cli::run()
}
