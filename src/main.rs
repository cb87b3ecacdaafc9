//! The `danmaku` binary: command line, then [`danmaku::serve`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use danmaku::config::{Config, Flags};
use danmaku::observe::logging;
use danmaku::serve::{Server, raise_descriptor_limit};

/// Returns memory to the system after a crowd has left, which the system's allocator does not.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit code for a configuration that cannot be used (sysexits.h `EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;
/// Exit code for everything else that keeps the server from starting.
const EXIT_FAILURE: u8 = 1;

/// Real-time danmaku (bullet comment) broadcast server.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clients; what happens without a command.
    Serve(Serve),
}

#[derive(Args, Default)]
struct Serve {
    /// Configuration file, TOML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where clients connect; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where metrics and health are read.
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<SocketAddr>,
    /// Where files go.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Worker threads; one per core unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::install();
    match cli.command.unwrap_or_else(|| Command::Serve(Serve::default())) {
        Command::Serve(serve) => run(serve),
    }
}

fn run(serve: Serve) -> ExitCode {
    let Serve { config, listen, admin_listen, data_dir, workers } = serve;
    let flags = Flags { listen, admin_listen, data_dir, workers };
    let config = match Config::load(config.as_deref(), flags) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("danmaku: {error}");
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    raise_descriptor_limit();
    match serve_until_signal(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("danmaku: {error}");
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

fn serve_until_signal(config: Config) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let listen = config.listen;
        let server = Server::start(config).map_err(|error| {
            std::io::Error::new(error.kind(), format!("cannot serve on {listen}: {error}"))
        })?;
        println!("listening on http://{}", server.listen);
        println!("admin on http://{}", server.admin);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        server.stop();
        let joined = tokio::task::spawn_blocking(move || server.join());
        tokio::select! {
            _ = joined => Ok(()),
            _ = terminate.recv() => std::process::exit(0),
            _ = interrupt.recv() => std::process::exit(0),
        }
    })
}
