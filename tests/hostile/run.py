#!/usr/bin/env python3
"""Attacks a server in every way that a stranger may, beside honest clients who must not notice.

In come a server's binary (it is started on loopback), or the address of one that runs, and names of attacks; out
go one line per attack, a table of the honest clients' latencies beside each, and the counts. The exit code
is 1 where the server answered wrongly, lost something, grew beyond its bound or, in a full run, let the honest
clients wait longer than 1.5 times as long as in quiet.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "clients" / "python"))

import attacks_frames  # noqa: E402, F401
import attacks_http  # noqa: E402, F401
import attacks_life  # noqa: E402, F401
import attacks_rooms  # noqa: E402, F401
from crowd import Crowd  # noqa: E402
from ground import ATTACKS, CPU_SHARE_MAX, SLACK_SECONDS, Governor, Ground  # noqa: E402
from limits import Limits  # noqa: E402
from peer import Ended  # noqa: E402
from server import Server  # noqa: E402
from watch import Process, counters, eventually, get  # noqa: E402

MIB = 1 << 20
P99_RATIO_MAX = 1.5
# In a quick run the waiting attacks must not wait long; in a full one the defaults are what is measured.
QUICK_SETTINGS = ["websocket.handshake=2s", "slow_consumer.grace=2s", "server.rooms_max=1000", "room.linger=2s"]
# These fill what the kernel holds, or wait for it: no quick run has the time.
NOT_QUICK = {"unread-pages"}
FULL_SECONDS, QUICK_SECONDS = 8.0, 0.5


class Run:
    """A run against one server."""

    def __init__(self, arguments, address, admin, pid):
        self.arguments, self.address, self.admin = arguments, address, admin
        self.process = Process(pid) if pid else None
        self.limits = Limits(arguments.set)
        self.clients = 200 if arguments.quick else 1000
        self.seconds = arguments.seconds or (QUICK_SECONDS if arguments.quick else FULL_SECONDS)
        self.workers = workers(arguments)
        self.governor = Governor()
        self.failures, self.rows = [], []

    def counters(self):
        return counters(self.admin) if self.admin else {}

    def crowd(self, seconds):
        core = 1 if self.arguments.pin else None
        return Crowd(str(self.arguments.loadtest), self.address, self.clients, seconds, core)

    def fail(self, name, sentence):
        self.failures.append(f"{name}: {sentence}")
        print(f"FAIL {name}: {sentence}", flush=True)

    def quiet(self, name):
        """The honest clients alone; gives their p99 in milliseconds."""
        with self.crowd(self.seconds) as crowd:
            found = crowd.found()
        return self.honest(name, found)

    def honest(self, name, found, quiet_ms=None):
        """Judges and notes what the honest clients found."""
        for failure in found["failures"]:
            self.fail(name, f"honest clients: {failure}")
        p99 = found.get("p99_ms")
        if p99 is None:
            return None
        ratio = p99 / quiet_ms if quiet_ms else None
        if ratio and ratio > P99_RATIO_MAX and not self.arguments.quick:
            self.fail(name, f"the honest clients' p99 is {p99:.2f} ms, {ratio:.2f} times that of quiet")
        self.rows.append({"name": name, "p50_ms": found["p50_ms"], "p99_ms": p99, "ratio": ratio})
        self.rows[-1]["missing"] = found.get("missing")
        return p99

    def attack(self, name, running=None, honest=0):
        """One attack, and what it must have left behind; gives the line for the report."""
        function, _ = ATTACKS[name]
        before = self.counters()
        memory = self.process.memory() if self.process else 0
        if self.process:
            self.process.forget_peak()
            cpu = self.process.cpu_seconds()
        started = time.monotonic()
        ground = Ground(
            self.address, self.limits, self.seconds, self.arguments.quick, self.governor, self.counters, self.workers, running
        )
        ground.names = self.arguments.names_wanted
        try:
            function(ground)
        except AssertionError as error:
            self.fail(name, error)
        except Exception as error:  # noqa: BLE001 - a server that refuses connections fails the attack, not the run
            self.fail(name, f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - started
        if not ground.done:
            self.fail(name, "it did nothing")
        self.check_counters(name, ground, before)
        line = ", ".join(f"{number:g} {what}" for what, number in ground.done.items())
        if self.process:
            self.check_memory(name, ground, memory)
            line += f"; server {100 * (self.process.cpu_seconds() - cpu) / seconds:.0f} % of a core"
        return f"{seconds:.1f} s: {line}"

    def check_counters(self, name, ground, before):
        """Every counter that the attack names has moved as far as it must, and no handler panicked."""
        if not self.admin:
            return
        for counter, least in (*ground.expected.items(), ("session_panics", 0), ("room_reloads", 0)):
            moved = self.counters()[counter] - before[counter]
            # Others use a running server too; what the suite knows of one that is set otherwise is too little.
            exact = self.arguments.server and counter not in ground.loose
            if moved < least or (exact and moved != least):
                self.fail(name, f"danmaku_{counter} moved by {moved:g} in place of {least:g}")

    def check_memory(self, name, ground, before):
        if not self.process.alive():
            return self.fail(name, "the server is gone")
        bound, words = self.limits.memory_bound(before, ground.holds)
        peak = self.process.peak()
        said = f"memory at most {peak / MIB:.0f} of {bound / MIB:.0f} MiB ({words})"
        if peak > bound:
            return self.fail(name, said)
        print(f"     {said}")

    def settle(self, name, base):
        """The server is as it was: nobody is left who should not be, and a newcomer is served."""
        bound = self.limits["websocket.handshake"] + SLACK_SECONDS
        ground = Ground(self.address, self.limits, 0, True, self.governor, self.counters, self.workers)
        try:
            if self.admin:
                eventually(lambda: self.counters()["connections"] <= base, bound, "sessions that ended were not gone")
            status, _ = get(self.address, "/nowhere")
            if status != 404:
                self.fail(name, f"a newcomer's request is answered {status}")
            ground.member("newcomer").close()
        except (AssertionError, OSError, Ended) as error:
            self.fail(name, f"a newcomer afterwards: {error}")

    def full(self, names):
        """Each attack beside a crowd of its own."""
        quiet = [self.quiet("quiet, before")]
        for name in names:
            print(f"---- {name}: {ATTACKS[name][1]}", flush=True)
            with self.crowd(self.seconds) as crowd:
                line = self.attack(name, crowd.running)
                self.honest(name, crowd.found(), quiet[0])
            self.settle(name, 0)
            print(f"{'ok  ' if not self.failed(name) else 'FAIL'} {name}, {line}", flush=True)
        quiet.append(self.quiet("quiet, after"))

    def quick(self, names):
        """All attacks beside one crowd."""
        # Longer than they take: the honest clients are sent away when the last attack is over.
        with self.crowd(self.arguments.quick_seconds) as crowd:
            if self.admin:
                there = lambda: self.counters()["connections"] >= self.clients  # noqa: E731
                eventually(there, SLACK_SECONDS * 2, f"{self.clients} honest clients were not served")
            for name in names:
                line = self.attack(name)
                self.settle(name, self.clients)
                print(f"{'ok  ' if not self.failed(name) else 'FAIL'} {name}, {line}", flush=True)
            if not crowd.running():
                self.fail("quick", "the attacks took longer than --quick-seconds, so that the last had no witness")
            self.honest("all attacks", crowd.found())

    def failed(self, name):
        return any(failure.startswith(f"{name}: ") for failure in self.failures)

    def table(self):
        print(f"\n{'honest clients: ' + str(self.clients):<24} {'p50 ms':>8} {'p99 ms':>8} {'× quiet':>8} {'missing':>8}")
        for row in self.rows:
            ratio = f"{row['ratio']:.2f}" if row["ratio"] else ""
            print(f"{row['name']:<24} {row['p50_ms']:>8.2f} {row['p99_ms']:>8.2f} {ratio:>8} {row['missing']:>8g}")
        share = self.governor.highest
        print(f"the attacker took at most {100 * share:.0f} % of a core in any second")
        if share > CPU_SHARE_MAX and not self.arguments.quick:
            self.fail("attacker", f"it took {100 * share:.0f} % of a core, more than {100 * CPU_SHARE_MAX:.0f} %")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", type=pathlib.Path, help="path of the danmaku binary, to be started")
    where.add_argument("--target", help="HOST:PORT of a server that runs")
    parser.add_argument("--admin", help="HOST:PORT of its admin port: without it no counter is checked")
    parser.add_argument("--pid", type=int, help="its process, if it runs here: without it no memory is checked")
    parser.add_argument("--loadtest", type=pathlib.Path, default=ROOT / "target/release/loadtest")
    parser.add_argument("--seconds", type=float, help=f"per attack (default {FULL_SECONDS:g}; quick {QUICK_SECONDS:g})")
    parser.add_argument("--quick", action="store_true", help="shorter, smaller, and no latency is judged")
    parser.add_argument("--quick-seconds", type=float, default=35, help="how long the honest clients of a quick run talk")
    parser.add_argument("--pin", action="store_true", help="the server on core 0, everybody else on core 1")
    parser.add_argument("--names-wanted", type=int, default=0, help="room names that random-rooms asks for at least")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="what the server is set to")
    parser.add_argument("--json", type=pathlib.Path, help="write the honest clients' figures to this file")
    parser.add_argument("names", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in ATTACKS]
    if unknown:
        parser.error(f"there is no attack {unknown[0]!r}")
    for file in (arguments.server, arguments.loadtest):
        if file and not file.is_file():
            parser.error(f"{file} is not there: build it with `cargo build --release --workspace --bins`")
    if arguments.server and arguments.quick:
        named = {word.partition("=")[0] for word in arguments.set}
        arguments.set += [word for word in QUICK_SETTINGS if word.partition("=")[0] not in named]
    try:
        Limits(arguments.set)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def workers(arguments):
    """Worker threads: a server of our own has two, or one where it is pinned."""
    if arguments.server:
        return 1 if arguments.pin else 2
    return os.cpu_count()


def endpoint(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@contextlib.contextmanager
def attacked(arguments):
    """The server: where it is, where its counters are, its process."""
    if arguments.target:
        yield endpoint(arguments.target), endpoint(arguments.admin) if arguments.admin else None, arguments.pid
        return
    os.environ.update(Limits(arguments.set).environment, DANMAKU__DRAIN__WINDOW="0s")
    with Server(str(arguments.server.resolve()), workers=workers(arguments)) as server:
        if arguments.pin:
            # Its threads stand already: each is moved.
            for thread in os.listdir(f"/proc/{server.process.pid}/task"):
                os.sched_setaffinity(int(thread), {0})
        yield (server.host, server.port), (server.host, server.admin_port), server.process.pid
        said = server.said()
        if said.count("\n") > 50:
            print(f"the server's log ends with: {said}")


def main():
    arguments = parse()
    names = arguments.names or [name for name in ATTACKS if not (arguments.quick and name in NOT_QUICK)]
    with attacked(arguments) as (address, admin, pid):
        if arguments.pin:
            os.sched_setaffinity(0, {1})
            # Whatever else wants this core goes first: the honest clients' p99 must not be ours.
            os.sched_setscheduler(0, os.SCHED_IDLE | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        run = Run(arguments, address, admin, pid)
        run.quick(names) if arguments.quick else run.full(names)
        run.table()
    if arguments.json:
        arguments.json.write_text(json.dumps(run.rows, indent=1) + "\n")
    failed = {failure.partition(": ")[0] for failure in run.failures}
    print(f"{max(len(names) - len(failed), 0)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
