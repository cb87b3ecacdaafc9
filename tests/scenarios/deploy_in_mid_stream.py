#!/usr/bin/env python3
"""The server behind nginx is replaced in the middle of a stream, twice, and nobody notices.

In come the server's binary and how many watch, speak and ask; out go how long publishing paused, what failed and
what was lost. Raw viewers carry the mass, sessions of the `websockets` library keep books of their own. While the first
restart goes on some viewers are away, like phones without a network, and come back to another process than they left.

Run it with an interpreter that has `websockets`, such as the one that tests/clients/run.py makes:
target/clients/venv/bin/python tests/scenarios/deploy_in_mid_stream.py
"""

import argparse
import asyncio
import itertools
import os
import pathlib
import random
import resource
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "clients" / "python"))

from askers import Askers  # noqa: E402
from listeners import Room, Viewer  # noqa: E402
from proxy import Proxy  # noqa: E402
from server import Server  # noqa: E402
from session import Session  # noqa: E402

PAUSE_SECONDS_MAX = 2
# How long before a restart the phones lose their network, and for how long.
AWAY_BEFORE, AWAY_SECONDS = 5, 10
JOINING_AT_ONCE = 64
SETTLE_SECONDS_MAX = 30
SETTINGS = {
    "DANMAKU__SERVER__TRUSTED_PROXIES": '["127.0.0.1"]',
    # Everybody has one address here.
    "DANMAKU__CONNECTIONS__PER_IPV4": "1000000",
    "DANMAKU__ROOM__CREATE_PER_MIN": "1000000",
    # Whoever speaks here speaks for many.
    "DANMAKU__LIMITS__USER_MODE": "off",
}


class Authors:
    """Sessions of `websockets` that speak at a steady rate together, and never repeat themselves."""

    def __init__(self, sessions, per_second):
        # Each with the room that it is in.
        self.sessions, self.every = sessions, len(sessions) / per_second
        self.longest, self.pause, self.acks, self.wrong = 0.0, 0.0, 0, []
        self.last = None

    def start(self, group, stop):
        self.last = time.monotonic()
        for number, (session, room) in enumerate(self.sessions):
            group.create_task(self.run(number, session, room, stop))

    async def run(self, number, session, room, stop):
        due = time.monotonic() + self.every * number / len(self.sessions)
        for n in itertools.count():
            await asyncio.sleep(due - time.monotonic())
            if stop.is_set():
                return
            began = time.monotonic()
            kind, body = await session.fate(f"{number}-{n}", f"{number} says {n}")
            now = time.monotonic()
            if kind == "ack":
                room.ack(body["seq"], f"{number} says {n}")
                self.acks += 1
                self.longest, self.pause = max(self.longest, now - began), max(self.pause, now - self.last)
                self.last = now
            else:
                self.wrong.append(f"comment {n} of author {number} was refused: {body}")
            # Nobody makes up for what a pause has kept it from saying.
            due = max(due + self.every, now)


def room_of(rooms, number):
    """The large room takes a tenth of all, the others the rest in turn."""
    return rooms[0] if number % 10 == 0 else rooms[1 + number % (len(rooms) - 1)]


async def join_all(viewers, address):
    """A few at a time."""
    turn = asyncio.Semaphore(JOINING_AT_ONCE)

    async def join(viewer):
        async with turn:
            await viewer.join(address)

    await asyncio.gather(*(join(viewer) for viewer in viewers))


async def be_away(phones, address, at):
    """Some lose their network while the server is replaced, and come back."""
    await asyncio.sleep(at - AWAY_BEFORE)
    for phone in phones:
        phone.cut()
    await asyncio.sleep(AWAY_SECONDS)
    await join_all(phones, address)


async def restart(server, at, pauses):
    await asyncio.sleep(at)
    began = time.monotonic()
    await asyncio.to_thread(server.take_over)
    pause_us = await asyncio.to_thread(server.metric, "danmaku_taken_over_pause_us_max")
    pauses.append(pause_us / 1e6)
    print(f"at {at:g} s: replaced; paused for {pauses[-1] * 1e3:.0f} ms, the old process ended {time.monotonic() - began:.1f} s after it was asked", flush=True)


async def settled(viewers, sessions):
    """Waits until everybody has heard the last comment of its room, as long as that may take."""
    def behind():
        late = sum(1 for viewer in viewers if not viewer.wrong and viewer.cursor < max(viewer.room.acked, default=0))
        return late + sum(1 for session, room in sessions if session.log.cursor < max(room.acked, default=0))

    until = time.monotonic() + SETTLE_SECONDS_MAX
    while behind() and time.monotonic() < until:
        await asyncio.sleep(0.1)


