//! The `danmaku` binary.

use std::process::ExitCode;

/// Returns memory to the system after a crowd has left, which the system's allocator does not.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    danmaku::cli::run()
}
