"""Thousands of raw viewers in one process: they connect, come back on a fixed clock, read, and keep time.

In come a server's address and how many are wanted; out go when each came back, and how long comments that carry the
time of their making took. Nothing of the project's code stands behind it but the attackers' frames.
"""

import errno
import re
import resource
import select
import socket
import struct
import time

from peer import LINGER_RESET, frames, upgrade

READ_BYTES = 64 << 10
# The time at which a comment was due, in its text.
DUE = re.compile(rb'"text":"due ([0-9]+)"')
WAITING, CONNECTING, ASKING, JOINED = range(4)
# Source addresses 127.0.2.1 and following, so that ports do not run out while old connections linger.
SOURCES = 8


def raise_descriptor_limit(wanted):
    """Lets this process have so many descriptors, or says that it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted:
        raise RuntimeError(f"{wanted} descriptors are needed, and the system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


class Viewer:
    """One viewer: its socket where it has one, and where it stands."""

    __slots__ = ("room", "socket", "state", "due", "got", "asked")

    def __init__(self, room):
        self.room, self.socket, self.state, self.due, self.got = room, None, WAITING, 0.0, b""


class Swarm:
    """All viewers, driven by `turn`."""

    def __init__(self, address, rooms, count, clock_seconds):
        self.address, self.host = address, f"{address[0]}:{address[1]}"
        self.clock_seconds = clock_seconds
        self.poll = select.epoll()
        self.viewers = [Viewer(rooms[n % len(rooms)]) for n in range(count)]
        self.by_number = {}
        self.waiting = list(self.viewers)
        self.joined = self.tries = self.refused = 0
        self.latencies = []
        self.errors = {}

    def turn(self, seconds):
        """Everything that is due, and everything that came, for at most so long."""
        now = time.monotonic()
        due = [viewer for viewer in self.waiting if viewer.due <= now]
        if due:
            self.waiting = [viewer for viewer in self.waiting if viewer.due > now]
            for viewer in due:
                self.connect(viewer)
        for number, events in self.poll.poll(0 if due else seconds, 1024):
            viewer = self.by_number.get(number)
            if viewer is None:
                continue
            if viewer.state == CONNECTING:
                self.connected(viewer)
            elif events:
                self.read(viewer)

    def connect(self, viewer):
        self.tries += 1
        viewer.socket = socket.socket()
        viewer.socket.setblocking(False)
        viewer.socket.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
        viewer.socket.bind((f"127.0.2.{1 + self.tries % SOURCES}", 0))
        failed = viewer.socket.connect_ex(self.address)
        if failed not in (0, errno.EINPROGRESS):
            return self.lost(viewer, errno.errorcode[failed])
        viewer.state = CONNECTING
        self.by_number[viewer.socket.fileno()] = viewer
        self.poll.register(viewer.socket.fileno(), select.EPOLLOUT)

    def connected(self, viewer):
        failed = viewer.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            return self.lost(viewer, errno.errorcode[failed])
        try:
            viewer.socket.send(upgrade(viewer.room, self.host, query="&snapshot=none&tier=full"))
        except OSError as error:
            return self.lost(viewer, errno.errorcode[error.errno])
        viewer.state, viewer.got = ASKING, b""
        self.poll.modify(viewer.socket.fileno(), select.EPOLLIN)

    def read(self, viewer):
        try:
            data = viewer.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            return self.lost(viewer, errno.errorcode[error.errno])
        if not data:
            return self.lost(viewer, "end")
        if viewer.state == ASKING:
            viewer.got += data
            if b'"joined"' in viewer.got:
                viewer.state, viewer.got = JOINED, b""
                self.joined += 1
            return
        now = time.time_ns()
        self.latencies += [(now - int(due)) / 1e6 for due in DUE.findall(data)]

    def lost(self, viewer, why):
        """Gone: it comes back when its clock strikes next."""
        self.errors[why] = self.errors.get(why, 0) + 1
        if viewer.state == JOINED:
            self.joined -= 1
        self.by_number.pop(viewer.socket.fileno(), None)
        viewer.socket.close()
        viewer.state, viewer.socket = WAITING, None
        viewer.due = time.monotonic() + self.clock_seconds
        self.waiting.append(viewer)

    def close(self):
        """Everybody leaves by RST: no port lingers."""
        for viewer in self.viewers:
            if viewer.socket:
                viewer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
                viewer.socket.close()


def p99(latencies):
    """The 99th percentile in milliseconds; None of nothing."""
    ordered = sorted(latencies)
    return ordered[int(len(ordered) * 0.99)] if ordered else None