def judge_session(session, room, restarts):
    """What is wrong with the book of a `websockets` session."""
    kinds = [kind for kind, _ in session.messages]
    told = {kind: kinds.count(kind) for kind in ("joined", "epoch", "gap", "reconnect")}
    if session.broken:
        return f"a session of {room.name}: {session.broken}"
    if told != {"joined": 1, "epoch": restarts, "gap": 0, "reconnect": 0}:
        return f"a session of {room.name} was told {told}"
    first = session.joined.get("seq", 0)
    if session.log.texts() != {seq: text for seq, text in sorted(room.acked.items()) if seq > first}:
        return f"the log of a session of {room.name} is not what was acked"
    return None


async def story(server, proxy, arguments):
    """The whole run; gives the sentences that say what went wrong."""
    address, restarts = (proxy.host, proxy.port), len(arguments.at)
    rooms = [Room(f"stream-{n}") for n in range(arguments.rooms)]
    viewers = [Viewer(room_of(rooms, n), f"{proxy.host}:{proxy.port}") for n in range(arguments.clients)]
    began = time.monotonic()
    await join_all(viewers, address)
    sessions = [(await Session.open(proxy, room.name, query="&snapshot=none"), room) for room in rooms]
    print(f"{len(viewers)} viewers and {len(sessions)} sessions came in within {time.monotonic() - began:.1f} s", flush=True)
    wrong = [viewer.wrong for viewer in viewers if viewer.wrong]
    if wrong:
        return wrong
    authors, askers = Authors(sessions, arguments.comments), Askers(address, rooms, arguments.requests)
    phones = random.Random(7).sample(viewers, min(arguments.phones, len(viewers)))
    stop, pauses = asyncio.Event(), []
    async with asyncio.TaskGroup() as group:
        authors.start(group, stop)
        askers.start(group, stop)
        group.create_task(be_away(phones, address, arguments.at[0]))
        for at in arguments.at:
            group.create_task(restart(server, at, pauses))
        await asyncio.sleep(arguments.seconds)
        stop.set()
    await settled(viewers, sessions)
    comments = sum(len(room.acked) for room in rooms)
    print(f"{comments} comments acked ({authors.acks} over WebSocket); the slowest ack took {authors.longest * 1e3:.0f} ms, "
          f"the longest time without any {authors.pause * 1e3:.0f} ms")
    print(f"{askers.answered} requests answered, {len(askers.wrong)} failed; the slowest took {askers.longest * 1e3:.0f} ms")
    print(f"{sum(len(viewer.heard) for viewer in viewers)} deliveries to raw viewers; "
          f"{sum(phone.recoveries for phone in phones)} of {len(phones)} phones recovered")
    wrong = authors.wrong + askers.wrong
    wrong += filter(None, (viewer.judge() for viewer in viewers))
    wrong += filter(None, (judge_session(session, room, restarts) for session, room in sessions))
    wrong += [f"a viewer of {v.room.name} was told of {v.changes} changes" for v in viewers if v.changes != restarts]
    wrong += [f"{room.name} had the epochs {room.epochs}" for room in rooms if len(room.epochs) != restarts + 1]
    wrong += [f"{pause:.2f} s of pause" for pause in [authors.longest, *pauses] if pause > PAUSE_SECONDS_MAX]
    if sum(phone.recoveries for phone in phones) != len(phones):
        wrong.append("not every phone was recovered")
    for session, _ in sessions:
        await session.close()
    for viewer in viewers:
        viewer.cut()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/danmaku")
    parser.add_argument("--nginx", default=shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"))
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--rooms", type=int, default=50, help="each has one author; the first is the large one")
    parser.add_argument("--comments", type=float, default=50, help="a second, all authors together")
    parser.add_argument("--requests", type=float, default=200, help="a second over HTTP")
    parser.add_argument("--phones", type=int, default=200, help="viewers that are away during the first restart")
    parser.add_argument("--at", type=float, action="append", help="when to restart, seconds (60 and 120)")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="the same with few, within a quarter of a minute")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.clients, arguments.rooms, arguments.phones = 300, 10, 20
        arguments.at, arguments.seconds = arguments.at or [6], 14
    arguments.at = arguments.at or [60, 120]
    if not arguments.server.is_file():
        parser.error(f"{arguments.server} is not there: build it with `cargo build --release`")
    if not arguments.nginx:
        parser.error("nginx is not there: install it, or say where it is with --nginx")
    # Here, and inherited by nginx, which has one on either side.
    wanted, (_, hard) = 2 * arguments.clients + 1000, resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted:
        parser.error(f"{wanted} descriptors are needed, and the system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ.update(SETTINGS)
    with Server(str(arguments.server.resolve()), arguments.workers) as server:
        with Proxy("nginx", arguments.nginx, server, arguments.clients + 500) as proxy:
            wrong = asyncio.run(story(server, proxy, arguments))
        if wrong:
            print(f"the server said: {server.said()}")
    for sentence in wrong[:20]:
        print(f"FAIL {sentence}")
    if len(wrong) > 20:
        print(f"FAIL and {len(wrong) - 20} more")
    print(f"{0 if wrong else 1} passed, {1 if wrong else 0} failed", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
