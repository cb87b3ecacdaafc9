#!/usr/bin/env python3
"""Runs clients that are not ours against the real server.

In come the path of the server's binary and names of suites (all by default). Python's packages go
into an environment under the cache folder, npm's beside their package.json; what cannot be had is
named, and the suites that need it are skipped. The last line is `N passed, N failed`; the exit code
is 1 when anything failed, else 77 when anything was skipped, so that a skip is never taken for a pass.
"""

import argparse
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE / "python"
NODE = HERE / "node"
ROOT = HERE.parent.parent
JS_CLIENT = ROOT / "clients" / "js"
SUITE_SECONDS_MAX = 900
# Automake's convention.
EXIT_SKIPPED = 77
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
# How node's test runner counts.
TAP_COUNTS = re.compile(r"^# pass (\d+)\n# fail (\d+)$", re.MULTILINE)


class Missing(Exception):
    """Something a suite needs is not on this machine and could not be installed."""


class Kitchen:
    """Prepares, once each, what the suites need."""

    def __init__(self, cache, rust):
        self.cache = cache
        self.rust = rust
        self.ready = {}

    def need(self, name):
        """Gives what `name` prepares, or raises the same Missing every time."""
        if name not in self.ready:
            try:
                self.ready[name] = getattr(self, name)()
            except Missing as missing:
                self.ready[name] = missing
        if isinstance(self.ready[name], Missing):
            raise self.ready[name]
        return self.ready[name]

    def python(self):
        """The interpreter of an environment that holds the wanted packages in the wanted versions."""
        wanted = (PYTHON / "requirements.txt").read_text()
        venv = self.cache / "venv"
        interpreter, stamp = venv / "bin" / "python", venv / "installed.txt"
        if not (stamp.exists() and stamp.read_text() == wanted and interpreter.exists()):
            packages = ", ".join(wanted.split())
            install([sys.executable, "-m", "venv", "--clear", str(venv)], f"a Python environment for {packages}")
            pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            install([*pip, "-r", str(PYTHON / "requirements.txt")], f"from PyPI: {packages}")
            stamp.write_text(wanted)
        return str(interpreter)

    def node(self):
        """The node program, with the packages of the lock file beside the tests."""
        return npm_packages(NODE)

    def js_client(self):
        """The node program, with the packages that the JavaScript client's tests need."""
        return npm_packages(JS_CLIENT)

    def rust_driver(self):
        """The Rust client's driver of the conformance script."""
        if not (self.rust and self.rust.is_file()):
            raise Missing("the driver: `cargo build -p danmaku-client --example conformance_driver`, then --rust-driver")
        return str(self.rust.resolve())

    def nginx(self):
        """The proxy."""
        return program("nginx")

    def haproxy(self):
        """The proxy."""
        return program("haproxy")

    def openssl(self):
        """The program that makes certificates."""
        return program("openssl")

    def sslscan(self):
        """The scanner."""
        return program("sslscan")

    def libass(self):
        """The renderer of subtitles."""
        try:
            ctypes.CDLL("libass.so.9")
        except OSError as error:
            raise Missing("the library libass.so.9") from error

    def chromium(self):
        """The browser."""
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        if not found:
            raise Missing("the program chromium")
        return found


def program(name):
    """The path of a program; those of the system are not on everybody's path."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    if not found:
        raise Missing(f"the program {name}")
    return found


def install(command, what):
    """Runs an installer; its last line of complaint goes into the Missing."""
    print(f"preparing: {what}", flush=True)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{what} ({error})") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise Missing(f"{what} ({said})")


def npm_packages(folder):
    """The node program, with the packages of a folder's lock file installed there."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Missing(f"the program {program}")
    # npm notes here what it installed; older than the lock file means another lock file.
    noted, lock = folder / "node_modules" / ".package-lock.json", folder / "package-lock.json"
    if not (noted.exists() and noted.stat().st_mtime >= lock.stat().st_mtime):
        # Scripts of packages would fetch browsers; none is needed.
        ci = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
        install(ci, f"from npm: the packages of {folder.relative_to(ROOT)}/package-lock.json")
    return "node"


def node_tests(kitchen, folder):
    """What node's own test runner finds in a folder of the JavaScript client."""
    files = sorted(map(str, (JS_CLIENT / "test" / folder).glob("*.test.mjs")))
    return [kitchen.need("js_client"), "--test", "--test-reporter=tap", *files]


def js_server_suite(kitchen, server):
    os.environ["CHROMIUM"] = kitchen.need("chromium")
    command = node_tests(kitchen, "server")
    return [kitchen.need("python"), str(PYTHON / "with_server.py"), "--server", server, "--", *command]


