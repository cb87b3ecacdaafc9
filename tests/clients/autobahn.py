#!/usr/bin/env python3
"""Runs the Autobahn test suite against the echo example.

    cargo build --release --example echo
    tests/clients/autobahn.py --echo target/release/examples/echo [--cases 1-7,10 | all]

The suite is written in Python 2: CPython 2.7 must be on PATH as `python2.7` or known to pyenv. It is
installed once into `target/autobahn`. Prints one line with the counts and then the cases that failed.
Exit code: 0 all passed, 1 some failed or the suite broke, 77 this machine cannot run it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / "target" / "autobahn"
PINS = {"virtualenv": "20.15.1", "autobahntestsuite": "25.10.1"}
EXIT_SKIPPED = 77
# The deflate groups send a thousand messages a case: by default only a few of them run.
DEFLATE_SAMPLE = ["12.1.1", "12.1.2", "12.2.1", "13.3.1", "13.4.1", "13.7.1"]
PASSED = {"OK", "NON-STRICT", "INFORMATIONAL"}
# These two groups offer nothing but a window of 9 bits. The server declines it on purpose (one deflated
# frame goes to every peer, and it needs 15), and the suite then runs nothing and says UNIMPLEMENTED.
# They are neither passed nor failed; any other verdict on them, or this one on another case, is judged
# like the rest.
DECLINED_GROUPS = ("13.3.", "13.5.")
DECLINED = "UNIMPLEMENTED"
# The suite writes its report only at the end, so that a run that hangs would leave nothing.
SECONDS_MAX = {"sample": 900, "all": 7200}


class Skipped(Exception):
    """This machine lacks what the suite needs."""


def python2():
    """The path of a CPython 2.7 that runs."""
    candidates = [shutil.which("python2.7")]
    if shutil.which("pyenv"):
        prefix = subprocess.run(["pyenv", "prefix", "2.7.18"], capture_output=True, text=True)
        if prefix.returncode == 0:
            candidates.append(os.path.join(prefix.stdout.strip(), "bin", "python2.7"))
    for candidate in filter(None, candidates):
        # A shim of pyenv is on PATH whether or not it leads anywhere.
        probe = [candidate, "-c", "import sys; sys.exit(sys.version_info[:2] != (2, 7))"]
        if subprocess.run(probe, capture_output=True).returncode == 0:
            return candidate
    raise Skipped("the Autobahn suite needs CPython 2.7, and there is none on PATH or in pyenv")


def install(python):
    """The path of wstest, installed if it is not there in the pinned version."""
    wstest = CACHE / "venv" / "bin" / "wstest"
    stamp = CACHE / "installed.json"
    if wstest.exists() and stamp.exists() and json.loads(stamp.read_text()) == PINS:
        return wstest
    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True)
    tool = CACHE / "virtualenv"
    commands = [
        [python, "-m", "pip", "install", "--quiet", "--target", str(tool), "virtualenv==" + PINS["virtualenv"]],
        [python, "-m", "virtualenv", "--quiet", str(CACHE / "venv")],
        [
            str(CACHE / "venv" / "bin" / "pip"),
            "install",
            "--quiet",
            "autobahntestsuite==" + PINS["autobahntestsuite"],
        ],
    ]
    for number, command in enumerate(commands):
        # Only the second one is to see the tool: inside the environment it would shadow packages.
        environment = dict(os.environ, PYTHONPATH=str(tool)) if number == 1 else None
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stdout + done.stderr, file=sys.stderr)
            raise Skipped("installing the Autobahn suite failed: " + " ".join(command))
    stamp.write_text(json.dumps(PINS))
    return wstest


@contextlib.contextmanager
def echo_server(binary):
    """The address of a running echo server."""
    server = subprocess.Popen([binary, "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = server.stdout.readline()
        started = re.fullmatch(r"listening on (\S+)\n", line)
        if not started:
            sys.exit("the echo server said {!r} instead of where it listens".format(line))
        yield started.group(1)
    finally:
        server.kill()
        server.wait()


def selection(cases):
    """The suite's patterns for what was asked, such as `1-7,10` or `6.4,12.1.1`."""
    if cases == "all":
        return ["*"]
    patterns = []
    for part in cases.split(","):
        span = re.fullmatch(r"(\d+)-(\d+)", part)
        groups = range(int(span.group(1)), int(span.group(2)) + 1) if span else [part]
        # A whole case is named exactly: `12.1.1.*` would match nothing.
        patterns += [str(group) if str(group).count(".") == 2 else "{}.*".format(group) for group in groups]
    return patterns


def run(wstest, address, patterns, seconds_max):
    """The suite's results: case -> (behaviour, behaviour of the close)."""
    with tempfile.TemporaryDirectory() as folder:
        spec = {
            "outdir": os.path.join(folder, "reports"),
            "servers": [{"agent": "danmaku", "url": "ws://" + address}],
            "cases": patterns,
            "exclude-cases": [],
            "exclude-agent-cases": {},
        }
        path = os.path.join(folder, "spec.json")
        pathlib.Path(path).write_text(json.dumps(spec))
        command = [str(wstest), "-m", "fuzzingclient", "-s", path]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds_max)
        except subprocess.TimeoutExpired:
            sys.exit("the suite was not done after {} s".format(seconds_max))
        index = pathlib.Path(spec["outdir"], "index.json")
        if done.returncode != 0 or not index.exists():
            sys.exit("the suite left no report:\n" + done.stdout[-4000:] + done.stderr[-4000:])
        report = json.loads(index.read_text())["danmaku"]
    return {case: (result["behavior"], result["behaviorClose"]) for case, result in report.items()}


def case_order(case):
    """1.10.1 after 1.9.1."""
    return [int(number) for number in case.split(".")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--echo", required=True, help="the echo example's binary")
    parser.add_argument("--cases", help="groups as 1-7,10 or cases as 6.4.1, or all; default 1-7,10 and some deflate")
    arguments = parser.parse_args()
    try:
        wstest = install(python2())
    except Skipped as why:
        print("skipped: {}".format(why))
        return EXIT_SKIPPED
    patterns = selection(arguments.cases) if arguments.cases else selection("1-7,10") + DEFLATE_SAMPLE
    seconds_max = SECONDS_MAX["all" if arguments.cases else "sample"]
    with echo_server(arguments.echo) as address:
        results = run(wstest, address, patterns, seconds_max)
    declined = {
        case
        for case, result in results.items()
        if case.startswith(DECLINED_GROUPS) and result[0] == DECLINED and result[1] in PASSED
    }
    judged = {case: result for case, result in results.items() if case not in declined}
    failed = {case: result for case, result in judged.items() if not PASSED.issuperset(result)}
    passed = len(judged) - len(failed)
    print("{} passed, {} failed, {} declined by design".format(passed, len(failed), len(declined)))
    for case in sorted(failed, key=case_order):
        print("{}: {}, close {}".format(case, *failed[case]))
    for case in sorted(results, key=case_order):
        if case not in failed and results[case] != ("OK", "OK"):
            print("{}: {}, close {} (not a failure)".format(case, *results[case]))
    # No case at all proves nothing.
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
