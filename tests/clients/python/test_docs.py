"""Every command and snippet that the documentation shows, run as it is written.

A block of shell is run line by line in one folder of its own that looks like a checkout; a command that serves
is over when it says where it listens. A block in a language or of a kind that nothing here runs is a failure: a new kind of
snippet needs a way to run it.
"""

import asyncio
import os
import pathlib
import re
import signal
import subprocess
import tempfile

from battery import equal, main, sentence

ROOT = pathlib.Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", "docs/protocol.md", "docs/config.md", "docs/limits.md", "docs/faults.md", "docs/benchmarks.md", "ARCHITECTURE.md"]
COMMAND_SECONDS_MAX = 300
# It runs this test.
CALLERS = {"cargo xtask test"}
# Run elsewhere: JSON by crates/wire/tests/native_docs.rs, JavaScript by tests/clients/node/test_docs.mjs.
ELSEWHERE = {"json", "js"}
# Pictures made of text.
PICTURES = {""}
PORTS = {"DANMAKU__SERVER__LISTEN": "127.0.0.1:0", "DANMAKU__SERVER__ADMIN_LISTEN": "127.0.0.1:0"}


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text())


class Checkout:
    """A folder with links to what a checkout has, so that what commands write stays out of it."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name)
        for entry in ROOT.iterdir():
            if entry.name not in ("target", "data", ".git"):
                (path / entry.name).symlink_to(entry)
        release = path / "target" / "release"
        release.mkdir(parents=True)
        binary = pathlib.Path(self.server.command[0])
        (release / "danmaku").symlink_to(binary)
        (release / "loadtest").symlink_to(binary.with_name("loadtest"))
        return path

    def __exit__(self, *_):
        self.folder.cleanup()


def environment(command):
    found = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target"), "CARGO_TERM_QUIET": "true"}
    return {**found, **PORTS} if serves(command) else found


def serves(command):
    return command == "cargo run --release" or " serve" in command


def run(command, folder, server):
    """Runs a line; one that serves is told to stop once it listens."""
    command = command.replace("127.0.0.1:8080", f"{server.host}:{server.port}")
    # What asks the running server shows the key of its data directory.
    command = command.replace("cat data/staff.key", f"cat {server.data.name}/staff.key")
    # The checkout's own folder for cargo, which would build anew where the path is another.
    folder = ROOT if command.startswith("cargo ") else folder
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}" if serves(command) else command],
        cwd=folder, env=environment(command), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    said = ""
    if serves(command):
        for line in process.stdout:
            said += line
            if line.startswith("admin on"):
                process.send_signal(signal.SIGTERM)
                break
    try:
        said += process.communicate(timeout=COMMAND_SECONDS_MAX)[0] or ""
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"`{command}` did not end: {said}") from None
    equal(process.returncode, 0, f"`{command}` said {said}\nexit code")
    return said


async def every_kind_of_snippet_has_a_way_to_run(_server):
    for page in PAGES:
        for language, _ in blocks(page):
            assert language in {"sh", "toml", *ELSEWHERE, *PICTURES}, f"{page}: nothing runs a block of {language!r}"


async def every_command_of_the_documentation_works_as_written(server):
    commands = 0
    with Checkout(server) as folder:
        for page in PAGES:
            for language, text in blocks(page):
                for command in text.splitlines() if language == "sh" else []:
                    if command not in CALLERS:
                        await asyncio.to_thread(run, command, folder, server)
                        commands += 1
        assert (folder / "data" / "staff.key").exists(), "the first start made a key"
    assert commands >= 10, f"only {commands} commands were found"


async def every_setting_of_the_documentation_is_one(server):
    with tempfile.TemporaryDirectory() as folder:
        for page in PAGES:
            for _, text in filter(lambda block: block[0] == "toml", blocks(page)):
                path = pathlib.Path(folder) / "shown.toml"
                path.write_text(text)
                command = [server.command[0], "check-config", str(path)]
                checked = subprocess.run(command, text=True, capture_output=True, timeout=COMMAND_SECONDS_MAX)
                equal(checked.returncode, 0, f"{page}: {checked.stdout}{checked.stderr}\nexit code")


async def every_link_of_the_documentation_leads_somewhere(_server):
    links = 0
    for page in [*PAGES, *map(str, (ROOT / "docs" / "decisions").glob("*.md"))]:
        folder = (ROOT / page).parent
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            if "://" not in target:
                assert (folder / target).exists(), f"{page}: {target}"
                links += 1
    assert links > 20


if __name__ == "__main__":
    CASES = [every_kind_of_snippet_has_a_way_to_run, every_command_of_the_documentation_works_as_written]
    CASES += [every_setting_of_the_documentation_is_one, every_link_of_the_documentation_leads_somewhere]
    main([(sentence(case), case) for case in CASES])
