//! The steps, in the order in which a test run takes them: the cheap before the dear.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian::Program;
use crate::process;
use crate::repository::Repository;
use crate::step::{Outcome, Step, StepError};
use crate::{tidy, tool};

/// Every step.
pub(crate) const ALL: &[Step] = &[
    Step { name: "fmt", about: "rustfmt has nothing to change", in_test: true, run: fmt },
    Step { name: "tidy", about: "the sources keep the house rules", in_test: true, run: tidy::run },
    Step { name: "clippy", about: "clippy has no warning", in_test: true, run: clippy },
    Step { name: "pure", about: "the pure crates call nothing of the system", in_test: true, run: pure },
    Step { name: "unit", about: "unit and black-box tests pass", in_test: true, run: unit },
    Step { name: "doctest", about: "examples in the docs compile and pass", in_test: true, run: doctest },
    Step { name: "doc", about: "rustdoc has no warning", in_test: true, run: doc },
    Step { name: "loom", about: "the mailbox holds in every interleaving", in_test: true, run: loom },
    Step { name: "clients", about: "foreign clients agree with the server", in_test: true, run: clients },
    Step { name: "hostile", about: "no stranger's misuse is noticed by others", in_test: true, run: hostile },
    Step { name: "autobahn", about: "the Autobahn suite finds no fault", in_test: true, run: autobahn },
    Step { name: "deny", about: "licences, bans and sources are allowed", in_test: false, run: deny },
    Step { name: "fuzz-replay", about: "no committed fuzz input fails", in_test: false, run: fuzz_replay },
    Step { name: "bench-build", about: "the benches compile", in_test: false, run: bench_build },
];

/// Crates that know bytes and time only as arguments.
const PURE: [&str; 6] = [
    "danmaku-wire",
    "danmaku-room",
    "danmaku-placement",
    "danmaku-mailbox",
    "danmaku-words",
    "danmaku-replay",
];

fn fmt(repository: &Repository) -> Result<Outcome, StepError> {
    component(repository, "fmt", "rustfmt")?;
    passed(process::cargo(&repository.root).args(["fmt", "--all", "--check"]))
}

fn clippy(repository: &Repository) -> Result<Outcome, StepError> {
    component(repository, "clippy", "clippy")?;
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    passed(process::cargo(&repository.root).args(arguments))
}

/// The banned calls hold for the libraries alone: their tests may read goldens and start threads.
fn pure(repository: &Repository) -> Result<Outcome, StepError> {
    component(repository, "clippy", "clippy")?;
    let mut command = process::cargo(&repository.root);
    command.env("CLIPPY_CONF_DIR", repository.root.join("xtask/pure"));
    command.args(["clippy", "--lib", "--locked"]);
    for name in PURE {
        command.args(["-p", name]);
    }
    // On by default: `-D warnings` makes errors of the banned calls too.
    command.args(["--", "-D", "warnings"]);
    passed(&mut command)
}

fn unit(repository: &Repository) -> Result<Outcome, StepError> {
    let mut command = process::cargo(&repository.root);
    if process::version(process::cargo(&repository.root).args(["nextest", "--version"])).is_some() {
        command.args(["nextest", "run", "--workspace", "--locked"]);
    } else {
        println!("cargo-nextest is not on this machine: running `cargo test` in its place");
        command.args(["test", "--workspace", "--locked", "--lib", "--bins", "--tests"]);
    }
    passed(&mut command)
}

fn doctest(repository: &Repository) -> Result<Outcome, StepError> {
    passed(process::cargo(&repository.root).args(["test", "--workspace", "--locked", "--doc"]))
}