def conformance(driver):
    def suite(kitchen, _server):
        script = ROOT / "clients" / "conformance" / "run.py"
        return [kitchen.need("python"), str(script), "--driver", driver(kitchen)]

    return suite


def js_driver(kitchen):
    return f"{kitchen.need('js_client')} {JS_CLIENT / 'test' / 'driver.mjs'}"


def python_suite(file):
    return lambda kitchen, server: [kitchen.need("python"), str(PYTHON / file), "--server", server]


def proxy_suite(proxy):
    def suite(kitchen, server):
        return [*python_suite("test_proxies.py")(kitchen, server), "--proxy", proxy, "--program", kitchen.need(proxy)]

    return suite


def tls_suite(kitchen, server):
    programs = ["--openssl", kitchen.need("openssl"), "--sslscan", kitchen.need("sslscan")]
    return [*python_suite("test_tls.py")(kitchen, server), *programs]


def replay_suite(kitchen, server):
    kitchen.need("libass")
    return python_suite("test_replay.py")(kitchen, server)


def scenario_suite(file):
    """A story of tests/scenarios, in its short form."""

    def suite(kitchen, server):
        script = ROOT / "tests" / "scenarios" / file
        return [kitchen.need("python"), str(script), "--quick", "--server", server, "--nginx", kitchen.need("nginx")]

    return suite


def node_suite(file):
    return lambda kitchen, server: [kitchen.need("node"), str(NODE / file), "--server", server]


def browser_suite(file):
    return lambda kitchen, server: [*node_suite(file)(kitchen, server), "--chromium", kitchen.need("chromium")]


SUITES = {
    "python": python_suite("test_native.py"),
    "violations": python_suite("test_violations.py"),
    "events": python_suite("test_events.py"),
    "nginx": proxy_suite("nginx"),
    "haproxy": proxy_suite("haproxy"),
    "tls": tls_suite,
    "tokens": python_suite("test_tokens.py"),
    "replay": replay_suite,
    "example": python_suite("test_example.py"),
    "docs": python_suite("test_docs.py"),
    "docs-js": node_suite("test_docs.mjs"),
    "python-crowd": python_suite("test_crowd.py"),
    "python-handover": python_suite("test_handover.py"),
    "deploy-in-mid-stream": scenario_suite("deploy_in_mid_stream.py"),
    "node": node_suite("test_native.mjs"),
    "browser": browser_suite("test_browser.mjs"),
    "page": browser_suite("page_test.mjs"),
    "js-client": lambda kitchen, _server: node_tests(kitchen, "unit"),
    "js-client-server": js_server_suite,
    "conformance-js": conformance(js_driver),
    "conformance-rust": conformance(lambda kitchen: kitchen.need("rust_driver")),
}


def run(name, command):
    """Runs one suite and gives what it counted; a suite that dies without counting is one failure."""
    print(f"--- {name}", flush=True)
    # A group of its own, so that what a hanging suite started ends with it.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, _ = process.communicate(timeout=SUITE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        printed, _ = process.communicate()
        printed += f"\nnot done within {SUITE_SECONDS_MAX} s\n"
    sys.stdout.write(printed)
    counted = COUNTS.findall(printed) or TAP_COUNTS.findall(printed)
    passed, failed = map(int, counted[-1]) if counted else (0, 0)
    if process.returncode and not failed:
        print(f"FAIL {name}: ended with {process.returncode}")
        failed += 1
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=ROOT / "target/release/danmaku", type=pathlib.Path)
    parser.add_argument("--cache", default=ROOT / "target/clients", type=pathlib.Path)
    driver = ROOT / "target/debug/examples/conformance_driver"
    parser.add_argument("--rust-driver", default=driver, type=pathlib.Path)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.suites if name not in SUITES]
    if unknown:
        parser.error(f"there is no suite {unknown[0]!r}")
    if not arguments.server.is_file():
        parser.error(f"{arguments.server} is not there: build it with `cargo build --release`")
    kitchen = Kitchen(arguments.cache.resolve(), arguments.rust_driver)
    # A suite is over when its cases are: nobody is left to be sent away slowly.
    os.environ["DANMAKU__DRAIN__WINDOW"] = "0s"
    passed = failed = skipped = 0
    for name in arguments.suites or SUITES:
        try:
            command = SUITES[name](kitchen, str(arguments.server.resolve()))
        except Missing as missing:
            print(f"--- {name} SKIPPED, missing: {missing}", flush=True)
            skipped += 1
            continue
        more_passed, more_failed = run(name, command)
        passed, failed = passed + more_passed, failed + more_failed
    if skipped:
        print(f"{skipped} suites skipped")
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else EXIT_SKIPPED if skipped else 0)


if __name__ == "__main__":
    main()
