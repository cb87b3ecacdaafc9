#!/usr/bin/env python3
"""After `kill -9` and a restart thousands come back at once, each on a fixed clock, and the server takes it.

In comes the server's binary; out go how long it took until everybody was back, the p99 of the talk before, while
and after, and how many lines the server logged. The exit code is 1 where somebody was not back within 10 s of
the restart, the p99 was not back to 1.5 times the quiet one 5 s later, or the log was a flood.
"""

import argparse
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "hostile"), str(HERE.parent / "clients" / "python")]

from peer import command  # noqa: E402
from swarm import JOINED, Swarm, p99, raise_descriptor_limit  # noqa: E402
from watch import counters  # noqa: E402

BACK_SECONDS_MAX = 10
SETTLED_SECONDS_MAX = 5
P99_RATIO_MAX = 1.5
LOG_LINES_MAX = 50
START_SECONDS_MAX = 30
QUIET_SECONDS = 5
# Of the talking room, which every viewer is in or not: members who hear, and comments a second by each speaker.
TALKERS = 10
PER_TALKER_S = 1.5


class Server:
    """The server on ports that stay the same over its lives."""

    def __init__(self, binary, folder, workers):
        self.address, self.admin = free_address(), free_address()
        self.log = pathlib.Path(folder) / "log"
        self.command = [binary, "serve", "--listen", "%s:%d" % self.address, "--admin-listen", "%s:%d" % self.admin]
        self.command += ["--data-dir", str(pathlib.Path(folder) / "data"), "--workers", str(workers)]

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )

    def kill(self):
        self.process.kill()
        self.process.wait()

    def log_lines(self):
        return self.log.read_bytes().count(b"\n")


def free_address():
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        return asking.getsockname()


class Talk:
    """Viewers of one room who also speak, in turn, at a steady rate."""

    def __init__(self, swarm, room):
        self.speakers = [viewer for viewer in swarm.viewers if viewer.room == room][:TALKERS]
        self.next, self.number = time.monotonic(), 0

    def turn(self):
        now = time.monotonic()
        while self.next <= now:
            late_ns = int((now - self.next) * 1e9)
            self.next += 1 / (TALKERS * PER_TALKER_S)
            self.number += 1
            speaker = self.speakers[self.number % len(self.speakers)]
            if speaker.state == JOINED:
                due = time.time_ns() - late_ns
                try:
                    speaker.socket.send(command(f'{{"send":{{"id":"{self.number}","text":"due {due}"}}}}'))
                except OSError:
                    # It is gone and has not been told yet.
                    pass


def run_until(swarm, talk, done, seconds):
    """Turns until `done()`; gives how long that took, or None when the time is over."""
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        swarm.turn(0.005)
        talk.turn()
        if done():
            return time.monotonic() - started
    return None


def measure(swarm, talk, seconds):
    """The p99 of what is said in the next seconds."""
    swarm.latencies.clear()
    run_until(swarm, talk, lambda: False, seconds)
    return p99(swarm.latencies)


def story(server, arguments):
    """The whole run; gives the sentences that say what went wrong."""
    rooms = ["talk"] + [f"silent-{n}" for n in range(arguments.rooms)]
    swarm = Swarm(server.address, rooms, arguments.clients, arguments.clock_ms / 1000)
    talk = Talk(swarm, "talk")
    everybody = lambda: swarm.joined == arguments.clients  # noqa: E731
    wrong = []
    server.start()
    try:
        first = run_until(swarm, talk, everybody, START_SECONDS_MAX)
        if first is None:
            return [f"only {swarm.joined} of {arguments.clients} came in within {START_SECONDS_MAX} s: {swarm.errors}"]
        print(f"{arguments.clients} clients came in within {first:.2f} s")
        run_until(swarm, talk, lambda: False, 1)
        quiet = measure(swarm, talk, QUIET_SECONDS)
        print(f"quiet: p99 {quiet:.2f} ms")
        before = server.log_lines()
        swarm.errors.clear()
        server.kill()
        killed = time.monotonic()
        # Longer than everybody's clock: all of them are knocking when it comes back.
        run_until(swarm, talk, lambda: False, arguments.down)
        knocking, swarm.tries = swarm.tries, 0
        server.start()
        back = run_until(swarm, talk, everybody, 6 * BACK_SECONDS_MAX)
        if back is None:
            return [f"only {swarm.joined} of {arguments.clients} came back: {swarm.errors}"]
        print(f"all back {back:.2f} s after the restart, by {swarm.tries} tries; down {time.monotonic() - killed - back:.2f} s")
        if back > BACK_SECONDS_MAX:
            wrong.append(f"the last was back {back:.1f} s after the restart, not within {BACK_SECONDS_MAX} s")
        wrong += settled(swarm, talk, quiet)
        wrong += bounded_log(server, before)
        told = counters(server.admin)
        print(f"the server counts {told['connections']:g} sessions, {told['accept_errors']:g} failed accepts")
        print(f"while it was away they knocked {knocking} times in all; ends: {swarm.errors}")
    finally:
        swarm.close()
    return wrong


def settled(swarm, talk, quiet):
    """Whether the talk is as quick as before within its time; each second has its own p99."""
    found = []
    for _ in range(SETTLED_SECONDS_MAX):
        found.append(measure(swarm, talk, 1))
        if found[-1] is not None and found[-1] <= P99_RATIO_MAX * quiet:
            break
    words = ", ".join("nothing heard" if p is None else f"{p:.2f}" for p in found)
    print(f"p99 of each second after the last return, ms: {words}")
    if found[-1] is None or found[-1] > P99_RATIO_MAX * quiet:
        return [f"after {SETTLED_SECONDS_MAX} s the p99 was {found[-1]} ms, more than {P99_RATIO_MAX} x {quiet:.2f}"]
    return []


def bounded_log(server, before):
    lines = server.log_lines() - before
    print(f"the server logged {lines} lines since the kill")
    return [f"the server logged {lines} lines, more than {LOG_LINES_MAX}"] if lines > LOG_LINES_MAX else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/danmaku")
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--rooms", type=int, default=9, help="silent rooms beside the one that talks")
    parser.add_argument("--clock-ms", type=int, default=100, help="how long each waits before it comes back")
    parser.add_argument("--down", type=float, default=1.0, help="seconds for which nobody listens")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if not arguments.server.is_file():
        parser.error(f"{arguments.server} is not there: build it with `cargo build --release`")
    raise_descriptor_limit(arguments.clients + 100)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(str(arguments.server.resolve()), folder, arguments.workers)
        try:
            wrong = story(server, arguments)
        finally:
            server.kill()
    for sentence in wrong:
        print(f"FAIL {sentence}")
    print("failed" if wrong else "passed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