fn doc(repository: &Repository) -> Result<Outcome, StepError> {
    let mut command = process::cargo(&repository.root);
    command.args(["doc", "--workspace", "--locked", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    passed(&mut command)
}

/// Has a target folder of its own, since the flag would throw out every other build.
fn loom(repository: &Repository) -> Result<Outcome, StepError> {
    let mut command = process::cargo(&repository.root);
    command.args(["test", "-p", "danmaku-mailbox", "--release", "--locked", "--test", "loom_mailbox"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", repository.target.join("loom"));
    // Optimised enough to be quick; what the shipped binary adds would only take longer to build.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    passed(&mut command)
}

const PYTHON: Program = Program {
    name: "python3",
    // Debian splits ensurepip, without which no environment is made, from Python itself.
    probe: &["-c", "import venv, ensurepip"],
    packages: &["python3", "python3-venv"],
};
const NODE: Program = Program { name: "node", probe: &["--version"], packages: &["nodejs"] };
const NPM: Program = Program { name: "npm", probe: &["--version"], packages: &["npm"] };
const CHROMIUM: Program = Program { name: "chromium", probe: &["--version"], packages: &["chromium"] };
const LIBASS: Program = Program {
    name: "python3",
    probe: &["-c", "import ctypes; ctypes.CDLL('libass.so.9')"],
    packages: &["libass9"],
};
const NGINX: Program = Program { name: "nginx", probe: &["-v"], packages: &["nginx-light"] };
const OPENSSL: Program = Program { name: "openssl", probe: &["version"], packages: &["openssl"] };
const SSLSCAN: Program = Program { name: "sslscan", probe: &["--version"], packages: &["sslscan"] };
const HAPROXY: Program = Program { name: "haproxy", probe: &["-v"], packages: &["haproxy"] };

fn clients(repository: &Repository) -> Result<Outcome, StepError> {
    if let Err(why) = PYTHON.ensure() {
        return Ok(Outcome::Skipped(why));
    }
    // The runner looks for these itself and skips only the suites that need them: a miss is said, not fatal.
    for why in [NODE, NPM, CHROMIUM, LIBASS, NGINX, HAPROXY, OPENSSL, SSLSCAN]
        .iter()
        .filter_map(|program| program.ensure().err())
    {
        println!("{why}");
    }
    let server = release(repository, &["--bin", "danmaku"], Path::new("danmaku"))?;
    let driver = ["build", "--locked", "-p", "danmaku-client", "--example", "conformance_driver"];
    process::run(process::cargo(&repository.root).args(driver))?;
    let mut command = python(repository, "tests/clients/run.py");
    command.arg("--server").arg(server).arg("--cache").arg(repository.target.join("clients"));
    command.arg("--rust-driver").arg(repository.target.join("debug/examples/conformance_driver"));
    script(&mut command)
}

/// The quick form: exact answers, nothing lost, memory within its bound. Latencies are judged by a full run.
fn hostile(repository: &Repository) -> Result<Outcome, StepError> {
    if let Err(why) = PYTHON.ensure() {
        return Ok(Outcome::Skipped(why));
    }
    let server = release(repository, &["--bin", "danmaku"], Path::new("danmaku"))?;
    // Its few hundred clients need no optimizer, and the unit tests have built it already.
    process::run(process::cargo(&repository.root).args(["build", "--locked", "-p", "danmaku-loadtest"]))?;
    let mut command = python(repository, "tests/hostile/run.py");
    command.arg("--quick").arg("--server").arg(server);
    command.arg("--loadtest").arg(repository.target.join("debug/loadtest"));
    script(&mut command)
}

fn autobahn(repository: &Repository) -> Result<Outcome, StepError> {
    if let Err(why) = PYTHON.ensure() {
        return Ok(Outcome::Skipped(why));
    }
    let echo = release(repository, &["--example", "echo"], Path::new("examples/echo"))?;
    script(python(repository, "tests/clients/autobahn.py").arg("--echo").arg(echo))
}

fn python(repository: &Repository, file: &str) -> Command {
    let mut command = Command::new("python3");
    command.current_dir(&repository.root).arg(file);
    command
}

/// How a script says that it could not run, or not all of it (Automake's convention).
const EXIT_SKIPPED: i32 = 77;

fn script(command: &mut Command) -> Result<Outcome, StepError> {
    match process::run(command) {
        Ok(()) => Ok(Outcome::Passed),
        Err(StepError::Failed { status, .. }) if status.code() == Some(EXIT_SKIPPED) => {
            Ok(Outcome::Skipped("in whole or in part; what is missing stands above".to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// The advisory database is left out: it is not reachable from every machine that must be able to run this.
fn deny(repository: &Repository) -> Result<Outcome, StepError> {
    let folder = tool::CARGO_DENY.folder(repository)?;
    let mut command = Command::new(folder.join("cargo-deny"));
    command.current_dir(&repository.root).args(["--workspace", "--all-features", "--locked", "check"]);
    command.args(["--hide-inclusion-graph", "licenses", "bans", "sources"]);
    passed(&mut command)
}

fn fuzz_replay(repository: &Repository) -> Result<Outcome, StepError> {
    let folder = tool::CARGO_FUZZ.folder(repository)?;
    let fuzz = |arguments: &[&str]| {
        let mut command = Command::new(folder.join("cargo-fuzz"));
        // The sanitizer's flags are unstable; the pinned compiler takes them under this variable.
        command.current_dir(&repository.root).env("RUSTC_BOOTSTRAP", "1").args(arguments);
        // Where builds go is the fuzz crate's own affair: its flags would throw out the ordinary ones.
        command.env_remove("CARGO_TARGET_DIR");
        command
    };
    let printed = process::output(&mut fuzz(&["list"]))?;
    for target in String::from_utf8_lossy(&printed).split_whitespace() {
        let corpus = repository.root.join("fuzz/corpus").join(target);
        let inputs = std::fs::read_dir(&corpus).map_or(0, Iterator::count);
        if inputs == 0 {
            return Err(StepError::NoCorpus(target.to_owned()));
        }
        println!("{target}: {inputs} inputs");
        process::run(&mut fuzz(&["run", target, "--", "-runs=0"]))?;
    }
    Ok(Outcome::Passed)
}

fn bench_build(repository: &Repository) -> Result<Outcome, StepError> {
    // Unoptimized: what is checked is that they compile, and their optimized form takes minutes to link.
    passed(process::cargo(&repository.root).args(["build", "--workspace", "--locked", "--benches"]))
}

fn passed(command: &mut Command) -> Result<Outcome, StepError> {
    process::run(command).map(|()| Outcome::Passed)
}

fn component(repository: &Repository, command: &str, name: &str) -> Result<(), StepError> {
    match process::version(process::cargo(&repository.root).args([command, "--version"])) {
        Some(_) => Ok(()),
        None => Err(StepError::Missing {
            tool: name.to_owned(),
            remedy: format!("install it with `rustup component add {name}`"),
        }),
    }
}

/// Builds one program of the root package as it is shipped and says where it lies.
fn release(repository: &Repository, what: &[&str], file: &Path) -> Result<PathBuf, StepError> {
    process::run(process::cargo(&repository.root).args(["build", "--release", "--locked"]).args(what))?;
    Ok(repository.target.join("release").join(file))
}
